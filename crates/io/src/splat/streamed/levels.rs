//! Parts of space and levels of detail.
//!
//! The scene is cut across the longest side of its box until a part is small enough ([`Level::finest`]); stray splats far
//! outside get parts of their own. Within each part, splats are ordered so that neighbours in the order are close in
//! space. The next level has half as many splats in each part ([`Level::halved`]): in a few rounds, pairs of neighbours
//! are merged, the cheapest first, so that small splats of one colour are merged several times and large ones rarely.
//!
//! A pair becomes the Gaussian of its first two moments, weighted by optical depth times area:
//!
//! ```text
//! A = √((s1² s2² + s2² s3² + s3² s1²) / 3)     τ = -ln(1 - o)     w = τ A / Σ τ A     o' = 1 - exp(-Σ τ A / A')
//! μ' = Σ w μ     Σ' = Σ w (Σ + (μ - μ')(μ - μ')ᵀ)     SH' = Σ w SH
//! cost = |Σ o A - o' A'| + o' (A' - max A) / 4 + min(o A) |Δ SH0|₁ / 2
//! ```
//! Compared with other weights and costs: research/experiments.md.

use std::ops::Range;

use gausset_core::linalg::eigen_symmetric;
use gausset_core::matrix::{Mat3, mul, quaternion_from_rotation, rotation_from_quaternion, transpose};
use gausset_core::splats::opacity;
use gausset_core::{Splats, matrix};

use super::index::{Bound, Node};
use crate::splat::order::{bounds, cut, order_in_groups};
use crate::splat::values;

/// Largest number of splats of a part.
const MAX_PART: usize = 512 << 10;
/// A longer part is cut as well, scene units: for scenes in metres, as far as a viewer needs one level.
const MAX_SIDE: f32 = 16.0;
/// Number of splats below which a part is not cut for its length.
const MIN_PART: usize = 8 << 10;
/// Parts have a multiple of this number of splats, but for one.
const CUT_STEP: usize = 64;
/// Cuts above each other that may be anywhere; after them, parts are halved. Readers of JSON stop at 128 nested values, and
/// a cut is two of them.
const FREE_CUTS: u32 = 32;
/// Number of splats that [`order_in_groups`] leaves in any order.
const GROUP: usize = 2;
/// Largest opacity that counts, as its optical depth would be infinite.
const MAX_OPACITY: f64 = 0.9999;
/// Smallest variance of a merged splat, as a fraction of its largest.
const MIN_VARIANCE: f64 = 1e-12;
/// Splats after one in the order with which it may be merged.
const WINDOW: usize = 8;
/// Rounds in which the number of splats is halved. In each, a splat is merged once.
const ROUNDS: usize = 4;
/// Weights of a larger area and of another colour in the cost of a merge.
const SPREAD_COST: f64 = 0.25;
const COLOUR_COST: f64 = 0.5;

/// The splats of a level, part after part.
pub(super) struct Level {
    pub(super) splats: Splats,
    /// The splats of each part.
    pub(super) parts: Vec<Range<usize>>,
}

/// A node of the tree of parts.
pub(super) enum Tree {
    Halves(Box<[Tree; 2]>),
    /// Index of a part.
    Part(usize),
}

impl Level {
    /// Divides splats into parts. Consecutive splats of a part are close to each other.
    pub(super) fn finest(splats: &Splats) -> (Self, Tree) {
        let means = &splats.means;
        let mut order: Vec<u32> = (0..splats.len() as u32).collect();
        let mut parts = Vec::new();
        let mut keys = vec![0; order.len()];
        let tree = divide(means, &mut order, &mut keys, 0, FREE_CUTS, &mut parts);
        for part in &parts {
            let part = &mut order[part.clone()];
            let own: Vec<[f32; 3]> = part.iter().map(|&i| means[i as usize]).collect();
            let sorted = order_in_groups(&own, GROUP).into_iter().map(|k| part[k as usize]);
            part.copy_from_slice(&sorted.collect::<Vec<u32>>());
        }
        let order: Vec<usize> = order.into_iter().map(|i| i as usize).collect();
        (Self { splats: splats.select(&order), parts }, tree)
    }

    /// Whether a part is longer than parts of enough splats are.
    pub(super) fn is_stray(&self, part: usize) -> bool {
        let means = &self.splats.means[self.parts[part].clone()];
        let all: Vec<u32> = (0..means.len() as u32).collect();
        longest_side(means, &all) > MAX_SIDE
    }

    /// The next level, with half as many splats.
    pub(super) fn halved(&self) -> Self {
        let mut splats = Splats::with_capacity(self.splats.sh_degree, self.splats.len().div_ceil(2));
        let mut parts = Vec::with_capacity(self.parts.len());
        for part in &self.parts {
            let first = splats.len();
            halve(&self.splats, part.clone(), &mut splats);
            parts.push(first..splats.len());
        }
        Self { splats, parts }
    }

    /// Union of the boxes of a part's splats.
    pub(super) fn bound(&self, part: usize) -> Bound {
        self.parts[part].clone().map(|i| bound(&self.splats, i)).fold(Bound::EMPTY, Bound::union)
    }
}

impl Tree {
    /// The tree with the leaf of each part; boxes of halves enclose those of their leaves.
    pub(super) fn into_node(self, leaves: &mut [Node]) -> Node {
        match self {
            Self::Part(part) => std::mem::take(&mut leaves[part]),
            Self::Halves(halves) => {
                let children = halves.map(|half| half.into_node(leaves));
                let bound = Bound::union(children[0].bound, children[1].bound);
                Node { bound, children: children.into(), ..Node::default() }
            }
        }
    }
}

/// Orders points by parts, which are added to `parts`; `first` is the place of the first point in the whole order.
fn divide(
    means: &[[f32; 3]],
    order: &mut [u32],
    keys: &mut [u64],
    first: usize,
    free_cuts: u32,
    parts: &mut Vec<Range<usize>>,
) -> Tree {
    let is_small = order.len() <= MAX_PART;
    if is_small && (order.len() <= MIN_PART || longest_side(means, order) <= MAX_SIDE) {
        parts.push(first..first + order.len());
        return Tree::Part(parts.len() - 1);
    }
    let at = cut(means, order, keys, CUT_STEP, free_cuts == 0);
    let (low, high) = order.split_at_mut(at);
    let free_cuts = free_cuts.saturating_sub(1);
    let low = divide(means, low, keys, first, free_cuts, parts);
    Tree::Halves(Box::new([low, divide(means, high, keys, first + at, free_cuts, parts)]))
}

fn longest_side(means: &[[f32; 3]], items: &[u32]) -> f32 {
    let [low, high] = bounds(means, items);
    [0, 1, 2].map(|axis| high[axis] - low[axis]).into_iter().fold(0.0, f32::max)
}

/// A splat by its moments.
#[derive(Clone)]
struct Moments {
    mean: [f64; 3],
    covariance: Mat3,
    /// Root mean square of its cross sections along three axes, up to a constant.
    area: f64,
    opacity: f64,
    /// The splat whose place in the order it has.
    first: usize,
    /// SH, if it was merged; else those of the splat.
    merged_sh: Option<Vec<f32>>,
}

impl Moments {
    fn of(splats: &Splats, i: usize) -> Self {
        let covariance = covariance(splats, i);
        Self {
            mean: splats.means[i].map(f64::from),
            covariance,
            area: area(&covariance),
            opacity: opacity(splats.opacity_logits[i]).min(MAX_OPACITY),
            first: i,
            merged_sh: None,
        }
    }

    fn sh<'a>(&'a self, from: &'a Splats) -> &'a [f32] {
        self.merged_sh.as_deref().unwrap_or_else(|| from.sh_coefficients(self.first))
    }

    /// Optical depth times area.
    fn weight(&self) -> f64 {
        -libm::log1p(-self.opacity) * self.area
    }

    /// Mean, covariance, area, opacity and weights of a pair.
    fn union(&self, other: &Self) -> (Self, [f64; 2]) {
        let shown = [self.weight(), other.weight()];
        let sum = shown[0] + shown[1];
        // Needles and points have no area.
        let weights = if sum > 0.0 { shown.map(|v| v / sum) } else { [0.5; 2] };
        let mean = [0, 1, 2].map(|axis| weights[0] * self.mean[axis] + weights[1] * other.mean[axis]);
        let mut covariance = [[0.0; 3]; 3];
        for (part, weight) in [self, other].into_iter().zip(weights) {
            let offset = matrix::sub(part.mean, mean);
            for (row, (a, own)) in covariance.iter_mut().zip(offset.into_iter().zip(part.covariance)) {
                for (sum, (b, own)) in row.iter_mut().zip(offset.into_iter().zip(own)) {
                    *sum += weight * (own + a * b);
                }
            }
        }
        let area = area(&covariance);
        let opacity = if area > 0.0 { (-libm::expm1(-sum / area)).min(MAX_OPACITY) } else { self.opacity };
        (Self { mean, covariance, area, opacity, first: self.first, merged_sh: None }, weights)
    }

    /// What changes if two splats are merged, as an area.
    fn merge_cost(&self, other: &Self, from: &Splats) -> f64 {
        let (union, _) = self.union(other);
        let shown = [self.opacity * self.area, other.opacity * other.area];
        let lost = (shown[0] + shown[1] - union.opacity * union.area).abs();
        let spread = union.opacity * (union.area - self.area.max(other.area));
        let colours = self.sh(from).iter().zip(other.sh(from)).take(3);
        let colour: f64 = colours.map(|(a, b)| f64::from((a - b).abs())).sum();
        lost + SPREAD_COST * spread + COLOUR_COST * shown[0].min(shown[1]) * colour
    }

    fn merge(&self, other: &Self, from: &Splats) -> Self {
        let (union, [a, b]) = self.union(other);
        let pairs = self.sh(from).iter().zip(other.sh(from));
        let sh = pairs.map(|(&x, &y)| (a * f64::from(x) + b * f64::from(y)) as f32).collect();
        Self { merged_sh: Some(sh), ..union }
    }

    /// Adds it to splats; one that was not merged keeps its bits.
    fn push(&self, from: &Splats, to: &mut Splats) {
        let Some(sh) = &self.merged_sh else {
            let i = self.first;
            let sh = from.sh_coefficients(i);
            return to.push(from.means[i], from.log_scales[i], from.quats[i], from.opacity_logits[i], sh);
        };
        let (mut variances, mut axes) = eigen_symmetric(self.covariance);
        // The thin axis last, as flat splats have it.
        variances.reverse();
        axes.reverse();
        let least = (MIN_VARIANCE * variances[0]).max(f64::MIN_POSITIVE);
        let mut rotation = transpose(&axes);
        if matrix::determinant(&rotation) < 0.0 {
            rotation.iter_mut().for_each(|row| row[0] = -row[0]);
        }
        to.push(
            self.mean.map(|v| v as f32),
            variances.map(|variance| (0.5 * libm::log(variance.max(least))) as f32),
            quaternion_from_rotation(&rotation).map(|v| v as f32),
            values::logit(self.opacity),
            sh,
        );
    }
}

/// Adds half as many splats as a part has, in their order.
fn halve(from: &Splats, part: Range<usize>, to: &mut Splats) {
    let target = part.len().div_ceil(2);
    let mut splats: Vec<Moments> = part.map(|i| Moments::of(from, i)).collect();
    let mut rounds = ROUNDS;
    while splats.len() > target {
        let wanted = (splats.len() - target).div_ceil(rounds);
        splats = merge_cheapest(&splats, wanted, from);
        rounds = (rounds - 1).max(1);
    }
    splats.iter().for_each(|splat| splat.push(from, to));
}

/// Merges the pairs of the lowest costs, at most `most`; a splat is in one pair at most.
fn merge_cheapest(splats: &[Moments], most: usize, from: &Splats) -> Vec<Moments> {
    // Cost and place of each possible pair in one number; costs are positive, so their bits are in order.
    let mut pairs: Vec<u64> = Vec::with_capacity(WINDOW * splats.len());
    for (i, splat) in splats.iter().enumerate() {
        for (k, other) in splats[i + 1..].iter().take(WINDOW).enumerate() {
            let cost = match splat.merge_cost(other, from) as f32 {
                cost if cost.is_nan() => f32::INFINITY,
                cost if cost > 0.0 => cost,
                _ => 0.0,
            };
            pairs.push(u64::from(cost.to_bits()) << 32 | (WINDOW * i + k) as u64);
        }
    }
    pairs.sort_unstable();
    let mut partner: Vec<Option<usize>> = vec![None; splats.len()];
    let mut is_first = vec![false; splats.len()];
    let mut merged = 0;
    for pair in pairs {
        if merged == most {
            break;
        }
        let place = (pair & u64::from(u32::MAX)) as usize;
        let (i, j) = (place / WINDOW, place / WINDOW + 1 + place % WINDOW);
        if partner[i].is_none() && partner[j].is_none() {
            (partner[i], partner[j]) = (Some(j), Some(i));
            is_first[i] = true;
            merged += 1;
        }
    }
    let kept = splats.iter().enumerate().filter_map(|(i, splat)| match partner[i] {
        None => Some(splat.clone()),
        Some(j) => is_first[i].then(|| splat.merge(&splats[j], from)),
    });
    kept.collect()
}

/// Root mean square of the cross sections of a Gaussian along its axes, up to a constant: from the trace of the cofactors.
fn area(covariance: &Mat3) -> f64 {
    let trace = covariance[0][0] + covariance[1][1] + covariance[2][2];
    let squared: f64 = covariance.iter().flatten().map(|v| v * v).sum();
    libm::sqrt(((trace * trace - squared) / 6.0).max(0.0))
}

fn covariance(splats: &Splats, i: usize) -> Mat3 {
    let rotation = rotation_from_quaternion(values::unit_quaternion(splats.quats[i]));
    let scales = splats.log_scales[i].map(|log| libm::exp(f64::from(log)));
    let scaled = rotation.map(|row| [row[0] * scales[0], row[1] * scales[1], row[2] * scales[2]]);
    mul(&scaled, &transpose(&scaled))
}

/// The box of a splat, one standard deviation to each side.
fn bound(splats: &Splats, i: usize) -> Bound {
    let (mean, covariance) = (splats.means[i], covariance(splats, i));
    let side = |axis: usize| libm::sqrt(covariance[axis][axis]) as f32;
    Bound {
        min: [0, 1, 2].map(|axis| mean[axis] - side(axis)),
        max: [0, 1, 2].map(|axis| mean[axis] + side(axis)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two balls of these radii and opacities at `x = ±1`, and what they are merged to.
    fn merged(radii: [f64; 2], opacities: [f64; 2]) -> ([f32; 3], [f64; 3], f64) {
        let mut pair = Splats::with_capacity(0, 2);
        for (k, x) in [-1.0, 1.0].into_iter().enumerate() {
            let log = radii[k].ln() as f32;
            pair.push([x, 0.0, 2.0], [log; 3], [1.0, 0.0, 0.0, 0.0], values::logit(opacities[k]), &[x; 3]);
        }
        let mut one = Splats::with_capacity(0, 1);
        halve(&pair, 0..2, &mut one);
        assert_eq!(one.len(), 1);
        // The long axis is along x.
        let axes = rotation_from_quaternion(values::unit_quaternion(one.quats[0]));
        let is_long = one.log_scales[0][0] > one.log_scales[0][1] + 1e-3;
        assert!(!is_long || axes[0][0].abs() > 0.999, "{axes:?}");
        (one.means[0], one.log_scales[0].map(|log| f64::from(log).exp()), opacity(one.opacity_logits[0]))
    }

    #[test]
    fn a_pair_keeps_its_moments_and_what_it_shows() {
        let (mean, lengths, opacity) = merged([0.5, 0.5], [0.2, 0.2]);
        assert_eq!(mean, [0.0, 0.0, 2.0]);
        // The variance along x is that of each ball and of their centres: 0.25 + 1.
        assert!((lengths[2] - 0.5).abs() < 1e-6 && (lengths[0] - 1.25f64.sqrt()).abs() < 1e-6, "{lengths:?}");
        let area = ((0.25f64 * 0.25 + 2.0 * 0.25 * 1.25) / 3.0).sqrt();
        let expected = 1.0 - 0.8f64.powf(2.0 * 0.25 / area);
        assert!((opacity - expected).abs() < 1e-6, "{opacity}, {expected}");

        // A ball of twice the radius has four times the area.
        let (mean, ..) = merged([0.5, 1.0], [0.3, 0.3]);
        assert!((mean[0] - 0.6).abs() < 1e-6, "{mean:?}");
        // Two opaque balls on each other are one.
        let (_, lengths, opacity) = merged([50.0, 50.0], [0.95, 0.95]);
        assert!((lengths[2] - 50.0).abs() < 1e-3 && opacity > 0.95, "{lengths:?}, {opacity}");
    }

    #[test]
    fn large_splats_stay_and_small_ones_of_one_colour_are_merged() {
        let mut row = Splats::with_capacity(0, 8);
        for i in 0..8 {
            // Six small ones side by side, and two large ones of other colours.
            let (size, colour) = if i < 6 { (0.1f32, 0.5) } else { (2.0, i as f32) };
            row.push([0.1 * i as f32, 0.0, 0.0], [size.ln(); 3], [1.0, 0.0, 0.0, 0.0], 1.0, &[colour; 3]);
        }
        let level = Level { splats: row.clone(), parts: std::iter::once(0..8).collect() }.halved();
        assert_eq!((level.splats.len(), level.parts.first()), (4, Some(&(0..4))));
        assert_eq!(level.splats.means[2..], row.means[6..]);
        assert_eq!(level.splats.sh[..6], [0.5; 6]);
    }
}
