//! Stage `lists`: selects the Gaussians that contribute to a leaf.
//!
//! Two rules. [`ListRule::Radius`] keeps a pair if `q` can be below a limit (a radius in standard deviations); it is used
//! in training. [`ListRule::Bound`] guarantees that the Gaussians omitted from a leaf add up to less than `E` at each of
//! its points. A Gaussian contributes at most `b = |w| 2^-q` and is omitted if `b` is below a threshold; the omitted
//! bounds are summed, and if the sum exceeds `E`, the threshold is lowered and the leaf is processed again. This is
//! done first per super-block (with a tenth of `E`), where groups of 128 Gaussians can be omitted as a whole, then per
//! leaf.
//!
//! The initial threshold of a leaf is that of the previous leaf; the first leaf of a super-block starts from `E` alone,
//! so lists do not depend on the thread.

use fearless_simd::{Simd, SimdBase, f32x16, prelude::*};
use gausset_compute::simd::{exp2, fma, load, splat};

use crate::accel::index::{
    Bounds16, GROUP, GaussianIndex, HI, INVERSE, LANES, LO, LOG_WEIGHT, PADDING, RADIAL,
};
use crate::accel::leaves::Box3;

/// Condition under which a pair is kept.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum ListRule {
    /// `q = k² |v|²` can be below this.
    Radius(f32),
    /// Everything, except Gaussians that add up to at most this at any point.
    Bound(f32),
}

/// Fraction of the error bound that a super-block may omit.
const SUPER_FRACTION: f32 = 0.1;
/// First threshold, as a fraction of the bound.
const FIRST_THRESHOLD: f32 = 1.0 / 64.0;
/// The threshold of a super-block, as a fraction of that of its leaves.
const SUPER_THRESHOLD: f32 = 1.0 / 64.0;
/// Relative rounding error of a sum of upper bounds with few terms is below this.
const ROUNDING: f32 = 1e-3;

/// Lists of a super-block. The memory is reused between calls.
#[derive(Clone, Debug, Default)]
pub(crate) struct LeafLists {
    /// Positions in the index of the Gaussians of the super-block, ascending.
    pub(crate) candidates: Vec<u32>,
    /// Their bounds.
    bounds: Vec<Bounds16>,
    /// Positions in `candidates` of the Gaussians of the leaf.
    pub(crate) kept: Vec<u32>,
    threshold: f32,
    omitted_of_super: f32,
    /// Number of terms that were added for the super-block.
    terms_of_super: usize,
    /// Upper bound of the contributions omitted from the leaf's list, at any of its points.
    pub(crate) omitted: f32,
}

impl LeafLists {
    /// Selects the candidates of a super-block.
    #[inline(always)]
    pub(crate) fn start<S: Simd>(&mut self, simd: S, index: &GaussianIndex, bounds: &Box3, rule: ListRule) {
        let mut threshold = match rule {
            ListRule::Radius(_) => 0.0,
            ListRule::Bound(error) => error * FIRST_THRESHOLD * SUPER_THRESHOLD,
        };
        loop {
            self.omitted_of_super = self.gather(simd, index, bounds, rule, threshold);
            match rule {
                ListRule::Bound(error)
                    if self.omitted_of_super > error * SUPER_FRACTION && threshold > 0.0 =>
                {
                    // Below the smallest normal number, nothing is omitted.
                    threshold = if threshold > 1e-35 { threshold * 0.25 } else { 0.0 };
                }
                _ => break,
            }
        }
        self.threshold = match rule {
            ListRule::Radius(_) => 0.0,
            ListRule::Bound(error) => error * FIRST_THRESHOLD,
        };
        self.pack();
    }

    #[inline(always)]
    fn gather<S: Simd>(
        &mut self,
        simd: S,
        index: &GaussianIndex,
        bounds: &Box3,
        rule: ListRule,
        threshold: f32,
    ) -> f32 {
        self.candidates.clear();
        self.bounds.clear();
        self.terms_of_super = 0;
        let log_threshold = libm::log2f(threshold);
        let mut sum = 0.0f32;
        for (g, group) in index.groups.iter().enumerate() {
            let q = group.q(bounds);
            let is_far = match rule {
                ListRule::Radius(limit) => q > limit,
                ListRule::Bound(_) => group.log_weight - q < log_threshold,
            };
            if is_far {
                if matches!(rule, ListRule::Bound(_)) {
                    // Never 0, as in the vector code. Weights beyond f32 may have an infinite sum; the threshold then
                    // falls until they are in the list.
                    sum += libm::exp2f(group.log_sum - q.min(f32::MAX)).max(f32::MIN_POSITIVE);
                    self.terms_of_super += 1;
                }
                continue;
            }
            let first = g * (GROUP / LANES);
            for (b, rows) in index.bounds[first..first + GROUP / LANES].iter().enumerate() {
                let (bits, dropped) = test(simd, rows, bounds, rule, log_threshold);
                sum += dropped;
                self.terms_of_super += 1;
                let slot = ((first + b) * LANES) as u32;
                each_bit(
                    bits,
                    #[inline(always)]
                    |lane| {
                        self.candidates.push(slot + lane as u32);
                    },
                );
            }
        }
        // Padding of the last group has q = 0 under the radius rule.
        let len = index.order.len() as u32;
        while self.candidates.last().is_some_and(|&slot| slot >= len) {
            self.candidates.pop();
        }
        for chunk in self.candidates.chunks(LANES) {
            let mut rows = PADDING;
            for (lane, &slot) in chunk.iter().enumerate() {
                let from = &index.bounds[slot as usize / LANES];
                for (row, from) in rows.iter_mut().zip(from) {
                    row[lane] = from[slot as usize % LANES];
                }
            }
            self.bounds.push(rows);
        }
        sum
    }

    fn pack(&mut self) {
        self.kept.reserve(self.candidates.len());
    }

    /// Selects the Gaussians of a leaf of the super-block.
    #[inline(always)]
    pub(crate) fn leaf<S: Simd>(&mut self, simd: S, bounds: &Box3, rule: ListRule) {
        loop {
            let log_threshold = libm::log2f(self.threshold);
            let mut sum = splat(simd, 0.0);
            self.kept.clear();
            for (b, rows) in self.bounds.iter().enumerate() {
                let (mask, dropped) = test_lanes(simd, rows, bounds, rule, log_threshold);
                sum += dropped;
                let kept = &mut self.kept;
                each_bit(
                    mask,
                    #[inline(always)]
                    |lane| kept.push((b * LANES) as u32 + lane as u32),
                );
            }
            let len = self.candidates.len() as u32;
            while self.kept.last().is_some_and(|&position| position >= len) {
                self.kept.pop();
            }
            let ListRule::Bound(error) = rule else { return };
            let sum = gausset_compute::simd::sum_lanes(sum);
            let terms = LANES + self.bounds.len() + self.terms_of_super;
            // An addition has a relative error of at most half of EPSILON.
            let certain = 1.0 - ROUNDING.max(terms as f32 * f32::EPSILON).min(0.5);
            let budget = error * certain - self.omitted_of_super;
            // Rounding may make the sums too small. When the budget is used up, the result is the requested error.
            self.omitted = ((sum + self.omitted_of_super) / certain).min(error);
            if sum > budget && self.threshold > 0.0 {
                let lower = self.threshold * (0.8 * budget / sum).clamp(1e-3, 0.5);
                self.threshold = if lower > 1e-35 { lower } else { 0.0 };
                continue;
            }
            // The next leaf is similar, so its threshold starts slightly below the budget.
            self.threshold *= (0.8 * budget / sum.max(1e-30)).clamp(0.5, 1.5);
            self.threshold = self.threshold.min(error);
            return;
        }
    }
}

/// Calls a function with the index of each set bit.
#[inline(always)]
fn each_bit(mut bits: u64, mut f: impl FnMut(usize)) {
    while bits != 0 {
        f(bits.trailing_zeros() as usize);
        bits &= bits - 1;
    }
}

/// As [`test_lanes`], with the sum of the bounds of omitted Gaussians.
#[inline(always)]
fn test<S: Simd>(simd: S, rows: &Bounds16, bounds: &Box3, rule: ListRule, log_threshold: f32) -> (u64, f32) {
    let (bits, dropped) = test_lanes(simd, rows, bounds, rule, log_threshold);
    let sum =
        if matches!(rule, ListRule::Bound(_)) { gausset_compute::simd::sum_lanes(dropped) } else { 0.0 };
    (bits, sum)
}

/// Tests 16 Gaussians against a box: which of them are kept, and upper bounds of the contributions of the others.
#[inline(always)]
fn test_lanes<S: Simd>(
    simd: S,
    rows: &Bounds16,
    bounds: &Box3,
    rule: ListRule,
    log_threshold: f32,
) -> (u64, f32x16<S>) {
    let zero = splat(simd, 0.0);
    let mut most = zero;
    let mut square = zero;
    for k in 0..3 {
        let (lo, hi) = (load(simd, &rows[LO + k]), load(simd, &rows[HI + k]));
        let gap = (splat(simd, bounds.lo[k]) - hi).max(lo - splat(simd, bounds.hi[k])).max(zero);
        let scaled = gap * load(simd, &rows[INVERSE + k]);
        most = most.max(scaled * scaled);
        square = fma(gap, gap, square);
    }
    let radial = load(simd, &rows[RADIAL]);
    let q = most.max(square * radial * radial);
    match rule {
        ListRule::Radius(limit) => (q.simd_le(splat(simd, limit)).to_bitmask(), zero),
        ListRule::Bound(_) => {
            let log_bound = load(simd, &rows[LOG_WEIGHT]) - q;
            let keep = log_bound.simd_ge(splat(simd, log_threshold));
            // exp2 clamps at 2^-126; a Gaussian without weight contributes nothing at all.
            let bound = exp2(simd, log_bound);
            let none = load(simd, &rows[LOG_WEIGHT]).simd_eq(splat(simd, f32::NEG_INFINITY));
            let dropped = none.select(zero, keep.select(zero, bound));
            (keep.to_bitmask() & !none.to_bitmask(), dropped)
        }
    }
}
