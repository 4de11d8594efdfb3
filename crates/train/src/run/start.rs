//! How a run starts, or resumes from a checkpoint.

use std::path::Path;
use std::sync::Arc;

use gausset_core::engine::TrainState;
use gausset_io::atomic::Overwrite;
use gausset_io::dataset::Loader;
use gausset_io::run_folder::{RunFolder, config_path};

use super::advance::{DueWork, RunPhase};
use super::clock::{Rate, Stopwatch};
use super::corrections::{self, Corrections};
use super::dense::{self, DenseStart};
use super::feed::Feed;
use super::forecast::Forecast;
use super::monitor::ReportMonitor;
use super::outputs::{CheckpointHeader, RunOutputs};
use super::requests::RequestQueue;
use super::{Run, Session, TrainError, check_dataset, check_init, prepare};
use crate::config::{RecordedRun, RunRecord, TrainConfig};
use crate::events::Event;
use crate::memory::MemoryPlan;
use crate::warning::RunWarning;

/// What a run starts or resumes with.
struct RunSetup {
    memory: MemoryPlan,
    loader: Arc<Loader>,
    corrections: Corrections,
    state: TrainState,
    /// Header of the checkpoint that the state comes from.
    header: Option<CheckpointHeader>,
}

impl Run {
    /// Prepares a new run in `folder`: creates the initial splats, takes and locks the folder, writes `config.toml`.
    ///
    /// # Errors
    /// The initial splats cannot be created, memory does not suffice, the folder is in use or holds a run (unless it
    /// may be overwritten), the device cannot hold the splats, or the run was asked to stop.
    pub fn start(
        config: TrainConfig,
        folder: &Path,
        overwrite: Overwrite,
        session: Session,
        events: &mut dyn FnMut(Event),
    ) -> Result<Self, TrainError> {
        let dataset = Arc::clone(&session.dataset);
        let config = make_absolute(config);
        // All checks that can fail come before anything is written or removed.
        let mut start = prepare::initial_splats(&config, &dataset)?;
        let memory = prepare::memory_plan(&config, &session, start.splats.len() as u64)?;
        let loader = prepare::loader(&config, &dataset);
        let budget = MemoryPlan::opening_budget(memory.limit);
        let sky = prepare::learns_sky(config.background, &loader);
        let (colours, gains) = corrections::initial_colours(&config.recipe, &loader, budget, None)?;
        let corrections = Corrections::new(&config.recipe, colours, &dataset, sky);
        let parts = (&*loader, &memory, &corrections, &gains);
        let dense = DenseStart::new(&config, parts, &session.stop);
        let side = dense.map_side(&start)?;
        let depths = match side {
            None => None,
            Some(side) => {
                RunFolder::check(&*session.fs, folder, overwrite)?;
                Some(dense.add_to(&mut start, side, events)?)
            }
        };
        let record = RunRecord {
            device_choice: session.device_choice.clone(),
            ..prepare::run_record(&config, &dataset, &session.engine.describe(), &start, colours, side, sky)
        };
        let recorded = RecordedRun { config: config.clone(), record };
        let folder = RunFolder::create(&*session.fs, folder, overwrite)?;
        folder.write_config(&*session.fs, &recorded.to_toml())?;
        folder.write_data_list(&*session.fs, &dataset.data_list())?;
        if let Some(depths) = depths.filter(|_| config.outputs.keep_depth) {
            dense::write_depth_maps(&*session.fs, &folder, &dataset, &depths)?;
        }
        let state = TrainState::new(start.splats, corrections.initial_groups(&gains));
        let begin = RunSetup { memory, loader, corrections, state, header: None };
        Self::assemble(config, recorded.record, folder, session, begin)
    }

    /// Prepares the run in `folder` to resume from its newest checkpoint, or from step 0 if there is none. `config`
    /// comes from [`crate::resumable_config`].
    ///
    /// # Errors
    /// The folder is in use or holds no run, the dataset differs, options would change the result, or a checkpoint does
    /// not belong to this run.
    pub fn resume(
        config: TrainConfig,
        folder: &Path,
        session: Session,
        events: &mut dyn FnMut(Event),
    ) -> Result<Self, TrainError> {
        let folder = RunFolder::open(&*session.fs, folder)?;
        let config_file = config_path(folder.root());
        let recorded = RecordedRun::read(&config_file)?;
        let config = recorded.resumed_with(&make_absolute(config).to_options(), &config_file)?;
        let dataset = Arc::clone(&session.dataset);
        check_dataset(folder.root(), &recorded, &dataset)?;
        check_init(&recorded)?;
        let search = folder.newest_checkpoint(&*session.fs)?;
        for line in search.lines() {
            events(Event::Warning(RunWarning::DamagedCheckpoint(line)));
        }
        let is_changed = config != recorded.config;
        let recorded = RecordedRun { config: config.clone(), ..recorded };
        if is_changed {
            folder.write_config(&*session.fs, &recorded.to_toml())?;
        }
        let loader = prepare::loader(&config, &dataset);
        let corrections =
            Corrections::new(&config.recipe, recorded.record.colours, &dataset, recorded.record.sky);
        let Some(found) = search.found else {
            let warning = RunWarning::NoCheckpoint { folder: folder.root().to_owned() };
            events(Event::Warning(warning));
            let mut start = prepare::initial_splats(&config, &dataset)?;
            let memory = prepare::memory_plan(&config, &session, start.splats.len() as u64)?;
            let (budget, decided) = (MemoryPlan::opening_budget(memory.limit), Some(recorded.record.colours));
            let (_, gains) = corrections::initial_colours(&config.recipe, &loader, budget, decided)?;
            if let Some(side) = recorded.record.stereo_side {
                let parts = (&*loader, &memory, &corrections, &gains);
                let dense = DenseStart::new(&config, parts, &session.stop);
                let depths = dense.add_to(&mut start, side, events)?;
                if config.outputs.keep_depth {
                    dense::write_depth_maps(&*session.fs, &folder, &dataset, &depths)?;
                }
            }
            let state = TrainState::new(start.splats, corrections.initial_groups(&gains));
            let begin = RunSetup { memory, loader, corrections, state, header: None };
            return Self::assemble(config, recorded.record, folder, session, begin);
        };
        let header = CheckpointHeader::read(
            &found.path,
            &found.header,
            found.step,
            &config,
            &recorded.record.fingerprint,
        )?;
        corrections.check_state(&found.path, &found.state, config.recipe.sh_degree)?;
        let memory = prepare::memory_plan(&config, &session, found.state.splats.len() as u64)?;
        let begin = RunSetup { memory, loader, corrections, state: found.state, header: Some(header) };
        Self::assemble(config, recorded.record, folder, session, begin)
    }

    /// Assembles a run and loads its state onto the device.
    fn assemble(
        config: TrainConfig,
        record: RunRecord,
        folder: RunFolder,
        mut session: Session,
        begin: RunSetup,
    ) -> Result<Self, TrainError> {
        let RunSetup { memory, loader, corrections, state, header } = begin;
        let last = header.as_ref().map(|header| header.step);
        let scene = prepare::scene_facts(&record, corrections.colour_rows());
        let outputs = RunOutputs::open(Arc::clone(&session.fs), folder, record, &config.outputs, last)?;
        let seed = config.recipe.seed;
        let cursor = header.as_ref().map(|h| h.cursor).unwrap_or_default();
        let cache_bytes = MemoryPlan::downsampled_budget(memory.limit);
        let mut feed = Feed::new(loader, seed, cursor, cache_bytes);
        let mut watch = ReportMonitor::new(state.splats.len() as u64);
        let [mut seconds, mut cpu_seconds] = [0.0; 2];
        let mut done = 0;
        let mut plan = config.plan.clone();
        if let Some(header) = header {
            plan = header.plan.unwrap_or(plan);
            (seconds, cpu_seconds) = (header.seconds, header.cpu_seconds);
            done = header.step;
            watch.loss_sum = header.loss_sum;
            watch.loss_steps = header.loss_steps;
            watch.changes = header.changes;
            watch.skipped_updates = header.skipped_updates;
            (watch.cut_tiles, watch.cut_steps) = (header.cut_tiles, header.cut_steps);
            feed = feed.with_skipped(header.skipped, header.unreadable);
        }
        let free_space = prepare::free_space_views(&config, &session.dataset)?;
        session.engine.limit_memory(memory.device_bytes());
        session.engine.load(state)?;
        let dataset = &session.dataset;
        let size = |&index: &usize| [dataset.images[index].camera.width, dataset.images[index].camera.height];
        let forecast = Forecast::new(dataset.split.train.iter().map(size));
        Ok(Self {
            scene,
            stopwatch: Stopwatch::start(seconds, cpu_seconds),
            rate: Rate::starting_at(seconds),
            forecast,
            cost_rate: Rate::starting_at(seconds),
            predicted_seconds: None,
            plan,
            deadline: None,
            config,
            session,
            feed,
            corrections,
            outputs,
            memory,
            done,
            monitor: watch,
            free_space,
            exported_splats: None,
            phase: RunPhase::Training(DueWork::default()),
            requests: RequestQueue::default(),
            is_started: false,
            is_paused: false,
        })
    }
}

/// The configuration with absolute paths; unchanged if the working directory no longer exists.
fn make_absolute(config: TrainConfig) -> TrainConfig {
    config.clone().with_absolute_paths().unwrap_or(config)
}
