//! `gausset bench view`: frames that a page gets, all of the way: drawn, packed as JPEG, sent over the loopback. What a
//! browser needs to decode and show one is not in it.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use gausset_core::splats_transform::Similarity;
use gausset_flow::Failure;
use gausset_view::draw::{Look, answer};
use gausset_view::hub::Hub;
use gausset_view::protocol::{FRAME_HEAD, VERSION, rows};
use gausset_view::{Server, ServerOptions};
use serde::Serialize;
use serde_json::json;

use super::args::MeasureArgs;
use super::scene::Scene;
use super::timing::{median, peak_bytes};
use crate::commands::viewer::failure;
use crate::console::Console;
use crate::numbers::three_digits;
use crate::table;

/// Frames before the clock starts: their size settles.
const WARM_UP: u64 = 30;
/// Nothing takes longer.
const PATIENCE: Duration = Duration::from_secs(30);

/// The result: a stable contract.
#[derive(Debug, Serialize)]
pub(super) struct Measured {
    kind: &'static str,
    threads: usize,
    simd: String,
    /// Size that was asked for, and that of the last frame: smaller where it would have taken too long.
    asked: [u32; 2],
    drawn: [u32; 2],
    frames: u64,
    frames_per_s: f64,
    /// From the camera to the whole frame, median and 95th percentile.
    round_trip_ms: f64,
    round_trip_p95_ms: f64,
    /// Medians of the parts of it.
    draw_ms: f64,
    encode_ms: f64,
    frame_bytes: f64,
    peak_bytes: Option<u64>,
}

/// What a frame tells of itself.
struct Seen {
    ms: f64,
    draw_ms: f64,
    encode_ms: f64,
    bytes: f64,
    size: [u32; 2],
}

pub(super) fn measure(args: &MeasureArgs, console: &Console) -> Result<Measured, Failure> {
    if args.adam.is_some() || args.profile.is_some() {
        let what = if args.adam.is_some() { "--adam" } else { "--profile" };
        return Err(Failure::usage(format!(
            "{what}: has no effect on frames; leave it out, or take `bench train`"
        )));
    }
    let mut engine = args.compute.engine()?;
    let Scene { splats, view, options } = Scene::of(args, console)?;
    engine.load_splats(splats, Vec::new())?;
    let hub = Hub::new(gausset_view::scene::Scene::default());
    let options_of_server = ServerOptions { port: Some(0), ..ServerOptions::default() };
    let server = Server::start(Arc::clone(&hub), &options_of_server).map_err(failure)?;
    let (address, token, frames) = (server.address(), server.token().to_owned(), args.steps);
    let camera = view.camera;
    let page = std::thread::spawn(move || {
        let mut page = Page::open(address, &token)?;
        let mut seen = Vec::new();
        for id in 1..=WARM_UP + frames {
            let mut pose = rows(&view.pose);
            // A little aside each time: nothing can be kept.
            pose[3] += 1e-4 * id as f64;
            let intrinsics = [
                f64::from(camera.width),
                f64::from(camera.height),
                camera.fx,
                camera.fy,
                camera.cx,
                camera.cy,
            ];
            let message = json!({
                "t": "view", "id": id, "camera": intrinsics, "pose": pose, "moving": true, "ack": id - 1,
            });
            seen.push(page.see(&message.to_string())?);
            if id == WARM_UP {
                page.started = Some(Instant::now());
            }
        }
        let seconds = page.started.map_or(0.0, |started| started.elapsed().as_secs_f64());
        io::Result::Ok((seen.split_off(WARM_UP as usize), seconds))
    });
    let look =
        Look { photos: None, device_from_saved: Similarity::IDENTITY, options, scene_splats: None, step: 0 };
    while !page.is_finished() {
        match hub.take(0) {
            Some(job) => answer(&hub, &job, &mut *engine, &look),
            None => hub.wait(0, Duration::from_millis(20)),
        }
    }
    let lost =
        |error: &dyn std::fmt::Display| Failure::new("viewer", format!("bench: the page was lost: {error}"));
    let (seen, seconds) = page.join().map_err(|_| lost(&"it ended early"))?.map_err(|error| lost(&error))?;
    let of = |part: fn(&Seen) -> f64| median(&mut seen.iter().map(part).collect::<Vec<_>>());
    let mut trips: Vec<f64> = seen.iter().map(|seen| seen.ms).collect();
    trips.sort_by(f64::total_cmp);
    let device = engine.describe();
    Ok(Measured {
        kind: "bench-view",
        threads: device.threads,
        simd: device.level,
        asked: [camera.width, camera.height],
        drawn: seen.last().map_or([0; 2], |seen| seen.size),
        frames,
        frames_per_s: frames as f64 / seconds.max(1e-9),
        round_trip_ms: of(|seen| seen.ms),
        round_trip_p95_ms: trips.get(trips.len() * 95 / 100).copied().unwrap_or_default(),
        draw_ms: of(|seen| seen.draw_ms),
        encode_ms: of(|seen| seen.encode_ms),
        frame_bytes: of(|seen| seen.bytes),
        peak_bytes: peak_bytes(),
    })
}

impl Measured {
    /// For people.
    pub(super) fn table(&self) -> String {
        let size = |[width, height]: [u32; 2]| format!("{width}x{height}");
        table::facts(&[
            ("frames", format!("{} of {}, drawn {}", self.frames, size(self.asked), size(self.drawn))),
            (
                "rate",
                format!(
                    "{} frames/s on {} threads, {}",
                    three_digits(self.frames_per_s),
                    self.threads,
                    self.simd
                ),
            ),
            (
                "round trip",
                format!(
                    "{} ms, 95 % within {} ms",
                    three_digits(self.round_trip_ms),
                    three_digits(self.round_trip_p95_ms)
                ),
            ),
            ("drawing", format!("{} ms", three_digits(self.draw_ms))),
            ("encoding", format!("{} ms, {} bytes", three_digits(self.encode_ms), self.frame_bytes)),
        ])
    }
}

/// As much of a page as it takes to be sent frames.
struct Page {
    stream: TcpStream,
    started: Option<Instant>,
}

impl Page {
    fn open(address: SocketAddr, token: &str) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let mut page = Self { stream, started: None };
        let handshake = format!(
            "GET /ws HTTP/1.1\r\nHost: {address}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        );
        page.stream.write_all(handshake.as_bytes())?;
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            page.stream.read_exact(&mut byte)?;
            head.push(byte[0]);
        }
        page.say(&json!({"t": "hello", "version": VERSION, "token": token}).to_string())?;
        Ok(page)
    }

    /// Sends a text. A mask of zeros is one, too: nothing between here and there reads along.
    fn say(&mut self, text: &str) -> io::Result<()> {
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

    /// Asks for a view and waits for its frame.
    fn see(&mut self, view: &str) -> io::Result<Seen> {
        let started = Instant::now();
        self.say(view)?;
        loop {
            let (kind, bytes) = self.read()?;
            if kind == 8 {
                return Err(io::Error::other("the server has ended the connection"));
            }
            if kind == 2 && bytes.len() > FRAME_HEAD {
                let float = |at: usize| {
                    f64::from(f32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]))
                };
                let side = |at: usize| u32::from(u16::from_le_bytes([bytes[at], bytes[at + 1]]));
                return Ok(Seen {
                    ms: 1e3 * started.elapsed().as_secs_f64(),
                    draw_ms: float(16),
                    encode_ms: float(20),
                    bytes: (bytes.len() - FRAME_HEAD) as f64,
                    size: [side(8), side(10)],
                });
            }
        }
    }

    /// The kind and the bytes of the next message.
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
