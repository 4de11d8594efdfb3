//! Runs a job of the library for a caller in Python.
//!
//! The job has a thread of its own. The calling thread receives its events, calls Python with them and looks for
//! signals. Ctrl-C, or an exception of a callback, asks the job to stop; it is raised when the job has saved its state. If
//! that fails, the failure is its cause.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use gausset::{Event, Failure, Host};
use pyo3::prelude::*;

use crate::error::{exception, unwind};

/// Longest time between two looks for signals.
const SIGNAL_INTERVAL: Duration = Duration::from_millis(50);

/// Runs a job; `on_event` is called in the calling thread.
pub(crate) fn run_job<T: Send>(
    py: Python<'_>,
    on_event: impl FnMut(Event) -> PyResult<()>,
    job: impl FnOnce(&mut Host<'_>) -> Result<T, Failure> + Send,
) -> PyResult<T> {
    run_job_until(py, &Arc::default(), on_event, job)
}

/// As [`run_job`], with a flag that asks the job to stop.
pub(crate) fn run_job_until<T: Send>(
    py: Python<'_>,
    stop: &Arc<AtomicBool>,
    mut on_event: impl FnMut(Event) -> PyResult<()>,
    job: impl FnOnce(&mut Host<'_>) -> Result<T, Failure> + Send,
) -> PyResult<T> {
    let (sender, mut receiver) = channel();
    let mut interruption = None;
    let result = std::thread::scope(|scope| {
        let worker = scope.spawn(move || {
            unwind(|| {
                // The receiver is gone only if the calling thread has panicked.
                let mut send = |event| drop(sender.send(event));
                job(&mut Host::new(stop, &mut send))
            })
        });
        loop {
            let told = match py.detach(|| receive(&mut receiver)) {
                Ok(event) if interruption.is_none() => on_event(event),
                Ok(_) | Err(RecvTimeoutError::Timeout) => Ok(()),
                Err(RecvTimeoutError::Disconnected) => break,
            };
            if let Err(error) = told.and_then(|()| py.check_signals()) {
                stop.store(true, Ordering::Relaxed);
                // A second Ctrl-C changes nothing.
                interruption.get_or_insert(error);
            }
        }
        py.detach(|| worker.join())
    });
    let result =
        result.unwrap_or_else(|_| Err(Failure::new("internal", "bug in Gausset: a thread panicked")));
    let Some(error) = interruption else {
        return result.map_err(|failure| exception(py, failure));
    };
    if let Some(failure) = result.err().filter(|failure| !failure.is_stopped()) {
        error.set_cause(py, Some(exception(py, failure)));
    }
    Err(error)
}

/// Waits for an event. The exclusive reference lets another thread's interpreter state be released meanwhile.
fn receive(receiver: &mut Receiver<Event>) -> Result<Event, RecvTimeoutError> {
    receiver.recv_timeout(SIGNAL_INTERVAL)
}
