//! How a run starts, or resumes from a checkpoint of a run with the same data.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use gausset_core::engine::TrainState;
use gausset_io::atomic::{FileSystem, Overwrite};
use gausset_io::dataset::{Dataset, Loader, Sample};
use gausset_io::input;
use gausset_io::run_folder::{RunFolder, config_path, data_list_path};

use super::advance::{DueWork, RunPhase};
use super::budget::Forecast;
use super::clock::Clock;
use super::corrections::{self, Corrections};
use super::dense::{self, DenseStart};
use super::device::{BesideTraining, Device, ReportMonitor};
use super::feed::Feed;
use super::outputs::{CheckpointHeader, RunOutputs};
use super::requests::RequestQueue;
use super::{Run, Session, TrainError, init_file, prepare};
use crate::block::{Block, Blocks};
use crate::config::{ConfigError, RecordedRun, RunRecord, TrainConfig};
use crate::events::Event;
use crate::memory::MemoryPlan;
use crate::warning::RunWarning;

/// Maximum size of a data list: 200,000 images with names of 250 bytes.
const MAX_LIST_BYTES: u64 = 64 << 20;

/// What a run starts or resumes with.
struct RunSetup {
    dataset: Arc<Dataset>,
    fs: Arc<dyn FileSystem>,
    stop: Arc<AtomicBool>,
    device: Device,
    loader: Arc<Loader>,
    corrections: Corrections,
    state: TrainState,
    /// Header of the checkpoint that the state comes from.
    header: Option<CheckpointHeader>,
    /// The block that the run trains, if it trains one.
    block: Option<Block>,
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
        let Session { dataset, engine, device_choice, fs, stop, has_viewer, block } = session;
        // A block is not scored.
        let beside = BesideTraining { has_viewer, has_evaluation: block.is_none() };
        let given = block.as_ref().and_then(|block| block.corrections.as_ref());
        let config = make_absolute(config);
        let normalisation = prepare::normalisation(&dataset);
        let dataset = prepare::run_dataset(dataset, normalisation, block.as_ref());
        // All checks that can fail come before anything is written or removed, and before long work.
        RunFolder::check(&*fs, folder, overwrite)?;
        let mut start = prepare::initial_splats(&config, &dataset, block.as_ref())?;
        let mut device = Device::new(engine, beside, &config, &dataset, start.splats.len() as u64)?;
        let loader = prepare::loader(&config, &dataset);
        let budget = MemoryPlan::opening_budget(device.memory().limit);
        let sky = prepare::learns_sky(config.background, &loader, &stop)?;
        let (colours, gains) =
            corrections::initial_colours(&config.recipe, &loader, budget, None, given, &stop)?;
        let corrections = Corrections::new(&config.recipe, colours, &dataset, sky);
        let (side, dense) = {
            let dense = DenseStart {
                config: &config,
                block: block.as_ref(),
                loader: &loader,
                memory: device.memory(),
                corrections: &corrections,
                gains: &gains,
                has_background: true,
                stop: &stop,
            };
            match dense.map_side(&start, events)? {
                None => (None, None),
                Some(side) => (Some(side), Some(dense.add_to(&mut start, side, events)?)),
            }
        };
        device.replan_memory(&config, &dataset, start.splats.len() as u64)?;
        let background_points = dense.as_ref().map(|dense| dense.background as u64).filter(|&n| n > 0);
        let record = RunRecord {
            device_choice,
            background_points,
            contraction_radius: background_points.and_then(|_| prepare::contraction_radius(&dataset)),
            block: block.as_ref().map(|block| block.label.clone()),
            ..prepare::run_record(&config, &dataset, &device.describe(), &start, colours, side, sky)?
        };
        let recorded = RecordedRun { config: config.clone(), record };
        let folder = RunFolder::create(&*fs, folder, overwrite)?;
        folder.write_config(&*fs, &recorded.to_toml())?;
        folder.write_data_list(&*fs, &dataset.data_list())?;
        if let Some(dense) = dense.filter(|_| config.outputs.keep_depth) {
            dense::write_depth_maps(&*fs, &folder, &dataset, &dense.depths)?;
        }
        let state = TrainState::new(start.splats, corrections.initial_groups(&gains, &dataset, given));
        let setup = RunSetup { dataset, fs, stop, device, loader, corrections, state, header: None, block };
        Self::assemble(config, recorded.record, folder, setup)
    }

    /// Prepares the run in `folder` to resume from its newest checkpoint, or from step 0 if there is none. `config`
    /// comes from [`crate::resumable_config`].
    ///
    /// # Errors
    /// The folder is in use or holds no run, the dataset differs, options would change the result, or a checkpoint cannot
    /// be read or does not belong to this run.
    pub fn resume(
        config: TrainConfig,
        folder: &Path,
        session: Session,
        events: &mut dyn FnMut(Event),
    ) -> Result<Self, TrainError> {
        let Session { dataset, engine, fs, stop, has_viewer, block, .. } = session;
        // A block is not scored.
        let beside = BesideTraining { has_viewer, has_evaluation: block.is_none() };
        let given = block.as_ref().and_then(|block| block.corrections.as_ref());
        let folder = RunFolder::open(&*fs, folder)?;
        let config_file = config_path(folder.root());
        let recorded = RecordedRun::read(&config_file)?;
        let config = recorded.resumed_with(&make_absolute(config).to_options(), &config_file)?;
        check_dataset(folder.root(), &recorded, &dataset)?;
        check_init(&recorded)?;
        check_block(folder.root(), &recorded.record, block.as_ref())?;
        if config.blocks != Blocks::Off {
            let found = config.blocks.to_string();
            return Err(ConfigError::Range {
                option: "blocks",
                expected: "off, of a run in one part",
                found,
            }
            .into());
        }
        let dataset = prepare::run_dataset(dataset, recorded.record.normalisation, block.as_ref());
        let search = folder.newest_checkpoint(&*fs)?;
        for line in search.lines() {
            events(Event::Warning(RunWarning::DamagedCheckpoint(line)));
        }
        let is_changed = config != recorded.config;
        let recorded = RecordedRun { config: config.clone(), ..recorded };
        if is_changed {
            folder.write_config(&*fs, &recorded.to_toml())?;
        }
        let loader = prepare::loader(&config, &dataset);
        let corrections =
            Corrections::new(&config.recipe, recorded.record.colours, &dataset, recorded.record.sky);
        let Some(found) = search.found else {
            let warning = RunWarning::NoCheckpoint { folder: folder.root().to_owned() };
            events(Event::Warning(warning));
            let mut start = prepare::initial_splats(&config, &dataset, block.as_ref())?;
            let mut device = Device::new(engine, beside, &config, &dataset, start.splats.len() as u64)?;
            let budget = MemoryPlan::opening_budget(device.memory().limit);
            let decided = Some(recorded.record.colours);
            let (_, gains) =
                corrections::initial_colours(&config.recipe, &loader, budget, decided, given, &stop)?;
            if let Some(side) = recorded.record.stereo_side {
                let dense = DenseStart {
                    config: &config,
                    block: block.as_ref(),
                    loader: &loader,
                    memory: device.memory(),
                    corrections: &corrections,
                    gains: &gains,
                    has_background: recorded.record.background_points.is_some(),
                    stop: &stop,
                };
                let depths = dense.add_to(&mut start, side, events)?.depths;
                if config.outputs.keep_depth {
                    dense::write_depth_maps(&*fs, &folder, &dataset, &depths)?;
                }
            }
            device.replan_memory(&config, &dataset, start.splats.len() as u64)?;
            let state = TrainState::new(start.splats, corrections.initial_groups(&gains, &dataset, given));
            let setup =
                RunSetup { dataset, fs, stop, device, loader, corrections, state, header: None, block };
            return Self::assemble(config, recorded.record, folder, setup);
        };
        let header = CheckpointHeader::read(
            &found.path,
            &found.header,
            found.step,
            &config,
            &recorded.record.fingerprint,
        )?;
        corrections.check_state(&found.path, &found.state, config.recipe.sh_degree)?;
        let (state, header) = (found.state, Some(header));
        let device = Device::new(engine, beside, &config, &dataset, state.splats.len() as u64)?;
        let setup = RunSetup { dataset, fs, stop, device, loader, corrections, state, header, block };
        Self::assemble(config, recorded.record, folder, setup)
    }

    /// Assembles a run and loads its state onto the device.
    fn assemble(
        config: TrainConfig,
        record: RunRecord,
        folder: RunFolder,
        setup: RunSetup,
    ) -> Result<Self, TrainError> {
        let RunSetup { dataset, fs, stop, mut device, loader, corrections, state, header, block } = setup;
        let last = header.as_ref().map(|header| header.step);
        let scene = prepare::scene_facts(&config.recipe, &record, corrections.colour_rows(), block.as_ref());
        let outputs = RunOutputs::open(fs, folder, record, &config.outputs, last)?;
        let cursor = header.as_ref().map(|header| header.cursor).unwrap_or_default();
        let cache_bytes = MemoryPlan::downsampled_budget(device.memory().limit);
        let mut feed = Feed::new(loader, config.recipe.seed, cursor, cache_bytes);
        feed.reads_all = block.as_ref().is_some_and(Block::reads_all);
        let mut monitor = ReportMonitor::new(state.splats.len() as u64);
        let (mut done, mut plan) = (0, config.plan.clone());
        let (mut seconds, mut step_seconds) = ([0.0; 2], 0.0);
        if let Some(header) = header {
            done = header.step;
            plan = header.plan.unwrap_or(plan);
            seconds = [header.seconds, header.cpu_seconds];
            step_seconds = header.step_seconds.unwrap_or(header.seconds);
            monitor.loss_sum = header.loss_sum;
            monitor.loss_steps = header.loss_steps;
            monitor.changes = header.changes;
            monitor.skipped_updates = header.skipped_updates;
            (monitor.cut_tiles, monitor.cut_steps) = (header.cut_tiles, header.cut_steps);
            feed = feed.with_skipped(header.skipped, header.unreadable);
        }
        let free_space = prepare::free_space_views(&config, &dataset, block.as_ref(), &stop)?;
        device.load(state, monitor)?;
        Ok(Self {
            clock: Clock::start(
                done,
                plan,
                seconds,
                step_seconds,
                Forecast::new(&dataset, &device.describe()),
            ),
            config,
            scene,
            dataset,
            stop,
            feed,
            device,
            outputs,
            corrections,
            photographs: Arc::default(),
            free_space,
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

/// Checks that a dataset, opened with the options of the run in `folder`, is the one of that run.
///
/// # Errors
/// The dataset differs; the error names the first image that differs if the run has recorded the list of its data.
pub fn check_dataset(folder: &Path, recorded: &RecordedRun, dataset: &Dataset) -> Result<(), TrainError> {
    let expected = &recorded.record.fingerprint;
    if dataset.fingerprint.to_string() != *expected {
        let list = input::read_to_string(&data_list_path(folder), MAX_LIST_BYTES).unwrap_or_default();
        return Err(TrainError::DatasetChanged {
            path: dataset.root.clone(),
            what: dataset.difference_from(&list),
            expected: expected.clone(),
            found: dataset.fingerprint.to_string(),
        });
    }
    Ok(())
}

/// Checks that a run resumes as the block that it has begun as.
fn check_block(folder: &Path, record: &RunRecord, block: Option<&Block>) -> Result<(), TrainError> {
    let (begun, now) = (record.block.as_deref(), block.map(|block| &*block.label));
    if begun == now {
        return Ok(());
    }
    let [begun, now] = [begun, now].map(|label| label.unwrap_or("a whole scene").to_owned());
    Err(TrainError::OtherBlock { path: folder.to_owned(), begun, now })
}

/// Checks that the `--init` file, if there is one and it still exists, is the one of the run.
///
/// # Errors
/// The file differs.
pub fn check_init(recorded: &RecordedRun) -> Result<(), TrainError> {
    let (Some(path), Some(expected)) = (&recorded.config.data.init, &recorded.record.init_file) else {
        return Ok(());
    };
    // A missing file is needed at step 0 only, where reading it reports the error.
    match init_file_record(path) {
        Some(found) if found != *expected => {
            Err(TrainError::InitChanged { path: path.clone(), expected: expected.clone(), found })
        }
        _ => Ok(()),
    }
}

/// What a run records about its `--init` file.
pub(super) fn init_file_record(path: &Path) -> Option<String> {
    Sample::from_file(&init_file::file_of(path)).ok().map(|(bytes, sample)| format!("{bytes}-{sample}"))
}
