//! Reference implementation of every formula in f64, slow and readable. Kernels are tested against it, and it is tested
//! against autograd.
//!
//! With `d = x - µ`, `v = L⁻¹ d`, `p = L⁻ᵀ v = S⁻¹ d`, `G = exp(-|v|²/2)`:
//! value `Σ w G`, gradient `-Σ w G p`, Hessian `Σ w G (p pᵀ - S⁻¹)`. VJPs are written as sums over pairs.

use gausset_core::matrix::dot;

use crate::field::{GaussianField, inverse_factor};
use crate::gradients::FieldGradients;
use crate::real::Real;

/// One Gaussian evaluated at one point.
struct GaussianAtPoint {
    /// `L⁻¹`.
    a: [f64; 6],
    /// `L⁻¹ d`.
    v: [f64; 3],
    /// `S⁻¹ d`.
    p: [f64; 3],
    /// `exp(-|v|²/2)`.
    g: f64,
}

fn lower_times(a: &[f64; 6], x: [f64; 3]) -> [f64; 3] {
    [a[0] * x[0], a[1] * x[0] + a[2] * x[1], a[3] * x[0] + a[4] * x[1] + a[5] * x[2]]
}

fn upper_times(a: &[f64; 6], x: [f64; 3]) -> [f64; 3] {
    [a[0] * x[0] + a[1] * x[1] + a[3] * x[2], a[2] * x[1] + a[4] * x[2], a[5] * x[2]]
}

impl GaussianAtPoint {
    fn new<T: Real>(field: &GaussianField<T>, i: usize, x: [f64; 3]) -> Self {
        let a = inverse_factor(&field.factor(i));
        let mean: [f64; 3] = field.means[i].map(Into::into);
        let v = lower_times(&a, std::array::from_fn(|k| x[k] - mean[k]));
        Self { a, v, p: upper_times(&a, v), g: libm::exp(-0.5 * dot(v, v)) }
    }

    /// Whether the Gaussian is not 0, so that products are meaningful: `0 · inf` is not 0.
    fn counts(&self) -> bool {
        self.g > 0.0
    }
}

/// The field at a point.
///
/// ```
/// use gausset_field::{CovarianceKind, GaussianField, WeightMode, reference};
///
/// // A standard deviation of 2 along x.
/// let chol = vec![[2f64.ln(), 0.0, 0.0, 0.0, 0.0, 0.0]];
/// let field = GaussianField::new(vec![[0.0; 3]], chol, vec![1.0], WeightMode::Raw, CovarianceKind::Full)?;
/// assert!((reference::value(&field, [2.0, 0.0, 0.0]) - (-0.5f64).exp()).abs() < 1e-12);
/// # Ok::<(), gausset_field::FieldError>(())
/// ```
#[must_use]
pub fn value<T: Real>(field: &GaussianField<T>, x: [f64; 3]) -> f64 {
    (0..field.len()).map(|i| field.weight(i) * GaussianAtPoint::new(field, i, x).g).sum()
}

/// The gradient of the field at a point, per unit of length.
#[must_use]
pub fn gradient<T: Real>(field: &GaussianField<T>, x: [f64; 3]) -> [f64; 3] {
    let mut sum = [0.0; 3];
    for i in 0..field.len() {
        let pair = GaussianAtPoint::new(field, i, x);
        if pair.counts() {
            (0..3).for_each(|k| sum[k] -= field.weight(i) * pair.g * pair.p[k]);
        }
    }
    sum
}

/// The Hessian of the field at a point.
#[must_use]
pub fn hessian<T: Real>(field: &GaussianField<T>, x: [f64; 3]) -> [[f64; 3]; 3] {
    let mut sum = [[0.0; 3]; 3];
    for i in 0..field.len() {
        let pair = GaussianAtPoint::new(field, i, x);
        if !pair.counts() {
            continue;
        }
        for k in 0..3 {
            let unit: [f64; 3] = std::array::from_fn(|j| if j == k { 1.0 } else { 0.0 });
            let inverse_column = upper_times(&pair.a, lower_times(&pair.a, unit));
            for j in 0..3 {
                sum[k][j] += field.weight(i) * pair.g * (pair.p[k] * pair.p[j] - inverse_column[j]);
            }
        }
    }
    sum
}

/// Gradient of `Σ_b gbar_b f(x_b)` by the raw parameters.
#[must_use]
pub fn vjp<T: Real>(field: &GaussianField<T>, points: &[[f64; 3]], gbar: &[f64]) -> FieldGradients<f64> {
    let mut out = FieldGradients::zeros(field.len());
    for i in 0..field.len() {
        let (weight, slope) = (field.weight(i), field.weight_mode.derivative(field.weights[i].into()));
        for (x, g) in points.iter().zip(gbar) {
            let GaussianAtPoint { v, p, g: gauss, .. } = GaussianAtPoint::new(field, i, *x);
            let s = g * gauss;
            if gauss == 0.0 {
                continue;
            }
            out.weights[i] += slope * s;
            (0..3).for_each(|k| out.means[i][k] += weight * s * p[k]);
            for (entry, (row, column)) in ENTRIES.into_iter().enumerate() {
                out.chol[i][entry] += weight * s * p[row] * v[column];
            }
        }
        through_logs(&field.factor(i), &mut out.chol[i]);
    }
    out
}

/// Gradient of `Σ_b ubar_b · ∇f(x_b)` by the raw parameters, for losses on the gradient of the field.
#[must_use]
pub fn vjp_of_gradient<T: Real>(
    field: &GaussianField<T>,
    points: &[[f64; 3]],
    ubar: &[[f64; 3]],
) -> FieldGradients<f64> {
    let mut out = FieldGradients::zeros(field.len());
    for i in 0..field.len() {
        let (weight, slope) = (field.weight(i), field.weight_mode.derivative(field.weights[i].into()));
        for (x, u) in points.iter().zip(ubar) {
            let pair = GaussianAtPoint::new(field, i, *x);
            if !pair.counts() {
                continue;
            }
            let t = lower_times(&pair.a, *u);
            let r = upper_times(&pair.a, t);
            let along = dot(t, pair.v);
            let rest: [f64; 3] = std::array::from_fn(|k| r[k] - along * pair.p[k]);
            out.weights[i] -= slope * pair.g * along;
            (0..3).for_each(|k| out.means[i][k] += weight * pair.g * rest[k]);
            for (entry, (row, column)) in ENTRIES.into_iter().enumerate() {
                out.chol[i][entry] +=
                    weight * pair.g * (pair.p[row] * t[column] + rest[row] * pair.v[column]);
            }
        }
        through_logs(&field.factor(i), &mut out.chol[i]);
    }
    out
}

/// Row and column of the entries of a factor.
pub(crate) const ENTRIES: [(usize, usize); 6] = [(0, 0), (1, 0), (1, 1), (2, 0), (2, 1), (2, 2)];

/// Converts gradients by `L` to gradients by the raw entries.
pub(crate) fn through_logs(factor: &[f64; 6], gradient: &mut [f64; 6]) {
    for diagonal in [0, 2, 5] {
        gradient[diagonal] *= factor[diagonal];
    }
}
