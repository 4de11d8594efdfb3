//! A training that its caller advances.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use gausset::train::AdvanceOutcome;
use gausset::training::{RunSettings, Task, Trainer as RustTrainer};
use gausset::{Failure, Host, RenderOptions};
use gausset_core::engine::Outputs;
use pyo3::prelude::*;

use crate::device::device_options;
use crate::error::detached;
use crate::job::run_job_until;
use crate::render::{Images, Intrinsics, camera_and_pose, images};
use crate::train::{Callbacks, Given, new_task, resumed_task, tell};

/// A run between two steps.
#[pyclass(frozen, module = "gausset._gausset")]
pub(crate) struct Trainer {
    /// `None` after its end, and while it works.
    run: Mutex<Option<RustTrainer>>,
    stop: Arc<AtomicBool>,
    /// Steps when it was opened: finished ones, and those of the whole run.
    opened_at: (u64, u64),
}

#[pymethods]
impl Trainer {
    /// Starts a new run.
    #[staticmethod]
    fn start(
        py: Python<'_>,
        data: PathBuf,
        output: PathBuf,
        options: Given,
        device: &str,
        force: bool,
        report: bool,
    ) -> PyResult<Self> {
        Self::open(py, || new_task(data, output, &options, force), device, report)
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
    ) -> PyResult<Self> {
        Self::open(py, || resumed_task(run, data, &options), device, report)
    }

    /// Finished steps, and those of the whole run, when it was opened.
    #[getter]
    fn opened_at(&self) -> (u64, u64) {
        self.opened_at
    }

    /// Does steps. Returns the number of finished ones; `None` if the run has ended.
    fn advance(
        &self,
        py: Python<'_>,
        steps: u64,
        progress: Option<Py<PyAny>>,
        on_event: Option<Py<PyAny>>,
    ) -> PyResult<Option<u64>> {
        let callbacks = Callbacks { progress, on_event };
        run_job_until(
            py,
            &self.stop,
            |event| tell(py, &callbacks, event),
            |host| self.advance_by(steps, host),
        )
    }

    /// Asks the run to save its state and end: the next step of `advance` is this.
    fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Writes a checkpoint; `False` if the run has ended.
    fn save(&self, py: Python<'_>) -> PyResult<bool> {
        detached(py, || self.with_run(|run| Ok(run.run().save_checkpoint()?)).map(|done| done.is_some()))
    }

    /// Writes the current splats to the run folder; `False` if the run has ended.
    fn export(&self, py: Python<'_>) -> PyResult<bool> {
        detached(py, || self.with_run(|run| Ok(run.run().export_splats()?)).map(|done| done.is_some()))
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
                let saved_from_device = run.run().saved_from_device();
                let pose = saved_from_device.inverse().apply_to_pose(&pose);
                let mut rendering = run.run().with_device(|engine, options| {
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
    ) -> PyResult<Self> {
        let stop = Arc::default();
        let mut run = run_job_until(
            py,
            &stop,
            |event| tell(py, &Callbacks::default(), event),
            |host| {
                let settings = RunSettings { report, ..RunSettings::for_device(device_options(device)?) };
                RustTrainer::new(task()?, settings, host)
            },
        )?;
        let opened_at = (run.run().step(), run.run().steps());
        Ok(Self { run: Mutex::new(Some(run)), stop, opened_at })
    }

    fn lock(&self) -> MutexGuard<'_, Option<RustTrainer>> {
        // A run that panics or fails is not put back.
        self.run.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Works on the run, if it has not ended. A failure ends it: its last checkpoint is intact.
    fn with_run<T>(
        &self,
        work: impl FnOnce(&mut RustTrainer) -> Result<T, Failure>,
    ) -> Result<Option<T>, Failure> {
        let mut place = self.lock();
        let Some(mut run) = place.take() else { return Ok(None) };
        let done = work(&mut run)?;
        *place = Some(run);
        Ok(Some(done))
    }

    /// Does steps; after the last one, ends the run.
    fn advance_by(&self, steps: u64, host: &mut Host<'_>) -> Result<Option<u64>, Failure> {
        let mut place = self.lock();
        let Some(mut run) = place.take() else { return Ok(None) };
        let target = run.run().step().saturating_add(steps);
        // A run that has none left is evaluated and reported.
        while run.run().step() < run.run().steps() {
            if run.run().step() >= target && !self.stop.load(Ordering::Relaxed) {
                let step = run.run().step();
                *place = Some(run);
                return Ok(Some(step));
            }
            if let AdvanceOutcome::Ended(_) = run.advance(host)? {
                break;
            }
        }
        run.finish_started(host)?;
        Ok(None)
    }
}
