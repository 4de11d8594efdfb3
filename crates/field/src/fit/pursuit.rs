//! Initialisation of Levenberg-Marquardt: one Gaussian at a time, each fitted to the residual of the others (matching
//! pursuit, Mallat and Zhang 1993).
//!
//! ```text
//! residual r = y - f
//! repeat: the leaves with the largest Σ r²; in each the sample of largest |r|
//!         a round Gaussian there, fitted to r in a window about it; the window follows its shape
//!         the candidate that explains most of Σ r² is kept, and all Gaussians so far are refined together
//! until there are enough, or none explains more than noise would
//! ```
//! Round Gaussians come first: with half the parameters, one of them cannot take the shape of two bumps, a local minimum
//! that a fit does not leave. If they do not explain the samples, Gaussians of any shape are found in the same way, and
//! the better of the two fields is the start.
//!
//! A least-squares fit from randomly placed round Gaussians finds neither the shape nor the number of narrow, rotated
//! bumps: several Gaussians share one bump and others have none. Fitted one by one in a window, each takes the shape of
//! its bump.

use std::sync::atomic::AtomicBool;

use crate::accel::Leaves;
use crate::eval::{Compute, Evaluator};
use crate::field::{CovarianceKind, GaussianField, WeightMode};
use crate::fit::error::FitError;
use crate::fit::lm::{LmState, Shapes};

/// Samples in the first window.
const WINDOW_SAMPLES: f64 = 200.0;
/// Size of the next windows, in standard deviations of the fitted Gaussian.
const WINDOW_SIGMAS: f64 = 3.0;
/// Number of windows.
const WINDOWS: usize = 3;
/// Iterations per window.
const ITERATIONS: usize = 12;
/// Positions that are tried for a Gaussian.
const CANDIDATES: usize = 4;
/// A Gaussian is accepted if it explains at least this many times as many residuals of average size as it has
/// parameters.
const MIN_EXPLAINED_FACTOR: f64 = 10.0;
/// Most iterations after an exchange before it is evaluated: the way out of a local minimum is long and flat.
const EXCHANGE_ITERATIONS: usize = 30;
/// Relative gain below which these end.
const EXCHANGE_GAIN: f64 = 2e-3;
/// Least relative reduction of the loss by an exchange. A fit whose iterations gain less is stuck.
pub(crate) const MIN_EXCHANGE_GAIN: f64 = 1e-2;
/// Fraction of Σ r² below which round Gaussians are preferred to those of any shape.
const MUCH_LESS: f64 = 0.5;
/// Fraction of Σ y² below which no exchange is tried.
const MIN_EXCHANGE_RESIDUAL: f64 = 1e-6;
/// Fraction of Σ y² below which the residual counts as zero.
const ZERO_RESIDUAL: f64 = 1e-20;

/// Input of a pursuit.
pub(crate) struct Pursuit<'a> {
    pub(crate) compute: &'a Compute,
    pub(crate) stop: &'a AtomicBool,
    pub(crate) points: &'a [[f64; 3]],
    pub(crate) values: &'a [f64],
    /// Volume of the region of the samples.
    pub(crate) volume: f64,
    pub(crate) mode: WeightMode,
    pub(crate) covariance: CovarianceKind,
    pub(crate) shapes: Shapes,
}

impl Pursuit<'_> {
    /// The field of the better pursuit: round Gaussians, and Gaussians of any shape unless those explain the samples.
    pub(crate) fn run(&self, count: usize) -> Result<GaussianField<f64>, FitError> {
        let (round, round_loss) = Pursuit { shapes: Shapes::Round, ..*self }.pursue(count)?;
        if round_loss <= ZERO_RESIDUAL * square(self.values) {
            return Ok(round);
        }
        let (field, loss) = self.pursue(count)?;
        Ok(if round_loss < MUCH_LESS * loss { round } else { field })
    }

    /// Adds Gaussians until there are `count`, or none is worth its parameters. Field and Σ r².
    fn pursue(&self, count: usize) -> Result<(GaussianField<f64>, f64), FitError> {
        let leaves = Leaves::new(self.points);
        let mut residuals = self.values.to_vec();
        let all = square(&residuals);
        let mut found = self.empty();
        while found.len() < count && square(&residuals) > ZERO_RESIDUAL * all {
            let Some(gaussian) = self.best_candidate(&leaves, &residuals)? else { break };
            found.means.extend(gaussian.means);
            found.chol.extend(gaussian.chol);
            found.weights.extend(gaussian.weights);
            found = self.refined(found, ITERATIONS, MIN_EXCHANGE_GAIN)?.field;
            residuals = self.residuals(&found)?;
        }
        Ok((found, square(&residuals)))
    }

    /// `y - f`.
    fn residuals(&self, field: &GaussianField<f64>) -> Result<Vec<f64>, FitError> {
        let found = Evaluator::new(self.compute, field)?.values(self.points)?;
        Ok(self.values.iter().zip(&found).map(|(y, f)| y - f).collect())
    }

    /// Removes the Gaussian with the `rank`-th smallest effect, adds one where the residual is then largest, and
    /// refines all; `None` if that is no improvement.
    ///
    /// This escapes local minima with two Gaussians on one bump, or one across two.
    pub(crate) fn exchange(&self, lm: &LmState, rank: usize) -> Result<Option<LmState>, FitError> {
        if lm.loss <= MIN_EXCHANGE_RESIDUAL * square(self.values) {
            return Ok(None);
        }
        let n = lm.field.len();
        let residuals = self.residuals(&lm.field)?;
        let leaves = Leaves::new(self.points);
        if is_uncorrelated(&leaves, &residuals) {
            return Ok(None);
        }
        let mut without = Vec::with_capacity(n);
        for i in 0..n {
            let own = Evaluator::new(self.compute, &lm.field.select(&[i]))?.values(self.points)?;
            let rest: f64 = residuals.iter().zip(&own).map(|(r, f)| (r + f) * (r + f)).sum();
            without.push((rest, i));
        }
        without.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let Some((_, least)) = without.get(rank) else { return Ok(None) };
        // The others are refined first; the residual that remains shows where a Gaussian is missing.
        let kept: Vec<usize> = (0..n).filter(|i| i != least).collect();
        let others = self.refined(lm.field.select(&kept), EXCHANGE_ITERATIONS, EXCHANGE_GAIN)?;
        let rest = self.residuals(&others.field)?;
        let Some(gaussian) = self.best_candidate(&leaves, &rest)? else { return Ok(None) };
        let mut field = others.field;
        field.means.extend(gaussian.means);
        field.chol.extend(gaussian.chol);
        field.weights.extend(gaussian.weights);
        let trial = self.refined(field, EXCHANGE_ITERATIONS, EXCHANGE_GAIN)?;
        Ok((trial.loss < lm.loss * (1.0 - MIN_EXCHANGE_GAIN)).then_some(trial))
    }

    /// A field after some iterations over all samples.
    fn refined(
        &self,
        field: GaussianField<f64>,
        iterations: usize,
        min_gain: f64,
    ) -> Result<LmState, FitError> {
        let mut lm = LmState::new(field, self.compute, self.points, self.values)?;
        for _ in 0..iterations {
            if lm.is_done || lm.gain < min_gain {
                break;
            }
            lm.iterate(self.shapes, self.compute, self.points, self.values, self.stop)?;
        }
        Ok(lm)
    }

    fn empty(&self) -> GaussianField<f64> {
        GaussianField {
            means: Vec::new(),
            chol: Vec::new(),
            weights: Vec::new(),
            weight_mode: self.mode,
            covariance: self.covariance,
            bounds: None,
        }
    }

    /// The Gaussian that explains most of the residuals.
    fn best_candidate(
        &self,
        leaves: &Leaves<f64>,
        residuals: &[f64],
    ) -> Result<Option<GaussianField<f64>>, FitError> {
        // Positive weights can only explain positive residuals.
        let usable = |r: f64| if self.mode == WeightMode::Raw { r.abs() } else { r.max(0.0) };
        let mut ranked: Vec<(f64, usize)> = leaves
            .order
            .chunks(crate::accel::LEAF)
            .map(|slots| slots.iter().map(|&i| usable(residuals[i as usize]).powi(2)).sum())
            .zip(0..)
            .collect();
        ranked.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        let before = square(residuals);
        let worth =
            MIN_EXPLAINED_FACTOR * self.covariance.parameters() as f64 * before / residuals.len() as f64;
        let mut best = None;
        let mut least = before - worth;
        for &(energy, leaf) in ranked.iter().take(CANDIDATES) {
            let slots = &leaves.order[leaf * crate::accel::LEAF..][..crate::accel::LEAF];
            let peak = slots.iter().copied().max_by(|&a, &b| {
                usable(residuals[a as usize]).total_cmp(&usable(residuals[b as usize])).then(b.cmp(&a))
            });
            let (Some(peak), true) = (peak, energy > 0.0) else { continue };
            let Some(gaussian) = self.fit_candidate(residuals, peak as usize)? else { continue };
            let values = Evaluator::new(self.compute, &gaussian)?.values(self.points)?;
            let after: f64 = residuals.iter().zip(&values).map(|(r, f)| (r - f) * (r - f)).sum();
            if after < least {
                least = after;
                best = Some(gaussian);
            }
        }
        Ok(best)
    }

    /// Fits a Gaussian to the residuals around a sample.
    fn fit_candidate(&self, residuals: &[f64], peak: usize) -> Result<Option<GaussianField<f64>>, FitError> {
        let center = self.points[peak];
        let per_sample = self.volume / self.points.len() as f64;
        let radius = libm::cbrt(per_sample * WINDOW_SAMPLES * 3.0 / (4.0 * std::f64::consts::PI));
        let log = libm::log(radius / 3.0);
        let mut gaussian = self.empty();
        gaussian.means.push(center);
        gaussian.chol.push([log, 0.0, log, 0.0, 0.0, log]);
        gaussian.weights.push(self.mode.raw(residuals[peak]));
        for _ in 0..WINDOWS {
            let inverse = crate::field::inverse_factor(&gaussian.factor(0));
            let mean = gaussian.means[0];
            let is_near = |x: &[f64; 3]| {
                let from = |c: [f64; 3]| -> [f64; 3] { std::array::from_fn(|k| x[k] - c[k]) };
                let (d, e) = (from(mean), from(center));
                let [a00, a10, a11, a20, a21, a22] = inverse;
                let v = [a00 * d[0], a10 * d[0] + a11 * d[1], a20 * d[0] + a21 * d[1] + a22 * d[2]];
                length_squared(v) < WINDOW_SIGMAS * WINDOW_SIGMAS || length_squared(e) < radius * radius
            };
            let near = (0..self.points.len()).filter(|&i| is_near(&self.points[i]));
            let (points, values): (Vec<[f64; 3]>, Vec<f64>) =
                near.map(|i| (self.points[i], residuals[i])).unzip();
            if points.len() < 2 * self.covariance.parameters() {
                return Ok(None);
            }
            let mut lm = LmState::new(gaussian.clone(), self.compute, &points, &values)?;
            for _ in 0..ITERATIONS {
                if lm.is_done {
                    break;
                }
                lm.iterate(self.shapes, self.compute, &points, &values, self.stop)?;
            }
            gaussian = lm.field;
        }
        Ok(Some(gaussian))
    }
}

/// Whether residuals of neighbours are uncorrelated: the squares of their sums over leaves then equal the sums of their
/// squares within four standard deviations.
fn is_uncorrelated(leaves: &Leaves<f64>, residuals: &[f64]) -> bool {
    let slots = leaves.order[..leaves.len].chunks(crate::accel::LEAF);
    let count = slots.len() as f64;
    let (mut sums, mut squares) = (0.0, 0.0);
    for slots in slots {
        let sum: f64 = slots.iter().map(|&i| residuals[i as usize]).sum();
        sums += sum * sum;
        squares += slots.iter().map(|&i| residuals[i as usize].powi(2)).sum::<f64>();
    }
    sums <= squares * (1.0 + 4.0 * (2.0 / count).sqrt())
}

fn square(values: &[f64]) -> f64 {
    values.iter().map(|v| v * v).sum()
}

fn length_squared(v: [f64; 3]) -> f64 {
    v[0] * v[0] + v[1] * v[1] + v[2] * v[2]
}
