//! Counts of the work of a step, on request and while a profile is recorded.
//!
//! Counting reads the buffers of the step that has just been done. Counts that need a pass over tile entries or splats
//! are taken in one of every `COUNT_INTERVAL` steps, in a separate span, so that they cost little and are visible in the
//! profile.

use gausset_compute::simd::LANES;
use gausset_core::engine::{AdamMode, Rendering, StepWork};
use gausset_prof::{counter, span};
use gausset_raster::blend_vjp::GradientSlot;
use gausset_raster::layout::{LOGIT, MEAN};
use gausset_raster::sort;
use gausset_raster::view::KernelView;

use crate::engine::{CpuEngine, LastPass};

/// One of this many steps is counted in full.
const COUNT_INTERVAL: u64 = 32;

/// Logit of opacity 1/255, below which nothing is rendered: `-ln 254`.
const MIN_VISIBLE_LOGIT: f32 = -5.537_334;

impl CpuEngine {
    /// Counts the work of the last pass; walks over all tile entries.
    pub(crate) fn work_of_pass(&self, last: &LastPass) -> StepWork {
        let (live, blocks) = last.update.map_or((0, 0), |adam| self.backward_work(adam));
        StepWork { live_entries: live as f64, updated_blocks: blocks as f64, ..self.forward_work(last) }
    }

    /// Counts the work of the last forward pass.
    fn forward_work(&self, last: &LastPass) -> StepWork {
        let (pipeline, parameters) = (&self.pipeline, &self.state.parameters);
        let (lists, blended) = (&pipeline.lists, &pipeline.blended);
        let masks_of = |(&first, &count): (&u32, &u32)| {
            blended.cell_masks.iter().skip(first as usize).take(count as usize).map(|mask| mask.count_ones())
        };
        let cells: u64 =
            lists.starts.iter().zip(&blended.processed_entries).flat_map(masks_of).map(u64::from).sum();
        StepWork {
            splats: parameters.len() as f64,
            sh_degree: last.sh_degree.min(parameters.sh_degree()),
            visible: pipeline.projected.visible_splats() as f64,
            pixels: f64::from(last.size[0]) * f64::from(last.size[1]),
            sort_passes: f64::from(sort::sort_passes(&pipeline.projected.sort_keys)),
            intersections: pipeline.projected.entries as f64,
            evaluated_entries: blended.processed_entries.iter().map(|&n| f64::from(n)).sum(),
            live_entries: 0.0,
            evaluated_cells: cells as f64,
            updated_blocks: 0.0,
        }
    }

    /// List entries with a gradient of the last backward pass, and blocks that were updated with them.
    fn backward_work(&self, adam: AdamMode) -> (usize, usize) {
        let pipeline = &self.pipeline;
        let slots = &pipeline.sums.slots[..pipeline.lists.entry_count];
        let is_live = |slot: &&GradientSlot| pipeline.sums.is_live(slot);
        let live = slots.iter().filter(is_live).count();
        let blocks = self.state.parameters.geometry.len();
        if adam == AdamMode::Dense {
            return (live, blocks);
        }
        let mut is_touched = vec![false; blocks];
        for &key in &pipeline.projected.sort_keys {
            let record = key as u32 as usize;
            let block = pipeline.projected.splat_index(record) / LANES;
            if is_touched[block] {
                continue;
            }
            let first = pipeline.projected.first_entry(record);
            let count = pipeline.projected.rects[record].area() as usize;
            is_touched[block] = slots[first..first + count].iter().any(|slot| is_live(&slot));
        }
        (live, is_touched.iter().filter(|&&touched| touched).count())
    }
}

/// Counts the work of the forward pass of a training step.
pub(crate) fn count_forward(engine: &CpuEngine, view: &KernelView, last: &LastPass, step: u64) {
    if !gausset_prof::is_enabled() {
        return;
    }
    let pipeline = &engine.pipeline;
    counter(StepWork::SPLATS, engine.state.parameters.len() as f64);
    counter(StepWork::VISIBLE, pipeline.projected.visible_splats() as f64);
    counter(StepWork::INTERSECTIONS, pipeline.projected.entries as f64);
    counter("tiles cut by the cap", pipeline.lists.cap_hits as f64);
    if !step.is_multiple_of(COUNT_INTERVAL) {
        return;
    }
    let _span = span("statistics");
    let sizes = engine.forward_work(last);
    counter(StepWork::SH_DEGREE, f64::from(sizes.sh_degree));
    counter(StepWork::PIXELS, sizes.pixels);
    counter(StepWork::SORT_PASSES, sizes.sort_passes);
    counter(StepWork::PROCESSED, sizes.evaluated_entries);
    counter(StepWork::CELLS, sizes.evaluated_cells);
    counter("bytes of the engine", engine.bytes() as f64);
    let mut lengths: Vec<u32> = pipeline.lists.lengths.clone();
    lengths.sort_unstable();
    if let Some(longest) = lengths.last() {
        let mean = lengths.iter().map(|&n| f64::from(n)).sum::<f64>() / lengths.len() as f64;
        counter("list of a tile, mean", mean);
        counter("list of a tile, p99", f64::from(lengths[(lengths.len() - 1) * 99 / 100]));
        counter("list of a tile, longest", f64::from(*longest));
    }
    count_culled(engine, view);
}

/// Counts how many splats were blended per pixel of a render.
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

/// Counts splats that were not rendered, by reason. Splats left out by dropout would have been visible.
fn count_culled(engine: &CpuEngine, view: &KernelView) {
    let parameters = &engine.state.parameters;
    let (mut behind, mut faint) = (0u64, 0u64);
    for i in 0..parameters.len() {
        let rows = &parameters.geometry[i / LANES];
        let value = |row: usize| rows[row].0[i % LANES];
        let depth = view.depth([value(MEAN), value(MEAN + 1), value(MEAN + 2)]);
        if depth <= view.near_plane {
            behind += 1;
        } else if value(LOGIT) < MIN_VISIBLE_LOGIT {
            faint += 1;
        }
    }
    let projected = &engine.pipeline.projected;
    let (drawn, left_out) = (projected.visible_splats(), projected.dropped_out);
    let outside = (parameters.len() as u64).saturating_sub(drawn + left_out + behind + faint);
    counter("culled: behind the camera", behind as f64);
    counter("culled: too faint", faint as f64);
    counter("culled: outside the picture", outside as f64);
    counter("left out at random", left_out as f64);
}

/// Counts the work of a backward pass, before the update changes anything.
pub(crate) fn count_backward(engine: &CpuEngine, adam: AdamMode, step: u64) {
    if !gausset_prof::is_enabled() || !step.is_multiple_of(COUNT_INTERVAL) {
        return;
    }
    let _span = span("statistics");
    let (live, blocks) = engine.backward_work(adam);
    counter(StepWork::LIVE, live as f64);
    counter(StepWork::BLOCKS, blocks as f64);
}
