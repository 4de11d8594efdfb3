//! The sub-commands, one file each: its arguments, what it does with the crates below, what it prints.

pub(crate) mod bench;
pub(crate) mod clean;
pub(crate) mod completions;
pub(crate) mod convert;
pub(crate) mod demo;
pub(crate) mod doctor;
pub(crate) mod eval;
mod exposure;
pub(crate) mod field;
pub(crate) mod info;
mod made;
pub(crate) mod making;
mod man;
#[cfg(feature = "masks")]
pub(crate) mod mask;
pub(crate) mod pano;
pub(crate) mod photos;
pub(crate) mod profile;
pub(crate) mod render;
pub(crate) mod report;
mod splat_facts;
mod splat_spread;
pub(crate) mod train;
pub(crate) mod training;
pub(crate) mod view;
pub(crate) mod view_args;
pub(crate) mod viewer;

use clap::Subcommand;
use gausset_io::atomic::Overwrite;

use crate::Ending;
use crate::console::Console;
use crate::exit::Status;

/// What `--force` means.
pub(crate) const fn overwrite(force: bool) -> Overwrite {
    if force { Overwrite::Replace } else { Overwrite::Refuse }
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Make a scene, train on it, evaluate: see that everything works.
    Demo(demo::DemoArgs),
    /// Train splats on photographs with known cameras.
    Train(Box<train::TrainArgs>),
    /// Compare the splats of a run with pictures they were not trained on.
    Eval(eval::EvalArgs),
    /// Make pictures of splats: colour, depth, alpha.
    Render(render::RenderArgs),
    /// Look at the splats of a run or a file in a browser.
    #[command(visible_aliases = ["viewer", "serve"])]
    View(view::ShowArgs),
    /// Write what came of a run as one page: scores, curves, pictures.
    Report(report::ReportArgs),
    /// Tell what a splat file, a dataset or a run folder holds.
    Info(info::InfoArgs),
    /// Read splats and write them again: turned upright, cut to an SH degree.
    Convert(convert::ConvertArgs),
    /// Remove what hangs in the air before the cameras of a run.
    Clean(clean::CleanArgs),
    /// Find the cameras of photographs (by COLMAP).
    Align(Box<photos::AlignArgs>),
    /// From photographs to a splat: align, train, evaluate.
    Run(Box<photos::RunArgs>),
    /// 360-degree footage: cut it into views, align them, train.
    Pano(pano::PanoArgs),
    /// Mask people and what they carry by a segmentation model, or what rides along without one.
    #[cfg(feature = "masks")]
    Mask(Box<mask::MaskArgs>),
    /// Gaussian fields: fit to samples and volumes, query, slice, voxelize.
    Field(field::FieldArgs),
    /// Tell what there is to compute with, and what is wrong with it.
    Doctor(doctor::DoctorArgs),
    /// Measure the speed of this machine.
    Bench(bench::BenchArgs),
    /// Show where the time of a run went, and what changed from one to another.
    Profile(profile::ProfileArgs),
    /// Print a completion script for a shell.
    Completions(completions::CompletionsArgs),
    /// Write the manual pages.
    #[command(hide = true)]
    Man(man::ManArgs),
}

impl Command {
    /// Whether the result is to be a JSON object.
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

/// Runs a command. Shell completions and manual pages are made of the `definition` of the whole command line.
///
/// # Errors
/// It was refused or failed.
pub(crate) fn run(
    command: Command,
    definition: fn() -> clap::Command,
    console: &Console,
) -> Result<Status, Ending> {
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
