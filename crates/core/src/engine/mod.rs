//! The one seam between policy and device.
//!
//! The trainer decides (which view, which rates, which density rule); an engine executes and keeps the parameters
//! where they are. Everything an engine needs for a step is in the arguments, so a step can be replayed; two engines
//! given the same inputs agree within the tolerances of the fixtures.
//!
//! Exposure and pose corrections are *rows of groups inside the engine's state* ([`ExtraGroup`]): a step names
//! the rows it uses and the rates to move them with, so that nothing has to be read back between steps.
//!
//! | file | what |
//! |---|---|
//! | `step` | a view, learning rates, and all that a step needs besides |
//! | `render` | how pictures are made, and the pictures |
//! | `density` | the rules that change the set of splats |
//! | `state` | what an engine holds and a checkpoint keeps |
//! | `report` | what an engine says about itself and its steps, and what it will need |
//! | `work` | what a step had to do, and what that takes at least |

mod density;
mod render;
mod report;
mod state;
mod step;
mod work;

pub use density::{Bubble, ClassicRule, DensityRule, FreeRay, FreeSpaceRule, FreeView, McmcRule};
pub use render::{FrontQuery, Outputs, RenderOptions, Rendering};
pub use report::{DeviceInfo, MemoryNeed, MemoryUse, SceneSize, StepReport};
pub use state::{DensityStatistics, ExtraGroup, Group, Moments, SKY_WIDTH, TrainState};
pub use step::{AdamMode, CorrectionRates, GradientStatistic, Noise, Rates, StepParams, TrainView};
pub use work::{DeviceRates, Floors, StageFloor, StepWork};

use crate::{Camera, Pose, Splats};

/// Why a device could not do what it was asked.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum EngineError {
    /// The loss of a step was NaN or infinite; parameters are those before the step.
    #[error(
        "step {step}: loss on view `{view}` is {loss} (expected finite); parameters are as before this step"
    )]
    NonFiniteLoss {
        /// Number of the step.
        step: u64,
        /// Name of its view.
        view: String,
        /// Value found.
        loss: f64,
    },
    /// Inputs that do not fit together.
    #[error("{0}")]
    BadInput(String),
    /// The device itself failed: it is gone, or does not do what it is asked. Nothing is known of the state.
    #[error("device: {0}")]
    Device(String),
    /// More memory than allowed or available.
    #[error("{what} would need {} of memory{}", mebibytes(*needed), at_most(*limit))]
    OutOfMemory {
        /// What was to be allocated.
        what: String,
        /// Bytes that it would take.
        needed: u64,
        /// Bytes allowed; 0 = the device had none left, whatever it allows.
        limit: u64,
    },
}

impl EngineError {
    /// Whether the device failed, not what it was asked: it is lost, or has no memory left. Opened anew it may go on.
    #[must_use]
    pub fn is_of_device(&self) -> bool {
        matches!(self, Self::Device(_) | Self::OutOfMemory { limit: 0, .. })
    }
}

fn at_most(limit: u64) -> String {
    match limit {
        0 => ", and the device has none left".to_owned(),
        limit => format!(" (expected at most {})", mebibytes(limit)),
    }
}

fn mebibytes(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

/// A device that can train and render splats.
///
/// **Who owns what.** The engine owns the state; what [`Self::load`] takes is its own from then on, and what
/// [`Self::save`] gives is a copy. Pictures belong to the caller: an engine may keep what it needs of one under the name
/// (`index`, `reduction`) of its view. [`Self::render_into`] writes to buffers of the caller and keeps none of them.
///
/// **What may be enqueued.** [`Self::step`] and [`Self::densify`] may return before their work is done. It is done in the
/// order of the calls, and everything that looks at the state or reports on the past ([`Self::save`],
/// [`Self::corrections`], [`Self::splats`], [`Self::render`], [`Self::weight_in_front`], [`Self::work`], [`Self::flush`]) sees it done.
/// [`Self::poll`] alone reports on what happens to be finished.
///
/// **When failures are reported.** What the arguments do not allow, and memory that is known to be too small, is refused
/// at once: the call errs, has changed nothing, and the engine goes on as if it had not been. A step that fails while it
/// runs (its loss is not finite) changes nothing either, and nothing that is enqueued behind it is done. Its error is returned
/// by the next report and by every later call but `save`, `corrections` and `splats`, which give the state before that step, until
/// a state is loaded. After [`EngineError::Device`] nothing is promised.
///
/// The same calls give the same state and the same pictures, where [`DeviceInfo::deterministic`] says so to the bit.
/// `gausset_testkit::engine_contract` checks all of this on any engine.
pub trait Engine: Send {
    /// What it is.
    fn describe(&self) -> DeviceInfo;

    /// What training a scene of this size will take.
    fn needs(&self, scene: &SceneSize) -> MemoryNeed;

    /// Bytes that the state and the buffers of a view may take from now on: a view that would need more is an error, before
    /// anything is allocated for it. A device with memory of its own keeps to that instead.
    fn limit_memory(&mut self, bytes: u64) {
        let _ = bytes;
    }

    /// Replaces the whole state, and with it everything that was counted or had failed before.
    ///
    /// # Errors
    /// Arrays that do not fit together, too little memory; the engine then holds no splats.
    fn load(&mut self, state: TrainState) -> Result<(), EngineError>;

    /// Replaces the whole state by splats that are only drawn, with the corrections that their pictures may name: no
    /// moments, clocks and statistics need to be there. Steps and density rules may be refused until a state is loaded;
    /// [`Self::save`] gives the state that [`TrainState::new`] makes of them.
    ///
    /// # Errors
    /// Those of [`Self::load`].
    fn load_splats(&mut self, splats: Splats, extras: Vec<ExtraGroup>) -> Result<(), EngineError> {
        self.load(TrainState::new(splats, extras))
    }

    /// Reads the whole state back and changes nothing: `load(save())` is the identity.
    ///
    /// # Errors
    /// The device failed.
    fn save(&mut self) -> Result<TrainState, EngineError>;

    /// Reads the groups of corrections back: small beside the whole state, of which it is a part.
    ///
    /// # Errors
    /// The device failed.
    fn corrections(&mut self) -> Result<Vec<ExtraGroup>, EngineError> {
        Ok(self.save()?.extras)
    }

    /// Reads the splats back as they are to be looked at, with SH up to this degree: without what trains them, a small part
    /// of [`Self::save`].
    ///
    /// # Errors
    /// The device failed.
    fn splats(&mut self, sh_degree: u8) -> Result<Splats, EngineError> {
        let mut splats = self.save()?.splats;
        splats.cut_sh_degree(sh_degree);
        Ok(splats)
    }

    /// Enqueues one training step on some views together: the loss is the mean of theirs, and there is one update. May
    /// return before the step ran. `next` is a hint: the views that probably come next.
    ///
    /// # Errors
    /// Inputs that do not fit together, more views at once than the device takes (every device takes one), too little
    /// memory, a failed earlier step.
    fn step(
        &mut self,
        views: &[TrainView],
        next: &[TrainView],
        params: &StepParams,
    ) -> Result<(), EngineError>;

    /// Applies a density rule; enqueued like a step.
    ///
    /// # Errors
    /// Too little memory, a failed earlier step.
    fn densify(&mut self, rule: &DensityRule) -> Result<(), EngineError>;

    /// Waits for everything enqueued and reports on it: what was done since the last report.
    ///
    /// # Errors
    /// [`EngineError::NonFiniteLoss`] of the first step that had one; steps behind it were not executed.
    fn flush(&mut self) -> Result<StepReport, EngineError>;

    /// Reports on what has finished, without waiting; otherwise as [`Self::flush`]. What is still under way is in a
    /// later report: nothing is reported twice, and nothing is lost.
    ///
    /// # Errors
    /// Those of [`Self::flush`], as far as they are known.
    fn poll(&mut self) -> Result<StepReport, EngineError>;

    /// Renders the current splats, as they are after everything enqueued. Nothing of training changes by it: no state, no
    /// statistic, no report.
    ///
    /// # Errors
    /// Too little memory, a failed earlier step.
    fn render(
        &mut self,
        camera: &Camera,
        pose: &Pose,
        options: &RenderOptions,
        outputs: Outputs,
    ) -> Result<Rendering, EngineError> {
        let mut rendering = Rendering::default();
        self.render_into(camera, pose, options, outputs, &mut rendering)?;
        Ok(rendering)
    }

    /// [`Self::render`] into buffers that may have been used before, of which every value is replaced.
    ///
    /// # Errors
    /// Those of [`Self::render`]; the buffers are then as they were.
    fn render_into(
        &mut self,
        camera: &Camera,
        pose: &Pose,
        options: &RenderOptions,
        outputs: Outputs,
        rendering: &mut Rendering,
    ) -> Result<(), EngineError>;

    /// For each query the sum of the weights of the splats that are blended at the centre of its pixel and whose camera
    /// z is less than its depth; 0 outside the picture. `None` from a device that cannot answer.
    ///
    /// # Errors
    /// Too little memory, a failed earlier step.
    fn weight_in_front(
        &mut self,
        camera: &Camera,
        pose: &Pose,
        options: &RenderOptions,
        queries: &[FrontQuery],
    ) -> Result<Option<Vec<f32>>, EngineError> {
        let _ = (camera, pose, options, queries);
        Ok(None)
    }

    /// What the last step or picture had to do, counted now, which takes a walk over the buffers that it left. `None`
    /// where nothing was drawn since the state has changed otherwise, and from a device that does not count.
    fn work(&mut self) -> Option<StepWork> {
        None
    }

    /// What the stages of a step with so much work take at least, at rates that are measured now, which takes a tenth of
    /// a second. `None` from a device that does not know.
    fn floors(&mut self, work: &StepWork) -> Option<Floors> {
        let _ = work;
        None
    }
}
