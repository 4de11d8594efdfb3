//! Advances a run by one unit of work: a step, an image of an evaluation, a checkpoint, or the answer to a request.

use std::slice::from_ref;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use gausset_core::engine::{DensityRule, Outputs, TrainState};

use super::clock::is_multiple;
use super::requests::{RenderRequest, Request};
use super::summary::FinishedLine;
use super::{Run, TrainError};
use crate::eval::{EvalError, EvalReport, Evaluation, Trust};
use crate::events::{Event, RunEnd, RunOutcome};
use crate::option_values::TimeBudget;
use crate::warning::RunWarning;

/// Steps between two reports of the device. Long enough to keep an asynchronous device busy, short enough to stop soon
/// after a loss that is not finite.
const FLUSH_EVERY: u64 = 10;

/// Steps between two lines of `metrics.jsonl`; fewer in short runs, so that they get [`MIN_LOG_LINES`] lines.
const REPORT_EVERY: u64 = 100;
/// Minimum number of lines in `metrics.jsonl`, if the run has that many steps.
const MIN_LOG_LINES: u64 = 50;

/// What a call of [`Run::advance`] did.
#[derive(Clone, Debug, PartialEq)]
pub enum AdvanceOutcome {
    /// One training step.
    Step,
    /// An evaluation began or ended, or one of its images was rendered and scored.
    Evaluation,
    /// A checkpoint or `splats.ply` was written.
    Saved,
    /// A request was answered.
    Answered,
    /// Nothing; the run is paused.
    Paused,
    /// Nothing; the run has ended with this outcome.
    Ended(Box<RunOutcome>),
}

/// Work that is due between two steps, in the order in which it is done.
#[derive(Default)]
pub(super) struct DueWork {
    /// An evaluation; `Some(None)` if it has not begun.
    evaluation: Option<Option<Box<Evaluation>>>,
    checkpoint: bool,
    export: bool,
}

/// Phase of a run.
pub(super) enum RunPhase {
    /// Steps are left, or work is due after the last finished step.
    Training(DueWork),
    /// All steps are done and in a checkpoint; the result is not yet written.
    Exporting(Box<TrainState>),
    /// The result is written; held-out views are being scored.
    Scoring(Option<Box<Evaluation>>),
    /// The held-out views are scored; some training views are now scored for comparison.
    ScoringTraining(Box<EvalReport>, Box<Evaluation>),
    /// The run has ended.
    Ended(Box<RunOutcome>),
}

impl Run {
    /// Does one unit of work. Its events are returned by [`Self::take_events`].
    ///
    /// # Errors
    /// A loss that is not finite, a failure of the device or file system, too many unreadable images. The last
    /// checkpoint is intact; this `Run` cannot continue afterwards.
    pub fn advance(&mut self) -> Result<AdvanceOutcome, TrainError> {
        if !self.is_started {
            self.is_started = true;
            self.report_start();
        }
        if let Some(request) = self.requests.take() {
            self.handle_request(request)?;
            return Ok(AdvanceOutcome::Answered);
        }
        if let RunPhase::Ended(outcome) = &self.phase {
            return Ok(AdvanceOutcome::Ended(outcome.clone()));
        }
        if self.is_paused && !self.is_asked_to_stop() {
            return Ok(AdvanceOutcome::Paused);
        }
        // During the work the phase is `Training` with nothing due; an error leaves it so.
        let advanced = match std::mem::replace(&mut self.phase, RunPhase::Training(DueWork::default())) {
            RunPhase::Training(due) => self.continue_training(due),
            RunPhase::Exporting(state) => self.last_export(*state),
            RunPhase::Scoring(evaluation) => self.continue_scoring(evaluation),
            RunPhase::ScoringTraining(report, evaluation) => {
                self.continue_training_scores(report, evaluation)
            }
            RunPhase::Ended(outcome) => Ok(self.end(*outcome)),
        };
        advanced.map_err(|error| match error {
            TrainError::Engine(lost) | TrainError::Eval(EvalError::Engine(lost))
                if lost.is_device_failure() =>
            {
                self.engine_error(lost)
            }
            other => other,
        })
    }

    fn continue_training(&mut self, mut due: DueWork) -> Result<AdvanceOutcome, TrainError> {
        if self.is_asked_to_stop() {
            return self.stop();
        }
        if let Some(evaluation) = due.evaluation.take() {
            due.evaluation = self.evaluate_during_training(evaluation)?.map(Some);
            self.phase = RunPhase::Training(due);
            return Ok(AdvanceOutcome::Evaluation);
        }
        if due.checkpoint || due.export {
            let state = self.save()?;
            if due.checkpoint {
                self.checkpoint(&state)?;
            }
            if due.export {
                self.export(state)?;
            }
            return Ok(AdvanceOutcome::Saved);
        }
        if self.done < self.plan.end() {
            let due = self.do_step()?;
            self.phase = RunPhase::Training(due);
            return Ok(AdvanceOutcome::Step);
        }
        let state = self.last_checkpoint()?;
        self.phase = RunPhase::Exporting(Box::new(state));
        Ok(AdvanceOutcome::Saved)
    }

    /// Does one step and returns what is due after it.
    fn do_step(&mut self) -> Result<DueWork, TrainError> {
        let _span = gausset_prof::span("step");
        let recipe = &self.config.recipe;
        let now = self.plan.scheduled(self.done);
        let mut warn = |warning| self.outputs.warn(warning);
        let view = self.feed.take(recipe, now, &self.corrections, &mut warn)?;
        // Random numbers are keyed by the step of the run; several of them can map to one step of the schedules.
        let params = recipe.step_params(now, &self.scene).with_step(self.done);
        let next = self.feed.next_for_device(recipe, self.plan.scheduled(self.done + 1));
        let next = next.map_or(&[][..], from_ref);
        let stepped = self.session.engine.step(from_ref(&view), next, &params);
        stepped.map_err(|error| self.engine_error(error))?;
        self.done += 1;
        for scheduled in now + 1..=self.plan.scheduled(self.done) {
            let (recipe, extent) = (&self.config.recipe, self.scene.extent);
            let clear = self.free_space.as_ref().filter(|_| recipe.is_density_step(scheduled));
            let clear = clear.map(|space| DensityRule::FreeSpace(space.rule(recipe.seed, scheduled)));
            for rule in clear.into_iter().chain(recipe.density_after(scheduled, extent)) {
                let densified = self.session.engine.densify(&rule);
                densified.map_err(|error| self.engine_error(error))?;
            }
        }
        let (steps, outputs) = (self.plan.end(), self.config.outputs);
        let is_last = self.done >= steps;
        let is_report = is_last || is_multiple(self.done, report_every(steps));
        if is_report || is_multiple(self.done, FLUSH_EVERY) {
            if is_report {
                let it_per_s = self.flush()?;
                self.report(it_per_s)?;
            } else {
                self.poll()?;
            }
        }
        // At the last step, checkpoint, export and evaluation are done by the end of the run.
        if is_last {
            return Ok(DueWork::default());
        }
        Ok(DueWork {
            evaluation: is_multiple(self.done, outputs.eval_every).then_some(None),
            checkpoint: self.outputs.is_checkpoint_due(self.done),
            export: is_multiple(self.done, outputs.export_every),
        })
    }

    /// Saves a checkpoint and ends the run.
    fn stop(&mut self) -> Result<AdvanceOutcome, TrainError> {
        let state = self.save()?;
        self.checkpoint(&state)?;
        self.outputs.sync_log()?;
        let outcome = self.outcome(RunEnd::Stopped, None);
        Ok(self.end(outcome))
    }

    /// Writes the checkpoint after the last step.
    fn last_checkpoint(&mut self) -> Result<TrainState, TrainError> {
        let state = self.save()?;
        self.deadline = None;
        if self.config.time_budget != TimeBudget::None {
            // From here on the number of steps is fixed and the run can be repeated, also one whose decisions come
            // from its checkpoint. If writing this checkpoint fails, the run is repeated from an earlier one with the
            // same decisions.
            self.config.plan = self.plan.clone();
            self.config.time_budget = TimeBudget::None;
            self.outputs.write_config(&self.config)?;
        }
        self.checkpoint(&state)?;
        Ok(state)
    }

    /// Writes `splats.ply`.
    fn last_export(&mut self, state: TrainState) -> Result<AdvanceOutcome, TrainError> {
        self.export(state)?;
        self.stopwatch.pause();
        self.phase = RunPhase::Scoring(None);
        Ok(AdvanceOutcome::Saved)
    }

    /// Scores the held-out views one by one.
    fn continue_scoring(
        &mut self,
        evaluation: Option<Box<Evaluation>>,
    ) -> Result<AdvanceOutcome, TrainError> {
        if self.is_asked_to_stop() {
            let outcome = self.outcome(RunEnd::Stopped, None);
            return Ok(self.end(outcome));
        }
        let Some(mut evaluation) = evaluation else {
            self.phase = match self.begin_evaluation(true)? {
                Some(evaluation) => RunPhase::Scoring(Some(Box::new(evaluation))),
                None => return self.finish(None, Trust::default()),
            };
            return Ok(AdvanceOutcome::Evaluation);
        };
        if self.score_next_view(&mut evaluation)? {
            self.phase = RunPhase::Scoring(Some(evaluation));
            return Ok(AdvanceOutcome::Evaluation);
        }
        let report = self.end_evaluation(*evaluation, true)?;
        if report.images == 0 {
            return self.finish(Some(report), Trust::default());
        }
        let trusted = self.begin_training_scores()?;
        self.phase = RunPhase::ScoringTraining(Box::new(report), Box::new(trusted));
        Ok(AdvanceOutcome::Evaluation)
    }

    /// Scores some training views for comparison, one by one.
    fn continue_training_scores(
        &mut self,
        report: Box<EvalReport>,
        mut evaluation: Box<Evaluation>,
    ) -> Result<AdvanceOutcome, TrainError> {
        if self.is_asked_to_stop() {
            return self.finish(Some(*report), Trust::default());
        }
        if self.score_next_view(&mut evaluation)? {
            self.phase = RunPhase::ScoringTraining(report, evaluation);
            return Ok(AdvanceOutcome::Evaluation);
        }
        let trust = Trust { training_psnr: evaluation.finish()?.psnr };
        self.finish(Some(*report), trust)
    }

    /// Emits that the run is finished.
    fn finish(&mut self, evaluation: Option<EvalReport>, trust: Trust) -> Result<AdvanceOutcome, TrainError> {
        if let Some(warning) =
            self.monitor.truncation_warning(self.config.recipe.max_splats_per_tile, self.done)
        {
            self.outputs.warn(warning);
        }
        let mut outcome = self.outcome(RunEnd::Finished, evaluation);
        outcome.summary.trust = trust;
        let (finished, skipped) = (outcome.summary.clone(), outcome.skipped.clone());
        self.outputs.append_line(&FinishedLine { step: self.done, finished, skipped })?;
        self.outputs.sync_log()?;
        self.outputs.emit(Event::Finished(outcome.summary.clone()));
        Ok(self.end(outcome))
    }

    fn end(&mut self, outcome: RunOutcome) -> AdvanceOutcome {
        self.phase = RunPhase::Ended(Box::new(outcome.clone()));
        AdvanceOutcome::Ended(Box::new(outcome))
    }

    /// Answers a request. The time it takes does not count as training.
    fn handle_request(&mut self, request: Request) -> Result<(), TrainError> {
        // After the last step the state is saved anyway.
        let is_over = !matches!(self.phase, RunPhase::Training(_));
        match request {
            Request::Pause if !is_over && !self.is_paused => {
                self.flush()?;
                self.is_paused = true;
                self.pause_clocks();
                self.outputs.emit(Event::Paused { step: self.done });
            }
            Request::Resume if self.is_paused => {
                self.is_paused = false;
                self.restart_clocks();
                self.outputs.emit(Event::Resumed { step: self.done });
            }
            Request::Stop => self.session.stop.store(true, Ordering::Relaxed),
            Request::Save if !is_over => {
                let state = self.save()?;
                let saved = self.checkpoint(&state);
                self.warn_on_failure(saved)?;
            }
            Request::Export if !is_over => {
                let state = self.save()?;
                let exported = self.export(state);
                self.warn_on_failure(exported)?;
            }
            Request::Render(wanted) => self.render_requested(&wanted),
            Request::Pause | Request::Resume | Request::Save | Request::Export => {}
        }
        Ok(())
    }

    /// Turns a failed write that was requested during training into a warning: it must not end the run.
    fn warn_on_failure(&mut self, done: Result<(), TrainError>) -> Result<(), TrainError> {
        match done {
            Err(error @ (TrainError::Write(_) | TrainError::Folder(_))) => {
                let line = format!("{error}; training continues");
                self.outputs.warn(RunWarning::Note(line));
                Ok(())
            }
            done => done,
        }
    }

    /// Renders a requested view. A failure does not end the run: if the device has failed, the next step reports it.
    fn render_requested(&mut self, wanted: &RenderRequest) {
        let (id, step) = (wanted.id, self.done);
        let options = self.display_options();
        let rendered = self.session.engine.render(&wanted.camera, &wanted.pose, &options, Outputs::All);
        self.outputs.emit(match rendered {
            Ok(picture) => Event::Picture { id, step, picture: Arc::new(picture) },
            Err(error) => Event::NoPicture { id, step, reason: error.to_string() },
        });
    }
}

/// Steps between two lines of `metrics.jsonl`.
fn report_every(steps: u64) -> u64 {
    (steps / MIN_LOG_LINES).clamp(1, REPORT_EVERY)
}
