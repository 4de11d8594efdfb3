//! What a run writes and reports: its folder with configuration, checkpoints, splats and metrics, and its events.

use std::collections::VecDeque;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use gausset_core::Splats;
use gausset_core::constants::NEAR_PLANE;
use gausset_core::engine::{CorrectionGroup, TrainState};
use gausset_core::se3::IDENTITY3;
use gausset_io::atomic::{FileSystem, Overwrite, WriteError, WriteOptions, write_atomic};
use gausset_io::dataset::Dataset;
use gausset_io::metrics_log::MetricsLog;
use gausset_io::run_folder::{
    RunFolder, checkpoint_path, confidence_path, eval_folder, metrics_path, splats_path,
};
use gausset_io::splat::{self, SaveOptions, SaveReport, SplatFile};
use serde::{Deserialize, Serialize};

use super::clock::is_multiple;
use super::corrections::Corrections;
use super::device::SetChanges;
use super::{TrainError, prepare};
use crate::config::{Outputs, RecordedRun, RunRecord, TrainConfig};
use crate::eval::{ConfidenceReport, EvalOutput};
use crate::events::Event;
use crate::option_values::TimeBudget;
use crate::plan::StepPlan;
use crate::recipe::{Recipe, SceneFacts};
use crate::sky::Surroundings;
use crate::up::SAVED_UP;
use crate::views::Cursor;
use crate::warning::{RunWarning, SkippedImage};

/// How `splats.ply` is written.
const SPLATS: WriteOptions = WriteOptions { label: "splats", needed_bytes: 0, overwrite: Overwrite::Replace };

/// Maximum number of queued events; the oldest are dropped.
const MAX_EVENTS: usize = 1024;

/// Files and events of a run.
pub(super) struct RunOutputs {
    fs: Arc<dyn FileSystem>,
    folder: RunFolder,
    /// What `config.toml` records beside the configuration.
    record: RunRecord,
    log: MetricsLog,
    checkpoints: CheckpointClock,
    /// Events that nothing has taken yet, in order.
    events: VecDeque<Event>,
}

impl RunOutputs {
    /// The outputs of a run that resumes from the checkpoint of step `last_checkpoint`, or begins without one. Later
    /// lines of `metrics.jsonl` are removed.
    ///
    /// # Errors
    /// `metrics.jsonl` cannot be read or written.
    pub(super) fn open(
        fs: Arc<dyn FileSystem>,
        folder: RunFolder,
        record: RunRecord,
        settings: &Outputs,
        last_checkpoint: Option<u64>,
    ) -> Result<Self, TrainError> {
        let note = folder.lock_note().map(|note| Event::Warning(RunWarning::Note(note.to_owned())));
        let events = note.into_iter().collect();
        let log = MetricsLog::open(&*fs, &metrics_path(folder.root()), last_checkpoint)?;
        let checkpoints = CheckpointClock::start(settings, last_checkpoint);
        Ok(Self { fs, folder, record, log, checkpoints, events })
    }

    /// Root of the run folder.
    pub(super) fn folder(&self) -> &Path {
        self.folder.root()
    }

    /// What the run has recorded about its start.
    pub(super) fn record(&self) -> &RunRecord {
        &self.record
    }

    /// The same, to be changed before the next [`Self::write_config`].
    pub(super) fn record_mut(&mut self) -> &mut RunRecord {
        &mut self.record
    }

    /// Reports an event. Of more than [`MAX_EVENTS`] that nothing takes, the oldest are dropped.
    pub(super) fn emit(&mut self, event: Event) {
        if self.events.len() == MAX_EVENTS {
            self.events.pop_front();
        }
        self.events.push_back(event);
    }

    /// Reports a warning.
    pub(super) fn warn(&mut self, warning: RunWarning) {
        self.emit(Event::Warning(warning));
    }

    /// Removes and returns the events so far, in order.
    pub(super) fn take_events(&mut self) -> impl Iterator<Item = Event> + use<> {
        std::mem::take(&mut self.events).into_iter()
    }

    /// Writes `config.toml` with this configuration.
    pub(super) fn write_config(&self, config: &TrainConfig) -> Result<(), TrainError> {
        let recorded = RecordedRun { config: config.clone(), record: self.record.clone() };
        self.folder.write_config(&*self.fs, &recorded.to_toml())?;
        Ok(())
    }

    /// Appends a line to `metrics.jsonl`.
    pub(super) fn append_line(&mut self, line: &impl Serialize) -> Result<(), TrainError> {
        self.log.append(&*self.fs, line)?;
        Ok(())
    }

    /// Syncs `metrics.jsonl` to the disk.
    pub(super) fn sync_log(&mut self) -> Result<(), TrainError> {
        self.log.sync()?;
        Ok(())
    }

    /// Step of the last checkpoint.
    pub(super) fn last_checkpoint(&self) -> Option<u64> {
        self.checkpoints.last_step
    }

    /// Whether a checkpoint is due after `done` steps.
    pub(super) fn is_checkpoint_due(&self, done: u64) -> bool {
        self.checkpoints.is_due(done)
    }

    /// Writes a checkpoint, unless one of its step exists.
    ///
    /// # Errors
    /// The header cannot be serialised or the file cannot be written; earlier checkpoints are intact.
    pub(super) fn save_checkpoint(
        &mut self,
        header: &CheckpointHeader,
        state: &TrainState,
    ) -> Result<(), TrainError> {
        let step = header.step;
        if self.checkpoints.last_step == Some(step) {
            return Ok(());
        }
        let _span = gausset_prof::span("checkpoint");
        let started = Instant::now();
        let header = serde_json::to_value(header).map_err(|error| WriteError::Io {
            path: checkpoint_path(self.folder.root(), step),
            action: "write",
            source: error.into(),
        })?;
        let committed = self.folder.save_checkpoint(&*self.fs, step, state, &header)?;
        self.checkpoints.record_saved(step);
        let seconds = started.elapsed().as_secs_f64();
        self.emit(Event::Checkpointed { step, bytes: committed.bytes, seconds });
        Ok(())
    }

    /// Writes `splats.ply` with the splats and the sky of a state after `step` steps, and beside it the cameras, the
    /// learnt gains and the refined poses.
    pub(super) fn export(
        &mut self,
        step: u64,
        mut state: TrainState,
        dataset: &Dataset,
        corrections: &Corrections,
        (recipe, scene): (&Recipe, &SceneFacts),
    ) -> Result<(), TrainError> {
        let _span = gausset_prof::span("export");
        let fs = &*self.fs;
        let saved_from_normalised = self.record.saved_from_normalised();
        let root = self.folder.root();
        corrections.write_files(fs, root, dataset, &state.corrections, &saved_from_normalised)?;
        let sky = Corrections::append_sky(&mut state.splats, &state.corrections, dataset, scene.extent);
        let document = self.document(state.splats, sky, dataset, recipe);
        let path = splats_path(root);
        let written = splat::save(fs, &path, &document, &SaveOptions::default(), &SPLATS)?;
        self.report_exported(step, path, &written);
        Ok(())
    }

    /// As [`Self::export`], for splats in normalised coordinates that come in parts, of which one is in memory at a time.
    pub(super) fn export_parts<E: From<WriteError>>(
        &mut self,
        step: u64,
        parts: SurveyedParts<impl Iterator<Item = Result<Splats, E>>>,
        groups: &[CorrectionGroup],
        dataset: &Dataset,
        corrections: &Corrections,
        recipe: &Recipe,
    ) -> Result<(), E> {
        let _span = gausset_prof::span("export");
        let fs = Arc::clone(&self.fs);
        let saved_from_normalised = self.record.saved_from_normalised();
        let root = self.folder.root();
        corrections.write_files(&*fs, root, dataset, groups, &saved_from_normalised)?;
        let SurveyedParts { survey: PartsSurvey { surroundings, splats, usable }, parts } = parts;
        let none = Splats::with_capacity(recipe.sh_degree, 0);
        let mut sky = none.clone();
        if let Some(values) = Corrections::sky_values(groups) {
            surroundings.append_sky(&mut sky, values);
        }
        let (sky_len, all) = (sky.len(), usable + sky.len() as u64);
        let saved = |part: Result<Splats, E>| {
            part.map(|mut part| {
                part.retain(&usable_mask(&part));
                saved_from_normalised.apply_to_splats(&mut part);
                part
            })
        };
        let document = self.document(none, sky_len, dataset, recipe);
        let path = splats_path(root);
        let parts = parts.chain([Ok(sky)]).map(saved);
        let written = splat::save_ply_in_parts(&*fs, &path, &document, all, parts, &SPLATS)?;
        self.report_exported(step, path, &SaveReport { dropped: splats - usable, ..written });
        Ok(())
    }

    /// Splats in normalised coordinates, the last `sky` of them a sky, as they are saved.
    fn document(&self, splats: Splats, sky: usize, dataset: &Dataset, recipe: &Recipe) -> SplatFile {
        let saved_from_dataset = self.record.saved_from_dataset();
        let near_plane = recipe.near_plane.distance(self.record.near_plane);
        let mut document = SplatFile {
            antialiased: recipe.antialiased,
            sky,
            vertical_axis: (saved_from_dataset.rotation != IDENTITY3).then(|| SAVED_UP.map(|v| v as f32)),
            georeference: dataset.georeference.as_ref().map(|found| found.origin),
            offset: dataset.offset,
            ..SplatFile::new(splats)
        };
        // An identity rotation must not change any bits.
        document.transform(&self.record.saved_from_normalised());
        document.saved_from_dataset = Some(saved_from_dataset);
        document.near_plane = (near_plane != NEAR_PLANE).then_some(near_plane);
        document
    }

    fn report_exported(&mut self, step: u64, path: PathBuf, written: &SaveReport) {
        let (splats, dropped, bytes) = (written.splats, written.dropped, written.bytes);
        self.emit(Event::Exported { step, path, splats, dropped, bytes });
    }

    /// Writes `confidence.json`.
    pub(super) fn write_confidence(&self, report: &ConfidenceReport) -> Result<(), TrainError> {
        let json = serde_json::to_string(report).unwrap_or_default() + "\n";
        let path = confidence_path(self.folder.root());
        write_atomic(&*self.fs, &path, |file| file.write_all(json.as_bytes()))?;
        Ok(())
    }

    /// Where the images and the report of the final evaluation go.
    pub(super) fn evaluation(&self) -> EvalOutput {
        EvalOutput {
            fs: Arc::clone(&self.fs),
            folder: eval_folder(self.folder.root()),
            // Ownership of existing files was checked when the run folder was taken.
            overwrite: Overwrite::Replace,
        }
    }
}

/// What has to be known of splats that come in parts before they are written.
#[derive(Debug)]
pub struct PartsSurvey {
    surroundings: Surroundings,
    splats: u64,
    usable: u64,
}

impl PartsSurvey {
    /// Of no parts.
    pub(super) fn new(dataset: &Dataset, extent: f64) -> Self {
        Self { surroundings: Surroundings::new(&prepare::train_poses(dataset), extent), splats: 0, usable: 0 }
    }

    /// Adds a part, in normalised coordinates.
    pub fn add(&mut self, part: &Splats) {
        self.surroundings.add(part);
        self.splats += part.len() as u64;
        self.usable += usable_mask(part).into_iter().filter(|usable| *usable).count() as u64;
    }

    /// Splats of all parts.
    #[must_use]
    pub fn splats(&self) -> u64 {
        self.splats
    }
}

/// Splats that come in parts, in normalised coordinates, and what is known of them.
#[derive(Debug)]
pub struct SurveyedParts<I> {
    /// Of all parts.
    pub survey: PartsSurvey,
    /// The parts.
    pub parts: I,
}

/// Which splats can be drawn; others are not written.
fn usable_mask(splats: &Splats) -> Vec<bool> {
    (0..splats.len()).map(|i| splats.is_valid(i)).collect()
}

/// Header of a checkpoint: the position in the run, as JSON, stored with the state of the device.
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
    /// Wall seconds in steps so far; missing in checkpoints of older versions.
    #[serde(default)]
    pub(super) step_seconds: Option<f64>,
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
    /// Reads the header of the checkpoint at `path` and checks that it belongs to the run with this configuration and
    /// fingerprint of the dataset.
    ///
    /// # Errors
    /// A field is missing or damaged, or belongs to another run or dataset.
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

/// Decides when checkpoints are due: after a number of steps or seconds, whichever comes first.
#[derive(Debug)]
struct CheckpointClock {
    every_steps: u64,
    every: Option<Duration>,
    last: Instant,
    /// Step of the last checkpoint.
    last_step: Option<u64>,
}

impl CheckpointClock {
    /// A clock that starts now; `last_step` is the step of the checkpoint from which the run resumes.
    fn start(outputs: &Outputs, last_step: Option<u64>) -> Self {
        Self {
            every_steps: outputs.checkpoint_every,
            every: (outputs.checkpoint_seconds > 0).then(|| Duration::from_secs(outputs.checkpoint_seconds)),
            last: Instant::now(),
            last_step,
        }
    }

    /// Whether a checkpoint is due after `done` steps.
    fn is_due(&self, done: u64) -> bool {
        is_multiple(done, self.every_steps) || self.every.is_some_and(|every| self.last.elapsed() >= every)
    }

    /// Records that a checkpoint of `step` was saved.
    fn record_saved(&mut self, step: u64) {
        self.last = Instant::now();
        self.last_step = Some(step);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checkpoints_are_due_by_steps_or_by_time() {
        let outputs = |checkpoint_every, checkpoint_seconds| Outputs {
            keep_depth: false,
            checkpoint_every,
            checkpoint_seconds,
            eval_every: 0,
            export_every: 0,
        };
        let by_steps = CheckpointClock::start(&outputs(10, 0), None);
        assert!(by_steps.is_due(20) && !by_steps.is_due(21));
        let mut by_time = CheckpointClock::start(&outputs(0, 3600), None);
        assert!(!by_time.is_due(20));
        by_time.last = Instant::now().checked_sub(Duration::from_secs(3601)).unwrap();
        assert!(by_time.is_due(20));
        by_time.record_saved(20);
        assert!(!by_time.is_due(21) && by_time.last_step == Some(20));
    }
}
