//! Header of a checkpoint: the position in the run, as JSON, stored with the device's state.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::TrainError;
use super::monitor::SetChanges;
use crate::config::TrainConfig;
use crate::option_values::TimeBudget;
use crate::plan::StepPlan;
use crate::views::Cursor;
use crate::warning::SkippedImage;

/// Position in a run.
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
    /// Images that are unusable.
    pub(super) skipped: Vec<SkippedImage>,
    /// Number of images that cannot be read.
    pub(super) unreadable: usize,
    /// Wall seconds of training so far.
    pub(super) seconds: f64,
    /// CPU seconds of training so far.
    pub(super) cpu_seconds: f64,
    /// Sum of the losses since the last report.
    pub(super) loss_sum: f64,
    /// Steps since the last report.
    pub(super) loss_steps: u64,
    /// Updates skipped so far because a gradient was not finite.
    pub(super) skipped_updates: u64,
    /// Tiles whose splat list was truncated so far.
    #[serde(default)]
    pub(super) cut_tiles: u64,
    /// Steps with such a tile so far.
    #[serde(default)]
    pub(super) cut_steps: u64,
    /// Changes to the set of splats since the last report.
    #[serde(default)]
    pub(super) changes: SetChanges,
    /// Decisions so far, if the run has a time budget.
    #[serde(default)]
    pub(super) plan: Option<StepPlan>,
}

impl CheckpointHeader {
    /// Reads the header of a checkpoint and checks that it belongs to this run.
    pub(super) fn read(
        path: &Path,
        header: &serde_json::Value,
        step_in_name: u64,
        config: &TrainConfig,
        fingerprint: &str,
    ) -> Result<Self, TrainError> {
        let bad = |what| TrainError::Checkpoint { path: path.to_owned(), place: "header".to_owned(), what };
        let mut header = Self::deserialize(header).map_err(|error| bad(error.to_string()))?;
        if config.time_budget == TimeBudget::None {
            // The run reached its end and recorded all decisions in `config.toml`. This checkpoint is older and knows
            // only some of them: the last one could not be saved or used.
            header.plan = None;
        }
        let steps = header.plan.as_ref().unwrap_or(&config.plan).end();
        if header.step != step_in_name || header.step > steps {
            let what = format!(
                "step is {} (expected {step_in_name}, and at most the {} of the run)",
                header.step, steps
            );
            return Err(bad(what));
        }
        if header.fingerprint != fingerprint {
            let what = format!("is of dataset {} (expected {fingerprint})", header.fingerprint);
            return Err(bad(what));
        }
        let numbers = [header.seconds, header.cpu_seconds, header.loss_sum];
        if !numbers.iter().all(|v| v.is_finite()) {
            return Err(bad("a number is not finite".to_owned()));
        }
        Ok(header)
    }
}
