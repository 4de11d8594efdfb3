//! Prepares a run (initial splats, loader, scene facts, the record of the run), and predicts its memory and time without
//! training it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use gausset_core::Pose;
use gausset_core::constants::NEAR_PLANE;
use gausset_core::engine::{DeviceInfo, Engine, EngineError, TrainState};
use gausset_core::matrix::norm;
use gausset_io::dataset::init::{self, InitOptions};
use gausset_io::dataset::{Dataset, DatasetKind, Loader, LoaderOptions, Normalisation};
use gausset_io::splat::{LoadOptions, ReadLimits, SpzAxes};

use super::budget::Forecast;
use super::corrections::{self, Corrections};
use super::device::{TIMED_VIEWS, measure_step_seconds};
use super::feed::Feed;
use super::{TrainError, init_file, start};
use crate::block::Block;
use crate::config::{RunRecord, TrainConfig, equivalent_views};
use crate::free_space::FreeSpaceViews;
use crate::memory::{MemoryPlan, loader_threads};
use crate::near_plane;
use crate::option_values::{Background, Colours, FreeSpace, NearPlane, RandomBackground};
use crate::recipe::{COOLDOWN, ColourRows, Recipe, SceneFacts};
use crate::up;
use crate::views::Cursor;

/// Number of photographs from which a sky is learnt by default. With fewer, random backgrounds do more against splats
/// that imitate the background (research/experiments.md).
const MIN_SKY_VIEWS: u64 = 40;

/// Images announced to the loader in advance.
pub(super) const LOOKAHEAD: usize = 8;

/// Contraction radius over the scene extent, and the least fraction of the points of the dataset beyond it: without them,
/// only what is invented is there (research/experiments.md).
const CONTRACTION_RADIUS: f64 = 2.0;
const MIN_CONTRACTED_POINTS: f64 = 0.02;

/// The normalisation of a new run on this dataset.
pub(super) fn normalisation(dataset: &Dataset) -> Normalisation {
    let existing = dataset.normalisation;
    if existing == Normalisation::default() { Normalisation::from_dataset(dataset) } else { existing }
}

/// The dataset in the normalised coordinates of a run, in which everything up to the written results takes place.
pub(super) fn normalised(dataset: Arc<Dataset>, by: Normalisation) -> Arc<Dataset> {
    if dataset.normalisation == by {
        return dataset;
    }
    let mut dataset = Arc::unwrap_or_clone(dataset);
    dataset.normalise(by);
    Arc::new(dataset)
}

/// The dataset of a run: normalised, and with the training images of the block that the run trains.
pub(super) fn run_dataset(dataset: Arc<Dataset>, by: Normalisation, block: Option<&Block>) -> Arc<Dataset> {
    let dataset = normalised(dataset, by);
    let Some(block) = block else { return dataset };
    let mut dataset = Arc::unwrap_or_clone(dataset);
    block.limit(&mut dataset);
    Arc::new(dataset)
}

/// The initial splats, with a note on their origin.
pub(super) fn initial_splats(
    config: &TrainConfig,
    dataset: &Dataset,
    block: Option<&Block>,
) -> Result<init::InitialSplats, TrainError> {
    let recipe = &config.recipe;
    let options = InitOptions {
        sh_degree: recipe.sh_degree,
        opacity: recipe.start.opacity as f32,
        scale_factor: recipe.start.scale as f32,
        random_count: recipe.start.random_splats.min(recipe.max_splats) as usize,
        max_splats: usize::try_from(recipe.max_splats).unwrap_or(usize::MAX),
        seed: recipe.seed,
    };
    let start = match &config.data.init {
        Some(path) => {
            let memory_bytes = MemoryPlan::start_budget(config.max_memory_bytes());
            let spz_frame = config.data.spz_frame.map(SpzAxes::from);
            let load = LoadOptions { limits: ReadLimits { memory_bytes }, spz_frame };
            init_file::initial_splats(path, &load, &options, dataset)?
        }
        None => match block.and_then(|block| block.with_initial_points(dataset)) {
            Some(dataset) => init::initial_splats(&dataset, &options),
            None => init::initial_splats(dataset, &options),
        },
    };
    if start.splats.is_empty() {
        let path = config.data.init.as_ref().unwrap_or(&dataset.source).clone();
        return Err(TrainError::EmptyInit { path });
    }
    Ok(start)
}

/// Views for detecting splats in free space, if the recipe uses them and the points provide the evidence.
pub(super) fn free_space_views(
    config: &TrainConfig,
    dataset: &Dataset,
    block: Option<&Block>,
    stop: &AtomicBool,
) -> Result<Option<FreeSpaceViews>, TrainError> {
    if config.recipe.free_space == FreeSpace::Off || dataset.points.is_empty() {
        return Ok(None);
    }
    let tracks = dataset.read_tracks(tracks_budget(config, block))?;
    let views = FreeSpaceViews::new(dataset, tracks, stop);
    if stop.load(Ordering::Relaxed) { Err(TrainError::Stopped) } else { Ok(views) }
}

/// Bytes that tracks may use. What they are depends on it, so a block is given it.
pub(super) fn tracks_budget(config: &TrainConfig, block: Option<&Block>) -> u64 {
    let given = block.and_then(|block| block.memory);
    given.map_or(MemoryPlan::tracks_budget(config.max_memory_bytes()), |given| given.tracks_bytes)
}

/// The near plane of a new run, in scene units: as chosen, or from the points that the images see. `dataset` is
/// normalised.
fn resolve_near_plane(config: &TrainConfig, dataset: &Dataset) -> Result<f64, TrainError> {
    if let NearPlane::Distance(distance) = config.recipe.near_plane {
        return Ok(distance);
    }
    let unit = dataset.normalisation.unit;
    if dataset.points.is_empty() {
        return Ok(unit * NEAR_PLANE);
    }
    let tracks = dataset.read_tracks(MemoryPlan::tracks_budget(config.max_memory_bytes()))?;
    Ok(unit * near_plane::from_points(dataset, &tracks).unwrap_or(NEAR_PLANE))
}

/// Poses of the training views.
pub(super) fn train_poses(dataset: &Dataset) -> Vec<Pose> {
    dataset.split.train.iter().map(|&index| dataset.images[index].pose).collect()
}

/// The record that the run writes about itself.
pub(super) fn run_record(
    config: &TrainConfig,
    dataset: &Dataset,
    device: &DeviceInfo,
    start: &init::InitialSplats,
    colours: Colours,
    stereo_side: Option<u32>,
    sky: bool,
) -> Result<RunRecord, TrainError> {
    Ok(RunRecord {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        device: device.kind.clone(),
        device_name: device.name.clone(),
        device_choice: None,
        fingerprint: dataset.fingerprint.to_string(),
        init_file: config.data.init.as_deref().and_then(start::init_file_record),
        train_images: dataset.split.train.len() as u64,
        test_images: dataset.split.test.len() as u64,
        start: start.note.clone(),
        scene_extent: dataset.scene_extent * dataset.normalisation.unit,
        near_plane: Some(resolve_near_plane(config, dataset)?),
        background: match config.background {
            Background::Colour(colour) => colour,
            _ if sky => [0.0; 3],
            _ => dataset.background,
        },
        sky,
        random_background: match config.recipe.random_background {
            RandomBackground::Auto => start.is_random,
            RandomBackground::Always => true,
            RandomBackground::Never => false,
        },
        colours,
        stereo_side,
        background_points: None,
        contraction_radius: None,
        cooldown: Some(COOLDOWN),
        before_budget: None,
        block: None,
        offset: dataset.offset,
        normalisation: dataset.normalisation,
        up_rotation: up::rotation_of(config.up, dataset),
    })
}

/// Whether a sky is learnt: by default if there are enough photographs and none has its background cut out.
///
/// # Errors
/// `stop` is set meanwhile.
pub(super) fn learns_sky(
    background: Background,
    loader: &Loader,
    stop: &AtomicBool,
) -> Result<bool, TrainError> {
    let dataset = loader.dataset();
    let train = &dataset.split.train;
    let has_alpha = |index: usize| match stop.load(Ordering::Relaxed) {
        true => Err(TrainError::Stopped),
        false => Ok(loader.get(index).ok().map(|picture| picture.alpha.is_some())),
    };
    let is_cut_out = || {
        let first = train.iter().find_map(|&index| has_alpha(index).transpose());
        if first.transpose()?.unwrap_or(true) {
            return Ok(true);
        }
        // An alpha channel may be opaque everywhere, which only decoding tells.
        let with_alpha: Vec<usize> =
            train.iter().copied().filter(|&index| dataset.images[index].has_alpha_channel).collect();
        for (at, &index) in with_alpha.iter().enumerate() {
            loader.prefetch(&with_alpha[at..with_alpha.len().min(at + LOOKAHEAD)]);
            if has_alpha(index)? == Some(true) {
                return Ok(true);
            }
        }
        Ok(false)
    };
    match background {
        Background::Auto
            if dataset.kind == DatasetKind::Blender || equivalent_views(dataset) < MIN_SKY_VIEWS =>
        {
            Ok(false)
        }
        Background::Auto => is_cut_out().map(|is_cut_out| !is_cut_out),
        Background::Sky => Ok(true),
        Background::Colour(_) => Ok(false),
    }
}

/// Facts about the scene that the recipe needs, in normalised coordinates.
pub(super) fn scene_facts(
    recipe: &Recipe,
    record: &RunRecord,
    colours: ColourRows,
    block: Option<&Block>,
) -> SceneFacts {
    let unit = record.normalisation.unit;
    let extent = record.scene_extent / unit;
    SceneFacts {
        extent,
        contraction_radius: record.contraction_radius.map_or(f64::INFINITY, |radius| radius / unit),
        cooldown: record.cooldown.unwrap_or(1.0),
        near_plane: recipe.near_plane.distance(record.near_plane) / unit,
        background: record.background,
        sky: record.sky,
        random_background: record.random_background,
        colours,
        has_given_corrections: block.is_some_and(|block| block.corrections.is_some()),
    }
}

/// The contraction radius for cameras around a subject, in scene units, if there are points far behind it.
pub(super) fn contraction_radius(dataset: &Dataset) -> Option<f64> {
    let radius = CONTRACTION_RADIUS * dataset.scene_extent;
    // In normalised coordinates, the origin is the mean camera.
    let far = dataset.points.iter().filter(|point| norm(point.position) > radius).count();
    let is_used = far > 0 && far as f64 >= MIN_CONTRACTED_POINTS * dataset.points.len() as f64;
    is_used.then_some(radius * dataset.normalisation.unit)
}

/// The loader of the training images, limited to its part of the memory.
pub(super) fn loader(config: &TrainConfig, dataset: &Arc<Dataset>) -> Arc<Loader> {
    let budget = MemoryPlan::image_budget(config.max_memory_bytes());
    let options = LoaderOptions {
        budget_bytes: usize::try_from(budget).unwrap_or(usize::MAX),
        threads: loader_threads(config.threads()),
    };
    Arc::new(Loader::new(Arc::clone(dataset), options))
}

/// Prediction for a run on a device, without the dense points that it may start with.
#[derive(Clone, Copy, Debug)]
pub struct Prediction {
    /// Memory, whether available or not.
    pub memory: MemoryPlan,
    /// Initial number of splats.
    pub splats: u64,
    /// Seconds for all steps, at the speed of the first few; `None` if memory does not suffice.
    pub seconds: Option<f64>,
}

/// Predicts the memory of a run on a device, without the dense points that it may start with.
///
/// # Errors
/// The initial splats cannot be created.
pub fn predict_memory(
    config: &TrainConfig,
    dataset: &Arc<Dataset>,
    engine: &dyn Engine,
) -> Result<MemoryPlan, TrainError> {
    let splats = initial_splats(config, dataset, None)?.splats.len() as u64;
    Ok(MemoryPlan::predict(&config.recipe, dataset, splats, config.max_memory_bytes(), engine))
}

/// Predicts memory and time of a run on a device from a few steps on its first views. Writes nothing.
///
/// # Errors
/// The initial splats cannot be created; the device fails.
pub fn predict_run(
    config: &TrainConfig,
    dataset: &Arc<Dataset>,
    engine: &mut dyn Engine,
    stop: &AtomicBool,
) -> Result<Prediction, TrainError> {
    let recipe = &config.recipe;
    let start = initial_splats(config, dataset, None)?;
    let splats = start.splats.len() as u64;
    let memory = MemoryPlan::predict(recipe, dataset, splats, config.max_memory_bytes(), engine);
    let without_time = Prediction { memory, splats, seconds: None };
    if !memory.fits() {
        return Ok(without_time);
    }
    let loader = loader(config, dataset);
    let sky = learns_sky(config.background, &loader, stop)?;
    let budget = MemoryPlan::opening_budget(memory.limit);
    let (colours, gains) = corrections::initial_colours(recipe, &loader, budget, None, None, stop)?;
    let corrections = Corrections::new(recipe, colours, dataset, sky);
    let record = run_record(config, dataset, &engine.describe(), &start, colours, None, sky)?;
    let scene = scene_facts(recipe, &record, corrections.colour_rows(), None);
    let state = TrainState::new(start.splats, corrections.initial_groups(&gains, dataset, None));
    let mut feed = Feed::new(loader, recipe.seed, Cursor::default(), 0);
    engine.limit_memory(memory.device_bytes());
    engine.load(state)?;

    let views = feed.preview(TIMED_VIEWS, recipe, 0, &corrections, stop);
    let seconds = match measure_step_seconds(engine, &views, &recipe.step_params(0, &scene)) {
        Err(EngineError::OutOfMemory { .. } | EngineError::DeviceLimit { .. }) => None,
        seconds => seconds?,
    };
    engine.load(TrainState::default())?;
    let forecast = Forecast::new(dataset, &engine.describe());
    let steps = forecast.remaining_cost(recipe, 0, splats) / forecast.step_cost(recipe, 0, splats);
    Ok(Prediction { seconds: seconds.map(|seconds| steps * seconds), ..without_time })
}
