//! `gausset bench`: how fast this machine trains and renders the reference workload.
//!
//! The workload (`gausset_scenes::workload`) is made of formulas, so figures of different machines and programs can be
//! compared. A training step is rendering, loss, gradients, density statistics and the update of the touched splats,
//! at rates so small that the scene stays the same. Steps are timed one by one after a warm-up; the figures are
//! medians, because a machine that does something else now and then should not count.

use std::sync::Arc;
use std::time::Instant;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand};
use gausset_compute::Pool;
use gausset_core::engine::{
    AdamMode, Engine, EngineError, GradientStatistic, Rates, RenderOptions, StepParams, TrainState, TrainView,
};
use gausset_core::{Splats, Stage};
use gausset_io::units;
use gausset_prof::Profile;
use gausset_scenes::workload::{State, Workload};
use gausset_train::Adam;
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;

use crate::Ending;
use crate::console::Console;
use crate::device::ComputeArgs;
use crate::exit::Status;
use crate::failure::Failure;
use crate::numbers::{grouped, three_digits};
use crate::table::{self, Align};

/// Steps before the clock starts: buffers grow, caches fill.
const WARM_UP: u64 = 3;

/// Learning rates that keep all paths of the update busy and the scene as it is.
const TINY_RATES: Rates = Rates {
    means: 1.6e-10,
    log_scales: 5e-9,
    quats: 1e-9,
    opacity_logits: 5e-8,
    sh_dc: 2.5e-9,
    sh_rest: 1.25e-10,
};

const AFTER_HELP: &str = "\
Examples:
  gausset bench train
  gausset bench train --threads 1 --simd avx2 --steps 100 --json
  gausset bench raster --state init
Measure release builds on an otherwise idle machine.";

/// Arguments of `bench`.
#[derive(Clone, Copy, Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct BenchArgs {
    #[command(subcommand)]
    what: What,
}

/// What is measured.
#[derive(Clone, Copy, Debug, Subcommand)]
enum What {
    /// Training steps.
    Train(MeasureArgs),
    /// Rendering alone.
    Raster(MeasureArgs),
}

impl BenchArgs {
    /// Whether the result is to be a JSON object.
    pub(crate) fn is_json(&self) -> bool {
        match self.what {
            What::Train(args) | What::Raster(args) => args.json,
        }
    }
}

/// How it is measured.
#[derive(Clone, Copy, Debug, Args)]
#[command(after_help = AFTER_HELP)]
struct MeasureArgs {
    /// Steps that are timed, after a warm-up.
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    steps: u64,
    /// Splats as after training (trained) or as at its start (init).
    #[arg(
        long, value_name = "STATE", default_value = "trained", hide_possible_values = true,
        value_parser = PossibleValuesParser::new(["trained", "init"])
            .map(|word| if word == "init" { State::Initial } else { State::Trained })
    )]
    state: State,
    /// Which splats a training step moves: dense or sparse.
    #[arg(
        long, value_name = "FORM", default_value = "sparse", hide_possible_values = true,
        value_parser = PossibleValuesParser::new(Adam::WORDS).try_map(|word| word.parse::<Adam>())
    )]
    adam: Adam,
    /// Number of splats, to see how time grows [default: 165751].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=20_000_000))]
    splats: Option<u32>,
    /// Print the result as a JSON object.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    compute: ComputeArgs,
}

/// The result: a stable contract.
#[derive(Debug, Serialize)]
struct Measured {
    workload: WorkloadInfo,
    threads: usize,
    /// Vector level as asked for.
    simd: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    it_per_s: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    frames_per_s: Option<f64>,
    /// Median of the wall times of a step.
    wall_ms: f64,
    /// Median of the CPU times of a step, all threads.
    cpu_ms: f64,
    stages: Vec<StageInfo>,
    /// Largest resident size of the process so far; `null` where the system does not tell.
    peak_bytes: Option<u64>,
    #[serde(skip)]
    device: String,
}

#[derive(Debug, Serialize)]
struct WorkloadInfo {
    splats: u64,
    visible: u64,
    intersections: u64,
    width: u32,
    height: u32,
}

#[derive(Debug, Serialize)]
struct StageInfo {
    name: String,
    median_ms: f64,
    /// What the memory and the arithmetic of this machine allow; `null` until it is measured.
    floor_ms: Option<f64>,
}

/// Runs the command.
pub(crate) fn run(args: &BenchArgs, console: &Console) -> Result<Status, Ending> {
    let measured = match args.what {
        What::Train(args) => measure(&args, Kind::Train, console),
        What::Raster(args) => measure(&args, Kind::Raster, console),
    }?;
    console.object_or(&measured, || measured.table())?;
    Ok(Status::Done)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Train,
    Raster,
}

fn measure(args: &MeasureArgs, kind: Kind, console: &Console) -> Result<Measured, Failure> {
    if cfg!(debug_assertions) {
        console
            .warn("the build", "bench: not a release build: figures mean little (use cargo build --release)");
    }
    let mut engine = args.compute.engine()?;
    let splats = args.splats.map_or(gausset_scenes::workload::SPLATS, |splats| splats as usize);
    let workload = Workload::scaled(args.state, splats, 1);
    let view = TrainView {
        index: 0,
        name: "workload".into(),
        camera: workload.camera,
        pose: workload.pose,
        target: Arc::new(workload.target),
        exposure_row: None,
        pose_row: None,
        camera_from_rig: None,
    };
    engine.load(TrainState::new(in_training_order(workload.splats), Vec::new()))?;
    let mut one = |step: u64| match kind {
        Kind::Train => train_step(&mut engine, &view, args.adam, step),
        Kind::Raster => {
            engine.render(&view.camera, &view.pose, &RenderOptions::default()).map(|_rendering| ())
        }
    };
    gausset_prof::set_enabled(true);
    let (mut wall, mut cpu) = (Vec::new(), Vec::new());
    for step in 0..WARM_UP + args.steps {
        if step == WARM_UP {
            gausset_prof::reset();
        }
        let (started, cpu_started) = (Instant::now(), cpu_seconds());
        {
            let _span = gausset_prof::span("step");
            one(step)?;
        }
        if step >= WARM_UP {
            wall.push(1e3 * started.elapsed().as_secs_f64());
            cpu.push(1e3 * (cpu_seconds() - cpu_started));
        }
    }
    gausset_prof::set_enabled(false);
    let profile = gausset_prof::snapshot();
    if kind == Kind::Raster {
        // Rendering alone counts nothing: a step without effect on the figures above does.
        train_step(&mut engine, &view, args.adam, 0)?;
    }
    let report = engine.flush()?;
    let device = engine.describe();
    let wall_ms = median(&mut wall);
    let rate = (wall_ms > 0.0).then(|| 1e3 / wall_ms);
    Ok(Measured {
        workload: WorkloadInfo {
            splats: splats as u64,
            visible: report.visible,
            intersections: report.intersections,
            width: view.camera.width,
            height: view.camera.height,
        },
        threads: device.threads,
        simd: args.compute.device.level().name(),
        it_per_s: rate.filter(|_| kind == Kind::Train),
        frames_per_s: rate.filter(|_| kind == Kind::Raster),
        wall_ms,
        cpu_ms: median(&mut cpu),
        stages: stages(&profile),
        peak_bytes: peak_bytes(),
        device: device.name,
    })
}

/// The workload in the order in which a training keeps its splats: along a Morton curve.
fn in_training_order(splats: Splats) -> Splats {
    let order = gausset_raster::morton::order(&splats.means, &Pool::new(1));
    splats.select(&order.into_iter().map(|index| index as usize).collect::<Vec<_>>())
}

fn train_step(engine: &mut dyn Engine, view: &TrainView, adam: Adam, step: u64) -> Result<(), EngineError> {
    let mut params = StepParams::new(step, 0, RenderOptions::default(), TINY_RATES);
    params.adam = match adam {
        Adam::Dense => AdamMode::Dense,
        Adam::Sparse => AdamMode::Sparse,
    };
    params.statistic = GradientStatistic::Signed;
    engine.step(view, None, &params)
}

/// CPU time of the process, all threads.
fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + 1e-9 * time.tv_nsec as f64
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

/// The rows of the profile that are stages.
fn stages(profile: &Profile) -> Vec<StageInfo> {
    let is_stage = |name: &str| Stage::ALL.iter().any(|stage| stage.name() == name);
    let rows = profile.rows.iter().filter(|row| is_stage(&row.name));
    rows.map(|row| StageInfo { name: row.name.clone(), median_ms: row.median_ms, floor_ms: None }).collect()
}

/// Largest resident size of this process (`VmHWM`, Linux).
fn peak_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kibibytes: u64 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
    Some(kibibytes * 1024)
}

impl Measured {
    fn table(&self) -> String {
        let WorkloadInfo { splats, visible, intersections, width, height } = self.workload;
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
        let head = table::facts(&[
            ("device", self.device.clone()),
            ("workload", scene),
            ("rate", rate),
            ("wall", format!("{:.2} ms (median)", self.wall_ms)),
            ("CPU", format!("{:.2} ms (median)", self.cpu_ms)),
            ("memory", self.peak_bytes.map_or_else(|| "-".to_owned(), units::bytes)),
        ]);
        let share = |ms: f64| format!("{:.1} %", 100.0 * ms / self.wall_ms.max(f64::MIN_POSITIVE));
        let rows: Vec<Vec<String>> = self
            .stages
            .iter()
            .map(|stage| vec![stage.name.clone(), format!("{:.2}", stage.median_ms), share(stage.median_ms)])
            .collect();
        let header = [("stage", Align::Left), ("median ms", Align::Right), ("share", Align::Right)];
        format!("{head}\n{}", table::columns(&header, &rows))
    }
}
