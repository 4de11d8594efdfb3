//! A minimal client of the viewer that only receives frames, with a hand-written WebSocket.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use gausset_view::protocol::{FRAME_HEADER_BYTES, VERSION};
use serde_json::json;

/// Read timeout.
const READ_TIMEOUT: Duration = Duration::from_secs(30);

/// Header data of a received frame.
pub(super) struct ReceivedFrame {
    /// Id of the requested view.
    pub(super) id: u32,
    /// When the frame was received.
    pub(super) at: Instant,
    /// Time from sending the camera to receiving the whole frame.
    pub(super) ms: f64,
    pub(super) draw_ms: f64,
    pub(super) encode_ms: f64,
    pub(super) bytes: f64,
    pub(super) size: [u32; 2],
}

/// A minimal client of the viewer.
pub(super) struct ViewerClient {
    stream: TcpStream,
}

impl ViewerClient {
    /// Connects to a server, or to the near end of a link to it, and sends the hello message.
    pub(super) fn open(near: SocketAddr, server: SocketAddr, token: &str) -> io::Result<Self> {
        let stream = TcpStream::connect(near)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(READ_TIMEOUT))?;
        let mut page = Self { stream };
        let handshake = format!(
            "GET /ws HTTP/1.1\r\nHost: {server}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        );
        page.stream.write_all(handshake.as_bytes())?;
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            page.stream.read_exact(&mut byte)?;
            head.push(byte[0]);
        }
        page.send(&json!({"t": "hello", "version": VERSION, "token": token}).to_string())?;
        Ok(page)
    }

    /// Sends a text message. A WebSocket mask of zeros is valid, and no proxy is involved that would need a random one.
    pub(super) fn send(&mut self, text: &str) -> io::Result<()> {
        let mut bytes = vec![0x81];
        match text.len() {
            length @ 0..126 => bytes.push(0x80 | length as u8),
            length => {
                bytes.push(0x80 | 126);
                bytes.extend((length as u16).to_be_bytes());
            }
        }
        bytes.extend([0; 4]);
        bytes.extend(text.as_bytes());
        self.stream.write_all(&bytes)
    }

    /// A second handle of the same connection, for reading while this one sends.
    pub(super) fn reader(&self) -> io::Result<Self> {
        Ok(Self { stream: self.stream.try_clone()? })
    }

    /// Requests a view and waits for its frame.
    pub(super) fn request_frame(&mut self, view: &str) -> io::Result<ReceivedFrame> {
        let started = Instant::now();
        self.send(view)?;
        self.next_frame(started)
    }

    /// Waits for the next frame, whose camera was sent at `since`.
    pub(super) fn next_frame(&mut self, since: Instant) -> io::Result<ReceivedFrame> {
        loop {
            let (kind, bytes) = self.read()?;
            if kind == 8 {
                return Err(io::Error::other("the server has ended the connection"));
            }
            if kind == 2 && bytes.len() > FRAME_HEADER_BYTES {
                let word = |at: usize| [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]];
                let float = |at: usize| f64::from(f32::from_le_bytes(word(at)));
                let side = |at: usize| u32::from(u16::from_le_bytes([bytes[at], bytes[at + 1]]));
                return Ok(ReceivedFrame {
                    id: u32::from_le_bytes(word(4)),
                    at: Instant::now(),
                    ms: 1e3 * since.elapsed().as_secs_f64(),
                    draw_ms: float(16),
                    encode_ms: float(20),
                    bytes: (bytes.len() - FRAME_HEADER_BYTES) as f64,
                    size: [side(8), side(10)],
                });
            }
        }
    }

    /// Reads the next message: its WebSocket opcode and payload.
    fn read(&mut self) -> io::Result<(u8, Vec<u8>)> {
        let mut head = [0; 2];
        self.stream.read_exact(&mut head)?;
        let length = match head[1] {
            126 => {
                let mut length = [0; 2];
                self.stream.read_exact(&mut length)?;
                u64::from(u16::from_be_bytes(length))
            }
            127 => {
                let mut length = [0; 8];
                self.stream.read_exact(&mut length)?;
                u64::from_be_bytes(length)
            }
            length => length.into(),
        };
        let mut bytes = Vec::new();
        (&mut self.stream).take(length).read_to_end(&mut bytes)?;
        Ok((head[0] & 0x0f, bytes))
    }
}
