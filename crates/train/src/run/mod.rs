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

mod access;
mod advance;
mod budget;
mod clock;
mod corrections;
mod data_check;
mod dense;
mod error;
mod feed;
mod forecast;
mod monitor;
mod outputs;
mod predict;
mod prepare;
mod refined;
mod requests;
mod scoring;
mod start;
mod summary;
mod timing;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use gausset_core::engine::{Engine, EngineError, StepReport};
use gausset_io::atomic::FileSystem;
use gausset_io::dataset::{Dataset, Loader};
use gausset_io::run_folder::config_path;

use crate::config::TrainConfig;
use crate::eval::{EvalReport, Trust};
use crate::events::{Event, RunEnd, RunOutcome, RunProgress, RunStart, RunSummary};
use crate::free_space::FreeSpaceViews;
use crate::memory::MemoryPlan;
use crate::option_values::Strategy;
use crate::options::TrainOptions;
use crate::plan::StepPlan;
use crate::recipe::SceneFacts;
use advance::RunPhase;
use budget::Deadline;
use clock::{Rate, Stopwatch};
use corrections::Corrections;
use feed::Feed;
use forecast::Forecast;
use monitor::{ReportMonitor, SetChanges};
use outputs::RunOutputs;

pub use advance::AdvanceOutcome;
pub use corrections::with_refined_poses;
pub use data_check::{check_dataset, check_init};
pub use error::TrainError;
pub use predict::{Prediction, predict_memory, predict_run};
pub use requests::{MAX_REQUESTS, RenderRequest, Request, RequestQueue};
use summary::ReportLine;
pub use summary::{read_outcome, read_summary};

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
}

/// A training run in its folder.
pub struct Run {
    config: TrainConfig,
    scene: SceneFacts,
    session: Session,
    feed: Feed,
    corrections: Corrections,
    outputs: RunOutputs,
    memory: MemoryPlan,
    /// Finished steps.
    done: u64,
    stopwatch: Stopwatch,
    rate: Rate,
    forecast: Forecast,
    /// Cost ([`Forecast`]) per second.
    cost_rate: Rate,
    predicted_seconds: Option<f64>,
    /// Maps steps of the run to steps of the schedules.
    plan: StepPlan,
    deadline: Option<Deadline>,
    monitor: ReportMonitor,
    /// Number of splats without the sky, once the device holds the splats of `splats.ply`; the splats after them are
    /// the sky.
    exported_splats: Option<u32>,
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
        self.done
    }

    /// Folder of the run.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.outputs.folder()
    }

    /// The dataset of the run.
    #[must_use]
    pub fn dataset(&self) -> &Arc<Dataset> {
        &self.session.dataset
    }

    /// The loader of its images.
    #[must_use]
    pub fn loader(&self) -> &Arc<Loader> {
        self.feed.loader()
    }

    /// Bytes that a viewer may use for frames, thumbnails and packed splats.
    #[must_use]
    pub fn viewer_bytes(&self) -> u64 {
        MemoryPlan::viewer_budget(self.memory.limit)
    }

    /// The device, to be used between two units of work: rendering and saving do not affect training.
    pub fn engine(&mut self) -> &mut dyn Engine {
        &mut *self.session.engine
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

    fn report_start(&mut self) {
        let dataset = &self.session.dataset;
        let started = RunStart {
            device: self.session.engine.describe(),
            step: self.done,
            steps: self.plan.end(),
            train_images: dataset.split.train.len(),
            test_images: dataset.split.test.len(),
            splats: self.monitor.splats,
            start: self.outputs.record().start.clone(),
            scene_extent: self.scene.extent,
            memory: self.memory,
            time_budget: self.deadline.as_ref().and_then(|_| self.config.time_budget.seconds()),
            predicted_seconds: self.predicted_seconds,
        };
        self.outputs.emit(Event::Started(started));
    }

    fn is_asked_to_stop(&self) -> bool {
        self.session.stop.load(Ordering::Relaxed)
    }

    /// Waits for the device, then takes and forwards its report. Returns the step rate.
    fn flush(&mut self) -> Result<f64, TrainError> {
        let _span = gausset_prof::span("report");
        let flushed = self.session.engine.flush();
        self.forward_report(flushed)
    }

    /// Takes and forwards the report of the steps that the device has finished. Returns the step rate.
    fn poll(&mut self) -> Result<f64, TrainError> {
        let _span = gausset_prof::span("report");
        let polled = self.session.engine.poll();
        self.forward_report(polled)
    }

    fn forward_report(&mut self, report: Result<StepReport, EngineError>) -> Result<f64, TrainError> {
        let report = report.map_err(|error| self.engine_error(error))?;
        self.monitor.add_report(self.done, &report, &mut |warning| self.outputs.warn(warning));
        if report.splats == 0 {
            return Err(self.no_splats());
        }
        let changes = SetChanges::from_report(&report);
        if !changes.is_none() {
            let SetChanges { added, pruned, relocated } = changes;
            let (step, splats) = (self.done, report.splats);
            self.outputs.emit(Event::Density { step, splats, added, pruned, relocated });
        }
        let [seconds, _] = self.stopwatch.read();
        let it_per_s = self.rate.update(report.steps as f64, seconds);
        if report.steps > 0 {
            let seconds_left = self.update_forecast(&report, seconds);
            let steps = self.plan.end();
            let budget = self.deadline.as_ref().zip(self.config.time_budget.seconds());
            let budget = budget.map(|(deadline, seconds)| [deadline.seconds_used(seconds), seconds]);
            self.outputs.emit(Event::Progress(RunProgress {
                step: report.last_step.map_or(self.done, |step| step + 1),
                steps,
                loss: report.loss_sum / report.steps as f64,
                splats: report.splats,
                it_per_s,
                memory: resident_bytes(),
                budget,
                seconds_left,
                report,
            }));
        }
        Ok(it_per_s)
    }

    /// Appends a line to `metrics.jsonl`.
    fn report(&mut self, it_per_s: f64) -> Result<(), TrainError> {
        let Some(loss) = self.monitor.take_mean_loss() else { return Ok(()) };
        let [seconds, cpu_seconds] = self.stopwatch.read();
        let (splats, visible) = (self.monitor.splats, self.monitor.visible);
        let changes = std::mem::take(&mut self.monitor.changes);
        let (step, memory) = (self.done, resident_bytes());
        let line =
            ReportLine { step, loss, splats, visible, changes, memory, it_per_s, seconds, cpu_seconds };
        self.outputs.append_line(&line)
    }

    fn outcome(&self, end: RunEnd, evaluation: Option<EvalReport>) -> RunOutcome {
        let [seconds, cpu_seconds] = self.stopwatch.read();
        let psnr = evaluation.as_ref().and_then(|report| report.psnr);
        let ssim = evaluation.as_ref().and_then(|report| report.ssim);
        let scores = evaluation.as_ref().map(|report| report.scores).unwrap_or_default();
        let (steps, splats) = (self.done, self.monitor.splats);
        let (kind, cut_tiles) = (RunSummary::KIND.to_owned(), self.monitor.cut_tiles);
        let summary = RunSummary {
            kind,
            steps,
            splats,
            seconds,
            cpu_seconds,
            psnr,
            ssim,
            scores,
            trust: Trust::default(),
            cut_tiles,
        };
        RunOutcome { end, summary, evaluation, skipped: self.feed.skipped().to_vec() }
    }

    /// The error for a run without splats, or without any that can be drawn.
    fn no_splats(&self) -> TrainError {
        let remedy = match self.config.recipe.strategy() {
            Strategy::Classic => {
                "lower ⟨prune-opacity⟩, raise ⟨prune-scale⟩, or set ⟨opacity-reset-every = 0⟩"
            }
            Strategy::Mcmc => "lower the rates (⟨lr-means⟩, ⟨lr-scales⟩, ⟨lr-opacities⟩)",
        };
        TrainError::NoSplats { step: self.done, remedy, checkpoint: self.outputs.last_checkpoint() }
    }

    /// An error of the device, with the last checkpoint.
    fn engine_error(&self, source: EngineError) -> TrainError {
        match source {
            EngineError::NonFiniteLoss { .. } => {
                TrainError::NonFiniteLoss { source, checkpoint: self.outputs.last_checkpoint() }
            }
            source if source.is_device_failure() => {
                TrainError::Device { source, checkpoint: self.outputs.last_checkpoint() }
            }
            EngineError::OutOfMemory { .. } => {
                TrainError::View { setting: self.memory.setting_for(&source), source }
            }
            other => other.into(),
        }
    }
}

/// Resident memory of this process in bytes, where the system reports it.
fn resident_bytes() -> Option<u64> {
    gausset_compute::machine::resident_memory(None).map(|resident| resident.now)
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
