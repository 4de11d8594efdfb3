//! A training run from its options to its result: dataset, device, run folder, profile.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use gausset_io::atomic::{Disk, Overwrite, plain_reason};
use gausset_io::dataset::{self, Dataset};
use gausset_io::run_folder::config_path;
use gausset_prof::Profile;
use gausset_train::{
    End, Outcome, Run, Session, TimeBudget, TrainConfig, TrainError, TrainOptions, check_dataset, check_init,
    read_finished, resumable_config,
};

use crate::device::DeviceOptions;
use crate::saved_run::SavedRun;
use crate::{Event, Failure, Host, Stage, profiling};

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

    fn folder(&self) -> &Path {
        match self {
            Self::New(_, folder, _) | Self::Resume(_, folder) => folder,
        }
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
    /// When the job began: time budgets count from here.
    pub started: Instant,
}

impl Conditions {
    /// On a device, from now on.
    #[must_use]
    pub fn on(device: DeviceOptions) -> Self {
        Self { device, profile: false, started: Instant::now() }
    }
}

/// What was done.
#[derive(Debug)]
pub struct Trained {
    /// Folder of the run.
    pub folder: PathBuf,
    /// What came of it.
    pub outcome: Outcome,
    /// Whether something had to be left out: pictures that cannot be read or are missing.
    pub has_skipped: bool,
    /// Where the time went, if that was asked for.
    pub profile: Option<Profile>,
}

impl Trained {
    /// Whether the run was asked to stop, and can go on.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.outcome.end == End::Stopped
    }

    fn new(folder: PathBuf, outcome: Outcome, dataset: &Dataset) -> Self {
        let in_evaluation = outcome.evaluation.as_ref().is_some_and(|report| !report.skipped.is_empty());
        let has_skipped = dataset.has_skipped() || in_evaluation || !outcome.skipped.is_empty();
        Self { folder, outcome, has_skipped, profile: None }
    }
}

/// Trains to the end or until the job is asked to stop.
///
/// # Errors
/// Everything that can be wrong with dataset, folder, options and device.
pub fn train(task: Task, conditions: Conditions, host: &mut Host<'_>) -> Result<Trained, Failure> {
    let config = task.first_config()?;
    let engine = conditions.device.engine(config.threads())?;
    if conditions.profile {
        profiling::start();
    }
    let dataset = open(&config)?;
    train_on(task, config, engine, dataset, conditions, host)
}

/// Opens the dataset of a run.
fn open(config: &TrainConfig) -> Result<Arc<Dataset>, Failure> {
    Ok(Arc::new(dataset::open(&config.data.path, &config.open_options())?))
}

/// Trains on a dataset that is open, on a device that is there.
fn train_on(
    task: Task,
    config: TrainConfig,
    mut engine: gausset_cpu::CpuEngine,
    dataset: Arc<Dataset>,
    conditions: Conditions,
    host: &mut Host<'_>,
) -> Result<Trained, Failure> {
    let folder = task.folder().to_owned();
    warn_of(&dataset, host);
    let stop = host.stop();
    let mut tell = |event: &gausset_train::Event| {
        if matches!(event, gausset_train::Event::Started(_)) {
            host.tell(Event::RunFolder(folder.clone()));
        }
        host.tell(Event::Training(Box::new(event.clone())));
    };
    let session =
        Session { dataset: Arc::clone(&dataset), engine: &mut engine, fs: &Disk, stop, events: &mut tell };
    let has_budget = config.time_budget != TimeBudget::None;
    let begun = match task {
        Task::New(options, folder, overwrite) => {
            let config = with_absolute_paths(TrainConfig::resolve_for(&options, &dataset)?)?;
            Run::start(config, &folder, overwrite, session)
        }
        Task::Resume(_, folder) => Run::resume(config, &folder, session),
    };
    if matches!(begun, Err(TrainError::Stopped)) {
        drop(begun);
        host.stage(Stage::StoppedBeforeTraining);
        return Ok(Trained { folder, outcome: Outcome::not_begun(), has_skipped: false, profile: None });
    }
    let mut run = begun?;
    run.keep_to_budget(conditions.started)?;
    if !has_budget {
        run.predict_time()?;
    }
    let outcome = run.train();
    host.tell(Event::Ended);
    let mut trained = Trained::new(folder, outcome?, &dataset);
    if conditions.profile {
        let profile = profiling::finish(&engine, &trained.folder, &trained.outcome)?;
        trained.profile = Some(profile);
    }
    for view in trained.outcome.evaluation.iter().flat_map(|report| &report.skipped) {
        host.warn("pictures left out of the evaluation", format!("{}: skipped: {}", view.name, view.reason));
    }
    if trained.is_stopped() {
        let (step, run) = (trained.outcome.summary.steps, trained.folder.clone());
        host.stage(Stage::TrainingStopped { step, run });
    }
    Ok(trained)
}

/// Warns of what is odd about a dataset.
pub(crate) fn warn_of(dataset: &Dataset, host: &mut Host<'_>) {
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
        return Ok(Trained::new(folder, outcome, &dataset));
    }
    let task = Task::resume(folder, options)?;
    let config = task.first_config()?;
    let engine = conditions.device.engine(config.threads())?;
    train_on(task, config, engine, Arc::new(dataset), conditions, host)
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
            "{}: the run was started with {}; give the same options to go on, choose another folder with -o, or replace it with --force",
            config_path(folder).display(),
            differences.join(", "),
        );
        return Err(Failure::new("other-options", line));
    }
    check_dataset(folder, &recorded, &dataset)?;
    check_init(&recorded)?;
    Ok(dataset)
}
