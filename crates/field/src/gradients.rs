//! Gradients by the raw parameters, and the ten moments they are made of.
//!
//! A kernel adds for each Gaussian, with `s_b = gbar_b G(x_b)`: `M0 = Σ s`, `M1 = Σ s v`, `M2 = Σ s v vᵀ`. Once per
//! Gaussian, in f64: `∂µ = w L⁻ᵀ M1`, `∂L = w tril(L⁻ᵀ M2)`, raw diagonal entries times `L_kk`, `∂raw = (dw/draw) M0`.

use crate::real::{INV_K2, K, Real};

/// `M0, M1 (3), M2 (00 10 11 20 21 22)` of a Gaussian in scaled coordinates `v' = k v`.
pub(crate) type Moments = [f64; 10];

/// A gradient for each raw parameter of a field; same shapes as the field.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldGradients<T> {
    /// By the means.
    pub means: Vec<[T; 3]>,
    /// By the raw factors.
    pub chol: Vec<[T; 6]>,
    /// By the raw weights.
    pub weights: Vec<T>,
}

impl<T: Real> FieldGradients<T> {
    /// Makes room for so many Gaussians; what stands there is not defined.
    pub(crate) fn resize(&mut self, n: usize) {
        self.means.resize(n, [T::ZERO; 3]);
        self.chol.resize(n, [T::ZERO; 6]);
        self.weights.resize(n, T::ZERO);
    }

    /// Zeros for so many Gaussians.
    #[must_use]
    pub fn zeros(n: usize) -> Self {
        Self { means: vec![[T::ZERO; 3]; n], chol: vec![[T::ZERO; 6]; n], weights: vec![T::ZERO; n] }
    }
}

/// The gradient by the ten raw parameters (means, chol, weight) from the moments, the scaled inverse factor
/// `k L⁻¹`, the weight and its derivative by the raw weight.
pub(crate) fn from_moments(scaled_inverse: &[f64; 6], weight: f64, slope: f64, m: &Moments) -> [f64; 10] {
    let [a00, a10, a11, a20, a21, a22] = *scaled_inverse;
    // One power of k for the inverse factor, one for each v in the moment.
    let (w2, w3) = (weight * INV_K2, weight * INV_K2 / K);
    let [m00, m10, m11, m20, m21, m22] = [m[4], m[5], m[6], m[7], m[8], m[9]];
    [
        w2 * (a00 * m[1] + a10 * m[2] + a20 * m[3]),
        w2 * (a11 * m[2] + a21 * m[3]),
        w2 * a22 * m[3],
        // Diagonal entries times L_kk = k / a_kk.
        w2 * (m00 + (a10 * m10 + a20 * m20) / a00),
        w3 * (a11 * m10 + a21 * m20),
        w2 * (m11 + a21 * m21 / a11),
        w3 * a22 * m20,
        w3 * a22 * m21,
        w2 * m22,
        slope * m[0],
    ]
}
