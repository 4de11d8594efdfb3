//! The training run: folder, loop, checkpoints, result.
//!
//! ```text
//! start ── first splats ──┐                     ┌─▶ flush ─▶ Progress, metrics.jsonl
//!                         ├─▶ load ─▶ step … ───┼─▶ save ─▶ checkpoints/step_….ckpt
//! resume ── checkpoint ───┘                     └─▶ render ─▶ eval/       … save ─▶ splats.ply
//! ```
//! The owner of a run advances it in small units of work ([`Run::advance`]): a step, an image of an evaluation, a
//! checkpoint. Between them the owner can render on the device, and other threads can send requests ([`Request`]).
//!
//! Nothing on the right affects the steps: flushing, saving and rendering only read. A run therefore writes the same
//! `splats.ply` however often it is viewed, stopped, killed and resumed. A kill loses the work since the last
//! checkpoint, which is repeated identically.
//!
//! Order of writes: `config.toml` before step 0; at the end the checkpoint of the last step, then `splats.ply`, then
//! the evaluation, then the last line of `metrics.jsonl`. A killed run resumes at the first of these that is missing.

mod advance;
mod blocked;
mod budget;
mod clock;
mod corrections;
mod dense;
mod device;
mod error;
mod feed;
mod init_file;
mod outputs;
mod prepare;
mod requests;
mod scoring;
mod start;
mod summary;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use gausset_core::Pose;
use gausset_core::engine::{Engine, RenderOptions};
use gausset_core::splats_transform::Similarity;
use gausset_io::atomic::FileSystem;
use gausset_io::dataset::{Dataset, Loader};
use gausset_io::run_folder::config_path;

use crate::block::Block;
use crate::config::{BudgetGrowth, TrainConfig, equivalent_views, full_size_at};
use crate::events::{Event, RunOutcome};
use crate::exposures::PhotographFacts;
use crate::free_space::FreeSpaceViews;
use crate::memory::MemoryPlan;
use crate::options::TrainOptions;
use crate::recipe::SceneFacts;
use crate::sky;
use advance::RunPhase;
use clock::Clock;
use corrections::Corrections;
use device::{Device, TIMED_VIEWS};
use feed::Feed;
use outputs::RunOutputs;

pub use advance::AdvanceOutcome;
pub use blocked::{BlockedRun, Totals};
pub use corrections::with_refined_poses;
pub use error::TrainError;
pub use outputs::{PartsSurvey, SurveyedParts};
pub use prepare::{Prediction, predict_memory, predict_run};
pub use requests::{MAX_REQUESTS, Request, RequestQueue};
pub use start::{check_dataset, check_init};
pub use summary::{read_outcome, read_summary};

/// Minimum number of steps of a run for a prediction.
const MIN_PREDICTED_STEPS: u64 = 50;

/// What a run works with.
pub struct Session {
    /// The dataset, opened with [`TrainConfig::open_options`].
    pub dataset: Arc<Dataset>,
    /// The device that trains.
    pub engine: Box<dyn Engine>,
    /// Why this device was selected, if the user did not name one and there was a choice; recorded by a new run.
    pub device_choice: Option<String>,
    /// File system that files are written to.
    pub fs: Arc<dyn FileSystem>,
    /// Set this flag to save and stop after the current step.
    pub stop: Arc<AtomicBool>,
    /// Whether a viewer is attached, which then gets a part of the memory.
    pub has_viewer: bool,
    /// The block that the run trains; `None`: the whole scene.
    pub block: Option<Block>,
}

/// A training run in its folder. It coordinates five parts, each with its own state:
///
/// | part | state |
/// |---|---|
/// | `feed` | images, order of the views, downsampled images |
/// | `device` | engine, memory, sums over its reports |
/// | `clock` | steps, schedule, time, time budget |
/// | `outputs` | run folder, checkpoints, metrics, events |
/// | `corrections` | rows of exposure, vignetting and pose, refined cameras |
pub struct Run {
    config: TrainConfig,
    scene: SceneFacts,
    dataset: Arc<Dataset>,
    stop: Arc<AtomicBool>,
    feed: Feed,
    device: Device,
    clock: Clock,
    outputs: RunOutputs,
    corrections: Corrections,
    /// What evaluations have learnt from the photographs.
    photographs: Arc<PhotographFacts>,
    /// Known empty space, if the recipe regularises it.
    free_space: Option<FreeSpaceViews>,
    phase: RunPhase,
    requests: RequestQueue,
    is_started: bool,
    is_paused: bool,
}

impl Run {
    /// Finished steps.
    #[must_use]
    pub fn step(&self) -> u64 {
        self.clock.done()
    }

    /// Steps of the whole run, as far as known: a time budget can end it earlier.
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.clock.end()
    }

    /// Folder of the run.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.outputs.folder()
    }

    /// The dataset of the run, in normalised coordinates.
    #[must_use]
    pub fn dataset(&self) -> &Arc<Dataset> {
        &self.dataset
    }

    /// The loader of its images.
    #[must_use]
    pub fn loader(&self) -> &Arc<Loader> {
        self.feed.loader()
    }

    /// Bytes that a viewer may use for frames, thumbnails and packed splats.
    #[must_use]
    pub fn viewer_bytes(&self) -> u64 {
        MemoryPlan::viewer_budget(self.device.memory().limit)
    }

    /// Numbers of splats of the scene and of its sky, once the device holds those of `splats.ply`: at the end of a run
    /// that has learnt a sky.
    #[must_use]
    pub fn scene_and_sky(&self) -> Option<[usize; 2]> {
        self.device.exported_splats().map(|scene| [scene as usize, sky::SPLAT_COUNT])
    }

    /// The device, to be used between two units of work: rendering and saving do not affect training.
    pub fn engine(&mut self) -> &mut dyn Engine {
        self.device.engine()
    }

    /// Calls `look` with the device and the options with which this run renders now. The time does not count as
    /// training.
    pub fn with_device<T>(&mut self, look: impl FnOnce(&mut dyn Engine, &RenderOptions) -> T) -> T {
        let options = self.display_options();
        let engine = self.device.engine();
        self.clock.exclude(|| look(engine, &options))
    }

    /// Current refined poses of the dataset's images, by index, in normalised coordinates. `None` if the run refines no
    /// poses or the device does not return them. The time does not count as training.
    pub fn refined_poses(&mut self) -> Option<Vec<Pose>> {
        if !self.corrections.refines_poses() {
            return None;
        }
        let groups = self.with_device(|engine, _| engine.read_corrections()).ok()?;
        self.corrections.refined_poses(&self.dataset, &groups)
    }

    /// Transform from the normalised coordinates of the device, [`Self::dataset`] and [`Self::refined_poses`] to those of
    /// `splats.ply`.
    #[must_use]
    pub fn saved_from_device(&self) -> Similarity {
        self.outputs.record().saved_from_normalised()
    }

    /// Whether an evaluation, a checkpoint or an export is due before the next step.
    #[must_use]
    pub fn has_due_work(&self) -> bool {
        matches!(&self.phase, RunPhase::Training(due) if !due.is_none())
    }

    /// Stops the clock: until [`Self::start_clock`], time does not count as training, except for a time budget.
    pub fn stop_clock(&mut self) {
        self.clock.pause();
    }

    /// Restarts the clock after [`Self::stop_clock`].
    pub fn start_clock(&mut self) {
        self.clock.resume();
    }

    /// Writes a checkpoint of a run that has steps left.
    ///
    /// # Errors
    /// A failure of the device or file system.
    pub fn save_checkpoint(&mut self) -> Result<(), TrainError> {
        let state = self.save()?;
        self.checkpoint(&state)
    }

    /// Writes the current splats of a run that has steps left to `splats.ply`.
    ///
    /// # Errors
    /// A failure of the device or file system.
    pub fn export_splats(&mut self) -> Result<(), TrainError> {
        let state = self.save()?;
        self.export(state)
    }

    /// Handle through which any thread can send requests to the run.
    #[must_use]
    pub fn requests(&self) -> RequestQueue {
        self.requests.clone()
    }

    /// Events since the last call, in order.
    pub fn take_events(&mut self) -> impl Iterator<Item = Event> {
        self.outputs.take_events()
    }

    /// Predicts how long the run takes from a few steps on its next views. They leave no trace: the state is read back
    /// before them and restored after them. [`crate::Event::Started`] reports the prediction.
    ///
    /// # Errors
    /// The device fails.
    pub fn predict_time(&mut self) -> Result<(), TrainError> {
        if self.clock.end() - self.clock.done() < MIN_PREDICTED_STEPS {
            return Ok(());
        }
        let seconds = self.time_steps()?;
        self.clock.predict(&self.config.recipe, self.device.monitor().splats, seconds);
        Ok(())
    }

    /// Applies the time budget of the run, if it has one: the run ends when the budget is used up, counted from `since`
    /// (less what a resumed run has used before). A new run gets as many splats and steps as fit, and a growth for them;
    /// one without a checkpoint chooses again.
    ///
    /// # Errors
    /// The device fails, or `config.toml` cannot be written.
    pub fn apply_time_budget(&mut self, since: Instant, growth: BudgetGrowth) -> Result<(), TrainError> {
        let Some(budget) = self.config.time_budget.seconds() else { return Ok(()) };
        self.clock.limit(since, budget);
        if self.clock.done() > 0 {
            return Ok(());
        }
        let record = self.outputs.record_mut();
        self.config = record.config_before_budget(&self.config)?;
        let growth = record.before_budget.as_ref().map_or(growth, |before| match before.growth {
            Some(_) => BudgetGrowth::Chosen,
            None => BudgetGrowth::Given,
        });
        record.record_before_budget(&self.config, growth);
        let Some(seconds_per_step) = self.time_steps()? else { return Ok(()) };
        let full_size_at =
            (growth == BudgetGrowth::Chosen).then(|| full_size_at(equivalent_views(&self.dataset)));
        let (splats, recipe) = (self.device.monitor().splats, &mut self.config.recipe);
        let most = recipe.max_splats;
        self.clock.fit_to_budget(recipe, splats, seconds_per_step, full_size_at);
        recipe.start.max_splats = (recipe.max_splats != most).then_some(most);
        self.config.plan = self.clock.plan().clone();
        self.device.replan_memory(&self.config, &self.dataset, splats)?;
        self.outputs.write_config(&self.config)?;
        self.clock.restart();
        Ok(())
    }

    /// Time by which the run must end, if it has a time budget.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        self.clock.deadline()
    }

    /// Moves the end of a run with a time budget. What was trained since its checkpoint is lost, not its time.
    pub fn set_deadline(&mut self, at: Instant) {
        self.clock.set_deadline(at);
    }

    /// Seconds per step, from a few steps on the next views that leave no trace. `None` if they fail, because they will
    /// fail again in training. A view that does not fit into memory is an error at once.
    fn time_steps(&mut self) -> Result<Option<f64>, TrainError> {
        let _span = gausset_prof::span("predict");
        let (recipe, now) = (&self.config.recipe, self.clock.scheduled());
        let views = self.feed.preview(TIMED_VIEWS, recipe, now, &self.corrections, &self.stop);
        let params = recipe.step_params(now, &self.scene);
        self.device.time_steps(&views, &params, self.outputs.last_checkpoint())
    }

    /// Advances to the end, or until the run is asked to stop. Calls `events` with each event.
    ///
    /// # Errors
    /// A loss that is not finite, a failure of the device or file system, too many unreadable images. The last
    /// checkpoint is intact.
    pub fn train(&mut self, events: &mut dyn FnMut(Event)) -> Result<RunOutcome, TrainError> {
        loop {
            let advanced = self.advance();
            self.take_events().for_each(&mut *events);
            match advanced? {
                AdvanceOutcome::Ended(outcome) => return Ok(*outcome),
                AdvanceOutcome::Paused => self.requests.wait(),
                _ => {}
            }
        }
    }
}

/// The configuration with which the run in `folder` resumes if `given` is on the command line. Open the dataset and the
/// device with it, then call [`Run::resume`].
///
/// # Errors
/// The folder holds no run; options differ from the run's and would change its result.
pub fn resumable_config(folder: &Path, given: &TrainOptions) -> Result<TrainConfig, TrainError> {
    let recorded = summary::read_recorded(folder)?;
    Ok(recorded.resumed_with(given, &config_path(folder))?)
}
