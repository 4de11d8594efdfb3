//! Adam (Kingma and Ba 2015) in scaled variables.
//!
//! Means and off-diagonal entries are lengths, so their rates are relative to the Gaussian's size
//! `s = (L00 L11 L22)^(1/3)`; logs and weights have plain rates. All rates decay as `0.05^(step/steps)`.

use gausset_compute::Pool;

use crate::field::{CovarianceKind, GaussianField};
use crate::gradients::{WEIGHT_SCALES, from_moments};
use crate::packed::Record;

const BETA1: f32 = 0.9;
const BETA2: f32 = 0.99;
const EPSILON: f32 = 1e-12;
/// Decay of the rates by the last step.
const FINAL_RATE_FACTOR: f64 = 0.05;
/// Gaussians per task.
const GAUSSIANS_PER_TASK: usize = 512;

/// Initial rates.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Rates {
    /// Means, in sizes of the Gaussian.
    pub(crate) means: f32,
    /// Log diagonals.
    pub(crate) logs: f32,
    /// Off-diagonal entries, in sizes of the Gaussian.
    pub(crate) off_diagonals: f32,
    /// Weights, in ranges of the data.
    pub(crate) weights: f32,
}

impl Default for Rates {
    fn default() -> Self {
        Self { means: 0.09, logs: 0.06, off_diagonals: 0.06, weights: 0.015 }
    }
}

/// First and second moments of a Gaussian's ten parameters, and their number of steps.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct AdamState {
    pub(crate) first: [f32; 10],
    pub(crate) second: [f32; 10],
    pub(crate) steps: u32,
}

/// Input of a step.
pub(crate) struct AdamStep<'a> {
    pub(crate) rates: Rates,
    /// Progress of the fit, 0..1.
    pub(crate) progress: f64,
    /// Records of the field, in its order.
    pub(crate) records: &'a [Record<f32>],
    /// Moments of the residuals, in its order.
    pub(crate) moments: &'a [[f32; 10]],
    /// 2 / number of samples.
    pub(crate) scale: f32,
    /// Smallest and largest log of a diagonal entry.
    pub(crate) logs: [f32; 2],
}

impl AdamStep<'_> {
    /// One step of every Gaussian.
    pub(crate) fn run(&self, pool: &Pool, field: &mut GaussianField<f32>, state: &mut [AdamState]) {
        let decay = libm::pow(FINAL_RATE_FACTOR, self.progress) as f32;
        let (mode, covariance) = (field.weight_mode, field.covariance);
        let mut parts: Vec<_> = field
            .means
            .chunks_mut(GAUSSIANS_PER_TASK)
            .zip(field.chol.chunks_mut(GAUSSIANS_PER_TASK))
            .zip(field.weights.chunks_mut(GAUSSIANS_PER_TASK))
            .zip(state.chunks_mut(GAUSSIANS_PER_TASK))
            .collect();
        pool.run_parts(&mut parts, |part, (((means, chol), weights), state)| {
            // Most Gaussians have the same number of steps, so the corrections are cached.
            let (mut corrected, mut correct1, mut correct2) = (0, 1.0, 1.0);
            for i in 0..means.len() {
                let record = &self.records[part * GAUSSIANS_PER_TASK + i];
                let moments = self.moments[part * GAUSSIANS_PER_TASK + i].map(f64::from);
                let inverse: [f64; 6] = std::array::from_fn(|k| f64::from(record[3 + k]));
                let slope = mode.derivative(f64::from(weights[i]));
                let gradient =
                    from_moments(&inverse, WEIGHT_SCALES.map(|k| k * f64::from(record[9])), slope, &moments);
                // (L00 L11 L22)^(1/3)
                let size = libm::expf((chol[i][0] + chol[i][2] + chol[i][5]) / 3.0);
                let rates = self.rates;
                // Size of a unit of each scaled variable.
                let unit = [size, size, size, 1.0, size, 1.0, size, size, 1.0, 1.0];
                let rate = [
                    rates.means,
                    rates.means,
                    rates.means,
                    rates.logs,
                    rates.off_diagonals,
                    rates.logs,
                    rates.off_diagonals,
                    rates.off_diagonals,
                    rates.logs,
                    rates.weights,
                ];
                let state = &mut state[i];
                state.steps += 1;
                if state.steps != corrected {
                    corrected = state.steps;
                    correct1 = 1.0 - libm::powf(BETA1, corrected as f32);
                    correct2 = 1.0 - libm::powf(BETA2, corrected as f32);
                }
                let mut moved = [0.0f32; 10];
                for k in 0..10 {
                    let g = (gradient[k] as f32) * self.scale * unit[k];
                    let g = if g.is_finite() { g } else { 0.0 };
                    state.first[k] = BETA1 * state.first[k] + (1.0 - BETA1) * g;
                    state.second[k] = BETA2 * state.second[k] + (1.0 - BETA2) * g * g;
                    let direction =
                        (state.first[k] / correct1) / ((state.second[k] / correct2).sqrt() + EPSILON);
                    moved[k] = -decay * rate[k] * unit[k] * direction;
                }
                for k in 0..3 {
                    means[i][k] += moved[k];
                }
                for k in 0..6 {
                    let is_log = matches!(k, 0 | 2 | 5);
                    if is_log {
                        chol[i][k] = (chol[i][k] + moved[3 + k]).clamp(self.logs[0], self.logs[1]);
                    } else if covariance == CovarianceKind::Full {
                        chol[i][k] += moved[3 + k];
                    }
                }
                weights[i] += moved[9];
            }
        });
    }
}
