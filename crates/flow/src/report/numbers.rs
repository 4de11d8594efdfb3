//! `metrics.json`: every number of the report, for programs (docs/files.md tells its fields).

use gausset_io::splat::Document;
use gausset_page::chart::Histogram;
use gausset_train::{EvalReport, Summary};
use serde::Serialize;

use super::record::{Density, Record, Series};
use crate::saved_run::SavedRun;

/// Layout of the file.
pub(super) const SCHEMA: u32 = 1;
/// Parts of a histogram.
const PARTS: usize = 60;

/// The numbers of a run.
#[derive(Debug, Serialize)]
pub(super) struct Numbers<'a> {
    schema: u32,
    /// Version of the program that trained.
    version: &'a str,
    /// The result, of a run that is done.
    result: Option<&'a Summary>,
    pub(super) seconds_to: SecondsTo,
    /// The newest evaluation.
    evaluation: Option<&'a EvalReport>,
    curves: Curves<'a>,
    density: &'a [Density],
    pub(super) histograms: Option<Histograms>,
    warnings: &'a [String],
}

/// Seconds of training until the held-out pictures were first seen to have so many dB; `None` where they never had, or
/// were looked at only once or twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(super) struct SecondsTo {
    #[serde(rename = "20 dB")]
    pub(super) db_20: Option<f64>,
    #[serde(rename = "25 dB")]
    pub(super) db_25: Option<f64>,
    #[serde(rename = "30 dB")]
    pub(super) db_30: Option<f64>,
}

/// Pairs of a step and a value.
#[derive(Debug, Serialize)]
struct Curves<'a> {
    loss: &'a Series,
    psnr: &'a Series,
    splats: &'a Series,
    steps_per_second: &'a Series,
    memory: &'a Series,
}

/// What the splats of the scene are like.
#[derive(Debug, Serialize)]
pub(super) struct Histograms {
    pub(super) opacity: Counts,
    pub(super) log10_largest_scale: Counts,
    pub(super) log10_longest_over_shortest: Counts,
}

/// How many values there are in each of equal parts of a range; the first and last part have what lies beyond, too.
#[derive(Debug, Serialize)]
pub(super) struct Counts {
    pub(super) range: [f64; 2],
    pub(super) counts: Vec<u64>,
}

impl<'a> Numbers<'a> {
    pub(super) fn of(
        run: &'a SavedRun,
        record: &'a Record,
        splats: Option<&Document>,
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
    fn of(record: &Record) -> Self {
        // With a measurement at the end alone there is nothing to tell.
        let to = |psnr| record.seconds_to(psnr).filter(|_| record.psnr.len() > 2);
        Self { db_20: to(20.0), db_25: to(25.0), db_30: to(30.0) }
    }
}

impl Histograms {
    fn of(file: &Document) -> Self {
        let splats = file.scene();
        let log_ten = std::f64::consts::LN_10;
        let opacities = splats.opacity_logits.iter().map(|logit| 1.0 / (1.0 + libm::exp(-f64::from(*logit))));
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
        Self { range, counts: Histogram::count(values, range, PARTS) }
    }

    pub(super) fn chart<'a>(&'a self, title: &'a str) -> Histogram<'a> {
        Histogram { title, range: self.range, counts: &self.counts }
    }
}
