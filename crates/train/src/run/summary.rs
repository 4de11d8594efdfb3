//! The lines of `metrics.jsonl`, and the numbers of a run as read back from its folder.

use std::path::Path;

use gausset_io::metrics_log::read_metrics;
use gausset_io::run_folder::{RunFolderError, config_path, metrics_path};
use serde::{Deserialize, Serialize};

use super::TrainError;
use crate::config::RecordedRun;
use crate::events::Summary;

/// How the steps since the line before went.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct ReportLine {
    /// Finished steps.
    pub(super) step: u64,
    /// Mean loss since the line before.
    pub(super) loss: f64,
    /// Splats.
    pub(super) splats: u64,
    /// Steps per second.
    pub(super) it_per_s: f64,
    /// Wall seconds of training.
    pub(super) seconds: f64,
    /// CPU seconds of training.
    pub(super) cpu_seconds: f64,
}

/// Scores of the held-out views on the way.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct EvaluationLine {
    /// Finished steps.
    pub(super) step: u64,
    /// Mean PSNR in dB.
    pub(super) psnr: Option<f64>,
    /// Mean SSIM.
    pub(super) ssim: Option<f64>,
}

/// The end of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct FinishedLine {
    /// Finished steps.
    pub(super) step: u64,
    /// The run in numbers.
    pub(super) finished: Summary,
}

/// Any line, as far as a summary needs it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct AnyLine {
    step: u64,
    splats: Option<u64>,
    seconds: Option<f64>,
    cpu_seconds: Option<f64>,
    psnr: Option<f64>,
    finished: Option<Summary>,
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

/// The numbers of a run, finished or not, from the files in its folder; reads only.
///
/// # Errors
/// No run there, a log that cannot be read.
pub fn read_summary(folder: &Path) -> Result<Summary, TrainError> {
    read_recorded(folder)?;
    let mut summary = Summary {
        kind: Summary::KIND.to_owned(),
        steps: 0,
        splats: 0,
        seconds: 0.0,
        cpu_seconds: 0.0,
        psnr: None,
        cut_tiles: 0,
    };
    let path = metrics_path(folder);
    if !path.is_file() {
        return Ok(summary);
    }
    for line in read_metrics(&path)?.0 {
        let Ok(line) = AnyLine::deserialize(&line) else { continue };
        if let Some(finished) = line.finished {
            summary = finished;
            continue;
        }
        summary.steps = line.step;
        summary.splats = line.splats.unwrap_or(summary.splats);
        summary.seconds = line.seconds.unwrap_or(summary.seconds);
        summary.cpu_seconds = line.cpu_seconds.unwrap_or(summary.cpu_seconds);
        summary.psnr = line.psnr.or(summary.psnr);
    }
    Ok(summary)
}
