//! Closed-form inner products of Gaussians, and merging based on them.
//!
//! `∫ G_a G_b = (2π)^1.5 |L_a| |L_b| / sqrt(det(S_a + S_b)) exp(-½ Dᵀ (S_a + S_b)⁻¹ D)`, `D = µ_a - µ_b`;
//! `∫ G = (2π)^1.5 |L|`, `|L| = L00 L11 L22`.

use crate::field::{GaussianField, cholesky, covariance_of, inverse_factor};
use crate::real::Real;

/// `(2π)^1.5`.
pub(crate) const NORM: f64 = 15.749_609_945_722_419;

/// A Gaussian with its weight.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gaussian {
    /// Mean, user units.
    pub mean: [f64; 3],
    /// Factor `L`: `L00 L10 L11 L20 L21 L22`.
    pub factor: [f64; 6],
    /// Weight: the value at the mean.
    pub weight: f64,
}

impl Gaussian {
    /// The determinant `|L|`: the product of the standard deviations along the axes.
    #[must_use]
    pub fn volume(&self) -> f64 {
        self.factor[0] * self.factor[2] * self.factor[5]
    }

    /// `∫ w G`.
    #[must_use]
    pub fn mass(&self) -> f64 {
        NORM * self.weight * self.volume()
    }

    /// `∫ (w_a G_a) (w_b G_b)`.
    #[must_use]
    pub fn inner(&self, other: &Self) -> f64 {
        let (a, b) = (covariance_of(&self.factor), covariance_of(&other.factor));
        let sum: [f64; 6] = std::array::from_fn(|i| a[i] + b[i]);
        let Some(l) = cholesky(&sum) else { return 0.0 };
        let inverse = inverse_factor(&l);
        let d: [f64; 3] = std::array::from_fn(|k| self.mean[k] - other.mean[k]);
        let v = [
            inverse[0] * d[0],
            inverse[1] * d[0] + inverse[2] * d[1],
            inverse[3] * d[0] + inverse[4] * d[1] + inverse[5] * d[2],
        ];
        let q = v[0] * v[0] + v[1] * v[1] + v[2] * v[2];
        let scale = NORM * self.volume() * other.volume() / (l[0] * l[2] * l[5]);
        self.weight * other.weight * scale * libm::exp(-0.5 * q)
    }
}

impl<T: Real> GaussianField<T> {
    /// Gaussian `i` with its weight.
    #[must_use]
    pub fn gaussian(&self, i: usize) -> Gaussian {
        Gaussian { mean: self.means[i].map(Into::into), factor: self.factor(i), weight: self.weight(i) }
    }

    /// `∫ f g` over all space: a sum over pairs of Gaussians.
    #[must_use]
    pub fn inner(&self, other: &Self) -> f64 {
        let theirs: Vec<Gaussian> = (0..other.len()).map(|i| other.gaussian(i)).collect();
        let mine = (0..self.len()).map(|i| self.gaussian(i));
        mine.map(|a| theirs.iter().map(|b| a.inner(b)).sum::<f64>()).sum()
    }

    /// `∫ f` over all space.
    #[must_use]
    pub fn mass(&self) -> f64 {
        (0..self.len()).map(|i| self.gaussian(i).mass()).sum()
    }
}

/// One Gaussian with the mass, mean and covariance of two, and the relative L2 change; `None` unless the signs agree.
///
/// ```
/// use gausset_field::inner::{Gaussian, merge};
///
/// let a = Gaussian { mean: [0.0; 3], factor: [1.0, 0.0, 1.0, 0.0, 0.0, 1.0], weight: 1.0 };
/// let b = Gaussian { mean: [0.2, 0.0, 0.0], ..a };
/// let (merged, change) = merge(&a, &b).unwrap();
/// assert!((merged.mean[0] - 0.1).abs() < 1e-12 && change < 0.01);
/// assert!((merged.mass() - a.mass() - b.mass()).abs() < 1e-9);
/// ```
#[must_use]
pub fn merge(a: &Gaussian, b: &Gaussian) -> Option<(Gaussian, f64)> {
    if a.weight * b.weight <= 0.0 {
        return None;
    }
    let (ma, mb) = (a.mass(), b.mass());
    let total = ma + mb;
    let (ta, tb) = (ma / total, mb / total);
    let mean: [f64; 3] = std::array::from_fn(|k| ta * a.mean[k] + tb * b.mean[k]);
    let (sa, sb) = (covariance_of(&a.factor), covariance_of(&b.factor));
    let mut s: [f64; 6] = std::array::from_fn(|i| ta * sa[i] + tb * sb[i]);
    for (entry, (row, column)) in crate::reference::ENTRIES.into_iter().enumerate() {
        for (share, part) in [(ta, a), (tb, b)] {
            s[entry] += share * (part.mean[row] - mean[row]) * (part.mean[column] - mean[column]);
        }
    }
    let factor = cholesky(&s)?;
    let mut merged = Gaussian { mean, factor, weight: 1.0 };
    merged.weight = total / merged.mass();
    let both = a.inner(a) + 2.0 * a.inner(b) + b.inner(b);
    let change = merged.inner(&merged) - 2.0 * (merged.inner(a) + merged.inner(b)) + both;
    (both > 0.0).then(|| (merged, (change.max(0.0) / both).sqrt()))
}
