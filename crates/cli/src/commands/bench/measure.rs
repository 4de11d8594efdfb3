//! Timing of training steps and renders, one by one.

use std::time::Instant;

use gausset::{Failure, profiling as recording};
use gausset_core::Stage;
use gausset_core::engine::{
    AdamMode, Engine, EngineError, GradientStatistic, LearningRates, Outputs, RenderOptions, StepParams,
    StepReport, StepWork, TrainState, TrainView,
};
use gausset_io::text;
use gausset_prof::{Profile, StageLowerBound};
use gausset_train::Adam;
use serde::Serialize;

use super::args::MeasureArgs;
use super::scene::BenchScene;
use super::timing::{cpu_seconds, median, peak_bytes};
use crate::console::Console;
use crate::lines::Lines;
use crate::numbers::{grouped, three_digits};
use crate::profiling;
use crate::table::{self, ColumnAlign};

/// Number of untimed steps at the start, in which buffers grow and caches fill.
const WARM_UP: u64 = 3;
/// Number of steps that are timed together on a GPU.
const GPU_BATCH: u64 = 10;

/// Learning rates that exercise all paths of the update without changing the scene.
const TINY_RATES: LearningRates = LearningRates {
    means: 1.6e-10,
    log_scales: 5e-9,
    quats: 1e-9,
    opacity_logits: 5e-8,
    sh_dc: 2.5e-9,
    sh_rest: 1.25e-10,
};

/// The result: a stable contract.
#[derive(Debug, Serialize)]
pub(super) struct StepMeasurement {
    workload: WorkloadJson,
    threads: usize,
    /// SIMD level in use: `avx512`, `avx2` or `fallback`.
    simd: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    it_per_s: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    frames_per_s: Option<f64>,
    /// Median wall time per step.
    wall_ms: f64,
    /// Median CPU time per step, all threads.
    cpu_ms: f64,
    /// On a GPU: median CPU time per step of the submitting thread, for recording, submitting and polling.
    #[serde(skip_serializing_if = "Option::is_none")]
    host_ms: Option<f64>,
    /// On a GPU: bandwidth of copies between buffers, bytes read plus bytes written.
    #[serde(skip_serializing_if = "Option::is_none")]
    copy_gb_per_s: Option<f64>,
    stages: Vec<StageJson>,
    /// Peak resident size of the process so far; `null` if the system does not report it.
    peak_bytes: Option<u64>,
    #[serde(skip)]
    device: String,
}

#[derive(Debug, Serialize)]
struct WorkloadJson {
    splats: u64,
    visible: u64,
    intersections: u64,
    width: u32,
    height: u32,
}

#[derive(Debug, Serialize)]
struct StageJson {
    name: String,
    median_ms: f64,
    /// Minimum time by memory bandwidth and arithmetic of this machine; `null` for a stage without a floor.
    floor_ms: Option<f64>,
    /// On a GPU: memory bandwidth of the stage.
    #[serde(skip_serializing_if = "Option::is_none")]
    gb_per_s: Option<f64>,
    /// On a GPU: bandwidth of the stage as a fraction of that of a copy.
    #[serde(skip_serializing_if = "Option::is_none")]
    copy_ratio: Option<f64>,
}

/// Whether training steps or renders are measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BenchKind {
    Train,
    Raster,
}

pub(super) fn measure(
    args: &MeasureArgs,
    kind: BenchKind,
    console: &Console,
) -> Result<StepMeasurement, Failure> {
    if let Some(folder) = &args.profile {
        recording::claim_folder(folder)?;
    }
    if kind == BenchKind::Raster && args.adam.is_some() {
        return Err(Failure::usage(
            "--adam: has no effect on rendering; leave it out, or take `bench train`",
        ));
    }
    let adam = args.adam.unwrap_or(Adam::Sparse);
    let mut engine = args.compute.engine()?;
    let is_gpu = engine.describe().kind == "gpu";
    let BenchScene { splats, view, options } = BenchScene::from_args(args, console)?;
    let count = splats.len() as u64;
    // Measured before the scene is loaded, while the GPU is idle.
    let copy = if is_gpu { recording::floors(&mut *engine, &StepWork::default()).0 } else { None };
    engine.load(TrainState::new(splats, Vec::new()))?;
    // A GPU works asynchronously, so several steps are timed together: a single step would measure the latency of the
    // notification.
    let batch = if kind == BenchKind::Train && is_gpu { GPU_BATCH } else { 1 };
    let mut report = StepReport::default();
    let mut host = Vec::new();
    let mut some = |first: u64| -> Result<(), EngineError> {
        if kind == BenchKind::Raster {
            return engine.render(&view.camera, &view.pose, &options, Outputs::All).map(drop);
        }
        let started = gausset_prof::thread_cpu();
        for step in first * batch..(first + 1) * batch {
            // Odd step numbers, because the profile counts work at some even steps only.
            train_step(&mut *engine, &view, &options, adam, 2 * step + 1)?;
        }
        if is_gpu {
            // Polled as often as in training.
            engine.poll()?;
            if let (Some(before), Some(after)) = (started, gausset_prof::thread_cpu()) {
                host.push(1e3 * after.saturating_sub(before).as_secs_f64() / batch as f64);
            }
        }
        // Flushed here, so that a failure is reported with its steps.
        report = engine.flush()?;
        Ok(())
    };
    let _recording = recording::start();
    gausset_prof::set_trace(args.profile.is_some());
    let (mut wall, mut cpu) = (Vec::new(), Vec::new());
    for step in 0..WARM_UP + args.steps {
        if step == WARM_UP {
            gausset_prof::reset();
        }
        let (started, cpu_started) = (Instant::now(), cpu_seconds());
        {
            let _span = gausset_prof::span(profiling::STEP);
            some(step)?;
        }
        if step >= WARM_UP {
            wall.push(1e3 * started.elapsed().as_secs_f64() / batch as f64);
            cpu.push(1e3 * (cpu_seconds() - cpu_started) / batch as f64);
        }
    }
    gausset_prof::set_enabled(false);
    let (mut profile, trace, peak_bytes) = (gausset_prof::snapshot(), gausset_prof::trace(), peak_bytes());
    if kind == BenchKind::Train {
        // One more step, in which work is counted instead of timed.
        gausset_prof::reset();
        gausset_prof::set_enabled(true);
        train_step(&mut *engine, &view, &options, adam, 0)?;
        engine.flush()?;
        gausset_prof::set_enabled(false);
        profile.counters = gausset_prof::snapshot().counters;
    }
    let work = engine.work().unwrap_or_default();
    (profile.machine, profile.floors) =
        if is_gpu { (copy, Vec::new()) } else { recording::floors(&mut *engine, &work) };
    let device = engine.describe();
    if let Some(folder) = &args.profile {
        let what = if kind == BenchKind::Train { "bench train" } else { "bench raster" };
        profile.about = vec![("run".to_owned(), what.to_owned()), ("device".to_owned(), device.name.clone())];
        recording::save(&profile, &trace, folder)?;
        console.note(profiling::report(&profile));
    }
    let wall_ms = median(&mut wall);
    let rate = (wall_ms > 0.0).then(|| 1e3 / wall_ms);
    Ok(StepMeasurement {
        workload: WorkloadJson {
            splats: count,
            visible: report.visible.max(work.visible as u64),
            intersections: report.intersections.max(work.intersections as u64),
            width: view.camera.width,
            height: view.camera.height,
        },
        threads: device.threads,
        simd: device.level,
        it_per_s: rate.filter(|_| kind == BenchKind::Train),
        frames_per_s: rate.filter(|_| kind == BenchKind::Raster),
        wall_ms,
        cpu_ms: median(&mut cpu),
        host_ms: host_ms(host),
        copy_gb_per_s: copy.map(|copy| copy.stream_bytes_per_s / 1e9),
        stages: stages(&profile),
        peak_bytes,
        device: device.name,
    })
}

/// The median of the batches after the warm-up; `None` if there are none.
fn host_ms(mut batches: Vec<f64>) -> Option<f64> {
    let warm_up = (WARM_UP as usize).min(batches.len());
    batches.drain(..warm_up);
    (!batches.is_empty()).then(|| median(&mut batches))
}

fn train_step(
    engine: &mut dyn Engine,
    view: &TrainView,
    options: &RenderOptions,
    adam: Adam,
    step: u64,
) -> Result<(), EngineError> {
    let mut params = StepParams::new(step, 0, *options, TINY_RATES);
    params.adam = match adam {
        Adam::Dense => AdamMode::Dense,
        Adam::Sparse => AdamMode::Sparse,
    };
    params.statistic = GradientStatistic::Signed;
    engine.step(std::slice::from_ref(view), &[], &params)
}

/// The stages of a step in their order, with their floors; on a GPU from its timestamps.
fn stages(profile: &Profile) -> Vec<StageJson> {
    let timed = profile.tracks.iter().filter(|row| row.track == "gpu");
    let timed: Vec<StageJson> = timed
        .map(|row| StageJson {
            name: format!("gpu {}", row.name),
            median_ms: row.median_ms,
            floor_ms: None,
            gb_per_s: (row.gb_per_s > 0.0).then_some(row.gb_per_s),
            copy_ratio: profile.machine.map(|copy| 1e9 * row.gb_per_s / copy.stream_bytes_per_s),
        })
        .collect();
    if !timed.is_empty() {
        return timed;
    }
    let is_stage = |name: &str| Stage::ALL.iter().any(|stage| stage.name() == name);
    let floor = |name: &str| profile.floors.iter().find(|floor: &&StageLowerBound| floor.name == name);
    let rows = profile.rows.iter().filter(|row| row.depth == 1 && is_stage(&row.name));
    rows.map(|row| StageJson {
        name: row.name.clone(),
        median_ms: row.median_ms,
        floor_ms: floor(&row.name).map(|floor| floor.floor_ms),
        gb_per_s: None,
        copy_ratio: None,
    })
    .collect()
}

impl StepMeasurement {
    /// Formats the measurement as tables.
    pub(super) fn table(&self) -> Lines {
        let WorkloadJson { splats, visible, intersections, width, height } = self.workload;
        let scene = format!(
            "{} splats, {} visible, {} in tile lists, {width}x{height} px",
            grouped(splats),
            grouped(visible),
            grouped(intersections)
        );
        let rate = match (self.it_per_s, self.frames_per_s) {
            (Some(rate), _) => format!("{} it/s", three_digits(rate)),
            (None, Some(rate)) => format!("{} frames/s", three_digits(rate)),
            (None, None) => "-".to_owned(),
        };
        let mut facts = vec![
            ("device", self.device.clone()),
            ("workload", scene),
            ("rate", rate),
            ("wall", format!("{:.2} ms (median)", self.wall_ms)),
            ("CPU", format!("{:.2} ms (median)", self.cpu_ms)),
            ("memory", self.peak_bytes.map_or_else(|| "-".to_owned(), text::format_bytes)),
        ];
        if let Some(ms) = self.host_ms {
            facts.insert(5, ("host", format!("{ms:.3} ms on the submitting thread (median)")));
        }
        if let Some(rate) = self.copy_gb_per_s {
            facts.push(("copy", format!("{rate:.1} GB/s between buffers, read plus written")));
        }
        let head = table::facts(&facts);
        let share = |ms: f64| format!("{:.1} %", 100.0 * ms / self.wall_ms.max(f64::MIN_POSITIVE));
        let row = |name: &str, ms: f64, floor: Option<f64>| {
            let floor_cells = match floor {
                Some(floor) => [format!("{floor:.2}"), format!("{:.1}", ms / floor.max(f64::MIN_POSITIVE))],
                None => [String::new(), String::new()],
            };
            let [floor, ratio] = floor_cells;
            vec![name.to_owned(), format!("{ms:.2}"), share(ms), floor, ratio]
        };
        let mut rows: Vec<Vec<String>> =
            self.stages.iter().map(|stage| row(&stage.name, stage.median_ms, stage.floor_ms)).collect();
        let floor: f64 = self.stages.iter().filter_map(|stage| stage.floor_ms).sum();
        rows.push(row("step", self.wall_ms, (floor > 0.0).then_some(floor)));
        let header = [
            ("stage", ColumnAlign::Left),
            ("median ms", ColumnAlign::Right),
            ("share", ColumnAlign::Right),
            ("floor ms", ColumnAlign::Right),
            ("ratio", ColumnAlign::Right),
        ];
        if self.stages.iter().all(|stage| stage.gb_per_s.is_none()) {
            return head + "" + table::columns(&header, &rows);
        }
        // A GPU has bandwidths instead of floors, also as a fraction of the bandwidth of a copy.
        let cell = |value: Option<f64>| value.map_or_else(String::new, |value| format!("{value:.2}"));
        let rates = self.stages.iter().map(|stage| [stage.gb_per_s, stage.copy_ratio].map(cell));
        for (row, rates) in rows.iter_mut().zip(rates.chain([[None, None].map(cell)])) {
            row.truncate(3);
            row.extend(rates);
        }
        let [stage, median, share, ..] = header;
        let header = [stage, median, share, ("GB/s", ColumnAlign::Right), ("of a copy", ColumnAlign::Right)];
        head + "" + table::columns(&header, &rows)
    }
}
