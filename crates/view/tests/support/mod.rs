//! A server with a scene, raw requests, and a robot that uses the protocol of a page.
#![allow(dead_code, reason = "each test program uses a part")]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use gausset::device::DeviceOptions;
use gausset_core::Splats;
use gausset_core::engine::{Engine, RenderOptions};
use gausset_core::splats_transform::Similarity;
use gausset_view::hub::Hub;
use gausset_view::render::{RenderSettings, render_job};
use gausset_view::scene::{Photos, SceneDescription};
use gausset_view::{Server, ServerOptions};
use serde_json::Value;
use tungstenite::protocol::WebSocket;
use tungstenite::{Message, client};

const PATIENCE: Duration = Duration::from_secs(30);

/// A server with an optional renderer.
pub(crate) struct World {
    pub(crate) server: Server,
    pub(crate) hub: Arc<Hub>,
    stop: Arc<AtomicBool>,
    drawer: Option<JoinHandle<()>>,
}

/// Some splats in front of the origin.
pub(crate) fn splats() -> Splats {
    let mut splats = Splats::with_capacity(0, 200);
    for k in 0..200 {
        let (x, y) = ((k % 20) as f32 / 10.0 - 0.95, (k / 20) as f32 / 5.0 - 0.9);
        let colour = [x, y, 0.5 * x * y];
        splats.push([x, y, 3.0 + 0.3 * x], [-2.4; 3], [1.0, 0.1, 0.2, 0.0], 2.0, &colour);
    }
    splats
}

pub(crate) fn engine() -> Box<dyn Engine> {
    let mut engine = DeviceOptions::default().engine(1).unwrap();
    engine.load_splats(splats(), Vec::new()).unwrap();
    engine
}

pub(crate) fn render_options() -> RenderOptions {
    RenderOptions { sh_degree: 0, background: [0.1, 0.2, 0.3], ..RenderOptions::default() }
}

impl World {
    pub(crate) fn options() -> ServerOptions {
        ServerOptions { port: Some(0), ..ServerOptions::default() }
    }

    pub(crate) fn new() -> Self {
        Self::with(Self::options())
    }

    pub(crate) fn with(options: ServerOptions) -> Self {
        let scene = SceneDescription::from_splats("a scene".to_owned(), &splats(), None);
        let hub = Hub::new(scene.with_render_options(&render_options(), 200, 0));
        let server = Server::start(Arc::clone(&hub), &options).unwrap();
        Self { server, hub, stop: Arc::default(), drawer: None }
    }

    /// Starts a renderer.
    pub(crate) fn drawn(self) -> Self {
        self.drawn_with(None)
    }

    /// Starts a renderer with photographs.
    pub(crate) fn drawn_with(mut self, photos: Option<Photos>) -> Self {
        let (hub, stop) = (Arc::clone(&self.hub), Arc::clone(&self.stop));
        self.drawer = Some(std::thread::spawn(move || {
            let mut engine = engine();
            while !stop.load(Ordering::Relaxed) {
                gausset_view::snapshot::pack_if_due(&hub, 0, &mut *engine, Similarity::IDENTITY, false);
                match hub.take_job(0) {
                    Some(job) => {
                        let look = RenderSettings {
                            photos: photos.as_ref(),
                            device_from_saved: Similarity::IDENTITY,
                            options: render_options(),
                            scene_splats: None,
                            step: 7,
                            confidence: None,
                        };
                        render_job(&hub, job, &mut *engine, look);
                    }
                    None => hub.wait(0, Duration::from_millis(20)),
                }
            }
        }));
        self
    }

    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.server.address()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// Number of attached pages, from the state for scripts.
    pub(crate) fn pages(&self) -> u64 {
        let token = self.server.token();
        let text =
            format!("GET /api/state HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\r\n");
        let state: Value = serde_json::from_str(&request(self, &text).body).unwrap();
        state["pages"].as_u64().unwrap()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(drawer) = self.drawer.take() {
            drawer.join().unwrap();
        }
    }
}

/// An HTTP answer.
pub(crate) struct Answer {
    pub(crate) status: u32,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (found, value) = line.split_once(": ")?;
            found.eq_ignore_ascii_case(name).then_some(value.trim())
        })
    }
}

/// A GET request with the token.
pub(crate) fn get_with_token(world: &World, path: &str) -> Answer {
    let token = world.server.token();
    request(
        world,
        &format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\r\n"),
    )
}

/// The body of a GET request with the token.
pub(crate) fn bytes_with_token(world: &World, path: &str) -> Vec<u8> {
    let (mut stream, token) = (world.connect(), world.server.token());
    let text = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\r\n");
    stream.write_all(text.as_bytes()).unwrap();
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4;
    bytes.split_off(end)
}

pub(crate) fn get(world: &World, path: &str) -> Answer {
    request(world, &format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n"))
}

pub(crate) fn request(world: &World, text: &str) -> Answer {
    let mut stream = world.connect();
    // A refused request may not be read completely.
    let _ = stream.write_all(text.as_bytes());
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    let answer = String::from_utf8_lossy(&bytes);
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let status = head.split(' ').nth(1).and_then(|word| word.parse().ok()).unwrap_or(0);
    Answer { status, head: head.to_owned(), body: body.to_owned() }
}

/// How the connection of a page ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    Closed(u16, String),
    Gone,
}

/// A client that uses the protocol of a page.
pub(crate) struct Robot {
    socket: WebSocket<TcpStream>,
    pub(crate) hello: Value,
}

/// A decoded frame.
pub(crate) struct Frame {
    pub(crate) id: u32,
    pub(crate) kind: u8,
    pub(crate) flags: u16,
    pub(crate) size: [u32; 2],
    pub(crate) codec: u8,
    pub(crate) step: u64,
    pub(crate) range: [f32; 2],
    pub(crate) bytes: Vec<u8>,
}

impl Robot {
    pub(crate) fn open(world: &World) -> Self {
        let url = format!("ws://{}/ws", world.server.address());
        let (socket, _) = client(url, world.connect()).unwrap();
        Self { socket, hello: Value::Null }
    }

    /// Connects with the token.
    pub(crate) fn enter(world: &World) -> Self {
        let mut robot = Self::open(world);
        robot.say(&format!(r#"{{"t":"hello","version":1,"token":"{}"}}"#, world.server.token()));
        robot.hello = robot.hear();
        assert_eq!(robot.hello["t"], "hello");
        robot
    }

    pub(crate) fn say(&mut self, text: &str) {
        self.socket.send(Message::text(text)).unwrap();
    }

    pub(crate) fn try_say(&mut self, text: &str) {
        let _ = self.socket.send(Message::text(text));
    }

    pub(crate) fn say_bytes(&mut self, bytes: &[u8]) {
        self.socket.send(Message::binary(bytes.to_vec())).unwrap();
    }

    /// Sends raw bytes; returns whether they were sent.
    pub(crate) fn pour(&mut self, bytes: &[u8]) -> bool {
        self.socket.get_mut().write_all(bytes).is_ok()
    }

    /// The next text message.
    pub(crate) fn hear(&mut self) -> Value {
        loop {
            if let Message::Text(text) = self.socket.read().unwrap() {
                return serde_json::from_str(&text).unwrap();
            }
        }
    }

    /// The next frame.
    pub(crate) fn see(&mut self) -> Frame {
        loop {
            if let Message::Binary(bytes) = self.socket.read().unwrap() {
                let number = |at: usize, count: usize| {
                    bytes[at..at + count].iter().rev().fold(0u64, |all, &byte| all << 8 | u64::from(byte))
                };
                let float = |at: usize| f32::from_bits(number(at, 4) as u32);
                return Frame {
                    kind: bytes[0],
                    flags: number(2, 2) as u16,
                    id: number(4, 4) as u32,
                    size: [number(8, 2) as u32, number(10, 2) as u32],
                    codec: bytes[12],
                    range: [float(28), float(32)],
                    step: number(36, 8),
                    bytes: bytes[44..].to_vec(),
                };
            }
        }
    }

    /// Reads until the connection ends.
    pub(crate) fn end(&mut self) -> Ended {
        loop {
            match self.socket.read() {
                Ok(Message::Close(Some(frame))) => {
                    return Ended::Closed(frame.code.into(), frame.reason.to_string());
                }
                Ok(_) => {}
                Err(_) => return Ended::Gone,
            }
        }
    }
}
