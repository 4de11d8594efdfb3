//! The steps of a fit, and what came of them.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use gausset_field::fit::{Fit, FitProgress, Metrics};
use gausset_flow::Failure;
use gausset_io::atomic::{Disk, write_atomic};
use serde::Serialize;

use crate::console::Console;
use crate::exit::Status;
use crate::interrupt::Interrupt;
use crate::numbers::{grouped, three_digits};
use crate::progress::Reporter;
use crate::table::{self, Align};

/// Time between two checkpoints.
const CHECKPOINT_EVERY: Duration = Duration::from_secs(20);

/// The result: a stable contract.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    pub(super) gaussians: usize,
    pub(super) steps: u64,
    /// Step of the field that was kept: the best on the validation samples.
    pub(super) best_step: u64,
    /// Wall time of the fit.
    pub(super) seconds: f64,
    pub(super) parameters: usize,
    /// Range of the data, the peak of PSNR.
    pub(super) peak: f64,
    pub(super) train: Metrics,
    pub(super) test: Metrics,
    pub(super) test_foreground: Metrics,
    /// Point-Gaussian pairs computed by the steps.
    pub(super) pairs: u64,
}

/// How the steps ended.
pub(super) enum Stepped<'a> {
    /// All of them.
    Done(Box<Fit<'a>>),
    /// As far as a signal let them.
    Interrupted(Status),
}

/// Steps to the end, or to a signal.
pub(super) fn steps<'a>(
    mut fit: Fit<'a>,
    console: &Console,
    state_path: &Path,
) -> Result<Stepped<'a>, Failure> {
    let interrupt = Interrupt::watch();
    let progress = fit.progress();
    let mut reporter = Reporter::start(console, "step", progress.step, progress.steps);
    let mut saved = Instant::now();
    while !fit.is_done() {
        fit.step()?;
        let progress = fit.progress();
        reporter.at(progress.step, || message(&progress));
        let signal = if interrupt.stop().load(Ordering::Relaxed) { interrupt.signal() } else { None };
        if signal.is_some() || saved.elapsed() >= CHECKPOINT_EVERY {
            let state = fit.state();
            write_atomic(&Disk, state_path, |writer| std::io::Write::write_all(writer, &state))?;
            saved = Instant::now();
        }
        if let Some(signal) = signal {
            reporter.finish();
            let place = state_path.display();
            console.note(format!("{place}: saved at step {}; go on with --resume", progress.step));
            return Ok(Stepped::Interrupted(Status::Interrupted(signal)));
        }
    }
    reporter.finish();
    Ok(Stepped::Done(Box::new(fit)))
}

/// `loss 1.2e-4, 40.1 dB validation, 5,000 Gaussians`.
fn message(progress: &FitProgress) -> String {
    let validation = progress
        .validation
        .filter(|loss| *loss > 0.0)
        .map_or_else(String::new, |loss| format!(", validation {:.2} dB", -10.0 * loss.log10()));
    format!("loss {:.3e}{validation}, {} Gaussians", progress.loss, grouped(progress.gaussians as u64))
}

impl Report {
    /// For people.
    pub(super) fn table(&self, output: &Path) -> String {
        let head = table::facts(&[
            ("field", output.display().to_string()),
            ("Gaussians", grouped(self.gaussians as u64)),
            ("steps", format!("{} (best at {})", self.steps, self.best_step)),
            ("time", format!("{} s", three_digits(self.seconds))),
        ]);
        let shown = |value: Option<f64>, digits: usize| {
            value.map_or_else(|| "-".to_owned(), |value| format!("{value:.digits$}"))
        };
        let rows: Vec<Vec<String>> = [
            ("train", &self.train),
            ("held out", &self.test),
            ("held out, foreground", &self.test_foreground),
        ]
        .into_iter()
        .map(|(name, m)| {
            vec![
                name.to_owned(),
                grouped(m.samples),
                shown(m.psnr, 2),
                shown(m.r2, 6),
                shown(m.pearson, 6),
                format!("{:.4e}", m.mse),
                format!("{:.4e}", m.mae),
            ]
        })
        .collect();
        let header = [
            ("samples", Align::Left),
            ("number", Align::Right),
            ("PSNR dB", Align::Right),
            ("R2", Align::Right),
            ("Pearson", Align::Right),
            ("MSE", Align::Right),
            ("MAE", Align::Right),
        ];
        format!("{head}\n{}", table::columns(&header, &rows))
    }
}
