//! `gausset field voxelize`: samples a field to a dense volume.

use std::path::PathBuf;

use clap::Args;
use gausset::Failure;
use gausset_field::input::Affine;
use gausset_field::model::FieldModel;
use gausset_field::output::OutputVolume;
use gausset_field::render::{self, Lattice};
use gausset_field::{FieldBounds, GaussianField};
use serde::Serialize;

use super::{CutoffArg, MachineArgs, check_output, failure_in_file, load, parse_cutoff, write};
use crate::EarlyExit;
use crate::console::Console;
use crate::exit::Status;

const VOXELIZE_HELP: &str = "\
Examples:
  gausset field voxelize head.safetensors -o head.nrrd
  gausset field voxelize field.safetensors -o field.vti --shape 128,128,128
Without --shape, the voxels of the fitted volume are used. .npy is indexed [x][y][z].";

/// Arguments of `field voxelize`.
#[derive(Clone, Debug, Args)]
#[command(after_help = VOXELIZE_HELP)]
pub(crate) struct VoxelizeArgs {
    /// Field file.
    #[arg(value_name = "FIELD")]
    model: PathBuf,
    /// Output file: .npy, .nrrd or .vti.
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,
    /// Number of voxels along x, y, z over the bounding box of the field.
    #[arg(long, value_name = "X,Y,Z", value_parser = parse_shape)]
    shape: Option<[usize; 3]>,
    /// Guaranteed maximum error, in value units (1e-6) or relative to the largest |f| (0.01%); 0 = exact.
    #[arg(long, value_name = "E", default_value = "0.001%", value_parser = parse_cutoff)]
    cutoff_error: CutoffArg,
    /// Replace OUT if it exists.
    #[arg(long, alias = "overwrite", short_aliases = ['y', 'w'])]
    force: bool,
    /// Print the result as a JSON object.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    machine: MachineArgs,
}

fn parse_shape(text: &str) -> Result<[usize; 3], String> {
    let numbers: Option<Vec<usize>> = text.split([',', 'x']).map(|word| word.trim().parse().ok()).collect();
    numbers
        .and_then(|n| <[usize; 3]>::try_from(n).ok())
        .filter(|n| n.iter().all(|d| (1..=100_000).contains(d)) && n.iter().product::<usize>() <= 1 << 31)
        .ok_or_else(|| format!("expected X,Y,Z voxels like 128,128,64, found `{text}`"))
}

/// The result: a stable contract.
#[derive(Debug, Serialize)]
struct VoxelizeReport {
    dims: [usize; 3],
    /// Guaranteed maximum error in value units, without rounding.
    bound: Option<f64>,
    pairs: u64,
}

/// Number of voxels along the longest axis if neither a volume nor --shape is given.
const DEFAULT_VOXELS: f64 = 128.0;

/// The lattice of a model in model coordinates, and the map from voxel indices to the world.
pub(super) fn lattice(model: &FieldModel, shape: Option<[usize; 3]>) -> Result<(Lattice, Affine), Failure> {
    let lattice = match (shape, model.grid, model.field.bounds) {
        (None, Some(grid), _) => Lattice { origin: [0.0; 3], spacing: grid.spacing, dims: grid.dims },
        (shape, _, bounds) => {
            let bounds = bounds.or_else(|| reach(&model.field)).ok_or_else(|| {
                Failure::new("field", "metadata: no bbox, dims or Gaussians (expected one of these)")
            })?;
            let size = bounds.size();
            if !size.iter().all(|side| side.is_finite()) {
                let line = format!("metadata: bbox: too large (expected finite sides, found {bounds:?})");
                return Err(Failure::new("field", line));
            }
            let longest = size.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
            let dims = shape.unwrap_or_else(|| {
                size.map(|s| ((s / longest * DEFAULT_VOXELS).round() as usize).clamp(1, 128))
            });
            // Voxels are cells: their centres are half a cell inside the box.
            let mut spacing: [f64; 3] = std::array::from_fn(|k| size[k] / dims[k] as f64);
            let mut origin = std::array::from_fn(|k| bounds.lo[k] + 0.5 * spacing[k]);
            // A side of length 0 gets the smallest spacing of the others, with its plane in the middle.
            let smallest = spacing.into_iter().filter(|s| *s > 0.0).reduce(f64::min).unwrap_or(1.0);
            for k in (0..3).filter(|&k| size[k] == 0.0) {
                spacing[k] = smallest;
                origin[k] = bounds.lo[k] - 0.5 * smallest * (dims[k] - 1) as f64;
            }
            Lattice { origin, spacing, dims }
        }
    };
    let w = &model.world_from_model;
    let world = std::array::from_fn(|r| {
        let o = lattice.origin;
        let s = lattice.spacing;
        let t = w[r][0] * o[0] + w[r][1] * o[1] + w[r][2] * o[2] + w[r][3];
        [w[r][0] * s[0], w[r][1] * s[1], w[r][2] * s[2], t]
    });
    Ok((lattice, world))
}

/// The box of all means and three standard deviations around them.
fn reach(field: &GaussianField<f64>) -> Option<FieldBounds> {
    let corners = field.means.iter().enumerate().flat_map(|(i, mean)| {
        let l = field.factor(i);
        let rows: [&[f64]; 3] = [&l[..1], &l[1..3], &l[3..]];
        let sigma = rows.map(|row| row.iter().map(|v| v * v).sum::<f64>().sqrt());
        [-3.0, 3.0].map(|sigmas| std::array::from_fn(|k| mean[k] + sigmas * sigma[k]))
    });
    FieldBounds::from_points(&corners.collect::<Vec<_>>())
}

/// Runs `field voxelize`.
pub(super) fn voxelize(args: &VoxelizeArgs, console: &Console) -> Result<Status, EarlyExit> {
    check_output(&args.output, &[".npy", ".nrrd", ".vti"], args.force)?;
    let compute = args.machine.compute()?;
    let model = load(&args.model)?;
    let (lattice, world_from_index) = lattice(&model, args.shape)?;
    let found = render::voxelize(&compute, &model.field, &lattice, args.cutoff_error.for_model(&model));
    let (mut values, found) =
        found.map_err(failure_in_file(&args.model)).map_err(|failure| match failure.code {
            "memory" => Failure::new("memory", format!("{}; ask for fewer with --shape", failure.message)),
            _ => failure,
        })?;
    values.iter_mut().for_each(|v| *v = model.value(f64::from(*v)) as f32);
    let volume = OutputVolume { values: &values, dims: lattice.dims, world_from_index };
    write(&args.output, 4 * values.len() as u64, args.force, |out| {
        let is = |ending: &str| args.output.extension().is_some_and(|e| e.eq_ignore_ascii_case(ending));
        if is("nrrd") {
            volume.nrrd(out)
        } else if is("vti") {
            volume.vti(out)
        } else {
            volume.npy(out)
        }
    })?;
    let bound = found.bound.map(|bound| bound * model.scale.abs());
    let report = VoxelizeReport { dims: lattice.dims, bound, pairs: found.pairs };
    if args.json {
        console.json_or_text(&report, String::new)?;
    } else {
        let [x, y, z] = lattice.dims;
        let bound = bound.map_or_else(String::new, |bound| format!(", error at most {bound:.2e}"));
        console.note(format!("{}: {x} x {y} x {z} voxels{bound}", args.output.display()));
    }
    Ok(Status::Done)
}
