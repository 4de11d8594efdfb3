//! A fused pass that decides for each splat whether it is cloned, split, pruned or kept.
//!
//! All values are compared in the space in which they are stored, so no exponential, logarithm or division is needed
//! and every device computes the same bits:
//!
//! ```text
//! grows  = Σ statistic > threshold · steps        (mean statistic > threshold)
//! splits = grows and any log scale > ln(clone limit)
//! prunes = logit < logit(prune opacity)
//!          or any log scale (less ln(shrink) where it splits) > ln(prune scale)
//!          or screen radius > prune radius
//! ```
//!
//! Pruning applies to the result of growth, as in a rule that first grows and then prunes: the halves of a split are
//! smaller than the original splat. A pruned splat does not grow. Comparisons with NaN are false, so a NaN never
//! clones, splits or prunes; [`super::apply`] removes such splats separately.
//!
//! The vector pass processes 16 splats at a time. Scales are stored as triples; instead of deinterleaving them, all 48
//! values are compared in place, and the 48 results are folded to 16 bits in an integer register.

use fearless_simd::{f32x16, mask8x16, prelude::*, u8x16, u32x16};
use gausset_compute::simd::{LANES, Row, load, splat};
use gausset_compute::{Exec, at_level};
use gausset_core::engine::ClassicRule;

use crate::values::{ln, logit};

/// The splat is unchanged.
pub const KEEP: u8 = 0;
/// The splat is kept, and a copy is added.
pub const CLONE: u8 = 1;
/// The splat is replaced by two smaller ones.
pub const SPLIT: u8 = 2;
/// The splat is removed.
pub const PRUNE: u8 = 4;

/// Splats per task: 400 KB of input. A constant, so that the partition does not depend on the number of threads.
const CHUNK: usize = 16_384;

/// Input of the decisions: one value per splat in each array.
#[derive(Clone, Copy, Debug)]
pub struct DecisionInputs<'a> {
    /// Sum of the statistic over the steps in which the splat was visible.
    pub gradient_sum: &'a [f32],
    /// Number of steps in which the splat was visible.
    pub visible_steps: &'a [u32],
    /// Largest screen radius, px. Not read when [`Thresholds::prune_radius`] is infinite.
    pub max_radius: &'a [f32],
    /// Natural logs of the scales.
    pub log_scales: &'a [[f32; 3]],
    /// Logits of the opacities.
    pub opacity_logits: &'a [f32],
}

/// The thresholds of a [`ClassicRule`] in the spaces in which values are stored.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Thresholds {
    /// Splats with a larger mean statistic grow.
    pub gradient: f32,
    /// Growing splats with a larger log scale are split, others cloned.
    pub clone_log_scale: f32,
    /// Amount by which a split reduces the log scales.
    pub log_shrink: f32,
    /// Splats with a smaller logit are pruned; `-∞` = none.
    pub prune_logit: f32,
    /// Splats with a larger log scale are pruned; `+∞` = none.
    pub prune_log_scale: f32,
    /// Splats with a larger screen radius (px) are pruned; `+∞` = none.
    pub prune_radius: f32,
}

/// Number of splats per decision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DecisionCounts {
    /// Splats that are copied ([`CLONE`]).
    pub clone: u64,
    /// Splats that are replaced by two ([`SPLIT`]).
    pub split: u64,
    /// Splats that are removed ([`PRUNE`]).
    pub prune: u64,
}

impl Thresholds {
    /// Converts the thresholds of a rule to log space: computed in f64, rounded to f32 once.
    #[must_use]
    pub fn from_rule(rule: &ClassicRule) -> Self {
        Self {
            gradient: rule.gradient_threshold,
            clone_log_scale: ln(rule.clone_scale_limit),
            log_shrink: ln(rule.split_shrink),
            prune_logit: logit(rule.prune_opacity),
            prune_log_scale: rule.prune_scale.map_or(f32::INFINITY, ln),
            prune_radius: rule.prune_screen.unwrap_or(f32::INFINITY),
        }
    }
}

impl DecisionInputs<'_> {
    fn len(&self) -> usize {
        self.opacity_logits.len()
    }

    /// The decision for one splat: the scalar definition of the vector pass.
    #[must_use]
    #[inline]
    pub fn decide(&self, splat: usize, t: &Thresholds) -> u8 {
        let log_scales = self.log_scales[splat];
        let grows = self.gradient_sum[splat] > t.gradient * self.visible_steps[splat] as f32;
        let splits = grows && log_scales.iter().any(|&s| s > t.clone_log_scale);
        let shrink = if splits { t.log_shrink } else { 0.0 };
        let prunes = self.opacity_logits[splat] < t.prune_logit
            || log_scales.iter().any(|&s| s - shrink > t.prune_log_scale)
            || self.prunes_by_radius(splat, t);
        match (prunes, splits, grows) {
            (true, ..) => PRUNE,
            (_, true, _) => SPLIT,
            (_, _, true) => CLONE,
            _ => KEEP,
        }
    }

    #[inline]
    fn prunes_by_radius(&self, splat: usize, t: &Thresholds) -> bool {
        t.prune_radius < f32::INFINITY && self.max_radius[splat] > t.prune_radius
    }
}

/// Decides for all splats and returns the counts; `decisions` receives [`KEEP`], [`CLONE`], [`SPLIT`] or [`PRUNE`] for
/// each.
///
/// # Panics
/// If the arrays have different lengths (`max_radius` may be empty if it is not read).
pub fn decide(
    exec: Exec<'_>,
    inputs: &DecisionInputs<'_>,
    t: &Thresholds,
    decisions: &mut [u8],
) -> DecisionCounts {
    let n = inputs.len();
    let by_radius = t.prune_radius < f32::INFINITY;
    assert!(
        [inputs.gradient_sum.len(), inputs.visible_steps.len(), inputs.log_scales.len(), decisions.len()]
            .iter()
            .all(|&len| len == n)
            && (inputs.max_radius.len() == n || !by_radius),
        "the arrays of a density decision have different lengths"
    );
    let mut parts: Vec<(&mut [u8], DecisionCounts)> =
        decisions.chunks_mut(CHUNK).map(|chunk| (chunk, DecisionCounts::default())).collect();
    exec.pool.run_parts(&mut parts, |chunk, (decisions, counts)| {
        let range = chunk * CHUNK..chunk * CHUNK + decisions.len();
        let inputs = DecisionInputs {
            gradient_sum: &inputs.gradient_sum[range.clone()],
            visible_steps: &inputs.visible_steps[range.clone()],
            max_radius: if by_radius { &inputs.max_radius[range.clone()] } else { &[] },
            log_scales: &inputs.log_scales[range.clone()],
            opacity_logits: &inputs.opacity_logits[range],
        };
        *counts = if by_radius {
            at_level!(exec.level, simd => decide_chunk::<_, true>(simd, &inputs, t, decisions))
        } else {
            at_level!(exec.level, simd => decide_chunk::<_, false>(simd, &inputs, t, decisions))
        };
    });
    parts.iter().fold(DecisionCounts::default(), |sum, (_, c)| DecisionCounts {
        clone: sum.clone + c.clone,
        split: sum.split + c.split,
        prune: sum.prune + c.prune,
    })
}

/// Full blocks of 16 in vectors, the remainder by [`DecisionInputs::decide`].
#[inline(always)]
fn decide_chunk<S: Simd, const BY_RADIUS: bool>(
    simd: S,
    inputs: &DecisionInputs<'_>,
    t: &Thresholds,
    decisions: &mut [u8],
) -> DecisionCounts {
    let mut counts = DecisionCounts::default();
    let (blocks, rest) = decisions.as_chunks_mut::<LANES>();
    let sums = inputs.gradient_sum.as_chunks::<LANES>().0;
    let steps = inputs.visible_steps.as_chunks::<LANES>().0;
    let radii = inputs.max_radius.as_chunks::<LANES>().0;
    let triples = inputs.log_scales.as_flattened().as_chunks::<{ 3 * LANES }>().0;
    let logits = inputs.opacity_logits.as_chunks::<LANES>().0;
    for (b, block) in blocks.iter_mut().enumerate() {
        let steps: f32x16<S> = u32x16::load_array_ref(simd, &steps[b]).to_float();
        let grows = load(simd, &sums[b]).simd_gt(splat(simd, t.gradient) * steps).to_bitmask();
        let splits = grows & any_axis_above(simd, &triples[b], 0.0, t.clone_log_scale);
        let mut prunes = load(simd, &logits[b]).simd_lt(splat(simd, t.prune_logit)).to_bitmask()
            | !splits & any_axis_above(simd, &triples[b], 0.0, t.prune_log_scale)
            | splits & any_axis_above(simd, &triples[b], t.log_shrink, t.prune_log_scale);
        if BY_RADIUS {
            prunes |= load(simd, &radii[b]).simd_gt(splat(simd, t.prune_radius)).to_bitmask();
        }
        let (clones, splits) = (grows & !splits & !prunes, splits & !prunes);
        counts.clone += u64::from(clones.count_ones());
        counts.split += u64::from(splits.count_ones());
        counts.prune += u64::from(prunes.count_ones());
        let bytes = select_bytes(simd, clones, CLONE)
            | select_bytes(simd, splits, SPLIT)
            | select_bytes(simd, prunes, PRUNE);
        bytes.store_slice(block);
    }
    let done = inputs.len() - rest.len();
    for (i, decision) in rest.iter_mut().enumerate() {
        *decision = inputs.decide(done + i, t);
        counts.clone += u64::from(*decision == CLONE);
        counts.split += u64::from(*decision == SPLIT);
        counts.prune += u64::from(*decision == PRUNE);
    }
    counts
}

/// Sets bit `i` if a value of triple `i`, minus `shrink`, is above `limit`.
#[inline(always)]
fn any_axis_above<S: Simd>(simd: S, triples: &[f32; 3 * LANES], shrink: f32, limit: f32) -> u64 {
    let (rows, _) = triples.as_chunks::<LANES>();
    let above = |row: &Row| (load(simd, row) - splat(simd, shrink)).simd_gt(splat(simd, limit)).to_bitmask();
    let bits = above(&rows[0]) | above(&rows[1]) << 16 | above(&rows[2]) << 32;
    every_third_bit(bits | bits >> 1 | bits >> 2)
}

/// Gathers bits 0, 3, 6, …, 45 into bits 0 to 15.
#[inline(always)]
const fn every_third_bit(bits: u64) -> u64 {
    let bits = bits & 0x0000_2492_4924_9249;
    let bits = (bits | bits >> 2) & 0x0000_0C30_C30C_30C3;
    let bits = (bits | bits >> 4) & 0x0000_00F0_0F00_F00F;
    let bits = (bits | bits >> 8) & 0x0000_0000_FF00_00FF;
    (bits | bits >> 16) & 0xFFFF
}

/// `value` in each byte whose bit is set, else 0.
#[inline(always)]
fn select_bytes<S: Simd>(simd: S, bits: u64, value: u8) -> u8x16<S> {
    mask8x16::from_bitmask(simd, bits).select(u8x16::splat(simd, value), u8x16::splat(simd, 0))
}
