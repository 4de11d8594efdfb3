//! Advances a run by one unit of work: a step, an image of an evaluation, a checkpoint, or the answer to a request.

use std::slice::from_ref;
use std::sync::atomic::Ordering;

use gausset_core::engine::{DensityRule, EngineError, TrainState};

use super::clock::is_multiple;
use super::device::{ReportMonitor, SetChanges, Wait};
use super::outputs::CheckpointHeader;
use super::scoring::ScoringTime;
use super::summary::{FinishedLine, ReportLine};
use super::{Run, TrainError};
use crate::eval::{EvalError, EvalReport, Evaluation, Trust};
use crate::events::{Event, RunEnd, RunOutcome, RunProgress, RunStart, RunSummary};
use crate::large_set::SetSize;
use crate::option_values::{Strategy, TimeBudget};
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

impl DueWork {
    pub(super) fn is_none(&self) -> bool {
        self.evaluation.is_none() && !self.checkpoint && !self.export
    }
}

/// Phase of a run.
pub(super) enum RunPhase {
    /// Steps are left, or work is due after the last finished step.
    Training(DueWork),
    /// All steps are done and in a checkpoint; the result is not yet written.
    Exporting(Box<TrainState>),
    /// The result is written; held-out views are being scored.
    Scoring(Option<Box<Evaluation>>),
    /// The held-out views, if there are any, are scored; some training views are now scored for comparison.
    ScoringTraining(Option<Box<EvalReport>>, Box<Evaluation>),
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
                self.device_error(lost)
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
        if self.clock.done() < self.clock.end() {
            let was_in_step = self.clock.enter_step();
            let due = self.do_step()?;
            self.clock.leave_step(was_in_step);
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
        let (recipe, now) = (&self.config.recipe, self.clock.scheduled());
        let mut warn = |warning| self.outputs.warn(warning);
        let steps = [now, self.clock.scheduled_next()];
        let view = self.feed.take(recipe, steps, &self.corrections, &mut warn)?;
        // Random numbers are keyed by the step of the run; several of them can map to one step of the schedules.
        let params = recipe.step_params(now, &self.scene).with_step(self.clock.done());
        let next = self.feed.next_for_device(recipe, self.clock.scheduled_next());
        let stepped = self.device.engine().step(from_ref(&view), next.map_or(&[][..], from_ref), &params);
        stepped.map_err(|error| self.device_error(error))?;
        self.clock.count_step();
        self.apply_density_rules(now)?;
        let (done, end) = (self.clock.done(), self.clock.end());
        let is_last = done >= end;
        if is_last || is_multiple(done, report_every(end)) {
            let it_per_s = self.take_report(Wait::AllSteps)?;
            self.log_report(it_per_s)?;
        } else if is_multiple(done, FLUSH_EVERY) {
            self.take_report(Wait::No)?;
        }
        // At the last step, checkpoint, export and evaluation are done by the end of the run.
        if is_last {
            return Ok(DueWork::default());
        }
        let settings = &self.config.outputs;
        Ok(DueWork {
            evaluation: is_multiple(done, settings.eval_every).then_some(None),
            checkpoint: self.outputs.is_checkpoint_due(done),
            export: is_multiple(done, settings.export_every),
        })
    }

    /// Applies the rules that change the set of splats after the steps of the schedules from `before` to now.
    fn apply_density_rules(&mut self, before: u64) -> Result<(), TrainError> {
        for scheduled in before + 1..=self.clock.scheduled() {
            let (recipe, extent) = (&self.config.recipe, self.scene.extent);
            let clear = self.free_space.as_ref().filter(|_| recipe.is_density_step(scheduled));
            let clear = clear.map(|space| DensityRule::FreeSpace(space.rule(recipe.seed, scheduled)));
            for rule in clear.into_iter().chain(recipe.density_after(scheduled, extent)) {
                let densified = self.device.engine().densify(&rule);
                densified.map_err(|error| self.device_error(error))?;
            }
        }
        Ok(())
    }

    /// Takes and forwards the report of the steps since the last one. Returns the step rate.
    pub(super) fn take_report(&mut self, wait: Wait) -> Result<f64, TrainError> {
        let _span = gausset_prof::span("report");
        let step = self.clock.done();
        // Steps of an asynchronous device may end only here.
        let was_in_step = self.clock.enter_step();
        let report = self.device.take_report(wait, step, &mut |warning| self.outputs.warn(warning));
        self.clock.leave_step(was_in_step);
        let report = report.map_err(|error| self.device_error(error))?;
        if report.splats == 0 {
            return Err(self.no_splats());
        }
        let changes = SetChanges::from_report(&report);
        if !changes.is_none() {
            let SetChanges { added, pruned, relocated } = changes;
            self.outputs.emit(Event::Density { step, splats: report.splats, added, pruned, relocated });
        }
        let (it_per_s, seconds_left) = self.clock.update(&self.config.recipe, &report);
        if report.steps > 0 {
            self.outputs.emit(Event::Progress(RunProgress {
                step: report.last_step.map_or(step, |step| step + 1),
                steps: self.clock.end(),
                loss: report.loss_sum / report.steps as f64,
                splats: report.splats,
                it_per_s,
                memory: resident_bytes(),
                budget: self.clock.budget(),
                seconds_left,
                report,
            }));
        }
        Ok(it_per_s)
    }

    /// Appends a line to `metrics.jsonl` with what was reported since the previous one.
    fn log_report(&mut self, it_per_s: f64) -> Result<(), TrainError> {
        let Some((loss, changes)) = self.device.take_sums() else { return Ok(()) };
        let &ReportMonitor { splats, visible, .. } = self.device.monitor();
        let [seconds, cpu_seconds] = self.clock.seconds();
        let (step, memory) = (self.clock.done(), resident_bytes());
        let line =
            ReportLine { step, loss, splats, visible, changes, memory, it_per_s, seconds, cpu_seconds };
        self.outputs.append_line(&line)
    }

    /// Reads the whole state back, after the device has reported any failure. Returns an error if no splat can be
    /// drawn.
    pub(super) fn save(&mut self) -> Result<TrainState, TrainError> {
        self.take_report(Wait::AllSteps)?;
        let _span = gausset_prof::span("checkpoint");
        let saved = self.device.engine().save();
        let state = saved.map_err(|error| self.device_error(error))?;
        if (0..state.splats.len()).any(|i| state.splats.is_valid(i)) {
            Ok(state)
        } else {
            Err(self.no_splats())
        }
    }

    /// Writes a checkpoint, unless one of this step exists.
    pub(super) fn checkpoint(&mut self, state: &TrainState) -> Result<(), TrainError> {
        let [seconds, cpu_seconds] = self.clock.seconds();
        let monitor = self.device.monitor();
        let header = CheckpointHeader {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            fingerprint: self.outputs.record().fingerprint.clone(),
            step: self.clock.done(),
            cursor: self.feed.cursor(),
            skipped: self.feed.skipped().to_vec(),
            unreadable: self.feed.unreadable(),
            seconds,
            cpu_seconds,
            step_seconds: Some(self.clock.step_seconds()),
            loss_sum: monitor.loss_sum,
            loss_steps: monitor.loss_steps,
            skipped_updates: monitor.skipped_updates,
            cut_tiles: monitor.cut_tiles,
            cut_steps: monitor.cut_steps,
            changes: monitor.changes,
            plan: (self.config.time_budget != TimeBudget::None).then(|| self.clock.plan().clone()),
        };
        self.outputs.save_checkpoint(&header, state)
    }

    /// Writes `splats.ply` with the splats of `state`, and the files beside it.
    pub(super) fn export(&mut self, state: TrainState) -> Result<(), TrainError> {
        let scene = (&self.config.recipe, &self.scene);
        self.outputs.export(self.clock.done(), state, &self.dataset, &self.corrections, scene)
    }

    /// Saves a checkpoint and `splats.ply`, and ends the run. The checkpoint comes first: it is what a second signal must
    /// not lose.
    fn stop(&mut self) -> Result<AdvanceOutcome, TrainError> {
        let state = self.save()?;
        self.checkpoint(&state)?;
        self.export(state)?;
        self.outputs.sync_log()?;
        let outcome = self.outcome(RunEnd::Stopped, None);
        Ok(self.end(outcome))
    }

    /// Writes the checkpoint after the last step.
    fn last_checkpoint(&mut self) -> Result<TrainState, TrainError> {
        let state = self.save()?;
        self.clock.lift_limit();
        if self.config.time_budget != TimeBudget::None {
            // From here on the number of steps is fixed and the run can be repeated, also one whose decisions come
            // from its checkpoint. If writing this checkpoint fails, the run is repeated from an earlier one with the
            // same decisions.
            self.config.plan = self.clock.plan().clone();
            self.config.time_budget = TimeBudget::None;
            self.outputs.write_config(&self.config)?;
        }
        self.checkpoint(&state)?;
        Ok(state)
    }

    /// Writes `splats.ply`.
    fn last_export(&mut self, state: TrainState) -> Result<AdvanceOutcome, TrainError> {
        self.export(state)?;
        self.clock.pause();
        if self.outputs.record().block.is_some() {
            // The whole is scored, not its parts.
            return self.finish(None, Trust::default());
        }
        self.phase = RunPhase::Scoring(None);
        Ok(AdvanceOutcome::Saved)
    }

    /// Scores the held-out views one by one.
    fn continue_scoring(
        &mut self,
        evaluation: Option<Box<Evaluation>>,
    ) -> Result<AdvanceOutcome, TrainError> {
        if self.is_asked_to_stop() {
            return Ok(self.stop_scoring());
        }
        let Some(mut evaluation) = evaluation else {
            self.phase = match self.begin_evaluation(ScoringTime::AtEnd)? {
                Some(evaluation) => RunPhase::Scoring(Some(Box::new(evaluation))),
                None => self.begin_training_scores(None)?,
            };
            return Ok(AdvanceOutcome::Evaluation);
        };
        if self.score_next_view(&mut evaluation)? {
            self.phase = RunPhase::Scoring(Some(evaluation));
            return Ok(AdvanceOutcome::Evaluation);
        }
        let report = self.end_evaluation(*evaluation, ScoringTime::AtEnd)?;
        self.phase = self.begin_training_scores(Some(Box::new(report)))?;
        Ok(AdvanceOutcome::Evaluation)
    }

    /// Scores some training views for comparison, one by one.
    fn continue_training_scores(
        &mut self,
        report: Option<Box<EvalReport>>,
        mut evaluation: Box<Evaluation>,
    ) -> Result<AdvanceOutcome, TrainError> {
        if self.is_asked_to_stop() {
            return Ok(self.stop_scoring());
        }
        if self.score_next_view(&mut evaluation)? {
            self.phase = RunPhase::ScoringTraining(report, evaluation);
            return Ok(AdvanceOutcome::Evaluation);
        }
        let confirmed_share = self.survey_confidence(&mut evaluation)?;
        if self.is_asked_to_stop() {
            return Ok(self.stop_scoring());
        }
        let scored = evaluation.finish()?;
        let (training_psnr, training_haze) = (scored.psnr, scored.scores.haze);
        let trust = Trust { training_psnr, training_haze, confirmed_share };
        self.finish(report.map(|report| *report), trust)
    }

    /// Ends the run without its scores, which it makes when it resumes.
    fn stop_scoring(&mut self) -> AdvanceOutcome {
        let outcome = self.outcome(RunEnd::Stopped, None);
        self.end(outcome)
    }

    /// Emits that the run is finished.
    fn finish(&mut self, evaluation: Option<EvalReport>, trust: Trust) -> Result<AdvanceOutcome, TrainError> {
        let (limit, step) = (self.config.recipe.max_splats_per_tile, self.clock.done());
        if let Some(warning) = self.device.monitor().truncation_warning(limit, step) {
            self.outputs.warn(warning);
        }
        let mut outcome = self.outcome(RunEnd::Finished, evaluation);
        outcome.summary.trust = trust;
        let (finished, skipped) = (outcome.summary.clone(), outcome.skipped.clone());
        self.outputs.append_line(&FinishedLine { step, finished, skipped })?;
        self.outputs.sync_log()?;
        self.outputs.emit(Event::Finished(outcome.summary.clone()));
        Ok(self.end(outcome))
    }

    fn end(&mut self, outcome: RunOutcome) -> AdvanceOutcome {
        self.phase = RunPhase::Ended(Box::new(outcome.clone()));
        AdvanceOutcome::Ended(Box::new(outcome))
    }

    fn is_asked_to_stop(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn report_start(&mut self) {
        let split = &self.dataset.split;
        let started = RunStart {
            device: self.device.describe(),
            step: self.clock.done(),
            steps: self.clock.end(),
            train_images: split.train.len(),
            test_images: split.test.len(),
            splats: self.device.monitor().splats,
            start: self.outputs.record().start.clone(),
            scene_extent: self.outputs.record().scene_extent,
            memory: *self.device.memory(),
            time_budget: self.clock.budget().map(|[_, seconds]| seconds),
            predicted_seconds: self.clock.predicted_seconds(),
        };
        self.outputs.emit(Event::Started(started));
        let is_new = self.clock.done() == 0 && self.outputs.record().block.is_none();
        if let Some(line) = self.large_set().advice().filter(|_| is_new) {
            self.outputs.warn(RunWarning::Note(line));
        }
    }

    fn large_set(&self) -> SetSize {
        let train = &self.dataset.split.train;
        let recipe = &self.config.recipe;
        SetSize {
            images: train.len() as u64,
            pixels: train.iter().map(|&index| self.dataset.images[index].camera.pixels() as u64).sum(),
            steps: self.clock.budget().is_none().then(|| self.clock.end()),
            max_splats: recipe.max_splats,
            fitting: self.device.memory().max_fitting_splats().unwrap_or(0),
        }
    }

    fn outcome(&self, end: RunEnd, evaluation: Option<EvalReport>) -> RunOutcome {
        let [seconds, cpu_seconds] = self.clock.seconds();
        let monitor = self.device.monitor();
        let scored = evaluation.as_ref();
        let summary = RunSummary {
            kind: RunSummary::KIND.to_owned(),
            steps: self.clock.done(),
            splats: monitor.splats,
            seconds,
            cpu_seconds,
            step_seconds: self.clock.step_seconds(),
            psnr: scored.and_then(|report| report.psnr),
            ssim: scored.and_then(|report| report.ssim),
            scores: scored.map(|report| report.scores).unwrap_or_default(),
            trust: Trust::default(),
            cut_tiles: monitor.cut_tiles,
            unscored: false,
        };
        RunOutcome { end, summary, evaluation, skipped: self.feed.skipped().to_vec() }
    }

    /// The error for a run without splats, or without any that can be drawn.
    fn no_splats(&self) -> TrainError {
        let remedy = match self.config.recipe.strategy() {
            Strategy::Classic => {
                "lower ⟨prune-opacity⟩, raise ⟨prune-scale⟩, or set ⟨opacity-reset-every = 0⟩"
            }
            Strategy::Mcmc => "lower the rates (⟨lr-means⟩, ⟨lr-scales⟩, ⟨lr-opacities⟩)",
        };
        TrainError::NoSplats { step: self.clock.done(), remedy, checkpoint: self.outputs.last_checkpoint() }
    }

    /// An error of the device, with the last checkpoint.
    pub(super) fn device_error(&self, source: EngineError) -> TrainError {
        self.device.error(source, self.outputs.last_checkpoint())
    }
}

/// Steps between two lines of `metrics.jsonl`.
fn report_every(steps: u64) -> u64 {
    (steps / MIN_LOG_LINES).clamp(1, REPORT_EVERY)
}

/// Resident memory of this process in bytes, where the system reports it.
fn resident_bytes() -> Option<u64> {
    gausset_compute::machine::resident_memory(None).map(|resident| resident.now)
}
