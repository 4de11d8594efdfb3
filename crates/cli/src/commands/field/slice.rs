//! `gausset field slice` and `mip`: images of a field.

use std::path::{Path, PathBuf};

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use gausset::Failure;
use gausset_field::Cutoff;
use gausset_field::input::{self, Input, ReadRequest, Volume};
use gausset_field::render;

use super::panels::{Colours, Panel, encode_panels};
use super::voxelize::lattice;
use super::{MachineArgs, check_output, failure_in_file, load, write_bytes};
use crate::EarlyExit;
use crate::console::Console;
use crate::exit::Status;

/// Allowed error of the values in an image: less than a grey level.
const IMAGE_ERROR: f64 = 1e-4;
/// Memory per pixel of a panel, bytes: its value twice, its colour in the panel and in the image, the file.
const PIXEL_BYTES: u64 = 20;
const AXES: [&str; 3] = ["x", "y", "z"];
/// Error that is drawn in full colour, as a fraction of the range.
const FULL_COLOUR_ERROR: f32 = 0.1;

const SLICE_HELP: &str = "\
Examples:
  gausset field slice head.safetensors --truth head.nii.gz -o slice.png
  gausset field slice head.safetensors --axis x --at 40 -o slice.png
--truth shows ground truth, field and error side by side (blue: too low, red: too high, full colour
at 10 % of the range).";

/// Arguments of `field slice`.
#[derive(Clone, Debug, Args)]
#[command(after_help = SLICE_HELP)]
pub(crate) struct SliceArgs {
    /// Field file.
    #[arg(value_name = "FIELD")]
    model: PathBuf,
    /// Output PNG.
    #[arg(short, long, value_name = "OUT.png")]
    output: PathBuf,
    /// Ground truth: the volume that the field was fitted to.
    #[arg(long, value_name = "IN")]
    truth: Option<PathBuf>,
    /// Frame of a 4D volume, counted from 0.
    #[arg(long, value_name = "N", default_value_t = 0, requires = "truth")]
    frame: usize,
    /// Channel of a volume with several, counted from 0.
    #[arg(long, value_name = "N", requires = "truth")]
    channel: Option<usize>,
    /// Axis perpendicular to the slice: x|y|z.
    #[arg(long, value_name = "AXIS", default_value = "z", hide_possible_values = true, value_parser = axis_parser())]
    axis: usize,
    /// Index of the slice [default: the middle].
    #[arg(long, value_name = "INDEX")]
    at: Option<usize>,
    /// Replace OUT if it exists.
    #[arg(long, alias = "overwrite", short_aliases = ['y', 'w'])]
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
    /// Output PNG.
    #[arg(short, long, value_name = "OUT.png")]
    output: PathBuf,
    /// Projection axis: x|y|z.
    #[arg(long, value_name = "AXIS", default_value = "z", hide_possible_values = true, value_parser = axis_parser())]
    axis: usize,
    /// Project line integrals (closed form) instead of the maximum.
    #[arg(long)]
    integral: bool,
    /// Replace OUT if it exists.
    #[arg(long, alias = "overwrite", short_aliases = ['y', 'w'])]
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

/// Runs `field slice`.
pub(super) fn slice(args: &SliceArgs, console: &Console) -> Result<Status, EarlyExit> {
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
    plane.checked_count(panels * PIXEL_BYTES).map_err(failure_in_file(&args.model))?;
    let (values, _) = render::voxelize(&compute, &model.field, &plane, Cutoff::Absolute(IMAGE_ERROR))
        .map_err(failure_in_file(&args.model))?;
    let values: Vec<f32> = values.iter().map(|v| model.value(f64::from(*v)) as f32).collect();
    let (u, v) = render::other_axes(args.axis);
    let (width, height) = (whole.dims[u], whole.dims[v]);
    let panel = |title: &str, values, colours, range| Panel {
        title: format!("{title}, {} = {at}", AXES[args.axis]),
        size: [width, height],
        values,
        colours,
        range,
        spacing: whole.spacing[u],
    };
    let (truth, error): (Vec<f32>, Vec<f32>);
    let panels = match &args.truth {
        None => vec![panel("field", &values, Colours::Grey, range(&values))],
        Some(path) => {
            let volume = read_truth(path, args, whole.dims)?;
            let strides = [1, volume.dims[0], volume.dims[0] * volume.dims[1]];
            truth = (0..width * height)
                .map(|i| {
                    let index = i % width * strides[u] + i / width * strides[v] + at * strides[args.axis];
                    volume.values[index] as f32
                })
                .collect();
            error = values.iter().zip(&truth).map(|(f, y)| f - y).collect();
            let full = (FULL_COLOUR_ERROR * model.peak as f32).max(f32::MIN_POSITIVE);
            vec![
                panel("truth", &truth, Colours::Grey, range(&truth)),
                panel("field", &values, Colours::Grey, range(&truth)),
                panel("field - truth", &error, Colours::Error, [-full, full]),
            ]
        }
    };
    write_bytes(&args.output, &encode_panels(&panels)?, args.force)?;
    console.note(format!("{}: slice {at} of {}", args.output.display(), whole.dims[args.axis]));
    Ok(Status::Done)
}

/// The volume that a field was fitted to, which has the size of its grid.
fn read_truth(path: &Path, args: &SliceArgs, dims: [usize; 3]) -> Result<Volume, Failure> {
    let wanted = ReadRequest { frame: args.frame, channel: args.channel, ..ReadRequest::default() };
    let Input::Volume(volume) = input::read(path, &wanted)? else {
        let line = format!("{}: samples (expected a volume for --truth)", path.display());
        return Err(Failure::usage(line));
    };
    if volume.dims != dims {
        let line = format!(
            "{}: size differs from the field's (expected {dims:?} voxels, found {:?})",
            path.display(),
            volume.dims
        );
        return Err(Failure::new("samples", line));
    }
    Ok(volume)
}

/// Smallest and largest number; 0 and 0 without numbers.
fn range(values: &[f32]) -> [f32; 2] {
    let numbers = values.iter().copied().filter(|v| v.is_finite());
    numbers.map(|v| [v, v]).reduce(|[lo, hi], [v, _]| [lo.min(v), hi.max(v)]).unwrap_or_default()
}

/// Runs `field mip`.
pub(super) fn mip(args: &MipArgs, console: &Console) -> Result<Status, EarlyExit> {
    check_output(&args.output, &[".png"], args.force)?;
    let compute = args.machine.compute()?;
    let model = load(&args.model)?;
    let (lattice, _) = lattice(&model, None)?;
    lattice.plane(args.axis, 0).checked_count(PIXEL_BYTES).map_err(failure_in_file(&args.model))?;
    let values = if args.integral {
        let mut values = render::integrals(&compute, &model.field, &lattice, args.axis)
            .map_err(failure_in_file(&args.model))?;
        values.iter_mut().for_each(|v| *v = (model.scale * f64::from(*v)) as f32);
        values
    } else {
        let (mut values, _) =
            render::voxelize(&compute, &model.field, &lattice, Cutoff::Absolute(IMAGE_ERROR))
                .map_err(failure_in_file(&args.model))?;
        values.iter_mut().for_each(|v| *v = model.value(f64::from(*v)) as f32);
        render::maximum_projection(&values, lattice.dims, args.axis)
    };
    let (u, v) = render::other_axes(args.axis);
    let what = if args.integral { "line integral" } else { "maximum" };
    let panel = Panel {
        title: format!("{what} along {}", AXES[args.axis]),
        size: [lattice.dims[u], lattice.dims[v]],
        values: &values,
        colours: Colours::Grey,
        range: range(&values),
        spacing: lattice.spacing[u],
    };
    write_bytes(&args.output, &encode_panels(&[panel])?, args.force)?;
    console.note(format!("{}: along {}", args.output.display(), AXES[args.axis]));
    Ok(Status::Done)
}
