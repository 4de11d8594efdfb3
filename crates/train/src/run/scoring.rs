//! What a run writes: checkpoints, splats and evaluations.

use gausset_core::engine::{RenderOptions, TrainState};
use gausset_metrics::SsimDefinition;

use super::corrections::Corrections;
use super::outputs::CheckpointHeader;
use super::summary::EvaluationLine;
use super::{Run, TrainError};
use crate::eval::{EvalError, EvalOptions, EvalReport, Evaluation, MetricSet};
use crate::events::Event;
use crate::exposures::{Exposures, LearntGains};
use crate::option_values::{Split, TimeBudget};

/// Training views that are scored for comparison with the held-out ones.
const SCORED_TRAINING_VIEWS: usize = 8;

impl Run {
    /// Reads the whole state back, after the device has reported any failure. Returns an error if no splat can be
    /// drawn.
    pub(super) fn save(&mut self) -> Result<TrainState, TrainError> {
        self.flush()?;
        let _span = gausset_prof::span("checkpoint");
        let saved = self.session.engine.save();
        let state = saved.map_err(|error| self.engine_error(error))?;
        if (0..state.splats.len()).any(|i| state.splats.is_valid(i)) {
            Ok(state)
        } else {
            Err(self.no_splats())
        }
    }

    /// Writes a checkpoint, unless one of this step exists.
    pub(super) fn checkpoint(&mut self, state: &TrainState) -> Result<(), TrainError> {
        let [seconds, cpu_seconds] = self.stopwatch.read();
        let header = CheckpointHeader {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            fingerprint: self.outputs.record().fingerprint.clone(),
            step: self.done,
            cursor: self.feed.cursor(),
            skipped: self.feed.skipped().to_vec(),
            unreadable: self.feed.unreadable(),
            seconds,
            cpu_seconds,
            loss_sum: self.monitor.loss_sum,
            loss_steps: self.monitor.loss_steps,
            skipped_updates: self.monitor.skipped_updates,
            cut_tiles: self.monitor.cut_tiles,
            cut_steps: self.monitor.cut_steps,
            changes: self.monitor.changes,
            plan: (self.config.time_budget != TimeBudget::None).then(|| self.plan.clone()),
        };
        self.outputs.save_checkpoint(&header, state)
    }

    /// Writes `splats.ply` with the splats of `state`, and the files beside it.
    pub(super) fn export(&mut self, state: TrainState) -> Result<(), TrainError> {
        let scene = (&self.config.recipe, &self.scene);
        self.outputs.export(self.done, state, &self.session.dataset, &self.corrections, scene)
    }

    /// The gains of the training images, if they are learnt.
    fn learnt_gains(&mut self) -> Result<Option<LearntGains>, TrainError> {
        if self.corrections.colour_rows().gains == 0 {
            return Ok(None);
        }
        let groups = self.session.engine.read_corrections()?;
        Ok(self.corrections.learnt_gains(&self.session.dataset, &groups))
    }

    /// Replaces the state on the device with the splats of `splats.ply`, sky included. No step may follow.
    fn load_exported(&mut self) -> Result<(), TrainError> {
        // The optimiser moments are freed before the new state is allocated.
        let TrainState { mut splats, corrections: extras, .. } = self.save()?;
        let scene = splats.len() as u32;
        Corrections::append_sky(&mut splats, &extras, &self.session.dataset, self.scene.extent);
        let loaded = self.session.engine.load_splats(splats, extras);
        loaded.map_err(|error| self.engine_error(error))?;
        self.exported_splats = Some(scene);
        Ok(())
    }

    /// Begins to score the held-out views, if there are any. With `pictures` (at the end) it scores the exported
    /// splats.
    pub(super) fn begin_evaluation(&mut self, pictures: bool) -> Result<Option<Evaluation>, TrainError> {
        if self.session.dataset.split.test.is_empty() {
            return Ok(None);
        }
        self.pause_clocks();
        let exposures = self.exposures()?;
        if pictures && self.scene.sky && self.exported_splats.is_none() {
            self.load_exported()?;
        }
        let options = EvalOptions {
            // An evaluation during training should be cheap.
            measures: if pictures { MetricSet::All } else { MetricSet::ImageOnly },
            ..self.eval_options(Split::Test, exposures)
        };
        let pictures = pictures.then(|| self.outputs.evaluation());
        Ok(Some(Evaluation::begin(&*self.session.engine, self.feed.loader(), options, pictures)?))
    }

    /// Scores the next view; `false` if there is none, or if the run is asked to stop.
    pub(super) fn score_next_view(&mut self, evaluation: &mut Evaluation) -> Result<bool, TrainError> {
        match evaluation.next(&mut *self.session.engine, self.feed.loader(), &self.session.stop) {
            // The caller checks the stop flag.
            Err(EvalError::Stopped) => Ok(true),
            scored => Ok(scored?),
        }
    }

    /// Emits the scores of a finished evaluation.
    pub(super) fn end_evaluation(
        &mut self,
        evaluation: Evaluation,
        pictures: bool,
    ) -> Result<EvalReport, TrainError> {
        let report = evaluation.finish()?;
        if !pictures {
            self.restart_clocks();
        }
        self.outputs.emit(Event::Evaluated { step: self.done, report: report.clone() });
        // Reported once, for the final result.
        let cut = report.truncation_warning(self.config.recipe.max_splats_per_tile).filter(|_| pictures);
        if let Some(warning) = cut {
            self.outputs.warn(warning);
        }
        Ok(report)
    }

    /// Stops the clocks: the time until [`Self::restart_clocks`] does not count as training.
    pub(super) fn pause_clocks(&mut self) {
        self.stopwatch.pause();
    }

    /// Restarts the clocks after [`Self::pause_clocks`].
    pub(super) fn restart_clocks(&mut self) {
        self.stopwatch.resume();
        let [seconds, _] = self.stopwatch.read();
        self.rate.resume_from(seconds);
        self.cost_rate.resume_from(seconds);
    }

    /// Begins to score some training views, for comparison with the held-out ones.
    pub(super) fn begin_training_scores(&mut self) -> Result<Evaluation, TrainError> {
        let exposures = self.exposures()?;
        let options = EvalOptions {
            max_views: Some(SCORED_TRAINING_VIEWS),
            ..self.eval_options(Split::Train, exposures)
        };
        Ok(Evaluation::begin(&*self.session.engine, self.feed.loader(), options, None)?)
    }

    /// The gains with which images are rendered, if any are learnt.
    fn exposures(&mut self) -> Result<Option<Exposures>, TrainError> {
        Ok(self.learnt_gains()?.map(|gains| gains.exposures(&self.session.dataset)))
    }

    /// Options with which this run renders a view for display.
    pub(super) fn display_options(&self) -> RenderOptions {
        let render = self.config.recipe.eval_options(self.plan.scheduled(self.done), &self.scene);
        // A sky that was converted to splats must not be drawn a second time.
        RenderOptions { sky: render.sky && self.exported_splats.is_none(), ..render }
    }

    /// Options with which this run evaluates.
    fn eval_options(&self, split: Split, exposures: Option<Exposures>) -> EvalOptions {
        let render = self.display_options();
        EvalOptions {
            split,
            max_views: None,
            render,
            scene_splats: self.exported_splats,
            exposures,
            splats_from_dataset: gausset_core::se3::IDENTITY3,
            reduction: 1,
            ssim: SsimDefinition::default(),
            measures: MetricSet::ImageOnly,
            lpips: None,
        }
    }

    /// Continues an evaluation of the held-out views between two steps. Returns it until it is done.
    pub(super) fn evaluate_during_training(
        &mut self,
        evaluation: Option<Box<Evaluation>>,
    ) -> Result<Option<Box<Evaluation>>, TrainError> {
        let Some(mut evaluation) = evaluation else {
            self.flush()?;
            return Ok(self.begin_evaluation(false)?.map(Box::new));
        };
        if self.score_next_view(&mut evaluation)? {
            return Ok(Some(evaluation));
        }
        let report = self.end_evaluation(*evaluation, false)?;
        let line = EvaluationLine { step: self.done, psnr: report.psnr, ssim: report.ssim };
        self.outputs.append_line(&line)?;
        Ok(None)
    }
}
