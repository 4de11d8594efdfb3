//! A training that its caller advances.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, MutexGuard};

use gausset::train::{AdvanceOutcome, Run, TrainError};
use gausset::training::{RunSettings, Task, Trainer as RustTrainer};
use gausset::{Event, Failure, Host, RenderOptions};
use gausset_core::engine::Outputs;
use pyo3::prelude::*;

use crate::device::device_options;
use crate::error::detached;
use crate::job::run_job_until;
use crate::render::{Images, Intrinsics, camera_and_pose, images};
use crate::threaded::Threaded;
use crate::train::{Callbacks, Given, new_task, resumed_task, tell};

/// A run between two calls.
enum State {
    Running(Box<RustTrainer>),
    Ended,
    /// Code and message of what ended it. Its last checkpoint is intact.
    Failed(&'static str, String),
}

/// A training that is advanced by calls.
#[pyclass(frozen, module = "gausset._gausset")]
pub(crate) struct Trainer {
    state: Threaded<State>,
    stop: Arc<AtomicBool>,
    /// Finished steps.
    step: AtomicU64,
    /// Steps of the whole run.
    steps: AtomicU64,
}

#[pymethods]
impl Trainer {
    /// Starts a new run.
    #[staticmethod]
    #[expect(clippy::too_many_arguments, reason = "the settings of a run, by keyword in Python")]
    fn start(
        py: Python<'_>,
        data: PathBuf,
        output: PathBuf,
        options: Given,
        device: &str,
        force: bool,
        report: bool,
        on_event: Option<Py<PyAny>>,
    ) -> PyResult<Self> {
        Self::open(py, || new_task(data, output, &options, force), device, report, on_event)
    }

    /// Resumes a run that was stopped.
    #[staticmethod]
    fn resume(
        py: Python<'_>,
        run: PathBuf,
        data: Option<PathBuf>,
        options: Given,
        device: &str,
        report: bool,
        on_event: Option<Py<PyAny>>,
    ) -> PyResult<Self> {
        Self::open(py, || resumed_task(run, data, &options), device, report, on_event)
    }

    /// Finished steps.
    #[getter]
    fn step(&self) -> u64 {
        self.step.load(Ordering::Relaxed)
    }

    /// Steps of the whole run.
    #[getter]
    fn steps(&self) -> u64 {
        self.steps.load(Ordering::Relaxed)
    }

    /// Does steps, and what is due after them. Returns whether the run continues. Ctrl-C and an exception of a callback save
    /// its state and end it.
    fn advance(
        &self,
        py: Python<'_>,
        steps: u64,
        progress: Option<Py<PyAny>>,
        on_event: Option<Py<PyAny>>,
    ) -> PyResult<bool> {
        let callbacks = Callbacks::new(progress, on_event);
        let job = |host: &mut Host<'_>| self.advance_by(steps, host);
        let advanced = run_job_until(py, &self.stop, |event| tell(py, &callbacks, event), job);
        advanced.and_then(|continues| py.check_signals().map(|()| continues)).inspect_err(|error| {
            // The exception may have come after the last step of the call.
            self.stop.store(true, Ordering::Relaxed);
            let saved = run_job_until(py, &self.stop, |_| Ok(()), |host| self.advance_by(0, host));
            if let Err(unsaved) = saved {
                error.set_cause(py, Some(unsaved));
            }
        })
    }

    /// Saves the state of the run and ends it, unless it has ended or failed.
    fn end(&self, py: Python<'_>, progress: Option<Py<PyAny>>, on_event: Option<Py<PyAny>>) -> PyResult<()> {
        self.stop.store(true, Ordering::Relaxed);
        let callbacks = Callbacks::new(progress, on_event);
        let job = |host: &mut Host<'_>| self.advance_by(0, host).map(drop);
        run_job_until(py, &self.stop, |event| tell(py, &callbacks, event), job)
    }

    /// Writes a checkpoint, unless the run has ended.
    fn save(&self, py: Python<'_>, on_event: Option<Py<PyAny>>) -> PyResult<()> {
        self.write(py, on_event, Run::save_checkpoint)
    }

    /// Writes the current splats to the run folder, unless the run has ended.
    fn export(&self, py: Python<'_>, on_event: Option<Py<PyAny>>) -> PyResult<()> {
        self.write(py, on_event, Run::export_splats)
    }

    /// Renders a view, in the axes of the exported splats; `None` if the run has ended.
    fn render<'py>(
        &self,
        py: Python<'py>,
        intrinsics: Intrinsics,
        pose: [[f64; 4]; 4],
        background: [f32; 3],
    ) -> PyResult<Option<Images<'py>>> {
        let rendering = detached(py, || {
            let (camera, pose) = camera_and_pose(intrinsics, pose)?;
            self.with_run(|run| {
                let saved_from_device = run.saved_from_device();
                let pose = saved_from_device.inverse().apply_to_pose(&pose);
                let mut rendering = run.with_device(|engine, options| {
                    engine.render(&camera, &pose, &RenderOptions { background, ..*options }, Outputs::All)
                })?;
                rendering.depth.iter_mut().for_each(|depth| *depth *= saved_from_device.scale as f32);
                Ok(rendering)
            })
        })?;
        rendering.map(|rendering| images(py, rendering)).transpose()
    }
}

impl Trainer {
    fn open(
        py: Python<'_>,
        task: impl FnOnce() -> Result<Task, Failure> + Send,
        device: &str,
        report: bool,
        on_event: Option<Py<PyAny>>,
    ) -> PyResult<Self> {
        let (stop, callbacks) = (Arc::default(), Callbacks::new(None, on_event));
        let mut run = run_job_until(
            py,
            &stop,
            |event| tell(py, &callbacks, event),
            |host| {
                let settings = RunSettings { report, ..RunSettings::for_device(device_options(device)?) };
                RustTrainer::new(task()?, settings, host)
            },
        )?;
        run.run().stop_clock();
        let (step, steps) = (run.run().step().into(), run.run().steps().into());
        Ok(Self { state: Threaded::new(State::Running(Box::new(run))), stop, step, steps })
    }

    fn lock(&self) -> Result<MutexGuard<'_, State>, Failure> {
        self.state.lock("Trainer")
    }

    /// Works on the run between two steps, if it has not ended. A failure does not end it.
    fn with_run<T>(&self, work: impl FnOnce(&mut Run) -> Result<T, Failure>) -> Result<Option<T>, Failure> {
        match &mut *self.lock()? {
            State::Running(run) => work(run.run()).map(Some),
            State::Ended | State::Failed(..) => Ok(None),
        }
    }

    /// Writes files of the run.
    fn write(
        &self,
        py: Python<'_>,
        on_event: Option<Py<PyAny>>,
        work: fn(&mut Run) -> Result<(), TrainError>,
    ) -> PyResult<()> {
        let callbacks = Callbacks::new(None, on_event);
        let job = |host: &mut Host<'_>| {
            let written = self.with_run(|run| {
                let written = work(run);
                run.take_events().for_each(|event| host.report(Event::Training(Box::new(event))));
                Ok(written?)
            });
            written.map(drop)
        };
        run_job_until(py, &self.stop, |event| tell(py, &callbacks, event), job)
    }

    /// Does steps; after the last one, ends the run. Returns whether it continues.
    fn advance_by(&self, steps: u64, host: &mut Host<'_>) -> Result<bool, Failure> {
        let mut state = self.lock()?;
        let bug = State::Failed("internal", "bug in Gausset: a training panicked".to_owned());
        let run = match std::mem::replace(&mut *state, bug) {
            State::Running(run) => run,
            State::Ended => {
                *state = State::Ended;
                return Ok(false);
            }
            State::Failed(code, message) => {
                *state = State::Failed(code, message.clone());
                let is_ending = self.stop.load(Ordering::Relaxed);
                return if is_ending { Ok(false) } else { Err(Failure::new(code, message)) };
            }
        };
        match self.advance_run(run, steps, host) {
            Ok(left) => {
                *state = left.map_or(State::Ended, State::Running);
                Ok(matches!(*state, State::Running(_)))
            }
            Err(failure) => {
                *state = State::Failed(failure.code, failure.message.clone());
                Err(failure)
            }
        }
    }

    /// As [`Self::advance_by`]; returns the run if it continues.
    fn advance_run(
        &self,
        mut trainer: Box<RustTrainer>,
        steps: u64,
        host: &mut Host<'_>,
    ) -> Result<Option<Box<RustTrainer>>, Failure> {
        let target = trainer.run().step().saturating_add(steps);
        trainer.run().start_clock();
        loop {
            let run = trainer.run();
            self.step.store(run.step(), Ordering::Relaxed);
            self.steps.store(run.steps(), Ordering::Relaxed);
            if run.step() >= run.steps() {
                break;
            }
            let is_stopping = self.stop.load(Ordering::Relaxed);
            if run.step() >= target && !run.has_due_work() && !is_stopping {
                run.stop_clock();
                return Ok(Some(trainer));
            }
            if let AdvanceOutcome::Ended(_) = trainer.advance(host)? {
                break;
            }
        }
        // Evaluates and reports a run that has no steps left.
        trainer.finish_started(host)?;
        Ok(None)
    }
}
