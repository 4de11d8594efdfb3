//! `gausset field`: Gaussian fields fitted to samples and volumes.

mod export;
mod fit;
mod info;
mod picture;
mod query;
mod slice;
mod voxelize;

use std::path::Path;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand};
use gausset_compute::VectorLevel;
use gausset_field::model::Model;
use gausset_field::{Compute, Cutoff, FieldError};
use gausset_flow::Failure;
use gausset_io::atomic::{AtomicWriter, Disk, Overwrite, WriteOptions, refuse_existing, write_atomic_with};

use crate::Ending;
use crate::console::Console;
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
    what: What,
}

/// What is done.
#[derive(Clone, Debug, Subcommand)]
enum What {
    /// Fit a field to samples or a volume.
    Fit(Box<fit::FitArgs>),
    /// Values (and gradients) of a field at points.
    Query(query::QueryArgs),
    /// A dense volume of a field: .npy, .nrrd or .vti.
    Voxelize(voxelize::VoxelizeArgs),
    /// A slice as PNG: truth, field and error side by side.
    Slice(slice::SliceArgs),
    /// A projection as PNG: maximum intensity, or line integrals.
    Mip(slice::MipArgs),
    /// Tell what a field file holds.
    Info(info::InfoArgs),
    /// The Gaussians as a splat PLY, or splats as a field.
    Export(export::ExportArgs),
}

impl FieldArgs {
    /// Whether the result is to be a JSON object.
    pub(crate) fn is_json(&self) -> bool {
        match &self.what {
            What::Fit(args) => args.json,
            What::Query(args) => args.json,
            What::Voxelize(args) => args.json,
            What::Info(args) => args.json,
            What::Slice(_) | What::Mip(_) | What::Export(_) => false,
        }
    }
}

/// Runs the command.
pub(crate) fn run(args: &FieldArgs, console: &Console) -> Result<Status, Ending> {
    match &args.what {
        What::Fit(args) => fit::run(args, console),
        What::Query(args) => query::run(args, console),
        What::Voxelize(args) => voxelize::voxelize(args, console),
        What::Slice(args) => slice::slice(args, console),
        What::Mip(args) => slice::mip(args, console),
        What::Info(args) => info::run(args, console),
        What::Export(args) => export::run(args, console),
    }
}

/// How it is computed. The result is the same with each of them.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct MachineArgs {
    /// Vector instructions: auto|avx512|avx2|fallback.
    #[arg(
        long, value_name = "LEVEL", default_value = "auto", hide_possible_values = true, help_heading = "Machine",
        value_parser = PossibleValuesParser::new(VectorLevel::ALL.map(VectorLevel::name))
            .map(|name| VectorLevel::ALL.into_iter().find(|level| level.name() == name).unwrap_or_default())
    )]
    simd: VectorLevel,
    /// Threads; 0 = all processors.
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = "Machine", value_parser = clap::value_parser!(u32).range(0..=4096))]
    threads: u32,
}

impl MachineArgs {
    fn compute(self) -> Result<Compute, Failure> {
        gausset_flow::fields::compute(self.threads, self.simd)
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

/// `1e-6` or `0.001%` of the largest |f|; 0 = exact.
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

/// An error that may be made, in value units or as a share of the largest value.
#[derive(Clone, Copy, Debug, PartialEq)]
enum CutoffArg {
    Value(f64),
    Share(f64),
}

impl CutoffArg {
    /// For the field of a model, whose values are scaled.
    fn of(self, model: &Model) -> Cutoff {
        match self {
            Self::Value(error) if model.scale != 0.0 => Cutoff::Absolute(error / model.scale.abs()),
            Self::Value(error) => Cutoff::Absolute(error),
            Self::Share(share) => Cutoff::Relative(share),
        }
    }
}

/// Whether what is there may be replaced.
const fn overwrite(force: bool) -> Overwrite {
    if force { Overwrite::Replace } else { Overwrite::Refuse }
}

/// Refuses names that do not end in one of these, and files that are there already: before the work, not after it.
fn check_output(path: &Path, endings: &[&str], force: bool) -> Result<(), Failure> {
    let name = path.to_string_lossy().to_lowercase();
    if endings.iter().any(|ending| name.ends_with(ending)) || path.starts_with("/dev") {
        return Ok(refuse_existing(&Disk, path, overwrite(force))?);
    }
    let line = format!(
        "{}: name: no known format (expected a name that ends in {})",
        path.display(),
        endings.join(", ")
    );
    Err(Failure::usage(line))
}

/// Writes a file of about this length as a whole.
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

/// Writes bytes as a whole file.
fn write_bytes(path: &Path, bytes: &[u8], force: bool) -> Result<(), Failure> {
    write(path, bytes.len() as u64, force, |out| std::io::Write::write_all(out, bytes))
}

fn load(path: &Path) -> Result<Model, Failure> {
    Ok(Model::load(path)?)
}

/// A failure of a field, with the file that holds its cause.
fn in_file(path: &Path) -> impl Fn(FieldError) -> Failure {
    move |error| Failure::new(code_of(&error), format!("{}: {error}", path.display()))
}

const fn code_of(error: &FieldError) -> &'static str {
    if matches!(error, FieldError::Memory { .. }) { "memory" } else { "field" }
}
