//! Index of Gaussians that quickly finds those near a box.
//!
//! Bound of a Gaussian over a box: with `δ_k` the distance of the box from µ along axis `k`, `q ≥ max_k δ_k² / S_kk`
//! and `q ≥ |δ|² / λ` with `λ` at least the largest eigenvalue of `S`. `λ` is the bound of Wolkowicz and Styan (1980),
//! `tr/3 + sqrt(2/3) ‖S - tr/3 I‖_F`: exact for spheres and needles, never too small.
//!
//! Bounds are f32 for any type of field, so each number of a Gaussian is rounded to the side on which `q` is too small.
//! The mean is a box that contains it (a point for f32 fields); far from the origin it may be many standard deviations
//! wide.

use gausset_compute::Pool;

use crate::accel::leaves::{Box3, round_down, round_up};
use crate::field::{FieldBounds, GaussianField, covariance_of};
use crate::packed::{BLOCK, PackedField};
use crate::real::{K, Real};

/// Gaussians tested at a time.
pub(crate) const LANES: usize = 16;
/// Gaussians per group; a group has a bounding box.
pub(crate) const GROUP: usize = 128;
/// Inverse widths are reduced by this factor, so that rounding never loses a contributing pair.
const SLACK: f64 = 1.0 - 4e-6;
/// Largest inverse width. Above it, the square of a relevant distance has no digits left in f32. No f32 field reaches
/// it, because its log diagonals are clamped.
const MAX_INVERSE: f64 = 1e15;

/// Rows of 16 Gaussians: the box of the mean from [`LO`] and from [`HI`] (3 each), `k/sqrt(S_kk)` from [`INVERSE`] (3),
/// `k/sqrt(λ)` in [`RADIAL`], `log2 |w|` in [`LOG_WEIGHT`].
pub(crate) type Bounds16 = [[f32; LANES]; ROWS];
/// Numbers per Gaussian in [`Bounds16`].
pub(crate) const ROWS: usize = 11;
pub(crate) const LO: usize = 0;
pub(crate) const HI: usize = 3;
pub(crate) const INVERSE: usize = 6;
pub(crate) const RADIAL: usize = 9;
pub(crate) const LOG_WEIGHT: usize = 10;
/// Padding of a row: Gaussians without weight.
pub(crate) const PADDING: Bounds16 = {
    let mut rows = [[0.0; LANES]; ROWS];
    rows[LOG_WEIGHT] = [f32::NEG_INFINITY; LANES];
    rows
};

/// Gaussians with their bounds.
#[derive(Clone, Debug)]
pub(crate) struct GaussianIndex {
    /// The Gaussian at each position.
    pub(crate) order: Vec<u32>,
    /// Bounds, 16 Gaussians at a time; padding has `log2 |w|` = -inf and no width.
    pub(crate) bounds: Vec<Bounds16>,
    /// Groups of 8 rows of bounds.
    pub(crate) groups: Vec<GaussianGroup>,
}

/// Common bounds of a group of Gaussians.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GaussianGroup {
    /// Union of the boxes of the means.
    pub(crate) bounds: Box3,
    /// Smallest inverse widths.
    pub(crate) inverse: [f32; 3],
    /// Smallest `k/sqrt(λ)`.
    pub(crate) radial: f32,
    /// log2 of the largest |w|.
    pub(crate) log_weight: f32,
    /// log2 of the sum of |w|.
    pub(crate) log_sum: f32,
}

/// Spatially coherent order: along a Morton curve (Morton 1966) over the box of the means, 10 bits per axis. Equal
/// codes keep their order.
pub(crate) fn morton_order<T: Real>(field: &GaussianField<T>) -> Vec<u32> {
    const CELLS: f64 = 1024.0;
    let bounds = FieldBounds::from_points(&field.means);
    let code = |mean: &[T; 3]| {
        bounds.map_or(0, |bounds| {
            let size = bounds.size();
            let cell = |k: usize| {
                let share = (mean[k].into() - bounds.lo[k]) / size[k];
                // NaN (a flat box) becomes 0; the upper face belongs to the last cell.
                ((share * CELLS) as u32).min(CELLS as u32 - 1)
            };
            spread(cell(0)) | spread(cell(1)) << 1 | spread(cell(2)) << 2
        })
    };
    let mut order: Vec<(u32, u32)> = field.means.iter().map(code).zip(0..).collect();
    order.sort_unstable();
    order.into_iter().map(|(_, i)| i).collect()
}

/// Spreads 10 bits so that two zero bits follow each.
const fn spread(v: u32) -> u32 {
    let v = (v | v << 16) & 0x0300_00FF;
    let v = (v | v << 8) & 0x0300_F00F;
    let v = (v | v << 4) & 0x030C_30C3;
    (v | v << 2) & 0x0924_9249
}

/// The bounds of a Gaussian: see [`Bounds16`].
pub(crate) fn bounds_of(mean: [f64; 3], factor: &[f64; 6], weight: f64) -> [f32; ROWS] {
    let s = covariance_of(factor);
    let third = (s[0] + s[2] + s[5]) / 3.0;
    let off = (s[0] - third).powi(2)
        + (s[2] - third).powi(2)
        + (s[5] - third).powi(2)
        + 2.0 * (s[1] * s[1] + s[3] * s[3] + s[4] * s[4]);
    let largest = third + (off * (2.0 / 3.0)).sqrt();
    let inverse = |variance: f64| {
        let inverse = SLACK * K / variance.sqrt();
        // A variance that overflowed to NaN gives no bound.
        if inverse.is_nan() { 0.0 } else { inverse.min(MAX_INVERSE) as f32 }
    };
    let [lo, hi] = [mean.map(round_down), mean.map(round_up)];
    [
        lo[0],
        lo[1],
        lo[2],
        hi[0],
        hi[1],
        hi[2],
        inverse(s[0]),
        inverse(s[2]),
        inverse(s[5]),
        inverse(largest),
        log_weight(weight.abs()),
    ]
}

/// `log2 |w|`, rounded up; `-inf` only for a weight of 0.
fn log_weight(weight: f64) -> f32 {
    const MARGIN: f32 = 1e-5;
    let rounded = weight as f32;
    if f64::from(rounded) == weight {
        return if weight == 0.0 { f32::NEG_INFINITY } else { libm::log2f(rounded) + MARGIN };
    }
    // Weights of f64 fields can exceed the range of f32 at both ends.
    (libm::log2(weight) as f32).next_up() + MARGIN
}

impl GaussianIndex {
    /// Indexes the packed Gaussians of a field in a given order.
    pub(crate) fn new<T: Real>(
        field: &GaussianField<T>,
        packed: &PackedField<T>,
        order: Vec<u32>,
        pool: &Pool,
    ) -> Self {
        let blocks = order.len().div_ceil(GROUP) * (GROUP / LANES);
        let mut bounds = vec![PADDING; blocks];
        pool.run_chunks(&mut bounds, GROUP, |part, blocks| {
            for (slot, &i) in order.iter().enumerate().skip(part * GROUP * LANES).take(blocks.len() * LANES) {
                let i = i as usize;
                let number = |row: usize| -> f64 { packed.blocks[i / BLOCK][row][i % BLOCK].into() };
                // The diagonal from its inverse, which saves an exponential; `SLACK` covers the rounding.
                let [_, l10, _, l20, l21, _] = field.chol[i].map(Into::into);
                let l = [K / number(3), l10, K / number(5), l20, l21, K / number(8)];
                let row = bounds_of([number(0), number(1), number(2)], &l, number(9));
                let local = slot - part * GROUP * LANES;
                for (rows, value) in blocks[local / LANES].iter_mut().zip(row) {
                    rows[local % LANES] = value;
                }
            }
        });
        let groups = Self::group(&bounds, order.len());
        Self { order, bounds, groups }
    }

    /// Computes the common bounds of groups of rows.
    pub(crate) fn group(bounds: &[Bounds16], len: usize) -> Vec<GaussianGroup> {
        let group = |(g, blocks): (usize, &[Bounds16])| {
            let mut group = GaussianGroup {
                bounds: Box3::EMPTY,
                inverse: [f32::INFINITY; 3],
                radial: f32::INFINITY,
                log_weight: f32::NEG_INFINITY,
                log_sum: 0.0,
            };
            let mut sum = 0.0f64;
            for slot in 0..(len - g * GROUP).min(GROUP) {
                let value = |row: usize| blocks[slot / LANES][row][slot % LANES];
                let three = |row: usize| [value(row), value(row + 1), value(row + 2)];
                group.bounds.union_with(&Box3 { lo: three(LO), hi: three(HI) });
                for k in 0..3 {
                    group.inverse[k] = group.inverse[k].min(value(INVERSE + k));
                }
                group.radial = group.radial.min(value(RADIAL));
                let log_weight = value(LOG_WEIGHT);
                group.log_weight = group.log_weight.max(log_weight);
                // A weight of an f64 field that overflows f32.
                sum += if log_weight < 127.0 {
                    f64::from(libm::exp2f(log_weight))
                } else {
                    libm::exp2(f64::from(log_weight))
                };
            }
            group.log_sum = libm::log2(sum) as f32 + 1e-5;
            group
        };
        bounds.chunks(GROUP / LANES).enumerate().map(group).collect()
    }
}

impl GaussianGroup {
    /// A lower bound of `q` over all its Gaussians and a box.
    pub(crate) fn q(&self, other: &Box3) -> f32 {
        let (mut most, mut radial) = (0.0f32, 0.0f32);
        for k in 0..3 {
            let gap = (other.lo[k] - self.bounds.hi[k]).max(self.bounds.lo[k] - other.hi[k]).max(0.0);
            let scaled = gap * self.inverse[k];
            most = most.max(scaled * scaled);
            radial += gap * gap;
        }
        most.max(radial * self.radial * self.radial)
    }
}
