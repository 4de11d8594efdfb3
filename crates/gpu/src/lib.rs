//! The GPU engine: the stages of a training step as WGSL kernels, run through `wgpu` on Vulkan, Metal and DirectX 12.
//!
//! One submission per step and nothing read back but a record of 64 bytes: counts stay on the device and drive indirect
//! dispatches; corrections of poses and colours are rows of a buffer that kernels read and move. There are no float atomics,
//! no assumption on subgroups or on the order in which workgroups run: the same inputs give the same bytes on a device.
//!
//! | file | what |
//! |---|---|
//! | `record`, `header` | what a unit tells its kernels, and the constants that they start with |
//! | `layout` | every buffer with its size |
//! | `kernels` | which files of `kernels/` make a kernel, and how it sees its buffers |
//! | `schedule` | the dispatches of a step or picture, in order |
//! | `flight` | units on their way: several at a time, each done once |
//! | `room` | more room, within limits |
//! | `split`, `pace` | how the work of a unit is taken apart, so that it has room and holds nobody up |
//! | `schedule::list`, `schedule::rule` | those of a view and of a step; those of a density rule |
//! | `task` | what is under way: steps and rules |
//! | `rule`, `free_space` | the record of a rule from the argument of the trait |
//! | `unit` | the record of a step from the arguments of the trait |
//! | `corrections` | the rows of corrections in their buffer |
//! | `planes` | a state on its way to the device and back |
//! | `state` | what is known of a state on the host, what is checked of it |
//! | `engine` | what an engine holds; a unit to its end |
//! | `hold` | a state to the device and back; what it takes |
//! | `traffic` | bytes that kernels move, for profiles |
//! | `selftest` | a step against stored results |
//! | `trial` | how long a step takes, to choose between a processor and its own GPU |
//! | `device` | everything that names `wgpu` |
//!
//! **Room.** Whether all tile entries of a view fit is known on the device alone. A planner tests it before anything of that
//! size is written; where they do not fit it takes all workgroups away from what follows, so the unit changes nothing, and
//! the host gives more room and submits the same unit again. A loss that is not finite halts in the same way.
//!
//! **Density** rules are units like steps: the device decides, counts and moves everything to its place, and the host hears of
//! it with the record. How many splats there are is therefore known on the device alone while units are under way. With
//! [`DensityOn::Host`] the state comes back instead, `gausset-density` changes it, it goes up again: the oracle of tests. What
//! clears free space is a unit for each of its views, and one for the rule.
#![deny(unsafe_code)]

#[cfg(test)]
mod barrier_tests;
mod corrections;
mod device;
mod engine;
#[cfg(test)]
mod fixture_tests;
mod flight;
#[cfg(test)]
mod flight_tests;
mod free_space;
mod header;
mod hold;
mod kernels;
mod layout;
mod pace;
#[cfg(test)]
mod page_tests;
mod planes;
mod record;
mod room;
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
mod traffic;
#[cfg(test)]
mod translation_tests;
pub mod trial;
mod unit;

use gausset_core::engine::{
    DensityRule, DeviceInfo, DeviceRates, Engine, EngineError, ExtraGroup, Floors, FrontQuery, MemoryNeed,
    Outputs, RenderOptions, Rendering, SceneSize, StepParams, StepReport, StepWork, TrainState, TrainView,
};
use gausset_core::{Camera, Pose, Splats};

pub use device::{AdapterChoice, AdapterKind, AdapterReport, Automatic, Gpu, GpuInfo, KernelCache};
pub use engine::{DensityOn, GpuEngine, GpuOptions};

impl GpuEngine {
    fn check(&self) -> Result<(), EngineError> {
        self.failed.clone().map_or(Ok(()), Err)
    }

    /// Waits for what is under way, then says whether anything has failed.
    fn settle(&mut self) -> Result<(), EngineError> {
        self.drain();
        self.check()
    }

    fn check_training(&self) -> Result<(), EngineError> {
        if self.state.is_only_drawn {
            let what = "splats that were loaded to be drawn are asked to be trained (expected a whole state)";
            return Err(EngineError::BadInput(what.to_owned()));
        }
        Ok(())
    }

    /// Free space as the processor clears it.
    fn clear_space_on_host(&mut self, rule: &DensityRule) -> Result<(), EngineError> {
        let Some(mut helper) = self.helper.take() else {
            let what =
                "free space is to be cleared on the host (expected an engine of the processor that helps)";
            return Err(EngineError::BadInput(what.to_owned()));
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
        self.hold_state(state)?;
        self.report.cleared += report.cleared;
        Ok(())
    }
}

impl Engine for GpuEngine {
    fn describe(&self) -> DeviceInfo {
        DeviceInfo {
            name: self.name(),
            kind: "gpu".to_owned(),
            threads: self.pool.threads(),
            level: String::new(),
            deterministic: true,
        }
    }

    fn needs(&self, scene: &SceneSize) -> MemoryNeed {
        self.memory_need(scene)
    }

    fn limit_memory(&mut self, bytes: u64) {
        // A device with memory of its own keeps to that.
        if self.gpu().info().shares_memory() {
            let left = bytes.saturating_sub(self.driver_bytes);
            self.memory.limit_to(left.min(self.own_limit.unwrap_or(u64::MAX)));
        }
    }

    fn load(&mut self, state: TrainState) -> Result<(), EngineError> {
        self.clear()?;
        state::check_state(&state)?;
        self.hold_state(state)
    }

    fn load_splats(&mut self, splats: Splats, extras: Vec<ExtraGroup>) -> Result<(), EngineError> {
        self.clear()?;
        state::check_splats("splats", &splats)?;
        state::check_groups(&extras)?;
        self.hold_splats(&splats, &extras)
    }

    fn save(&mut self) -> Result<TrainState, EngineError> {
        self.drain();
        self.read_state()
    }

    fn splats(&mut self, sh_degree: u8) -> Result<Splats, EngineError> {
        self.drain();
        self.read_splats(sh_degree)
    }

    fn corrections(&mut self) -> Result<Vec<ExtraGroup>, EngineError> {
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
        self.collect();
        self.check()?;
        self.check_training()?;
        let view = params.only_view(views)?;
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
        self.hold_state(state)?;
        Ok(())
    }

    fn flush(&mut self) -> Result<StepReport, EngineError> {
        self.settle()?;
        Ok(self.report.take(self.state.splats))
    }

    fn poll(&mut self) -> Result<StepReport, EngineError> {
        self.collect();
        self.check()?;
        Ok(self.report.take(self.state.splats))
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
        self.draw(camera, pose, options, outputs, rendering)
    }

    fn weight_in_front(
        &mut self,
        camera: &Camera,
        pose: &Pose,
        options: &RenderOptions,
        queries: &[FrontQuery],
    ) -> Result<Option<Vec<f32>>, EngineError> {
        unit::check_projection(camera)?;
        self.settle()?;
        self.ask(camera, pose, options, queries).map(Some)
    }

    /// The rate alone: that of a copy from buffer to buffer. What stages move, and how long they take, profiles tell.
    fn floors(&mut self, _work: &StepWork) -> Option<Floors> {
        self.settle().ok()?;
        let bytes_per_s = self.memory.copy_rate().ok()?;
        Some(Floors { rates: DeviceRates { bytes_per_s, ..DeviceRates::default() }, stages: Vec::new() })
    }
}
