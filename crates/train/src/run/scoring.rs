//! How a run scores its views: held-out ones during training and at the end, then some training views for comparison.

use std::sync::Arc;

use gausset_core::engine::{RenderOptions, TrainState};
use gausset_io::dataset::Tracks;
use gausset_metrics::SsimDefinition;

use super::advance::RunPhase;
use super::corrections::Corrections;
use super::device::Wait;
use super::summary::EvaluationLine;
use super::{Run, TrainError};
use crate::eval::{EvalError, EvalOptions, EvalReport, Evaluation, MetricSet};
use crate::events::Event;
use crate::exposures::Exposures;
use crate::memory::MemoryPlan;
use crate::option_values::Split;

/// Training views that are scored for comparison with the held-out ones.
const SCORED_TRAINING_VIEWS: usize = 8;

/// When held-out views are scored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ScoringTime {
    /// Between two steps: the scores of images only, and no files.
    DuringTraining,
    /// After the last step: all scores of the exported splats, with images and a report in `eval/`.
    AtEnd,
}

impl Run {
    /// Begins to score the held-out views, if there are any.
    pub(super) fn begin_evaluation(&mut self, time: ScoringTime) -> Result<Option<Evaluation>, TrainError> {
        if self.dataset.split.test.is_empty() {
            return Ok(None);
        }
        self.clock.pause();
        let exposures = self.exposures()?;
        let (measures, output) = match time {
            // An evaluation during training should be cheap.
            ScoringTime::DuringTraining => (MetricSet::ImageOnly, None),
            ScoringTime::AtEnd => {
                self.use_exported_splats()?;
                (MetricSet::All, Some(self.outputs.evaluation()))
            }
        };
        let options = EvalOptions { measures, ..self.eval_options(Split::Test, exposures) };
        Ok(Some(Evaluation::begin(self.device.engine(), self.feed.loader(), options, output)?))
    }

    /// Scores the next view; `false` if there is none. The caller checks whether the run is asked to stop.
    pub(super) fn score_next_view(&mut self, evaluation: &mut Evaluation) -> Result<bool, TrainError> {
        match evaluation.next(self.device.engine(), self.feed.loader(), &self.stop) {
            Err(EvalError::Stopped) => Ok(true),
            scored => Ok(scored?),
        }
    }

    /// Ends an evaluation of the held-out views and reports its scores.
    pub(super) fn end_evaluation(
        &mut self,
        evaluation: Evaluation,
        time: ScoringTime,
    ) -> Result<EvalReport, TrainError> {
        let report = evaluation.finish()?;
        if time == ScoringTime::DuringTraining {
            self.clock.resume();
        }
        self.outputs.emit(Event::Evaluated { step: self.clock.done(), report: report.clone() });
        if time == ScoringTime::AtEnd
            && let Some(warning) = report.truncation_warning(self.config.recipe.max_splats_per_tile)
        {
            self.outputs.warn(warning);
        }
        Ok(report)
    }

    /// Continues an evaluation of the held-out views between two steps. Returns it until it is done.
    pub(super) fn evaluate_during_training(
        &mut self,
        evaluation: Option<Box<Evaluation>>,
    ) -> Result<Option<Box<Evaluation>>, TrainError> {
        let Some(mut evaluation) = evaluation else {
            self.take_report(Wait::AllSteps)?;
            return Ok(self.begin_evaluation(ScoringTime::DuringTraining)?.map(Box::new));
        };
        if self.score_next_view(&mut evaluation)? {
            return Ok(Some(evaluation));
        }
        let report = self.end_evaluation(*evaluation, ScoringTime::DuringTraining)?;
        let line = EvaluationLine { step: self.clock.done(), psnr: report.psnr, ssim: report.ssim };
        self.outputs.append_line(&line)?;
        Ok(None)
    }

    /// Begins to score some training views, for comparison with the held-out ones and for their haze.
    pub(super) fn begin_training_scores(
        &mut self,
        held_out: Option<Box<EvalReport>>,
    ) -> Result<RunPhase, TrainError> {
        self.clock.pause();
        self.use_exported_splats()?;
        let exposures = self.exposures()?;
        let options = EvalOptions {
            max_views: Some(SCORED_TRAINING_VIEWS),
            measures: MetricSet::WithHaze,
            ..self.eval_options(Split::Train, exposures)
        };
        let evaluation = Evaluation::begin(self.device.engine(), self.feed.loader(), options, None)?;
        Ok(RunPhase::ScoringTraining(held_out, Box::new(evaluation)))
    }

    /// Writes which places the training views confirm. Returns the fraction that they do; `None` if the run is asked to
    /// stop, or there is no surface.
    pub(super) fn survey_confidence(
        &mut self,
        evaluation: &mut Evaluation,
    ) -> Result<Option<f64>, TrainError> {
        let saved_from_dataset = self.outputs.record().saved_from_normalised();
        // The model was read when the run began. If it cannot be read any more, the map lacks its lines.
        let budget = MemoryPlan::tracks_budget(self.config.max_memory_bytes());
        let tracks =
            self.dataset.read_tracks(budget).unwrap_or_else(|_| Tracks::empty(self.dataset.images.len()));
        let engine = self.device.engine();
        match evaluation.survey(engine, &self.dataset, &tracks, &saved_from_dataset, &self.stop) {
            Ok(Some(report)) => {
                self.outputs.write_confidence(&report)?;
                Ok(Some(report.confirmed))
            }
            Ok(None) | Err(EvalError::Stopped) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Options with which this run renders a view for display.
    pub(super) fn display_options(&self) -> RenderOptions {
        let recipe = &self.config.recipe;
        self.device.render_options(recipe.eval_options(self.clock.scheduled(), &self.scene))
    }

    /// Replaces the state on the device with the splats of `splats.ply`, if these have a sky. No step may follow.
    fn use_exported_splats(&mut self) -> Result<(), TrainError> {
        if !self.scene.sky || self.device.exported_splats().is_some() {
            return Ok(());
        }
        // The optimiser moments are freed before the new state is allocated.
        let TrainState { mut splats, corrections: groups, .. } = self.save()?;
        let sky = Corrections::append_sky(&mut splats, &groups, &self.dataset, self.scene.extent);
        let loaded = self.device.load_exported(splats, groups, sky);
        loaded.map_err(|error| self.device_error(error))
    }

    /// The gains and the vignetting with which images are rendered, if any are learnt.
    fn exposures(&mut self) -> Result<Option<Exposures>, TrainError> {
        let rows = self.corrections.colour_rows();
        if rows.gains + rows.vignetting == 0 {
            return Ok(None);
        }
        let groups = self.device.engine().read_corrections()?;
        let gains = self.corrections.learnt_gains(&self.dataset, &groups);
        let poses = self.corrections.poses(&self.dataset, &groups);
        Ok(gains.map(|gains| gains.exposures_at(&self.dataset, &poses, Arc::clone(&self.photographs))))
    }

    /// Options with which this run evaluates.
    fn eval_options(&self, split: Split, exposures: Option<Exposures>) -> EvalOptions {
        EvalOptions {
            split,
            max_views: None,
            render: self.display_options(),
            scene_splats: self.device.exported_splats(),
            exposures,
            splats_from_dataset: gausset_core::splats_transform::Similarity::IDENTITY,
            reduction: 1,
            ssim: SsimDefinition::default(),
            measures: MetricSet::ImageOnly,
            lpips: None,
        }
    }
}
