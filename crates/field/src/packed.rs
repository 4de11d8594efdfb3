//! Stage `pack`: raw parameters → what the kernels read.
//!
//! Per Gaussian ten numbers: mean (3), scaled inverse factor `k L⁻¹` (`a00 a10 a11 a20 a21 a22`), weight. They are
//! computed in f64 (`exp(-raw)` is the inverse of the diagonal, so nothing is divided) and rounded once.
//! - `blocks`: 16 Gaussians as ten rows of 16, for kernels with lanes = Gaussians; padded with Gaussians of weight 0;
//! - `records`: ten numbers in a row, for kernels with lanes = points.

use fearless_simd::{Level, prelude::*};
use gausset_compute::{Pool, at_level};

use crate::field::{GaussianField, WeightMode};
use crate::real::{K, Lanes, Real, exp_f64};

/// Gaussians of a block.
pub(crate) const BLOCK: usize = 16;

/// Numbers of a Gaussian: mean, scaled inverse factor, weight.
pub(crate) const FIELDS: usize = 10;

/// Ten rows of 16 Gaussians.
pub(crate) type Block<T> = [[T; BLOCK]; FIELDS];

/// The ten numbers of a Gaussian.
pub(crate) type Record<T> = [T; FIELDS];

/// Blocks of a task.
const TASK_BLOCKS: usize = 64;

/// A field as the kernels read it.
#[derive(Clone, Debug)]
pub(crate) struct Packed<T: Real> {
    pub(crate) len: usize,
    pub(crate) blocks: Vec<Block<T>>,
    pub(crate) records: Vec<Record<T>>,
}

impl<T: Real> Packed<T> {
    /// Packs a field that has been checked.
    pub(crate) fn new(level: Level, pool: &Pool, field: &GaussianField<T>) -> Self {
        let len = field.len();
        let blocks = len.div_ceil(BLOCK);
        let empty = [[T::ZERO; BLOCK]; FIELDS];
        let mut packed =
            Self { len, blocks: vec![empty; blocks], records: vec![[T::ZERO; FIELDS]; blocks * BLOCK] };
        let mut parts: Vec<_> = packed
            .blocks
            .chunks_mut(TASK_BLOCKS)
            .zip(packed.records.chunks_mut(TASK_BLOCKS * BLOCK))
            .collect();
        pool.run_parts(&mut parts, |part, (blocks, records)| {
            let first = part * TASK_BLOCKS * BLOCK;
            at_level!(level, simd => pack(simd, field, first, blocks, records));
        });
        packed.records.truncate(len);
        packed
    }

    /// The first Gaussian that cannot be computed with: something is not finite, or too large to square.
    pub(crate) fn first_unusable(&self) -> Option<usize> {
        let limit = T::from_f64(T::MAX_COORDINATE);
        let low = T::from_f64(-T::MAX_COORDINATE);
        // Not `any`, so that the loop over a record has no branches. NaN compares false.
        let is_good = |record: &Record<T>| {
            record.iter().fold(true, |good, value| good & (*value <= limit) & (*value >= low))
        };
        self.records.iter().position(|record| !is_good(record))
    }

    /// The scaled inverse factor and the weight of a Gaussian.
    pub(crate) fn inverse_and_weight(&self, i: usize) -> ([f64; 6], f64) {
        let r: [f64; FIELDS] = self.records[i].map(Into::into);
        ([r[3], r[4], r[5], r[6], r[7], r[8]], r[9])
    }
}

#[inline(always)]
fn pack<T: Real, S: Lanes>(
    simd: S,
    field: &GaussianField<T>,
    first: usize,
    blocks: &mut [Block<T>],
    records: &mut [Record<T>],
) {
    for (b, (block, records)) in blocks.iter_mut().zip(records.as_chunks_mut::<BLOCK>().0).enumerate() {
        let start = first + b * BLOCK;
        let count = (field.len() - start).min(BLOCK);
        let mut raw = [[0.0f64; BLOCK]; 6];
        for (lane, chol) in field.chol[start..start + count].iter().enumerate() {
            for entry in 0..6 {
                raw[entry][lane] = chol[entry].into();
            }
        }
        let inverse = inverse_rows(simd, T::MAX_LOG, &raw);
        for lane in 0..count {
            let (i, record) = (start + lane, &mut records[lane]);
            record[..3].copy_from_slice(&field.means[i]);
            for entry in 0..6 {
                record[3 + entry] = T::from_f64(inverse[entry][lane]);
            }
            record[9] = match field.weight_mode {
                WeightMode::Raw => field.weights[i],
                mode => T::from_f64(mode.weight(field.weights[i].into())),
            };
            for (row, value) in block.iter_mut().zip(record) {
                row[lane] = *value;
            }
        }
    }
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
        let row = |entry: usize| S::f64s::from_slice(simd, &raw[entry][at..at + width]);
        // The inverse of exp(raw); k belongs to one factor of each product below.
        let e0 = exp_f64(simd, -row(0).max(-limit).min(limit));
        let e1 = exp_f64(simd, -row(2).max(-limit).min(limit));
        let e2 = exp_f64(simd, -row(5).max(-limit).min(limit));
        let (a00, a11, a22) = (k * e0, k * e1, k * e2);
        let a10 = -(row(1) * a00 * e1);
        let a21 = -(row(4) * a11 * e2);
        let a20 = -((row(3) * a00 + row(4) * a10) * e2);
        for (entry, value) in [a00, a10, a11, a20, a21, a22].into_iter().enumerate() {
            value.store_slice(&mut out[entry][at..at + width]);
        }
        at += width;
    }
    out
}

/// Points in three rows, padded to a multiple of [`PointRows::PADDED`] by repeating the last.
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

    /// Number of points with padding.
    pub(crate) fn padded(&self) -> usize {
        self.axis[0].len()
    }
}
