//! Time of a training step on any engine: used to choose between a CPU and its integrated GPU.

use std::time::{Duration, Instant};

use gausset_core::engine::{Engine, EngineError, LearningRates, RenderOptions, StepParams, TrainState};

use crate::selftest::scene;

const SPLATS: usize = 20_000;
const WIDTH: u32 = 400;
const HEIGHT: u32 = 300;
/// Steps before timing starts: kernels are compiled, buffers grow.
const WARM_UP: u64 = 2;
/// Steps that are timed together: as many as may be in flight.
const BATCH: u64 = 8;

/// Milliseconds per step on a scene of 20,000 splats and 400x300 px, in the best of the batches that end within
/// `budget`. If one batch takes longer, only one is run. The engine has no state afterwards.
///
/// # Errors
/// Those of the engine.
pub fn step_ms(engine: &mut dyn Engine, budget: Duration) -> Result<f64, EngineError> {
    // Splats of some pixels, as is typical.
    let (state, view) = scene(SPLATS, [WIDTH, HEIGHT], -2.0)?;
    engine.load(state)?;
    let rates = LearningRates {
        means: 1e-6,
        log_scales: 1e-6,
        quats: 1e-6,
        opacity_logits: 1e-6,
        sh_dc: 1e-6,
        sh_rest: 1e-6,
    };
    let options = RenderOptions { sh_degree: 2, ..RenderOptions::default() };
    let steps = |engine: &mut dyn Engine, range: std::ops::Range<u64>| {
        for step in range {
            engine.step(std::slice::from_ref(&view), &[], &StepParams::new(step, 1, options, rates))?;
        }
        engine.flush().map(drop)
    };
    steps(engine, 0..WARM_UP)?;
    let started = Instant::now();
    let (mut best, mut next) = (f64::INFINITY, WARM_UP);
    while best.is_infinite() || started.elapsed() < budget {
        let batch = Instant::now();
        steps(engine, next..next + BATCH)?;
        next += BATCH;
        best = best.min(1e3 * batch.elapsed().as_secs_f64() / BATCH as f64);
    }
    engine.load(TrainState::default())?;
    Ok(best)
}
