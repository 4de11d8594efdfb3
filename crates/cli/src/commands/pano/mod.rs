//! `gausset pano`: commands for 360-degree footage.

pub(crate) mod align;
pub(crate) mod calibrate;
pub(crate) mod compare;
pub(crate) mod convert;
pub(crate) mod export;
pub(crate) mod frames;
pub(crate) mod layouts;
pub(crate) mod masks;
pub(crate) mod preview;
pub(crate) mod run;
pub(crate) mod split;
pub(crate) mod track;
pub(crate) mod views;

use clap::{Args, Subcommand};

use crate::EarlyExit;
use crate::console::Console;
use crate::exit::Status;

const AFTER_HELP: &str = "\
Examples:
  gausset pano run walk/ -o out/               train splats from panoramas
  gausset pano split walk/ -o work/            cut eight views around the horizon from each panorama
  gausset pano split tour.mp4 -o work/ --layout cube6
  gausset pano frames tour.mp4                 show which frames of a video are selected
See docs/reference/pano.md.";

/// Arguments of `pano`.
#[derive(Clone, Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct PanoArgs {
    #[command(subcommand)]
    command: PanoCommand,
}

/// The sub-commands of `pano`.
#[derive(Clone, Debug, Subcommand)]
enum PanoCommand {
    /// Cut panoramas into perspective views.
    Split(Box<split::SplitArgs>),
    /// Estimate the poses of panoramas.
    Align(Box<align::AlignArgs>),
    /// Cut views, align them, train splats and evaluate them.
    Run(Box<run::RunArgs>),
    /// Select frames of a video; write measurements, reasons and a contact sheet.
    Frames(Box<frames::FramesArgs>),
    /// Show how much of the sphere each layout covers.
    Layouts(layouts::LayoutsArgs),
    /// Draw the views of a layout and their outlines on a panorama.
    Preview(Box<preview::PreviewArgs>),
    /// Convert between panoramas and cube maps (crosses, strips, faces).
    Convert(Box<convert::ConvertArgs>),
    /// Calibrate a dual-fisheye camera and write a lens file.
    Calibrate(Box<calibrate::CalibrateArgs>),
    /// Combine and invert masks; transfer them between views and panoramas.
    Masks(Box<masks::MasksArgs>),
    /// Compare poses with reference poses of the same images.
    Compare(compare::CompareArgs),
    /// Export poses, points and masks for other programs.
    Export(Box<export::ExportArgs>),
}

impl PanoArgs {
    /// Whether the result is printed as a JSON object.
    pub(crate) fn is_json(&self) -> bool {
        match &self.command {
            PanoCommand::Split(args) => args.json,
            PanoCommand::Align(args) => args.json,
            PanoCommand::Run(args) => args.json,
            PanoCommand::Frames(args) => args.json,
            PanoCommand::Layouts(args) => args.json,
            PanoCommand::Preview(args) => args.json,
            PanoCommand::Convert(args) => args.making.json,
            PanoCommand::Calibrate(args) => args.making.json,
            PanoCommand::Masks(args) => args.making.json,
            PanoCommand::Compare(args) => args.json,
            PanoCommand::Export(args) => args.json,
        }
    }
}

/// Runs the command.
pub(crate) fn run(args: PanoArgs, console: &Console) -> Result<Status, EarlyExit> {
    match args.command {
        PanoCommand::Split(args) => split::run(&args, console),
        PanoCommand::Align(args) => align::run(&args, console),
        PanoCommand::Run(args) => run::run(&args, console),
        PanoCommand::Frames(args) => frames::run(&args, console),
        PanoCommand::Layouts(args) => layouts::run(&args, console),
        PanoCommand::Preview(args) => preview::run(&args, console),
        PanoCommand::Convert(args) => convert::run(&args, console),
        PanoCommand::Calibrate(args) => calibrate::run(&args, console),
        PanoCommand::Masks(args) => masks::run(&args, console),
        PanoCommand::Compare(args) => compare::run(&args, console),
        PanoCommand::Export(args) => export::run(&args, console),
    }
}
