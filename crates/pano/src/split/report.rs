//! What a split reports: events while it works, and what was done.

use serde::Serialize;

use super::stages::StageTimes;

/// What happens; reported on the calling thread.
#[derive(Clone, Debug)]
pub enum Event {
    /// A frame is finished: (finished, all).
    Frame {
        /// Frames finished or skipped so far.
        done: usize,
        /// Frames in all.
        all: usize,
        /// Views per second so far.
        views_per_s: f64,
    },
    /// A frame was left out.
    Skipped(Skipped),
}

/// A frame that was left out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Skipped {
    /// Name of the frame.
    pub frame: String,
    /// `FILE: PLACE: what is wrong`.
    pub reason: String,
}

/// What was done.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Frames that are there now, with those of earlier runs.
    pub frames: usize,
    /// Views of these frames.
    pub views: usize,
    /// Frames that were there before.
    pub resumed: usize,
    /// Frames left out, in order.
    pub skipped: Vec<Skipped>,
    /// Whether it was stopped.
    pub is_cancelled: bool,
    /// Where the time went.
    pub times: StageTimes,
}
