//! Stage `density`: density control. Every 50 steps during the first 60 % of a fit.
//!
//! - **merge** (if the number may grow): neighbours of equal sign along the Morton curve whose union one Gaussian
//!   approximates within 2 % (closed-form L2 norm);
//! - **prune**: Gaussians whose weight and mass are both below 1e-4 of the medians;
//! - **relocate**: the 5 % with the smallest energy `w² |L|` move to where the squared residual is large, small and
//!   round;
//! - **split** (up to the largest number): along the largest axis into two that keep mass, mean and covariance.

use gausset_compute::rng;
use gausset_core::statistics::upper_median;

use crate::field::{CovarianceKind, GaussianField, cholesky, covariance_of, factor, raw_factor};
use crate::fit::adam::AdamState;
use crate::fit::init::sample_stratified;
use crate::inner::{self, Gaussian};

/// Fraction of Gaussians that is relocated.
const RELOCATED_FRACTION: f64 = 0.05;
/// Displacement of the halves along the axis, in standard deviations: 1.9 % of L2 change.
const SPLIT_OFFSET: f64 = 0.5;
/// Largest growth factor per change.
const MAX_GROWTH: f64 = 1.3;
/// Largest relative L2 change by a merge.
const MAX_MERGE_CHANGE: f64 = 0.02;
/// Gaussians with weight and mass below this fraction of the medians are removed.
const PRUNE_FRACTION: f64 = 1e-4;

/// Data and limits for density control.
pub(crate) struct DensityInput<'a> {
    /// Training points, by slot in leaf order.
    pub(crate) points: &'a [[f32; 3]],
    /// Residuals `y - f` there.
    pub(crate) residuals: &'a [f32],
    /// σ of a relocated Gaussian.
    pub(crate) sigma: f32,
    pub(crate) seed: u64,
    pub(crate) step: u64,
    /// Largest number of Gaussians.
    pub(crate) max_gaussians: usize,
}

fn gaussian(field: &GaussianField<f32>, i: usize) -> Gaussian {
    Gaussian { mean: field.means[i].map(f64::from), factor: field.factor(i), weight: field.weight(i) }
}

fn set(field: &mut GaussianField<f32>, i: usize, g: &Gaussian) {
    field.means[i] = g.mean.map(|v| v as f32);
    field.chol[i] = raw_factor(&g.factor).map(|v| v as f32);
    field.weights[i] = field.weight_mode.raw(g.weight) as f32;
}

/// Applies density control. New and moved Gaussians restart their moments in `state`.
pub(crate) fn control_density(
    field: &mut GaussianField<f32>,
    state: &mut Vec<AdamState>,
    evidence: &DensityInput<'_>,
) {
    let may_grow = evidence.max_gaussians > field.len();
    if may_grow {
        merge_neighbours(field, state);
    }
    prune(field, state);
    relocate(field, state, evidence);
    if may_grow {
        let most = evidence.max_gaussians.min((field.len() as f64 * MAX_GROWTH).ceil() as usize);
        split(field, state, most);
    }
}

fn keep(field: &mut GaussianField<f32>, state: &mut Vec<AdamState>, kept: &[usize]) {
    *field = field.select(kept);
    *state = kept.iter().map(|&i| state[i]).collect();
}

fn merge_neighbours(field: &mut GaussianField<f32>, state: &mut Vec<AdamState>) {
    let mut kept = Vec::with_capacity(field.len());
    let mut i = 0;
    while i < field.len() {
        let merged = (i + 1 < field.len())
            .then(|| inner::merge(&gaussian(field, i), &gaussian(field, i + 1)))
            .flatten()
            .filter(|(_, change)| *change < MAX_MERGE_CHANGE);
        if let Some((merged, _)) = merged {
            set(field, i + 1, &merged);
            state[i + 1] = AdamState::default();
        } else {
            kept.push(i);
        }
        i += 1;
    }
    keep(field, state, &kept);
}

fn prune(field: &mut GaussianField<f32>, state: &mut Vec<AdamState>) {
    let median = |values: Vec<f64>| upper_median(values).unwrap_or(0.0);
    let n = field.len();
    let weights: Vec<f64> = (0..n).map(|i| field.weight(i).abs()).collect();
    let masses: Vec<f64> = (0..n).map(|i| gaussian(field, i).mass().abs()).collect();
    let (weight, mass) = (PRUNE_FRACTION * median(weights.clone()), PRUNE_FRACTION * median(masses.clone()));
    let is_kept = |i: usize| !(weights[i] < weight && masses[i] < mass);
    let kept: Vec<usize> = (0..n).filter(|&i| is_kept(i)).collect();
    if !kept.is_empty() && kept.len() < n {
        keep(field, state, &kept);
    }
}

fn relocate(field: &mut GaussianField<f32>, state: &mut [AdamState], evidence: &DensityInput<'_>) {
    let n = field.len();
    let count = (n as f64 * RELOCATED_FRACTION) as usize;
    if count == 0 || evidence.points.is_empty() {
        return;
    }
    let energy = |i: usize| {
        let g = gaussian(field, i);
        g.weight * g.weight * g.volume()
    };
    let mut by_energy: Vec<(f64, usize)> = (0..n).map(|i| (energy(i), i)).collect();
    by_energy.select_nth_unstable_by(count, |a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    let mut chosen: Vec<usize> = by_energy[..count].iter().map(|(_, i)| *i).collect();
    chosen.sort_unstable();
    let density: Vec<f32> = evidence.residuals.iter().map(|r| r * r).collect();
    let order: Vec<u32> = (0..density.len() as u32).collect();
    let targets = sample_stratified(&order, &density, count, evidence.seed, evidence.step);
    let log = libm::logf(evidence.sigma);
    for (&i, &target) in chosen.iter().zip(&targets) {
        let target = target as usize;
        field.means[i] = evidence.points[target];
        field.chol[i] = [log, 0.0, log, 0.0, 0.0, log];
        let half = 0.5 * f64::from(evidence.residuals[target]);
        field.weights[i] = field.weight_mode.raw(half) as f32;
        state[i] = AdamState::default();
    }
}

/// Splits the Gaussians with the largest gradients until there are `most`.
fn split(field: &mut GaussianField<f32>, state: &mut Vec<AdamState>, most: usize) {
    let n = field.len();
    let count = most.saturating_sub(n).min(n);
    if count == 0 {
        return;
    }
    // Measure of the gradient: the second moment of the weight's gradient.
    let mut by_pull: Vec<(f32, usize)> = (0..n).map(|i| (-state[i].second[9], i)).collect();
    by_pull.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    for &(_, i) in &by_pull[..count] {
        if let Some([a, b]) = split_one(&gaussian(field, i), field.covariance) {
            set(field, i, &a);
            state[i] = AdamState::default();
            field.means.push(field.means[i]);
            field.chol.push(field.chol[i]);
            field.weights.push(field.weights[i]);
            state.push(AdamState::default());
            let last = field.len() - 1;
            set(field, last, &b);
        }
    }
}

/// Two Gaussians with the mass, mean and covariance of one.
pub(crate) fn split_one(g: &Gaussian, covariance: CovarianceKind) -> Option<[Gaussian; 2]> {
    let s = covariance_of(&g.factor);
    let (axis, variance) = match covariance {
        CovarianceKind::Full => largest_axis(&s),
        CovarianceKind::Diagonal => {
            let k = [s[0], s[2], s[5]];
            let most = (1..3).fold(0, |best, j| if k[j] > k[best] { j } else { best });
            (std::array::from_fn(|j| if j == most { 1.0 } else { 0.0 }), k[most])
        }
    };
    let step: [f64; 3] = axis.map(|e| SPLIT_OFFSET * variance.sqrt() * e);
    let child = [
        s[0] - step[0] * step[0],
        s[1] - step[1] * step[0],
        s[2] - step[1] * step[1],
        s[3] - step[2] * step[0],
        s[4] - step[2] * step[1],
        s[5] - step[2] * step[2],
    ];
    let factor = cholesky(&child)?;
    let weight = g.weight / (2.0 * (1.0 - SPLIT_OFFSET * SPLIT_OFFSET).sqrt());
    let at =
        |sign: f64| Gaussian { mean: std::array::from_fn(|k| g.mean[k] + sign * step[k]), factor, weight };
    Some([at(1.0), at(-1.0)])
}

/// The largest principal axis and its variance: power iterations from the longest column.
fn largest_axis(s: &[f64; 6]) -> ([f64; 3], f64) {
    let m = [[s[0], s[1], s[3]], [s[1], s[2], s[4]], [s[3], s[4], s[5]]];
    let times = |v: [f64; 3]| -> [f64; 3] { std::array::from_fn(|i| (0..3).map(|j| m[i][j] * v[j]).sum()) };
    let norm = |v: [f64; 3]| v.iter().map(|x| x * x).sum::<f64>().sqrt();
    let longest = (1..3).fold(0, |best, k| if norm(m[k]) > norm(m[best]) { k } else { best });
    let mut v = m[longest];
    for _ in 0..60 {
        let length = norm(v);
        if length <= 0.0 {
            return ([1.0, 0.0, 0.0], s[0]);
        }
        v = times(v.map(|x| x / length));
    }
    let length = norm(v);
    (v.map(|x| x / length.max(f64::MIN_POSITIVE)), length)
}

/// Sorts Gaussians in Morton order, together with their state.
pub(crate) fn reorder(field: &mut GaussianField<f32>, state: &mut Vec<AdamState>, order: &[u32]) {
    let order: Vec<usize> = order.iter().map(|&i| i as usize).collect();
    keep(field, state, &order);
}

/// A pseudo-random offset, so that Gaussians placed at the same sample differ.
pub(crate) fn jitter(seed: u64, i: usize) -> [f32; 3] {
    let w = rng::philox(seed, rng::stream::FIELD, u64::from(u32::MAX), i as u32);
    [0, 1, 2].map(|k: usize| rng::uniform(w[k]) - 0.5)
}

/// Clamps the log diagonals of all factors.
pub(crate) fn clamp_logs(field: &mut GaussianField<f32>, logs: [f32; 2]) {
    for chol in &mut field.chol {
        for k in [0, 2, 5] {
            chol[k] = chol[k].clamp(logs[0], logs[1]);
        }
        debug_assert!(factor(chol).iter().all(|v| v.is_finite()));
    }
}
