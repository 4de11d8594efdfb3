//! Levenberg-Marquardt (Marquardt 1963) over all parameters, in f64; for few Gaussians.
//!
//! `(JᵀJ + λ diag JᵀJ) δ = -Jᵀ r` with the rows `∂f/∂µ = w G p`, `∂f/∂L_ij = w G p_i v_j` (raw diagonal entries times
//! `L_ii`), `∂f/∂raw = w' G`. λ falls to a fifth after a success and rises fourfold after a failure. The matrix is
//! accumulated in blocks of 64 samples with a fixed partition, so the result does not depend on threads.

use std::sync::atomic::{AtomicBool, Ordering};

use fearless_simd::prelude::*;
use gausset_compute::at_level;
use gausset_core::linalg::{cholesky, solve_cholesky};

use crate::eval::{Compute, Evaluator};
use crate::field::{CovarianceKind, GaussianField, inverse_factor};
use crate::fit::error::FitError;
use crate::real::Lanes;
use crate::reference::ENTRIES;

/// Samples per block of rows.
const BLOCK_ROWS: usize = 64;
/// Largest number of partial matrices. Depends only on the number of samples.
const MAX_PARTIAL_MATRICES: usize = 8;
/// Columns are padded to a multiple of this.
const PAD: usize = 16;
/// Values of λ tried per iteration.
const MAX_LAMBDA_TRIES: usize = 12;

/// State of the solver between iterations.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LmState {
    pub(crate) field: GaussianField<f64>,
    pub(crate) lambda: f64,
    /// Sum of squared residuals.
    pub(crate) loss: f64,
    /// Whether the last iteration found no improvement.
    pub(crate) is_done: bool,
    /// Relative reduction of the loss by the last iteration.
    pub(crate) gain: f64,
    /// Number of failed exchanges since the last successful one.
    pub(crate) failed_exchanges: usize,
}

impl LmState {
    pub(crate) fn new(
        field: GaussianField<f64>,
        compute: &Compute,
        points: &[[f64; 3]],
        values: &[f64],
    ) -> Result<Self, FitError> {
        let loss = loss(&field, compute, points, values)?;
        Ok(Self { field, lambda: 1e-3, loss, is_done: false, gain: 1.0, failed_exchanges: 0 })
    }

    /// One iteration: tries values of λ until the loss decreases. Changes nothing if it is stopped.
    pub(crate) fn iterate(
        &mut self,
        shapes: Shapes,
        compute: &Compute,
        points: &[[f64; 3]],
        values: &[f64],
        stop: &AtomicBool,
    ) -> Result<(), FitError> {
        let columns = Columns::new(&self.field, shapes);
        if columns.count == 0 {
            self.is_done = true;
            return Ok(());
        }
        let (matrix, gradient) = normal_equations(&self.field, &columns, compute, points, values);
        let units = columns.units(&self.field);
        let mut lambda = self.lambda;
        for _ in 0..MAX_LAMBDA_TRIES {
            if stop.load(Ordering::Relaxed) {
                return Err(FitError::Stopped);
            }
            if let Some(delta) = solve(&matrix, &gradient, &columns, &units, lambda) {
                let trial = columns.stepped(&self.field, &delta);
                if trial.check().is_ok() {
                    let loss = loss(&trial, compute, points, values)?;
                    if loss < self.loss {
                        self.is_done = self.loss - loss <= 1e-14 * self.loss;
                        self.gain = (self.loss - loss) / self.loss;
                        (self.field, self.loss) = (trial, loss);
                        self.lambda = (lambda / 5.0).max(1e-12);
                        return Ok(());
                    }
                }
            }
            lambda *= 4.0;
        }
        self.lambda = lambda;
        self.is_done = true;
        Ok(())
    }
}

fn loss(
    field: &GaussianField<f64>,
    compute: &Compute,
    points: &[[f64; 3]],
    values: &[f64],
) -> Result<f64, FitError> {
    let found = Evaluator::new(compute, field)?.values(points)?;
    Ok(found.iter().zip(values).map(|(f, y)| (f - y) * (f - y)).sum())
}

/// Shapes that a fit may give its Gaussians.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shapes {
    /// One standard deviation for all directions.
    Round,
    /// Those of the field's covariances.
    Any,
}

/// Maps raw parameters to unknowns.
struct Columns {
    /// Unknown of each raw parameter of a Gaussian: 0..3 mean, 3..9 chol, 9 weight.
    unknowns: [Option<usize>; 10],
    /// Number of unknowns of a Gaussian.
    width: usize,
    /// Number of unknowns.
    count: usize,
    /// Number of unknowns with padding.
    stride: usize,
}

impl Columns {
    fn new(field: &GaussianField<f64>, shapes: Shapes) -> Self {
        // Columns of the mean, of the factor's entries (0,0) (1,0) (1,1) (2,0) (2,1) (2,2), of the weight.
        let (unknowns, width) = match (shapes, field.covariance) {
            (Shapes::Round, _) => {
                ([Some(0), Some(1), Some(2), Some(3), None, Some(3), None, None, Some(3), Some(4)], 5)
            }
            (Shapes::Any, CovarianceKind::Diagonal) => {
                ([Some(0), Some(1), Some(2), Some(3), None, Some(4), None, None, Some(5), Some(6)], 7)
            }
            (Shapes::Any, CovarianceKind::Full) => (std::array::from_fn(Some), 10),
        };
        let count = width * field.len();
        Self { unknowns, width, count, stride: count.next_multiple_of(PAD) }
    }

    /// Units of the unknowns: for lengths the size of the Gaussian, else 1.
    fn units(&self, field: &GaussianField<f64>) -> Vec<f64> {
        let mut units = vec![1.0; self.count];
        for (i, units) in units.chunks_mut(self.width).enumerate() {
            let l = field.factor(i);
            let size = libm::cbrt(l[0] * l[2] * l[5]);
            for (entry, unknown) in self.unknowns.iter().enumerate() {
                if let (Some(k), 0 | 1 | 2 | 4 | 6 | 7) = (unknown, entry) {
                    units[*k] = size;
                }
            }
        }
        units
    }

    /// The field after a step. The step is limited to the size of the Gaussian and to a factor of e.
    fn stepped(&self, field: &GaussianField<f64>, delta: &[f64]) -> GaussianField<f64> {
        let mut out = field.clone();
        for (i, delta) in delta.chunks(self.width).enumerate() {
            let l = field.factor(i);
            let size = libm::cbrt(l[0] * l[2] * l[5]);
            for (entry, unknown) in self.unknowns.iter().enumerate() {
                let Some(d) = unknown.map(|k| delta[k]) else { continue };
                match entry {
                    0..3 => out.means[i][entry] += d.clamp(-2.0 * size, 2.0 * size),
                    3 | 5 | 8 => out.chol[i][entry - 3] += d.clamp(-1.0, 1.0),
                    9 => out.weights[i] += d,
                    _ => out.chol[i][entry - 3] += d.clamp(-2.0 * size, 2.0 * size),
                }
            }
        }
        out
    }
}

/// `JᵀJ` (lower triangle, rows of `stride`) and `Jᵀ r`.
fn normal_equations(
    field: &GaussianField<f64>,
    columns: &Columns,
    compute: &Compute,
    points: &[[f64; 3]],
    values: &[f64],
) -> (Vec<f64>, Vec<f64>) {
    struct Prepared {
        inverse: [f64; 6],
        diagonal: [f64; 3],
        weight: f64,
        slope: f64,
    }
    let prepared: Vec<Prepared> = (0..field.len())
        .map(|i| {
            let l = field.factor(i);
            Prepared {
                inverse: inverse_factor(&l),
                diagonal: [l[0], l[2], l[5]],
                weight: field.weight(i),
                slope: field.weight_mode.derivative(field.weights[i]),
            }
        })
        .collect();
    let stride = columns.stride;
    let part_len = points.len().div_ceil(MAX_PARTIAL_MATRICES).next_multiple_of(BLOCK_ROWS);
    let mut parts: Vec<(Vec<f64>, Vec<f64>)> =
        (0..points.len().div_ceil(part_len)).map(|_| Default::default()).collect();
    compute.pool.run_parts(&mut parts, |part, (matrix, gradient)| {
        matrix.resize(stride * stride, 0.0);
        gradient.resize(stride, 0.0);
        let mut rows = vec![0.0f64; BLOCK_ROWS * stride];
        let range = part * part_len..points.len().min((part + 1) * part_len);
        let samples = points[range.clone()].chunks(BLOCK_ROWS).zip(values[range].chunks(BLOCK_ROWS));
        for (points, values) in samples {
            rows.fill(0.0);
            for ((x, y), row) in points.iter().zip(values).zip(rows.chunks_mut(stride)) {
                let mut f = 0.0;
                for (i, g) in prepared.iter().enumerate() {
                    let [a00, a10, a11, a20, a21, a22] = g.inverse;
                    let d: [f64; 3] = std::array::from_fn(|k| x[k] - field.means[i][k]);
                    let v = [a00 * d[0], a10 * d[0] + a11 * d[1], a20 * d[0] + a21 * d[1] + a22 * d[2]];
                    let q = v[0] * v[0] + v[1] * v[1] + v[2] * v[2];
                    if q > 1400.0 {
                        continue;
                    }
                    let p = [a00 * v[0] + a10 * v[1] + a20 * v[2], a11 * v[1] + a21 * v[2], a22 * v[2]];
                    let gauss = libm::exp(-0.5 * q);
                    let wg = g.weight * gauss;
                    f += wg;
                    let mut full = [0.0; 10];
                    (0..3).for_each(|k| full[k] = wg * p[k]);
                    for (entry, (r, c)) in ENTRIES.into_iter().enumerate() {
                        full[3 + entry] = wg * p[r] * v[c];
                    }
                    full[3] *= g.diagonal[0];
                    full[5] *= g.diagonal[1];
                    full[8] *= g.diagonal[2];
                    full[9] = g.slope * gauss;
                    let own = &mut row[i * columns.width..][..columns.width];
                    for (value, unknown) in full.iter().zip(columns.unknowns) {
                        if let Some(k) = unknown {
                            own[k] += value;
                        }
                    }
                }
                let residual = f - y;
                for (sum, j) in gradient.iter_mut().zip(row.iter()) {
                    *sum += residual * j;
                }
            }
            at_level!(compute.level, simd => add_products(simd, &rows, stride, matrix));
        }
    });
    let mut total = parts.into_iter();
    let (mut matrix, mut gradient) = total.next().unwrap_or_default();
    for (m, g) in total {
        matrix.iter_mut().zip(m).for_each(|(sum, v)| *sum += v);
        gradient.iter_mut().zip(g).for_each(|(sum, v)| *sum += v);
    }
    (matrix, gradient)
}

/// `matrix += rowsᵀ rows`, lower triangle in tiles of 4 x 16: each entry sums over the rows in order.
#[inline(always)]
fn add_products<S: Lanes>(simd: S, rows: &[f64], stride: usize, matrix: &mut [f64]) {
    let width = S::f64s::LEN;
    for i in (0..stride).step_by(4) {
        for j in (0..=i).step_by(width) {
            let mut sum = [S::f64s::splat(simd, 0.0); 4];
            for row in rows.chunks_exact(stride) {
                let right = S::f64s::from_slice(simd, &row[j..j + width]);
                for k in 0..4 {
                    sum[k] = simd.fma_f64(S::f64s::splat(simd, row[i + k]), right, sum[k]);
                }
            }
            for k in 0..4 {
                let to = &mut matrix[(i + k) * stride + j..][..width];
                (S::f64s::from_slice(simd, to) + sum[k]).store_slice(to);
            }
        }
    }
}

/// Solves the damped equations by Cholesky decomposition; `None` if the matrix is not positive definite.
fn solve(
    matrix: &[f64],
    gradient: &[f64],
    columns: &Columns,
    units: &[f64],
    lambda: f64,
) -> Option<Vec<f64>> {
    let (n, stride) = (columns.count, columns.stride);
    let square = |i: usize| units[i] * units[i];
    let most = (0..n).fold(0.0f64, |most, i| most.max(matrix[i * stride + i] * square(i)));
    let mut a = vec![0.0; n * n];
    for i in 0..n {
        let row = &mut a[i * n..=i * n + i];
        row.copy_from_slice(&matrix[i * stride..=i * stride + i]);
        // Unknowns without influence are kept unchanged by a small diagonal.
        row[i] += lambda * row[i] + 1e-15 * most / square(i);
        if !row[i].is_finite() {
            return None;
        }
    }
    let mut x: Vec<f64> = gradient[..n].iter().map(|g| -g).collect();
    solve_cholesky(&cholesky(a, n)?, &mut x);
    x.iter().all(|v| v.is_finite()).then_some(x)
}
