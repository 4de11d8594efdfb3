//! Relocation and growth: 3D Gaussian splatting as Markov chain Monte Carlo (Kheradmand et al. 2024).
//!
//! Dead splats (opacity at most 0.005) are relocated to living ones, and the set grows by copies of its members; both
//! draw a source with probability proportional to its opacity. A source that then exists `n` times, itself included,
//! divides its opacity among the copies and shrinks so that the render is unchanged (eq. 9):
//!
//! ```text
//! o' = 1 - (1 - o)^(1/n)        n coincident copies have the opacity of the original
//! s' = s o / D(n, o')           and the same integral along a line through the centre
//! D(n, o) = Σ_{i=1..n} Σ_{k=0..i-1} C(i-1, k) (-1)^k o^(k+1) / sqrt(k + 1)
//! ```
//!
//! The sum over i has a closed form (the hockey-stick identity), `D = Σ_{k=1..n} C(n, k) (-1)^(k+1) o^k / sqrt(k)`, but
//! its terms reach `C(51, 25) ≈ 2.5e14` and cancel. With `1/sqrt(k) = (1/sqrt π) ∫ exp(-k x²) dx` it becomes the
//! integral of the joint opacity of n equal Gaussians, whose terms are all positive:
//!
//! ```text
//! D(n, o) = (1/sqrt π) ∫ 1 - (1 - o exp(-x²))^n dx
//! ```
//!
//! The integrand is smooth and decays like a Gaussian, so the trapezoidal rule converges exponentially: with step 1/8
//! on |x| < 7 the relative error is below 3e-14 for n <= 51 and every o in (0, 1) (checked against 60-digit sums).
//!
//! A draw searches a prefix sum of the opacities in splat order, in f64, for a uniform number whose counter is the id
//! of the splat that receives the copy. It depends on the order of the splats, which is part of the state.

use gausset_compute::{Pool, rng};
use gausset_core::engine::{McmcRule, TrainState};
use gausset_core::splats::opacity;

use super::outcome::DensityOutcome;
use super::values::{logit, non_finite_mask};
use super::{long_axis, rows};

/// Maximum number of copies that share an opacity (as in gsplat); further draws of one source count as this many.
pub const MAX_COPIES: u32 = 51;

/// Maximum opacity of a copy: `1 - eps` of f32 (as in gsplat), so that its logit is finite.
const MAX_OPACITY: f64 = 1.0 - f32::EPSILON as f64;

/// Step of the trapezoidal rule.
const STEP: f64 = 0.125;
/// Nodes of the trapezoidal rule, `x = 0, STEP, …, 7 - STEP`; beyond, `51 exp(-x²)` is below the last bit.
const NODES: usize = 56;

/// Splats per task; a constant, so that the partition does not depend on the number of threads.
const CHUNK: usize = 4096;

pub(super) fn apply(state: &mut TrainState, rule: &McmcRule, pool: &Pool) -> DensityOutcome {
    let non_finite = remove_not_finite(state, pool);
    let relocated = relocate(state, rule, pool);
    let added = add(state, rule, pool);
    DensityOutcome { relocated, added, non_finite, ..DensityOutcome::default() }
}

fn remove_not_finite(state: &mut TrainState, pool: &Pool) -> u64 {
    let Some(dead) = non_finite_mask(&state.splats, pool) else { return 0 };
    let kept: Vec<u32> = (0u32..).zip(&dead).filter(|(_, dead)| !**dead).map(|(i, _)| i).collect();
    rows::edit(state, &kept, &[], pool);
    (dead.len() - kept.len()) as u64
}

/// Relocates dead splats to living ones. A relocated splat keeps its index and id, but its moments and statistics are
/// reset; the moments of its source are reset too, because its parameters change abruptly.
fn relocate(state: &mut TrainState, rule: &McmcRule, pool: &Pool) -> u64 {
    let dead_logit = logit(rule.dead_opacity);
    let is_dead = |logit: f32| logit <= dead_logit;
    let dead: Vec<u32> = (0u32..)
        .zip(&state.splats.opacity_logits)
        .filter(|(_, logit)| is_dead(**logit))
        .map(|(i, _)| i)
        .collect();
    if dead.is_empty() {
        return 0;
    }
    let sums = prefix_sums(&state.splats.opacity_logits, |logit| !is_dead(logit), pool);
    let receivers: Vec<u32> = dead.iter().map(|&i| state.ids[i as usize]).collect();
    let sources = draw(&sums, &receivers, rng::stream::RELOCATE, rule, pool);
    let draws = Draws::new(state, &sources, rule);
    for source in update_sources(state, &draws, rule.dead_opacity, pool) {
        rows::reset_optimiser_state(state, source as usize);
    }
    for (&to, &from) in dead.iter().zip(&sources) {
        let to = to as usize;
        rows::copy_splat(&mut state.splats, from as usize, to);
        if draws.splits[from as usize] {
            long_axis::halve(&mut state.splats, from as usize, to);
        }
        rows::reset_optimiser_state(state, to);
        state.statistics.gradient_sum[to] = 0.0;
        state.statistics.visible_steps[to] = 0;
        state.statistics.max_radius[to] = 0.0;
    }
    sources.len() as u64
}

/// Adds copies until the set has `growth` times as many splats, rounded, but at least one more, or `max_splats`.
fn add(state: &mut TrainState, rule: &McmcRule, pool: &Pool) -> u64 {
    let n = state.splats.len();
    // Indices and ids are u32.
    let most = rule.max_splats.min(u64::from(u32::MAX));
    let grown = (n as f64 * f64::from(rule.growth)).round() as u64;
    // Otherwise a set of a few splats would never grow.
    let least = n as u64 + u64::from(rule.growth > 1.0 && n > 0);
    let wanted = grown.max(least).min(most);
    let count = (wanted as usize).saturating_sub(n);
    if count == 0 {
        return 0;
    }
    let sums = prefix_sums(&state.splats.opacity_logits, |_| true, pool);
    let receivers: Vec<u32> = (0..count as u32).map(|k| state.next_id.wrapping_add(k)).collect();
    let sources = draw(&sums, &receivers, rng::stream::ADD, rule, pool);
    let draws = Draws::new(state, &sources, rule);
    update_sources(state, &draws, rule.dead_opacity, pool);
    let kept: Vec<u32> = (0..n as u32).collect();
    rows::edit(state, &kept, &sources, pool);
    for (copy, &source) in (n..).zip(&sources) {
        if draws.splits[source as usize] {
            long_axis::halve(&mut state.splats, source as usize, copy);
        }
    }
    let added = sources.len();
    state.ids[n..].copy_from_slice(&receivers[..added]);
    state.next_id = state.next_id.wrapping_add(added as u32);
    added as u64
}

/// Inclusive prefix sums of the opacities of the splats that `may_be_drawn`; the weight of the others is 0.
fn prefix_sums(opacity_logits: &[f32], may_be_drawn: impl Fn(f32) -> bool + Sync, pool: &Pool) -> Vec<f64> {
    let mut sums = vec![0.0f64; opacity_logits.len()];
    pool.run_chunks(&mut sums, CHUNK, |chunk, weights| {
        for (weight, &logit) in weights.iter_mut().zip(&opacity_logits[chunk * CHUNK..]) {
            if may_be_drawn(logit) {
                *weight = opacity(logit);
            }
        }
    });
    let mut sum = 0.0;
    for value in &mut sums {
        sum += *value;
        *value = sum;
    }
    sums
}

/// A source for each receiver, with probability proportional to the increments of `sums`; empty if all weights are 0.
fn draw(sums: &[f64], receiver_ids: &[u32], stream: u32, rule: &McmcRule, pool: &Pool) -> Vec<u32> {
    let total = sums.last().copied().unwrap_or(0.0);
    if total <= 0.0 {
        return Vec::new();
    }
    // The product of the largest uniform number and the total may round to the total.
    let last = sums.partition_point(|&sum| sum < total);
    let mut sources = vec![0u32; receiver_ids.len()];
    pool.run_chunks(&mut sources, CHUNK, |chunk, sources| {
        for (source, &id) in sources.iter_mut().zip(&receiver_ids[chunk * CHUNK..]) {
            let words = rng::philox(rule.seed, stream, rule.step, id);
            let target = rng::uniform_f64(words[0], words[1]) * total;
            *source = sampled_index(sums, target).min(last) as u32;
        }
    });
    sources
}

/// The splat whose interval of the prefix sums contains `target`: the first with a greater sum, so a splat of weight 0
/// is never drawn.
fn sampled_index(sums: &[f64], target: f64) -> usize {
    sums.partition_point(|&sum| sum <= target)
}

/// The result of the draws for each splat.
struct Draws {
    /// How often each splat was drawn.
    count: Vec<u32>,
    /// Whether it is split along its longest axis instead of copied.
    splits: Vec<bool>,
}

impl Draws {
    fn new(state: &TrainState, sources: &[u32], rule: &McmcRule) -> Self {
        let mut count = vec![0u32; state.splats.len()];
        for &source in sources {
            count[source as usize] += 1;
        }
        let splits = long_axis::split_mask(&state.splats, &count, rule.split_largest);
        Self { count, splits }
    }
}

/// Sets the opacity and scales of each drawn source that is not split to those of one copy; returns all drawn sources
/// in order, each once.
fn update_sources(state: &mut TrainState, draws: &Draws, min_opacity: f32, pool: &Pool) -> Vec<u32> {
    let distinct: Vec<u32> = (0u32..).zip(&draws.count).filter(|(_, r)| **r > 0).map(|(i, _)| i).collect();
    let mut shares = vec![CopyParameters::default(); distinct.len()];
    let logits = &state.splats.opacity_logits;
    pool.run_chunks(&mut shares, CHUNK, |chunk, shares| {
        for (share, &source) in shares.iter_mut().zip(&distinct[chunk * CHUNK..]) {
            let copies = draws.count[source as usize].saturating_add(1).min(MAX_COPIES);
            *share = copy_parameters(logits[source as usize], copies, min_opacity);
        }
    });
    for (&source, share) in distinct.iter().zip(&shares) {
        let source = source as usize;
        if draws.splits[source] {
            continue;
        }
        state.splats.opacity_logits[source] = share.opacity_logit;
        state.splats.log_scales[source] = state.splats.log_scales[source].map(|s| s + share.log_scale_change);
    }
    distinct
}

/// Opacity and scale of the copies of a splat.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CopyParameters {
    /// Logit of the opacity of each copy.
    pub opacity_logit: f32,
    /// Change of each log scale: `ln(o / D)`.
    pub log_scale_change: f32,
}

/// The opacity and scale of each of `copies` coincident splats that together look like one splat of logit
/// `opacity_logit` (Kheradmand et al. 2024, eq. 9). The new opacity is clamped to `min_opacity..=1 - eps`, and the
/// scale follows from the clamped value, so the integral is preserved in any case.
///
/// ```
/// use gausset_density::{copy_parameters, logit};
///
/// // Two coincident splats of opacity 1/2 let a quarter of the light pass, like one of opacity 3/4.
/// let copy = copy_parameters(logit(0.75), 2, 0.005);
/// assert!(copy.opacity_logit.abs() < 1e-6);
/// assert!(copy.log_scale_change < 0.0);
/// ```
#[must_use]
pub fn copy_parameters(opacity_logit: f32, copies: u32, min_opacity: f32) -> CopyParameters {
    let x = f64::from(opacity_logit);
    // ln(1 - o) = -softplus(x), which keeps its precision where o rounds to 1; then o' = 1 - exp(ln(1 - o) / n).
    let ln_transparency = -(x.max(0.0) + libm::log1p(libm::exp(-x.abs())));
    let shared = -libm::expm1(ln_transparency / f64::from(copies));
    let shared = shared.max(f64::from(min_opacity)).min(MAX_OPACITY);
    let change = libm::log(opacity(opacity_logit) / overlap_integral(copies, shared));
    CopyParameters {
        opacity_logit: (libm::log(shared) - libm::log1p(-shared)) as f32,
        log_scale_change: change as f32,
    }
}

/// `D(n, o)`: the integral along a line through the centre of `n` coincident Gaussians of opacity `o` and unit scale,
/// relative to that of one Gaussian of opacity 1. See the module documentation.
#[must_use]
pub fn overlap_integral(n: u32, o: f64) -> f64 {
    let alpha: [f64; NODES] = std::array::from_fn(|k| {
        let x = k as f64 * STEP;
        o * libm::exp(-x * x)
    });
    // 1 - (1 - a)^n = a (1 + (1 - a) + … + (1 - a)^(n-1)): avoids cancellation.
    let mut series = [0.0f64; NODES];
    for _ in 0..n {
        for (sum, a) in series.iter_mut().zip(&alpha) {
            *sum = *sum * (1.0 - a) + 1.0;
        }
    }
    let right: f64 = series.iter().zip(&alpha).skip(1).map(|(sum, a)| sum * a).sum();
    let two_over_sqrt_pi = std::f64::consts::FRAC_2_SQRT_PI;
    two_over_sqrt_pi * STEP * (0.5 * series[0] * alpha[0] + right)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_splat_without_weight_owns_nothing_not_even_a_boundary() {
        // Weights 0, 2, 0, 1, 0.
        let sums = [0.0, 2.0, 2.0, 3.0, 3.0];
        for (target, expected) in [(0.0, 1), (1.9, 1), (2.0, 3), (2.9, 3)] {
            assert_eq!(sampled_index(&sums, target), expected);
        }
    }
}
