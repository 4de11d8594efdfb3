//! `gausset field`: Gaussian fields fitted to samples and volumes.

mod export;
mod fit;
mod info;
mod panels;
mod query;
mod slice;
mod voxelize;

use std::path::Path;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand};
use gausset::Failure;
use gausset_field::model::FieldModel;
use gausset_field::{Cutoff, FieldError};
use gausset_io::atomic::{AtomicWriter, Disk, WriteOptions, write_atomic_with};

use super::overwrite;
use crate::EarlyExit;
use crate::console::Console;
use crate::device::MachineArgs;
use crate::exit::Status;

const AFTER_HELP: &str = "\
Examples:
  gausset field fit head.nii.gz -o head.safetensors --gaussians 5000
  gausset field info head.safetensors
  gausset field slice head.safetensors --truth head.nii.gz -o slice.png
  gausset field voxelize head.safetensors -o head.nrrd
  gausset field query head.safetensors points.csv -o values.npy";

/// Arguments of `field`.
#[derive(Clone, Debug, Args)]
#[command(after_help = AFTER_HELP, arg_required_else_help = true, subcommand_required = true)]
pub(crate) struct FieldArgs {
    #[command(subcommand)]
    command: FieldCommand,
}

/// The sub-commands of `field`.
#[derive(Clone, Debug, Subcommand)]
enum FieldCommand {
    /// Fit a field to samples or a volume.
    Fit(Box<fit::FitArgs>),
    /// Evaluate a field, and optionally its gradients, at points.
    Query(query::QueryArgs),
    /// Sample a field to a dense volume: .npy, .nrrd or .vti.
    Voxelize(voxelize::VoxelizeArgs),
    /// Draw a slice as PNG, optionally with ground truth and error.
    Slice(slice::SliceArgs),
    /// Draw a projection as PNG: maximum intensity or line integrals.
    Mip(slice::MipArgs),
    /// Show the contents of a field file.
    Info(info::InfoArgs),
    /// Convert the Gaussians of a field to a splat PLY, or splats to a field.
    Export(export::ExportArgs),
}

impl FieldArgs {
    /// Whether the result is printed as a JSON object.
    pub(crate) fn is_json(&self) -> bool {
        match &self.command {
            FieldCommand::Fit(args) => args.json,
            FieldCommand::Query(args) => args.json,
            FieldCommand::Voxelize(args) => args.json,
            FieldCommand::Info(args) => args.json,
            FieldCommand::Slice(_) | FieldCommand::Mip(_) | FieldCommand::Export(_) => false,
        }
    }
}

/// Runs the command.
pub(crate) fn run(args: &FieldArgs, console: &Console) -> Result<Status, EarlyExit> {
    match &args.command {
        FieldCommand::Fit(args) => fit::run(args, console),
        FieldCommand::Query(args) => query::run(args, console),
        FieldCommand::Voxelize(args) => voxelize::voxelize(args, console),
        FieldCommand::Slice(args) => slice::slice(args, console),
        FieldCommand::Mip(args) => slice::mip(args, console),
        FieldCommand::Info(args) => info::run(args, console),
        FieldCommand::Export(args) => export::run(args, console),
    }
}

/// Whether the positions of a command are world positions or voxel indices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Space {
    World,
    Index,
}

fn space_parser() -> impl TypedValueParser<Value = Space> {
    PossibleValuesParser::new(["world", "index"])
        .map(|word| if word == "index" { Space::Index } else { Space::World })
}

/// Parses an allowed error: `1e-6`, or `0.001%` of the largest |f|; 0 = exact.
fn parse_cutoff(text: &str) -> Result<CutoffArg, String> {
    let (number, is_share) = match text.strip_suffix('%') {
        Some(number) => (number, true),
        None => (text, false),
    };
    match number.trim().parse::<f64>() {
        Ok(value) if value >= 0.0 && value.is_finite() => {
            Ok(if is_share { CutoffArg::Share(value / 100.0) } else { CutoffArg::Value(value) })
        }
        _ => Err(format!("expected an error like 1e-6 or 0.01%, found `{text}`")),
    }
}

/// An allowed error of evaluation, in value units or as a fraction of the largest value.
#[derive(Clone, Copy, Debug, PartialEq)]
enum CutoffArg {
    Value(f64),
    Share(f64),
}

impl CutoffArg {
    /// The cut-off for the field of a model, whose values are scaled.
    fn for_model(self, model: &FieldModel) -> Cutoff {
        match self {
            Self::Value(error) if model.scale != 0.0 => Cutoff::Absolute(error / model.scale.abs()),
            Self::Value(error) => Cutoff::Absolute(error),
            Self::Share(share) => Cutoff::Relative(share),
        }
    }
}

/// Refuses output names with other extensions, folders, names in folders that do not exist, and existing files unless
/// forced. Called before the computation.
fn check_output(path: &Path, endings: &[&str], force: bool) -> Result<(), Failure> {
    let name = path.to_string_lossy().to_lowercase();
    if endings.iter().any(|ending| name.ends_with(ending)) || path.starts_with("/dev") {
        return Ok(gausset_io::atomic::check_output(&Disk, path, overwrite(force))?);
    }
    let line = format!(
        "{}: name: unknown format (expected a name that ends in {})",
        path.display(),
        endings.join(", ")
    );
    Err(Failure::usage(line))
}

/// Writes a file of about `bytes` bytes atomically.
fn write(
    path: &Path,
    bytes: u64,
    force: bool,
    body: impl FnOnce(&mut AtomicWriter<'_>) -> std::io::Result<()>,
) -> Result<(), Failure> {
    let options = WriteOptions { label: "field", overwrite: overwrite(force), needed_bytes: bytes };
    write_atomic_with(&Disk, path, &options, body)?;
    Ok(())
}

/// Writes bytes to a file atomically.
fn write_bytes(path: &Path, bytes: &[u8], force: bool) -> Result<(), Failure> {
    write(path, bytes.len() as u64, force, |out| std::io::Write::write_all(out, bytes))
}

fn load(path: &Path) -> Result<FieldModel, Failure> {
    Ok(FieldModel::load(path)?)
}

/// Converts an error of a field into a failure that names the file.
fn failure_in_file(path: &Path) -> impl Fn(FieldError) -> Failure {
    move |error| Failure::new(error_code(&error), format!("{}: {error}", path.display()))
}

const fn error_code(error: &FieldError) -> &'static str {
    if matches!(error, FieldError::Memory { .. }) { "memory" } else { "field" }
}
