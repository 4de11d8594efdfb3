//! A run that is trained in blocks: what the whole set decides, the runs of its parts, and its end.
//!
//! ```text
//! start ─▶ coarse run on all images ─▶ block runs, one after the other ─▶ merged splats ─▶ finish
//!   what all images decide    └─ gains, sky ──▲
//! ```
//! The folder is that of an ordinary run: `config.toml` from the start, the result and the evaluation at the end. The
//! parts are ordinary runs in folders of their own, which the caller trains with [`Block`]s.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use gausset_core::Splats;
use gausset_core::engine::{CorrectionGroup, DeviceInfo, Engine, TrainState};
use gausset_io::atomic::{Disk, FileSystem, Overwrite, WriteError};
use gausset_io::dataset::Dataset;
use gausset_io::dataset::init::InitialSplats;
use gausset_io::lock::SharedLock;
use gausset_io::run_folder::{RunFolder, RunFolderError, config_path};
use gausset_io::text;

use super::advance::RunPhase;
use super::budget::Forecast;
use super::clock::Clock;
use super::corrections::{self, Corrections};
use super::device::Device;
use super::feed::Feed;
use super::outputs::{PartsSurvey, RunOutputs, SurveyedParts};
use super::requests::RequestQueue;
use super::summary::FinishedLine;
use super::{Run, Session, TrainError, dense, prepare, start};
use crate::block::{Block, Blocks, GivenCorrections};
use crate::config::{ConfigError, DatasetFacts, RecordedRun, RunRecord, TrainConfig};
use crate::events::{Event, RunEnd, RunOutcome, RunSummary};
use crate::memory::MemoryPlan;
use crate::option_values::{Background, Colours, Exposure, NearPlane, RandomBackground, Up};
use crate::options::TrainOptions;
use crate::plan::StepPlan;
use crate::recipe::SceneFacts;
use crate::views::Cursor;
use crate::warning::{RunWarning, SkippedImage};

/// Visits of each image in the coarse run: enough to learn its gain.
const COARSE_VISITS: u64 = 10;
/// Minimum number of steps of the coarse run.
const MIN_COARSE_STEPS: u64 = 600;
/// The coarse run has 1 / this of the splats, but not fewer than the minimum.
const COARSE_DIVISOR: u64 = 3;
const MIN_COARSE_SPLATS: u64 = 10_000;
/// Longest side of an image of the coarse run, px.
const COARSE_SIDE: u32 = 400;

/// A run that is trained in blocks, in its folder.
pub struct BlockedRun {
    folder: BlockedFolder,
    recorded: RecordedRun,
    dataset: Arc<Dataset>,
    /// Facts of the dataset in its own coordinates.
    facts: DatasetFacts,
}

/// The folder of a run in blocks.
enum BlockedFolder {
    /// Locked, by the process that starts the run, divides it and finishes it.
    Locked(RunFolder),
    /// Shared with other processes that train blocks of it.
    Shared(PathBuf, SharedLock),
}

/// What the coarse run and the runs of all blocks took, together.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Totals {
    /// Steps of the blocks.
    pub steps: u64,
    /// Wall seconds of training.
    pub seconds: f64,
    /// Wall seconds in steps of the blocks.
    pub step_seconds: f64,
    /// CPU seconds of training.
    pub cpu_seconds: f64,
    /// Images that could not be read, once each.
    pub skipped: Vec<SkippedImage>,
}

impl BlockedFolder {
    fn root(&self) -> &Path {
        match self {
            Self::Locked(folder) => folder.root(),
            Self::Shared(path, _) => path,
        }
    }

    /// Locks it for this process.
    fn into_locked(self, fs: &dyn FileSystem) -> Result<RunFolder, TrainError> {
        Ok(match self {
            Self::Locked(folder) => folder,
            Self::Shared(path, lock) => {
                drop(lock);
                RunFolder::open(fs, &path)?
            }
        })
    }
}

impl BlockedRun {
    /// Takes the folder of a new run, decides from all images what no block decides for itself, and writes `config.toml`.
    ///
    /// # Errors
    /// The folder is in use or holds a run (unless it may be overwritten), a file cannot be read or written, or the run was
    /// asked to stop.
    pub fn start(
        config: TrainConfig,
        folder: &Path,
        overwrite: Overwrite,
        dataset: Arc<Dataset>,
        device: &DeviceInfo,
        stop: &AtomicBool,
    ) -> Result<Self, TrainError> {
        let fs: &dyn FileSystem = &Disk;
        RunFolder::check(fs, folder, overwrite)?;
        let facts = DatasetFacts::from_dataset(&dataset);
        let normalisation = prepare::normalisation(&dataset);
        let dataset = prepare::normalised(dataset, normalisation);
        let loader = prepare::loader(&config, &dataset);
        let budget = MemoryPlan::opening_budget(config.max_memory_bytes());
        let sky = prepare::learns_sky(config.background, &loader, stop)?;
        let (colours, _) = corrections::initial_colours(&config.recipe, &loader, budget, None, None, stop)?;
        let none = InitialSplats {
            splats: Splats::with_capacity(config.recipe.sh_degree, 0),
            note: "in blocks".to_owned(),
            is_random: dataset.points.is_empty(),
        };
        let record = prepare::run_record(&config, &dataset, device, &none, colours, None, sky)?;
        let recorded = RecordedRun { config, record };
        let folder = RunFolder::create(fs, folder, overwrite)?;
        folder.write_config(fs, &recorded.to_toml())?;
        folder.write_data_list(fs, &dataset.data_list())?;
        Ok(Self { folder: BlockedFolder::Locked(folder), recorded, dataset, facts })
    }

    /// Opens and locks the folder of such a run. `config` comes from [`crate::resumable_config`].
    ///
    /// # Errors
    /// The folder is in use or holds no such run, or the dataset differs.
    pub fn open(
        config: &TrainConfig,
        folder: &Path,
        dataset: Arc<Dataset>,
        fs: &dyn FileSystem,
    ) -> Result<Self, TrainError> {
        let run = Self::read(config, BlockedFolder::Locked(RunFolder::open(fs, folder)?), dataset)?;
        // Limits and the location of the data may have changed.
        if let BlockedFolder::Locked(folder) = &run.folder {
            folder.write_config(fs, &run.recorded.to_toml())?;
        }
        Ok(run)
    }

    /// As [`Self::open`], for a process that trains one of the blocks while others train others.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_shared(
        config: &TrainConfig,
        folder: &Path,
        dataset: Arc<Dataset>,
    ) -> Result<Self, TrainError> {
        let lock = SharedLock::acquire(folder).map_err(RunFolderError::from)?;
        Self::read(config, BlockedFolder::Shared(folder.to_owned(), lock), dataset)
    }

    fn read(config: &TrainConfig, folder: BlockedFolder, dataset: Arc<Dataset>) -> Result<Self, TrainError> {
        let config_file = config_path(folder.root());
        let recorded = RecordedRun::read(&config_file)?;
        let config = recorded.resumed_with(&config.to_options(), &config_file)?;
        start::check_dataset(folder.root(), &recorded, &dataset)?;
        let facts = DatasetFacts::from_dataset(&dataset);
        let dataset = prepare::normalised(dataset, recorded.record.normalisation);
        Ok(Self { folder, recorded: RecordedRun { config, ..recorded }, dataset, facts })
    }

    /// The folder of the run.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.root()
    }

    /// The dataset, in normalised coordinates.
    #[must_use]
    pub fn dataset(&self) -> &Arc<Dataset> {
        &self.dataset
    }

    /// Configuration and record of the run.
    #[must_use]
    pub fn recorded(&self) -> &RecordedRun {
        &self.recorded
    }

    /// Options of the coarse run on all training images, whose dataset is opened with them.
    #[must_use]
    pub fn coarse_options(&self) -> TrainOptions {
        let config = &self.recorded.config;
        let images = self.dataset.split.train.len() as u64;
        let side = match config.data.max_resolution {
            0 => COARSE_SIDE,
            side => side.min(COARSE_SIDE),
        };
        TrainOptions {
            // At least one visit each: an image that cannot be read is known then.
            steps: Some(
                (COARSE_VISITS * images).min(config.recipe.steps / 2).max(MIN_COARSE_STEPS).max(images),
            ),
            max_resolution: Some(side),
            ..self.part_options()
        }
    }

    /// The configuration of the coarse run, for its opened dataset.
    ///
    /// # Errors
    /// As [`TrainConfig::resolve_part`].
    pub fn coarse_config(&self, dataset: &Dataset) -> Result<TrainConfig, ConfigError> {
        let mut config =
            TrainConfig::resolve_part(self.coarse_options(), Some(DatasetFacts::from_dataset(dataset)))?;
        let most = self.recorded.config.recipe.max_splats;
        config.recipe.max_splats =
            config.recipe.max_splats.min((most / COARSE_DIVISOR).max(MIN_COARSE_SPLATS).min(most));
        Ok(config)
    }

    /// The configuration of a block with this many steps and splats, and this many points to start from. Whatever else
    /// depends on the images is as for the whole set.
    ///
    /// # Errors
    /// As [`TrainConfig::resolve_part`].
    pub fn block_config(&self, steps: u64, max_splats: u64, points: u64) -> Result<TrainConfig, ConfigError> {
        let config = &self.recorded.config;
        let options = TrainOptions {
            steps: Some(steps),
            max_splats: Some(max_splats),
            max_resolution: Some(config.data.max_resolution),
            ..self.part_options()
        };
        TrainConfig::resolve_part(options, Some(DatasetFacts { points: points.max(1), ..self.facts }))
    }

    /// The memory of the run of a block, and the longest side of its depth maps in px; `None`: it has no stereo.
    ///
    /// # Errors
    /// Depth maps that were asked for are not possible.
    pub fn block_memory(
        &self,
        config: &TrainConfig,
        block: &Block,
        engine: &dyn Engine,
    ) -> Result<(MemoryPlan, Option<u32>), TrainError> {
        let normalisation = self.recorded.record.normalisation;
        let dataset = prepare::run_dataset(Arc::clone(&self.dataset), normalisation, Some(block));
        let points = block.start_points(&dataset).min(config.recipe.max_splats);
        let limit = config.max_memory_bytes();
        let memory =
            MemoryPlan::predict(&config.recipe, &dataset, points, limit, engine).without_evaluation();
        Ok((memory, dense::side(config, &dataset, &memory, points)?))
    }

    /// The options that the runs of all parts share: those that were given, and what the whole set has decided.
    fn part_options(&self) -> TrainOptions {
        let RecordedRun { config, record } = &self.recorded;
        let RunRecord { background, sky, colours, random_background, near_plane, .. } = record;
        TrainOptions {
            blocks: Some(Blocks::Off),
            background: Some(if *sky { Background::Sky } else { Background::Colour(*background) }),
            exposure: Some(if *colours == Colours::None { Exposure::Off } else { Exposure::On }),
            random_background: Some(match random_background {
                true => RandomBackground::Always,
                false => RandomBackground::Never,
            }),
            near_plane: Some(NearPlane::Distance(
                config.recipe.near_plane.in_training(config.recipe.near_plane.distance(*near_plane)),
            )),
            up: Some(Up::None),
            eval_every: Some(0),
            export_every: Some(0),
            ..config.given_options(self.facts)
        }
    }

    /// What the coarse run has learnt beside its splats, as blocks are given it.
    #[must_use]
    pub fn given_corrections(&self, groups: &[CorrectionGroup]) -> GivenCorrections {
        self.corrections().to_given(&self.dataset, groups)
    }

    fn corrections(&self) -> Corrections {
        let RecordedRun { config, record } = &self.recorded;
        Corrections::new(&config.recipe, record.colours, &self.dataset, record.sky)
    }

    /// The run after its last step, with the merged splats of its blocks in normalised coordinates and the corrections of
    /// the coarse run. It writes the result and evaluates it like any other.
    ///
    /// # Errors
    /// Memory does not suffice to render the splats.
    pub fn finish(
        self,
        splats: Splats,
        groups: Vec<CorrectionGroup>,
        totals: Totals,
        session: Session,
    ) -> Result<Run, TrainError> {
        let Session { engine, fs, stop, has_viewer, .. } = session;
        let corrections = self.corrections();
        let Self { folder, recorded: RecordedRun { config, record }, dataset, .. } = self;
        let folder = folder.into_locked(&*fs)?;
        let count = splats.len() as u64;
        let mut device = Device::for_rendering(engine, has_viewer, &config, &dataset, count)?;
        let loader = prepare::loader(&config, &dataset);
        let scene = prepare::scene_facts(&config.recipe, &record, corrections.colour_rows(), None);
        // No checkpoint: if the device fails, the run cannot resume by itself.
        let outputs = RunOutputs::open(fs, folder, record, &config.outputs, None)?;
        let Totals { steps, seconds, step_seconds, cpu_seconds, skipped } = totals;
        let unreadable = skipped.len();
        let feed =
            Feed::new(loader, config.recipe.seed, Cursor::default(), 0).with_skipped(skipped, unreadable);
        let mut drawn = splats.clone();
        let sky = Corrections::append_sky(&mut drawn, &groups, &dataset, scene.extent);
        device.load_exported(drawn, groups.clone(), sky)?;
        let forecast = Forecast::new(&dataset, &device.describe());
        let mut clock =
            Clock::start(steps, StepPlan::identity(steps), [seconds, cpu_seconds], step_seconds, forecast);
        clock.pause();
        let state = TrainState { splats, corrections: groups, ..TrainState::default() };
        Ok(Run {
            clock,
            config,
            scene,
            dataset,
            stop,
            feed,
            device,
            outputs,
            corrections,
            photographs: Arc::default(),
            free_space: None,
            phase: RunPhase::Exporting(Box::new(state)),
            requests: RequestQueue::default(),
            is_started: false,
            is_paused: false,
        })
    }

    /// The memory that rendering this many splats takes, and showing them in a viewer if there is one.
    #[must_use]
    pub fn rendering_memory(&self, splats: u64, engine: &dyn Engine, has_viewer: bool) -> MemoryPlan {
        let config = &self.recorded.config;
        let limit = config.max_memory_bytes();
        let plan = MemoryPlan::predict_rendering(&config.recipe, &self.dataset, splats, limit, engine);
        if has_viewer { plan.with_viewer(&self.dataset) } else { plan }
    }

    /// Begins to survey merged splats that come in parts.
    #[must_use]
    pub fn survey(&self) -> PartsSurvey {
        PartsSurvey::new(&self.dataset, self.scene_facts().extent)
    }

    fn scene_facts(&self) -> SceneFacts {
        let RecordedRun { config, record } = &self.recorded;
        prepare::scene_facts(&config.recipe, record, self.corrections().colour_rows(), None)
    }

    /// Ends a run whose merged splats need more memory than there is to be rendered: writes its result, with one part in
    /// memory at a time, and does not score it. `parts` are the splats that the blocks own, in normalised coordinates, as
    /// they were surveyed.
    ///
    /// # Errors
    /// The error of a part, or a file cannot be written.
    pub fn finish_in_parts<E: From<TrainError> + From<WriteError>>(
        self,
        parts: SurveyedParts<impl Iterator<Item = Result<Splats, E>>>,
        groups: &[CorrectionGroup],
        totals: Totals,
        memory: &MemoryPlan,
        events: &mut dyn FnMut(Event),
    ) -> Result<RunOutcome, E> {
        let fs: Arc<dyn FileSystem> = Arc::new(Disk);
        let corrections = self.corrections();
        let RecordedRun { config, record } = self.recorded;
        let folder = self.folder.into_locked(&*fs)?;
        let mut outputs = RunOutputs::open(fs, folder, record, &config.outputs, Some(0))?;
        let Totals { steps, seconds, step_seconds, cpu_seconds, skipped } = totals;
        let (splats, [needed, limit]) = (parts.survey.splats(), memory.shortage().map(text::format_bytes));
        outputs.warn(RunWarning::Note(format!(
            "not scored: rendering {splats} splats needs {needed} of memory ({} is {limit})",
            memory.setting()
        )));
        outputs.take_events().for_each(&mut *events);
        outputs.export_parts(steps, parts, groups, &self.dataset, &corrections, &config.recipe)?;
        let summary = RunSummary {
            steps,
            splats,
            seconds,
            cpu_seconds,
            step_seconds,
            unscored: true,
            ..RunSummary::empty()
        };
        let finished = summary.clone();
        outputs.append_line(&FinishedLine { step: steps, finished, skipped: skipped.clone() })?;
        outputs.sync_log()?;
        outputs.emit(Event::Finished(summary.clone()));
        outputs.take_events().for_each(events);
        Ok(RunOutcome { end: RunEnd::Finished, summary, evaluation: None, skipped })
    }
}
