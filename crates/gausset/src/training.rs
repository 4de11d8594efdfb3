//! Runs a training: from options to run folder, with dataset, device and profile.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use gausset_core::engine::{Engine, EngineError};

use gausset_io::atomic::{Disk, Overwrite, plain_reason};
use gausset_io::dataset::{self, Dataset};
use gausset_io::run_folder::config_path;
use gausset_io::text;
use gausset_prof::Profile;
use gausset_train::{
    AdvanceOutcome, Block, Blocks, BudgetGrowth, Panoramas, Run, RunEnd, RunOutcome, Session, TimeBudget,
    TrainConfig, TrainError, TrainOptions, check_dataset, check_init, predict_memory, read_outcome,
    resumable_config,
};

use crate::device::{Device, DeviceOptions};
use crate::saved_run::SavedRun;
use crate::tensorboard::CurveWriter;
use crate::{Event, Failure, Host, Stage, blocks, profiling, report};

/// An engine and, if it was chosen automatically, the reason.
type ChosenEngine = (Box<dyn Engine>, Option<String>);

/// What to train.
#[derive(Debug)]
pub enum Task {
    /// A new run with these options, in a new folder or one that may be replaced.
    New(Box<TrainOptions>, PathBuf, Overwrite),
    /// Resumes the run in this folder.
    Resume(Box<TrainConfig>, PathBuf),
}

impl Task {
    /// A new run. Invalid options are refused before any image is read.
    ///
    /// # Errors
    /// Options out of range or that exclude each other.
    pub fn new(options: TrainOptions, folder: PathBuf, overwrite: Overwrite) -> Result<Self, Failure> {
        TrainConfig::resolve(&options, None)?;
        Ok(Self::New(Box::new(options), folder, overwrite))
    }

    /// Resumes the run in a folder; `given` holds the options that change.
    ///
    /// # Errors
    /// The folder has no run, or an option would change its result.
    pub fn resume(folder: PathBuf, given: &TrainOptions) -> Result<Self, Failure> {
        let folder = SavedRun::folder_at(&folder);
        Ok(Self::Resume(Box::new(resumable_config(&folder, given)?), folder))
    }

    /// The run folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        match self {
            Self::New(_, folder, _) | Self::Resume(_, folder) => folder,
        }
    }

    /// Whether the scene is trained in blocks: a [`Trainer`] advances a single run, [`train`] does both.
    ///
    /// # Errors
    /// The options are invalid.
    pub fn is_in_blocks(&self) -> Result<bool, Failure> {
        Ok(self.first_config()?.blocks != Blocks::Off)
    }

    /// Opens the engine for this task.
    pub(crate) fn engine(
        &self,
        config: &TrainConfig,
        conditions: RunSettings,
        host: &mut Host<'_>,
    ) -> Result<ChosenEngine, Failure> {
        let run = match self {
            Self::New(..) => None,
            Self::Resume(_, folder) => Some(SavedRun::read(folder)?.recorded.record),
        };
        let run = run.as_ref().map(|run| (run.device.as_str(), run.device_name.as_str()));
        // Spherical cameras train on the CPU only, so automatic selection must not pick a GPU that would refuse them.
        if config.data.panoramas == Panoramas::Sphere {
            return Ok((conditions.device.engine_for(config.threads(), host)?, None));
        }
        conditions.device.engine_for_training(config.threads(), run, host)
    }

    /// Replaces an automatically chosen device by the CPU if the run fits only there.
    pub(crate) fn with_enough_memory(
        &self,
        chosen: ChosenEngine,
        dataset: &Arc<Dataset>,
        conditions: RunSettings,
        host: &mut Host<'_>,
    ) -> Result<ChosenEngine, Failure> {
        let (Self::New(options, ..), (engine, Some(_))) = (self, &chosen) else { return Ok(chosen) };
        let mut config = with_absolute_paths(TrainConfig::resolve_for(options, dataset)?)?;
        if config.blocks == Blocks::Auto {
            // As many blocks as the device needs.
            return Ok(chosen);
        }
        config.recipe = config.least_block();
        let memory = predict_memory(&config, dataset, &**engine)?;
        if memory.fits() {
            return Ok(chosen);
        }
        let processor = DeviceOptions { device: Device::Cpu, ..conditions.device };
        let processor = processor.engine_for(config.threads(), host)?;
        if !predict_memory(&config, dataset, &*processor)?.fits() {
            return Ok(chosen);
        }
        let [needed, limit] = memory.shortage().map(text::format_bytes);
        let name = engine.describe().name;
        let reason =
            format!("the CPU, because {name} has {limit} of memory available and {needed} are needed");
        host.report(Event::DeviceChosen(reason.clone()));
        Ok((processor, Some(reason)))
    }

    /// The configuration as far as it is known before the dataset is opened.
    pub(crate) fn first_config(&self) -> Result<TrainConfig, Failure> {
        let config = match self {
            Self::New(options, ..) => TrainConfig::resolve(options, None)?,
            Self::Resume(config, _) => (**config).clone(),
        };
        with_absolute_paths(config)
    }
}

/// Makes paths absolute, so that the run can resume from any working folder.
pub(crate) fn with_absolute_paths(config: TrainConfig) -> Result<TrainConfig, Failure> {
    config.with_absolute_paths().map_err(|error| {
        let reason = plain_reason(&error);
        Failure::new("option", format!("working folder: has no absolute path: {reason}"))
    })
}

/// Settings of a training that do not change its result (except through a time budget).
#[derive(Clone, Copy, Debug)]
pub struct RunSettings {
    /// Device that trains, and its settings.
    pub device: DeviceOptions,
    /// Whether to record a profile.
    pub profile: bool,
    /// Whether to write `report.html` at the end of the run.
    pub report: bool,
    /// Whether to write curves for TensorBoard.
    pub tensorboard: bool,
    /// Start time of the job, from which time budgets count.
    pub started: Instant,
}

impl RunSettings {
    /// Default conditions on a device, with the start time now.
    #[must_use]
    pub fn for_device(device: DeviceOptions) -> Self {
        Self { device, profile: false, report: true, tensorboard: false, started: Instant::now() }
    }
}

/// Result of a training.
#[derive(Debug)]
pub struct Trained {
    /// The run folder.
    pub folder: PathBuf,
    /// Outcome of the run.
    pub outcome: RunOutcome,
    /// Images skipped because they are missing or unreadable.
    pub skipped: usize,
    /// Whether missing images are allowed.
    pub allow_missing: bool,
    /// The profile, if one was recorded.
    pub profile: Option<Profile>,
}

impl Trained {
    /// Whether the run stopped on request and can resume.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.outcome.end == RunEnd::Stopped
    }

    /// Whether images were skipped that are not allowed to be missing.
    #[must_use]
    pub fn has_skipped(&self) -> bool {
        self.skipped > 0 && !self.allow_missing
    }

    /// The result of a job that was asked to stop before its run had anything to save.
    pub(crate) fn before_start(folder: PathBuf) -> Self {
        let outcome = RunOutcome::before_start();
        Self { folder, outcome, skipped: 0, allow_missing: false, profile: None }
    }

    pub(crate) fn new(folder: PathBuf, outcome: RunOutcome, dataset: &Dataset, allow_missing: bool) -> Self {
        let in_evaluation = outcome.evaluation.as_ref().map_or(0, |report| report.skipped.len());
        let skipped = dataset.skipped.len() + in_evaluation + outcome.skipped.len();
        Self { folder, outcome, skipped, allow_missing, profile: None }
    }
}

/// An opened and checked training run that advances in small parts.
///
/// It can be sent to another thread. Between parts the caller can render on its device ([`Run::engine`]) and send
/// requests ([`Run::requests`]).
pub struct Trainer {
    run: Run,
    conditions: RunSettings,
    allow_missing: bool,
    curves: Option<CurveWriter>,
    /// Step at which the device was lost, if it was.
    lost_at: Option<u64>,
    /// The block that the run trains, if it trains one.
    block: Option<Block>,
    /// The profile that is being recorded.
    recording: Option<profiling::Recording>,
}

/// If a device is lost again within this many steps, training does not retry.
const STEPS_BETWEEN_LOSSES: u64 = 100;

impl Trainer {
    /// Opens dataset and device, creates the initial splats or reads the checkpoint, and claims the folder.
    ///
    /// # Errors
    /// Any error of dataset, folder, options or device; the job was asked to stop.
    pub fn new(task: Task, conditions: RunSettings, host: &mut Host<'_>) -> Result<Self, Failure> {
        let config = task.first_config()?;
        if config.blocks != Blocks::Off {
            let line = "⟨blocks⟩: a run in blocks does not advance in parts (expected ⟨blocks = off⟩)";
            return Err(Failure::usage(line));
        }
        let engine = task.engine(&config, conditions, host)?;
        let recording = conditions.profile.then(profiling::start);
        let dataset = Arc::new(dataset::open(&config.data.path, &config.open_options())?);
        let engine = task.with_enough_memory(engine, &dataset, conditions, host)?;
        let trainer = Self::open(task, config, engine, dataset, conditions, host)?;
        Ok(Self { recording, ..trainer })
    }

    /// As [`Self::new`], with an opened dataset and engine.
    fn open(
        task: Task,
        config: TrainConfig,
        (engine, device_choice): ChosenEngine,
        dataset: Arc<Dataset>,
        conditions: RunSettings,
        host: &mut Host<'_>,
    ) -> Result<Self, Failure> {
        warn_about_dataset(&dataset, host);
        let (fs, stop) = (Arc::new(Disk), Arc::clone(host.stop()));
        let is_watched = host.watcher().is_some();
        let (allow_missing, config) = match &task {
            Task::New(options, ..) => {
                let config = with_absolute_paths(TrainConfig::resolve_for(options, &dataset)?)?;
                (options.allow_missing.unwrap_or_default(), config)
            }
            Task::Resume(..) => (config.data.allow_missing, config),
        };
        let session = Session {
            // The only owner, so that the run can normalise it in place.
            dataset,
            engine,
            device_choice,
            fs,
            stop,
            has_viewer: is_watched,
            block: None,
        };
        let has_budget = config.time_budget != TimeBudget::None;
        let growth = match &task {
            Task::New(options, ..) if options.growth.is_none() => BudgetGrowth::Chosen,
            _ => BudgetGrowth::Given,
        };
        let mut events = |event| host.report(Event::Training(Box::new(event)));
        let mut run = match task {
            Task::New(_, folder, overwrite) => {
                let run = Run::start(config, &folder, overwrite, session, &mut events)?;
                if overwrite == Overwrite::Replace {
                    blocks::clear(&folder)?;
                }
                run
            }
            Task::Resume(_, folder) => Run::resume(config, &folder, session, &mut events)?,
        };
        host.report(Event::RunFolder(run.folder().to_owned()));
        run.apply_time_budget(conditions.started, growth)?;
        if !has_budget {
            run.predict_time()?;
        }
        let curves = open_curves(&run, conditions, host);
        Ok(Self { run, conditions, allow_missing, curves, lost_at: None, block: None, recording: None })
    }

    /// A trainer of an opened run.
    pub(crate) fn of_run(run: Run, conditions: RunSettings, allow_missing: bool) -> Self {
        Self { run, conditions, allow_missing, curves: None, lost_at: None, block: None, recording: None }
    }

    /// A trainer of an opened run that is a part of another one.
    pub(crate) fn of_part(run: Run, block: Block, conditions: RunSettings, host: &mut Host<'_>) -> Self {
        let curves = open_curves(&run, conditions, host);
        // The whole run counts the images that are left out.
        Self { block: Some(block), curves, ..Self::of_run(run, conditions, true) }
    }

    /// The run, for rendering and requests.
    pub fn run(&mut self) -> &mut Run {
        &mut self.run
    }

    /// Runs one part: a training step, one view of an evaluation, or a checkpoint.
    ///
    /// # Errors
    /// As [`Run::advance`].
    pub fn advance(&mut self, host: &mut Host<'_>) -> Result<AdvanceOutcome, Failure> {
        let advanced = self.run.advance();
        for event in self.run.take_events() {
            forward_event(&mut self.curves, event, host);
        }
        Ok(advanced?)
    }

    /// Runs to the end and calls the watcher between parts.
    fn train_watched(&mut self, host: &mut Host<'_>) -> Result<RunOutcome, TrainError> {
        if let Some(watcher) = host.watcher() {
            watcher.started(&mut self.run);
        }
        loop {
            let advanced = self.run.advance();
            for event in self.run.take_events() {
                forward_event(&mut self.curves, event, host);
            }
            let advanced = advanced?;
            if let AdvanceOutcome::Ended(outcome) = &advanced {
                // Write the report now: the watcher may keep the result open for hours.
                write_report(self.run.folder(), outcome, self.conditions, host);
            }
            let run = &mut self.run;
            if let Some(watcher) = host.watcher() {
                match &advanced {
                    AdvanceOutcome::Ended(_) => watcher.ended(run),
                    AdvanceOutcome::Paused => watcher.paused(run),
                    _ => watcher.after_part(run),
                }
            }
            if let AdvanceOutcome::Ended(outcome) = advanced {
                return Ok(*outcome);
            }
        }
    }

    /// Whether a lost device should be reopened: not if it was lost a few steps before.
    fn can_retry(&self) -> bool {
        self.lost_at.is_none_or(|before| self.run.step() >= before + STEPS_BETWEEN_LOSSES)
    }

    /// Reopens the device and resumes from the last checkpoint. The result is identical to that of an uninterrupted
    /// run.
    fn reopen_device(
        self,
        lost: &EngineError,
        checkpoint: u64,
        host: &mut Host<'_>,
    ) -> Result<Self, Failure> {
        let Self { run, conditions, block, recording, .. } = self;
        let (folder, dataset, lost_at) = (run.folder().to_owned(), Arc::clone(run.dataset()), run.step());
        let deadline = run.deadline();
        let line = format!("{lost}; the run resumes from the checkpoint of step {checkpoint}");
        host.warn("the device", line);
        // Release the run folder and the old device before they are opened again.
        drop(run);
        let task = Task::resume(folder.clone(), &TrainOptions::default())?;
        let config = task.first_config()?;
        let engine = task.engine(&config, conditions, host)?;
        let mut again = match block {
            None => Self::open(task, config, engine, dataset, conditions, host)?,
            Some(block) => {
                let recorded = SavedRun::read(&folder)?.recorded.record;
                let device = (&*recorded.device, &*recorded.device_name);
                let part = blocks::Part { folder: &folder, config, dataset, block, device };
                drop(engine);
                part.open(true, conditions, host)?
            }
        };
        if let Some(deadline) = deadline {
            again.run.set_deadline(deadline);
        }
        Ok(Self { lost_at: Some(lost_at), recording, ..again })
    }

    /// Runs to the end, or until the job is asked to stop. If the device is lost, it is reopened and the run resumes
    /// from its last checkpoint; a second loss within 100 steps is an error.
    ///
    /// # Errors
    /// As [`Run::advance`]; the profile cannot be written.
    pub fn finish_started(mut self, host: &mut Host<'_>) -> Result<Trained, Failure> {
        let outcome = loop {
            let outcome = if host.watcher().is_some() {
                self.train_watched(host)
            } else {
                self.run.train(&mut |event| forward_event(&mut self.curves, event, host))
            };
            match outcome {
                Err(TrainError::Device { source, checkpoint: Some(step) }) if self.can_retry() => {
                    self = self.reopen_device(&source, step, host)?;
                }
                outcome => break outcome,
            }
        };
        host.report(Event::Ended);
        let folder = self.run.folder().to_owned();
        let mut trained = Trained::new(folder, outcome?, self.run.dataset(), self.allow_missing);
        if self.conditions.profile {
            let profile = profiling::finish(self.run.engine(), &trained.folder, &trained.outcome)?;
            trained.profile = Some(profile);
        }
        for view in trained.outcome.evaluation.iter().flat_map(|report| &report.skipped) {
            let line = format!("{}: skipped: {}", view.name, view.reason);
            host.warn("pictures left out of the evaluation", line);
        }
        // After the profile, which the report includes.
        write_report(&trained.folder, &trained.outcome, self.conditions, host);
        if trained.is_stopped() {
            let (step, run) = (trained.outcome.summary.steps, trained.folder.clone());
            host.stage(Stage::TrainingStopped { step, run });
        }
        Ok(trained)
    }
}

/// Writes `report.html` of a finished run, if it is wanted. A failure is only a warning.
pub(crate) fn write_report(run: &Path, outcome: &RunOutcome, conditions: RunSettings, host: &mut Host<'_>) {
    if conditions.report
        && outcome.end == RunEnd::Finished
        && let Err(failure) = report::write_finished(run, host)
    {
        host.warn("the report", format!("{failure}; the run has no report.html"));
    }
}

/// Topic of TensorBoard warnings, and their consequence.
const CURVES_TOPIC: &str = "the curves";
const CURVES_DISABLED: &str = "TensorBoard output is disabled";

/// Opens the curves of a run, if they are wanted. A failure is only a warning.
fn open_curves(run: &Run, conditions: RunSettings, host: &mut Host<'_>) -> Option<CurveWriter> {
    if !conditions.tensorboard {
        return None;
    }
    match CurveWriter::open(run.folder()) {
        Ok(opened) => Some(opened),
        Err(error) => {
            host.warn(CURVES_TOPIC, format!("{error}; {CURVES_DISABLED}"));
            None
        }
    }
}

/// Passes an event of the run to its curves, then to the host.
fn forward_event(curves: &mut Option<CurveWriter>, event: gausset_train::Event, host: &mut Host<'_>) {
    if let Some(Err(error)) = curves.as_mut().map(|curves| curves.write_event(&event)) {
        *curves = None;
        host.warn(CURVES_TOPIC, format!("{error}; {CURVES_DISABLED}"));
    }
    host.report(Event::Training(Box::new(event)));
}

/// Trains to the end, or until the job is asked to stop; in blocks if the options say so.
///
/// # Errors
/// Any error of dataset, folder, options or device.
pub fn train(task: Task, conditions: RunSettings, host: &mut Host<'_>) -> Result<Trained, Failure> {
    if task.is_in_blocks()? {
        return blocks::train(task, conditions, host);
    }
    let folder = task.folder().to_owned();
    finish(folder, Trainer::new(task, conditions, host), host)
}

/// Finishes a run in `folder` that could be started. If the job was asked to stop before that, returns an empty result.
///
/// # Errors
/// The run could not be started, or as [`Trainer::finish_started`].
pub fn finish(
    folder: PathBuf,
    begun: Result<Trainer, Failure>,
    host: &mut Host<'_>,
) -> Result<Trained, Failure> {
    match begun {
        Err(failure) if failure.is_stopped() => {
            host.stage(Stage::StoppedBeforeTraining);
            Ok(Trained::before_start(folder))
        }
        begun => begun?.finish_started(host),
    }
}

/// Reports irregularities of a dataset as warnings.
pub fn warn_about_dataset(dataset: &Dataset, host: &mut Host<'_>) {
    for line in dataset.report_lines() {
        host.warn("the dataset", line);
    }
}

/// Trains in a folder that may hold the same run. A finished run is only reported again; an interrupted one resumes. A
/// run with other data or options is refused, or replaced with [`Overwrite::Replace`].
///
/// # Errors
/// As [`train`]; the folder has another run.
pub fn start_or_resume(
    folder: PathBuf,
    options: &TrainOptions,
    overwrite: Overwrite,
    conditions: RunSettings,
    host: &mut Host<'_>,
) -> Result<Trained, Failure> {
    if overwrite == Overwrite::Replace || !SavedRun::is_run_folder(&folder) {
        return train(Task::new(options.clone(), folder, overwrite)?, conditions, host);
    }
    let dataset = same_run(&folder, options)?;
    if let Some(outcome) = read_outcome(&folder)? {
        host.stage(Stage::TrainedAlready);
        warn_about_dataset(&dataset, host);
        let allow_missing = options.allow_missing.unwrap_or_default();
        return Ok(Trained::new(folder, outcome, &dataset, allow_missing));
    }
    let task = Task::resume(folder.clone(), options)?;
    let config = task.first_config()?;
    if config.blocks != Blocks::Off {
        drop(dataset);
        return blocks::train(task, conditions, host);
    }
    let engine = task.engine(&config, conditions, host)?;
    finish(folder, Trainer::open(task, config, engine, Arc::new(dataset), conditions, host), host)
}

/// Opens the dataset of the run in a folder, if data and options are the same: those that the run has recorded, or with a
/// time budget, those with which it was started. An option that was set then and is not set now is a difference, too.
fn same_run(folder: &Path, options: &TrainOptions) -> Result<Dataset, Failure> {
    let recorded = SavedRun::read(folder)?.recorded;
    let first = with_absolute_paths(TrainConfig::resolve(options, None)?)?;
    let dataset = dataset::open(&first.data.path, &first.open_options())?;
    let config = TrainConfig::resolve_for(options, &dataset)?;
    let differences = match recorded.differences(&config) {
        none if none.is_empty() => none,
        _ => recorded.clone().before_budget()?.differences(&config),
    };
    if !differences.is_empty() {
        let line = format!(
            "{}: the run was started with {}; use the same options to resume, choose another folder with ⟨output⟩, or replace it with ⟨force⟩",
            config_path(folder).display(),
            differences.join(", "),
        );
        return Err(Failure::new("other-options", line));
    }
    check_dataset(folder, &recorded, &dataset)?;
    check_init(&recorded)?;
    Ok(dataset)
}

#[cfg(test)]
mod tests;
