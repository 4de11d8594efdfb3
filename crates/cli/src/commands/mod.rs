//! The sub-commands, one file each: arguments, the call into the library, and the output.

pub(crate) mod bench;
pub(crate) mod clean;
pub(crate) mod completions;
pub(crate) mod convert;
pub(crate) mod demo;
pub(crate) mod doctor;
pub(crate) mod eval;
mod exposure;
pub(crate) mod field;
pub(crate) mod frame_jobs;
pub(crate) mod info;
mod man;
#[cfg(feature = "masks")]
pub(crate) mod mask;
pub(crate) mod near_plane;
pub(crate) mod pano;
pub(crate) mod photos;
pub(crate) mod profile;
mod recognised;
pub(crate) mod render;
pub(crate) mod report;
mod splat_facts;
mod splat_statistics;
mod spz_frame;
pub(crate) mod train;
pub(crate) mod training;
pub(crate) mod view;
pub(crate) mod viewer;

use clap::Subcommand;
use gausset_io::atomic::Overwrite;

use crate::EarlyExit;
use crate::console::Console;
use crate::exit::Status;

/// Translates `--force`.
pub(crate) const fn overwrite(force: bool) -> Overwrite {
    if force { Overwrite::Replace } else { Overwrite::Refuse }
}

/// The sub-commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Generate a synthetic scene, train on it and evaluate the result.
    Demo(demo::DemoArgs),
    /// Train splats on photographs with known cameras.
    Train(Box<train::TrainArgs>),
    /// Measure the quality of a run on held-out views: PSNR, SSIM, LPIPS.
    Eval(eval::EvalArgs),
    /// Render splats to images: colour, depth, alpha.
    Render(render::RenderArgs),
    /// View a run, a splat file or an alignment in a browser.
    #[command(visible_aliases = ["viewer", "serve"])]
    View(view::ViewArgs),
    /// Write a report of a run as one HTML page: scores, curves, images.
    Report(report::ReportArgs),
    /// Show the contents of a dataset, splat file or run.
    Info(info::InfoArgs),
    /// Convert between splat formats; crop, transform or reduce splats.
    Convert(Box<convert::ConvertArgs>),
    /// Remove floaters from a finished run: splats in space known to be empty.
    Clean(clean::CleanArgs),
    /// Estimate the cameras of photographs.
    Align(Box<photos::AlignArgs>),
    /// Align photographs or a video, train splats and evaluate them.
    Run(Box<photos::RunArgs>),
    /// Process 360-degree footage: cut it into views, align them, train splats.
    Pano(pano::PanoArgs),
    /// Create masks of people with a segmentation model, or of static foreground without one.
    #[cfg(feature = "masks")]
    Mask(Box<mask::MaskArgs>),
    /// Fit Gaussian fields to samples or volumes; query, slice and voxelize them.
    Field(field::FieldArgs),
    /// List what this machine has: CPU, memory, GPUs, outside programs.
    Doctor(doctor::DoctorArgs),
    /// Benchmark training and rendering on this machine.
    Bench(bench::BenchArgs),
    /// Show where a run spent its time, or compare two runs.
    Profile(profile::ProfileArgs),
    /// Print a shell completion script.
    Completions(completions::CompletionsArgs),
    /// Print or write manual pages.
    Man(man::ManArgs),
}

impl Command {
    /// Whether the result is printed as a JSON object.
    pub(crate) fn is_json(&self) -> bool {
        match self {
            Self::Demo(args) => args.json,
            Self::Train(args) => args.json,
            Self::Eval(args) => args.json,
            Self::View(args) => args.json,
            Self::Report(args) => args.json,
            Self::Info(args) => args.json,
            Self::Convert(args) => args.json,
            Self::Clean(args) => args.json,
            Self::Doctor(args) => args.json,
            Self::Bench(args) => args.is_json(),
            Self::Profile(args) => args.is_json(),
            Self::Align(args) => args.json,
            Self::Run(args) => args.json,
            Self::Pano(args) => args.is_json(),
            #[cfg(feature = "masks")]
            Self::Mask(args) => args.making.json,
            Self::Field(args) => args.is_json(),
            Self::Render(args) => args.json,
            Self::Completions(_) | Self::Man(_) => false,
        }
    }
}

/// Runs a command. Shell completions and manual pages are generated from the `definition` of the command line.
///
/// # Errors
/// The command was refused or failed.
pub(crate) fn run(
    command: Command,
    definition: fn() -> clap::Command,
    console: &Console,
) -> Result<Status, EarlyExit> {
    match command {
        Command::Demo(args) => demo::run(&args, console),
        Command::Train(args) => train::run(*args, console),
        Command::Eval(args) => eval::run(&args, console),
        Command::Render(args) => render::run(&args, console),
        Command::View(args) => view::run(&args, console),
        Command::Report(args) => report::run(&args, console),
        Command::Info(args) => info::run(&args, console),
        Command::Convert(args) => convert::run(&args, console),
        Command::Clean(args) => clean::run(&args, console),
        Command::Align(args) => photos::run_align(&args, console),
        Command::Run(args) => photos::run(&args, console),
        Command::Pano(args) => pano::run(args, console),
        #[cfg(feature = "masks")]
        Command::Mask(args) => mask::run(&args, console),
        Command::Field(args) => field::run(&args, console),
        Command::Doctor(args) => doctor::run(&args, console),
        Command::Bench(args) => bench::run(&args, console),
        Command::Profile(args) => profile::run(&args, console),
        Command::Completions(args) => completions::run(&args, definition(), console),
        Command::Man(args) => man::run(&args, definition(), console),
    }
}
