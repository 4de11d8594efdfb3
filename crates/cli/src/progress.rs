//! Progress output: a bar on a terminal, plain lines otherwise.

use std::time::{Duration, Instant};

use gausset_field::fit::FitProgress;
use gausset_io::text::escape_controls;
use gausset_train::RunProgress;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::console::Console;
use crate::numbers::{duration, grouped, three_digits};

/// A plain line is printed after this fraction of the work, or after [`LINE_EVERY`].
const LINE_EVERY_FRACTION: f64 = 0.05;
/// A plain line is printed after this time, or after [`LINE_EVERY_FRACTION`] of the work.
const LINE_EVERY: Duration = Duration::from_secs(5);
/// Minimum time between two plain lines.
const MIN_LINE_INTERVAL: Duration = Duration::from_millis(500);

/// Redraws of the progress bar per second.
const BAR_RATE: u8 = 10;

/// Reports the progress of a job with a known number of parts.
#[derive(Debug)]
pub(crate) struct ProgressReporter<'a> {
    console: &'a Console,
    /// Name of a part: `step`, `image`. Empty if the message contains the progress.
    noun: &'static str,
    total: u64,
    bar: Option<ProgressBar>,
    last_line: Instant,
    last_position: u64,
    /// Whether the last part has been reported.
    is_ended: bool,
}

impl<'a> ProgressReporter<'a> {
    /// Starts with `position` of `total` parts done.
    pub(crate) fn start(console: &'a Console, noun: &'static str, position: u64, total: u64) -> Self {
        let bar = console.shows_progress_bar().then(|| {
            let target = ProgressDrawTarget::stderr_with_hz(BAR_RATE);
            let bar = ProgressBar::with_draw_target(Some(total), target).with_position(position);
            // The templates are constants that parse.
            let template = match noun {
                "" => "{bar:24} {msg}",
                _ => "{bar:24} {human_pos}/{human_len} {msg}",
            };
            let style = ProgressStyle::with_template(template);
            bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
        });
        console.set_bar(bar.clone());
        Self {
            console,
            noun,
            total,
            bar,
            last_line: Instant::now(),
            last_position: position,
            is_ended: false,
        }
    }

    /// Reports the progress, with a message.
    pub(crate) fn update(&mut self, position: u64, message: impl FnOnce() -> String) {
        if let Some(bar) = &self.bar {
            set_message(bar, &message());
            bar.set_position(position);
            return;
        }
        let waited = self.last_line.elapsed();
        let share = (position - self.last_position.min(position)) as f64 / self.total.max(1) as f64;
        // The end is reported immediately, and only once.
        let is_end = position >= self.total && !self.is_ended;
        let is_due = !self.is_ended && share >= LINE_EVERY_FRACTION || waited >= LINE_EVERY;
        if is_end || (is_due && waited >= MIN_LINE_INTERVAL) {
            self.is_ended |= is_end;
            (self.last_line, self.last_position) = (Instant::now(), position);
            let message = message();
            if self.noun.is_empty() {
                self.console.note(message);
                return;
            }
            let separator = if message.is_empty() { "" } else { ": " };
            // An estimated total may be too small.
            let (position, total) = (grouped(position), grouped(self.total.max(position)));
            self.console.note(format!("{} {position}/{total}{separator}{message}", self.noun));
        }
    }

    /// Removes the progress bar.
    pub(crate) fn finish(self) {
        self.console.set_bar(None);
    }
}

#[allow(clippy::disallowed_methods, reason = "the message is one line without control characters")]
fn set_message(bar: &ProgressBar, message: &str) {
    bar.set_message(escape_controls(message).into_owned());
}

/// Progress of a run with a time budget: `12 s of 1:00 min: step 345 of about 1,200, loss …`.
pub(crate) fn budget_message(progress: &RunProgress, [used, budget]: [f64; 2]) -> String {
    let (step, steps) = (grouped(progress.step), grouped(progress.steps));
    let of = format!("{} of {}", duration(used), duration(budget));
    // The budget already shows the remaining time.
    let message = training_message(&RunProgress { seconds_left: None, ..*progress });
    format!("{of}: step {step} of about {steps}, {message}")
}

/// Progress of a training: `loss 0.0312, 51,234 splats, 23.1 it/s, 2:13 min left`.
pub(crate) fn training_message(progress: &RunProgress) -> String {
    let left = progress.seconds_left.map_or_else(String::new, |s| format!(", {} left", duration(s)));
    let (splats, rate) = (grouped(progress.splats), three_digits(progress.it_per_s));
    format!("loss {:.4}, {splats} splats, {rate} it/s{left}", progress.loss)
}

/// Progress of a field fit: `loss 1.200e-4, validation 40.10 dB, 5,000 Gaussians`.
pub(crate) fn fit_message(progress: &FitProgress) -> String {
    let validation = progress
        .validation
        .filter(|loss| *loss > 0.0)
        .map_or_else(String::new, |loss| format!(", validation {:.2} dB", -10.0 * loss.log10()));
    format!("loss {:.3e}{validation}, {} Gaussians", progress.loss, grouped(progress.gaussians as u64))
}
