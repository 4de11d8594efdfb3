//! Makes splats in empty space transparent: tests the rays of each view against its tile lists, then the bubbles.

use gausset_compute::Exec;
use gausset_compute::simd::LANES;
use gausset_core::engine::{EngineError, FreeSpaceRule, RenderOptions};
use gausset_raster::free_space::{Bubbles, FreeSpaceEvidence};
use gausset_raster::layout::{LOGIT, MEAN};
use gausset_raster::view::KernelView;

use crate::engine::CpuEngine;
use crate::memory::ViewMemory;

/// Blocks of splats per task; fixed, so that the partition does not depend on the number of threads.
const CHUNK: usize = 256;

impl CpuEngine {
    /// Lowers the opacity of the splats that the rule removes.
    pub(crate) fn apply_free_space(&mut self, rule: &FreeSpaceRule) -> Result<(), EngineError> {
        let splats = self.state.parameters.len();
        let mut evidence = FreeSpaceEvidence::new(splats);
        let options = RenderOptions { sh_degree: 0, ..RenderOptions::default() };
        self.pipeline.dropout = None;
        for view in &*rule.views {
            let kernel_view = KernelView::new(&view.camera, &view.pose);
            let name = || "a free-space view".to_owned();
            self.reserve_list_memory(&name, &kernel_view, ViewMemory::FREE_SPACE)?;
            let exec = Exec { pool: &self.pool, level: self.level };
            let parameters = &self.state.parameters;
            let listed = self.pipeline.lists(exec, parameters, &kernel_view, &options);
            listed.map_err(|error| self.too_many_entries(&name, error))?;
            evidence.add(view, &self.pipeline, &self.state.parameters, rule.free_fraction);
        }
        let places = Bubbles::new(rule);
        let (parameters, moments) = (&mut self.state.parameters.geometry, &mut self.state.moment1.geometry);
        let mut parts: Vec<_> = parameters
            .chunks_mut(CHUNK)
            .zip(moments.chunks_mut(CHUNK))
            .map(|(parameters, moments)| (parameters, moments, 0u64))
            .collect();
        self.pool.run_parts(&mut parts, |chunk, (parameters, moments, cleared)| {
            for (block, (rows, moments)) in parameters.iter_mut().zip(moments.iter_mut()).enumerate() {
                let first = (chunk * CHUNK + block) * LANES;
                for lane in 0..LANES.min(splats - first) {
                    let mean = std::array::from_fn(|k| rows[MEAN + k].0[lane]);
                    let is_in_bubble = || places.as_ref().is_some_and(|places| places.is_removed(mean));
                    if evidence.is_removed(first + lane, rule) || is_in_bubble() {
                        // A splat that is already transparent is not counted again.
                        *cleared += u64::from(rows[LOGIT].0[lane] > FreeSpaceRule::REMOVED_LOGIT);
                        rows[LOGIT].0[lane] = FreeSpaceRule::REMOVED_LOGIT;
                        moments[LOGIT].0[lane] = 0.0;
                    }
                }
            }
        });
        self.report.cleared += parts.iter().map(|(.., cleared)| cleared).sum::<u64>();
        Ok(())
    }
}
