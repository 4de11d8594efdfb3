//! Stage `pack`: converts raw parameters to the layouts of the kernels.
//!
//! Per Gaussian the mean, the inverse factor `A' = k L⁻¹` (`k = sqrt(log2(e)/2)`, so that `G = 2^(-|A'd|²)`) and the
//! weight, computed in f64 and rounded. Two layouts:
//!
//! - `blocks`: rows of 16 Gaussians, for kernels with lanes = Gaussians; the last block is padded with Gaussians of
//!   weight 0;
//! - `terms`: 13 numbers in a row, for kernels with lanes = points. The weight is multiplied into the coefficients of
//!   the exponential (see `real`).

use fearless_simd::prelude::*;
use gausset_compute::{Exec, at_level};

use crate::field::{GaussianField, WeightMode};
use crate::real::{K, Lanes, Real, exp_f64};

/// Gaussians per block.
pub(crate) const BLOCK: usize = 16;

/// Numbers per Gaussian: mean, scaled inverse factor, weight.
pub(crate) const FIELDS: usize = 10;

/// Row indices of the numbers of a Gaussian: mean (0..3), scaled inverse factor `A' = k L⁻¹` by row and column, weight.
pub(crate) mod record_index {
    pub(crate) const A00: usize = 3;
    pub(crate) const A10: usize = 4;
    pub(crate) const A11: usize = 5;
    pub(crate) const A20: usize = 6;
    pub(crate) const A21: usize = 7;
    pub(crate) const A22: usize = 8;
    pub(crate) const WEIGHT: usize = 9;
}

/// Ten rows of 16 Gaussians.
pub(crate) type Block<T> = [[T; BLOCK]; FIELDS];

/// The ten numbers of a Gaussian.
pub(crate) type Record<T> = [T; FIELDS];

/// Mean (3), scaled inverse factor (6), coefficients of the weighted exponential (4).
pub(crate) type Term<T> = [T; 13];

/// Blocks per task.
const TASK_BLOCKS: usize = 64;

/// A field in the layouts of the kernels.
#[derive(Clone, Debug, Default)]
pub(crate) struct PackedField<T: Real> {
    pub(crate) len: usize,
    pub(crate) blocks: Vec<Block<T>>,
    pub(crate) terms: Vec<Term<T>>,
    /// Whether all numbers are finite and small enough to square.
    pub(crate) is_usable: bool,
}

/// The term of a record.
#[inline(always)]
pub(crate) fn term<T: Real>(record: &Record<T>) -> Term<T> {
    let [x, y, z, a, b, c, d, e, f, w] = *record;
    let [c3, c2, c1, c0] = T::coefficients(w);
    [x, y, z, a, b, c, d, e, f, c3, c2, c1, c0]
}

impl<T: Real> PackedField<T> {
    /// Packs a field whose arrays have one entry per Gaussian.
    pub(crate) fn new(exec: Exec<'_>, field: &GaussianField<T>) -> Self {
        let mut packed = Self::default();
        packed.repack(exec, field);
        packed
    }

    /// Packs another field into the same memory.
    pub(crate) fn repack(&mut self, exec: Exec<'_>, field: &GaussianField<T>) {
        let len = field.len();
        let blocks = len.div_ceil(BLOCK);
        self.len = len;
        self.blocks.resize(blocks, [[T::ZERO; BLOCK]; FIELDS]);
        self.terms.resize(blocks * BLOCK, [T::ZERO; 13]);
        let mut parts: Vec<_> = self
            .blocks
            .chunks_mut(TASK_BLOCKS)
            .zip(self.terms.chunks_mut(TASK_BLOCKS * BLOCK))
            .map(|(blocks, terms)| (blocks, terms, true))
            .collect();
        exec.pool.run_parts(&mut parts, |part, (blocks, terms, is_usable)| {
            let first = part * TASK_BLOCKS * BLOCK;
            *is_usable = at_level!(exec.level, simd => pack(simd, field, first, blocks, terms));
        });
        self.is_usable = parts.iter().all(|(_, _, is_usable)| *is_usable);
        self.terms.truncate(len);
    }

    /// The ten numbers of each Gaussian.
    pub(crate) fn records(&self) -> Vec<Record<T>> {
        let mut records = Vec::with_capacity(self.len.next_multiple_of(BLOCK));
        for block in &self.blocks {
            for lane in 0..BLOCK {
                let mut record = [T::ZERO; FIELDS];
                for row in 0..FIELDS {
                    record[row] = block[row][lane];
                }
                records.push(record);
            }
        }
        records.truncate(self.len);
        records
    }
}

/// Packs a chunk. Returns whether all numbers are finite and small enough to square.
#[inline(always)]
fn pack<T: Real, S: Lanes>(
    simd: S,
    field: &GaussianField<T>,
    first: usize,
    blocks: &mut [Block<T>],
    terms: &mut [Term<T>],
) -> bool {
    let (low, limit) = (T::from_f64(-T::MAX_COORDINATE), T::from_f64(T::MAX_COORDINATE));
    let mut is_usable = true;
    // Loops over indices: the adapters of iterators are not always inlined into a kernel.
    for b in 0..blocks.len() {
        let start = first + b * BLOCK;
        let count = (field.len() - start).min(BLOCK);
        let (chol, means) = (&field.chol[start..start + count], &field.means[start..start + count]);
        let weights = &field.weights[start..start + count];
        let mut raw = [[0.0f64; BLOCK]; 6];
        let mut block = [[T::ZERO; BLOCK]; FIELDS];
        for lane in 0..count {
            for entry in 0..6 {
                raw[entry][lane] = chol[lane][entry].into();
            }
            for k in 0..3 {
                block[k][lane] = means[lane][k];
            }
            block[record_index::WEIGHT][lane] = match field.weight_mode {
                WeightMode::Raw => weights[lane],
                mode => T::from_f64(mode.weight(weights[lane].into())),
            };
        }
        let inverse = inverse_rows(simd, T::MAX_LOG, &raw);
        for entry in 0..6 {
            for lane in 0..BLOCK {
                block[record_index::A00 + entry][lane] = T::from_f64(inverse[entry][lane]);
            }
        }
        // Without branches, so that the check vectorises. NaN compares false.
        for row in 0..FIELDS {
            for lane in 0..BLOCK {
                is_usable &= (block[row][lane] <= limit) & (block[row][lane] >= low);
            }
        }
        for lane in 0..BLOCK {
            let mut record = [T::ZERO; FIELDS];
            for row in 0..FIELDS {
                record[row] = block[row][lane];
            }
            terms[b * BLOCK + lane] = term(&record);
        }
        // Padding: all zeros, in case a kernel multiplies it by a large number.
        for lane in count..BLOCK {
            for row in 0..FIELDS {
                block[row][lane] = T::ZERO;
            }
        }
        blocks[b] = block;
    }
    is_usable
}

/// `k L⁻¹` of 16 raw factors.
#[inline(always)]
fn inverse_rows<S: Lanes>(simd: S, max_log: f64, raw: &[[f64; BLOCK]; 6]) -> [[f64; BLOCK]; 6] {
    let mut out = [[0.0; BLOCK]; 6];
    let width = S::f64s::LEN;
    let limit = S::f64s::splat(simd, max_log);
    let k = S::f64s::splat(simd, K);
    let mut at = 0;
    while at + width <= BLOCK {
        let row = gausset_compute::simd::inline_closure(
            #[inline(always)]
            |entry: usize| S::f64s::from_slice(simd, &raw[entry][at..at + width]),
        );
        // The inverse of exp(raw); each product below contains k exactly once.
        let e0 = exp_f64(simd, -row(0).max(-limit).min(limit));
        let e1 = exp_f64(simd, -row(2).max(-limit).min(limit));
        let e2 = exp_f64(simd, -row(5).max(-limit).min(limit));
        let (a00, a11, a22) = (k * e0, k * e1, k * e2);
        let a10 = -(row(1) * a00 * e1);
        let a21 = -(row(4) * a11 * e2);
        let a20 = -((row(3) * a00 + row(4) * a10) * e2);
        let rows = [a00, a10, a11, a20, a21, a22];
        for entry in 0..6 {
            rows[entry].store_slice(&mut out[entry][at..at + width]);
        }
        at += width;
    }
    out
}

/// Points in three rows, padded to a multiple of [`PointRows::PADDED`] by repeating the last point.
#[derive(Clone, Debug, Default)]
pub(crate) struct PointRows<T> {
    pub(crate) axis: [Vec<T>; 3],
}

impl<T: Real> PointRows<T> {
    /// Points of the largest register block of a kernel.
    pub(crate) const PADDED: usize = 64;

    pub(crate) fn new(points: &[[T; 3]]) -> Self {
        let padded = points.len().next_multiple_of(Self::PADDED);
        let axis = std::array::from_fn(|k| {
            let mut row = Vec::with_capacity(padded);
            row.extend(points.iter().map(|point| point[k]));
            let last = row.last().copied().unwrap_or(T::ZERO);
            row.resize(padded, last);
            row
        });
        Self { axis }
    }

    /// Number of points, including padding.
    pub(crate) fn padded(&self) -> usize {
        self.axis[0].len()
    }
}
