//! `gausset pano export`: poses for other programs.

use std::path::PathBuf;

use clap::Args;
use clap::builder::PossibleValuesParser;
use gausset_flow::Failure;
use gausset_flow::panos::align::poses_path;
use gausset_flow::panos::model::{points_of, write};
use gausset_io::atomic::{Disk, Overwrite, refuse_existing};
use gausset_io::dataset::colmap::ModelFormat;
use gausset_pano::export::{self, Poses};
use gausset_pano::split::{Description, is_ours, read_manifest};

use crate::Ending;
use crate::console::Console;
use crate::exit::Status;
use crate::numbers::counted;

const AFTER_HELP: &str = "\
Examples:
  gausset pano export work/ --format transforms
  gausset pano export work/ --format colmap --text -o model/
  gausset pano export work/ --format xmp                 RealityCapture sidecars beside the views";

/// Arguments of `pano export`.
#[derive(Clone, Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct ExportArgs {
    /// Folder of `gausset pano align`.
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Form: colmap|transforms|xmp.
    #[arg(
        long, value_name = "FORMAT", default_value = "colmap", hide_possible_values = true,
        value_parser = PossibleValuesParser::new(["colmap", "transforms", "xmp"])
    )]
    format: String,
    /// Where to [default: DIR/export for colmap, DIR for transforms, DIR/images for xmp].
    #[arg(short, long, value_name = "OUT")]
    output: Option<PathBuf>,
    /// COLMAP's text form instead of the binary one.
    #[arg(long)]
    text: bool,
    /// Replace files that are there.
    #[arg(long, alias = "overwrite", short_aliases = ['y', 'w'])]
    force: bool,
}

/// File of the points beside `transforms.json`, as Nerfstudio names it.
const POINTS: &str = "sparse_pc.ply";

/// Runs the command.
pub(crate) fn run(args: &ExportArgs, console: &Console) -> Result<Status, Ending> {
    let description = Description::read(&args.folder).map_err(|e| Failure::new("frames", e))?;
    let poses = Poses::read(&poses_path(&args.folder)).map_err(|e| Failure::new("frames", e))?;
    let out = |default: &str| args.output.clone().unwrap_or_else(|| args.folder.join(default));
    let points = || points_of(&args.folder);
    let mut files: Vec<(PathBuf, Vec<u8>)> = Vec::new();
    if args.text && args.format != "colmap" {
        return Err(Failure::usage(
            "--text: has no effect on other formats; leave it out, or take --format colmap",
        )
        .into());
    }
    let written = match args.format.as_str() {
        "transforms" => {
            let folder = out("");
            let points = points()?;
            let points_file = (!points.is_empty()).then_some(POINTS);
            if points_file.is_some() {
                files.push((folder.join(POINTS), export::points_ply(&points)));
            }
            let sources = read_manifest(&args.folder);
            let panoramas = export::panoramas(&description, &poses, &sources);
            files.push((folder.join("panoramas.json"), panoramas.into_bytes()));
            let transforms = export::transforms(&description, &poses, points_file);
            files.push((folder.join("transforms.json"), transforms.into_bytes()));
            folder.join("transforms.json")
        }
        "xmp" => {
            let folder = out("images");
            for (stem, text) in export::xmp_sidecars(&description, &poses) {
                files.push((folder.join(format!("{stem}.xmp")), text.into_bytes()));
            }
            folder
        }
        _ => {
            let folder = out("export");
            let format = if args.text { ModelFormat::Text } else { ModelFormat::Binary };
            for (name, bytes) in export::colmap_files(&description, &poses, &points()?, format) {
                files.push((folder.join(name), bytes));
            }
            folder
        }
    };
    // In the folder of the split, files of these names are those of an earlier export.
    let is_ours = args.output.is_none() && is_ours(&args.folder);
    let overwrite = if args.force || is_ours { Overwrite::Replace } else { Overwrite::Refuse };
    for (path, _) in &files {
        refuse_existing(&Disk, path, overwrite)?;
    }
    for (path, bytes) in &files {
        write(path, bytes)?;
    }
    let frames = counted(poses.registered() as u64, "frame");
    console.result(&format!("{} ({frames}, {} views each)", written.display(), description.views.len()))?;
    Ok(Status::done(poses.registered() < poses.frames.len()))
}
