//! The GPU engine: the stages of a training step as WGSL kernels, run through `wgpu` on Vulkan, Metal and DirectX 12.
//!
//! There is one submission per step, and only a record of 64 bytes is read back: counts stay on the device and drive
//! indirect dispatches; corrections of poses and colours are rows of a buffer that kernels read and update. There are
//! no float atomics and no assumptions on subgroups or on the order in which workgroups run: the same inputs give the
//! same bytes on a device.
//!
//! | file | contents |
//! |---|---|
//! | `record`, `header` | the records that a unit passes to its kernels, and the constants at the start of each kernel |
//! | `layout` | every buffer with its size |
//! | `kernels` | the files of `kernels/` in each kernel, and the access of its bindings |
//! | `schedule` | the dispatches of a step or render, in order |
//! | `in_flight` | units in flight: several at a time, each executed once |
//! | `capacity` | enlarging buffers, within limits |
//! | `split`, `pace` | splitting the work of a unit, to fit into memory and to keep the device responsive |
//! | `schedule::list`, `schedule::rule` | the dispatches of a view and of a step; those of a density rule |
//! | `task` | what is in flight: steps and rules |
//! | `rule`, `free_space` | the record of a rule, from the argument of the trait |
//! | `unit` | the record of a step, from the arguments of the trait |
//! | `corrections` | the rows of corrections in their buffer |
//! | `planes` | conversion of a state to and from device planes |
//! | `state` | the host's knowledge of a state, and checks of a state |
//! | `engine` | the engine's fields; running a unit to completion |
//! | `upload` | uploading a state and reading it back; memory needs |
//! | `traffic` | bytes that kernels move, for profiles |
//! | `selftest` | a step compared with stored results |
//! | `benchmark` | time of a step, to choose between a CPU and its integrated GPU |
//! | `device` | all code that uses `wgpu` |
//!
//! **Capacity.** Only the device knows whether all tile entries of a view fit. A planning kernel checks it before they
//! are written. If they do not fit, it sets the dispatch sizes of all later kernels to zero, so the unit has no effect,
//! and the host enlarges the buffers and submits the same unit again. A loss that is not finite halts in the same way.
//!
//! **Density** rules are units like steps: the device decides, counts and moves all data, and the host learns the
//! result from the status. While units are in flight, only the device knows the number of splats. With
//! [`DensityBackend::Host`] the state is read back, changed by `gausset-density` and uploaded again: the oracle of tests.
//! Clearing free space is one unit for each of its views, and one for the rule.
//!
//! ```
//! use gausset_core::engine::Engine;
//! use gausset_gpu::{AdapterChoice, Gpu, GpuEngine, GpuOptions};
//!
//! // Without an adapter, the CPU engine does the same.
//! if let Ok(gpu) = Gpu::open(&AdapterChoice::Best) {
//!     let engine = GpuEngine::new(&gpu, GpuOptions::default());
//!     assert_eq!(engine.describe().kind, "gpu");
//! }
//! ```
#![deny(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

#[cfg(test)]
mod barrier_tests;
pub mod benchmark;
mod capacity;
mod corrections;
mod device;
mod engine;
#[cfg(test)]
mod fixture_tests;
#[cfg(test)]
mod flight_tests;
mod free_space;
mod header;
mod in_flight;
mod kernels;
mod layout;
mod pace;
#[cfg(test)]
mod page_tests;
mod planes;
mod record;
mod rule;
#[cfg(test)]
mod rule_tests;
mod schedule;
pub mod selftest;
#[cfg(test)]
mod sort_tests;
mod split;
#[cfg(test)]
mod split_tests;
mod state;
#[cfg(test)]
mod steady_tests;
mod task;
#[cfg(test)]
mod test_device;
mod traffic;
#[cfg(test)]
mod translation_tests;
mod unit;
mod upload;

use gausset_core::engine::{
    CorrectionGroup, DensityRule, DeviceInfo, DevicePeakRates, Engine, EngineError, LowerBounds,
    MemoryEstimate, OcclusionQuery, Outputs, RenderOptions, Rendering, SceneSize, StepParams, StepReport,
    StepWork, TrainState, TrainView,
};
use gausset_core::{Camera, Pose, Splats};

pub use device::{AdapterChoice, AdapterKind, AdapterReport, AutomaticDevice, Gpu, GpuInfo, KernelCache};
pub use engine::{DensityBackend, GpuEngine, GpuOptions};

impl GpuEngine {
    fn check(&self) -> Result<(), EngineError> {
        self.pending_error.clone().map_or(Ok(()), Err)
    }

    /// Waits for units in flight, then returns an error if anything has failed.
    fn settle(&mut self) -> Result<(), EngineError> {
        self.drain();
        self.check()
    }

    fn check_training(&self) -> Result<(), EngineError> {
        if self.state.is_render_only {
            let what =
                "the splats were loaded for rendering only and cannot be trained (expected a whole state)";
            return Err(EngineError::InvalidInput(what.to_owned()));
        }
        Ok(())
    }

    /// Clears free space with the CPU engine.
    fn clear_space_on_host(&mut self, rule: &DensityRule) -> Result<(), EngineError> {
        let Some(mut helper) = self.helper.take() else {
            let what = "clearing free space on the host needs a CPU engine (expected `with_helper`)";
            return Err(EngineError::InvalidInput(what.to_owned()));
        };
        let outcome = self.read_state().and_then(|state| {
            helper.load(state)?;
            helper.densify(rule)?;
            let report = helper.flush()?;
            let state = helper.save()?;
            helper.load(TrainState::default())?;
            Ok((report, state))
        });
        self.helper = Some(helper);
        let (report, state) = outcome?;
        self.upload_state(state)?;
        self.report.cleared += report.cleared;
        Ok(())
    }
}

impl Engine for GpuEngine {
    fn describe(&self) -> DeviceInfo {
        DeviceInfo {
            name: self.gpu().info().full_name(),
            kind: "gpu".to_owned(),
            threads: self.pool.threads(),
            level: String::new(),
        }
    }

    fn memory_needs(&self, scene: &SceneSize) -> MemoryEstimate {
        self.memory_need(scene)
    }

    fn limit_memory(&mut self, bytes: u64) {
        // A device with its own memory uses the limit of that memory.
        if self.gpu().info().shares_memory() {
            let left = bytes.saturating_sub(self.driver_bytes);
            self.memory.set_limit(left.min(self.device_limit.unwrap_or(u64::MAX)));
        }
    }

    fn load(&mut self, state: TrainState) -> Result<(), EngineError> {
        self.clear()?;
        state::check_state(&state)?;
        self.upload_state(state)
    }

    fn load_splats(&mut self, splats: Splats, extras: Vec<CorrectionGroup>) -> Result<(), EngineError> {
        self.clear()?;
        state::check_splats("splats", &splats)?;
        state::check_groups(&extras)?;
        self.upload_splats(&splats, &extras)
    }

    fn save(&mut self) -> Result<TrainState, EngineError> {
        self.drain();
        self.read_state()
    }

    fn read_splats(&mut self, sh_degree: u8) -> Result<Splats, EngineError> {
        self.drain();
        self.read_splats(sh_degree)
    }

    fn read_corrections(&mut self) -> Result<Vec<CorrectionGroup>, EngineError> {
        self.drain();
        if self.state.groups.words() == 0 {
            return Ok(self.state.groups.read(&[]));
        }
        self.read_corrections()
    }

    fn step(
        &mut self,
        views: &[TrainView],
        _next: &[TrainView],
        params: &StepParams,
    ) -> Result<(), EngineError> {
        self.acknowledge_finished();
        self.check()?;
        self.check_training()?;
        let view = params.single_view(views)?;
        unit::check_projection(&view.camera)?;
        self.submit_step(view, params)
    }

    fn densify(&mut self, rule: &DensityRule) -> Result<(), EngineError> {
        self.check_training()?;
        if let DensityRule::FreeSpace(rule) = rule {
            let views = rule.views.iter().map(|view| &view.camera);
            views
                .chain(rule.cameras.iter().map(|(camera, _)| camera))
                .try_for_each(unit::check_projection)?;
        }
        if self.submit_rule(rule)? {
            return Ok(());
        }
        self.settle()?;
        if matches!(rule, DensityRule::FreeSpace(_)) {
            return self.clear_space_on_host(rule);
        }
        let mut state = self.read_state()?;
        gausset_density::apply(&mut state, rule, &self.pool).add_to(&mut self.report);
        self.upload_state(state)?;
        Ok(())
    }

    fn flush(&mut self) -> Result<StepReport, EngineError> {
        self.settle()?;
        Ok(self.report.take_report(self.state.splats))
    }

    fn poll(&mut self) -> Result<StepReport, EngineError> {
        self.acknowledge_finished();
        self.check()?;
        Ok(self.report.take_report(self.state.splats))
    }

    fn render_into(
        &mut self,
        camera: &Camera,
        pose: &Pose,
        options: &RenderOptions,
        outputs: Outputs,
        rendering: &mut Rendering,
    ) -> Result<(), EngineError> {
        unit::check_projection(camera)?;
        self.settle()?;
        self.render_view(camera, pose, options, outputs, rendering)
    }

    fn weight_in_front(
        &mut self,
        camera: &Camera,
        pose: &Pose,
        options: &RenderOptions,
        queries: &[OcclusionQuery],
    ) -> Result<Option<Vec<f32>>, EngineError> {
        unit::check_projection(camera)?;
        self.settle()?;
        self.weights_in_front(camera, pose, options, queries).map(Some)
    }

    /// Only the measured rate, that of a copy from buffer to buffer. The profile has the bytes and times of the stages.
    fn lower_bounds(&mut self, _work: &StepWork) -> Option<LowerBounds> {
        self.settle().ok()?;
        let bytes_per_s = self.memory.copy_rate().ok()?;
        Some(LowerBounds {
            rates: DevicePeakRates { bytes_per_s, ..DevicePeakRates::default() },
            stages: Vec::new(),
        })
    }
}
