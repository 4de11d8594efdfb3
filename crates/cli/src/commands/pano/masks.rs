//! `gausset pano masks`: combines masks and transfers them between views and panoramas.

use std::path::PathBuf;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use gausset::Host;
use gausset::panos::ViewOptions;
use gausset::panos::masks::{self as pano_masks, Combine, MaskConversion, MasksOptions, MasksResult};

use crate::EarlyExit;
use crate::commands::frame_jobs::{FrameJobArgs, run_frame_job};
use crate::console::Console;
use crate::describe;
use crate::exit::Status;
use crate::footage::FootageArgs;
use crate::numbers::counted;

const AFTER_HELP: &str = "\
Examples:
  gausset pano masks people/ tripod.png -o masks/                 union of both masks
  gausset pano masks white_is_masked/ -o masks/ --invert
  gausset pano masks views/masks -o masks/ --to-panorama 5760     project view masks onto panoramas
  gausset pano masks masks/ -o view_masks/ --to-views --layout cube6
0 = remove, 255 = keep. NAME.png, NAME.jpg.png and NAME_mask.png belong to frame NAME. See
docs/reference/pano.md.";

/// Arguments of `pano masks`.
#[derive(Clone, Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct MasksArgs {
    /// Masks (PNG) or folders of masks; a single file combined with folders applies to all frames.
    #[arg(value_name = "MASKS", required = true)]
    inputs: Vec<PathBuf>,
    /// Output folder, or a .png for a single mask.
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,
    /// How the second and later MASKS are combined with the first: unite|subtract|intersect.
    #[arg(
        long, value_name = "HOW", default_value = "unite", hide_possible_values = true,
        value_parser = PossibleValuesParser::new(["unite", "subtract", "intersect"]).map(|name| match name.as_str() {
            "subtract" => Combine::Subtract,
            "intersect" => Combine::Intersect,
            _ => Combine::Unite,
        })
    )]
    combine: Combine,
    /// Swap removed and kept pixels.
    #[arg(long)]
    invert: bool,
    /// Project MASKS, which have a folder per view, onto panoramas of this width, px.
    #[arg(long, value_name = "PX", conflicts_with = "to_views")]
    to_panorama: Option<u32>,
    /// Cut MASKS of panoramas into masks of the views.
    #[arg(long)]
    to_views: bool,
    /// Dilation of the removed region on the sphere, degrees.
    #[arg(long, value_name = "DEG", default_value_t = 0.0)]
    dilate: f64,
    /// Width of the soft edge of the removed region, degrees.
    #[arg(long, value_name = "DEG", default_value_t = 0.0)]
    feather: f64,
    #[command(flatten)]
    views: FootageArgs<ViewOptions>,
    #[command(flatten)]
    pub(super) making: FrameJobArgs,
}

impl MasksArgs {
    fn options(&self) -> MasksOptions {
        MasksOptions {
            inputs: self.inputs.clone(),
            output: self.output.clone(),
            combine: self.combine,
            invert: self.invert,
            carry: match (self.to_panorama, self.to_views) {
                (Some(width), _) => MaskConversion::ToPanorama(width),
                (None, true) => MaskConversion::ToViews,
                (None, false) => MaskConversion::Stay,
            },
            views: self.views.0.clone(),
            dilate: self.dilate,
            feather: self.feather,
            force: self.making.force,
        }
    }
}

/// Runs the command.
pub(crate) fn run(args: &MasksArgs, console: &Console) -> Result<Status, EarlyExit> {
    let options = args.options();
    let job = |host: &mut Host<'_>| pano_masks::masks(&options, args.making.dry_run, host);
    run_frame_job(console, job, |made| format_result(made, args))
}

/// Formats the result as text.
fn format_result(made: &MasksResult, args: &MasksArgs) -> String {
    let verb = if made.is_dry_run { "would be written" } else { "written" };
    format!(
        "{}: {} {verb}, {} removed on average, {} at most",
        args.output.display(),
        counted(made.files as u64, "mask"),
        describe::percent(made.removed_mean),
        describe::percent(made.removed_worst)
    )
}
