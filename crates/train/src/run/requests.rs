//! Requests to a run while it trains: plain data, sent from any thread, answered between two units of work.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::advance::RunPhase;
use super::device::Wait;
use super::{Run, TrainError};
use crate::events::Event;
use crate::warning::RunWarning;

/// Maximum number of queued requests.
pub const MAX_REQUESTS: usize = 64;
/// How long a paused run sleeps before it checks again whether it must stop.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// A request to a run, handled between two units of work. Requests do not affect the steps.
#[derive(Clone, Debug, PartialEq)]
pub enum Request {
    /// Do no steps until [`Self::Resume`]. Other requests are still answered.
    Pause,
    /// Continue training.
    Resume,
    /// Write a checkpoint now.
    Save,
    /// Write the current splats to `splats.ply` now.
    Export,
    /// Save a checkpoint and end.
    Stop,
}

/// The queue of requests.
#[derive(Clone, Debug, Default)]
pub struct RequestQueue(Arc<(Mutex<VecDeque<Request>>, Condvar)>);

impl RequestQueue {
    /// Queues a request; `false` if [`MAX_REQUESTS`] are queued already. Never blocks on the run.
    #[must_use]
    pub fn send(&self, request: Request) -> bool {
        let mut waiting = self.lock();
        let has_room = waiting.len() < MAX_REQUESTS;
        if has_room {
            waiting.push_back(request);
            self.0.1.notify_all();
        }
        has_room
    }

    /// Removes the oldest request.
    pub(super) fn take(&self) -> Option<Request> {
        self.lock().pop_front()
    }

    /// Sleeps until there is a request or a short time has passed.
    pub(crate) fn wait(&self) {
        let waiting = self.lock();
        if waiting.is_empty() {
            // The reason for waking does not matter: the caller checks again.
            let _ = self.0.1.wait_timeout(waiting, POLL_INTERVAL);
        }
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Request>> {
        // No operation under the lock can leave the list half changed.
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Run {
    /// Answers a request. The time it takes does not count as training.
    pub(super) fn handle_request(&mut self, request: Request) -> Result<(), TrainError> {
        // After the last step the state is saved anyway.
        let is_over = !matches!(self.phase, RunPhase::Training(_));
        match request {
            Request::Pause if !is_over && !self.is_paused => {
                self.take_report(Wait::AllSteps)?;
                self.is_paused = true;
                self.clock.pause();
                self.outputs.emit(Event::Paused { step: self.clock.done() });
            }
            Request::Resume if self.is_paused => {
                self.is_paused = false;
                self.clock.resume();
                self.outputs.emit(Event::Resumed { step: self.clock.done() });
            }
            Request::Stop => self.stop.store(true, Ordering::Relaxed),
            Request::Save if !is_over => {
                let saved = self.save_checkpoint();
                self.warn_on_failure(saved)?;
            }
            Request::Export if !is_over => {
                let exported = self.export_splats();
                self.warn_on_failure(exported)?;
            }
            Request::Pause | Request::Resume | Request::Save | Request::Export => {}
        }
        Ok(())
    }

    /// Turns a failed write that was requested during training into a warning: it must not end the run.
    fn warn_on_failure(&mut self, done: Result<(), TrainError>) -> Result<(), TrainError> {
        match done {
            Err(error @ (TrainError::Write(_) | TrainError::Folder(_))) => {
                let line = format!("{error}; training continues");
                self.outputs.warn(RunWarning::Note(line));
                Ok(())
            }
            done => done,
        }
    }
}
