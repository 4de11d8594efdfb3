//! Time accounting for workers that switch between stages: every moment belongs to one stage, so the rows add up to the
//! time of all workers.
//!
//! Unlike spans it is always on: switching to another stage costs two clock readings, about a microsecond.

use std::time::{Duration, Instant};

use serde::Serialize;

use crate::Span;
use crate::clock::thread_cpu;

/// The stages of one kind of work.
pub trait StageSet: Copy + PartialEq + 'static {
    /// All stages, in the order of the work; a worker starts in the first.
    const ALL: &'static [Self];

    /// Name in tables and traces.
    fn name(self) -> &'static str;
}

/// Time spent in a stage by one worker, or summed over several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct StageTime {
    /// Wall time, seconds: computing, or waiting for a disk, a lock or a CPU.
    pub wall_s: f64,
    /// CPU time, seconds; 0 if the system has no CPU clock for threads.
    pub cpu_s: f64,
}

impl StageTime {
    /// Seconds in which the worker did not compute.
    #[must_use]
    pub fn waiting_s(self) -> f64 {
        (self.wall_s - self.cpu_s).max(0.0)
    }
}

impl std::ops::AddAssign for StageTime {
    fn add_assign(&mut self, other: Self) {
        self.wall_s += other.wall_s;
        self.cpu_s += other.cpu_s;
    }
}

impl std::ops::Mul<f64> for StageTime {
    type Output = Self;

    fn mul(self, share: f64) -> Self {
        Self { wall_s: self.wall_s * share, cpu_s: self.cpu_s * share }
    }
}

/// The time account of one worker. It stays on the worker's thread, and appears as a span while a profile is recorded.
///
/// ```
/// use gausset_prof::{StageSet, StageTimer};
///
/// #[derive(Clone, Copy, PartialEq)]
/// enum Work {
///     Wait,
///     Decode,
/// }
///
/// impl StageSet for Work {
///     const ALL: &'static [Self] = &[Self::Wait, Self::Decode];
///
///     fn name(self) -> &'static str {
///         ["wait", "decode"][self as usize]
///     }
/// }
///
/// let mut timer = StageTimer::start();
/// let pixels = timer.run_in_stage(Work::Decode, || 640 * 480);
/// assert_eq!((pixels, timer.end().len()), (307_200, 2));
/// ```
#[derive(Debug)]
pub struct StageTimer<S: StageSet> {
    stage: S,
    since: (Instant, Duration),
    spent: Vec<(Duration, Duration)>,
    span: Option<Span>,
}

impl<S: StageSet> StageTimer<S> {
    /// Starts in the first stage.
    ///
    /// # Panics
    /// If there is no stage.
    #[must_use]
    pub fn start() -> Self {
        let stage = S::ALL[0];
        let spent = vec![(Duration::ZERO, Duration::ZERO); S::ALL.len()];
        Self { stage, since: now(), spent, span: Some(crate::span(stage.name())) }
    }

    /// Switches to another stage; returns the previous one.
    pub fn switch_to(&mut self, stage: S) -> S {
        let before = self.stage;
        if stage != before {
            self.record_time();
            // One span ends before the next starts, so that they are siblings.
            self.span = None;
            self.span = Some(crate::span(stage.name()));
            self.stage = stage;
        }
        before
    }

    /// Runs `work` in another stage, then returns to the current one.
    pub fn run_in_stage<T>(&mut self, stage: S, work: impl FnOnce() -> T) -> T {
        let before = self.switch_to(stage);
        let result = work();
        self.switch_to(before);
        result
    }

    /// Time per stage, in the order of [`StageSet::ALL`].
    #[must_use]
    pub fn end(mut self) -> Vec<StageTime> {
        self.record_time();
        let spent = |&(wall, cpu): &(Duration, Duration)| StageTime {
            wall_s: wall.as_secs_f64(),
            cpu_s: cpu.as_secs_f64(),
        };
        self.spent.iter().map(spent).collect()
    }

    fn record_time(&mut self) {
        let now = now();
        let at = S::ALL.iter().position(|s| *s == self.stage).unwrap_or(0);
        self.spent[at].0 += now.0 - self.since.0;
        self.spent[at].1 += now.1.saturating_sub(self.since.1);
        self.since = now;
    }
}

fn now() -> (Instant, Duration) {
    (Instant::now(), thread_cpu().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Chore {
        Wait,
        Work,
    }

    impl StageSet for Chore {
        const ALL: &'static [Self] = &[Self::Wait, Self::Work];

        fn name(self) -> &'static str {
            if self == Self::Wait { "wait" } else { "work" }
        }
    }

    #[test]
    fn the_rows_of_a_worker_are_all_of_its_time() {
        let started = Instant::now();
        let mut ledger = StageTimer::start();
        std::thread::sleep(Duration::from_millis(5));
        let sum =
            ledger.run_in_stage(Chore::Work, || (0..200_000u64).fold(0, |a: u64, b| a.wrapping_add(b * b)));
        assert_ne!(sum, 0);
        assert_eq!(ledger.switch_to(Chore::Work), Chore::Wait, "back where it was");
        std::thread::sleep(Duration::from_millis(5));
        let all = started.elapsed().as_secs_f64();
        let spent = ledger.end();
        let wall: f64 = spent.iter().map(|s| s.wall_s).sum();
        assert!(wall >= all * 0.99 - 1e-3 && spent.iter().all(|s| s.wall_s >= 0.005), "{spent:?} of {all}");
        // A sleeping thread does not compute.
        assert!(spent.iter().all(|s| s.waiting_s() >= 0.004), "{spent:?}");
    }
}
