//! Gradients by the raw parameters, computed from ten moments.
//!
//! A kernel adds for each Gaussian, with `s_b = gbar_b G(x_b)`: `M0 = Σ s`, `M1 = Σ s v`, `M2 = Σ s v vᵀ`. Once per
//! Gaussian, in f64: `∂µ = w L⁻ᵀ M1`, `∂L = w tril(L⁻ᵀ M2)`, raw diagonal entries times `L_kk`, `∂raw = (dw/draw) M0`.

use std::ops::{Add, Div, Mul};

use fearless_simd::prelude::*;

use crate::packed::{BLOCK, Block, record_index};
use crate::real::{INV_K2, K, Lanes, Real};

/// `M0, M1 (3), M2 (00 10 11 20 21 22)` of a block of Gaussians in scaled coordinates `v' = k v`, row by row.
pub(crate) type BlockMoments = [[f64; BLOCK]; 10];

/// Gradients by each raw parameter of a field; same shapes as the field.
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
    /// Resizes for this many Gaussians; contents are undefined.
    pub(crate) fn resize(&mut self, n: usize) {
        self.means.resize(n, [T::ZERO; 3]);
        self.chol.resize(n, [T::ZERO; 6]);
        self.weights.resize(n, T::ZERO);
    }

    /// Zeros for this many Gaussians.
    #[must_use]
    pub fn zeros(n: usize) -> Self {
        Self { means: vec![[T::ZERO; 3]; n], chol: vec![[T::ZERO; 6]; n], weights: vec![T::ZERO; n] }
    }
}

/// Factors that remove one power of `k` for the inverse factor and one for each `v` in a moment: `k⁻²` and `k⁻³`.
pub(crate) const WEIGHT_SCALES: [f64; 2] = [INV_K2, INV_K2 / K];

/// The gradient by the ten raw parameters (means, chol, weight), from the moments, the scaled inverse factor `k L⁻¹`,
/// the weight times [`WEIGHT_SCALES`] and its derivative by the raw weight; for scalars or vectors.
#[inline(always)]
pub(crate) fn from_moments<V>(scaled_inverse: &[V; 6], [w2, w3]: [V; 2], slope: V, m: &[V; 10]) -> [V; 10]
where
    V: Copy + Add<Output = V> + Mul<Output = V> + Div<Output = V>,
{
    let [a00, a10, a11, a20, a21, a22] = *scaled_inverse;
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

/// [`from_moments`] for a block of Gaussians.
#[inline(always)]
pub(crate) fn block_from_moments<T: Real, S: Lanes>(
    simd: S,
    block: &Block<T>,
    slopes: &[f64; BLOCK],
    moments: &BlockMoments,
) -> BlockMoments {
    let mut out = [[0.0; BLOCK]; 10];
    let mut rows = [[0.0; BLOCK]; 7];
    // Loops over indices: the adapters of iterators are not always inlined into a kernel.
    for entry in 0..7 {
        for lane in 0..BLOCK {
            rows[entry][lane] = block[record_index::A00 + entry][lane].into();
        }
    }
    let width = S::f64s::LEN;
    let mut at = 0;
    while at < BLOCK {
        let load = gausset_compute::simd::inline_closure(
            #[inline(always)]
            |row: &[f64; BLOCK]| S::f64s::from_slice(simd, &row[at..at + width]),
        );
        let mut inverse = [load(&rows[0]); 6];
        for k in 1..6 {
            inverse[k] = load(&rows[k]);
        }
        let mut m = [load(&moments[0]); 10];
        for k in 1..10 {
            m[k] = load(&moments[k]);
        }
        let weights = [load(&rows[6]) * WEIGHT_SCALES[0], load(&rows[6]) * WEIGHT_SCALES[1]];
        let gradient = from_moments(&inverse, weights, load(slopes), &m);
        for k in 0..10 {
            gradient[k].store_slice(&mut out[k][at..at + width]);
        }
        at += width;
    }
    out
}
