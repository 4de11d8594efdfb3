//! A view is rendered within the memory limit of the engine, or refused before anything is allocated for its lists.

use std::sync::Arc;

use gausset_core::engine::{
    DensityRule, Engine, EngineError, LearningRates, Outputs, RenderOptions, SceneSize, StepParams,
    TrainState, TrainView,
};
use gausset_core::{Camera, Pose, Splats};
use gausset_cpu::{CpuEngine, CpuOptions};
use gausset_scenes::workload::pattern;

const SPLATS: usize = 2000;
const CAMERA: Camera = Camera {
    projection: gausset_core::Projection::Pinhole,
    width: 320,
    height: 160,
    fx: 300.0,
    fy: 300.0,
    cx: 160.0,
    cy: 80.0,
};
/// Tiles of 16x16 px.
const TILES: u64 = 20 * 10;

/// Splats around the origin, so large that each touches every tile, or so small that it touches one or two.
fn engine(log_scale: f32) -> CpuEngine {
    let mut splats = Splats::zeros(0, SPLATS);
    for i in 0..SPLATS {
        splats.means[i] = [(i % 40) as f32 * 0.02 - 0.4, (i / 40) as f32 * 0.008 - 0.2, 2.0];
        splats.log_scales[i] = [log_scale; 3];
        splats.quats[i] = [1.0, 0.0, 0.0, 0.0];
    }
    let mut engine = CpuEngine::new(CpuOptions { threads: 1, ..CpuOptions::default() }).unwrap();
    engine.load(TrainState::new(splats, Vec::new())).unwrap();
    engine
}

fn step(engine: &mut CpuEngine) -> Result<(), EngineError> {
    let view = TrainView {
        index: 0,
        downscale: 1,
        name: "a.png".into(),
        camera: CAMERA,
        pose: Pose::IDENTITY,
        target: Arc::new(pattern(CAMERA.width, CAMERA.height)),
        exposure_row: None,
        vignetting_row: None,
        pose_row: None,
        camera_from_rig: None,
    };
    let rates = LearningRates {
        means: 0.0,
        log_scales: 0.0,
        quats: 0.0,
        opacity_logits: 0.0,
        sh_dc: 0.0,
        sh_rest: 0.0,
    };
    engine.step(std::slice::from_ref(&view), &[], &StepParams::new(1, 5, RenderOptions::default(), rates))
}

#[test]
fn a_view_with_more_entries_than_fit_is_refused_before_they_are_allocated() {
    const LIMIT: u64 = 16 << 20;
    let mut small = engine(-7.0);
    small.limit_memory(LIMIT);
    step(&mut small).unwrap();
    assert!(small.bytes() as u64 <= LIMIT, "{} bytes", small.bytes());

    let mut large = engine(3.0);
    large.limit_memory(LIMIT);
    let error = step(&mut large).unwrap_err();
    let entries = SPLATS as u64 * TILES;
    let EngineError::OutOfMemory { what, needed, limit } = &error else { panic!("{error}") };
    assert_eq!(*what, format!("view `a.png`: the tile lists, with {entries} entries,"));
    // A list entry (8), a mask (2) and the sums of the gradients (64).
    assert_eq!(*needed, 74 * entries);
    assert!(*limit < LIMIT && needed > limit, "{error}");
    assert!((large.bytes() as u64) < LIMIT, "nothing was made for them: {} bytes", large.bytes());
    assert_eq!(
        error.to_string(),
        format!(
            "view `a.png`: the tile lists, with 400000 entries, would need 28.2 MiB of memory (expected at most {:.1} MiB)",
            *limit as f64 / f64::from(1 << 20)
        )
    );

    // It succeeds with exactly the needed memory.
    let mut large = engine(3.0);
    large.limit_memory(LIMIT + needed - limit);
    step(&mut large).unwrap();
}

#[test]
fn a_picture_that_does_not_fit_is_refused_before_it_is_allocated() {
    let mut engine = engine(-7.0);
    engine.limit_memory(1 << 30);
    let camera = Camera::new(32_768, 32_768, 3e4, 3e4, 16_384.0, 16_384.0).unwrap();
    let error = engine.render(&camera, &Pose::IDENTITY, &RenderOptions::default(), Outputs::All).unwrap_err();
    assert!(error.to_string().starts_with("a render: 32768x32768 px would need 49"), "{error}");
    assert!(engine.bytes() < 10 << 20, "{} bytes", engine.bytes());
    assert!(engine.render(&CAMERA, &Pose::IDENTITY, &RenderOptions::default(), Outputs::All).is_ok());
}

#[test]
fn splats_that_are_only_drawn_take_a_third_of_the_memory_and_look_the_same() {
    let mut whole = engine(-4.0);
    let splats = whole.save().unwrap().splats;
    let mut drawn = CpuEngine::new(CpuOptions { threads: 1, ..CpuOptions::default() }).unwrap();
    drawn.load_splats(splats.clone(), Vec::new()).unwrap();
    assert!(3 * drawn.bytes() <= whole.bytes(), "{} of {} bytes", drawn.bytes(), whole.bytes());
    let picture = |engine: &mut CpuEngine| {
        engine.render(&CAMERA, &Pose::IDENTITY, &RenderOptions::default(), Outputs::All).unwrap()
    };
    assert_eq!(picture(&mut drawn), picture(&mut whole));
    let error = step(&mut drawn).unwrap_err().to_string();
    assert!(error.contains("expected a whole state"), "{error}");
    let error = drawn.densify(&DensityRule::ResetOpacity { max_opacity: 0.1 }).unwrap_err();
    assert!(matches!(error, EngineError::InvalidInput(_)), "{error}");
    assert_eq!(drawn.save().unwrap(), TrainState::new(splats, Vec::new()));
}

#[test]
fn what_is_said_to_be_needed_is_enough_and_grows_evenly() {
    let mut engine = engine(-7.0);
    step(&mut engine).unwrap();
    let size = |splats| SceneSize { splats, sh_degree: 0, pixels: CAMERA.pixels() as u64 };
    let [none, one, all] = [0, 1, SPLATS as u64].map(|splats| engine.memory_needs(&size(splats)));
    assert!(engine.bytes() as u64 <= all.host.total(), "{} bytes, {all:?}", engine.bytes());
    assert_eq!(all.host.state, SPLATS as u64 * TrainState::bytes_per_splat(0));
    assert_eq!(
        all.host.total() - none.host.total(),
        SPLATS as u64 * (one.host.total() - none.host.total()),
        "as many times as much for as many splats"
    );
    assert_eq!((all.device.total(), all.limit), (0, None), "a CPU has no separate memory");
}
