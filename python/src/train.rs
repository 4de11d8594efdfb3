//! Training, resuming and evaluation. Results are JSON text, in the form of the program's `--json`.

use std::cell::Cell;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use gausset::evaluate::{EvaluateOptions, evaluate as evaluate_job};
use gausset::io::atomic::Overwrite;
use gausset::saved_run::SavedRun;
use gausset::train::{self as training, TrainOptions};
use gausset::training::{RunSettings, Task, Trained, train as train_job};
use gausset::{Event, Failure, Stage};
use pyo3::prelude::*;

use crate::device::device_options;
use crate::error::{argument, detached, exception, warn};
use crate::job::run_job;

/// Options as their keys and the text of their values.
pub(crate) type Given = Vec<(String, OsString)>;

/// Names of the training options, as keywords of Python.
#[pyfunction]
pub(crate) fn option_names() -> Vec<String> {
    let listed = TrainOptions::table().into_iter().filter(|option| option.shown.is_some());
    listed.map(|option| option.name.replace('-', "_")).collect()
}

/// Options of a run, from keywords.
fn train_options(given: &Given) -> Result<TrainOptions, Failure> {
    let known = TrainOptions::table();
    let mut options = TrainOptions::default();
    for (name, text) in given {
        let key = name.replace('_', "-");
        if !known.iter().any(|option| option.name == key && option.shown.is_some()) {
            let nearest = TrainOptions::nearest_key(&key).map(|key| key.replace('-', "_"));
            let remedy = nearest.map_or_else(String::new, |name| format!("; did you mean `{name}`?"));
            return Err(Failure::new("option", format!("{name}: no such option{remedy}")));
        }
        options.set(&key, text).map_err(|error| Failure::new("option", format!("{name}: {error}")))?;
    }
    Ok(options)
}

/// Functions of Python that are called during a training.
#[derive(Default)]
pub(crate) struct Callbacks {
    /// Receives step, number of steps and loss.
    pub(crate) progress: Option<Py<PyAny>>,
    /// Receives each event as a line of JSON.
    pub(crate) on_event: Option<Py<PyAny>>,
    /// Whether the events are those of a part of a run in blocks.
    is_part: Cell<bool>,
}

impl Callbacks {
    pub(crate) fn new(progress: Option<Py<PyAny>>, on_event: Option<Py<PyAny>>) -> Self {
        Self { progress, on_event, is_part: Cell::new(false) }
    }

    /// Calls Python with a stage of a run in blocks.
    fn tell_stage(&self, py: Python<'_>, stage: &Stage) -> PyResult<()> {
        if let Stage::CoarseRun { .. } | Stage::BlockRun { .. } | Stage::Merged { .. } = stage {
            self.is_part.set(!matches!(stage, Stage::Merged { .. }));
        }
        if let (Some(on_event), Some((name, mut fields))) = (&self.on_event, stage.block_event()) {
            fields["event"] = name.into();
            on_event.call1(py, (fields.to_string(),))?;
        }
        Ok(())
    }
}

/// Calls Python with what an event says to it.
pub(crate) fn tell(py: Python<'_>, callbacks: &Callbacks, event: Event) -> PyResult<()> {
    let event = match event {
        Event::Warning { line, .. } => return warn(py, &line),
        Event::Stage(stage) => return callbacks.tell_stage(py, &stage),
        Event::Training(event) => *event,
        _ => return Ok(()),
    };
    if callbacks.is_part.get() && matches!(event, training::Event::Finished(_)) {
        // The run that the caller knows is the whole one.
        return Ok(());
    }
    if let Some(on_event) = &callbacks.on_event {
        on_event.call1(py, (event.to_json(),))?;
    }
    match event {
        training::Event::Warning(warning) => warn(py, &warning.to_string()),
        training::Event::Exported { path, dropped, .. } if dropped > 0 => {
            let line = format!("{}: {dropped} splats without finite parameters left out", path.display());
            warn(py, &line)
        }
        training::Event::Progress(now) => match &callbacks.progress {
            Some(progress) => progress.call1(py, (now.step, now.steps, now.loss)).map(drop),
            None => Ok(()),
        },
        _ => Ok(()),
    }
}

/// Runs a task; returns its folder.
fn run_task(
    py: Python<'_>,
    task: impl FnOnce() -> Result<Task, Failure> + Send,
    device: &str,
    report: bool,
    callbacks: &Callbacks,
) -> PyResult<PathBuf> {
    let trained: Trained = run_job(
        py,
        |event| tell(py, callbacks, event),
        |host| {
            let settings = RunSettings { report, ..RunSettings::for_device(device_options(device)?) };
            train_job(task()?, settings, host)
        },
    )?;
    Ok(trained.folder)
}

/// The task of a new run.
pub(crate) fn new_task(
    data: PathBuf,
    output: PathBuf,
    options: &Given,
    force: bool,
) -> Result<Task, Failure> {
    let overwrite = if force { Overwrite::Replace } else { Overwrite::Refuse };
    Task::new(TrainOptions { data: Some(data), ..train_options(options)? }, output, overwrite)
}

/// The task that resumes a run.
pub(crate) fn resumed_task(run: PathBuf, data: Option<PathBuf>, options: &Given) -> Result<Task, Failure> {
    Task::resume(run, &TrainOptions { data, ..train_options(options)? })
}

/// Trains a new run; returns its folder.
#[pyfunction]
#[pyo3(signature = (data, output, options, device, force, report, progress, on_event = None))]
#[expect(clippy::too_many_arguments, reason = "the settings of a run, by keyword in Python")]
pub(crate) fn train(
    py: Python<'_>,
    data: PathBuf,
    output: PathBuf,
    options: Given,
    device: &str,
    force: bool,
    report: bool,
    progress: Option<Py<PyAny>>,
    on_event: Option<Py<PyAny>>,
) -> PyResult<PathBuf> {
    let task = || new_task(data, output, &options, force);
    run_task(py, task, device, report, &Callbacks::new(progress, on_event))
}

/// Resumes a run; returns its folder.
#[pyfunction]
#[pyo3(signature = (run, data, options, device, report, progress, on_event = None))]
#[expect(clippy::too_many_arguments, reason = "the settings of a run, by keyword in Python")]
pub(crate) fn resume(
    py: Python<'_>,
    run: PathBuf,
    data: Option<PathBuf>,
    options: Given,
    device: &str,
    report: bool,
    progress: Option<Py<PyAny>>,
    on_event: Option<Py<PyAny>>,
) -> PyResult<PathBuf> {
    let task = || resumed_task(run, data, &options);
    run_task(py, task, device, report, &Callbacks::new(progress, on_event))
}

/// Evaluates a run or a splat file; returns the report as JSON.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "the settings of an evaluation, by keyword in Python")]
pub(crate) fn evaluate(
    py: Python<'_>,
    run: PathBuf,
    data: Option<PathBuf>,
    split: &str,
    max_resolution: Option<u32>,
    output: Option<PathBuf>,
    lpips: Option<PathBuf>,
    force: bool,
    device: &str,
) -> PyResult<String> {
    let result = run_job(
        py,
        |event| tell(py, &Callbacks::default(), event),
        |host| {
            let split = split.parse::<training::Split>();
            let split = split.map_err(|error| argument(format!("split: {error}")))?;
            let device = device_options(device)?;
            let options = EvaluateOptions {
                data,
                split,
                max_resolution,
                output,
                lpips,
                force,
                device,
                ..EvaluateOptions::new(run)
            };
            evaluate_job(&options, host)
        },
    )?;
    json(py, &result.report)
}

/// The summary of a run, finished or not, as JSON.
#[pyfunction]
pub(crate) fn run_summary(py: Python<'_>, run: PathBuf) -> PyResult<String> {
    json(py, &detached(py, || Ok(training::read_summary(&SavedRun::folder_at(&run))?))?)
}

/// Whether a run is finished.
#[pyfunction]
pub(crate) fn run_state(py: Python<'_>, run: PathBuf) -> PyResult<bool> {
    detached(py, || Ok(training::read_outcome(&SavedRun::folder_at(&run))?.is_some()))
}

/// The file of a run's trained splats.
#[pyfunction]
pub(crate) fn run_splats(py: Python<'_>, run: PathBuf) -> PyResult<PathBuf> {
    detached(py, || splats_of(&run))
}

fn splats_of(run: &Path) -> Result<PathBuf, Failure> {
    SavedRun::read(run)?.trained_splats()
}

fn json(py: Python<'_>, value: &impl serde::Serialize) -> PyResult<String> {
    serde_json::to_string(value).map_err(|error| exception(py, Failure::new("internal", error)))
}
