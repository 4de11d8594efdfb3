//! Images and volumes of a field: dense grids, slices, line integrals, maximum-intensity projections.
//!
//! Line integral (closed form): with `a = L⁻¹ (o - µ)`, `b = L⁻¹ d` the integral of `w G` over the line `o + t d` is
//! `w sqrt(2π) / |b| exp(-½ (|a|² - (a·b)² / |b|²))`, `|d| = 1`.

use gausset_core::matrix::dot;

use crate::accel::{AcceleratedEvaluator, Cutoff, CutoffReport, SortedPoints};
use crate::error::FieldError;
use crate::eval::Compute;
use crate::field::{GaussianField, inverse_factor};
use crate::memory;

/// A regular grid: point `(i, j, k)` is at `origin + index * spacing`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Lattice {
    /// Position of the first point, user units.
    pub origin: [f64; 3],
    /// Distance of neighbours.
    pub spacing: [f64; 3],
    /// Points along x, y, z.
    pub dims: [usize; 3],
}

/// Points evaluated at a time; bounds the memory.
const SLAB: usize = 1 << 20;
/// Lines per task.
const LINES: usize = 256;

/// Bytes of a value.
const VALUE_BYTES: u64 = size_of::<f32>() as u64;

impl Lattice {
    /// Number of points; [`Lattice::checked_count`] checks whether that many fit into memory.
    #[must_use]
    pub fn len(&self) -> usize {
        let product = self.dims.iter().try_fold(1usize, |count, d| count.checked_mul(*d));
        if self.dims.contains(&0) { 0 } else { product.unwrap_or(usize::MAX) }
    }

    /// Whether there is no point.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of points, if this machine can hold `bytes` for each of them.
    ///
    /// # Errors
    /// They do not fit, or there are more points than can be counted.
    pub fn checked_count(&self, bytes: u64) -> Result<usize, FieldError> {
        let most = memory::total() / bytes.max(1);
        let count = self.len();
        if count == usize::MAX || count as u64 > most { Err(self.too_large(most)) } else { Ok(count) }
    }

    fn too_large(&self, most: u64) -> FieldError {
        FieldError::Memory { dims: self.dims, most }
    }

    /// Memory for a value at each point.
    fn allocate(&self) -> Result<Vec<f32>, FieldError> {
        let count = self.checked_count(VALUE_BYTES)?;
        let mut room = Vec::new();
        // The process may have a lower limit than the memory of the machine.
        room.try_reserve_exact(count).map_err(|_| self.too_large(count as u64 - 1))?;
        Ok(room)
    }

    /// The lattice of its points in plane `at` across an axis (0, 1, 2).
    #[must_use]
    pub fn plane(mut self, axis: usize, at: usize) -> Self {
        self.origin[axis] += at as f64 * self.spacing[axis];
        self.dims[axis] = 1;
        self
    }

    /// Position of point `i`, x fastest.
    #[must_use]
    pub fn point(&self, i: usize) -> [f64; 3] {
        let [nx, ny, _] = self.dims;
        let index = [i % nx, i / nx % ny, i / nx / ny];
        std::array::from_fn(|k| self.origin[k] + index[k] as f64 * self.spacing[k])
    }
}

/// The field at every point of a lattice, x fastest.
///
/// ```
/// use gausset_field::render::{Lattice, voxelize};
/// use gausset_field::{Compute, CovarianceKind, Cutoff, GaussianField, WeightMode};
///
/// let (means, chol) = (vec![[0.0; 3]], vec![[0.0; 6]]);
/// let field = GaussianField::new(means, chol, vec![1.0], WeightMode::Raw, CovarianceKind::Full)?;
/// let lattice = Lattice { origin: [-1.0, 0.0, 0.0], spacing: [1.0; 3], dims: [3, 1, 1] };
/// let (values, _) = voxelize(&Compute::best(), &field, &lattice, Cutoff::Absolute(0.0))?;
/// assert!((values[1] - 1.0).abs() < 1e-5 && (values[0] - values[2]).abs() < 1e-5);
/// # Ok::<(), gausset_field::FieldError>(())
/// ```
///
/// # Errors
/// The field or the lattice is invalid, or the values do not fit into memory.
pub fn voxelize(
    compute: &Compute,
    field: &GaussianField<f64>,
    lattice: &Lattice,
    cutoff: Cutoff,
) -> Result<(Vec<f32>, CutoffReport), FieldError> {
    let mut values = lattice.allocate()?;
    // f32 has the most digits relative to the centre of the lattice.
    let middle: [f64; 3] = std::array::from_fn(|k| {
        lattice.origin[k] + 0.5 * lattice.spacing[k] * lattice.dims[k].saturating_sub(1) as f64
    });
    let moved = recentred(field, middle);
    let evaluator = AcceleratedEvaluator::new(compute, &moved)?;
    let mut total = CutoffReport::default();
    for first in (0..lattice.len()).step_by(SLAB) {
        let points: Vec<[f32; 3]> = (first..lattice.len().min(first + SLAB))
            .map(|i| {
                let x = lattice.point(i);
                std::array::from_fn(|k| (x[k] - middle[k]) as f32)
            })
            .collect();
        let (slab, report) = evaluator.values(&SortedPoints::new(&points)?, cutoff)?;
        values.extend(slab);
        total.pairs += report.pairs;
        total.bound = match (total.bound, report.bound) {
            (Some(a), Some(b)) => Some(f64::max(a, b)),
            (_, bound) => bound,
        };
    }
    Ok((values, total))
}

/// The field in f32, with its means relative to a point.
#[must_use]
pub fn recentred(field: &GaussianField<f64>, origin: [f64; 3]) -> GaussianField<f32> {
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
    let bb = dot(b, b);
    let q = (dot(a, a) - dot(a, b).powi(2) / bb).max(0.0);
    field.weight(i) * (std::f64::consts::TAU / bb).sqrt() * libm::exp(-0.5 * q)
}

/// Integrals along an axis (0, 1, 2) over the lines through the lattice's points: an image whose rows follow the higher
/// of the two other axes.
///
/// # Errors
/// The image does not fit into memory.
pub fn integrals(
    compute: &Compute,
    field: &GaussianField<f64>,
    lattice: &Lattice,
    axis: usize,
) -> Result<Vec<f32>, FieldError> {
    let plane = lattice.plane(axis, 0);
    let mut picture = plane.allocate()?;
    picture.resize(plane.len(), 0.0);
    let mut direction = [0.0; 3];
    direction[axis] = 1.0;
    compute.pool.run_chunks(&mut picture, LINES, |part, pixels| {
        for (i, pixel) in pixels.iter_mut().enumerate() {
            *pixel = line_integral(field, plane.point(part * LINES + i), direction) as f32;
        }
    });
    Ok(picture)
}

/// The largest value along an axis, of values on a lattice.
///
/// ```
/// // Four values along x become one.
/// assert_eq!(gausset_field::render::maximum_projection(&[0.1, 0.9, 0.3, 0.2], [4, 1, 1], 0), [0.9]);
/// ```
#[must_use]
pub fn maximum_projection(values: &[f32], dims: [usize; 3], axis: usize) -> Vec<f32> {
    let (u, v) = other_axes(axis);
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
pub const fn other_axes(axis: usize) -> (usize, usize) {
    match axis {
        0 => (1, 2),
        1 => (0, 2),
        _ => (0, 1),
    }
}
