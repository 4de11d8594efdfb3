//! Timing of a run: wall and CPU seconds over all sessions, and rates.

use std::time::Instant;

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
}
