//! Pictures and volumes of a field: dense grids, slices, line integrals, maximum-intensity projections.
//!
//! Line integral (closed form): with `a = L⁻¹ (o - µ)`, `b = L⁻¹ d` the integral of `w G` over the line `o + t d` is
//! `w sqrt(2π) / |b| exp(-½ (|a|² - (a·b)² / |b|²))`, `|d| = 1`.

use crate::accel::{AcceleratedEvaluator, Cutoff, CutoffReport, PointSet};
use crate::error::FieldError;
use crate::eval::Compute;
use crate::field::{GaussianField, inverse_factor};

/// A regular grid: point `(i, j, k)` stands at `origin + index * spacing`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Lattice {
    /// First point.
    pub origin: [f64; 3],
    /// Distance of neighbours.
    pub spacing: [f64; 3],
    /// Points along x, y, z.
    pub dims: [usize; 3],
}

/// Points evaluated at a time: bounds the memory.
const SLAB: usize = 1 << 20;

impl Lattice {
    /// Number of points.
    #[must_use]
    pub fn len(&self) -> usize {
        self.dims.iter().product()
    }

    /// Whether there is no point.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Point number `i`, x fastest.
    #[must_use]
    pub fn point(&self, i: usize) -> [f64; 3] {
        let [nx, ny, _] = self.dims;
        let index = [i % nx, i / nx % ny, i / (nx * ny)];
        std::array::from_fn(|k| self.origin[k] + index[k] as f64 * self.spacing[k])
    }
}

/// The field at every point of a lattice, x fastest.
///
/// # Errors
/// The field or the lattice cannot be computed with.
pub fn voxelize(
    compute: &Compute,
    field: &GaussianField<f64>,
    lattice: &Lattice,
    cutoff: Cutoff,
) -> Result<(Vec<f32>, CutoffReport), FieldError> {
    // About the middle of the lattice f32 has digits to spare.
    let middle: [f64; 3] = std::array::from_fn(|k| {
        lattice.origin[k] + 0.5 * lattice.spacing[k] * lattice.dims[k].saturating_sub(1) as f64
    });
    let moved = moved(field, middle);
    let evaluator = AcceleratedEvaluator::new(compute, &moved)?;
    let mut values = Vec::with_capacity(lattice.len());
    let mut total = CutoffReport::default();
    for first in (0..lattice.len()).step_by(SLAB) {
        let points: Vec<[f32; 3]> = (first..lattice.len().min(first + SLAB))
            .map(|i| {
                let x = lattice.point(i);
                std::array::from_fn(|k| (x[k] - middle[k]) as f32)
            })
            .collect();
        let (slab, report) = evaluator.values(&PointSet::new(&points)?, cutoff)?;
        values.extend(slab);
        total.pairs += report.pairs;
        total.bound = match (total.bound, report.bound) {
            (Some(a), Some(b)) => Some(f64::max(a, b)),
            (_, bound) => bound,
        };
    }
    Ok((values, total))
}

/// The field in f32 with its means relative to a point.
#[must_use]
pub fn moved(field: &GaussianField<f64>, origin: [f64; 3]) -> GaussianField<f32> {
    let mut moved = field.clone();
    for mean in &mut moved.means {
        (0..3).for_each(|k| mean[k] -= origin[k]);
    }
    moved.bounds = None;
    moved.cast()
}

/// The integral of the field over the line through `origin` along `direction` (of any length but 0).
#[must_use]
pub fn line_integral(field: &GaussianField<f64>, origin: [f64; 3], direction: [f64; 3]) -> f64 {
    let length = direction.iter().map(|d| d * d).sum::<f64>().sqrt();
    let d = direction.map(|v| v / length);
    (0..field.len()).map(|i| integral(field, i, origin, d)).sum()
}

fn integral(field: &GaussianField<f64>, i: usize, origin: [f64; 3], d: [f64; 3]) -> f64 {
    let inverse = inverse_factor(&field.factor(i));
    let times = |x: [f64; 3]| {
        [
            inverse[0] * x[0],
            inverse[1] * x[0] + inverse[2] * x[1],
            inverse[3] * x[0] + inverse[4] * x[1] + inverse[5] * x[2],
        ]
    };
    let a = times(std::array::from_fn(|k| origin[k] - field.means[i][k]));
    let b = times(d);
    let dot = |x: [f64; 3], y: [f64; 3]| x[0] * y[0] + x[1] * y[1] + x[2] * y[2];
    let bb = dot(b, b);
    let q = (dot(a, a) - dot(a, b).powi(2) / bb).max(0.0);
    field.weight(i) * (std::f64::consts::TAU / bb).sqrt() * libm::exp(-0.5 * q)
}

/// Integrals along an axis (0, 1, 2) over the lines through the lattice's points: a picture whose rows are the higher
/// of the two other axes.
#[must_use]
pub fn integrals(compute: &Compute, field: &GaussianField<f64>, lattice: &Lattice, axis: usize) -> Vec<f32> {
    let (u, v) = others(axis);
    let (width, height) = (lattice.dims[u], lattice.dims[v]);
    let mut direction = [0.0; 3];
    direction[axis] = 1.0;
    let mut picture = vec![0.0f32; width * height];
    compute.pool.run_chunks(&mut picture, width.max(1), |row, pixels| {
        for (column, pixel) in pixels.iter_mut().enumerate() {
            let mut origin = lattice.origin;
            origin[u] += column as f64 * lattice.spacing[u];
            origin[v] += row as f64 * lattice.spacing[v];
            *pixel = line_integral(field, origin, direction) as f32;
        }
    });
    picture
}

/// The largest value along an axis, of values on a lattice.
#[must_use]
pub fn maximum_projection(values: &[f32], dims: [usize; 3], axis: usize) -> Vec<f32> {
    let (u, v) = others(axis);
    let strides = [1, dims[0], dims[0] * dims[1]];
    let mut picture = Vec::with_capacity(dims[u] * dims[v]);
    for row in 0..dims[v] {
        for column in 0..dims[u] {
            let first = row * strides[v] + column * strides[u];
            let along = (0..dims[axis]).map(|i| values[first + i * strides[axis]]);
            picture.push(along.fold(f32::NEG_INFINITY, f32::max));
        }
    }
    picture
}

/// The two other axes, ascending.
#[must_use]
pub const fn others(axis: usize) -> (usize, usize) {
    match axis {
        0 => (1, 2),
        1 => (0, 2),
        _ => (0, 1),
    }
}
