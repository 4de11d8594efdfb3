//! `gausset bench`: how fast this machine trains and renders the reference workload, or a scene of one's own.
//!
//! The workload (`gausset_scenes::workload`) is made of formulas, so figures of different machines and programs can be
//! compared. A training step is rendering, loss, gradients, density statistics and the update of the touched splats,
//! at rates so small that the scene stays the same. Steps are timed one by one after a warm-up; the figures are
//! medians, because a machine that does something else now and then should not count.
//!
//! The floor of a stage is what its bytes and its arithmetic take at least on this machine, at rates measured in the
//! same process (`Engine::floors`).

mod args;
mod convert;
mod density;
mod density_rules;
mod field;
mod field_cases;
mod measure;
mod pano;
mod scene;
mod splitter;
mod timing;
mod view;

use clap::{Args, Subcommand};

use self::args::{AFTER_HELP, MeasureArgs};
use self::density::DensityArgs;
use self::measure::{Kind, measure};
use crate::Ending;
use crate::console::Console;
use crate::exit::Status;

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
    /// Frames for a page of the viewer.
    View(view::BenchViewArgs),
    /// The pass that decides which splats are cloned, split and pruned; on a GPU whole rules.
    Density(DensityArgs),
    /// Cutting panoramas into views.
    Pano(pano::BenchPanoArgs),
    /// Splat formats: speed, bytes and loss of conversions.
    Convert(convert::BenchConvertArgs),
    /// Gaussian fields: values and gradients.
    Field(field::BenchFieldArgs),
}

impl BenchArgs {
    /// Whether the result is to be a JSON object.
    pub(crate) fn is_json(&self) -> bool {
        match &self.what {
            What::Train(args) | What::Raster(args) => args.json,
            What::View(args) => args.measure.json,
            What::Density(args) => args.json,
            What::Pano(args) => args.json,
            What::Convert(args) => args.json,
            What::Field(args) => args.json,
        }
    }
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
        What::View(args) => {
            let measured = view::measure(args, console)?;
            console.object_or(&measured, || measured.table())?;
            return Ok(Status::Done);
        }
        What::Density(args) => return density::run(args, console),
        What::Pano(args) => return pano::run(args, console),
        What::Convert(args) => return convert::run(args, console),
        What::Field(args) => return field::run(args, console),
    }?;
    console.object_or(&measured, || measured.table())?;
    Ok(Status::Done)
}
