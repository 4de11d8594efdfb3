//! Measures frames of the viewer from camera to page, on the reference workload:
//! `cargo run --release -p gausset-view --example frame_speed [-- THREADS [PAGES [WIDTH HEIGHT]]]`.
//!
//! Pages with a moving camera request one frame after the other. Prints frames per second, medians of rendering, JPEG
//! encoding and the round trip over the loopback (without decoding in a browser), and what it costs to send the splats.
#![allow(clippy::print_stdout, reason = "a program for the terminal")]

use std::error::Error;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use gausset::convert::SplatEdits;
use gausset::device::DeviceOptions;
use gausset_core::engine::RenderOptions;
use gausset_core::splats_transform::Similarity;
use gausset_core::{Camera, Pose};
use gausset_io::splat::SplatFile;
use gausset_scenes::workload::{HEIGHT, SPLATS, WIDTH, Workload, WorkloadState};
use gausset_view::hub::{Hub, MAX_PAGES};
use gausset_view::protocol::{FRAME_HEADER_BYTES, VERSION, pose_rows};
use gausset_view::render::{RenderSettings, render_job};
use gausset_view::scene::SceneDescription;
use gausset_view::{Server, ServerOptions, snapshot};
use serde_json::json;
use tungstenite::{Message, client};

/// Untimed frames at the start, during which the frame size settles.
const WARM_UP: usize = 30;
/// Timed frames per page.
const FRAMES: usize = 100;

/// Milliseconds of the round trip, of rendering and of encoding; bytes of the JPEG; width and height in px.
type Frame = [f64; 6];
/// A result with any error, which may come from another thread.
type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |i: usize, default| arguments.get(i).map_or(Ok(default), |text| text.parse::<u32>());
    let (threads, pages) = (number(0, 0)? as usize, (number(1, 1)? as usize).clamp(1, MAX_PAGES));
    let size = [number(2, WIDTH)?, number(3, HEIGHT)?];
    let Workload { splats, camera, pose, .. } = Workload::sized(WorkloadState::Trained, SPLATS, size);
    let mut document = SplatFile::new(splats);
    // Training keeps its splats in this order.
    SplatEdits { morton: true, ..SplatEdits::default() }.apply(&mut document);
    let mut engine = DeviceOptions::default().engine(threads)?;
    engine.load_splats(document.splats, Vec::new())?;

    let hub = Hub::new(SceneDescription::default());
    let any_port = ServerOptions { port: Some(0), ..ServerOptions::default() };
    let server = Server::start(Arc::clone(&hub), &any_port)?;
    let address = server.address();
    let hello = json!({ "t": "hello", "version": VERSION, "token": server.token() }).to_string();
    let page = || {
        let hello = hello.clone();
        thread::spawn(move || request_frames(address, hello, &camera, pose))
    };
    let pages: Vec<_> = (0..pages).map(|_| page()).collect();
    let settings = || RenderSettings {
        photos: None,
        device_from_saved: Similarity::IDENTITY,
        options: RenderOptions::default(),
        scene_splats: None,
        step: 0,
        confidence: None,
    };
    while !pages.iter().all(JoinHandle::is_finished) {
        match hub.take_job(0) {
            Some(job) => render_job(&hub, job, &mut *engine, settings()),
            None => hub.wait(0, Duration::from_millis(20)),
        }
    }
    let (mut seen, mut rate) = (Vec::new(), 0.0);
    for page in pages {
        let timed = page.join().map_err(|_| "a page has ended early")??.split_off(WARM_UP);
        rate += 1e3 * FRAMES as f64 / timed.iter().map(|frame| frame[0]).sum::<f64>();
        seen.extend(timed);
    }
    let median = |part: usize| {
        let mut values: Vec<f64> = seen.iter().map(|frame: &Frame| frame[part]).collect();
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    let [round_trip, render, encode, bytes, width, height] = std::array::from_fn(median);
    println!("{rate:.1} frames/s of {width}x{height} px, {bytes} bytes");
    println!("round trip {round_trip:.1} ms, rendering {render:.1} ms, encoding {encode:.1} ms");
    // The first copy allocates memory.
    engine.read_splats(0)?;
    let started = Instant::now();
    let splats = engine.read_splats(0)?;
    let copied = started.elapsed();
    let packed = snapshot::pack(splats, &Similarity::IDENTITY, false)?;
    let packing = started.elapsed() - copied;
    println!("splats for a page: {} bytes, copied in {copied:.1?}, packed in {packing:.1?}", packed.len());
    Ok(())
}

/// Requests frames one after the other, each from another position.
fn request_frames(server: SocketAddr, hello: String, camera: &Camera, pose: Pose) -> Outcome<Vec<Frame>> {
    let stream = TcpStream::connect(server)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(Duration::from_secs(30)))?;
    let (mut socket, _) = client(format!("ws://{server}/ws"), stream)?;
    socket.send(Message::text(hello))?;
    let [width, height] = [camera.width, camera.height].map(f64::from);
    let intrinsics = [width, height, camera.fx, camera.fy, camera.cx, camera.cy];
    let mut rows = pose_rows(&pose);
    let mut frames = Vec::new();
    for id in 1..=WARM_UP + FRAMES {
        // Moved slightly each time, so that no frame can be reused.
        rows[3] += 1e-4;
        let ack = (id > 1).then_some(id - 1);
        let view =
            json!({ "t": "view", "id": id, "camera": intrinsics, "pose": rows, "moving": true, "ack": ack });
        let started = Instant::now();
        socket.send(Message::text(view.to_string()))?;
        frames.push(loop {
            let Message::Binary(bytes) = socket.read()? else { continue };
            let word = |at: usize| [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]];
            let float = |at: usize| f64::from(f32::from_le_bytes(word(at)));
            let side = |at: usize| f64::from(u16::from_le_bytes([bytes[at], bytes[at + 1]]));
            let round_trip = 1e3 * started.elapsed().as_secs_f64();
            let jpeg = (bytes.len() - FRAME_HEADER_BYTES) as f64;
            break [round_trip, float(16), float(20), jpeg, side(8), side(10)];
        });
    }
    Ok(frames)
}
