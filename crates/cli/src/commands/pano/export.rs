//! `gausset pano export`: exports poses, points and masks for other programs.

use std::path::PathBuf;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use gausset::Failure;
use gausset::panos::export::{self, ExportFormat, ExportOptions};
use gausset_pano::mask_names::MaskConvention;

use crate::EarlyExit;
use crate::commands::overwrite;
use crate::console::Console;
use crate::exit::Status;
use crate::numbers::counted;

const AFTER_HELP: &str = "\
Examples:
  gausset pano export work/ --format transforms --masks nerfstudio
  gausset pano export work/ --format colmap --text -o model/
  gausset pano export out/align --views-of out/train -o model/    points with views of another split
  gausset pano export work/ --format xmp                          RealityCapture sidecar files
  gausset pano export work/ --format metashape -o metashape/ --masks metashape
Cameras and points are in the world of sparse/0. docs/reference/pano.md lists which program reads
which format.";

/// Arguments of `pano export`.
#[derive(Clone, Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct ExportArgs {
    /// Folder of `gausset pano align`.
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Output format: colmap|transforms|metashape|metashape-spherical|xmp|realitycapture|tum|csv|gpx.
    #[arg(
        long, value_name = "FORMAT", default_value = "colmap", hide_possible_values = true,
        value_parser = PossibleValuesParser::new(ExportFormat::ALL.map(ExportFormat::name))
            .map(|name| ExportFormat::from_name(&name).unwrap_or(ExportFormat::Colmap))
    )]
    format: ExportFormat,
    /// Output folder [default: DIR/export for colmap, DIR/images for xmp, otherwise DIR].
    #[arg(short, long, value_name = "OUT")]
    output: Option<PathBuf>,
    /// Write COLMAP's text format instead of the binary one.
    #[arg(long)]
    text: bool,
    /// Export the views of another split of the same frames.
    #[arg(long, value_name = "DIR")]
    views_of: Option<PathBuf>,
    /// Folder of the panoramas, for their size (metashape-spherical).
    #[arg(long, value_name = "DIR")]
    sources: Option<PathBuf>,
    /// Also export masks, in the form of a program: colmap, nerfstudio, inria, splatfacto, postshot, brush, lichtfeld,
    /// 360toolkit, realitycapture, realityscan or metashape.
    #[arg(
        long, value_name = "PROGRAM", hide_possible_values = true, help_heading = "Masks",
        value_parser = PossibleValuesParser::new(MaskConvention::NAMES.map(|(name, _)| name))
            .try_map(|name| MaskConvention::from_name(&name).ok_or("not a program"))
    )]
    masks: Option<MaskConvention>,
    /// Write masks with 255 instead of 0 for ignored pixels.
    #[arg(long, requires = "masks", help_heading = "Masks")]
    invert: bool,
    /// Write a mask that keeps everything for each image without a mask.
    #[arg(long, requires = "masks", help_heading = "Masks")]
    empty_masks: bool,
    /// Replace existing files.
    #[arg(long, alias = "overwrite", short_aliases = ['y', 'w'])]
    force: bool,
    /// Print the result as a JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Runs the command.
pub(crate) fn run(args: &ExportArgs, console: &Console) -> Result<Status, EarlyExit> {
    if args.text && args.format != ExportFormat::Colmap {
        return Err(Failure::usage(
            "--text: has no effect on other formats; leave it out, or take --format colmap",
        )
        .into());
    }
    if args.sources.is_some() && args.format != ExportFormat::MetashapeSpherical {
        return Err(Failure::usage(
            "--sources: has no effect on other formats; leave it out, or take --format metashape-spherical",
        )
        .into());
    }
    let exported = export::export(&ExportOptions {
        folder: args.folder.clone(),
        views_of: args.views_of.clone(),
        sources: args.sources.clone(),
        form: args.format,
        is_text: args.text,
        output: args.output.clone(),
        masks: args.masks,
        invert: args.invert,
        empty_masks: args.empty_masks,
        overwrite: overwrite(args.force),
    })?;
    console.json_or_summary(&exported, || {
        let frames = counted(exported.registered as u64, "frame");
        let mut parts = format!("{frames}, {} views each", exported.views);
        if exported.points > 0 {
            parts += &format!(", {}", counted(exported.points as u64, "point"));
        }
        if args.masks.is_some() {
            parts += &format!(", {}", counted(exported.masks as u64, "mask"));
        }
        format!("{} ({parts})", exported.path.display())
    })?;
    Ok(Status::done(exported.registered < exported.frames))
}
