//! Split work gives the same bytes: with bands, chunks and windows, alone and together.

use std::sync::Arc;

use gausset_core::engine::{
    AdamMode, ClassicRule, CorrectionGroup, CorrectionKind, CorrectionRates, DensityRule, Engine,
    EngineError, GradientStatistic, LearningRates, OcclusionQuery, Outputs, RenderOptions, Rendering,
    StepParams, StepReport, TrainState, TrainView,
};
use gausset_core::{Camera, Stage, TargetImage};
use gausset_testkit::RandomScene;

use crate::device::Gpu;
use crate::engine::{GpuEngine, GpuOptions};
use crate::pace::{StageTimes, UnitSize};
use crate::record::{Job, flag};
use crate::split::{DispatchParts, WorkSplit};
use crate::test_device::gpu;
use crate::unit::{render_job, render_unit};

const WIDTH: u32 = 80;
const HEIGHT: u32 = 150;
/// Number of its tile rows.
const ROWS: u32 = 10;

fn engine(gpu: &Gpu) -> GpuEngine {
    GpuEngine::new(gpu, GpuOptions { threads: 1, ..GpuOptions::default() })
}

/// Faint splats over much of the image: each in many tiles, with long lists.
fn state() -> TrainState {
    state_of(&scene())
}

fn state_of(scene: &RandomScene) -> TrainState {
    let mut splats = scene.build().splats;
    splats.log_scales.iter_mut().for_each(|scale| *scale = [0.2, 0.0, -0.3]);
    splats.opacity_logits.iter_mut().for_each(|logit| *logit = -3.0);
    TrainState::new(splats, vec![CorrectionGroup::new(CorrectionKind::Sky, 1)])
}

fn scene() -> RandomScene {
    RandomScene { splats: 500, sh_degree: 2, width: WIDTH, height: HEIGHT, ..RandomScene::default() }
}

fn view(index: u32) -> TrainView {
    let made = scene().build();
    let places = || (0..HEIGHT).flat_map(|y| (0..WIDTH).map(move |x| (x, y)));
    let rgb = places().flat_map(|(x, y)| [x + y, x * y % 97, 40 * index + x].map(|v| v as u8)).collect();
    let mask = Some(places().map(|(x, y)| u8::from((x / 5 + y / 7) % 4 != 0)).collect());
    let target = TargetImage { width: WIDTH, height: HEIGHT, rgb, alpha: None, mask };
    TrainView {
        index,
        downscale: 1,
        name: format!("view {index}").into(),
        camera: made.camera,
        pose: made.pose,
        target: Arc::new(target),
        exposure_row: None,
        vignetting_row: None,
        pose_row: None,
        camera_from_rig: None,
    }
}

fn params(step: u64) -> StepParams {
    let rates = LearningRates {
        means: 2e-3,
        log_scales: 5e-3,
        quats: 1e-3,
        opacity_logits: 2e-2,
        sh_dc: 1e-2,
        sh_rest: 5e-4,
    };
    let render =
        RenderOptions { background: [0.1, 0.4, 0.7], sh_degree: 2, sky: true, ..RenderOptions::default() };
    let sky = Some(CorrectionRates { first: 1e-2, second: 1e-3, decay: 0.0 });
    let mut params = StepParams { sky, ..StepParams::new(step, 7, render, rates) };
    params.adam = AdamMode::Sparse;
    params.statistic = GradientStatistic::Absolute;
    // Including capped lists.
    params.render.max_splats_per_tile = if step == 3 { 100 } else { 0 };
    params
}

/// All results of a training.
type Said = (TrainState, StepReport, Rendering, Vec<f32>);

/// Steps on two views; the later ones use the list properties learned in the first. A rule, a render, queries.
fn train(engine: &mut GpuEngine) -> Result<Said, EngineError> {
    engine.load(state())?;
    for step in 0..5 {
        engine.step(&[view(step as u32 % 2)], &[], &params(step))?;
        if step == 1 {
            engine.flush()?;
        }
    }
    let report = engine.flush()?;
    engine.densify(&DensityRule::Classic(ClassicRule {
        seed: 1,
        step: 5,
        gradient_threshold: 0.0,
        clone_scale_limit: 0.1,
        split_shrink: 1.6,
        prune_opacity: 0.0,
        prune_scale: None,
        prune_screen: None,
        max_splats: 600,
        reorder: true,
    }))?;
    let (shown, options) = (view(0), params(9).render);
    let picture = engine.render(&shown.camera, &shown.pose, &options, Outputs::All)?;
    // Again, with the known properties of its lists.
    let again = engine.render(&shown.camera, &shown.pose, &options, Outputs::All)?;
    assert!(picture == again);
    let query = |i: u32| OcclusionQuery { pixel: [i * 7 % (WIDTH + 5), i * 13 % HEIGHT], depth: 4.0 };
    let queries: Vec<OcclusionQuery> = (0..300).map(query).collect();
    let front = engine.weight_in_front(&shown.camera, &shown.pose, &options, &queries)?;
    Ok((engine.save()?, report, picture, front.unwrap_or_default()))
}

/// How the first view is split.
fn split(engine: &GpuEngine) -> WorkSplit {
    engine.memory.splits.of(Some((0, 1)), ROWS, DispatchParts::default())
}

/// A pace in which every stage takes `parts` parts.
pub(crate) fn slow(parts: f64) -> StageTimes {
    let mut pace = StageTimes::new(true);
    let extent = UnitSize { splats: 1.0, pixels: 1.0 };
    Stage::ALL.into_iter().for_each(|stage| pace.add_measurement(stage, &extent, 1.0, 20.0 * parts));
    pace
}

#[test]
fn work_that_is_taken_apart_gives_the_same_bytes() {
    let Some(gpu) = gpu("work_that_is_taken_apart_gives_the_same_bytes") else { return };
    let mut whole = engine(&gpu);
    let expected = train(&mut whole).expect("a state");
    let entries = expected.1.intersections;
    assert!(entries > 12_288, "{entries}");
    assert!(expected.3.iter().filter(|&&weight| weight > 0.0).count() > 100);
    assert_eq!((split(&whole).bands, split(&whole).chunks), (1, 1));

    let mut bands = engine(&gpu);
    bands.memory.entry_limit = 4096;
    assert!(train(&mut bands).expect("a state") == expected, "bands");
    assert!(split(&bands).bands >= 4, "{:?}", split(&bands));
    assert_eq!(bands.memory.sizes().entries, 4096);

    let mut chunks = engine(&gpu);
    chunks.memory.splits.chunk_entries = 64;
    assert!(train(&mut chunks).expect("a state") == expected, "chunks");
    assert!(split(&chunks).chunks >= 8, "{:?}", split(&chunks));

    let mut windows = engine(&gpu);
    windows.memory.pace = slow(3.0);
    assert!(train(&mut windows).expect("a state") == expected, "windows");
    let counts = windows.memory.counts();
    assert!(counts.submissions > 10 * counts.units, "{counts:?}");

    let mut all = engine(&gpu);
    all.memory.entry_limit = 4096;
    all.memory.splits.chunk_entries = 64;
    all.memory.pace = slow(2.0);
    assert!(train(&mut all).expect("a state") == expected, "all of them");
}

#[test]
fn a_row_of_tiles_with_too_many_entries_is_one_line_with_numbers() {
    let Some(gpu) = gpu("a_row_of_tiles_with_too_many_entries_is_one_line_with_numbers") else { return };
    let mut engine = engine(&gpu);
    engine.memory.entry_limit = 4096;
    let mut state = state_of(&RandomScene { splats: 1500, ..scene() });
    state.splats.log_scales.iter_mut().for_each(|scale| *scale = [3.0; 3]);
    engine.load(state.clone()).expect("a state");
    engine.step(&[view(0)], &[], &params(0)).expect("a step that is under way");
    let failed = engine.flush();
    let Err(EngineError::DeviceLimit { what, needed, limit }) = failed else { panic!("{failed:?}") };
    assert!(
        what.starts_with("view `view 0`: the tile lists") && what.ends_with("of one row of tiles,"),
        "{what}"
    );
    assert_eq!(limit, 4096 * 48);
    assert!(needed > limit);
    assert!(engine.save().expect("saved") == state, "nothing has changed");
}

#[test]
fn tile_lists_make_room_for_renders_and_splats() {
    let Some(gpu) = gpu("tile_lists_make_room_for_renders_and_splats") else { return };
    let [mut ample, mut tight] = [(); 2].map(|()| {
        let mut engine = engine(&gpu);
        engine.load(state()).expect("a state");
        engine.step(&[view(0)], &[], &params(0)).expect("a step");
        engine.flush().expect("flushed");
        engine
    });
    let before = *tight.memory.sizes();
    tight.memory.set_limit(tight.memory.needed_bytes(&before) + (4 << 20));
    let (shown, options) = (view(0), params(9).render);
    let camera = &shown.camera;
    let [fx, fy, cx, cy] = [camera.fx, camera.fy, camera.cx, camera.cy].map(|v| 4.0 * v);
    let large = Camera::new(4 * WIDTH, 4 * HEIGHT, fx, fy, cx, cy).expect("a camera");
    let render = |engine: &mut GpuEngine| engine.render(&large, &shown.pose, &options, Outputs::Color);
    assert!(render(&mut tight).expect("a picture") == render(&mut ample).expect("a picture"));
    let between = *tight.memory.sizes();
    assert!(between.entries < before.entries && ample.memory.sizes().entries > before.entries);
    tight.memory.set_limit(tight.memory.needed_bytes(&between) + (2 << 20));
    for engine in [&mut ample, &mut tight] {
        engine.memory.grow_splats(5000, 5000).expect("room");
        engine.step(&[view(1)], &[], &params(1)).expect("a step");
    }
    let after = tight.memory.sizes();
    assert!(after.splats == 8192 && after.entries < between.entries);
    assert!(tight.memory.needed_bytes(after) <= tight.memory.limit());
    assert!(tight.save().expect("saved") == ample.save().expect("saved"));
}

#[test]
fn a_render_that_the_device_did_not_execute_is_an_error() {
    let Some(gpu) = gpu("a_render_that_the_device_did_not_execute_is_an_error") else { return };
    let mut engine = engine(&gpu);
    engine.load(state()).expect("a state");
    let (shown, options) = (view(0), params(9).render);
    let render = |engine: &mut GpuEngine| {
        engine.render(&shown.camera, &shown.pose, &options, Outputs::Color).map(drop)
    };
    render(&mut engine).expect("a picture");
    // The next status is that of another unit.
    let job = render_job(&engine.state_info(), &shown.camera, &shown.pose, &options).expect("a job");
    let other = Job { unit: 1234, flags: job.flags | flag::LIFTS, ..job };
    engine.memory.submit(&other, None, None, &render_unit(&job, Outputs::Color)).expect("submitted");
    let failed = render(&mut engine).expect_err("another unit");
    assert!(failed.to_string().contains("unit 1234 answered in place of unit"), "{failed}");
}
