//! `gausset field info`: the contents of a field file.

use std::path::PathBuf;

use clap::Args;
use gausset_io::text::format_number;
use serde::Serialize;

use super::load;
use crate::EarlyExit;
use crate::console::Console;
use crate::exit::Status;
use crate::lines::Lines;
use crate::numbers::grouped;
use crate::table;

/// Arguments of `field info`.
#[derive(Clone, Debug, Args)]
pub(crate) struct InfoArgs {
    /// Field file.
    #[arg(value_name = "FIELD")]
    model: PathBuf,
    /// Print the result as a JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}

/// The result: a stable contract.
#[derive(Debug, Serialize)]
struct FieldInfo {
    gaussians: usize,
    parameters: usize,
    covariance: &'static str,
    weights: &'static str,
    offset: f64,
    scale: f64,
    peak: f64,
    /// Bounding box of the fit in model coordinates, minimum then maximum corner; `null` if unknown.
    bounds: Option<[[f64; 3]; 2]>,
    /// Number of voxels of the fitted volume along x, y, z; `null` for samples.
    dims: Option<[usize; 3]>,
    spacing: Option<[f64; 3]>,
    world_from_model: [[f64; 4]; 3],
    /// Smallest and largest standard deviation (square root of a third of the covariance's trace).
    sigma: Option<[f64; 2]>,
    negative_weights: usize,
    /// Integral of the field over all space.
    mass: f64,
}

/// Runs the command.
pub(super) fn run(args: &InfoArgs, console: &Console) -> Result<Status, EarlyExit> {
    let model = load(&args.model)?;
    let field = &model.field;
    let size = |i: usize| {
        let l = field.factor(i);
        (l.iter().map(|v| v * v).sum::<f64>() / 3.0).sqrt()
    };
    let sigma = (!field.is_empty()).then(|| {
        (0..field.len()).map(size).fold([f64::INFINITY, 0.0f64], |[lo, hi], s| [lo.min(s), hi.max(s)])
    });
    let info = FieldInfo {
        gaussians: field.len(),
        parameters: field.len() * field.covariance.parameters(),
        covariance: field.covariance.name(),
        weights: field.weight_mode.name(),
        offset: model.offset,
        scale: model.scale,
        peak: model.peak,
        bounds: field.bounds.map(|b| [b.lo, b.hi]),
        dims: model.grid.map(|grid| grid.dims),
        spacing: model.grid.map(|grid| grid.spacing),
        world_from_model: model.world_from_model,
        sigma,
        negative_weights: (0..field.len()).filter(|&i| field.weight(i) < 0.0).count(),
        mass: field.mass(),
    };
    console.json_or_text(&info, || info.table())?;
    Ok(Status::Done)
}

impl FieldInfo {
    fn table(&self) -> Lines {
        let list = |values: &[f64]| values.iter().map(|v| four_decimals(*v)).collect::<Vec<_>>().join(" ");
        let mut rows = vec![
            ("Gaussians", grouped(self.gaussians as u64)),
            ("parameters", grouped(self.parameters as u64)),
            ("covariances", self.covariance.to_owned()),
            ("weights", format!("{}, {} negative", self.weights, grouped(self.negative_weights as u64))),
            ("values", format!("{} + {} f(x)", format_number(self.offset), format_number(self.scale))),
        ];
        if let Some([lo, hi]) = self.bounds {
            rows.push(("box", format!("{} to {}", list(&lo), list(&hi))));
        }
        if let (Some([x, y, z]), Some(spacing)) = (self.dims, self.spacing) {
            rows.push(("volume", format!("{x} x {y} x {z}, spacing {}", list(&spacing))));
        }
        if let Some([least, most]) = self.sigma {
            rows.push(("sizes", format!("{} to {}", four_decimals(least), four_decimals(most))));
        }
        table::facts(&rows)
    }
}

/// Formats a number with four decimals, with an exponent if it is very large or very small.
fn four_decimals(value: f64) -> String {
    let is_usual = value == 0.0 || (1e-3..1e9).contains(&value.abs());
    if is_usual { format!("{value:.4}") } else { format!("{value:.4e}") }
}
