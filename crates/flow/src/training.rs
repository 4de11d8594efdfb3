//! A training run from its options to its result: dataset, device, run folder, profile.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use gausset_core::engine::{Engine, EngineError};

use gausset_io::atomic::{Disk, Overwrite, plain_reason};
use gausset_io::dataset::{self, Dataset};
use gausset_io::run_folder::config_path;
use gausset_io::units;
use gausset_prof::Profile;
use gausset_train::{
    Advanced, End, Outcome, Panoramas, Run, Session, TimeBudget, TrainConfig, TrainError, TrainOptions,
    check_dataset, check_init, foresee_memory, read_finished, resumable_config,
};

use crate::device::{Device, DeviceOptions};
use crate::saved_run::SavedRun;
use crate::tensorboard::Curves;
use crate::{Event, Failure, Host, Stage, profiling, report};

/// What a training is done on, and why on this where nobody has named it.
type Chosen = (Box<dyn Engine>, Option<String>);

/// Which run, and where.
#[derive(Debug)]
pub enum Task {
    /// A run with the options that somebody gave, in a new folder or one that may be replaced.
    New(Box<TrainOptions>, PathBuf, Overwrite),
    /// The run in this folder goes on.
    Resume(Box<TrainConfig>, PathBuf),
}

impl Task {
    /// A new run; options that nobody may give are refused before any picture is looked at.
    ///
    /// # Errors
    /// Options out of range or that exclude each other.
    pub fn new(options: TrainOptions, folder: PathBuf, overwrite: Overwrite) -> Result<Self, Failure> {
        TrainConfig::resolve(&options, None)?;
        Ok(Self::New(Box::new(options), folder, overwrite))
    }

    /// The run in a folder, with what `given` may change of it.
    ///
    /// # Errors
    /// No run there; options that would change its result.
    pub fn resume(folder: PathBuf, given: &TrainOptions) -> Result<Self, Failure> {
        Ok(Self::Resume(Box::new(resumable_config(&folder, given)?), folder))
    }

    /// The folder of the run.
    #[must_use]
    pub fn folder(&self) -> &Path {
        match self {
            Self::New(_, folder, _) | Self::Resume(_, folder) => folder,
        }
    }

    /// What it is done on, and why on this where nobody has named it.
    fn engine(
        &self,
        config: &TrainConfig,
        conditions: Conditions,
        host: &mut Host<'_>,
    ) -> Result<Chosen, Failure> {
        let run = match self {
            Self::New(..) => None,
            Self::Resume(_, folder) => Some(SavedRun::read(folder)?.recorded.record),
        };
        let run = run.as_ref().map(|run| (run.device.as_str(), run.device_name.as_str()));
        // A GPU knows pinholes alone: nobody's choice must not end in its refusal.
        if config.data.panoramas == Panoramas::Sphere {
            return Ok((conditions.device.engine_for(config.threads(), host)?, None));
        }
        conditions.device.engine_for_training(config.threads(), run, host)
    }

    /// The same, or the processor where nobody has named the device and the memory of the chosen one is too small.
    fn with_room(
        &self,
        chosen: Chosen,
        dataset: &Arc<Dataset>,
        conditions: Conditions,
        host: &mut Host<'_>,
    ) -> Result<Chosen, Failure> {
        let (Self::New(options, ..), (engine, Some(_))) = (self, &chosen) else { return Ok(chosen) };
        let config = with_absolute_paths(TrainConfig::resolve_for(options, dataset)?)?;
        let Some(reason) = too_small(&config, dataset, &**engine)? else { return Ok(chosen) };
        host.report(Event::DeviceChosen(reason.clone()));
        let processor = DeviceOptions { device: Device::Cpu, ..conditions.device };
        Ok((processor.engine_for(config.threads(), host)?, Some(reason)))
    }

    /// The configuration as far as it is known without the dataset.
    fn first_config(&self) -> Result<TrainConfig, Failure> {
        let config = match self {
            Self::New(options, ..) => TrainConfig::resolve(options, None)?,
            Self::Resume(config, _) => (**config).clone(),
        };
        with_absolute_paths(config)
    }
}

/// Why the processor is taken instead of a device whose own memory is too small for a run.
fn too_small(
    config: &TrainConfig,
    dataset: &Arc<Dataset>,
    engine: &dyn Engine,
) -> Result<Option<String>, Failure> {
    let memory = foresee_memory(config, dataset, engine)?;
    let [needed, limit] = memory.shortage().map(units::bytes);
    let name = engine.describe().name;
    let reason =
        || format!("the processor, because {name} has {limit} of memory for it and {needed} are needed");
    Ok(memory.is_short_of_device().then(reason))
}

/// Paths from the root, so that a run can go on from any folder.
fn with_absolute_paths(config: TrainConfig) -> Result<TrainConfig, Failure> {
    config.with_absolute_paths().map_err(|error| {
        let reason = plain_reason(&error);
        Failure::new("option", format!("working folder: cannot be named: {reason}"))
    })
}

/// How a run is done, beside what its options say: none of it has an influence on the result but a time budget.
#[derive(Clone, Copy, Debug)]
pub struct Conditions {
    /// What computes.
    pub device: DeviceOptions,
    /// Whether to record where the time goes.
    pub profile: bool,
    /// Whether the run gets a `report.html` at its end.
    pub report: bool,
    /// Whether curves are written for TensorBoard.
    pub tensorboard: bool,
    /// When the job began: time budgets count from here.
    pub started: Instant,
}

impl Conditions {
    /// On a device, from now on.
    #[must_use]
    pub fn on(device: DeviceOptions) -> Self {
        Self { device, profile: false, report: true, tensorboard: false, started: Instant::now() }
    }
}

/// What was done.
#[derive(Debug)]
pub struct Trained {
    /// Folder of the run.
    pub folder: PathBuf,
    /// What came of it.
    pub outcome: Outcome,
    /// Pictures that had to be left out, because they cannot be read or are missing.
    pub skipped: usize,
    /// Whether that is as it is to be (`allow_missing`).
    pub allow_missing: bool,
    /// Where the time went, if that was asked for.
    pub profile: Option<Profile>,
}

impl Trained {
    /// Whether the run was asked to stop, and can go on.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.outcome.end == End::Stopped
    }

    /// Whether something had to be left out that is missed.
    #[must_use]
    pub fn has_skipped(&self) -> bool {
        self.skipped > 0 && !self.allow_missing
    }

    fn new(folder: PathBuf, outcome: Outcome, dataset: &Dataset, allow_missing: bool) -> Self {
        let in_evaluation = outcome.evaluation.as_ref().map_or(0, |report| report.skipped.len());
        let skipped = dataset.skipped.len() + in_evaluation + outcome.skipped.len();
        Self { folder, outcome, skipped, allow_missing, profile: None }
    }
}

/// A training run that somebody holds: everything is open and checked, and it goes on in small parts.
///
/// It may be sent to another thread. In between two parts its device can be looked at ([`Run::engine`]) and it answers
/// requests ([`Run::requests`]).
pub struct Training {
    run: Run,
    conditions: Conditions,
    allow_missing: bool,
    curves: Option<Curves>,
    /// Step at which a device was lost, if one was.
    lost_at: Option<u64>,
}

/// A device that is lost again within so many steps is not worth another try.
const STEPS_BETWEEN_LOSSES: u64 = 100;

impl Training {
    /// Opens the dataset and the device, makes the first splats or reads the checkpoint, and takes the folder.
    ///
    /// # Errors
    /// Everything that can be wrong with dataset, folder, options and device; it was asked to stop meanwhile.
    pub fn new(task: Task, conditions: Conditions, host: &mut Host<'_>) -> Result<Self, Failure> {
        let config = task.first_config()?;
        let engine = task.engine(&config, conditions, host)?;
        if conditions.profile {
            profiling::start();
        }
        let dataset = Arc::new(dataset::open(&config.data.path, &config.open_options())?);
        let engine = task.with_room(engine, &dataset, conditions, host)?;
        Self::on(task, config, engine, dataset, conditions, host)
    }

    /// The same on a dataset that is open, on a device that is there.
    fn on(
        task: Task,
        config: TrainConfig,
        (engine, device_choice): Chosen,
        dataset: Arc<Dataset>,
        conditions: Conditions,
        host: &mut Host<'_>,
    ) -> Result<Self, Failure> {
        warn_of(&dataset, host);
        let (fs, stop) = (Arc::new(Disk), Arc::clone(host.stop()));
        let is_watched = host.watcher().is_some();
        let session = Session { dataset: Arc::clone(&dataset), engine, device_choice, fs, stop, is_watched };
        let allow_missing = match &task {
            Task::New(options, ..) => options.allow_missing.unwrap_or_default(),
            Task::Resume(..) => config.data.allow_missing,
        };
        let has_budget = config.time_budget != TimeBudget::None;
        let mut events = |event| host.report(Event::Training(Box::new(event)));
        let mut run = match task {
            Task::New(options, folder, overwrite) => {
                let config = with_absolute_paths(TrainConfig::resolve_for(&options, &dataset)?)?;
                Run::start(config, &folder, overwrite, session, &mut events)?
            }
            Task::Resume(_, folder) => Run::resume(config, &folder, session, &mut events)?,
        };
        host.report(Event::RunFolder(run.folder().to_owned()));
        run.keep_to_budget(conditions.started)?;
        if !has_budget {
            run.predict_time()?;
        }
        let mut curves = None;
        if conditions.tensorboard {
            match Curves::open(run.folder()) {
                Ok(opened) => curves = Some(opened),
                Err(error) => host.warn(CURVES, format!("{error}; {NO_CURVES}")),
            }
        }
        Ok(Self { run, conditions, allow_missing, curves, lost_at: None })
    }

    /// The run, to be looked at and asked for something.
    pub fn run(&mut self) -> &mut Run {
        &mut self.run
    }

    /// Goes on by one part: a step, a picture of an evaluation, a checkpoint.
    ///
    /// # Errors
    /// As [`Run::advance`].
    pub fn advance(&mut self, host: &mut Host<'_>) -> Result<Advanced, Failure> {
        let advanced = self.run.advance();
        for event in self.run.take_events() {
            pass_on(&mut self.curves, event, host);
        }
        Ok(advanced?)
    }

    /// Goes on to the end, looked at between all parts.
    fn train_watched(&mut self, host: &mut Host<'_>) -> Result<Outcome, TrainError> {
        if let Some(watcher) = host.watcher() {
            watcher.begin(&mut self.run);
        }
        loop {
            let advanced = self.run.advance();
            for event in self.run.take_events() {
                pass_on(&mut self.curves, event, host);
            }
            let advanced = advanced?;
            if let Advanced::Over(outcome) = &advanced {
                // Before somebody looks at the result for hours.
                self.report(outcome, host);
            }
            let run = &mut self.run;
            if let Some(watcher) = host.watcher() {
                match &advanced {
                    Advanced::Over(_) => watcher.after(run),
                    Advanced::Waiting => watcher.wait(run),
                    _ => watcher.between(run),
                }
            }
            if let Advanced::Over(outcome) = advanced {
                return Ok(*outcome);
            }
        }
    }

    /// Writes the page of a run that is done, whatever becomes of it.
    fn report(&self, outcome: &Outcome, host: &mut Host<'_>) {
        if self.conditions.report
            && outcome.end == End::Finished
            && let Err(failure) = report::write_at_end(self.run.folder(), host)
        {
            host.warn("the report", format!("{failure}; the run has no report.html"));
        }
    }

    /// Whether a device that was lost now was not lost just before.
    fn is_worth_another_try(&self) -> bool {
        self.lost_at.is_none_or(|before| self.run.step() >= before + STEPS_BETWEEN_LOSSES)
    }

    /// The run on a device that is opened anew, from its last checkpoint on: the same bytes in the end.
    fn recovered(self, lost: &EngineError, checkpoint: u64, host: &mut Host<'_>) -> Result<Self, Failure> {
        let Self { run, conditions, .. } = self;
        let (folder, dataset, lost_at) = (run.folder().to_owned(), Arc::clone(run.dataset()), run.step());
        let line = format!("{lost}; the run goes on from the checkpoint of step {checkpoint}");
        host.warn("the device", line);
        // The folder and what is left of the device are free before they are taken again.
        drop(run);
        let task = Task::resume(folder, &TrainOptions::default())?;
        let config = task.first_config()?;
        let engine = task.engine(&config, conditions, host)?;
        let again = Self::on(task, config, engine, dataset, conditions, host)?;
        Ok(Self { lost_at: Some(lost_at), ..again })
    }

    /// Goes on to the end, or until the job is asked to stop. A device that is lost is opened again, and the run goes on from
    /// its last checkpoint; one that is lost again within 100 steps ends it.
    ///
    /// # Errors
    /// As [`Run::advance`]; a profile that cannot be written.
    pub fn finish(mut self, host: &mut Host<'_>) -> Result<Trained, Failure> {
        let outcome = loop {
            let outcome = if host.watcher().is_some() {
                self.train_watched(host)
            } else {
                self.run.train(&mut |event| pass_on(&mut self.curves, event, host))
            };
            match outcome {
                Err(TrainError::Device { source, checkpoint: Some(step) }) if self.is_worth_another_try() => {
                    self = self.recovered(&source, step, host)?;
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
        // After the profile, which is a part of it.
        self.report(&trained.outcome, host);
        if trained.is_stopped() {
            let (step, run) = (trained.outcome.summary.steps, trained.folder.clone());
            host.stage(Stage::TrainingStopped { step, run });
        }
        Ok(trained)
    }
}

/// What warnings of the curves for TensorBoard are about, and what they mean for the run.
const CURVES: &str = "the curves";
const NO_CURVES: &str = "nothing more is written for TensorBoard";

/// Reports what happened in a run, to its curves first.
fn pass_on(curves: &mut Option<Curves>, event: gausset_train::Event, host: &mut Host<'_>) {
    if let Some(Err(error)) = curves.as_mut().map(|curves| curves.hear(&event)) {
        *curves = None;
        host.warn(CURVES, format!("{error}; {NO_CURVES}"));
    }
    host.report(Event::Training(Box::new(event)));
}

/// Trains to the end or until the job is asked to stop.
///
/// # Errors
/// Everything that can be wrong with dataset, folder, options and device.
pub fn train(task: Task, conditions: Conditions, host: &mut Host<'_>) -> Result<Trained, Failure> {
    let folder = task.folder().to_owned();
    finish(folder, Training::new(task, conditions, host), host)
}

/// Goes on with a run that could begin; one that was asked to stop before has done nothing.
fn finish(
    folder: PathBuf,
    begun: Result<Training, Failure>,
    host: &mut Host<'_>,
) -> Result<Trained, Failure> {
    match begun {
        Err(failure) if failure.is_stopped() => {
            host.stage(Stage::StoppedBeforeTraining);
            Ok(Trained {
                folder,
                outcome: Outcome::not_begun(),
                skipped: 0,
                allow_missing: false,
                profile: None,
            })
        }
        begun => begun?.finish(host),
    }
}

/// Says what is odd about a dataset.
pub fn warn_of(dataset: &Dataset, host: &mut Host<'_>) {
    for line in dataset.report() {
        host.warn("the dataset", line);
    }
}

/// Trains in a folder that may hold the same run: one that is finished is reported again, one that was begun goes on. A
/// run of other data or options is replaced with [`Overwrite::Replace`] only.
///
/// # Errors
/// As [`train`]; a folder with another run.
pub fn begin_or_go_on(
    folder: PathBuf,
    options: &TrainOptions,
    overwrite: Overwrite,
    conditions: Conditions,
    host: &mut Host<'_>,
) -> Result<Trained, Failure> {
    if overwrite == Overwrite::Replace || !SavedRun::is_one(&folder) {
        return train(Task::new(options.clone(), folder, overwrite)?, conditions, host);
    }
    let dataset = same_run(&folder, options)?;
    if let Some(outcome) = read_finished(&folder)? {
        host.stage(Stage::TrainedAlready);
        warn_of(&dataset, host);
        let allow_missing = options.allow_missing.unwrap_or_default();
        return Ok(Trained::new(folder, outcome, &dataset, allow_missing));
    }
    let task = Task::resume(folder.clone(), options)?;
    let config = task.first_config()?;
    let engine = task.engine(&config, conditions, host)?;
    finish(folder, Training::on(task, config, engine, Arc::new(dataset), conditions, host), host)
}

/// The dataset of the run in a folder, if it is the run that these options ask for. Options that nobody gives now, but
/// somebody gave then, are differences, too.
fn same_run(folder: &Path, options: &TrainOptions) -> Result<Dataset, Failure> {
    let recorded = SavedRun::read(folder)?.recorded;
    let first = with_absolute_paths(TrainConfig::resolve(options, None)?)?;
    let dataset = dataset::open(&first.data.path, &first.open_options())?;
    let differences = recorded.differences(&TrainConfig::resolve_for(options, &dataset)?);
    if !differences.is_empty() {
        let line = format!(
            "{}: the run was started with {}; give the same options to go on, choose another folder with ⟨output⟩, or replace it with ⟨force⟩",
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
