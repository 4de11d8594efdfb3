//! Time budget: decides how many splats and steps a run can afford, before it starts and again during training.

use std::time::{Duration, Instant};

use super::forecast::Forecast;
use crate::recipe::Recipe;

/// Splat budgets to try, largest first. The first that allows [`SUFFICIENT_STEPS`] is used.
const SPLAT_BUDGETS: [u64; 9] = [400_000, 300_000, 200_000, 150_000, 100_000, 70_000, 50_000, 35_000, 25_000];
/// Number of steps below which more splats do not pay off.
const SUFFICIENT_STEPS: f64 = 3_000.0;
/// Minimum and maximum number of steps of the schedules.
const SCHEDULE_STEPS: [f64; 2] = [100.0, 60_000.0];
/// Fraction of the run up to which images stay coarse if it has fewer steps than [`SUFFICIENT_STEPS`].
const SHORT_COARSE_UNTIL: f64 = 0.7;
/// Seconds reserved for the work after the last step: a constant, and an amount per saved splat.
const RESERVED_SECONDS: [f64; 2] = [0.15, 2.5e-6];
/// Minimum relative change in the number of steps left that justifies a new decision.
const MIN_STEP_CHANGE: f64 = 0.01;
/// Minimum time between two decisions.
const MIN_DECISION_INTERVAL: Duration = Duration::from_millis(250);

/// Time by which the result must be available.
#[derive(Clone, Copy, Debug)]
pub(super) struct Deadline {
    at: Instant,
    decided: Instant,
}

impl Deadline {
    /// `seconds` after `since`.
    pub(super) fn new(since: Instant, seconds: f64) -> Self {
        let at = since + Duration::from_secs_f64(seconds.max(0.0));
        Self { at, decided: since }
    }

    /// Seconds of a budget of `seconds` that are used up.
    pub(super) fn seconds_used(&self, seconds: f64) -> f64 {
        (seconds - self.at.saturating_duration_since(Instant::now()).as_secs_f64()).max(0.0)
    }

    /// Seconds left for steps if `splats` must be saved after them.
    pub(super) fn seconds_left(&self, splats: u64) -> f64 {
        let reserve = RESERVED_SECONDS[0] + RESERVED_SECONDS[1] * splats as f64;
        self.at.saturating_duration_since(Instant::now()).as_secs_f64() - reserve
    }

    /// The new last step of a run that has done `done` steps and plans to end at `end`, or `None` if the change is too
    /// small. The schedules have `scheduled_left` steps left, which would take `seconds` if each was done once.
    pub(super) fn decide(
        &mut self,
        done: u64,
        end: u64,
        scheduled_left: u64,
        seconds: f64,
        splats: u64,
    ) -> Option<u64> {
        if self.decided.elapsed() < MIN_DECISION_INTERVAL || seconds <= 0.0 {
            return None;
        }
        let share = (self.seconds_left(splats) / seconds).max(0.0);
        let left = (scheduled_left as f64 * share).round().max(1.0);
        let planned = (end - done) as f64;
        if (left - planned).abs() <= (MIN_STEP_CHANGE * planned).max(1.0) {
            return None;
        }
        self.decided = Instant::now();
        Some(done + left as u64)
    }
}

/// Adjusts a recipe so that it fits into `seconds`, if an early step takes `seconds_per_step`.
pub(super) fn fit_to_budget(
    recipe: &mut Recipe,
    forecast: &Forecast,
    start_splats: u64,
    seconds_per_step: f64,
    seconds: f64,
) {
    let most = recipe.max_splats;
    let mut affordable = 0.0;
    for splats in SPLAT_BUDGETS
        .into_iter()
        .filter(|&splats| splats <= most)
        .chain([SPLAT_BUDGETS[SPLAT_BUDGETS.len() - 1].min(most)])
    {
        let splats = splats.max(start_splats);
        recipe.max_splats = splats;
        recipe.steps = SUFFICIENT_STEPS as u64;
        let second = forecast.step_cost(recipe, 0, start_splats) / seconds_per_step.max(1e-9);
        let total = forecast.remaining_cost(recipe, 0, start_splats) / second;
        affordable = SUFFICIENT_STEPS * seconds / total.max(1e-9);
        if affordable >= SUFFICIENT_STEPS || splats == start_splats {
            break;
        }
    }
    if affordable < SUFFICIENT_STEPS {
        recipe.coarse.until = recipe.coarse.until.max(SHORT_COARSE_UNTIL);
    }
    recipe.steps = affordable.clamp(SCHEDULE_STEPS[0], SCHEDULE_STEPS[1]) as u64;
}
