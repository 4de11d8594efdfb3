//! What a step had to do, counted while a profile is recorded, and what that costs at least.
//!
//! Counting reads the buffers of the step that has just been done. What needs a walk over tile entries or splats is
//! counted in one step of `EVERY`, in a span of its own, so that a profile costs next to nothing and shows it.
//!
//! The floors are those of docs/benchmarks.md: bytes that have to be moved at least once, 16-lane multiply-adds (and
//! operations that take their place in a pipe), and stores to places that lie anywhere in memory.

use gausset_compute::Rates;
use gausset_compute::simd::LANES;
use gausset_core::engine::{AdamMode, Rendering};
use gausset_core::{Stage, sh};
use gausset_prof::{counter, span};
use gausset_raster::blend_vjp::Slot;
use gausset_raster::layout::{LOGIT, MEAN};
use gausset_raster::view::KernelView;

use crate::CpuEngine;

/// Steps of which one is counted in full.
const EVERY: u64 = 32;

/// Logit of opacity 1/255, below which nothing is drawn: `-ln 254`.
const FAINTEST_LOGIT: f32 = -5.537_334;

/// Names of the counters that the floors are computed from.
mod name {
    pub(super) const SPLATS: &str = "splats";
    pub(super) const VISIBLE: &str = "visible";
    pub(super) const PIXELS: &str = "pixels";
    pub(super) const INTERSECTIONS: &str = "intersections";
    pub(super) const PROCESSED: &str = "intersections looked at";
    pub(super) const LIVE: &str = "intersections with a gradient";
    pub(super) const CELLS: &str = "cells evaluated";
    pub(super) const BLOCKS: &str = "blocks updated";
    pub(super) const SH_DEGREE: &str = "SH degree";
}

/// Sizes of a step: what the times of its stages follow from.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StepSizes {
    /// Splats.
    pub splats: f64,
    /// SH degree that the state stores.
    pub sh_degree: u8,
    /// Splats drawn.
    pub visible: f64,
    /// Pixels.
    pub pixels: f64,
    /// Entries of all tile lists.
    pub intersections: f64,
    /// Entries that were looked at before their tile was opaque.
    pub processed: f64,
    /// Entries with a gradient.
    pub live: f64,
    /// Pairs of an entry and a cell of 4x4 pixels that were evaluated.
    pub cells: f64,
    /// Blocks of 16 splats that were updated.
    pub blocks: f64,
}

/// What a stage has to do at least.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StageWork {
    /// The stage.
    pub stage: Stage,
    /// Bytes read and written.
    pub bytes: f64,
    /// Multiply-adds on 16 lanes, or what takes as long.
    pub vector_ops: f64,
    /// Stores to scattered places.
    pub scattered_stores: f64,
    /// Whether one thread does it alone.
    pub is_serial: bool,
}

/// Seconds of a scattered store into a cached table.
const SCATTERED_STORE_S: f64 = 1e-9;
/// Bytes of a screen splat.
const RECORD_BYTES: f64 = 64.0;
/// Bytes of the gradient sums of a tile entry.
const SLOT_BYTES: f64 = 48.0;
/// Operations of a block of 16 splats that is projected, with its colour at degree 3.
const PROJECT_OPS: f64 = 250.0;
/// Operations of a cell in the forward pass, and in the backward pass.
const BLEND_OPS: f64 = 16.0;
const BLEND_VJP_OPS: f64 = 31.0;
/// Operations of the reduction of nine sums over 16 lanes.
const REDUCE_OPS: f64 = 33.0;
/// Operations of 16 values of a channel in the loss: 16 passes of 11 taps (5 additions, 6 multiply-adds), and 30.
const LOSS_OPS: f64 = 206.0;
/// Bytes of a pixel in the loss: three colours, their gradient, and the target.
const LOSS_BYTES: f64 = 27.0;

impl StepSizes {
    /// The sizes that a profile has counted: medians over its steps. `None` where no step was counted in full.
    #[must_use]
    pub fn of_profile(profile: &gausset_prof::Profile) -> Option<Self> {
        let median = |wanted: &str| profile.counter(wanted).map(|counter| counter.median);
        Some(Self {
            splats: median(name::SPLATS)?,
            sh_degree: median(name::SH_DEGREE)? as u8,
            visible: median(name::VISIBLE)?,
            pixels: median(name::PIXELS)?,
            intersections: median(name::INTERSECTIONS)?,
            processed: median(name::PROCESSED)?,
            live: median(name::LIVE).unwrap_or(0.0),
            cells: median(name::CELLS)?,
            blocks: median(name::BLOCKS).unwrap_or(0.0),
        })
    }

    /// What the stages of a step of these sizes have to do at least.
    #[must_use]
    pub fn work(&self) -> Vec<StageWork> {
        let parameter_bytes = 4.0 * (11 + 3 * sh::coefficients(self.sh_degree)) as f64;
        let all = |stage, bytes, vector_ops, scattered_stores| StageWork {
            stage,
            bytes,
            vector_ops,
            scattered_stores,
            is_serial: false,
        };
        vec![
            all(
                Stage::Project,
                parameter_bytes * self.splats + RECORD_BYTES * self.visible,
                PROJECT_OPS * self.splats / LANES as f64,
                0.0,
            ),
            // Three passes over the keys.
            StageWork {
                is_serial: true,
                ..all(Stage::Sort, 7.0 * 8.0 * self.visible, 0.0, 3.0 * self.visible)
            },
            all(Stage::Tile, 8.0 * self.intersections, 0.0, 2.0 * self.intersections),
            all(Stage::Blend, RECORD_BYTES * self.processed, BLEND_OPS * self.cells, 0.0),
            all(Stage::Loss, LOSS_BYTES * self.pixels, LOSS_OPS * 3.0 * self.pixels / LANES as f64, 0.0),
            all(
                Stage::BlendVjp,
                RECORD_BYTES * self.processed + SLOT_BYTES * self.live,
                BLEND_VJP_OPS * self.cells + REDUCE_OPS * self.live,
                0.0,
            ),
            // Parameters and two moments, read and written.
            all(
                Stage::ProjectVjpAdam,
                6.0 * parameter_bytes * LANES as f64 * self.blocks + SLOT_BYTES * self.live,
                2.0 * PROJECT_OPS * self.blocks,
                0.0,
            ),
        ]
    }
}

impl StageWork {
    /// Milliseconds that the stage takes at least on a machine of these rates with so many threads.
    #[must_use]
    pub fn floor_ms(&self, rates: &Rates, threads: usize) -> f64 {
        let workers = if self.is_serial { 1.0 } else { threads as f64 };
        let bytes = self.bytes / rates.stream_bytes_per_s;
        let operations = self.vector_ops / rates.vector_ops_per_s;
        let stores = self.scattered_stores * SCATTERED_STORE_S / workers;
        1e3 * bytes.max(operations).max(stores)
    }
}

impl CpuEngine {
    /// Sizes of the forward pass that was done last, a training step or a picture; walks over all tile entries.
    #[must_use]
    pub fn forward_sizes(&self) -> StepSizes {
        let (pipeline, parameters) = (&self.pipeline, &self.state.parameters);
        let (lists, blended) = (&pipeline.lists, &pipeline.blended);
        let masks_of = |(&first, &count): (&u32, &u32)| {
            blended.masks.iter().skip(first as usize).take(count as usize).map(|mask| mask.count_ones())
        };
        let cells: u64 = lists.first.iter().zip(&blended.processed).flat_map(masks_of).map(u64::from).sum();
        StepSizes {
            splats: parameters.len() as f64,
            sh_degree: parameters.sh_degree(),
            visible: pipeline.projected.keys.len() as f64,
            pixels: f64::from(self.last_size[0]) * f64::from(self.last_size[1]),
            intersections: pipeline.projected.entries as f64,
            processed: blended.processed.iter().map(|&n| f64::from(n)).sum(),
            live: 0.0,
            cells: cells as f64,
            blocks: 0.0,
        }
    }
}

/// Counts what the forward pass of a training step had to do.
pub(crate) fn count_forward(engine: &CpuEngine, view: &KernelView, step: u64) {
    if !gausset_prof::is_enabled() {
        return;
    }
    let pipeline = &engine.pipeline;
    counter(name::SPLATS, engine.state.parameters.len() as f64);
    counter(name::VISIBLE, pipeline.projected.keys.len() as f64);
    counter(name::INTERSECTIONS, pipeline.projected.entries as f64);
    counter("tiles cut by the cap", pipeline.lists.cap_hits as f64);
    if !step.is_multiple_of(EVERY) {
        return;
    }
    let _span = span("statistics");
    let sizes = engine.forward_sizes();
    counter(name::SH_DEGREE, f64::from(sizes.sh_degree));
    counter(name::PIXELS, sizes.pixels);
    counter(name::PROCESSED, sizes.processed);
    counter(name::CELLS, sizes.cells);
    counter("bytes of the engine", engine.bytes() as f64);
    let mut lengths: Vec<u32> = pipeline.lists.len.clone();
    lengths.sort_unstable();
    if let Some(longest) = lengths.last() {
        let mean = lengths.iter().map(|&n| f64::from(n)).sum::<f64>() / lengths.len() as f64;
        counter("list of a tile, mean", mean);
        counter("list of a tile, p99", f64::from(lengths[(lengths.len() - 1) * 99 / 100]));
        counter("list of a tile, longest", f64::from(*longest));
    }
    count_culled(engine, view);
}

/// Counts how many splats the pixels of a picture were blended from.
pub(crate) fn count_contributors(rendering: &Rendering) {
    if !gausset_prof::is_enabled() || rendering.count.is_empty() {
        return;
    }
    let _span = span("statistics");
    let mut counts = rendering.count.clone();
    counts.sort_unstable();
    let mean = counts.iter().map(|&n| f64::from(n)).sum::<f64>() / counts.len() as f64;
    counter("contributors of a pixel, mean", mean);
    counter("contributors of a pixel, p99", f64::from(counts[(counts.len() - 1) * 99 / 100]));
    counter("contributors of a pixel, most", f64::from(counts[counts.len() - 1]));
}

/// Counts splats that were not drawn by the reason.
fn count_culled(engine: &CpuEngine, view: &KernelView) {
    let parameters = &engine.state.parameters;
    let depth_row = view.rotation[2];
    let (mut behind, mut faint) = (0u64, 0u64);
    for i in 0..parameters.len() {
        let rows = &parameters.geometry[i / LANES];
        let value = |row: usize| rows[row].0[i % LANES];
        let depth: f32 = (0..3).map(|k| depth_row[k] * value(MEAN + k)).sum::<f32>() + view.translation[2];
        if depth <= view.near_plane {
            behind += 1;
        } else if value(LOGIT) < FAINTEST_LOGIT {
            faint += 1;
        }
    }
    let drawn = engine.pipeline.projected.keys.len() as u64;
    let outside = (parameters.len() as u64).saturating_sub(drawn + behind + faint);
    counter("culled: behind the camera", behind as f64);
    counter("culled: too faint", faint as f64);
    counter("culled: outside the picture", outside as f64);
}

/// Counts what a backward pass had to do, before the update changes anything.
pub(crate) fn count_backward(engine: &CpuEngine, adam: AdamMode, step: u64) {
    if !gausset_prof::is_enabled() || !step.is_multiple_of(EVERY) {
        return;
    }
    let _span = span("statistics");
    let pipeline = &engine.pipeline;
    let slots = &pipeline.sums.slots[..pipeline.lists.entry_count];
    let is_live = |slot: &&Slot| pipeline.sums.is_live(slot);
    counter(name::LIVE, slots.iter().filter(is_live).count() as f64);
    let blocks = engine.state.parameters.geometry.len();
    if adam == AdamMode::Dense {
        counter(name::BLOCKS, blocks as f64);
        return;
    }
    let mut is_touched = vec![false; blocks];
    for &key in &pipeline.projected.keys {
        let splat = key as u32 as usize;
        if is_touched[splat / LANES] {
            continue;
        }
        let first = pipeline.projected.first_entry(splat);
        let count = pipeline.projected.rects[splat].area() as usize;
        is_touched[splat / LANES] = slots[first..first + count].iter().any(|slot| is_live(&slot));
    }
    counter(name::BLOCKS, is_touched.iter().filter(|&&touched| touched).count() as f64);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The trained state of the reference workload (docs/benchmarks.md).
    const REFERENCE: StepSizes = StepSizes {
        splats: 165_751.0,
        sh_degree: 3,
        visible: 130_386.0,
        pixels: 516.0 * 344.0,
        intersections: 406_512.0,
        processed: 400_000.0,
        live: 254_955.0,
        cells: 1_150_127.0,
        blocks: 7_781.0,
    };

    #[test]
    fn the_floors_of_the_reference_workload_are_those_that_are_published() {
        // Rates of the machine that they were computed for: 2 x 16 lanes at 3.7 GHz; its reading stream for
        // `project`, its updating stream for the last stage.
        let rates = |gb_per_s: f64| Rates { vector_ops_per_s: 7.4e9, stream_bytes_per_s: gb_per_s * 1e9 };
        let floor = |stage: Stage, gb_per_s: f64| {
            let work = REFERENCE.work().into_iter().find(|work| work.stage == stage);
            work.map_or(f64::NAN, |work| work.floor_ms(&rates(gb_per_s), 1))
        };
        // Published with two digits, some as estimates.
        for (stage, gb_per_s, published, tolerance) in [
            (Stage::Project, 34.0, 1.4, 0.05),
            (Stage::Sort, 34.0, 0.4, 0.03),
            (Stage::Tile, 34.0, 0.8, 0.03),
            // The published one adds the copy of the records (0.8) to the arithmetic (2.5); both can overlap.
            (Stage::Blend, 34.0, 3.5, 1.2),
            // The published one has four of 16 passes cached.
            (Stage::Loss, 34.0, 0.6, 0.4),
            (Stage::BlendVjp, 34.0, 6.1, 0.3),
            (Stage::ProjectVjpAdam, 55.0, 3.9, 0.6),
        ] {
            let floor = floor(stage, gb_per_s);
            assert!((floor - published).abs() <= tolerance, "{}: {floor} ms", stage.name());
        }
    }

    #[test]
    fn a_second_thread_halves_what_is_not_bound_to_memory_or_one_thread() {
        let one = Rates { vector_ops_per_s: 1e9, stream_bytes_per_s: 1e15 };
        let two = Rates { vector_ops_per_s: 2e9, stream_bytes_per_s: 1e15 };
        for work in REFERENCE.work() {
            let ratio = work.floor_ms(&one, 1) / work.floor_ms(&two, 2);
            let expected = if work.is_serial { 1.0 } else { 2.0 };
            assert!((ratio - expected).abs() < 1e-9, "{}: {ratio}", work.stage.name());
        }
    }
}
