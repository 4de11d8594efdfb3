//! The clock of a run: its steps, the time they take over all sessions, and the budget of time that limits them.

use std::time::Instant;

use gausset_core::engine::StepReport;

use super::budget::{self, Deadline, Forecast};
use crate::plan::StepPlan;
use crate::recipe::Recipe;

/// Time constant of the rate's smoothing, seconds.
const RATE_SECONDS: f64 = 10.0;

/// Steps and time of a run.
pub(super) struct Clock {
    /// Finished steps.
    done: u64,
    /// Maps steps of the run to steps of the schedules.
    plan: StepPlan,
    stopwatch: Stopwatch,
    /// The time in steps, without checkpoints and exports: steps per second are counted in it.
    in_steps: Stopwatch,
    /// Steps per second.
    rate: Rate,
    forecast: Forecast,
    /// Cost ([`Forecast`]) per second.
    cost_rate: Rate,
    predicted_seconds: Option<f64>,
    deadline: Option<Deadline>,
}

impl Clock {
    /// A running clock after `done` steps, which took `seconds` of wall and CPU time, `step_seconds` of them in steps.
    pub(super) fn start(
        done: u64,
        plan: StepPlan,
        [seconds, cpu_seconds]: [f64; 2],
        step_seconds: f64,
        forecast: Forecast,
    ) -> Self {
        let in_steps = Stopwatch { before: [step_seconds, cpu_seconds], running_since: None };
        Self {
            done,
            plan,
            stopwatch: Stopwatch::start(seconds, cpu_seconds),
            rate: Rate::starting_at(in_steps.read()[0]),
            in_steps,
            forecast,
            cost_rate: Rate::starting_at(seconds),
            predicted_seconds: None,
            deadline: None,
        }
    }

    /// Finished steps.
    pub(super) fn done(&self) -> u64 {
        self.done
    }

    /// Last step of the run, by its last decision.
    pub(super) fn end(&self) -> u64 {
        self.plan.end()
    }

    /// Maps steps of the run to steps of the schedules.
    pub(super) fn plan(&self) -> &StepPlan {
        &self.plan
    }

    /// Finished steps of the schedules.
    pub(super) fn scheduled(&self) -> u64 {
        self.plan.scheduled(self.done)
    }

    /// Finished steps of the schedules after the next step.
    pub(super) fn scheduled_next(&self) -> u64 {
        self.plan.scheduled(self.done + 1)
    }

    /// Counts a step.
    pub(super) fn count_step(&mut self) {
        self.done += 1;
    }

    /// Wall and CPU seconds of training so far, over all sessions.
    pub(super) fn seconds(&self) -> [f64; 2] {
        self.stopwatch.read()
    }

    /// Wall seconds in steps so far, over all sessions.
    pub(super) fn step_seconds(&self) -> f64 {
        self.in_steps.read()[0]
    }

    /// Begins to count time as time in steps. Returns whether it counted before, for [`Self::leave_step`].
    pub(super) fn enter_step(&mut self) -> bool {
        let was_running = self.in_steps.is_running();
        self.in_steps.resume();
        was_running
    }

    /// Ends to count time as time in steps, unless it counted before [`Self::enter_step`].
    pub(super) fn leave_step(&mut self, was_running: bool) {
        if !was_running {
            self.in_steps.pause();
        }
    }

    /// Predicted seconds for the steps, if measured.
    pub(super) fn predicted_seconds(&self) -> Option<f64> {
        self.predicted_seconds
    }

    /// Stops the clock: the time until [`Self::resume`] does not count as training.
    pub(super) fn pause(&mut self) {
        self.stopwatch.pause();
    }

    /// Restarts the clock after [`Self::pause`].
    pub(super) fn resume(&mut self) {
        self.stopwatch.resume();
        let [seconds, _] = self.stopwatch.read();
        self.cost_rate.resume_from(seconds);
    }

    /// Does work whose time does not count as training.
    pub(super) fn exclude<T>(&mut self, work: impl FnOnce() -> T) -> T {
        let was_running = self.stopwatch.is_running();
        self.stopwatch.pause();
        let done = work();
        if was_running {
            self.stopwatch.resume();
        }
        done
    }

    /// Predicts how long the steps take if the next one takes `step_seconds`, and starts to measure from now on.
    pub(super) fn predict(&mut self, recipe: &Recipe, splats: u64, step_seconds: Option<f64>) {
        let now = self.scheduled();
        self.predicted_seconds = step_seconds.map(|seconds| {
            let cost = self.forecast.remaining_cost(recipe, now, splats) * self.steps_per_scheduled(recipe);
            cost / self.forecast.step_cost(recipe, now, splats) * seconds
        });
        self.stopwatch.restart();
    }

    /// Limits the run to `budget` seconds, counted from `since`, less what a resumed run has used before.
    pub(super) fn limit(&mut self, since: Instant, budget: f64) {
        let [used, _] = self.stopwatch.read();
        self.deadline = Some(Deadline::new(since, budget, if self.done > 0 { used } else { 0.0 }));
    }

    /// Time by which the run must end, if it is limited.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.deadline.map(|deadline| deadline.at)
    }

    /// Moves the end of a limited run.
    pub(super) fn set_deadline(&mut self, at: Instant) {
        if let Some(deadline) = &mut self.deadline {
            deadline.at = at;
        }
    }

    /// Gives a limited run that has not begun as many splats and steps as fit if its next step takes `step_seconds`.
    /// `splats` is the number with which it starts; `full_size_at` as in [`budget::fit_to_budget`].
    pub(super) fn fit_to_budget(
        &mut self,
        recipe: &mut Recipe,
        splats: u64,
        step_seconds: f64,
        full_size_at: Option<f64>,
    ) {
        let Some(deadline) = self.deadline else { return };
        let seconds = deadline.seconds_left(splats);
        budget::fit_to_budget(recipe, &self.forecast, splats, step_seconds, seconds, full_size_at);
        self.plan = StepPlan::identity(recipe.steps);
        self.predicted_seconds = Some(seconds);
    }

    /// Discards the time since this session began.
    pub(super) fn restart(&mut self) {
        self.stopwatch.restart();
    }

    /// Used and available seconds of the budget, if the run is limited.
    pub(super) fn budget(&self) -> Option<[f64; 2]> {
        self.deadline.as_ref().map(Deadline::used_and_available)
    }

    /// Ends the limit: the number of steps is final.
    pub(super) fn lift_limit(&mut self) {
        self.deadline = None;
    }

    /// Updates the speed of the run from a report of the device; a limited run decides again how many steps it has.
    /// Returns the steps per second of time in steps, and the seconds left if the report contains steps.
    pub(super) fn update(&mut self, recipe: &Recipe, report: &StepReport) -> (f64, Option<f64>) {
        let [seconds, _] = self.stopwatch.read();
        let it_per_s = self.rate.update(report.steps as f64, self.step_seconds());
        let seconds_left = match report.steps {
            0 => None,
            _ => self.update_forecast(recipe, report, seconds),
        };
        (it_per_s, seconds_left)
    }

    /// Updates the forecast at `seconds` of training. Returns the seconds left.
    fn update_forecast(&mut self, recipe: &Recipe, report: &StepReport, seconds: f64) -> Option<f64> {
        let before = self.plan.scheduled(self.done.saturating_sub(1));
        let now = self.scheduled();
        let cost = report.steps as f64 * self.forecast.step_cost(recipe, before, report.splats);
        let pace = self.cost_rate.update(cost, seconds);
        if pace <= 0.0 {
            return None;
        }
        let left = self.forecast.remaining_cost(recipe, now, report.splats) / pace;
        let (end, scheduled_left) = (self.plan.end(), recipe.steps - now);
        if let Some(deadline) = self.deadline.as_mut().filter(|_| self.done < end)
            && let Some(end) = deadline.decide(self.done, end, scheduled_left, left, report.splats)
        {
            self.plan.decide(self.done, end);
        }
        Some(left * self.steps_per_scheduled(recipe))
    }

    /// Steps of the run per step of the schedules from now on.
    fn steps_per_scheduled(&self, recipe: &Recipe) -> f64 {
        let left = recipe.steps.saturating_sub(self.scheduled());
        self.plan.end().saturating_sub(self.done) as f64 / left.max(1) as f64
    }
}

/// Whether `done` is a multiple of `every`; never when `every` is 0.
pub(super) fn is_multiple(done: u64, every: u64) -> bool {
    every > 0 && done.is_multiple_of(every)
}

/// CPU seconds that this process has used, user and system together.
fn process_cpu_seconds() -> f64 {
    gausset_prof::process_cpu().map_or(0.0, |time| time.as_secs_f64())
}

/// Seconds of training over all sessions; evaluation does not count.
#[derive(Debug)]
struct Stopwatch {
    before: [f64; 2],
    running_since: Option<(Instant, f64)>,
}

impl Stopwatch {
    /// A running stopwatch that starts at `seconds` and `cpu_seconds`.
    fn start(seconds: f64, cpu_seconds: f64) -> Self {
        Self { before: [seconds, cpu_seconds], running_since: Some((Instant::now(), process_cpu_seconds())) }
    }

    /// Wall and CPU seconds so far.
    fn read(&self) -> [f64; 2] {
        let [seconds, cpu_seconds] = self.before;
        match self.running_since {
            Some((since, cpu)) => {
                [seconds + since.elapsed().as_secs_f64(), cpu_seconds + process_cpu_seconds() - cpu]
            }
            None => self.before,
        }
    }

    /// Discards the time since the stopwatch was started or resumed.
    fn restart(&mut self) {
        self.running_since = None;
        self.resume();
    }

    /// Whether the stopwatch runs.
    fn is_running(&self) -> bool {
        self.running_since.is_some()
    }

    /// Stops the watch.
    fn pause(&mut self) {
        self.before = self.read();
        self.running_since = None;
    }

    /// Resumes the stopwatch.
    fn resume(&mut self) {
        if self.running_since.is_none() {
            self.running_since = Some((Instant::now(), process_cpu_seconds()));
        }
    }
}

/// A rate per second, of steps for instance: amount over time, each weighted by an exponential of its age, so that a short
/// fast start counts for no more than its time.
#[derive(Debug, Default)]
struct Rate {
    amount: f64,
    seconds: f64,
    last_seconds: f64,
}

impl Rate {
    /// A rate that is measured from `seconds` of a [`Stopwatch`].
    fn starting_at(seconds: f64) -> Self {
        Self { last_seconds: seconds, ..Self::default() }
    }

    /// Continues at `seconds` with the current rate: work done in between does not count.
    fn resume_from(&mut self, seconds: f64) {
        self.last_seconds = seconds;
    }

    /// Adds `amount` done up to `seconds` and returns the rate.
    fn update(&mut self, amount: f64, seconds: f64) -> f64 {
        let elapsed = (seconds - self.last_seconds).max(1e-9);
        self.last_seconds = seconds;
        let keep = libm::exp(-elapsed / RATE_SECONDS);
        self.amount = keep * self.amount + amount;
        self.seconds = keep * self.seconds + elapsed;
        self.amount / self.seconds
    }
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
    fn only_time_in_steps_counts_for_their_rate() {
        let mut watch = Stopwatch { before: [2.0, 0.0], running_since: None };
        std::thread::sleep(std::time::Duration::from_millis(2));
        assert_eq!(watch.read()[0], 2.0);
        watch.resume();
        std::thread::sleep(std::time::Duration::from_millis(2));
        watch.pause();
        assert!(watch.read()[0] >= 2.002);
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
    fn a_short_fast_start_does_not_raise_the_rate() {
        let mut rate = Rate::starting_at(0.0);
        assert!((rate.update(10.0, 0.05) - 200.0).abs() < 1e-9);
        let mut last = 0.0;
        for k in 1..=5 {
            last = rate.update(20.0, 0.05 + f64::from(k));
        }
        // 110 steps in 5.05 seconds are 21.8 a second.
        assert!((20.0..22.0).contains(&last), "{last}");
    }
}
