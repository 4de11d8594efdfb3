//! The training run: folder, loop, checkpoints, result.
//!
//! ```text
//! start ── first splats ──┐                     ┌─▶ flush ─▶ Progress, metrics.jsonl
//!                         ├─▶ load ─▶ step … ───┼─▶ save ─▶ checkpoints/step_….ckpt
//! resume ── checkpoint ───┘                     └─▶ render ─▶ eval/       … save ─▶ splats.ply
//! ```
//! Nothing on the right has an influence on the steps: flushing, saving and rendering only read. So a run gives the
//! same `splats.ply` however often it is looked at, stopped, killed and resumed. Whatever is lost in a kill is what
//! was done since the last checkpoint, and it is done again in the same way.
//!
//! Order of writes: `config.toml` before step 0; at the end the checkpoint of the last step, then `splats.ply`, then
//! the evaluation, then the last line of `metrics.jsonl`. A run that is killed in between goes on there.

mod budget;
mod clock;
mod coarse;
mod corrections;
mod dense;
mod error;
mod export;
mod feed;
mod forecast;
mod header;
mod prepare;
mod refined;
mod results;
mod same_data;
mod summary;
mod timing;
mod watch;

use std::path::Path;
use std::slice::from_ref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use gausset_core::engine::{DensityRule, Engine, EngineError, TrainState};
use gausset_io::atomic::{FileSystem, Overwrite};
use gausset_io::dataset::{Dataset, Loader};
use gausset_io::metrics_log::MetricsLog;
use gausset_io::run_folder::{RunFolder, config_path, metrics_path};

use crate::config::{RecordedRun, TrainConfig};
use crate::eval::{EvalReport, Trust};
use crate::events::{End, Event, Outcome, Progress, RunWarning, Started, Summary};
use crate::free_space::FreeViews;
use crate::memory::MemoryPlan;
use crate::options::TrainOptions;
use crate::plan::Plan;
use crate::recipe::SceneFacts;
use crate::words::{Strategy, TimeBudget};
use budget::Deadline;
use clock::{CheckpointClock, Rate, Stopwatch, is_multiple};
use coarse::Coarse;
use corrections::Corrections;
use dense::DenseStart;
use feed::Feed;
use forecast::Forecast;
use header::CheckpointHeader;
use watch::Watch;

pub use error::TrainError;
pub use refined::with_refined_poses;
pub use same_data::{check_dataset, check_init};
use summary::{FinishedLine, ReportLine};
pub use summary::{read_finished, read_summary};

/// Steps between two flushes, after which the device has told how it went. Long enough for a device that works
/// behind to stay busy, short enough to stop soon after a loss that is not finite.
const FLUSH_EVERY: u64 = 10;

/// Lines of `metrics.jsonl` come every so many steps, and in short runs often enough for [`FEWEST_REPORTS`].
const REPORT_EVERY: u64 = 100;
/// Lines of `metrics.jsonl` that a run has at least, if it has as many steps.
const FEWEST_REPORTS: u64 = 50;

/// What a run works with.
pub struct Session<'a> {
    /// The dataset, opened with [`TrainConfig::open_options`].
    pub dataset: Arc<Dataset>,
    /// The device.
    pub engine: &'a mut dyn Engine,
    /// Where files are written.
    pub fs: &'a dyn FileSystem,
    /// Set it to save and stop after the current step.
    pub stop: &'a AtomicBool,
    /// Is told everything that happens.
    pub events: &'a mut dyn FnMut(&Event),
}

/// A training run in its folder, ready to go.
pub struct Run<'a> {
    config: TrainConfig,
    scene: SceneFacts,
    recorded: RecordedRun,
    folder: RunFolder,
    session: Session<'a>,
    loader: Arc<Loader>,
    feed: Feed,
    coarse: Coarse,
    log: MetricsLog<'a>,
    memory: MemoryPlan,
    /// Finished steps.
    done: u64,
    stopwatch: Stopwatch,
    rate: Rate,
    forecast: Forecast,
    /// Cost ([`Forecast`]) per second.
    pace: Rate,
    predicted_seconds: Option<f64>,
    /// Which step of the schedules each step is.
    plan: Plan,
    deadline: Option<Deadline>,
    checkpoints: CheckpointClock,
    watch: Watch,
    /// Splats of the scene, once the device holds what `splats.ply` shows: those that follow are its sky.
    exported_scene: Option<u32>,
    /// What is known to be empty, where that is asked for.
    free_space: Option<FreeViews>,
}

/// What a run begins with, or goes on with.
struct Begin {
    memory: MemoryPlan,
    loader: Arc<Loader>,
    corrections: Corrections,
    state: TrainState,
    /// Of the checkpoint that the state comes from.
    header: Option<CheckpointHeader>,
}

impl<'a> Run<'a> {
    /// Prepares a new run in `folder`: makes the first splats, takes and locks the folder, writes `config.toml`.
    ///
    /// # Errors
    /// A start that cannot be made, too little memory, a folder that is in use or holds a run (unless it may be
    /// overwritten), a device that cannot hold the splats; it was asked to stop.
    pub fn start(
        config: TrainConfig,
        folder: &Path,
        overwrite: Overwrite,
        session: Session<'a>,
    ) -> Result<Self, TrainError> {
        let dataset = Arc::clone(&session.dataset);
        let config = absolute(config);
        // Everything that can be refused is, before anything is written or removed.
        let mut start = prepare::first_splats(&config, &dataset)?;
        let memory = prepare::memory_plan(&config, &dataset, start.splats.len() as u64, session.engine)?;
        let loader = prepare::loader(&config, &dataset);
        let budget = MemoryPlan::opening_budget(memory.limit);
        let sky = prepare::has_sky(config.background, &loader);
        let (colours, gains) = corrections::colours_at_start(&config.recipe, &loader, budget, None)?;
        let corrections = Corrections::new(&config.recipe, colours, &dataset, sky);
        let dense = DenseStart {
            config: &config,
            loader: &loader,
            memory: &memory,
            corrections: &corrections,
            gains: &gains,
            stop: session.stop,
        };
        let side = dense.side(&start)?;
        let depths = match side {
            None => None,
            Some(side) => {
                RunFolder::check(session.fs, folder, overwrite)?;
                Some(dense.add_to(&mut start, side, session.events)?)
            }
        };
        let record =
            prepare::record(&config, &dataset, &session.engine.describe(), &start, colours, side, sky);
        let recorded = RecordedRun { config: config.clone(), record };
        let folder = RunFolder::create(session.fs, folder, overwrite)?;
        folder.write_config(session.fs, &recorded.to_toml())?;
        folder.write_list_of_data(session.fs, &dataset.list_of_data())?;
        if let Some(depths) = depths.filter(|_| config.outputs.keep_depth) {
            dense::keep(session.fs, &folder, &dataset, &depths)?;
        }
        let state = TrainState::new(start.splats, corrections.starting_at(&gains));
        let begin = Begin { memory, loader, corrections, state, header: None };
        Self::assemble(config, recorded, folder, session, begin)
    }

    /// Prepares the run in `folder` to go on from its newest checkpoint, or from step 0 when there is none.
    /// `config` comes from [`resumable_config`].
    ///
    /// # Errors
    /// A folder that is in use or holds no run, another dataset, options that would change the result, a checkpoint
    /// that is not of this run.
    pub fn resume(config: TrainConfig, folder: &Path, session: Session<'a>) -> Result<Self, TrainError> {
        let folder = RunFolder::open(session.fs, folder)?;
        let config_file = config_path(folder.root());
        let recorded = RecordedRun::read(&config_file)?;
        let config = recorded.resumed_with(&absolute(config).to_options(), &config_file)?;
        let dataset = Arc::clone(&session.dataset);
        check_dataset(folder.root(), &recorded, &dataset)?;
        check_init(&recorded)?;
        let search = folder.newest_checkpoint(session.fs)?;
        for line in search.lines() {
            (session.events)(&Event::Warning(RunWarning::DamagedCheckpoint(line)));
        }
        let is_changed = config != recorded.config;
        let recorded = RecordedRun { config: config.clone(), ..recorded };
        if is_changed {
            folder.write_config(session.fs, &recorded.to_toml())?;
        }
        let loader = prepare::loader(&config, &dataset);
        let corrections = Corrections::new(&config.recipe, recorded.colours(), &dataset, recorded.record.sky);
        let Some(found) = search.found else {
            let warning = RunWarning::NoCheckpoint { folder: folder.root().to_owned() };
            (session.events)(&Event::Warning(warning));
            let mut start = prepare::first_splats(&config, &dataset)?;
            let memory = prepare::memory_plan(&config, &dataset, start.splats.len() as u64, session.engine)?;
            let (budget, decided) = (MemoryPlan::opening_budget(memory.limit), Some(recorded.colours()));
            let (_, gains) = corrections::colours_at_start(&config.recipe, &loader, budget, decided)?;
            if let Some(side) = recorded.record.stereo_side {
                let dense = DenseStart {
                    config: &config,
                    loader: &loader,
                    memory: &memory,
                    corrections: &corrections,
                    gains: &gains,
                    stop: session.stop,
                };
                let depths = dense.add_to(&mut start, side, session.events)?;
                if config.outputs.keep_depth {
                    dense::keep(session.fs, &folder, &dataset, &depths)?;
                }
            }
            let state = TrainState::new(start.splats, corrections.starting_at(&gains));
            let begin = Begin { memory, loader, corrections, state, header: None };
            return Self::assemble(config, recorded, folder, session, begin);
        };
        let header = CheckpointHeader::read(
            &found.path,
            &found.header,
            found.step,
            &config,
            &recorded.record.fingerprint,
        )?;
        header::check_state(&found.path, &found.state, &config.recipe, &corrections)?;
        let memory =
            prepare::memory_plan(&config, &dataset, found.state.splats.len() as u64, session.engine)?;
        let begin = Begin { memory, loader, corrections, state: found.state, header: Some(header) };
        Self::assemble(config, recorded, folder, session, begin)
    }

    /// Puts a run together and brings its state to the device.
    fn assemble(
        config: TrainConfig,
        recorded: RecordedRun,
        folder: RunFolder,
        session: Session<'a>,
        begin: Begin,
    ) -> Result<Self, TrainError> {
        let Begin { memory, loader, corrections, state, header } = begin;
        if let Some(note) = folder.lock_note() {
            (session.events)(&Event::Warning(RunWarning::Note(note.to_owned())));
        }
        let log =
            MetricsLog::open(session.fs, &metrics_path(folder.root()), header.as_ref().map(|h| h.step))?;
        let seed = config.recipe.seed;
        let cursor = header.as_ref().map(|h| h.cursor).unwrap_or_default();
        let scene = prepare::scene_facts(&recorded.record, corrections.colour_rows());
        let mut feed = Feed::new(Arc::clone(&loader), seed, cursor, corrections);
        let mut watch = Watch::new(state.splats.len() as u64);
        let [mut seconds, mut cpu_seconds] = [0.0; 2];
        let (mut done, mut last_checkpoint) = (0, None);
        let mut plan = config.plan.clone();
        if let Some(header) = header {
            plan = header.plan.unwrap_or(plan);
            (seconds, cpu_seconds) = (header.seconds, header.cpu_seconds);
            (done, last_checkpoint) = (header.step, Some(header.step));
            watch.loss_sum = header.loss_sum;
            watch.loss_steps = header.loss_steps;
            watch.skipped_updates = header.skipped_updates;
            (watch.cut_tiles, watch.cut_steps) = (header.cut_tiles, header.cut_steps);
            feed = feed.without(header.skipped, header.unreadable);
        }
        let free_space = prepare::free_views(&config, &session.dataset)?;
        session.engine.limit_memory(memory.device_bytes());
        session.engine.load(state)?;
        let dataset = &session.dataset;
        let size = |&index: &usize| [dataset.images[index].camera.width, dataset.images[index].camera.height];
        let forecast = Forecast::new(dataset.split.train.iter().map(size));
        Ok(Self {
            scene,
            checkpoints: CheckpointClock::start(&config.outputs, last_checkpoint),
            stopwatch: Stopwatch::start(seconds, cpu_seconds),
            rate: Rate::from(seconds),
            forecast,
            pace: Rate::from(seconds),
            predicted_seconds: None,
            plan,
            deadline: None,
            config,
            recorded,
            folder,
            session,
            loader,
            feed,
            coarse: Coarse::new(MemoryPlan::reduced_budget(memory.limit)),
            log,
            memory,
            done,
            watch,
            free_space,
            exported_scene: None,
        })
    }

    /// Runs to the end, or until it is asked to stop.
    ///
    /// # Errors
    /// A loss that is not finite, a device or file system that fails, too many unreadable pictures. The last
    /// checkpoint is intact.
    pub fn train(mut self) -> Result<Outcome, TrainError> {
        self.tell_start();
        while self.done < self.plan.end() {
            if self.is_asked_to_stop() {
                return self.stop();
            }
            self.step()?;
        }
        self.finish()
    }

    fn tell_start(&mut self) {
        let dataset = &self.session.dataset;
        let started = Started {
            device: self.session.engine.describe(),
            step: self.done,
            steps: self.plan.end(),
            train_images: dataset.split.train.len(),
            test_images: dataset.split.test.len(),
            splats: self.watch.splats,
            start: self.recorded.record.start.clone(),
            scene_extent: self.scene.extent,
            memory: self.memory,
            predicted_seconds: self.predicted_seconds,
        };
        (self.session.events)(&Event::Started(started));
    }

    fn is_asked_to_stop(&self) -> bool {
        self.session.stop.load(Ordering::Relaxed)
    }

    /// One step, and everything that is due after it.
    fn step(&mut self) -> Result<(), TrainError> {
        let _span = gausset_prof::span("step");
        let recipe = &self.config.recipe;
        let now = self.plan.scheduled(self.done);
        let view = {
            let _span = gausset_prof::span("next_view");
            let events = &mut *self.session.events;
            let view = self.feed.take(&mut |warning| events(&Event::Warning(warning)))?;
            let reduction = recipe.reduction_at(now, view.camera.width, view.camera.height);
            self.coarse.reduce(view, reduction)
        };
        // Random numbers count the steps of the run, of which several may be one of the schedules.
        let params = recipe.step_params(now, &self.scene).numbered(self.done);
        // A view that will be reduced is no help to a device that looks ahead.
        let next = self.feed.next().filter(|next| {
            recipe.reduction_at(self.plan.scheduled(self.done + 1), next.camera.width, next.camera.height)
                == 1
        });
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
            let it_per_s = self.flush()?;
            if is_report {
                self.report(it_per_s)?;
            }
        }
        // The last step has its checkpoint, export and evaluation in `finish`.
        if is_last {
            return Ok(());
        }
        if is_multiple(self.done, outputs.eval_every) {
            self.evaluate_on_the_way()?;
        }
        let (is_export, is_checkpoint) =
            (is_multiple(self.done, outputs.export_every), self.checkpoints.is_due(self.done));
        if is_export || is_checkpoint {
            let state = self.save()?;
            if is_checkpoint {
                self.checkpoint(&state)?;
            }
            if is_export {
                self.export(state)?;
            }
        }
        Ok(())
    }

    /// Waits for the device, takes in what it tells and passes it on. Gives the rate.
    fn flush(&mut self) -> Result<f64, TrainError> {
        let _span = gausset_prof::span("report");
        let flushed = self.session.engine.flush();
        let report = flushed.map_err(|error| self.engine_error(error))?;
        let events = &mut *self.session.events;
        self.watch.take_in(self.done, &report, &mut |warning| events(&Event::Warning(warning)));
        if report.splats == 0 {
            return Err(self.no_splats());
        }
        let [seconds, _] = self.stopwatch.read();
        let it_per_s = self.rate.count(report.steps as f64, seconds);
        if report.steps > 0 {
            let seconds_left = self.correct_times(&report, seconds);
            let steps = self.plan.end();
            let events = &mut *self.session.events;
            events(&Event::Progress(Progress {
                step: self.done,
                steps,
                loss: report.loss_sum / report.steps as f64,
                splats: report.splats,
                it_per_s,
                seconds_left,
                report,
            }));
        }
        Ok(it_per_s)
    }

    /// Appends a line to `metrics.jsonl`.
    fn report(&mut self, it_per_s: f64) -> Result<(), TrainError> {
        let Some(loss) = self.watch.take_mean_loss() else { return Ok(()) };
        let [seconds, cpu_seconds] = self.stopwatch.read();
        let splats = self.watch.splats;
        self.log.append(&ReportLine { step: self.done, loss, splats, it_per_s, seconds, cpu_seconds })?;
        Ok(())
    }

    /// Saves and ends the call.
    fn stop(mut self) -> Result<Outcome, TrainError> {
        let state = self.save()?;
        self.checkpoint(&state)?;
        self.log.sync()?;
        Ok(self.outcome(End::Stopped, None))
    }

    /// Writes the result.
    fn finish(mut self) -> Result<Outcome, TrainError> {
        let state = self.save()?;
        if self.deadline.take().is_some() {
            // From now on the run is one of so many steps, and can be repeated. If the checkpoint fails, it is done
            // from an earlier one with these decisions.
            self.config.plan = self.plan.clone();
            self.config.time_budget = TimeBudget::None;
            self.write_config()?;
        }
        self.checkpoint(&state)?;
        self.export(state)?;
        self.stopwatch.pause();
        let evaluation = self.evaluate(true)?;
        let trust = match &evaluation {
            Some(report) if report.images > 0 => self.trust()?,
            _ => Trust::default(),
        };
        if evaluation.is_none() && self.is_asked_to_stop() {
            return Ok(self.outcome(End::Stopped, None));
        }
        if let Some(warning) = self.watch.cut_lists(self.config.recipe.max_splats_per_tile, self.done) {
            (self.session.events)(&Event::Warning(warning));
        }
        let mut outcome = self.outcome(End::Finished, evaluation);
        outcome.summary.trust = trust;
        let (finished, skipped) = (outcome.summary.clone(), outcome.skipped.clone());
        self.log.append(&FinishedLine { step: self.done, finished, skipped })?;
        self.log.sync()?;
        (self.session.events)(&Event::Finished(outcome.summary.clone()));
        Ok(outcome)
    }

    fn outcome(&self, end: End, evaluation: Option<EvalReport>) -> Outcome {
        let [seconds, cpu_seconds] = self.stopwatch.read();
        let psnr = evaluation.as_ref().and_then(|report| report.psnr);
        let ssim = evaluation.as_ref().and_then(|report| report.ssim);
        let scores = evaluation.as_ref().map(|report| report.scores).unwrap_or_default();
        let (steps, splats) = (self.done, self.watch.splats);
        let (kind, cut_tiles) = (Summary::KIND.to_owned(), self.watch.cut_tiles);
        let summary = Summary {
            kind,
            steps,
            splats,
            seconds,
            cpu_seconds,
            psnr,
            ssim,
            scores,
            trust: Trust::default(),
            cut_tiles,
        };
        Outcome { end, summary, evaluation, skipped: self.feed.skipped().to_vec() }
    }

    /// The set is empty, or none of it can be drawn.
    fn no_splats(&self) -> TrainError {
        let remedy = match self.config.recipe.strategy() {
            Strategy::Classic => "lower --prune-opacity, raise --prune-scale, or set --opacity-reset-every 0",
            Strategy::Mcmc => "lower the rates (--lr-means, --lr-scales, --lr-opacities)",
        };
        TrainError::NoSplats { step: self.done, remedy, checkpoint: self.checkpoints.last_step }
    }

    /// An error of the device, with what is left of the run.
    fn engine_error(&self, source: EngineError) -> TrainError {
        match source {
            EngineError::NonFiniteLoss { .. } => {
                TrainError::NonFiniteLoss { source, checkpoint: self.checkpoints.last_step }
            }
            EngineError::OutOfMemory { .. } => TrainError::View { source },
            other => other.into(),
        }
    }
}

/// The configuration with absolute paths; where there is no working folder any more, as it is.
fn absolute(config: TrainConfig) -> TrainConfig {
    config.clone().with_absolute_paths().unwrap_or(config)
}

/// Steps between two lines of `metrics.jsonl`.
fn report_every(steps: u64) -> u64 {
    (steps / FEWEST_REPORTS).clamp(1, REPORT_EVERY)
}

/// The configuration with which the run in `folder` goes on when `given` is said on the command line. Open the
/// dataset and the device with it, then call [`Run::resume`].
///
/// # Errors
/// No run there; options that differ from the run's and would change its result.
pub fn resumable_config(folder: &Path, given: &TrainOptions) -> Result<TrainConfig, TrainError> {
    let recorded = summary::read_recorded(folder)?;
    Ok(recorded.resumed_with(given, &config_path(folder))?)
}
