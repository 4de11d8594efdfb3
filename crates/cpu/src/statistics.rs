//! What a step had to do, counted while a profile is recorded, and what that costs at least.
//!
//! Counting reads the buffers of the step that has just been done. What needs a walk over tile entries or splats is
//! counted in one step of `EVERY`, in a span of its own, so that a profile costs next to nothing and shows it.
//!
//! A floor is what no machine of the measured rates could do faster: bytes that have to be read or written at least
//! once, at the rate of the cache or memory that holds as many; multiplications on 16 lanes; and values that go to a
//! place that a counter tells. The largest of the three counts. Additions, comparisons and shuffles are not in it:
//! processors have pipes of their own for them. So a floor errs on the low side, and what a stage takes beyond it is
//! more than the factor says.

use gausset_compute::Rates;
use gausset_compute::simd::LANES;
use gausset_core::engine::{AdamMode, Rendering, StepParams};
use gausset_core::{Stage, sh};
use gausset_prof::{counter, span};
use gausset_raster::blend_vjp::Slot;
use gausset_raster::layout::{LOGIT, MEAN};
use gausset_raster::sort;
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
    pub(super) const PASSES: &str = "sort passes";
}

/// Sizes of a step: what the times of its stages follow from.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StepSizes {
    /// Splats.
    pub splats: f64,
    /// SH degree that is drawn and learnt.
    pub sh_degree: u8,
    /// Splats drawn.
    pub visible: f64,
    /// Pixels.
    pub pixels: f64,
    /// Passes of the sort that move keys.
    pub sort_passes: f64,
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
    /// Multiplications on 16 lanes, alone or with an addition, and what takes as long or longer: divisions, roots.
    pub vector_ops: f64,
    /// Values put to a place that a counter tells.
    pub placements: f64,
    /// Parts that the stage is cut into: more threads than these do not help.
    pub parts: usize,
}

/// Bytes of a float.
const FLOAT: f64 = 4.0;
/// Rows of a block that every splat has: mean, scale, rotation, opacity, colour.
const GEOMETRY_ROWS: f64 = 14.0;
/// Bytes of a screen splat.
const RECORD_BYTES: f64 = 64.0;
/// Bytes of the gradient sums of a tile entry.
const SLOT_BYTES: f64 = 64.0;
/// Bytes of a sort key, and of an entry of a tile list.
const KEY_BYTES: f64 = 8.0;
/// Multiplications of a block in `geometry.rs` and `shape.rs`: 9 for the point, 1 + 4 for the ratios, 4 for the
/// Jacobian, 12 + 18 + 6 for its product with rotation and scale, 9 for the covariance, 9 for its determinant, 3 for
/// that and its inverse, 2 for the mean; 6 and 4 to normalise the quaternion, 21 for its matrix, 3 times 10 for the
/// exponentials. The logarithm and the sigmoid are left out.
const GEOMETRY_OPS: f64 = 138.0;
/// Multiplications of an entry in a cell, forward: 5 for the exponent, 5 for the power (`exp2_in_range`), 1 for the
/// transmittance, 1 for the weight, 3 for the colour.
const BLEND_OPS: f64 = 15.0;
/// The same, backward: 10 for the alpha, 2 for transmittance and weight, 3 for the gain, 1 for its share, 2 for what
/// is lost behind (a division), 2 for the moments of the first order, 3 for those of the second, 3 for the colour.
const BLEND_VJP_OPS: f64 = 26.0;
/// Multiplications of 16 values of a channel in the loss: 14 passes of the window (4 moments and 3 derivatives, down
/// and along) of 6 each, because opposite taps are added first.
const LOSS_OPS: f64 = 84.0;
/// Bytes of a pixel in the loss: three colours, their gradient, and the target.
const LOSS_BYTES: f64 = 27.0;
/// Multiplications of Adam on a row of 16 values (`adam.rs`): 2 for the first moment, 3 for the second, 2 for their
/// bias, a root, a division, and 1 for the rate.
const ADAM_OPS: f64 = 10.0;

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
            sort_passes: median(name::PASSES)?,
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
        // Rows of the spherical harmonics beyond the first.
        let rest_rows = 3.0 * (sh::coefficients(self.sh_degree) - 1) as f64;
        let of = |stage, bytes, vector_ops, placements| StageWork {
            stage,
            bytes,
            vector_ops,
            placements,
            parts: usize::MAX,
        };
        vec![
            // Colours are computed in blocks with a visible splat, of which there is one for 16 of these at least.
            of(
                Stage::Project,
                FLOAT * (GEOMETRY_ROWS * self.splats + rest_rows * self.visible)
                    + RECORD_BYTES * self.visible,
                (GEOMETRY_OPS * self.splats + (3.0 + rest_rows) * self.visible) / LANES as f64,
                0.0,
            ),
            // Keys are counted once, then read and written by each pass that moves them.
            StageWork {
                parts: sort::chunk_count(self.visible as usize, usize::MAX / 2),
                ..of(
                    Stage::Sort,
                    KEY_BYTES * (1.0 + 2.0 * self.sort_passes) * self.visible,
                    0.0,
                    self.sort_passes * self.visible,
                )
            },
            of(Stage::Tile, KEY_BYTES * self.intersections, 0.0, self.intersections),
            // The lists, and four floats of each pixel. Records are read again and again, from a cache.
            of(
                Stage::Blend,
                KEY_BYTES * self.processed + 4.0 * FLOAT * self.pixels,
                BLEND_OPS * self.cells,
                0.0,
            ),
            of(Stage::Loss, LOSS_BYTES * self.pixels, LOSS_OPS * 3.0 * self.pixels / LANES as f64, 0.0),
            of(
                Stage::BlendVjp,
                KEY_BYTES * self.processed + 4.0 * FLOAT * self.pixels + SLOT_BYTES * self.live,
                BLEND_VJP_OPS * self.cells,
                0.0,
            ),
            // Parameters and two moments, read and written.
            of(
                Stage::ProjectVjpAdam,
                6.0 * FLOAT * (GEOMETRY_ROWS + rest_rows) * LANES as f64 * self.blocks
                    + SLOT_BYTES * self.live,
                ADAM_OPS * (GEOMETRY_ROWS + rest_rows) * self.blocks,
                0.0,
            ),
        ]
    }
}

impl StageWork {
    /// Milliseconds that the stage takes at least on a machine of these rates with so many threads.
    #[must_use]
    pub fn floor_ms(&self, rates: &Rates, threads: usize) -> f64 {
        let share = self.parts.min(threads) as f64 / threads as f64;
        // What is read and written counts twice but lies in one place.
        let bytes = self.bytes / rates.stream_of(self.bytes / 2.0);
        let operations = self.vector_ops / (share * rates.vector_ops_per_s);
        let placements = self.placements / (share * rates.placements_per_s);
        1e3 * bytes.max(operations).max(placements)
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
            sh_degree: self.last_degree.min(parameters.sh_degree()),
            visible: pipeline.projected.keys.len() as f64,
            pixels: f64::from(self.last_size[0]) * f64::from(self.last_size[1]),
            sort_passes: f64::from(sort::moving_passes(&pipeline.projected.keys)),
            intersections: pipeline.projected.entries as f64,
            processed: blended.processed.iter().map(|&n| f64::from(n)).sum(),
            live: 0.0,
            cells: cells as f64,
            blocks: 0.0,
        }
    }
}

/// Counts what the forward pass of a training step had to do.
pub(crate) fn count_forward(engine: &CpuEngine, view: &KernelView, params: &StepParams) {
    if !gausset_prof::is_enabled() {
        return;
    }
    let step = params.step;
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
    counter(name::PASSES, sizes.sort_passes);
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

/// Counts splats that were not drawn by the reason. What dropout left out would have been drawn.
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
    let projected = &engine.pipeline.projected;
    let (drawn, left_out) = (projected.keys.len() as u64, projected.left_out);
    let outside = (parameters.len() as u64).saturating_sub(drawn + left_out + behind + faint);
    counter("culled: behind the camera", behind as f64);
    counter("culled: too faint", faint as f64);
    counter("culled: outside the picture", outside as f64);
    counter("left out at random", left_out as f64);
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
    use gausset_raster::layout::{Blocks, GeometryBlock};
    use gausset_raster::project::Record;

    use super::*;

    /// A step of round numbers, all of them large.
    const STEP: StepSizes = StepSizes {
        splats: 160_000.0,
        sh_degree: 3,
        visible: 120_000.0,
        pixels: 200_000.0,
        sort_passes: 3.0,
        intersections: 400_000.0,
        processed: 300_000.0,
        live: 250_000.0,
        cells: 1_000_000.0,
        blocks: 10_000.0,
    };

    /// A machine with a fast cache and a slow memory, and otherwise without limits.
    fn only(vector_ops_per_s: f64, placements_per_s: f64, cache: f64, memory: f64) -> Rates {
        Rates {
            vector_ops_per_s,
            placements_per_s,
            stream_bytes_per_s: [cache, cache, cache, memory, memory],
        }
    }

    fn assert_close(a: f64, b: f64) {
        assert!((a - b).abs() <= 1e-9 * b.abs(), "{a} {b}");
    }

    fn floor(stage: Stage, sizes: &StepSizes, rates: &Rates, threads: usize) -> f64 {
        let work = sizes.work().into_iter().find(|work| work.stage == stage);
        work.map_or(f64::NAN, |work| work.floor_ms(rates, threads))
    }

    #[test]
    fn bytes_are_those_of_the_arrays() {
        assert_eq!(RECORD_BYTES as usize, size_of::<Record>());
        assert_eq!(SLOT_BYTES as usize, size_of::<Slot>());
        assert_eq!(GEOMETRY_ROWS as usize * LANES * size_of::<f32>(), size_of::<GeometryBlock>());
        // The update reads and writes the whole of parameters and both moments of blocks that are full.
        let splats = gausset_core::Splats::zeros(2, 3 * LANES);
        let array = Blocks::from_splats(&splats).bytes() as f64;
        let sizes = StepSizes { sh_degree: 2, blocks: 3.0, ..StepSizes::default() };
        let update = sizes.work().into_iter().find(|work| work.stage == Stage::ProjectVjpAdam);
        assert_eq!(update.map(|work| work.bytes), Some(6.0 * array));
    }

    #[test]
    fn the_slowest_of_bytes_arithmetic_and_placing_is_the_floor() {
        let free = f64::INFINITY;
        // 3 colours x 84 multiplications x 200,000 pixels / 16 lanes at 10^9 a second.
        assert_close(floor(Stage::Loss, &STEP, &only(1e9, free, free, free), 1), 3.15);
        // 27 bytes of them at 10^9 a second.
        assert_close(floor(Stage::Loss, &STEP, &only(free, free, 1e9, 1e9), 1), 5.4);
        assert_close(floor(Stage::Loss, &STEP, &only(1e9, free, 1e9, 1e9), 1), 5.4);
        // Three passes over 120,000 keys.
        assert_close(floor(Stage::Sort, &STEP, &only(free, 1e9, free, free), 1), 0.36);
        assert_close(floor(Stage::Tile, &STEP, &only(free, 1e9, free, free), 1), 0.4);
    }

    #[test]
    fn what_fits_into_a_cache_is_not_set_against_the_memory() {
        let rates = only(f64::INFINITY, f64::INFINITY, 1e11, 1e9);
        let small = StepSizes { splats: 2_000.0, visible: 2_000.0, ..STEP };
        // 2,000 splats are 600 KB and 160,000 of them 44 MB: the memory is a hundred times slower here.
        let bytes = |sizes: &StepSizes| sizes.work()[0].bytes;
        assert_close(floor(Stage::Project, &small, &rates, 1), 1e3 * bytes(&small) / 1e11);
        assert_close(floor(Stage::Project, &STEP, &rates, 1), 1e3 * bytes(&STEP) / 1e9);
    }

    #[test]
    fn threads_share_the_sort_as_far_as_it_is_cut() {
        // Twice the threads have twice the rate together.
        let of = |sizes: &StepSizes, threads: usize| {
            let rate = 1e9 * threads as f64;
            floor(Stage::Sort, sizes, &only(f64::INFINITY, rate, f64::INFINITY, f64::INFINITY), threads)
        };
        assert_close(of(&STEP, 2), of(&STEP, 1) / 2.0);
        // 10,000 keys are one part, which a thread sorts alone; 30,000 are three.
        let few = StepSizes { visible: 10_000.0, ..STEP };
        assert_close(of(&few, 2), of(&few, 1));
        assert_close(of(&few, 8), of(&few, 1));
        let some = StepSizes { visible: 30_000.0, ..STEP };
        assert_close(of(&some, 8), of(&some, 3));
    }

    #[test]
    fn a_lower_degree_is_less_work() {
        let rates = only(1e9, 1e9, 1e10, 1e10);
        let low = StepSizes { sh_degree: 0, ..STEP };
        for stage in [Stage::Project, Stage::ProjectVjpAdam] {
            assert!(floor(stage, &low, &rates, 1) < 0.7 * floor(stage, &STEP, &rates, 1), "{}", stage.name());
        }
    }
}
