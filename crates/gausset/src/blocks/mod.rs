//! Trains a scene in blocks: for sets that one run cannot hold.
//!
//! ```text
//! RUN/                    an ordinary run folder: configuration, and at the end the result and its evaluation
//! RUN/blocks/coarse/      a coarse run on all training images: gains, sky, and where the splats are
//! RUN/blocks/division.json, shared.json      the division, and what all blocks are given
//! RUN/blocks/commands.txt a command for each block, for several machines
//! RUN/blocks/map.png      the coarse splats from above, with cells and cameras
//! RUN/blocks/001/, …      the runs of the blocks, one after the other
//! RUN/blocks/001.json, … the hash of a block's splats
//! RUN/blocks/merged.json  what each block has contributed, and the quality at their borders
//! ```
//! Every part is a run that resumes, and a finished part is not repeated. So the run resumes after an interruption anywhere,
//! and its result has the same bytes.

mod borders;
mod files;
mod map;
mod merge;
mod part;
mod status;
mod survey;

pub(crate) use part::Part;
pub use status::{BlocksStatus, PartStatus};

use std::path::{Path, PathBuf};
use std::sync::Arc;

use gausset_blocks::{
    BlockImages, BlockPlan, BlockSize, Cell, Division, DivisionSource, Ground, MAX_IMAGES, SetSize,
    block_sizes, choose_images, should_be_finer,
};
use gausset_core::Splats;
use gausset_core::engine::{CorrectionGroup, Engine};
use gausset_io::atomic::{Disk, Overwrite};
use gausset_io::dataset::{self, Dataset, ImageEntry, Tracks};
use gausset_io::run_folder::newest_checkpoint;
use gausset_io::text;
use gausset_train::{
    Block, BlockMemory, BlockedRun, Blocks, GivenCorrections, MemoryPlan, RunEnd, RunOutcome, Totals,
    TrainConfig, TrainError, TrainOptions, read_outcome,
};

use crate::training::{RunSettings, Task, Trained, warn_about_dataset, with_absolute_paths};
use crate::{Event, Failure, Host, Stage, profiling};
use files::BlocksFolder;

/// Fewer images than this are too few for a block: it would know its cell from few sides.
const FEW_IMAGES: usize = 30;

/// A job that trains a scene in blocks.
struct BlocksJob<'a, 'h> {
    whole: BlockedRun,
    /// What the coarse run took, and could not read, once it is finished.
    coarse: Totals,
    folder: BlocksFolder,
    settings: RunSettings,
    /// The profile of the whole job, while it is recorded.
    _recording: Option<profiling::Recording>,
    host: &'a mut Host<'h>,
}

/// Trains a new or an interrupted run in blocks to the end, or until the job is asked to stop.
///
/// # Errors
/// Any error of dataset, folder, options or device, and those of the parts.
pub(crate) fn train(task: Task, settings: RunSettings, host: &mut Host<'_>) -> Result<Trained, Failure> {
    if let Task::Resume(config, folder) = &task
        && let Some(outcome) = read_outcome(folder)?
    {
        let dataset = dataset::open(&config.data.path, &config.open_options())?;
        host.stage(Stage::TrainedAlready);
        return Ok(Trained::new(folder.clone(), outcome, &dataset, config.data.allow_missing));
    }
    let (mut job, engine) = match BlocksJob::open(&task, settings, host) {
        Err(failure) if failure.is_stopped() => {
            host.stage(Stage::StoppedBeforeTraining);
            return Ok(Trained::before_start(task.folder().to_owned()));
        }
        opened => opened?,
    };
    match job.prepare(engine)? {
        Prepared::Stopped(place) => Ok(job.stopped(place)),
        Prepared::Divided(divided) => {
            let (division, splats, groups) = *divided;
            job.run(&division, &splats, groups)
        }
    }
}

/// Removes the parts of an earlier run in blocks from the folder of a run that replaces it.
pub(crate) fn clear(run: &Path) -> Result<(), Failure> {
    BlocksFolder::clear(run)
}

/// Begins a new or resumes an interrupted run in blocks, and divides the scene. Any process can then train its blocks
/// ([`train_block`]). Returns the number of blocks; `None` if the job was asked to stop.
///
/// # Errors
/// Any error of dataset, folder, options or device; the run is not one in blocks.
pub fn divide(task: Task, settings: RunSettings, host: &mut Host<'_>) -> Result<Option<usize>, Failure> {
    if !task.is_in_blocks()? {
        return Err(Failure::usage(
            "⟨blocks⟩: not given (expected auto or a number): the scene is not divided",
        ));
    }
    let (mut job, engine) = match BlocksJob::open(&task, settings, host) {
        Err(failure) if failure.is_stopped() => {
            host.stage(Stage::StoppedBeforeTraining);
            return Ok(None);
        }
        opened => opened?,
    };
    Ok(match job.prepare(engine)? {
        Prepared::Stopped(place) => {
            job.stopped(place);
            None
        }
        Prepared::Divided(divided) => {
            let (division, splats, _) = &*divided;
            // The run folder may have moved since it was divided.
            job.folder.write_commands(division, job.whole.folder())?;
            job.folder.write_map(&map::draw(splats, division, job.whole.dataset()))?;
            job.report_division(division);
            Some(division.blocks.len())
        }
    })
}

/// Trains one block (counted from 1) of a divided run, unless it is finished. Processes on several machines that share
/// the folder can each train another block.
///
/// # Errors
/// Any error of dataset, folder or device; there is no such block; another process trains it, or finishes the run.
pub fn train_block(
    run: &Path,
    block: u32,
    given: &TrainOptions,
    settings: RunSettings,
    host: &mut Host<'_>,
) -> Result<Trained, Failure> {
    let task = Task::resume(run.to_owned(), given)?;
    let (run, config) = (task.folder(), task.first_config()?);
    if config.blocks == Blocks::Off {
        let line = format!(
            "{}: not a run in blocks (expected one with ⟨blocks⟩); resume it without ⟨block⟩",
            run.display()
        );
        return Err(Failure::usage(line));
    }
    let dataset = Arc::new(dataset::open(&config.data.path, &config.open_options())?);
    let whole = BlockedRun::open_shared(&config, run, dataset)?;
    let folder = BlocksFolder::of(run);
    let division = folder.read_division(whole.recorded())?.ok_or_else(|| {
        let line = format!("{}: not divided yet; begin with ⟨blocks⟩ and ⟨until = division⟩", run.display());
        Failure::new("division", line)
    })?;
    let blocks = division.blocks.len();
    let index = (block as usize)
        .checked_sub(1)
        .filter(|&index| index < blocks)
        .ok_or_else(|| Failure::usage(format!("⟨block⟩: {block} is out of range (expected 1..{blocks})")))?;
    let given = folder.read_corrections(&division)?;
    let mut job = BlocksJob { whole, coarse: Totals::default(), folder, settings, _recording: None, host };
    let part = job.folder.block(index);
    let outcome = match division.blocks[index].images.is_empty() {
        true => RunOutcome { end: RunEnd::Finished, ..RunOutcome::before_start() },
        false => match job.block_run(&division, index, &given)? {
            Some(outcome) => outcome,
            None => return Ok(job.stopped(format!("in block {block} of {blocks}"))),
        },
    };
    Ok(Trained::new(part, outcome, job.whole.dataset(), config.data.allow_missing))
}

/// A run in blocks before its blocks.
enum Prepared {
    /// The division, and the splats and corrections of the coarse run.
    Divided(Box<(Division, Splats, Vec<CorrectionGroup>)>),
    /// The job was asked to stop; where.
    Stopped(String),
}

impl<'a, 'h> BlocksJob<'a, 'h> {
    /// Begins or resumes a run, and opens its device.
    fn open(
        task: &Task,
        settings: RunSettings,
        host: &'a mut Host<'h>,
    ) -> Result<(Self, Box<dyn Engine>), Failure> {
        let config = task.first_config()?;
        let chosen = task.engine(&config, settings, host)?;
        let recording = settings.profile.then(profiling::start);
        let dataset = Arc::new(dataset::open(&config.data.path, &config.open_options())?);
        let (engine, _) = task.with_enough_memory(chosen, &dataset, settings, host)?;
        warn_about_dataset(&dataset, host);
        let whole = match task {
            Task::New(options, folder, overwrite) => {
                BlocksFolder::check(folder)?;
                let config = with_absolute_paths(TrainConfig::resolve_for(options, &dataset)?)?;
                check_least_memory(&config, &dataset, &*engine)?;
                let (device, stop) = (engine.describe(), host.stop());
                let whole = BlockedRun::start(config, folder, *overwrite, dataset, &device, stop)?;
                if *overwrite == Overwrite::Replace {
                    BlocksFolder::clear(folder)?;
                }
                whole
            }
            Task::Resume(config, folder) => BlockedRun::open(config, folder, dataset, &Disk)?,
        };
        host.report(Event::RunFolder(whole.folder().to_owned()));
        let folder = BlocksFolder::claim(whole.folder())?;
        let coarse = Totals::default();
        Ok((Self { whole, coarse, folder, settings, _recording: recording, host }, engine))
    }

    /// Trains the coarse run and divides the scene, as far as neither is done.
    fn prepare(&mut self, mut engine: Box<dyn Engine>) -> Result<Prepared, Failure> {
        let Some((splats, groups)) = self.coarse_run()? else {
            return Ok(Prepared::Stopped("in the coarse run".to_owned()));
        };
        if let Some(division) = self.folder.read_division(self.whole.recorded())? {
            return Ok(Prepared::Divided(Box::new((division, splats, groups))));
        }
        let given = self.whole.given_corrections(&groups);
        let source = self.folder.write_corrections(self.whole.recorded(), &given)?;
        match self.divide(&splats, source, &mut *engine) {
            Err(failure) if failure.is_stopped() => Ok(Prepared::Stopped("before the division".to_owned())),
            division => {
                let division = division?;
                self.folder.write_commands(&division, self.whole.folder())?;
                self.folder.write_map(&map::draw(&splats, &division, self.whole.dataset()))?;
                self.folder.write_division(&division)?;
                Ok(Prepared::Divided(Box::new((division, splats, groups))))
            }
        }
    }

    /// Trains the blocks, merges them and finishes the run.
    fn run(
        mut self,
        division: &Division,
        coarse: &Splats,
        groups: Vec<CorrectionGroup>,
    ) -> Result<Trained, Failure> {
        self.report_division(division);
        let given = self.folder.read_corrections(division)?;
        let mut outcomes = Vec::new();
        for index in 0..division.blocks.len() {
            if division.blocks[index].images.is_empty() {
                outcomes.push(None);
                continue;
            }
            match self.block_run(division, index, &given)? {
                Some(outcome) => outcomes.push(Some(outcome)),
                None => {
                    let place = format!("in block {} of {}", index + 1, division.blocks.len());
                    return Ok(self.stopped(place));
                }
            }
        }
        self.finish(division, &outcomes, coarse, groups)
    }

    /// Trains the coarse run on all training images, unless it is finished. Returns its splats in normalised coordinates,
    /// and its corrections; `None` if the job was asked to stop.
    fn coarse_run(&mut self) -> Result<Option<(Splats, Vec<CorrectionGroup>)>, Failure> {
        let folder = self.folder.coarse();
        let options = TrainConfig::resolve_part(self.whole.coarse_options(), None)?.open_options();
        let data = &self.whole.recorded().config.data.path;
        let dataset = Arc::new(dataset::open(data, &options)?);
        let config = self.whole.coarse_config(&dataset)?;
        let split = &self.whole.dataset().split.train;
        let images =
            split.iter().map(|&index| Arc::clone(&self.whole.dataset().images[index].name)).collect();
        let label = "all images, coarsely".to_owned();
        let block = Block { label, images, points: None, corrections: None, memory: None };
        self.host.stage(Stage::CoarseRun { images: block.images.len(), steps: config.recipe.steps });
        let Some(outcome) = self.part_run(&folder, config, dataset, block)? else { return Ok(None) };
        let (steps, seconds) = (outcome.summary.steps, outcome.summary.seconds);
        let (cpu_seconds, skipped) = (outcome.summary.cpu_seconds, outcome.skipped);
        self.coarse = Totals { seconds, cpu_seconds, skipped, ..Totals::default() };
        let search = newest_checkpoint(&Disk, &folder).map_err(TrainError::from)?;
        let newest = search.found.as_ref().map_or("none".to_owned(), |found| found.step.to_string());
        match search.found.filter(|found| found.step == steps) {
            Some(found) => Ok(Some((found.state.splats, found.state.corrections))),
            None => {
                let damaged: String = search.damaged.iter().map(|(_, error)| format!("; {error}")).collect();
                let line = format!(
                    "{}: checkpoints: that of the last step is missing (expected step {steps}, found {newest}){damaged}; \
                     remove this folder and resume the run",
                    folder.display()
                );
                Err(Failure::new("checkpoint", line))
            }
        }
    }

    /// Divides the set by the splats of the coarse run.
    fn divide(
        &mut self,
        coarse: &Splats,
        source: DivisionSource,
        engine: &mut dyn Engine,
    ) -> Result<Division, Failure> {
        let recorded = self.whole.recorded();
        let (config, record) = (&recorded.config, &recorded.record);
        let dataset = self.whole.dataset();
        // What the coarse run could not read is in no block.
        let is_readable =
            |image: &&ImageEntry| self.coarse.skipped.iter().all(|skipped| *skipped.name != *image.name);
        let train = dataset.split.train.iter().map(|&index| &dataset.images[index]);
        let train: Vec<&ImageEntry> = train.filter(is_readable).collect();
        let centres: Vec<[f64; 3]> = train.iter().map(|image| image.pose.centre()).collect();
        let ground = Ground::new(&record.up_rotation, &centres);
        let places: Vec<[f64; 2]> = coarse.means.iter().map(|&mean| ground.place(mean)).collect();
        let cameras: Vec<[f64; 2]> = centres.iter().map(|&centre| ground.place_of(centre)).collect();
        let groups: Vec<Option<u32>> = train.iter().map(|image| image.frame).collect();
        let (images, splats) = (train.len() as u64, config.recipe.max_splats);
        let set = SetSize { images, steps: config.recipe.steps, splats };
        let limit = config.max_memory_bytes();
        let fitting = MemoryPlan::predict(&config.recipe, dataset, 0, limit, engine).max_fitting_splats();
        let fitting = fitting.unwrap_or(0);
        let mut count = match config.blocks {
            Blocks::Count(count) => count,
            Blocks::Auto | Blocks::Off => {
                let by_images = images.div_ceil(MAX_IMAGES as u64);
                splats.div_ceil(fitting.max(1)).max(by_images).clamp(1, MAX_AUTOMATIC) as u32
            }
        };
        loop {
            let cells = gausset_blocks::divide(&places, count);
            let shares = survey::shares(&train, record, coarse, &places, &cells, engine, self.host)?;
            let chosen = choose_images(&shares, &cameras, &groups, &cells);
            let inside = |cell: &Cell| places.iter().filter(|&&place| cell.contains(place)).count();
            let coarse: Vec<u64> = cells.iter().map(|cell| inside(cell) as u64).collect();
            let sizes = block_sizes(set, &coarse, &shares, &chosen);
            let finer = count + (count / 4).max(1);
            let should_be_finer = sizes.iter().any(|size| size.splats > fitting)
                || should_be_finer(&chosen, finer as usize, train.len());
            let can_be_more = u64::from(count) < MAX_AUTOMATIC && cells.len() == count as usize;
            if config.blocks != Blocks::Auto || !should_be_finer || !can_be_more {
                let names: Vec<&str> = train.iter().map(|image| &*image.name).collect();
                let (blocks, unused) = plans(&cells, &sizes, &chosen, &names);
                let tracks_bytes = MemoryPlan::tracks_budget(limit).min(dataset.tracks_bytes());
                let division = Division::new(source, ground, tracks_bytes, blocks, unused);
                return self.plan_memory(division, engine);
            }
            count = finer;
        }
    }

    /// The division with what depends on the memory of this machine. Refuses one with a block that does not fit into it.
    fn plan_memory(&self, division: Division, engine: &dyn Engine) -> Result<Division, Failure> {
        let tracks = self.whole.dataset().read_tracks(division.tracks_bytes)?;
        let mut blocks = division.blocks.clone();
        for (index, plan) in blocks.iter_mut().enumerate().filter(|(_, plan)| !plan.images.is_empty()) {
            let (config, block) = self.block(&division, index, &tracks, None)?;
            let (memory, stereo_side) = self.whole.block_memory(&config, &block, engine)?;
            if !memory.fits() {
                return Err(too_large_blocks(division.blocks.len() as u64, &memory));
            }
            plan.stereo_side = stereo_side;
        }
        let Division { source, ground, tracks_bytes, unused, .. } = division;
        Ok(Division::new(source, ground, tracks_bytes, blocks, unused))
    }

    /// Reports what is worth knowing about a division.
    fn report_division(&mut self, division: &Division) {
        let blocks = &division.blocks;
        self.host.stage(Stage::Divided { images: blocks.iter().map(|block| block.images.len()).collect() });
        if let Blocks::Count(asked) = self.whole.recorded().config.blocks
            && asked as usize != blocks.len()
        {
            let line = format!("{} blocks, because more would be empty (asked for {asked})", blocks.len());
            self.host.warn(TOPIC, line);
        }
        let few: Vec<String> = (1..)
            .zip(blocks)
            .filter(|(_, block)| (1..FEW_IMAGES).contains(&block.images.len()))
            .map(|(n, _)| n.to_string())
            .collect();
        if !few.is_empty() && blocks.len() > 1 {
            let line = format!(
                "blocks with fewer than {FEW_IMAGES} images: {}; fewer blocks would look better",
                few.join(", ")
            );
            self.host.warn(TOPIC, line);
        }
        let empty = blocks.iter().filter(|block| block.images.is_empty()).count();
        if empty > 0 {
            let line = format!(
                "{empty} without images, where the coarse splats stay; fewer blocks would look better"
            );
            self.host.warn(TOPIC, line);
        }
        let full = (1..).zip(blocks).filter(|(_, block)| block.left_out > 0);
        let full: Vec<String> =
            full.map(|(number, block)| format!("{} of block {number}", block.left_out)).collect();
        if !full.is_empty() {
            let line = format!(
                "{MAX_IMAGES} images at most, those that show most of the cell; left out: {}",
                full.join(", ")
            );
            self.host.warn(TOPIC, line);
        }
        if let Some(first) = division.unused.first() {
            let line = format!(
                "{} training images are in no block, as they show nothing of the scene, or less than others; the first: \
                 {first}",
                division.unused.len()
            );
            self.host.warn(TOPIC, line);
        }
    }

    /// Trains a block, unless it is finished. `None` if the job was asked to stop.
    fn block_run(
        &mut self,
        division: &Division,
        index: usize,
        given: &GivenCorrections,
    ) -> Result<Option<RunOutcome>, Failure> {
        let (plan, folder) = (&division.blocks[index], self.folder.block(index));
        let was_finished = Part::outcome(&folder)?.is_some();
        let limit = self.whole.recorded().config.max_memory_bytes();
        if !was_finished && MemoryPlan::tracks_budget(limit) < division.tracks_bytes {
            let needed = MemoryPlan::limit_for_tracks(division.tracks_bytes);
            let [needed, limit] = [needed, limit].map(text::format_bytes);
            let line = format!(
                "⟨max-memory⟩: the blocks of this division need {needed} for the tracks of the images (expected at most \
                 {limit}); raise it"
            );
            return Err(Failure::new("memory", line));
        }
        let dataset = Arc::clone(self.whole.dataset());
        let tracks = dataset.read_tracks(division.tracks_bytes)?;
        let (config, block) = self.block(division, index, &tracks, Some(given.clone()))?;
        self.host.stage(Stage::BlockRun {
            block: index + 1,
            blocks: division.blocks.len(),
            images: plan.images.len(),
            steps: plan.steps,
            later_steps: division.blocks[index + 1..].iter().map(|block| block.steps).sum(),
        });
        let outcome = self.part_run(&folder, config, dataset, block)?;
        if outcome.is_some() {
            if !was_finished || !self.folder.is_sealed(index) {
                self.folder.seal(index)?;
            }
            // What is merged stands in its `splats.ply`.
            files::remove_checkpoints(&folder)?;
        }
        Ok(outcome)
    }

    /// The configuration of a block's run, and what it is given.
    fn block(
        &self,
        division: &Division,
        index: usize,
        tracks: &Tracks,
        corrections: Option<GivenCorrections>,
    ) -> Result<(TrainConfig, Block), Failure> {
        let (plan, dataset) = (&division.blocks[index], self.whole.dataset());
        let memory = BlockMemory { tracks_bytes: division.tracks_bytes, stereo_side: plan.stereo_side };
        let block = Block {
            label: division.label(index),
            points: Some(initial_points(dataset, division, plan, tracks)),
            images: plan.images.iter().map(|name| Arc::from(name.as_str())).collect(),
            corrections,
            memory: Some(memory),
        };
        let points = block.start_points(dataset);
        Ok((self.whole.block_config(plan.steps, plan.max_splats, points)?, block))
    }

    /// Trains a part in its folder: begins, resumes, or returns the outcome of a finished one. `None` if the job was asked
    /// to stop.
    fn part_run(
        &mut self,
        folder: &Path,
        config: TrainConfig,
        dataset: Arc<Dataset>,
        block: Block,
    ) -> Result<Option<RunOutcome>, Failure> {
        // A profile is of the whole job.
        let settings = RunSettings { report: false, profile: false, ..self.settings };
        let record = &self.whole.recorded().record;
        let kind = (record.device.clone(), record.device_name.clone());
        let outer = &mut *self.host;
        let stop = outer.stop();
        let mut forward = |event| {
            // The run that the user knows is the whole one.
            if !matches!(event, Event::RunFolder(_) | Event::Stage(Stage::TrainingStopped { .. })) {
                outer.report(event);
            }
        };
        let mut host = Host::new(stop, &mut forward);
        let part = Part { folder, config, dataset, block, device: (&kind.0, &kind.1) };
        let trained = part.train(settings, &mut host)?;
        Ok(trained.filter(|outcome| outcome.end == RunEnd::Finished))
    }

    /// The result of a job that was asked to stop.
    fn stopped(self, place: String) -> Trained {
        let run: PathBuf = self.whole.folder().to_owned();
        self.host.stage(Stage::BlocksStopped { place, run: run.clone() });
        Trained::before_start(run)
    }
}

/// The blocks of a division, and the names of the images that are in none.
fn plans(
    cells: &[Cell],
    sizes: &[BlockSize],
    chosen: &[BlockImages],
    names: &[&str],
) -> (Vec<BlockPlan>, Vec<String>) {
    let name = |image: usize| names[image].to_owned();
    let plan = |((cell, size), chosen): ((&Cell, &BlockSize), &BlockImages)| BlockPlan {
        cell: *cell,
        steps: size.steps,
        max_splats: size.splats,
        stereo_side: None,
        left_out: chosen.left_out as u64,
        images: chosen.images.iter().map(|&image| name(image)).collect(),
    };
    let is_used = |image: &usize| chosen.iter().any(|block| block.images.binary_search(image).is_ok());
    let unused = (0..names.len()).filter(|image| !is_used(image)).map(name).collect();
    (cells.iter().zip(sizes).zip(chosen).map(plan).collect(), unused)
}

/// Which points of the dataset a block starts with: those that its images see or, if that is unknown, those in and next to
/// its cell.
fn initial_points(dataset: &Dataset, division: &Division, plan: &BlockPlan, tracks: &Tracks) -> Vec<bool> {
    if tracks.is_empty() {
        let is_near = |position| plan.cell.is_near(division.ground.place_of(position));
        return dataset.points.iter().map(|point| is_near(point.position)).collect();
    }
    let mut is_seen = vec![false; dataset.points.len()];
    for (image, entry) in dataset.images.iter().enumerate() {
        if plan.images.binary_search_by(|name| name.as_str().cmp(&entry.name)).is_ok() {
            tracks.points_of(image).iter().for_each(|&point| is_seen[point as usize] = true);
        }
    }
    is_seen
}

/// Refuses a new run whose blocks would not fit if all were equal and had nothing in common, before the coarse run.
fn check_least_memory(config: &TrainConfig, dataset: &Dataset, engine: &dyn Engine) -> Result<(), Failure> {
    let Blocks::Count(count) = config.blocks else { return Ok(()) };
    let recipe = config.least_block();
    let memory = MemoryPlan::predict(&recipe, dataset, 0, config.max_memory_bytes(), engine);
    let memory = memory.without_evaluation();
    if memory.fits() { Ok(()) } else { Err(too_large_blocks(u64::from(count), &memory)) }
}

/// The error for a division with a block of this size that does not fit.
fn too_large_blocks(count: u64, memory: &MemoryPlan) -> Failure {
    let [needed, limit] = memory.shortage().map(text::format_bytes);
    let enough = memory.max_fitting_splats().map(|fitting| (count * memory.splat_count).div_ceil(fitting));
    let remedy = enough.map_or(String::new(), |enough| format!("take at least {enough} blocks, or "));
    let line = format!(
        "⟨blocks⟩: {count}: a block needs {needed} of memory for {} splats (expected at most {limit}); {remedy}raise {}",
        memory.splat_count,
        memory.setting()
    );
    Failure::new("memory", line)
}

/// Topic of warnings about a division.
const TOPIC: &str = "the blocks";
/// Maximum number of blocks that are chosen automatically.
const MAX_AUTOMATIC: u64 = 1_000;
