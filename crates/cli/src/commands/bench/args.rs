//! Arguments of `bench train` and `bench raster`.

use std::path::PathBuf;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use gausset_train::Adam;

use crate::commands::render::parse_size;
use crate::device::ComputeArgs;

pub(super) const AFTER_HELP: &str = "\
Examples:
  gausset bench train
  gausset bench train --threads 1 --simd avx2 --steps 100 --json
  gausset bench train --workload initial --profile where/
  gausset bench raster --ply run/splats.ply --camera camera_path.json
Measure release builds on an otherwise idle machine.";

/// Arguments of `bench train` and `bench raster`.
#[derive(Clone, Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct MeasureArgs {
    /// Number of timed steps, after a warm-up.
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub(super) steps: u64,
    /// State of the reference workload: trained, or initial (as at the start of training).
    #[arg(
        long, value_name = "STATE", default_value = "trained", hide_possible_values = true, alias = "state",
        value_parser = PossibleValuesParser::new(["trained", "initial"])
    )]
    pub(super) workload: String,
    /// Splat file to use instead of the reference workload.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["workload", "splats"])]
    pub(super) ply: Option<PathBuf>,
    /// Camera path or transforms.json for the splat file [default: a camera outside the splats].
    #[arg(long, value_name = "FILE", requires = "ply", conflicts_with_all = ["workload", "splats"])]
    pub(super) camera: Option<PathBuf>,
    /// Index of the camera in that file, from 0.
    #[arg(
        long, value_name = "N", default_value_t = 0, requires = "camera", conflicts_with_all = ["workload", "splats"]
    )]
    pub(super) view: usize,
    /// Image size, px [default: 516x344; for a splat file that of the camera, or 1280x720].
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub(super) size: Option<[u32; 2]>,
    /// Splats that a training step updates: dense (all) or sparse (visible) [default: sparse].
    #[arg(
        long, value_name = "FORM", hide_possible_values = true,
        value_parser = PossibleValuesParser::new(Adam::WORDS).try_map(|word| word.parse::<Adam>())
    )]
    pub(super) adam: Option<Adam>,
    /// Number of splats of the workload [default: 165751].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=20_000_000))]
    pub(super) splats: Option<u32>,
    /// Print the result as a JSON object.
    #[arg(long)]
    pub(super) json: bool,
    /// Output folder for profile.json, profile.csv and trace.json of the steps.
    #[arg(long, value_name = "DIR")]
    pub(super) profile: Option<PathBuf>,
    #[command(flatten)]
    pub(super) compute: ComputeArgs,
}
