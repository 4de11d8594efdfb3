//! `gausset field export`: converts the Gaussians of a field to splats, and back.

use std::path::PathBuf;

use clap::Args;
use gausset::Failure;
use gausset_field::model::FieldModel;
use gausset_field::{FieldBounds, splat};
use gausset_io::atomic::{Disk, WriteOptions};
use gausset_io::splat::{self as splat_file, LoadOptions, SaveOptions, SplatFile};

use super::{check_output, load, overwrite, write_bytes};
use crate::EarlyExit;
use crate::console::Console;
use crate::exit::Status;
use crate::numbers::counted;

const AFTER_HELP: &str = "\
Examples:
  gausset field export head.safetensors -o head.ply    inspect the Gaussians in a splat viewer
  gausset field export head.ply -o again.safetensors
A splat keeps mean and covariance (model coordinates), and its weight as opacity, up to a factor.
Negative weights are blue.";

/// Arguments of `field export`.
#[derive(Clone, Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct ExportArgs {
    /// Input field file (.safetensors) or splats (.ply).
    #[arg(value_name = "IN")]
    input: PathBuf,
    /// Output splats (.ply) or field file (.safetensors).
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,
    /// Replace OUT if it exists.
    #[arg(long, alias = "overwrite", short_aliases = ['y', 'w'])]
    force: bool,
}

/// Runs the command.
pub(super) fn run(args: &ExportArgs, console: &Console) -> Result<Status, EarlyExit> {
    let is_ply = |path: &PathBuf| path.extension().is_some_and(|e| e.eq_ignore_ascii_case("ply"));
    let count = if is_ply(&args.input) {
        check_output(&args.output, &[".safetensors"], args.force)?;
        let file = splat_file::load(&args.input, &LoadOptions::default()).map_err(Failure::from)?;
        for line in file.report.lines(&args.input) {
            console.warn("the splats", line);
        }
        let mut field = splat::from_splats(&file.scene())
            .map_err(|error| Failure::new("splats", format!("{}: {error}", args.input.display())))?;
        field.bounds = FieldBounds::from_points(&field.means);
        let model = FieldModel::from_field(field);
        write_bytes(&args.output, &model.to_bytes(), args.force)?;
        model.field.len()
    } else {
        check_output(&args.output, &[".ply"], args.force)?;
        let model = load(&args.input)?;
        let document = SplatFile::new(splat::to_splats(&model.field));
        let options =
            WriteOptions { label: "splats", overwrite: overwrite(args.force), ..WriteOptions::default() };
        splat_file::save(&Disk, &args.output, &document, &SaveOptions::default(), &options)
            .map_err(Failure::from)?;
        document.splats.len()
    };
    console.note(format!("{}: {}", args.output.display(), counted(count as u64, "Gaussian")));
    Ok(Status::Done)
}
