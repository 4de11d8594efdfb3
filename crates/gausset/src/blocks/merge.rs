//! Merges the splats of the blocks, and finishes their run.
//!
//! ```text
//! splats of each block ─▶ those in its cell ─▶ merged set ─▶ borders, result, evaluation
//!                                      └─ too many to render ─▶ result, block by block
//! ```

use std::sync::Arc;
use std::sync::atomic::Ordering;

use gausset_blocks::Division;
use gausset_core::Splats;
use gausset_core::engine::{CorrectionGroup, Engine, RenderOptions};
use gausset_io::atomic::Disk;
use gausset_io::run_folder::splats_path;
use gausset_io::splat::{self, LoadOptions, ReadLimits};
use gausset_train::{
    MemoryPlan, PartsSurvey, RecordedRun, RunOutcome, Session, SurveyedParts, Totals, TrainError,
};
use serde::Serialize;

use super::borders::{self, BorderScores};
use super::files::BlocksFolder;
use super::{BlocksJob, survey};
use crate::training::{Trained, Trainer, write_report};
use crate::{Event, Failure, Stage, profiling};

/// Where a job is stopped that merges.
const WHILE_MERGING: &str = "while merging";

/// Contribution of a block to the merged set, for `merged.json`.
#[derive(Debug, Default, Serialize)]
pub(super) struct Contribution {
    block: usize,
    images: usize,
    steps: u64,
    /// Splats that it trained, and those inside its cell.
    splats: usize,
    kept: usize,
    seconds: f64,
    cpu_seconds: f64,
}

impl Contribution {
    /// What the run of a block has taken; nothing without a run.
    fn of_run(outcome: Option<&RunOutcome>) -> Self {
        let Some(RunOutcome { summary, .. }) = outcome else { return Self::default() };
        let (steps, seconds, cpu_seconds) = (summary.steps, summary.seconds, summary.cpu_seconds);
        Self { steps, seconds, cpu_seconds, ..Self::default() }
    }
}

/// The results of the blocks of a division.
struct Parts<'a> {
    folder: BlocksFolder,
    recorded: &'a RecordedRun,
    division: &'a Division,
    coarse: &'a Splats,
}

impl Parts<'_> {
    /// As [`Self::read`], of the file that the block has trained.
    fn read_checked(&self, index: usize) -> Result<(Splats, usize), Failure> {
        if !self.division.blocks[index].images.is_empty() {
            self.folder.check_seal(index)?;
        }
        self.read(index)
    }

    /// The splats of a block that lie in its cell, in normalised coordinates, and the number of all that it has trained. In
    /// the cell of a block without images the coarse splats stay.
    fn read(&self, index: usize) -> Result<(Splats, usize), Failure> {
        let RecordedRun { config, record } = self.recorded;
        let plan = &self.division.blocks[index];
        let mut owned = Splats::with_capacity(config.recipe.sh_degree, 0);
        if plan.images.is_empty() {
            plan.cell.append_owned(self.coarse, &self.division.ground, &mut owned);
            return Ok((owned, 0));
        }
        let limits = ReadLimits { memory_bytes: config.max_memory_bytes() };
        let load = LoadOptions { limits, ..LoadOptions::default() };
        let file = splat::load(&splats_path(&self.folder.block(index)), &load)?;
        let mut splats = file.scene().into_owned().with_sh_degree(config.recipe.sh_degree);
        record.normalisation.dataset_from_normalised().inverse().apply_to_splats(&mut splats);
        plan.cell.append_owned(&splats, &self.division.ground, &mut owned);
        Ok((owned, splats.len()))
    }
}

impl BlocksJob<'_, '_> {
    /// Merges the splats of the blocks, and finishes the run with them.
    pub(super) fn finish(
        mut self,
        division: &Division,
        outcomes: &[Option<RunOutcome>],
        coarse: &Splats,
        groups: Vec<CorrectionGroup>,
    ) -> Result<Trained, Failure> {
        let recorded = self.whole.recorded().clone();
        let (config, record) = (&recorded.config, &recorded.record);
        let device = Some((record.device.as_str(), record.device_name.as_str()));
        let (mut engine, _) =
            self.settings.device.engine_for_training(config.threads(), device, self.host)?;
        let has_viewer = self.host.watcher().is_some();
        let parts = Parts { folder: self.folder.clone(), recorded: &recorded, division, coarse };
        // `None` once there are too many to render.
        let mut merged = Some(Splats::with_capacity(config.recipe.sh_degree, 0));
        let mut memory = self.whole.rendering_memory(0, &*engine, has_viewer);
        let mut survey = self.whole.survey();
        let mut contributions = Vec::new();
        for (index, outcome) in outcomes.iter().enumerate() {
            if self.host.is_stopping() {
                return Ok(self.stopped(WHILE_MERGING.to_owned()));
            }
            let (owned, trained) = parts.read_checked(index)?;
            contributions.push(Contribution {
                block: index + 1,
                images: division.blocks[index].images.len(),
                splats: trained,
                kept: owned.len(),
                ..Contribution::of_run(outcome.as_ref())
            });
            survey.add(&owned);
            memory = self.whole.rendering_memory(survey.splats(), &*engine, has_viewer);
            merged = merged.filter(|_| memory.fits());
            if let Some(merged) = &mut merged {
                merged.append(&owned);
            }
        }
        self.host.stage(Stage::Merged { splats: survey.splats(), blocks: contributions.len() });
        let scores = match &merged {
            Some(merged) => self.border_scores(division, [merged, coarse], &mut *engine)?,
            None => None,
        };
        self.folder.write_merged(division, &contributions, scores)?;
        let totals = totals(self.coarse.clone(), outcomes);
        match merged {
            Some(merged) => {
                let session = Session {
                    dataset: Arc::clone(self.whole.dataset()),
                    engine,
                    device_choice: None,
                    fs: Arc::new(Disk),
                    stop: Arc::clone(self.host.stop()),
                    has_viewer,
                    block: None,
                };
                let run = self.whole.finish(merged, groups, totals, session)?;
                Trainer::of_run(run, self.settings, config.data.allow_missing).finish_started(self.host)
            }
            None => self.finish_in_parts(&parts, survey, &groups, totals, &memory, &mut *engine),
        }
    }

    /// The quality at the borders of the merged set, beside that of the coarse run.
    fn border_scores(
        &mut self,
        division: &Division,
        sets: [&Splats; 2],
        engine: &mut dyn Engine,
    ) -> Result<Option<BorderScores>, Failure> {
        let RecordedRun { config, record } = self.whole.recorded();
        let recipe = &config.recipe;
        let options = RenderOptions {
            sh_degree: recipe.sh_degree,
            antialiased: recipe.antialiased,
            max_splats_per_tile: recipe.max_splats_per_tile,
            ..survey::render_options(record)
        };
        let (dataset, limit) = (self.whole.dataset(), config.max_memory_bytes());
        let scores = borders::measure(dataset, limit, options, sets, division, engine, self.host)?;
        if let Some(BorderScores { images, psnr, coarse_psnr }) = scores {
            self.host.stage(Stage::Borders { images, psnr, coarse_psnr });
        }
        Ok(scores)
    }

    /// Finishes the run with more splats than can be rendered.
    fn finish_in_parts(
        self,
        parts: &Parts<'_>,
        survey: PartsSurvey,
        groups: &[CorrectionGroup],
        totals: Totals,
        memory: &MemoryPlan,
        engine: &mut dyn Engine,
    ) -> Result<Trained, Failure> {
        let Self { whole, settings, host, .. } = self;
        let recorded = parts.recorded;
        let (run, dataset) = (whole.folder().to_owned(), Arc::clone(whole.dataset()));
        let stop = Arc::clone(host.stop());
        let read = |index: usize| match stop.load(Ordering::Relaxed) {
            true => Err(TrainError::Stopped.into()),
            false => parts.read(index).map(|(owned, _)| owned),
        };
        let parts = SurveyedParts { survey, parts: (0..parts.division.blocks.len()).map(read) };
        let mut events = |event| host.report(Event::Training(Box::new(event)));
        let outcome = match whole.finish_in_parts(parts, groups, totals, memory, &mut events) {
            Err(failure) if Failure::is_stopped(&failure) => {
                host.stage(Stage::BlocksStopped { place: WHILE_MERGING.to_owned(), run: run.clone() });
                return Ok(Trained::before_start(run));
            }
            finished => finished?,
        };
        host.report(Event::Ended);
        let allow_missing = recorded.config.data.allow_missing;
        let mut trained = Trained::new(run, outcome, &dataset, allow_missing);
        if settings.profile {
            trained.profile = Some(profiling::finish(engine, &trained.folder, &trained.outcome)?);
        }
        write_report(&trained.folder, &trained.outcome, settings, host);
        Ok(trained)
    }
}

/// What the coarse run, whose `totals` are given, and the runs of all blocks took.
fn totals(mut totals: Totals, outcomes: &[Option<RunOutcome>]) -> Totals {
    for outcome in outcomes.iter().flatten() {
        totals.steps += outcome.summary.steps;
        totals.seconds += outcome.summary.seconds;
        totals.step_seconds += outcome.summary.step_seconds;
        totals.cpu_seconds += outcome.summary.cpu_seconds;
        for image in &outcome.skipped {
            if !totals.skipped.iter().any(|known| known.name == image.name) {
                totals.skipped.push(image.clone());
            }
        }
    }
    totals
}
