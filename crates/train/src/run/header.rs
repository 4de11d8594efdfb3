//! What a checkpoint holds besides the device's state: the position in the run, as JSON.

use std::path::Path;

use gausset_core::engine::{EXPOSURE_GROUP, POSE_GROUP, TrainState};
use serde::{Deserialize, Serialize};

use super::TrainError;
use super::feed::Corrections;
use crate::events::SkippedPicture;
use crate::recipe::Recipe;
use crate::views::Cursor;

/// Position of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct CheckpointHeader {
    /// Version of Gausset that wrote it.
    pub(super) version: String,
    /// Fingerprint of the dataset.
    pub(super) fingerprint: String,
    /// Finished steps.
    pub(super) step: u64,
    /// Position of the next view.
    pub(super) cursor: Cursor,
    /// Pictures that turned out to be unusable …
    pub(super) skipped: Vec<SkippedPicture>,
    /// … and how many of them cannot be read.
    pub(super) unreadable: usize,
    /// Wall seconds of training so far.
    pub(super) seconds: f64,
    /// CPU seconds of training so far.
    pub(super) cpu_seconds: f64,
    /// Sum of the losses since the last report.
    pub(super) loss_sum: f64,
    /// Steps since the last report.
    pub(super) loss_steps: u64,
    /// Updates skipped so far, because a gradient was not finite.
    pub(super) skipped_updates: u64,
}

impl CheckpointHeader {
    /// The header of a checkpoint, checked against the run that it should belong to.
    pub(super) fn read(
        path: &Path,
        header: &serde_json::Value,
        step_in_name: u64,
        recipe: &Recipe,
        fingerprint: &str,
    ) -> Result<Self, TrainError> {
        let bad = |place, what| TrainError::Checkpoint { path: path.to_owned(), place, what };
        let header = Self::deserialize(header).map_err(|error| bad("header", error.to_string()))?;
        if header.step != step_in_name || header.step > recipe.steps {
            let what = format!(
                "step is {} (expected {step_in_name}, and at most the {} of the run)",
                header.step, recipe.steps
            );
            return Err(bad("header", what));
        }
        if header.fingerprint != fingerprint {
            let what = format!("is of dataset {} (expected {fingerprint})", header.fingerprint);
            return Err(bad("header", what));
        }
        let numbers = [header.seconds, header.cpu_seconds, header.loss_sum];
        if !numbers.iter().all(|v| v.is_finite()) {
            return Err(bad("header", "a number is not finite".to_owned()));
        }
        Ok(header)
    }
}

/// Checks that a state is one of this run: SH degree and rows of corrections.
pub(super) fn check_state(
    path: &Path,
    state: &TrainState,
    recipe: &Recipe,
    corrections: Corrections,
    train_views: usize,
) -> Result<(), TrainError> {
    let bad = |place, what| Err(TrainError::Checkpoint { path: path.to_owned(), place, what });
    if state.splats.sh_degree != recipe.sh_degree {
        let what = format!("SH degree is {} (expected {})", state.splats.sh_degree, recipe.sh_degree);
        return bad("splats", what);
    }
    let groups = [
        (EXPOSURE_GROUP, corrections.exposure_rows(train_views), 12),
        (POSE_GROUP, corrections.pose_rows(train_views), 6),
    ];
    for (name, rows, width) in groups {
        let found = state.extra(name).map(|group| (group.clocks.len(), group.values.len()));
        let expected = rows.map(|rows| (rows, rows * width));
        if found != expected {
            let show = |rows: Option<(usize, usize)>| match rows {
                Some((rows, values)) => format!("{rows} rows with {values} values"),
                None => "none".to_owned(),
            };
            return bad(name, format!("expected {}, found {}", show(expected), show(found)));
        }
    }
    Ok(())
}
