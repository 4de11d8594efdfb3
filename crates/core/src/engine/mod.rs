//! The interface between training policy and device.
//!
//! The trainer decides (which view, which rates, which density rule); an engine executes and holds the parameters in
//! its own memory. The arguments contain everything that an engine needs for a step, so a step can be replayed. Two
//! engines given the same inputs agree within the tolerances of the fixtures.
//!
//! Exposure and pose corrections are *rows of groups inside the engine's state* ([`CorrectionGroup`]): a step specifies the
//! rows it uses and their learning rates, so nothing has to be read back between steps.
//!
//! | file | contents |
//! |---|---|
//! | `step` | a view, learning rates, and the other inputs of a step |
//! | `render_options` | render options and renders |
//! | `density` | the rules of density control |
//! | `state` | what an engine holds and a checkpoint saves |
//! | `report` | description of an engine, reports on its steps, memory estimates |
//! | `step_work` | counts of the work of a step, and lower bounds of its time |

mod density;
mod render_options;
mod report;
mod state;
mod step;
mod step_work;

pub use density::{Bubble, ClassicRule, DensityRule, FreeSpaceRay, FreeSpaceRule, FreeSpaceView, McmcRule};
pub use render_options::{OcclusionQuery, Outputs, RenderOptions, Rendering};
pub use report::{DeviceInfo, MemoryBytes, MemoryEstimate, SceneSize, StepReport};
pub use state::{AdamMoments, CorrectionGroup, CorrectionKind, DensityStatistics, SKY_VALUES, TrainState};
pub use step::{
    AdamMode, CorrectionRates, GradientStatistic, LearningRates, PositionNoise, StepParams, TrainView,
};
pub use step_work::{DevicePeakRates, LowerBounds, StageLowerBound, StepWork};

use crate::{Camera, Pose, Splats};

/// Why a call of an engine failed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// The loss of a step was NaN or infinite; parameters are as before the step.
    #[error(
        "step {step}: loss on view `{view}` is {loss} (expected finite); parameters are as before this step"
    )]
    NonFiniteLoss {
        /// Number of the step.
        step: u64,
        /// Name of its view.
        view: String,
        /// Loss found: NaN or infinite.
        loss: f64,
    },
    /// Inputs that are inconsistent or not supported.
    #[error("{0}")]
    InvalidInput(String),
    /// The device failed: it is lost or does not respond. The state is undefined.
    #[error("device: {0}")]
    DeviceFailed(String),
    /// More memory needed than allowed or available.
    #[error("{what} would need {} of memory{}", mebibytes(*needed), limit_text(*limit))]
    OutOfMemory {
        /// What was to be allocated.
        what: String,
        /// Bytes that `what` would need.
        needed: u64,
        /// Bytes allowed; 0 = the device had no memory left, below any limit.
        limit: u64,
    },
    /// A buffer larger than the device supports, whatever its memory.
    #[error("{what} would need a buffer of {} (the device supports at most {})", mebibytes(*needed), mebibytes(*limit))]
    DeviceLimit {
        /// What was to be allocated.
        what: String,
        /// Bytes that `what` would need.
        needed: u64,
        /// Bytes that the device supports.
        limit: u64,
    },
}

impl EngineError {
    /// Whether the device itself failed: it is lost, or has no memory left. Reopening it may help.
    #[must_use]
    pub fn is_device_failure(&self) -> bool {
        matches!(self, Self::DeviceFailed(_) | Self::OutOfMemory { limit: 0, .. })
    }
}

fn limit_text(limit: u64) -> String {
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
/// **Ownership.** The engine owns the state: [`Self::load`] takes ownership, and [`Self::save`] returns a copy. Images
/// belong to the caller; an engine may cache what it needs of one under the key (`index`, `downscale`) of its view.
/// [`Self::render_into`] writes to buffers of the caller and keeps no reference to them.
///
/// **Asynchronous calls.** [`Self::step`] and [`Self::densify`] may return before their work is done. It is done in the
/// order of the calls. Every method that reads the state or reports on past steps ([`Self::save`],
/// [`Self::read_corrections`], [`Self::read_splats`], [`Self::render`], [`Self::weight_in_front`], [`Self::work`],
/// [`Self::flush`]) waits for it. Only [`Self::poll`] reports on the finished part without waiting.
///
/// **Errors.** Invalid arguments, and memory that is known to be too small, are reported at once: the call returns an
/// error and has no effect. A step that fails while it runs (its loss is not finite) has no effect either, and nothing
/// that is enqueued after it is executed. Its error is returned by the next report and by every later call except
/// `save`, `corrections` and `splats`, which return the state before that step, until a state is loaded. After
/// [`EngineError::DeviceFailed`] nothing is guaranteed.
///
/// The same calls give the same state and the same renders, bit for bit.
/// `gausset_testkit::engine_contract` checks all of this for any engine.
pub trait Engine: Send {
    /// Name and properties of the device.
    fn describe(&self) -> DeviceInfo;

    /// Memory that training a scene of this size needs.
    fn memory_needs(&self, scene: &SceneSize) -> MemoryEstimate;

    /// Limits the bytes of the state and of the buffers of a view from now on: a view that needs more is an error
    /// before anything is allocated for it. A device with its own memory uses the limit of that memory instead.
    fn limit_memory(&mut self, bytes: u64) {
        let _ = bytes;
    }

    /// Replaces the whole state and resets all counters and errors.
    ///
    /// # Errors
    /// Returns an error if array lengths are inconsistent or memory is too small; the engine then holds no splats.
    fn load(&mut self, state: TrainState) -> Result<(), EngineError>;

    /// Replaces the whole state by splats that are only rendered, with the corrections that their views may use.
    /// Moments, clocks and statistics need not exist. Steps and density rules may be refused until a state is loaded;
    /// [`Self::save`] returns the state that [`TrainState::new`] creates from the splats.
    ///
    /// # Errors
    /// Those of [`Self::load`].
    fn load_splats(&mut self, splats: Splats, extras: Vec<CorrectionGroup>) -> Result<(), EngineError> {
        self.load(TrainState::new(splats, extras))
    }

    /// Reads the whole state back without changing it: `load(save())` is the identity.
    ///
    /// # Errors
    /// Returns an error if the device failed.
    fn save(&mut self) -> Result<TrainState, EngineError>;

    /// Reads the groups of corrections back: a small part of the whole state.
    ///
    /// # Errors
    /// Returns an error if the device failed.
    fn read_corrections(&mut self) -> Result<Vec<CorrectionGroup>, EngineError> {
        Ok(self.save()?.corrections)
    }

    /// Reads the splats back for display, with SH up to this degree and without moments: a small part of
    /// [`Self::save`].
    ///
    /// # Errors
    /// Returns an error if the device failed.
    fn read_splats(&mut self, sh_degree: u8) -> Result<Splats, EngineError> {
        let mut splats = self.save()?.splats;
        splats.cut_sh_degree(sh_degree);
        Ok(splats)
    }

    /// Enqueues one training step on one or several views: the loss is the mean over the views, and there is one
    /// update. May return before the step ran. `next` is a prefetch hint: the views that probably come next.
    ///
    /// # Errors
    /// Returns an error if inputs are inconsistent, if there are more views than the device supports (every device
    /// supports one), if memory is too small, or if an earlier step failed.
    fn step(
        &mut self,
        views: &[TrainView],
        next: &[TrainView],
        params: &StepParams,
    ) -> Result<(), EngineError>;

    /// Applies a density rule; enqueued like a step.
    ///
    /// # Errors
    /// Returns an error if memory is too small or an earlier step failed.
    fn densify(&mut self, rule: &DensityRule) -> Result<(), EngineError>;

    /// Waits for everything enqueued and reports on the steps since the last report.
    ///
    /// # Errors
    /// [`EngineError::NonFiniteLoss`] of the first step with such a loss; later steps were not executed.
    fn flush(&mut self) -> Result<StepReport, EngineError>;

    /// Reports on finished steps without waiting; otherwise like [`Self::flush`]. Unfinished steps are part of a later
    /// report: each step is reported exactly once.
    ///
    /// # Errors
    /// Those of [`Self::flush`], as far as they are known.
    fn poll(&mut self) -> Result<StepReport, EngineError>;

    /// Renders the current splats after everything enqueued is done. Rendering changes nothing of the training: no
    /// state, no statistic, no report.
    ///
    /// # Errors
    /// Returns an error if memory is too small or an earlier step failed.
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

    /// Like [`Self::render`], but reuses the buffers of `out`; every value is replaced.
    ///
    /// # Errors
    /// Those of [`Self::render`]; the buffers are then unchanged.
    fn render_into(
        &mut self,
        camera: &Camera,
        pose: &Pose,
        options: &RenderOptions,
        outputs: Outputs,
        rendering: &mut Rendering,
    ) -> Result<(), EngineError>;

    /// For each query, the sum of the weights of the splats that are blended at the centre of its pixel and whose
    /// camera z is less than its depth; 0 outside the image. `None` if the device does not support it.
    ///
    /// # Errors
    /// Returns an error if memory is too small or an earlier step failed.
    fn weight_in_front(
        &mut self,
        camera: &Camera,
        pose: &Pose,
        options: &RenderOptions,
        queries: &[OcclusionQuery],
    ) -> Result<Option<Vec<f32>>, EngineError> {
        let _ = (camera, pose, options, queries);
        Ok(None)
    }

    /// Counts of the work of the last step or render, taken now by a pass over the buffers that it left. `None` if
    /// nothing was rendered since the state changed, and on devices that do not count.
    fn work(&mut self) -> Option<StepWork> {
        None
    }

    /// Lower bounds of the stage times of a step with this work, from rates that are measured now (which takes a tenth
    /// of a second). `None` if the device does not support it.
    fn lower_bounds(&mut self, work: &StepWork) -> Option<LowerBounds> {
        let _ = work;
        None
    }
}
