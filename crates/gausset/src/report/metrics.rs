//! `metrics.json`: all numbers of the report for scripts (fields: docs/reference/files.md).

use gausset_core::splats::opacity;
use gausset_io::splat::SplatFile;
use gausset_page::chart::Histogram;
use gausset_train::{EvalReport, RunSummary};
use serde::Serialize;

use super::run_log::{DensityChange, RunLog, Series};
use crate::saved_run::SavedRun;

/// Version of the file layout.
pub(super) const SCHEMA: u32 = 1;
/// Number of bins of a histogram.
const BINS: usize = 60;

/// Content of `metrics.json`.
#[derive(Debug, Serialize)]
pub(super) struct ReportMetrics<'a> {
    schema: u32,
    /// Version of Gausset that trained the run.
    version: &'a str,
    /// Summary of a finished run.
    result: Option<&'a RunSummary>,
    pub(super) seconds_to: SecondsTo,
    /// The latest evaluation.
    evaluation: Option<&'a EvalReport>,
    curves: Curves<'a>,
    density: &'a [DensityChange],
    pub(super) histograms: Option<Histograms>,
    warnings: &'a [String],
}

/// Training time in seconds until the held-out views first reached a PSNR. `None` if they never did, or were evaluated
/// at most twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(super) struct SecondsTo {
    #[serde(rename = "20 dB")]
    pub(super) db_20: Option<f64>,
    #[serde(rename = "25 dB")]
    pub(super) db_25: Option<f64>,
    #[serde(rename = "30 dB")]
    pub(super) db_30: Option<f64>,
}

/// Series of (step, value) pairs.
#[derive(Debug, Serialize)]
struct Curves<'a> {
    loss: &'a Series,
    psnr: &'a Series,
    splats: &'a Series,
    steps_per_second: &'a Series,
    memory: &'a Series,
}

/// Distributions of the scene splats.
#[derive(Debug, Serialize)]
pub(super) struct Histograms {
    pub(super) opacity: Counts,
    pub(super) log10_largest_scale: Counts,
    pub(super) log10_longest_over_shortest: Counts,
}

/// Counts per equal bin of a range. The first and last bin include the values outside the range.
#[derive(Debug, Serialize)]
pub(super) struct Counts {
    pub(super) range: [f64; 2],
    pub(super) counts: Vec<u64>,
}

impl<'a> ReportMetrics<'a> {
    pub(super) fn new(
        run: &'a SavedRun,
        record: &'a RunLog,
        splats: Option<&SplatFile>,
        warnings: &'a [String],
    ) -> Self {
        Self {
            schema: SCHEMA,
            version: &run.recorded.record.version,
            result: record.finished.as_ref(),
            seconds_to: SecondsTo::of(record),
            evaluation: record.evaluation.as_ref(),
            curves: Curves {
                loss: &record.loss,
                psnr: &record.psnr,
                splats: &record.splats,
                steps_per_second: &record.steps_per_second,
                memory: &record.memory,
            },
            density: &record.density,
            histograms: splats.map(Histograms::of),
            warnings,
        }
    }

    pub(super) fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default() + "\n"
    }
}

impl SecondsTo {
    fn of(record: &RunLog) -> Self {
        // Two measurements at most are too few to say when a PSNR was reached.
        let to = |psnr| record.seconds_to(psnr).filter(|_| record.psnr.len() > 2);
        Self { db_20: to(20.0), db_25: to(25.0), db_30: to(30.0) }
    }
}

impl Histograms {
    fn of(file: &SplatFile) -> Self {
        let splats = file.scene();
        let log_ten = std::f64::consts::LN_10;
        let opacities = splats.opacity_logits.iter().map(|logit| opacity(*logit));
        let sizes = splats
            .log_scales
            .iter()
            .map(|scales| f64::from(scales.iter().copied().fold(f32::NEG_INFINITY, f32::max)) / log_ten);
        let flatness = splats.log_scales.iter().map(|scales| {
            let ends = [f32::min, f32::max].map(|pick| scales.iter().copied().reduce(pick).unwrap_or(0.0));
            f64::from(ends[1] - ends[0]) / log_ten
        });
        Self {
            opacity: Counts::of(opacities, [0.0, 1.0]),
            log10_largest_scale: Counts::of(sizes, [-5.0, 2.0]),
            log10_longest_over_shortest: Counts::of(flatness, [0.0, 4.0]),
        }
    }
}

impl Counts {
    fn of(values: impl Iterator<Item = f64>, range: [f64; 2]) -> Self {
        Self { range, counts: Histogram::count(values, range, BINS) }
    }

    pub(super) fn chart<'a>(&'a self, title: &'a str) -> Histogram<'a> {
        Histogram { title, range: self.range, counts: &self.counts }
    }
}
