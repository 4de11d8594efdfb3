//! `gausset field voxelize`, `slice` and `mip`: volumes and pictures of a field.

use std::path::PathBuf;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use gausset_field::Cutoff;
use gausset_field::input::{self, Affine, Input};
use gausset_field::model::Model;
use gausset_field::output::VolumeOut;
use gausset_field::render::{self, Lattice};
use gausset_flow::Failure;
use gausset_io::image::encode::{PngPixels, png};
use serde::Serialize;

use super::{CutoffArg, MachineArgs, check_output, in_file, load, parse_cutoff, write, write_bytes};
use crate::Ending;
use crate::console::Console;
use crate::exit::Status;

/// Error of pictures, as a share of the range: less than a grey level.
const PICTURE_ERROR: f64 = 1e-4;
/// Pictures are enlarged by a whole factor until a side has at least this.
const PICTURE_PX: usize = 256;
/// Pixels between pictures.
const GAP_PX: usize = 8;
/// Bytes that a pixel of a panel takes: its value twice, its colour here and in the picture, the file.
const PIXEL_BYTES: u64 = 20;
/// Error that is drawn in full colour, as a share of the range.
const FULL_ERROR: f32 = 0.1;

const VOXELIZE_HELP: &str = "\
Examples:
  gausset field voxelize head.safetensors -o head.nrrd
  gausset field voxelize field.safetensors -o field.vti --shape 128,128,128
Without --shape: the voxels it was fitted to. .npy is indexed [x][y][z].";

/// Arguments of `field voxelize`.
#[derive(Clone, Debug, Args)]
#[command(after_help = VOXELIZE_HELP)]
pub(crate) struct VoxelizeArgs {
    /// Field file.
    #[arg(value_name = "FIELD")]
    model: PathBuf,
    /// File to write: .npy, .nrrd or .vti.
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,
    /// Voxels along x, y, z over the box of the field.
    #[arg(long, value_name = "X,Y,Z", value_parser = parse_shape)]
    shape: Option<[usize; 3]>,
    /// Error that may be made, guaranteed: 1e-6 in value units, or 0.01% of the largest |f|; 0 = exact.
    #[arg(long, value_name = "E", default_value = "0.001%", value_parser = parse_cutoff)]
    cutoff_error: CutoffArg,
    /// Replace OUT if it exists.
    #[arg(long)]
    force: bool,
    /// Print what was done as a JSON object.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    machine: MachineArgs,
}

const SLICE_HELP: &str = "\
Examples:
  gausset field slice head.safetensors --truth head.nii.gz -o slice.png
  gausset field slice head.safetensors --axis x --at 40 -o slice.png
With --truth: truth, field and error side by side (blue: too low, red: too high, full colour at 10 % of the range).";

/// Arguments of `field slice`.
#[derive(Clone, Debug, Args)]
#[command(after_help = SLICE_HELP)]
pub(crate) struct SliceArgs {
    /// Field file.
    #[arg(value_name = "FIELD")]
    model: PathBuf,
    /// PNG to write.
    #[arg(short, long, value_name = "OUT.png")]
    output: PathBuf,
    /// Volume that the field was fitted to.
    #[arg(long, value_name = "IN")]
    truth: Option<PathBuf>,
    /// Frame of a 4-D volume, from 0.
    #[arg(long, value_name = "N", default_value_t = 0, requires = "truth")]
    frame: usize,
    /// Axis across the slice: x|y|z.
    #[arg(long, value_name = "AXIS", default_value = "z", hide_possible_values = true, value_parser = axis_parser())]
    axis: usize,
    /// Index of the slice [default: the middle].
    #[arg(long, value_name = "INDEX")]
    at: Option<usize>,
    /// Replace OUT if it exists.
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    machine: MachineArgs,
}

/// Arguments of `field mip`.
#[derive(Clone, Debug, Args)]
pub(crate) struct MipArgs {
    /// Field file.
    #[arg(value_name = "FIELD")]
    model: PathBuf,
    /// PNG to write.
    #[arg(short, long, value_name = "OUT.png")]
    output: PathBuf,
    /// Axis to look along: x|y|z.
    #[arg(long, value_name = "AXIS", default_value = "z", hide_possible_values = true, value_parser = axis_parser())]
    axis: usize,
    /// Line integrals (closed form) instead of the largest value.
    #[arg(long)]
    integral: bool,
    /// Replace OUT if it exists.
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    machine: MachineArgs,
}

fn axis_parser() -> impl TypedValueParser<Value = usize> {
    PossibleValuesParser::new(["x", "y", "z"]).map(|word| match word.as_str() {
        "x" => 0,
        "y" => 1,
        _ => 2,
    })
}

fn parse_shape(text: &str) -> Result<[usize; 3], String> {
    let numbers: Option<Vec<usize>> = text.split([',', 'x']).map(|word| word.trim().parse().ok()).collect();
    numbers
        .and_then(|n| <[usize; 3]>::try_from(n).ok())
        .filter(|n| n.iter().all(|d| (1..=100_000).contains(d)) && n.iter().product::<usize>() <= 1 << 31)
        .ok_or_else(|| format!("expected X,Y,Z voxels like 128,128,64, found `{text}`"))
}

/// What was done: a stable contract.
#[derive(Debug, Serialize)]
struct Report {
    dims: [usize; 3],
    /// Guaranteed error in value units, rounding apart.
    bound: Option<f64>,
    pairs: u64,
}

/// Voxels a side of the longest axis when neither a volume nor --shape tells.
const DEFAULT_VOXELS: f64 = 128.0;

/// The lattice of a model in model coordinates, and its world map.
fn lattice(model: &Model, shape: Option<[usize; 3]>) -> Result<(Lattice, Affine), Failure> {
    let lattice = match (shape, model.grid, model.field.bounds) {
        (None, Some(grid), _) => Lattice { origin: [0.0; 3], spacing: grid.spacing, dims: grid.dims },
        (shape, _, Some(bounds)) => {
            let size = bounds.size();
            if !size.iter().all(|side| side.is_finite()) {
                let line = format!("metadata: bbox: too large (expected finite sides, found {bounds:?})");
                return Err(Failure::new("field", line));
            }
            let longest = size.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
            let dims = shape.unwrap_or_else(|| {
                size.map(|s| ((s / longest * DEFAULT_VOXELS).round() as usize).clamp(1, 128))
            });
            // Voxels are cells: their centres lie half a cell inside.
            let spacing: [f64; 3] =
                std::array::from_fn(|k| if size[k] > 0.0 { size[k] / dims[k] as f64 } else { 1.0 });
            let origin = std::array::from_fn(|k| bounds.lo[k] + 0.5 * spacing[k]);
            Lattice { origin, spacing, dims }
        }
        _ => return Err(Failure::new("field", "metadata: no bbox and no dims (expected one); add --shape")),
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

/// Runs `field voxelize`.
pub(super) fn voxelize(args: &VoxelizeArgs, console: &Console) -> Result<Status, Ending> {
    check_output(&args.output, &[".npy", ".nrrd", ".vti"], args.force)?;
    let compute = args.machine.compute()?;
    let model = load(&args.model)?;
    let (lattice, world_from_index) = lattice(&model, args.shape)?;
    let found = render::voxelize(&compute, &model.field, &lattice, args.cutoff_error.of(&model));
    let (mut values, found) = found.map_err(in_file(&args.model)).map_err(|failure| match failure.code {
        "memory" => Failure::new("memory", format!("{}; ask for fewer with --shape", failure.message)),
        _ => failure,
    })?;
    values.iter_mut().for_each(|v| *v = model.value(f64::from(*v)) as f32);
    let volume = VolumeOut { values: &values, dims: lattice.dims, world_from_index };
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
    let report = Report { dims: lattice.dims, bound, pairs: found.pairs };
    if args.json {
        console.object_or(&report, String::new)?;
    } else {
        let [x, y, z] = lattice.dims;
        let bound = bound.map_or_else(String::new, |bound| format!(", error at most {bound:.2e}"));
        console.note(format!("{}: {x} x {y} x {z} voxels{bound}", args.output.display()));
    }
    Ok(Status::Done)
}

/// A picture of values.
struct Panel {
    width: usize,
    height: usize,
    rgb: Vec<[u8; 3]>,
}

impl Panel {
    fn grey(width: usize, height: usize, values: &[f32], lo: f32, hi: f32) -> Self {
        let level = |v: &f32| ((v - lo) / (hi - lo).max(f32::MIN_POSITIVE) * 255.0).round() as u8;
        Self { width, height, rgb: values.iter().map(|v| [level(v); 3]).collect() }
    }

    /// Blue below, white none, red above.
    fn error(width: usize, height: usize, values: &[f32], full: f32) -> Self {
        let colour = |v: &f32| {
            let share = (v / full.max(f32::MIN_POSITIVE)).clamp(-1.0, 1.0);
            let fade = ((1.0 - share.abs()) * 255.0).round() as u8;
            if share >= 0.0 { [255, fade, fade] } else { [fade, fade, 255] }
        };
        Self { width, height, rgb: values.iter().map(colour).collect() }
    }

    /// Enlarged by a whole factor, rows from bottom to top as the axis runs.
    fn scaled(&self, factor: usize) -> Self {
        let (width, height) = (self.width * factor, self.height * factor);
        let at = |i: usize| {
            let (x, y) = (i % width / factor, (height - 1 - i / width) / factor);
            self.rgb[y * self.width + x]
        };
        Self { width, height, rgb: (0..width * height).map(at).collect() }
    }
}

/// Panels side by side as PNG.
fn picture(panels: &[Panel]) -> Result<Vec<u8>, Failure> {
    let side = panels.iter().map(|p| p.width.max(p.height)).max().unwrap_or(1).max(1);
    let factor = PICTURE_PX.div_ceil(side).max(1);
    let panels: Vec<Panel> = panels.iter().map(|panel| panel.scaled(factor)).collect();
    let height = panels.iter().map(|p| p.height).max().unwrap_or(0);
    let width = panels.iter().map(|p| p.width).sum::<usize>() + GAP_PX * (panels.len() - 1);
    let mut rgb = vec![[255u8; 3]; width * height];
    let mut left = 0;
    for panel in &panels {
        for y in 0..panel.height {
            let row = &panel.rgb[y * panel.width..][..panel.width];
            rgb[y * width + left..][..panel.width].copy_from_slice(row);
        }
        left += panel.width + GAP_PX;
    }
    png(width as u32, height as u32, PngPixels::Rgb8(rgb.as_flattened()), &[])
        .map_err(|error| Failure::new("write", format!("png: {error}")))
}

/// Runs `field slice`.
pub(super) fn slice(args: &SliceArgs, console: &Console) -> Result<Status, Ending> {
    check_output(&args.output, &[".png"], args.force)?;
    let compute = args.machine.compute()?;
    let model = load(&args.model)?;
    let (whole, _) = lattice(&model, None)?;
    let at = args.at.unwrap_or(whole.dims[args.axis] / 2);
    if at >= whole.dims[args.axis] {
        let line = format!("--at: no such slice (expected 0 to {}, found {at})", whole.dims[args.axis] - 1);
        return Err(Failure::usage(line).into());
    }
    let plane = whole.plane(args.axis, at);
    let panels = if args.truth.is_some() { 3 } else { 1 };
    plane.count(panels * PIXEL_BYTES).map_err(in_file(&args.model))?;
    let (values, _) = render::voxelize(&compute, &model.field, &plane, Cutoff::Absolute(PICTURE_ERROR))
        .map_err(in_file(&args.model))?;
    let values: Vec<f32> = values.iter().map(|v| model.value(f64::from(*v)) as f32).collect();
    let (u, v) = render::others(args.axis);
    let (width, height) = (whole.dims[u], whole.dims[v]);
    let range = |values: &[f32]| {
        values.iter().fold((f32::INFINITY, f32::NEG_INFINITY), |(lo, hi), v| (lo.min(*v), hi.max(*v)))
    };
    let panels = match &args.truth {
        None => {
            let (lo, hi) = range(&values);
            vec![Panel::grey(width, height, &values, lo, hi)]
        }
        Some(path) => {
            let Input::Volume(volume) = input::read(path, args.frame)? else {
                let line = format!("{}: samples (expected a volume for --truth)", path.display());
                return Err(Failure::usage(line).into());
            };
            if volume.dims != whole.dims {
                let line = format!(
                    "{}: another size (expected {:?} voxels as the field's, found {:?})",
                    path.display(),
                    whole.dims,
                    volume.dims
                );
                return Err(Failure::new("samples", line).into());
            }
            let strides = [1, volume.dims[0], volume.dims[0] * volume.dims[1]];
            let truth: Vec<f32> = (0..width * height)
                .map(|i| {
                    let index = i % width * strides[u] + i / width * strides[v] + at * strides[args.axis];
                    volume.values[index] as f32
                })
                .collect();
            let (lo, hi) = range(&truth);
            let error: Vec<f32> = values.iter().zip(&truth).map(|(f, y)| f - y).collect();
            vec![
                Panel::grey(width, height, &truth, lo, hi),
                Panel::grey(width, height, &values, lo, hi),
                Panel::error(width, height, &error, FULL_ERROR * model.peak as f32),
            ]
        }
    };
    write_bytes(&args.output, &picture(&panels)?, args.force)?;
    console.note(format!("{}: slice {at} of {}", args.output.display(), whole.dims[args.axis]));
    Ok(Status::Done)
}

/// Runs `field mip`.
pub(super) fn mip(args: &MipArgs, console: &Console) -> Result<Status, Ending> {
    check_output(&args.output, &[".png"], args.force)?;
    let compute = args.machine.compute()?;
    let model = load(&args.model)?;
    let (lattice, _) = lattice(&model, None)?;
    lattice.plane(args.axis, 0).count(PIXEL_BYTES).map_err(in_file(&args.model))?;
    let values = if args.integral {
        let mut values =
            render::integrals(&compute, &model.field, &lattice, args.axis).map_err(in_file(&args.model))?;
        values.iter_mut().for_each(|v| *v = (model.scale * f64::from(*v)) as f32);
        values
    } else {
        let (mut values, _) =
            render::voxelize(&compute, &model.field, &lattice, Cutoff::Absolute(PICTURE_ERROR))
                .map_err(in_file(&args.model))?;
        values.iter_mut().for_each(|v| *v = model.value(f64::from(*v)) as f32);
        render::maximum_projection(&values, lattice.dims, args.axis)
    };
    let (u, v) = render::others(args.axis);
    let (lo, hi) =
        values.iter().fold((f32::INFINITY, f32::NEG_INFINITY), |(lo, hi), v| (lo.min(*v), hi.max(*v)));
    let panel = Panel::grey(lattice.dims[u], lattice.dims[v], &values, lo, hi);
    write_bytes(&args.output, &picture(&[panel])?, args.force)?;
    console.note(format!("{}: along {}", args.output.display(), ["x", "y", "z"][args.axis]));
    Ok(Status::Done)
}
