//! How long a run takes: predicted before its first step, corrected during training, limited by a time budget.

use std::slice::from_ref;
use std::time::Instant;

use gausset_core::engine::{Engine, EngineError, StepParams, StepReport, TrainView};

use super::budget::{self, Deadline};
use super::{Run, TrainError, prepare};
use crate::plan::StepPlan;

/// Training views on which the duration of a run is predicted.
pub(super) const TIMED_VIEWS: usize = 4;
/// Minimum number of steps that are timed together.
const MIN_TIMED_STEPS: usize = TIMED_VIEWS - 1;
/// Minimum seconds of timing, because a device with several steps in flight needs many to show its speed.
const MIN_TIMED_SECONDS: f64 = 0.05;
/// Maximum number of steps that are timed together.
const MAX_TIMED_STEPS: usize = 32;
/// Minimum number of steps of a run for a prediction.
const MIN_PREDICTED_STEPS: u64 = 50;

/// Seconds per step on `views`, which are repeated, with a single wait after all steps; `None` if there are no views.
///
/// # Errors
/// Errors of the device.
pub(super) fn measure_step_seconds(
    engine: &mut dyn Engine,
    views: &[TrainView],
    params: &StepParams,
) -> Result<Option<f64>, EngineError> {
    let Some(first) = views.first() else { return Ok(None) };
    // The first step allocates buffers and is not timed.
    engine.step(from_ref(first), &[], params)?;
    engine.flush()?;
    let (started, mut steps) = (Instant::now(), 0);
    for view in views.iter().cycle().skip(1).take(MAX_TIMED_STEPS) {
        if steps >= MIN_TIMED_STEPS && started.elapsed().as_secs_f64() >= MIN_TIMED_SECONDS {
            break;
        }
        engine.step(from_ref(view), &[], params)?;
        steps += 1;
    }
    engine.flush()?;
    Ok(Some(started.elapsed().as_secs_f64() / steps as f64))
}

impl Run {
    /// Predicts how long the run takes from a few steps on its next views. They leave no trace: the state is read back
    /// before them and restored after them. [`crate::Event::Started`] reports the prediction.
    ///
    /// # Errors
    /// The device fails.
    pub fn predict_time(&mut self) -> Result<(), TrainError> {
        if self.plan.end() - self.done < MIN_PREDICTED_STEPS {
            return Ok(());
        }
        let seconds = self.time_steps()?;
        let (recipe, splats) = (&self.config.recipe, self.monitor.splats);
        let now = self.plan.scheduled(self.done);
        self.predicted_seconds = seconds.map(|seconds| {
            let cost = self.forecast.remaining_cost(recipe, now, splats) * self.steps_per_scheduled();
            cost / self.forecast.step_cost(recipe, now, splats) * seconds
        });
        self.stopwatch.restart();
        Ok(())
    }

    /// Applies the time budget of the run, if it has one: the run ends when the budget is used up, counted from `since`
    /// (less what a resumed run has used before). A new run gets as many splats and steps as fit.
    ///
    /// # Errors
    /// The device fails, or `config.toml` cannot be written.
    pub fn apply_time_budget(&mut self, since: Instant) -> Result<(), TrainError> {
        let Some(budget) = self.config.time_budget.seconds() else { return Ok(()) };
        let [used, _] = self.stopwatch.read();
        let deadline = Deadline::new(since, budget - if self.done > 0 { used } else { 0.0 });
        self.deadline = Some(deadline);
        if self.done > 0 {
            return Ok(());
        }
        let Some(seconds_per_step) = self.time_steps()? else { return Ok(()) };
        let splats = self.monitor.splats;
        let seconds = deadline.seconds_left(splats);
        budget::fit_to_budget(&mut self.config.recipe, &self.forecast, splats, seconds_per_step, seconds);
        self.plan = StepPlan::identity(self.config.recipe.steps);
        self.config.plan = self.plan.clone();
        self.memory = prepare::memory_plan(&self.config, &self.session, splats)?;
        self.session.engine.limit_memory(self.memory.device_bytes());
        self.predicted_seconds = Some(seconds);
        self.outputs.write_config(&self.config)?;
        self.stopwatch.restart();
        Ok(())
    }

    /// Seconds per step, from a few steps on the next views that leave no trace. `None` if they fail, because they will
    /// fail again in training. A view that does not fit into memory is an error at once.
    fn time_steps(&mut self) -> Result<Option<f64>, TrainError> {
        let _span = gausset_prof::span("predict");
        let state = self.session.engine.save()?;
        let recipe = &self.config.recipe;
        let now = self.plan.scheduled(self.done);
        let views = self.feed.preview(TIMED_VIEWS, recipe, now, &self.corrections, &self.session.stop);
        let params = recipe.step_params(now, &self.scene);
        match measure_step_seconds(&mut *self.session.engine, &views, &params) {
            Err(error @ EngineError::OutOfMemory { .. }) => Err(self.engine_error(error)),
            outcome => {
                self.session.engine.load(state)?;
                Ok(outcome.ok().flatten())
            }
        }
    }

    /// Steps of the run per step of the schedules from now on.
    pub(super) fn steps_per_scheduled(&self) -> f64 {
        let left = self.config.recipe.steps.saturating_sub(self.plan.scheduled(self.done));
        self.plan.end().saturating_sub(self.done) as f64 / left.max(1) as f64
    }

    /// Updates the speed of the run from a report of the device, at `seconds` of training; a run with a time budget
    /// decides again how many steps it has. Returns the seconds left.
    pub(super) fn update_forecast(&mut self, report: &StepReport, seconds: f64) -> Option<f64> {
        let recipe = &self.config.recipe;
        let before = self.plan.scheduled(self.done.saturating_sub(1));
        let now = self.plan.scheduled(self.done);
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
        Some(left * self.steps_per_scheduled())
    }
}
