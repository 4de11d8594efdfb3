//! A pass over the training samples: values, residuals and moments, leaf by leaf.
//!
//! ```text
//! leaf of 32 samples, its list of Gaussians in blocks of 16 (lanes = Gaussians)
//!   for each block, each sample:  v, q, G;  G → buffer;  sums of the sample += w G        (A)
//!   residual = f - y, loss
//!   for each block, each sample:  G ← buffer, v again;  ten moments += residual G …        (B)
//! ```
//! The exponential is computed once for both halves. Moments are summed in one row per candidate of the super-block,
//! and the rows of the super-blocks are added in order, so results do not depend on threads.

use std::sync::Mutex;

use fearless_simd::{f32x16, prelude::*};
use gausset_compute::simd::{Row, sum_each, transpose};
use gausset_compute::{Exec, at_level};

use crate::accel::index::GaussianIndex;
use crate::accel::leaves::{LEAF, Leaves, SUPER};
use crate::accel::lists::LeafLists;
pub(crate) use crate::accel::lists::ListRule;
use crate::dense::{square, whitened};
use crate::packed::{BLOCK, Block, FIELDS, Record, record_index};
use crate::real::{Lanes, Real};

/// Super-blocks whose rows are kept at a time; bounds the memory.
const SUPERS_PER_WAVE: usize = 256;

/// Outputs of a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PassOutput {
    /// Values only.
    Values,
    /// Values, residuals, and `M0`.
    Zeroth,
    /// Values, residuals, and all ten moments.
    Moments,
}

/// Leaves that a pass visits: those with `turns[leaf] == batch`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Batch<'a> {
    pub(crate) batch_of_leaf: &'a [u8],
    pub(crate) batch: u8,
}

/// Result of a pass.
#[derive(Clone, Debug, Default)]
pub(crate) struct PassResult {
    /// Σ weight (f - y)² over the visited samples.
    pub(crate) loss: f64,
    /// Number of visited samples (those with a weight).
    pub(crate) samples: u64,
    /// Number of pairs that were computed.
    pub(crate) pairs: u64,
}

/// Samples sorted into leaves.
#[derive(Clone, Debug)]
pub(crate) struct LeafSamples {
    pub(crate) leaves: Leaves<f32>,
    /// Sample values, by slot.
    pub(crate) y: Vec<f32>,
}

impl LeafSamples {
    pub(crate) fn new(points: &[[f32; 3]], values: &[f32]) -> Self {
        let leaves = Leaves::new(points);
        let y = leaves.order.iter().map(|&i| values[i as usize]).collect();
        Self { leaves, y }
    }
}

/// Working memory of a thread.
#[derive(Debug, Default)]
struct Scratch {
    lists: LeafLists,
    records: Vec<Record<f32>>,
    blocks: Vec<Block<f32>>,
    /// G per block and sample.
    gauss: Vec<[Row; LEAF]>,
}

/// Working memory of passes, reused between them.
#[derive(Debug, Default)]
pub(crate) struct PassMemory {
    scratch: Mutex<Vec<Scratch>>,
}

/// Result of a super-block: a row of moments per candidate.
#[derive(Debug, Default)]
struct SuperResult {
    candidates: Vec<u32>,
    rows: Vec<Row>,
    loss: f64,
    samples: u64,
    pairs: u64,
}

/// Input of a pass.
pub(crate) struct SamplePass<'a> {
    pub(crate) exec: Exec<'a>,
    pub(crate) index: &'a GaussianIndex,
    /// Records in the order of the index.
    pub(crate) records: &'a [Record<f32>],
    pub(crate) samples: &'a LeafSamples,
    pub(crate) rule: ListRule,
    pub(crate) want: PassOutput,
    /// `None` = all leaves.
    pub(crate) batch: Option<Batch<'a>>,
    /// Whether target values are 0 instead of those of the samples.
    pub(crate) zero_targets: bool,
}

impl SamplePass<'_> {
    /// Runs the pass. `moments` receives a row per record: `M0, M1 (3), M2 (6)`; `values` receives f by slot of visited
    /// leaves.
    pub(crate) fn run(
        &self,
        passes: &PassMemory,
        moments: &mut [[f32; 10]],
        mut values: Option<&mut [f32]>,
    ) -> PassResult {
        moments.fill([0.0; 10]);
        let mut total = PassResult::default();
        let supers = self.samples.leaves.supers.len();
        for first in (0..supers).step_by(SUPERS_PER_WAVE) {
            let count = SUPERS_PER_WAVE.min(supers - first);
            let mut results: Vec<(SuperResult, Option<&mut [f32]>)> = Vec::with_capacity(count);
            let slots = SUPER * LEAF;
            match values.as_deref_mut() {
                Some(values) => {
                    let range = &mut values[first * slots..];
                    results.extend(
                        range.chunks_mut(slots).take(count).map(|v| (SuperResult::default(), Some(v))),
                    );
                }
                None => results.extend((0..count).map(|_| (SuperResult::default(), None))),
            }
            self.exec.pool.run_parts(&mut results, |part, (result, values)| {
                let mut scratch =
                    passes.scratch.lock().ok().and_then(|mut free| free.pop()).unwrap_or_default();
                let part = first + part;
                at_level!(self.exec.level, simd => self.super_block(simd, part, &mut scratch, result, values));
                if let Ok(mut free) = passes.scratch.lock() {
                    free.push(scratch);
                }
            });
            for (result, _) in &results {
                total.loss += result.loss;
                total.samples += result.samples;
                total.pairs += result.pairs;
                for (&slot, row) in result.candidates.iter().zip(&result.rows) {
                    for (sum, value) in moments[slot as usize].iter_mut().zip(row) {
                        *sum += value;
                    }
                }
            }
        }
        total
    }

    #[inline(always)]
    fn super_block<S: Lanes>(
        &self,
        simd: S,
        part: usize,
        scratch: &mut Scratch,
        result: &mut SuperResult,
        values: &mut Option<&mut [f32]>,
    ) {
        let leaves = &self.samples.leaves;
        let first = part * SUPER;
        let last = leaves.rows.len().min(first + SUPER);
        let is_due = |leaf: usize| self.batch.is_none_or(|batch| batch.batch_of_leaf[leaf] == batch.batch);
        if !(first..last).any(is_due) {
            return;
        }
        let Scratch { lists, records, blocks, gauss } = scratch;
        lists.start(simd, self.index, &leaves.supers[part], self.rule);
        records.clear();
        records.extend(lists.candidates.iter().map(|&slot| self.records[slot as usize]));
        if self.want != PassOutput::Values {
            result.rows.resize(records.len(), [0.0; BLOCK]);
        }
        for leaf in (first..last).filter(|&leaf| is_due(leaf)) {
            lists.leaf(simd, &leaves.boxes[leaf], self.rule);
            result.pairs += (lists.kept.len() * LEAF) as u64;
            gather(records, &lists.kept, blocks);
            if gauss.len() < blocks.len() {
                gauss.resize(blocks.len(), [[0.0; BLOCK]; LEAF]);
            }
            let f = forward(simd, blocks, &leaves.rows[leaf], gauss);
            let count = leaves.count(leaf);
            let mut residual = [0.0f32; LEAF];
            let y = &self.samples.y[leaf * LEAF..][..LEAF];
            for lane in 0..count {
                let target = if self.zero_targets { 0.0 } else { y[lane] };
                residual[lane] = f[lane] - target;
                result.loss += f64::from(residual[lane]) * f64::from(residual[lane]);
            }
            result.samples += count as u64;
            if let Some(values) = values {
                values[(leaf - first) * LEAF..][..LEAF].copy_from_slice(&f);
            }
            if self.want == PassOutput::Values {
                continue;
            }
            for ((block, gauss), kept) in blocks.iter().zip(gauss.iter()).zip(lists.kept.chunks(BLOCK)) {
                let sums = if self.want == PassOutput::Moments {
                    backward(simd, block, &leaves.rows[leaf], gauss, &residual)
                } else {
                    backward_zeroth(simd, gauss, &residual)
                };
                add_rows(simd, &sums, kept, &mut result.rows);
            }
        }
        result.candidates.clear();
        result.candidates.extend_from_slice(&lists.candidates);
    }
}

/// Gathers the listed records in blocks of 16; the last is padded with Gaussians of weight 0.
#[inline(always)]
fn gather(records: &[Record<f32>], kept: &[u32], blocks: &mut Vec<Block<f32>>) {
    blocks.clear();
    for chunk in kept.chunks(BLOCK) {
        let mut block = [[0.0f32; BLOCK]; FIELDS];
        for (lane, &position) in chunk.iter().enumerate() {
            let record = &records[position as usize];
            for row in 0..FIELDS {
                block[row][lane] = record[row];
            }
        }
        blocks.push(block);
    }
}

#[inline(always)]
fn rows<S: Lanes>(simd: S, block: &Block<f32>, at: usize) -> [S::f32s; FIELDS] {
    let width = S::f32s::LEN;
    let mut out = [S::f32s::from_slice(simd, &block[0][at..at + width]); FIELDS];
    for row in 1..FIELDS {
        out[row] = S::f32s::from_slice(simd, &block[row][at..at + width]);
    }
    out
}

/// (A): f at each sample, and G of each pair.
#[inline(always)]
fn forward<S: Lanes>(
    simd: S,
    blocks: &[Block<f32>],
    points: &[[f32; LEAF]; 3],
    gauss: &mut [[Row; LEAF]],
) -> [f32; LEAF] {
    let width = S::f32s::LEN;
    let mut sums = [[0.0f32; BLOCK]; LEAF];
    for (block, gauss) in blocks.iter().zip(gauss) {
        let mut at = 0;
        while at < BLOCK {
            let g = rows(simd, block, at);
            let mut q = [g[0]; LEAF];
            for p in 0..LEAF {
                let x = [
                    S::f32s::splat(simd, points[0][p]),
                    S::f32s::splat(simd, points[1][p]),
                    S::f32s::splat(simd, points[2][p]),
                ];
                q[p] = square::<f32, S>(simd, whitened::<f32, S>(simd, &g, x));
            }
            for p in 0..LEAF {
                let value = <f32 as Real>::gauss(simd, q[p]);
                value.store_slice(&mut gauss[p][at..at + width]);
                let sum = &mut sums[p][at..at + width];
                simd.fma_f32(g[record_index::WEIGHT], value, S::f32s::from_slice(simd, sum)).store_slice(sum);
            }
            at += width;
        }
    }
    let mut f = [0.0f32; LEAF];
    for (f, sums) in f.as_chunks_mut::<BLOCK>().0.iter_mut().zip(sums.as_chunks::<BLOCK>().0) {
        let mut v = [f32x16::splat(simd, 0.0); BLOCK];
        for i in 0..BLOCK {
            v[i] = f32x16::load_array_ref(simd, &sums[i]);
        }
        sum_each(v).store_array(f);
    }
    f
}

/// (B): the ten moments of 16 Gaussians.
#[inline(always)]
fn backward<S: Lanes>(
    simd: S,
    block: &Block<f32>,
    points: &[[f32; LEAF]; 3],
    gauss: &[Row; LEAF],
    residual: &[f32; LEAF],
) -> [Row; 10] {
    let width = S::f32s::LEN;
    let mut out = [[0.0f32; BLOCK]; 10];
    let mut at = 0;
    while at < BLOCK {
        let g = rows(simd, block, at);
        let mut m = [S::f32s::splat(simd, 0.0); 10];
        let mut buffer = [[m[0]; 4]; LEAF];
        for p in 0..LEAF {
            let x = [
                S::f32s::splat(simd, points[0][p]),
                S::f32s::splat(simd, points[1][p]),
                S::f32s::splat(simd, points[2][p]),
            ];
            let v = whitened::<f32, S>(simd, &g, x);
            let s = S::f32s::from_slice(simd, &gauss[p][at..at + width]) * S::f32s::splat(simd, residual[p]);
            buffer[p] = [v[0], v[1], v[2], s];
        }
        crate::dense_vjp::phase_two::<f32, S>(simd, &buffer, &mut m);
        for row in 0..10 {
            m[row].store_slice(&mut out[row][at..at + width]);
        }
        at += width;
    }
    out
}

/// (B) for linear weights: `M0` alone.
#[inline(always)]
fn backward_zeroth<S: Lanes>(simd: S, gauss: &[Row; LEAF], residual: &[f32; LEAF]) -> [Row; 10] {
    let width = S::f32s::LEN;
    let mut out = [[0.0f32; BLOCK]; 10];
    let mut at = 0;
    while at < BLOCK {
        let mut sum = S::f32s::splat(simd, 0.0);
        for p in 0..LEAF {
            let value = S::f32s::from_slice(simd, &gauss[p][at..at + width]);
            sum = simd.fma_f32(value, S::f32s::splat(simd, residual[p]), sum);
        }
        sum.store_slice(&mut out[0][at..at + width]);
        at += width;
    }
    out
}

/// Adds moments of 16 Gaussians to their rows.
#[inline(always)]
fn add_rows<S: Lanes>(simd: S, sums: &[Row; 10], kept: &[u32], rows: &mut [Row]) {
    let mut v = [f32x16::splat(simd, 0.0); BLOCK];
    for i in 0..10 {
        v[i] = f32x16::load_array_ref(simd, &sums[i]);
    }
    let by_gaussian = transpose(v);
    for (lane, &position) in kept.iter().enumerate() {
        let row = &mut rows[position as usize];
        (f32x16::load_array_ref(simd, row) + by_gaussian[lane]).store_array(row);
    }
}
