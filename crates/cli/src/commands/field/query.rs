//! `gausset field query`: evaluates a field at points.

use std::path::PathBuf;

use clap::Args;
use gausset::Failure;
use gausset_field::input::{self, Affine};
use gausset_field::model::FieldModel;
use gausset_field::{
    AcceleratedEvaluator, Compute, Cutoff, CutoffReport, FieldError, GaussianField, Real, SortedPoints,
    render,
};
use gausset_io::npy;
use serde::Serialize;

use super::{
    CutoffArg, MachineArgs, Space, check_output, failure_in_file, load, parse_cutoff, space_parser, write,
    write_bytes,
};
use crate::EarlyExit;
use crate::console::Console;
use crate::exit::Status;
use crate::numbers::counted;

const AFTER_HELP: &str = "\
Examples:
  gausset field query head.safetensors points.csv -o values.npy
  gausset field query head.safetensors points.npy -o values.csv --space index --grad
Points are rows `x y z` (.csv or .npy). The result has rows `value`, with --grad `value dx dy dz`.";

/// Arguments of `field query`.
#[derive(Clone, Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct QueryArgs {
    /// Field file.
    #[arg(value_name = "FIELD")]
    model: PathBuf,
    /// Input points: .csv or .npy.
    #[arg(value_name = "POINTS")]
    points: PathBuf,
    /// Output file: .csv or .npy.
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,
    /// Coordinates of the points: world (positions) or index (voxels).
    #[arg(long, value_name = "SPACE", default_value = "world", hide_possible_values = true, value_parser = space_parser())]
    space: Space,
    /// Also write gradients, per unit of the points' coordinates.
    #[arg(long)]
    grad: bool,
    /// Guaranteed maximum error, in value units (1e-6) or relative to the largest |f| (0.01%); 0 = exact.
    #[arg(long, value_name = "E", default_value = "0", value_parser = parse_cutoff)]
    cutoff_error: CutoffArg,
    /// Accept points outside the bounding box of the field.
    #[arg(long)]
    outside: bool,
    /// Compute in double precision, and write it to .npy.
    #[arg(long)]
    f64: bool,
    /// Replace OUT if it exists.
    #[arg(long, alias = "overwrite", short_aliases = ['y', 'w'])]
    force: bool,
    /// Print the result as a JSON object.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    machine: MachineArgs,
}

/// The result: a stable contract.
#[derive(Debug, Serialize)]
struct QueryReport {
    points: usize,
    gaussians: usize,
    /// Guaranteed maximum error in value units, without rounding; `null` if all pairs were computed.
    bound: Option<f64>,
    pairs: u64,
}

/// The map from the coordinates of a space to model coordinates.
pub(super) fn model_from(model: &FieldModel, space: Space) -> Result<Affine, Failure> {
    match space {
        Space::World => model
            .model_from_world()
            .ok_or_else(|| Failure::new("field", "metadata: affine cannot be inverted; use --space index")),
        Space::Index => Ok(match model.grid {
            None => input::IDENTITY,
            Some(grid) => {
                let s = grid.spacing;
                [[s[0], 0.0, 0.0, 0.0], [0.0, s[1], 0.0, 0.0], [0.0, 0.0, s[2], 0.0]]
            }
        }),
    }
}

fn apply(m: &Affine, x: [f64; 3]) -> [f64; 3] {
    m.map(|row| row[0] * x[0] + row[1] * x[1] + row[2] * x[2] + row[3])
}

/// Values, gradients (empty unless requested), and the report of the cut-off.
type Evaluation = (Vec<f64>, Vec<[f64; 3]>, CutoffReport);

/// Evaluates values and, if requested, gradients at points.
fn evaluate<T: Real>(
    compute: &Compute,
    field: &GaussianField<T>,
    points: &[[T; 3]],
    cutoff: Cutoff,
    with_gradients: bool,
) -> Result<Evaluation, FieldError> {
    let evaluator = AcceleratedEvaluator::new(compute, field)?;
    let set = SortedPoints::new(points)?;
    let wide = |values: Vec<T>| values.into_iter().map(Into::into).collect();
    if !with_gradients {
        let (values, report) = evaluator.values(&set, cutoff)?;
        return Ok((wide(values), Vec::new(), report));
    }
    let (found, report) = evaluator.gradients(&set, cutoff)?;
    let gradients = found.gradients.into_iter().map(|g| g.map(Into::into)).collect();
    Ok((wide(found.values), gradients, report))
}

/// Runs the command.
pub(super) fn run(args: &QueryArgs, console: &Console) -> Result<Status, EarlyExit> {
    check_output(&args.output, &[".csv", ".npy"], args.force)?;
    let compute = args.machine.compute()?;
    let model = load(&args.model)?;
    let map = model_from(&model, args.space)?;
    let points: Vec<[f64; 3]> =
        input::read_points(&args.points)?.into_iter().map(|x| apply(&map, x)).collect();
    if !args.outside {
        model.field.check_inside(&points).map_err(|error| {
            Failure::new(
                "field",
                format!("{}: {error}; check --space, or add --outside", args.points.display()),
            )
        })?;
    }
    let cutoff = args.cutoff_error.for_model(&model);
    let found = if args.f64 {
        evaluate(&compute, &model.field, &points, cutoff, args.grad)
    } else {
        // In f32, relative to the centre of the field's box for precision.
        let middle =
            model.field.bounds.map_or([0.0; 3], |b| std::array::from_fn(|k| 0.5 * (b.lo[k] + b.hi[k])));
        let field = render::recentred(&model.field, middle);
        let near: Vec<[f32; 3]> =
            points.iter().map(|x| std::array::from_fn(|k| (x[k] - middle[k]) as f32)).collect();
        evaluate(&compute, &field, &near, cutoff, args.grad)
    };
    let (values, gradients, found) = found.map_err(failure_in_file(&args.points))?;
    let bound = found.bound.filter(|_| cutoff != Cutoff::Absolute(0.0)).map(|b| b * model.scale.abs());
    let report =
        QueryReport { points: points.len(), gaussians: model.field.len(), bound, pairs: found.pairs };
    let rows: Vec<Vec<f64>> = values
        .iter()
        .enumerate()
        .map(|(b, f)| {
            let mut row = vec![model.value(*f)];
            if let Some(gradient) = gradients.get(b) {
                // Chain rule through the map: multiply by the columns of its linear part.
                row.extend(
                    (0..3).map(|k| model.scale * (0..3).map(|j| gradient[j] * map[j][k]).sum::<f64>()),
                );
            }
            row
        })
        .collect();
    let is_csv = args.output.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("csv"));
    if is_csv {
        let header = if args.grad { "value,dx,dy,dz\n" } else { "value\n" };
        let lines =
            rows.iter().map(|row| row.iter().map(f64::to_string).collect::<Vec<_>>().join(",") + "\n");
        let mut text = header.to_owned();
        text.extend(lines);
        write_bytes(&args.output, text.as_bytes(), args.force)?;
    } else {
        let shape = if args.grad { vec![rows.len(), 4] } else { vec![rows.len()] };
        let numbers = rows.iter().flatten().copied();
        let bytes = if args.f64 { 8 } else { 4 } * shape.iter().product::<usize>() as u64;
        write(&args.output, bytes, args.force, |out| match args.f64 {
            true => npy::write(out, &shape, numbers),
            false => npy::write(out, &shape, numbers.map(|v| v as f32)),
        })?;
    }
    if args.json {
        console.json_or_text(&report, String::new)?;
    } else {
        let bound = report.bound.map_or_else(String::new, |bound| format!(", error at most {bound:.2e}"));
        console.note(format!("{}: {}{bound}", args.output.display(), counted(report.points as u64, "value")));
    }
    Ok(Status::Done)
}
