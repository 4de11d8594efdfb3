//! `gausset bench view`: end-to-end time of viewer frames: rendering, JPEG encoding, and transfer over loopback or a
//! simulated slow link. Decoding and display in a browser are not included.

mod link;
mod moving;
mod page;

use std::fmt::Display;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use clap::Args;
use gausset::Failure;
use gausset_core::engine::Engine;
use gausset_core::splats_transform::Similarity;
use gausset_view::hub::{Hub, MAX_PAGES};
use gausset_view::render::{RenderSettings, render_job};
use gausset_view::{Server, ServerOptions, snapshot};
use serde::Serialize;

use self::link::SimulatedLink;
use self::moving::SimulatedPage;
use self::page::ReceivedFrame;
use super::args::{AFTER_HELP, MeasureArgs};
use super::scene::BenchScene;
use super::timing::{median, peak_bytes};
use crate::commands::viewer::server_failure;
use crate::console::Console;
use crate::lines::Lines;
use crate::numbers::three_digits;
use crate::table;

/// How often packing splats for a page that renders by itself is measured.
const SNAPSHOTS: usize = 9;

/// Arguments of `bench view`.
#[derive(Clone, Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct BenchViewArgs {
    #[command(flatten)]
    pub(super) measure: MeasureArgs,
    /// Simulated link between page and program: megabits per second and round-trip time in ms, such as 5,80 [default:
    /// none].
    #[arg(long, value_name = "MBIT,MS")]
    link: Option<SimulatedLink>,
    /// Number of pages that view at the same time.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=MAX_PAGES as u64))]
    pages: u64,
}

/// The result: a stable contract.
#[derive(Debug, Serialize)]
pub(super) struct ViewMeasurement {
    kind: &'static str,
    threads: usize,
    simd: String,
    /// Requested size of a frame, px.
    asked: [u32; 2],
    /// Size of the last frame, px; smaller than requested if rendering was too slow.
    drawn: [u32; 2],
    /// Number of pages.
    pages: u64,
    /// Number of frames of all pages after the warm-up.
    frames: u64,
    frames_per_s: f64,
    /// Median time from sending the camera to receiving the whole frame.
    round_trip_ms: f64,
    /// 95th percentile of the same.
    round_trip_p95_ms: f64,
    /// Median render time of a frame.
    draw_ms: f64,
    encode_ms: f64,
    frame_bytes: f64,
    /// Median time for which a training would pause to copy splats for a page that renders by itself.
    snapshot_pause_ms: f64,
    /// Median time in which a viewer thread packs these splats.
    snapshot_pack_ms: f64,
    snapshot_bytes: usize,
    /// Growth of the resident size since the splats were loaded.
    viewer_bytes: Option<u64>,
    peak_bytes: Option<u64>,
}

pub(super) fn measure(bench: &BenchViewArgs, console: &Console) -> Result<ViewMeasurement, Failure> {
    let args = &bench.measure;
    if args.adam.is_some() || args.profile.is_some() {
        let what = if args.adam.is_some() { "--adam" } else { "--profile" };
        return Err(Failure::usage(format!(
            "{what}: has no effect on frames; leave it out, or take `bench train`"
        )));
    }
    let mut engine = args.compute.engine()?;
    let BenchScene { splats, view, options } = BenchScene::from_args(args, console)?;
    engine.load_splats(splats, Vec::new())?;
    let resident = || gausset_compute::machine::resident_memory(None).map(|resident| resident.now);
    let before = resident();
    let hub = Hub::new(gausset_view::scene::SceneDescription::default());
    let options_of_server = ServerOptions { port: Some(0), ..ServerOptions::default() };
    let server = Server::start(Arc::clone(&hub), &options_of_server).map_err(server_failure)?;
    let camera = view.camera;
    let page = SimulatedPage {
        server: server.address(),
        token: server.token().to_owned(),
        view,
        frames: args.steps,
        link: bench.link,
    };
    let pages: Vec<_> = (0..bench.pages)
        .map(|_| {
            let page = page.clone();
            thread::spawn(move || page.request_frames())
        })
        .collect();
    let look = RenderSettings {
        photos: None,
        device_from_saved: Similarity::IDENTITY,
        options,
        scene_splats: None,
        step: 0,
    };
    while !pages.iter().all(JoinHandle::is_finished) {
        match hub.take_job(0) {
            Some(job) => render_job(&hub, job, &mut *engine, &look),
            None => hub.wait(0, Duration::from_millis(20)),
        }
    }
    let lost = |error: &dyn Display| Failure::new("viewer", format!("bench: the page was lost: {error}"));
    let (mut seen, mut seconds) = (Vec::new(), 0.0f64);
    for page in pages {
        let (frames, took) = page.join().map_err(|_| lost(&"it ended early"))?.map_err(|e| lost(&e))?;
        seen.extend(frames);
        seconds = seconds.max(took);
    }
    let of = |part: fn(&ReceivedFrame) -> f64| median(&mut seen.iter().map(part).collect::<Vec<_>>());
    let mut trips: Vec<f64> = seen.iter().map(|seen| seen.ms).collect();
    trips.sort_by(f64::total_cmp);
    let SnapshotCost { pause_ms, pack_ms, bytes } = measure_snapshots(&mut *engine, options.antialiased)?;
    let device = engine.describe();
    Ok(ViewMeasurement {
        kind: "bench-view",
        threads: device.threads,
        simd: device.level,
        asked: [camera.width, camera.height],
        drawn: seen.last().map_or([0; 2], |seen| seen.size),
        pages: bench.pages,
        frames: seen.len() as u64,
        frames_per_s: seen.len() as f64 / seconds.max(1e-9),
        round_trip_ms: of(|seen| seen.ms),
        round_trip_p95_ms: trips.get(trips.len() * 95 / 100).copied().unwrap_or_default(),
        draw_ms: of(|seen| seen.draw_ms),
        encode_ms: of(|seen| seen.encode_ms),
        frame_bytes: of(|seen| seen.bytes),
        snapshot_pause_ms: pause_ms,
        snapshot_pack_ms: pack_ms,
        snapshot_bytes: bytes,
        viewer_bytes: resident().zip(before).map(|(now, before)| now.saturating_sub(before)),
        peak_bytes: peak_bytes(),
    })
}

/// Cost of sending splats to pages that render by themselves.
struct SnapshotCost {
    pause_ms: f64,
    pack_ms: f64,
    bytes: usize,
}

/// Measures packing splats several times. The first time does not count, because it allocates memory.
fn measure_snapshots(engine: &mut dyn Engine, antialiased: bool) -> Result<SnapshotCost, Failure> {
    let (mut pauses, mut packings, mut bytes) = (Vec::new(), Vec::new(), 0);
    for _ in 0..=SNAPSHOTS {
        let started = Instant::now();
        let splats = engine.read_splats(0)?;
        pauses.push(1e3 * started.elapsed().as_secs_f64());
        let started = Instant::now();
        let packed = snapshot::pack(splats, &Similarity::IDENTITY, antialiased);
        bytes = packed.map_err(|reason| Failure::new("viewer", format!("bench: {reason}")))?.len();
        packings.push(1e3 * started.elapsed().as_secs_f64());
    }
    let (mut pauses, mut packings) = (pauses.split_off(1), packings.split_off(1));
    Ok(SnapshotCost { pause_ms: median(&mut pauses), pack_ms: median(&mut packings), bytes })
}

impl ViewMeasurement {
    /// Formats the measurement as a table.
    pub(super) fn table(&self) -> Lines {
        let size = |[width, height]: [u32; 2]| format!("{width}x{height}");
        table::facts(&[
            ("frames", format!("{} of {}, drawn {}", self.frames, size(self.asked), size(self.drawn))),
            (
                "rate",
                format!(
                    "{} frames/s for {}, on {} threads, {}",
                    three_digits(self.frames_per_s),
                    if self.pages == 1 { "one page".to_owned() } else { format!("{} pages", self.pages) },
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
            (
                "splats sent",
                format!(
                    "{} bytes; pauses training for {} ms, then {} ms of packing",
                    self.snapshot_bytes,
                    three_digits(self.snapshot_pause_ms),
                    three_digits(self.snapshot_pack_ms)
                ),
            ),
        ])
    }
}
