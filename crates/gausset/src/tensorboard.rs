//! Training curves for TensorBoard: `RUN_LENGTH/events.out.tfevents.gausset`, next to `metrics.jsonl`. When a run resumes, the
//! earlier part is rewritten from `metrics.jsonl`.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use gausset_io::atomic::{Disk, WriteError};
use gausset_io::metrics_log::read_metrics;
use gausset_io::run_folder::{events_path, metrics_path};
use gausset_io::tensorboard::{EventFile, Scalars};
use gausset_train::Event;
use serde_json::Value;

/// Number of points per curve: one value each 1/200 of the run.
const POINTS_PER_CURVE: u64 = 200;

/// The event file and the loss not yet written.
pub(crate) struct CurveWriter {
    file: EventFile,
    /// First step of the next value.
    next: u64,
    loss_sum: f64,
    loss_steps: u64,
}

impl CurveWriter {
    /// Creates the event file of a new or resumed run.
    pub(crate) fn open(run: &Path) -> Result<Self, WriteError> {
        let metrics = metrics_path(run);
        let lines = if metrics.is_file() { read_metrics(&metrics)?.0 } else { Vec::new() };
        let spent = lines.iter().filter_map(|line| line["seconds"].as_f64()).fold(0.0, f64::max);
        let begun = now() - spent;
        let mut at = begun;
        let known: Vec<Scalars> =
            lines.iter().filter_map(|line| scalars_of_line(line, begun, &mut at)).collect();
        let file = EventFile::create(&Disk, &events_path(run), begun, &known)?;
        Ok(Self { file, next: known.last().map_or(1, |last| last.step + 1), loss_sum: 0.0, loss_steps: 0 })
    }

    /// Writes the values of an event.
    pub(crate) fn write_event(&mut self, event: &Event) -> Result<(), WriteError> {
        let (step, values) = match event {
            Event::Progress(progress) => {
                self.loss_sum += progress.report.loss_sum;
                self.loss_steps += progress.report.steps;
                if progress.step < self.next || self.loss_steps == 0 {
                    return Ok(());
                }
                let loss = self.loss_sum / self.loss_steps as f64;
                (self.loss_sum, self.loss_steps) = (0.0, 0);
                self.next = progress.step + (progress.steps / POINTS_PER_CURVE).max(1);
                let numbers = [
                    ("train/loss", loss),
                    ("train/splats", progress.splats as f64),
                    ("train/steps_per_second", progress.it_per_s),
                ];
                (progress.step, numbers.to_vec())
            }
            Event::Evaluated { step, report } => {
                let scores = [("eval/psnr", report.psnr), ("eval/ssim", report.ssim)];
                (*step, scores.into_iter().filter_map(|(tag, value)| Some((tag, value?))).collect())
            }
            _ => return Ok(()),
        };
        self.file.append(&Scalars { step, wall_time: now(), values })
    }
}

/// Values of one line of `metrics.jsonl`. The wall time is the start plus the seconds of training, or `at`, the time of
/// the previous line.
fn scalars_of_line(line: &Value, begun: f64, at: &mut f64) -> Option<Scalars> {
    let step = line["step"].as_u64()?;
    *at = line["seconds"].as_f64().map_or(*at, |seconds| begun + seconds);
    let tags = [
        ("train/loss", "loss"),
        ("train/splats", "splats"),
        ("train/steps_per_second", "it_per_s"),
        ("eval/psnr", "psnr"),
        ("eval/ssim", "ssim"),
    ];
    let values: Vec<_> = tags.into_iter().filter_map(|(tag, key)| Some((tag, line[key].as_f64()?))).collect();
    (!values.is_empty()).then_some(Scalars { step, wall_time: *at, values })
}

/// Seconds since 1970.
fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |time| time.as_secs_f64())
}
