//! Events during a split, and its final report.

use serde::Serialize;

use super::stages::StageTimes;

/// A progress event, reported on the calling thread.
#[derive(Clone, Debug)]
pub enum SplitEvent {
    /// A frame is finished or skipped.
    Frame {
        /// Frames finished or skipped so far.
        done: usize,
        /// Total number of frames.
        total: usize,
        /// Views per second so far.
        views_per_s: f64,
    },
    /// A frame was skipped.
    Skipped(Skipped),
}

/// A skipped frame.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Skipped {
    /// Name of the frame.
    pub frame: String,
    /// `FILE: FIELD: what is wrong`.
    pub reason: String,
}

/// The result of a split.
#[derive(Clone, Debug, Default)]
pub struct SplitReport {
    /// Finished frames, including those of earlier runs.
    pub frames: usize,
    /// Total number of views of these frames.
    pub views: usize,
    /// Frames that were finished by earlier runs.
    pub resumed: usize,
    /// Skipped frames, in order.
    pub skipped: Vec<Skipped>,
    /// Whether the split was cancelled.
    pub is_cancelled: bool,
    /// Time per stage.
    pub times: StageTimes,
}
