//! `gausset bench`: speed of training and rendering on this machine, for the reference workload or a splat file.
//!
//! The workload (`gausset_scenes::workload`) is procedural, so figures of different machines and programs can be
//! compared. A training step consists of rendering, loss, gradients, density statistics and the update of the visible
//! splats, at learning rates so small that the scene stays the same. Steps are timed one by one after a warm-up. The
//! figures are medians, so that interruptions by other processes do not count.
//!
//! The floor of a stage is the minimum time for its memory traffic and arithmetic on this machine, at rates measured in
//! the same process (`Engine::lower_bounds`).

mod args;
mod field;
mod field_cases;
mod measure;
mod pano;
mod scene;
mod splitter;
mod timing;

use clap::{Args, Subcommand};

use self::args::{AFTER_HELP, MeasureArgs};
use self::measure::{BenchKind, measure};
use crate::EarlyExit;
use crate::console::Console;
use crate::exit::Status;

/// Arguments of `bench`.
#[derive(Clone, Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct BenchArgs {
    #[command(subcommand)]
    command: BenchCommand,
}

/// The sub-commands of `bench`.
#[derive(Clone, Debug, Subcommand)]
enum BenchCommand {
    /// Time training steps.
    Train(MeasureArgs),
    /// Time rendering.
    Raster(MeasureArgs),
    /// Time cutting panoramas into views.
    Pano(pano::BenchPanoArgs),
    /// Time values and gradients of Gaussian fields.
    Field(field::BenchFieldArgs),
}

impl BenchArgs {
    /// Whether the result is printed as a JSON object.
    pub(crate) fn is_json(&self) -> bool {
        match &self.command {
            BenchCommand::Train(args) | BenchCommand::Raster(args) => args.json,
            BenchCommand::Pano(args) => args.json,
            BenchCommand::Field(args) => args.json,
        }
    }
}

/// Runs the command.
pub(crate) fn run(args: &BenchArgs, console: &Console) -> Result<Status, EarlyExit> {
    if cfg!(debug_assertions) {
        console.warn(
            "the build",
            "bench: not a release build, figures are not meaningful (use cargo build --release)",
        );
    }
    let measured = match &args.command {
        BenchCommand::Train(args) => measure(args, BenchKind::Train, console),
        BenchCommand::Raster(args) => measure(args, BenchKind::Raster, console),
        BenchCommand::Pano(args) => return pano::run(args, console),
        BenchCommand::Field(args) => return field::run(args, console),
    }?;
    console.json_or_text(&measured, || measured.table())?;
    Ok(Status::Done)
}
