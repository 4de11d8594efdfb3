//! State that the workers of a split share.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use super::budget::Budget;
use super::plans::Plans;
use super::settings::{Settings, Work};
use super::turns::Turns;
use crate::cutter::Plan;
use crate::frames::SourceFrame;
use crate::grade::{Grade, rows_with_chroma};

pub(super) struct Shared<'a> {
    pub(super) frames: &'a [SourceFrame],
    pub(super) settings: &'a Settings,
    pub(super) work: &'a Work,
    /// The output folder.
    pub(super) folder: &'a Path,
    /// Hash of the settings.
    pub(super) hash: &'a str,
    /// The caller's stop flag.
    pub(super) stop: &'a AtomicBool,
    /// Set by the split itself after a failure.
    pub(super) failed: AtomicBool,
    pub(super) turns: Turns<'a>,
    pub(super) plans: Plans<'a>,
    pub(super) budget: Budget,
    /// The colour changes of all frames, if any.
    pub(super) grade: Option<Grade>,
}

impl Shared<'_> {
    /// Rows of each plane to decode for a plan.
    pub(super) fn rows(&self, plan: &Plan) -> Vec<[i32; 2]> {
        if self.settings.has_colours() {
            rows_with_chroma(&plan.rows, &plan.shape.sizes)
        } else {
            plan.rows.clone()
        }
    }

    /// Whether no further frame should be cut.
    pub(super) fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed) || self.failed.load(Ordering::Relaxed)
    }
}
