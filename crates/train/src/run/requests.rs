//! Requests to a run while it trains: plain data, sent from any thread.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use gausset_core::{Camera, Pose};

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
    /// Render a view; the answer is [`crate::Event::Picture`].
    Render(RenderRequest),
    /// Save a checkpoint and end.
    Stop,
}

/// A view to render.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RenderRequest {
    /// Returned with the answer.
    pub id: u64,
    /// Intrinsics of the view.
    pub camera: Camera,
    /// `camera_from_world`, in the axes of the dataset.
    pub pose: Pose,
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
