//! The CPU engine: the stages of `raster`, the loss of `metrics`, the buffers between them and the order of a step.
//!
//! No policy: view, rates and density rule come in as arguments. Parameters are stored in blocks of 16 lanes and are
//! converted at `load` and `save` (and around density rules) only. Steps run synchronously.
//!
//! ```
//! use gausset_core::Splats;
//! use gausset_core::engine::{DensityRule, Engine, TrainState};
//! use gausset_cpu::{CpuEngine, CpuOptions};
//!
//! let mut engine = CpuEngine::new(CpuOptions { threads: 1, ..CpuOptions::default() })?;
//! engine.load(TrainState::new(Splats::zeros(0, 10), Vec::new()))?;
//! engine.densify(&DensityRule::ResetOpacity { max_opacity: 0.01 })?;
//! assert_eq!(engine.flush()?.splats, 10);
//! // The logit of 0.01 is -4.595.
//! assert!(engine.save()?.splats.opacity_logits.iter().all(|&logit| logit < -4.59));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod corrections;
mod engine;
mod free_space;
mod lower_bounds;
mod memory;
mod sky;
mod state;
mod statistics;
mod step;

use gausset_compute::level::{describe as describe_level, name as level_name};
use gausset_compute::{Exec, PeakRates};
use gausset_core::engine::{
    CorrectionGroup, DensityRule, DeviceInfo, Engine, EngineError, LowerBounds, MemoryEstimate,
    OcclusionQuery, Outputs, RenderOptions, Rendering, SceneSize, StepParams, StepReport, StepWork,
    TrainState, TrainView,
};
use gausset_core::{Camera, Pose, Splats};
use gausset_raster::in_front::weight_in_front;
use gausset_raster::tile::BlendInput;
use gausset_raster::view::KernelView;

use crate::engine::LastPass;
use crate::memory::ViewMemory;
use crate::state::BlockState;

pub use crate::engine::{CpuEngine, CpuOptions, UnsupportedLevel};

impl Engine for CpuEngine {
    fn describe(&self) -> DeviceInfo {
        let threads = self.pool.threads();
        let plural = if threads == 1 { "" } else { "s" };
        DeviceInfo {
            name: format!("CPU, {threads} thread{plural}, {}", describe_level(self.level)),
            kind: "cpu".to_owned(),
            threads,
            level: level_name(self.level).to_owned(),
        }
    }

    fn memory_needs(&self, scene: &SceneSize) -> MemoryEstimate {
        memory::memory_needs(scene)
    }

    fn limit_memory(&mut self, bytes: u64) {
        self.memory_limit = bytes;
    }

    fn load(&mut self, state: TrainState) -> Result<(), EngineError> {
        self.clear();
        self.state = BlockState::from_state(state, &self.pool)?;
        Ok(())
    }

    fn load_splats(&mut self, splats: Splats, extras: Vec<CorrectionGroup>) -> Result<(), EngineError> {
        self.clear();
        self.state = BlockState::from_splats(&splats, extras, &self.pool)?;
        Ok(())
    }

    fn save(&mut self) -> Result<TrainState, EngineError> {
        Ok(self.state.to_state(&self.pool))
    }

    fn read_corrections(&mut self) -> Result<Vec<CorrectionGroup>, EngineError> {
        Ok(self.state.extras.clone())
    }

    fn read_splats(&mut self, sh_degree: u8) -> Result<Splats, EngineError> {
        Ok(self.state.parameters.to_splats_of_degree(sh_degree, &self.pool))
    }

    fn step(
        &mut self,
        views: &[TrainView],
        _next: &[TrainView],
        params: &StepParams,
    ) -> Result<(), EngineError> {
        self.check_training()?;
        let view = params.single_view(views)?;
        (self.listed_view, self.last_pass) = (None, None);
        match self.run_step(view, params) {
            // Returned by the next report: the contract allows a step to run late.
            Err(error @ EngineError::NonFiniteLoss { .. }) => {
                self.pending_error = Some(error);
                Ok(())
            }
            // A step that is refused has changed nothing.
            outcome => outcome,
        }
    }

    fn densify(&mut self, rule: &DensityRule) -> Result<(), EngineError> {
        self.check_training()?;
        (self.listed_view, self.last_pass) = (None, None);
        let _span = gausset_prof::span("density");
        if let DensityRule::FreeSpace(rule) = rule {
            return self.apply_free_space(rule);
        }
        let mut state = std::mem::take(&mut self.state).into_state(&self.pool);
        gausset_density::apply(&mut state, rule, &self.pool).add_to(&mut self.report);
        self.state = BlockState::from_state(state, &self.pool)?;
        Ok(())
    }

    fn flush(&mut self) -> Result<StepReport, EngineError> {
        self.check()?;
        Ok(self.report.take_report(self.state.parameters.len()))
    }

    fn poll(&mut self) -> Result<StepReport, EngineError> {
        // Steps run synchronously: there is nothing to wait for.
        self.flush()
    }

    fn render_into(
        &mut self,
        camera: &Camera,
        pose: &Pose,
        options: &RenderOptions,
        outputs: Outputs,
        rendering: &mut Rendering,
    ) -> Result<(), EngineError> {
        self.check()?;
        (self.listed_view, self.last_pass) = (None, None);
        let view = KernelView::new(camera, pose).with_near_plane(options.near_plane);
        let name = || "a render".to_owned();
        self.reserve_list_memory(&name, &view, ViewMemory::render(outputs))?;
        self.pipeline.sky = self.sky_behind(options)?;
        self.pipeline.dropout = None;
        let exec = Exec { pool: &self.pool, level: self.level };
        let forward = self.pipeline.forward(exec, &self.state.parameters, &view, options, outputs);
        forward.map_err(|error| self.too_many_entries(&name, error))?;
        self.last_pass = Some(LastPass { size: view.size, sh_degree: options.sh_degree, update: None });
        self.listed_view = Some((*camera, *pose, *options));
        self.pipeline.rendering_into(&self.pool, &view, rendering);
        statistics::count_contributors(rendering);
        Ok(())
    }

    fn weight_in_front(
        &mut self,
        camera: &Camera,
        pose: &Pose,
        options: &RenderOptions,
        queries: &[OcclusionQuery],
    ) -> Result<Option<Vec<f32>>, EngineError> {
        self.check()?;
        let view = KernelView::new(camera, pose).with_near_plane(options.near_plane);
        // Right after a render of the same view the lists already exist.
        if self.listed_view != Some((*camera, *pose, *options)) {
            (self.listed_view, self.last_pass) = (None, None);
            let name = || "a render".to_owned();
            self.reserve_list_memory(&name, &view, ViewMemory::LISTS)?;
            let exec = Exec { pool: &self.pool, level: self.level };
            let splats = &self.state.parameters;
            self.pipeline.dropout = None;
            let lists = self.pipeline.lists(exec, splats, &view, options);
            lists.map_err(|error| self.too_many_entries(&name, error))?;
            self.listed_view = Some((*camera, *pose, *options));
        }
        let (lists, records) = (&self.pipeline.lists, &self.pipeline.projected.records);
        Ok(Some(weight_in_front(&self.pool, BlendInput { view: &view, lists, records }, queries)))
    }

    fn work(&mut self) -> Option<StepWork> {
        self.last_pass.map(|last| self.work_of_pass(&last))
    }

    fn lower_bounds(&mut self, work: &StepWork) -> Option<LowerBounds> {
        Some(lower_bounds::lower_bounds(
            work,
            &PeakRates::measure(Exec { pool: &self.pool, level: self.level }),
            self.pool.threads(),
        ))
    }
}
