//! The lines of `metrics.jsonl`, and the summary of a run as read back from its folder.

use std::path::Path;

use gausset_io::input;
use gausset_io::metrics_log::read_metrics;
use gausset_io::run_folder::{RunFolderError, config_path, eval_folder, metrics_path, splats_path};
use serde::{Deserialize, Serialize};

use super::TrainError;
use super::device::SetChanges;
use crate::config::RecordedRun;
use crate::eval::{EvalReport, REPORT};
use crate::events::{RunEnd, RunOutcome, RunSummary};
use crate::option_values::Split;
use crate::warning::SkippedImage;

/// Maximum size of an evaluation report: tens of thousands of images.
const MAX_REPORT_BYTES: u64 = 64 << 20;

/// Progress of the steps since the previous line.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct ReportLine {
    /// Finished steps.
    pub(super) step: u64,
    /// Mean loss since the previous line.
    pub(super) loss: f64,
    /// Number of splats.
    pub(super) splats: u64,
    /// Splats drawn in the last step.
    pub(super) visible: u64,
    /// Changes to the set of splats since the previous line.
    #[serde(flatten)]
    pub(super) changes: SetChanges,
    /// Resident memory of the process in bytes, where the system reports it.
    pub(super) memory: Option<u64>,
    /// Training steps per second.
    pub(super) it_per_s: f64,
    /// Wall seconds of training.
    pub(super) seconds: f64,
    /// CPU seconds of training.
    pub(super) cpu_seconds: f64,
}

/// Scores of the held-out views during training.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct EvaluationLine {
    /// Finished steps.
    pub(super) step: u64,
    /// Mean PSNR in dB.
    pub(super) psnr: Option<f64>,
    /// Mean SSIM.
    pub(super) ssim: Option<f64>,
}

/// The last line of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct FinishedLine {
    /// Finished steps.
    pub(super) step: u64,
    /// Summary of the run.
    pub(super) finished: RunSummary,
    /// Images that could not be read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) skipped: Vec<SkippedImage>,
}

/// Any line, with the fields that a summary needs.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct LogLine {
    step: u64,
    splats: Option<u64>,
    seconds: Option<f64>,
    cpu_seconds: Option<f64>,
    psnr: Option<f64>,
    ssim: Option<f64>,
    finished: Option<RunSummary>,
    skipped: Vec<SkippedImage>,
}

/// Reads the `config.toml` of a run.
pub(super) fn read_recorded(folder: &Path) -> Result<RecordedRun, TrainError> {
    let path = config_path(folder);
    if !path.is_file() {
        let found = if folder.is_dir() { "none" } else { "no such folder" };
        let expected = "config.toml in it";
        return Err(RunFolderError::NotARun { path: folder.to_owned(), expected, found }.into());
    }
    Ok(RecordedRun::read(&path)?)
}

/// Reads the summary of a run, finished or not, from the files in its folder. Writes nothing.
///
/// # Errors
/// The folder holds no run, or its log cannot be read.
pub fn read_summary(folder: &Path) -> Result<RunSummary, TrainError> {
    read_recorded(folder)?;
    let mut summary = RunSummary::empty();
    let path = metrics_path(folder);
    if !path.is_file() {
        return Ok(summary);
    }
    for line in read_metrics(&path)?.0 {
        let Ok(line) = LogLine::deserialize(&line) else { continue };
        if let Some(finished) = line.finished {
            summary = finished;
            continue;
        }
        summary.steps = line.step;
        summary.splats = line.splats.unwrap_or(summary.splats);
        summary.seconds = line.seconds.unwrap_or(summary.seconds);
        summary.cpu_seconds = line.cpu_seconds.unwrap_or(summary.cpu_seconds);
        summary.psnr = line.psnr.or(summary.psnr);
        summary.ssim = line.ssim.or(summary.ssim);
    }
    Ok(summary)
}

/// The outcome of a finished run: its splats, its evaluation (unless memory did not suffice) and the last line of its log
/// exist. `None` if the run can resume, if only for its evaluation. Writes nothing.
///
/// # Errors
/// The folder holds no run, or its log cannot be read.
pub fn read_outcome(folder: &Path) -> Result<Option<RunOutcome>, TrainError> {
    let held_out = read_recorded(folder)?.record.test_images;
    let path = metrics_path(folder);
    if !splats_path(folder).is_file() || !path.is_file() {
        return Ok(None);
    }
    let last = read_metrics(&path)?.0.pop().and_then(|line| LogLine::deserialize(&line).ok());
    let Some(LogLine { finished: Some(summary), skipped, .. }) = last else { return Ok(None) };
    let mut evaluation = None;
    if held_out > 0 && !summary.unscored {
        let report = input::read(&eval_folder(folder).join(REPORT), MAX_REPORT_BYTES).ok();
        let report = report.and_then(|bytes| serde_json::from_slice::<EvalReport>(&bytes).ok());
        let Some(report) = report else { return Ok(None) };
        // `gausset eval` may have replaced the report since, with other options.
        evaluation = Some(report).filter(|r| r.split == Split::Test && r.psnr == summary.psnr);
    }
    Ok(Some(RunOutcome { end: RunEnd::Finished, summary, evaluation, skipped }))
}
