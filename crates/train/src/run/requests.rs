//! What can be asked of a run while it goes on: requests as data, left for it from any thread.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use gausset_core::{Camera, Pose};

/// Most requests that wait for a run.
pub const MAX_REQUESTS: usize = 64;
/// How long a paused run sleeps before it looks whether it is to stop.
const NAP: Duration = Duration::from_millis(50);

/// Something that a run is asked to do between two of its parts. Nothing of it has an influence on the steps.
#[derive(Clone, Debug, PartialEq)]
pub enum Request {
    /// Do no step until [`Self::Resume`]. Other requests are answered meanwhile.
    Pause,
    /// Go on.
    Resume,
    /// Write a checkpoint now.
    Save,
    /// Write `splats.ply` now, as the splats are.
    Export,
    /// Render a view; the answer is [`crate::Event::Picture`].
    Picture(PictureRequest),
    /// Save a checkpoint and end.
    Stop,
}

/// A view that somebody wants to see.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PictureRequest {
    /// Comes back with the answer.
    pub id: u64,
    /// Intrinsics.
    pub camera: Camera,
    /// `camera_from_world`, in the axes of the dataset.
    pub pose: Pose,
}

/// The place where requests are left.
#[derive(Clone, Debug, Default)]
pub struct Requests(Arc<(Mutex<VecDeque<Request>>, Condvar)>);

impl Requests {
    /// Leaves a request; `false` if there are [`MAX_REQUESTS`] already. Never waits for the run.
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

    /// The oldest request.
    pub(super) fn take(&self) -> Option<Request> {
        self.lock().pop_front()
    }

    /// Sleeps until there is a request, but not long.
    pub(crate) fn wait(&self) {
        let waiting = self.lock();
        if waiting.is_empty() {
            // Whatever woke it, whoever called looks again.
            let _ = self.0.1.wait_timeout(waiting, NAP);
        }
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Request>> {
        // Nothing that is done under the lock can leave the list half changed.
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
