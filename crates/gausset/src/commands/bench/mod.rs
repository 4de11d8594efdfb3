//! `gausset bench`: how fast this machine trains and renders the reference workload, or a scene of one's own.
//!
//! The workload (`gausset_scenes::workload`) is made of formulas, so figures of different machines and programs can be
//! compared. A training step is rendering, loss, gradients, density statistics and the update of the touched splats,
//! at rates so small that the scene stays the same. Steps are timed one by one after a warm-up; the figures are
//! medians, because a machine that does something else now and then should not count.
//!
//! The floor of a stage is what its bytes and its arithmetic take at least on this machine, at rates measured in the
//! same process (`Engine::floors`).

mod density;
mod field;
mod field_cases;
mod measure;
mod scene;

use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand};
use gausset_train::Adam;

use self::density::DensityArgs;
use self::measure::{Kind, measure};
use crate::Ending;
use crate::commands::render::parse_size;
use crate::console::Console;
use crate::device::ComputeArgs;
use crate::exit::Status;

const AFTER_HELP: &str = "\
Examples:
  gausset bench train
  gausset bench train --threads 1 --simd avx2 --steps 100 --json
  gausset bench train --workload initial --profile where/
  gausset bench raster --ply run/splats.ply --camera camera_path.json
  gausset bench density
Measure release builds on an otherwise idle machine.";

/// Arguments of `bench`.
#[derive(Clone, Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct BenchArgs {
    #[command(subcommand)]
    what: What,
}

/// What is measured.
#[derive(Clone, Debug, Subcommand)]
enum What {
    /// Training steps.
    Train(MeasureArgs),
    /// Rendering alone.
    Raster(MeasureArgs),
    /// The pass that decides which splats are cloned, split and pruned.
    Density(DensityArgs),
    /// Cutting panoramas into views.
    Pano(super::pano::bench::BenchPanoArgs),
    /// Gaussian fields: values and gradients.
    Field(field::BenchFieldArgs),
}

impl BenchArgs {
    /// Whether the result is to be a JSON object.
    pub(crate) fn is_json(&self) -> bool {
        match &self.what {
            What::Train(args) | What::Raster(args) => args.json,
            What::Density(args) => args.json,
            What::Pano(args) => args.json,
            What::Field(args) => args.json,
        }
    }
}

/// How it is measured.
#[derive(Clone, Debug, Args)]
#[command(after_help = AFTER_HELP)]
struct MeasureArgs {
    /// Steps that are timed, after a warm-up.
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    steps: u64,
    /// The reference workload as after training (trained) or as at its start (initial).
    #[arg(
        long, value_name = "STATE", default_value = "trained", hide_possible_values = true, alias = "state",
        value_parser = PossibleValuesParser::new(["trained", "initial"])
    )]
    workload: String,
    /// A splat file instead of the workload.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["workload", "splats"])]
    ply: Option<PathBuf>,
    /// Camera path or transforms.json to look at the file from [default: from outside].
    #[arg(long, value_name = "FILE", requires = "ply")]
    camera: Option<PathBuf>,
    /// Which camera of that file, from 0.
    #[arg(long, value_name = "N", default_value_t = 0, requires = "camera")]
    view: usize,
    /// Size of the picture [default: 516x344; of a file that of the camera, or 1280x720].
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    size: Option<[u32; 2]>,
    /// Which splats a training step moves: dense or sparse [default: sparse].
    #[arg(
        long, value_name = "FORM", hide_possible_values = true,
        value_parser = PossibleValuesParser::new(Adam::WORDS).try_map(|word| word.parse::<Adam>())
    )]
    adam: Option<Adam>,
    /// Number of splats, to see how time grows [default: 165751].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=20_000_000))]
    splats: Option<u32>,
    /// Print the result as a JSON object.
    #[arg(long)]
    json: bool,
    /// Write profile.json, profile.csv and trace.json of the steps into a folder.
    #[arg(long, value_name = "DIR")]
    profile: Option<PathBuf>,
    #[command(flatten)]
    compute: ComputeArgs,
}

/// Runs the command.
pub(crate) fn run(args: &BenchArgs, console: &Console) -> Result<Status, Ending> {
    if cfg!(debug_assertions) {
        console
            .warn("the build", "bench: not a release build: figures mean little (use cargo build --release)");
    }
    let measured = match &args.what {
        What::Train(args) => measure(args, Kind::Train, console),
        What::Raster(args) => measure(args, Kind::Raster, console),
        What::Density(args) => return density::run(args, console),
        What::Pano(args) => return super::pano::bench::run(args, console),
        What::Field(args) => return field::run(args, console),
    }?;
    console.object_or(&measured, || measured.table())?;
    Ok(Status::Done)
}

/// Largest resident size of this process (`VmHWM`, Linux).
#[allow(clippy::disallowed_methods, reason = "a file of the kernel")]
pub(crate) fn peak_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kibibytes: u64 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
    Some(kibibytes * 1024)
}

/// CPU time of the process, all threads.
fn cpu_seconds() -> f64 {
    gausset_prof::process_cpu().map_or(f64::NAN, |time| time.as_secs_f64())
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}
