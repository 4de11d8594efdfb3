//! Predicts memory and time of a run without training it.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use gausset_core::engine::{Engine, EngineError, TrainState};
use gausset_io::dataset::Dataset;

use super::budget::Forecast;
use super::corrections::{self, Corrections};
use super::device::{TIMED_VIEWS, measure_step_seconds};
use super::feed::Feed;
use super::{TrainError, prepare};
use crate::config::TrainConfig;
use crate::memory::MemoryPlan;
use crate::views::Cursor;

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
    let splats = prepare::initial_splats(config, dataset)?.splats.len() as u64;
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
    let start = prepare::initial_splats(config, dataset)?;
    let splats = start.splats.len() as u64;
    let memory = MemoryPlan::predict(recipe, dataset, splats, config.max_memory_bytes(), engine);
    let without_time = Prediction { memory, splats, seconds: None };
    if !memory.fits() {
        return Ok(without_time);
    }
    let loader = prepare::loader(config, dataset);
    let sky = prepare::learns_sky(config.background, &loader);
    let budget = MemoryPlan::opening_budget(memory.limit);
    let (colours, gains) = corrections::initial_colours(recipe, &loader, budget, None)?;
    let corrections = Corrections::new(recipe, colours, dataset, sky);
    let record = prepare::run_record(config, dataset, &engine.describe(), &start, colours, None, sky);
    let scene = prepare::scene_facts(&record, corrections.colour_rows());
    let state = TrainState::new(start.splats, corrections.initial_groups(&gains));
    let mut feed = Feed::new(loader, recipe.seed, Cursor::default(), 0);
    engine.limit_memory(memory.device_bytes());
    engine.load(state)?;

    let views = feed.preview(TIMED_VIEWS, recipe, 0, &corrections, stop);
    let seconds = match measure_step_seconds(engine, &views, &recipe.step_params(0, &scene)) {
        Err(EngineError::OutOfMemory { .. }) => None,
        seconds => seconds?,
    };
    engine.load(TrainState::default())?;
    let forecast = Forecast::new(dataset);
    let steps = forecast.remaining_cost(recipe, 0, splats) / forecast.step_cost(recipe, 0, splats);
    Ok(Prediction { seconds: seconds.map(|seconds| steps * seconds), ..without_time })
}
