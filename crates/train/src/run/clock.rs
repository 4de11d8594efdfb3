//! Timing of a run: wall and CPU seconds over all sessions, step rate, and when the next checkpoint is due.

use std::time::{Duration, Instant};

use crate::config::Outputs;

/// Time constant of the rate's smoothing, seconds.
const RATE_SECONDS: f64 = 10.0;

/// CPU seconds that this process has used, user and system together.
pub(super) fn process_cpu_seconds() -> f64 {
    gausset_prof::process_cpu().map_or(0.0, |time| time.as_secs_f64())
}

/// Seconds of training over all sessions; evaluation does not count.
#[derive(Debug)]
pub(super) struct Stopwatch {
    before: [f64; 2],
    running_since: Option<(Instant, f64)>,
}

impl Stopwatch {
    /// A running stopwatch that starts at `seconds` and `cpu_seconds`.
    pub(super) fn start(seconds: f64, cpu_seconds: f64) -> Self {
        Self { before: [seconds, cpu_seconds], running_since: Some((Instant::now(), process_cpu_seconds())) }
    }

    /// Wall and CPU seconds so far.
    pub(super) fn read(&self) -> [f64; 2] {
        let [seconds, cpu_seconds] = self.before;
        match self.running_since {
            Some((since, cpu)) => {
                [seconds + since.elapsed().as_secs_f64(), cpu_seconds + process_cpu_seconds() - cpu]
            }
            None => self.before,
        }
    }

    /// Discards the time since the stopwatch was started or resumed.
    pub(super) fn restart(&mut self) {
        self.running_since = None;
        self.resume();
    }

    /// Whether the stopwatch runs.
    pub(super) fn is_running(&self) -> bool {
        self.running_since.is_some()
    }

    /// Stops the watch.
    pub(super) fn pause(&mut self) {
        self.before = self.read();
        self.running_since = None;
    }

    /// Resumes the stopwatch.
    pub(super) fn resume(&mut self) {
        if self.running_since.is_none() {
            self.running_since = Some((Instant::now(), process_cpu_seconds()));
        }
    }
}

/// A rate per second, of steps for instance, smoothed exponentially over some seconds of training.
#[derive(Debug, Default)]
pub(super) struct Rate {
    smoothed: Option<f64>,
    last_seconds: f64,
}

impl Rate {
    /// A rate that is measured from `seconds` of a [`Stopwatch`].
    pub(super) fn starting_at(seconds: f64) -> Self {
        Self { smoothed: None, last_seconds: seconds }
    }

    /// Continues at `seconds` with the current rate: work done in between does not count.
    pub(super) fn resume_from(&mut self, seconds: f64) {
        self.last_seconds = seconds;
    }

    /// Adds `amount` done up to `seconds` and returns the rate.
    pub(super) fn update(&mut self, amount: f64, seconds: f64) -> f64 {
        let elapsed = (seconds - self.last_seconds).max(1e-9);
        self.last_seconds = seconds;
        let now = amount / elapsed;
        let keep = libm::exp(-elapsed / RATE_SECONDS);
        let rate = self.smoothed.map_or(now, |before| keep * before + (1.0 - keep) * now);
        *self.smoothed.insert(rate)
    }
}

/// Decides when checkpoints are due: after a number of steps or seconds, whichever comes first.
#[derive(Debug)]
pub(super) struct CheckpointClock {
    every_steps: u64,
    every: Option<Duration>,
    last: Instant,
    /// Step of the last checkpoint.
    pub(super) last_step: Option<u64>,
}

impl CheckpointClock {
    /// A clock that starts now; `last_step` is the step of the checkpoint from which the run resumes.
    pub(super) fn start(outputs: &Outputs, last_step: Option<u64>) -> Self {
        Self {
            every_steps: outputs.checkpoint_every,
            every: (outputs.checkpoint_seconds > 0).then(|| Duration::from_secs(outputs.checkpoint_seconds)),
            last: Instant::now(),
            last_step,
        }
    }

    /// Whether a checkpoint is due after `done` steps.
    pub(super) fn is_due(&self, done: u64) -> bool {
        is_multiple(done, self.every_steps) || self.every.is_some_and(|every| self.last.elapsed() >= every)
    }

    /// Records that a checkpoint of `step` was saved.
    pub(super) fn record_saved(&mut self, step: u64) {
        self.last = Instant::now();
        self.last_step = Some(step);
    }
}

/// Whether `done` is a multiple of `every`; never when `every` is 0.
pub(super) fn is_multiple(done: u64, every: u64) -> bool {
    every > 0 && done.is_multiple_of(every)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_paused_watch_stands_still_and_keeps_what_it_had() {
        let mut watch = Stopwatch::start(100.0, 50.0);
        watch.pause();
        let [seconds, cpu_seconds] = watch.read();
        assert!(seconds >= 100.0 && cpu_seconds >= 50.0);
        assert_eq!(watch.read(), [seconds, cpu_seconds]);
        watch.resume();
        assert!(watch.read()[0] >= seconds);
    }

    #[test]
    fn a_steady_pace_is_its_own_rate() {
        let mut rate = Rate::starting_at(5.0);
        for k in 1..20 {
            let it_per_s = rate.update(10.0, 5.0 + 0.5 * f64::from(k));
            assert!((it_per_s - 20.0).abs() < 1e-9);
        }
    }

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
