//! State that the workers of a split share.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use super::budget::MemoryBudget;
use super::plans::PlanCache;
use super::queue::FrameQueue;
use super::settings::{SplitSettings, WorkerSettings};
use crate::cut::cutter::Plan;
use crate::cut::grade::{Grade, rows_with_chroma};
use crate::source::frames::SourceFrame;

pub(super) struct SharedState<'a> {
    pub(super) frames: &'a [SourceFrame],
    pub(super) settings: &'a SplitSettings,
    pub(super) work: &'a WorkerSettings,
    /// The output folder.
    pub(super) folder: &'a Path,
    /// Hash of the settings.
    pub(super) hash: &'a str,
    /// The caller's stop flag.
    pub(super) stop: &'a AtomicBool,
    /// Set by the split itself after a failure.
    pub(super) failed: AtomicBool,
    pub(super) queue: FrameQueue<'a>,
    pub(super) plans: PlanCache<'a>,
    pub(super) budget: MemoryBudget,
    /// The colour changes of all frames, if any.
    pub(super) grade: Option<Grade>,
}

impl SharedState<'_> {
    /// Rows of each plane to decode for a plan.
    pub(super) fn rows_to_decode(&self, plan: &Plan) -> Vec<[i32; 2]> {
        if self.settings.changes_frames() {
            rows_with_chroma(&plan.rows, &plan.shape.sizes)
        } else {
            plan.rows.clone()
        }
    }

    /// Whether no further frame should be cut.
    pub(super) fn should_stop(&self) -> bool {
        self.stop.load(Ordering::Relaxed) || self.failed.load(Ordering::Relaxed)
    }
}
