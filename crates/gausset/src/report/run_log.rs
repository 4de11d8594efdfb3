//! Reads the logs and results in a run folder for the report.

use std::path::Path;

use gausset_io::input;
use gausset_io::metrics_log::read_metrics;
use gausset_io::run_folder::{EVALUATION_REPORT, confidence_path, eval_folder, metrics_path, profile_path};
use gausset_prof::Profile;
use gausset_train::{ConfidenceReport, EvalReport, RunSummary};
use serde::{Deserialize, Serialize};

use crate::Failure;

/// Size limit of an evaluation report.
const MAX_REPORT_BYTES: u64 = 64 << 20;
/// Size limit of a profile.
const MAX_PROFILE_BYTES: u64 = 16 << 20;

/// Size limit of a confidence report.
const MAX_CONFIDENCE_BYTES: u64 = 16 << 20;

/// (step, value) pairs.
pub(super) type Series = Vec<[f64; 2]>;

/// Changes of the splat set between two lines of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct DensityChange {
    /// Step of the later line.
    pub(super) step: u64,
    pub(super) added: u64,
    pub(super) pruned: u64,
    pub(super) relocated: u64,
    /// Number of splats after the change.
    pub(super) splats: u64,
}

/// Contents of `metrics.jsonl` as series, and of other result files if they exist.
#[derive(Debug, Default)]
pub(super) struct RunLog {
    pub(super) loss: Series,
    pub(super) psnr: Series,
    pub(super) splats: Series,
    pub(super) steps_per_second: Series,
    pub(super) memory: Series,
    /// Lines in which the set of splats changed.
    pub(super) density: Vec<DensityChange>,
    /// Seconds of training at each step.
    pub(super) seconds: Series,
    /// Unreadable images with reasons.
    pub(super) skipped: Vec<String>,
    pub(super) finished: Option<RunSummary>,
    pub(super) evaluation: Option<EvalReport>,
    pub(super) profile: Option<Profile>,
    pub(super) confidence: Option<ConfidenceReport>,
}

/// A line of the log, of any kind.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct LogLine {
    step: u64,
    loss: Option<f64>,
    splats: Option<u64>,
    it_per_s: Option<f64>,
    seconds: Option<f64>,
    psnr: Option<f64>,
    memory: Option<f64>,
    added: u64,
    pruned: u64,
    relocated: u64,
    finished: Option<RunSummary>,
    skipped: Vec<gausset_train::SkippedImage>,
}

impl RunLog {
    pub(super) fn read(folder: &Path) -> Result<Self, Failure> {
        let mut record = Self::default();
        let path = metrics_path(folder);
        let lines = if path.is_file() { read_metrics(&path)?.0 } else { Vec::new() };
        for line in lines {
            let Ok(line) = LogLine::deserialize(&line) else { continue };
            let step = line.step as f64;
            let put = |series: &mut Series, value: Option<f64>| series.extend(value.map(|v| [step, v]));
            put(&mut record.loss, line.loss);
            put(&mut record.splats, line.splats.map(|count| count as f64));
            put(&mut record.steps_per_second, line.it_per_s);
            put(&mut record.memory, line.memory);
            put(&mut record.seconds, line.seconds);
            put(&mut record.psnr, line.psnr);
            let LogLine { added, pruned, relocated, .. } = line;
            if added + pruned + relocated > 0 {
                let splats = line.splats.unwrap_or_default();
                record.density.push(DensityChange { step: line.step, added, pruned, relocated, splats });
            }
            if let Some(finished) = line.finished {
                let skipped = line.skipped.iter().map(|view| format!("{}: {}", view.name, view.reason));
                record.skipped = skipped.collect();
                put(&mut record.psnr, finished.psnr);
                record.finished = Some(finished);
            }
        }
        let report = input::read(&eval_folder(folder).join(EVALUATION_REPORT), MAX_REPORT_BYTES).ok();
        record.evaluation = report.and_then(|bytes| serde_json::from_slice(&bytes).ok());
        let confidence = input::read(&confidence_path(folder), MAX_CONFIDENCE_BYTES).ok();
        record.confidence = confidence.and_then(|bytes| serde_json::from_slice(&bytes).ok());
        let profile = input::read(&profile_path(folder), MAX_PROFILE_BYTES).ok();
        record.profile = profile.and_then(|bytes| Profile::from_json(&bytes).ok());
        Ok(record)
    }

    /// Seconds of training until the held-out views first reached this PSNR.
    pub(super) fn seconds_to(&self, psnr: f64) -> Option<f64> {
        let [step, _] = self.psnr.iter().find(|[_, value]| *value >= psnr)?;
        let line = self.seconds.iter().find(|[at, _]| at >= step);
        line.map(|[_, seconds]| *seconds)
    }
}
