//! `gausset pano`: commands for 360-degree footage.

pub(crate) mod align;
pub(crate) mod calibrate;
pub(crate) mod colour;
pub(crate) mod compare;
pub(crate) mod convert;
pub(crate) mod export;
pub(crate) mod frames;
pub(crate) mod layouts;
pub(crate) mod masks;
pub(crate) mod preview;
pub(crate) mod removal;
pub(crate) mod run;
pub(crate) mod shape;
pub(crate) mod split;
pub(crate) mod track;
pub(crate) mod views;

use clap::{Args, Subcommand};

use crate::Ending;
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
    what: What,
}

/// The sub-commands of `pano`.
#[derive(Clone, Debug, Subcommand)]
enum What {
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
        match &self.what {
            What::Split(args) => args.json,
            What::Align(args) => args.json,
            What::Run(args) => args.json,
            What::Frames(args) => args.json,
            What::Layouts(args) => args.json,
            What::Preview(args) => args.json,
            What::Convert(args) => args.making.json,
            What::Calibrate(args) => args.making.json,
            What::Masks(args) => args.making.json,
            What::Compare(args) => args.json,
            What::Export(args) => args.json,
        }
    }
}

/// Runs the command.
pub(crate) fn run(args: PanoArgs, console: &Console) -> Result<Status, Ending> {
    match args.what {
        What::Split(args) => split::run(&args, console),
        What::Align(args) => align::run(&args, console),
        What::Run(args) => run::run(&args, console),
        What::Frames(args) => frames::run(&args, console),
        What::Layouts(args) => layouts::run(&args, console),
        What::Preview(args) => preview::run(&args, console),
        What::Convert(args) => convert::run(&args, console),
        What::Calibrate(args) => calibrate::run(&args, console),
        What::Masks(args) => masks::run(&args, console),
        What::Compare(args) => compare::run(&args, console),
        What::Export(args) => export::run(&args, console),
    }
}
