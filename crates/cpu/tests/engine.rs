//! Counts of the engine's work, and its answers after a failed step.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use gausset_core::engine::{
    Engine, EngineError, GradientStatistic, LearningRates, OcclusionQuery, Outputs, RenderOptions,
    StepParams, StepWork, TrainState, TrainView,
};
use gausset_core::{Camera, Pose, Splats};
use gausset_cpu::{CpuEngine, CpuOptions};
use gausset_scenes::workload::pattern;

/// Profile counters are global to the process: these tests run one at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

const STILL: LearningRates =
    LearningRates { means: 0.0, log_scales: 0.0, quats: 0.0, opacity_logits: 0.0, sh_dc: 0.0, sh_rest: 0.0 };
const CAMERA: Camera = Camera {
    projection: gausset_core::Projection::Pinhole,
    width: 40,
    height: 24,
    fx: 30.0,
    fy: 30.0,
    cx: 20.0,
    cy: 12.0,
};

fn view() -> TrainView {
    TrainView {
        index: 0,
        downscale: 1,
        name: "view".into(),
        camera: CAMERA,
        pose: Pose::IDENTITY,
        target: Arc::new(pattern(CAMERA.width, CAMERA.height)),
        exposure_row: None,
        vignetting_row: None,
        pose_row: None,
        camera_from_rig: None,
    }
}

/// Small splats: a number of them per position, with an opacity.
fn splats(groups: &[(usize, [f32; 3], f32)]) -> Splats {
    let all: Vec<([f32; 3], f32)> =
        groups.iter().flat_map(|&(count, mean, logit)| std::iter::repeat_n((mean, logit), count)).collect();
    let mut splats = Splats::zeros(0, all.len());
    for (i, (mean, logit)) in all.into_iter().enumerate() {
        splats.means[i] = mean;
        splats.log_scales[i] = [-3.0; 3];
        splats.quats[i] = [1.0, 0.0, 0.0, 0.0];
        splats.opacity_logits[i] = logit;
    }
    splats
}

fn engine(splats: Splats) -> CpuEngine {
    let mut engine = CpuEngine::new(CpuOptions { threads: 2, ..CpuOptions::default() }).unwrap();
    engine.load(TrainState::new(splats, Vec::new())).unwrap();
    engine
}

#[test]
fn every_splat_is_drawn_or_has_the_reason_that_it_has() {
    let _alone = alone();
    let splats = splats(&[
        (100, [0.0, 0.0, 5.0], 2.0),
        (30, [0.0, 0.0, -5.0], 2.0),
        (20, [0.0, 0.0, 5.0], -8.0),
        (25, [100.0, 0.0, 5.0], 2.0),
    ]);
    let count = |dropout: f32| {
        let mut engine = engine(splats.clone());
        gausset_prof::set_enabled(true);
        gausset_prof::reset();
        let params = StepParams::new(0, 5, RenderOptions::default(), STILL);
        engine.step(&[view()], &[], &StepParams { dropout, ..params }).unwrap();
        gausset_prof::set_enabled(false);
        let profile = gausset_prof::snapshot();
        let names = [
            "splats",
            "visible",
            "left out at random",
            "culled: behind the camera",
            "culled: too faint",
            "culled: outside the picture",
        ];
        names.map(|name| profile.counter(name).unwrap_or_else(|| panic!("{name}")).last)
    };
    assert_eq!(count(0.0), [175.0, 100.0, 0.0, 30.0, 20.0, 25.0]);
    // Half of the visible splats are left out, and none of the others.
    let [all, visible, left_out, behind, faint, outside] = count(0.5);
    assert_eq!([all, behind, faint, outside], [175.0, 30.0, 20.0, 25.0]);
    assert_eq!(visible + left_out, 100.0);
    // Five standard deviations of a hundred coins.
    assert!((left_out - 50.0).abs() < 25.0, "{left_out}");
}

#[test]
fn tiles_that_a_cap_cuts_are_counted_in_steps_and_pictures() {
    let _alone = alone();
    // All splats project to one point, the corner of four of the 3x2 tiles.
    let mut engine = engine(splats(&[(10, [-4.0 / 6.0, 4.0 / 6.0, 5.0], 0.0)]));
    for (cap, tiles) in [(0, 0), (10, 0), (9, 4), (1, 4)] {
        let render = RenderOptions { max_splats_per_tile: cap, ..RenderOptions::default() };
        for step in 0..3 {
            engine.step(&[view()], &[], &StepParams::new(step, 5, render, STILL)).unwrap();
        }
        let report = engine.flush().unwrap();
        let steps = if tiles > 0 { 3 } else { 0 };
        assert_eq!((report.cap_hits, report.capped_steps), (3 * tiles, steps), "cap {cap}");
        assert_eq!(
            engine.render(&CAMERA, &Pose::IDENTITY, &render, Outputs::All).unwrap().capped_tiles,
            tiles,
            "cap {cap}"
        );
        // Counts are reported once.
        assert_eq!(engine.flush().unwrap().cap_hits, 0);
    }
}

#[test]
fn after_a_step_that_failed_nothing_is_rendered_until_a_state_is_loaded() {
    let _alone = alone();
    let splats = splats(&[(10, [0.0, 0.0, 5.0], 2.0)]);
    let mut engine = engine(splats.clone());
    let options = RenderOptions::default();
    let render = |engine: &mut CpuEngine| engine.render(&CAMERA, &Pose::IDENTITY, &options, Outputs::All);
    let picture = render(&mut engine).unwrap();
    let nothing = RenderOptions { background: [f32::NAN; 3], ..options };
    // The error is returned by the next report, not at once.
    engine.step(&[view()], &[], &StepParams::new(4, 5, nothing, STILL)).unwrap();
    assert!(matches!(render(&mut engine), Err(EngineError::NonFiniteLoss { step: 4, .. })));
    assert!(matches!(engine.flush(), Err(EngineError::NonFiniteLoss { step: 4, .. })));
    engine.load(TrainState::new(splats, Vec::new())).unwrap();
    assert_eq!(render(&mut engine).unwrap(), picture);
}

#[test]
fn what_is_in_front_is_told_of_the_state_as_it_is_whatever_was_rendered_before() {
    let _alone = alone();
    let near = splats(&[(1, [0.0, 0.0, 2.0], 0.0), (1, [0.0, 0.0, 5.0], 2.0)]);
    let far = splats(&[(1, [0.0, 0.0, 5.0], 2.0)]);
    let query = [OcclusionQuery { pixel: [19, 11], depth: 4.0 }];
    let options = RenderOptions::default();
    let ask = |engine: &mut CpuEngine, pose: &Pose| {
        engine.weight_in_front(&CAMERA, pose, &options, &query).unwrap().unwrap()[0]
    };
    let mut device = engine(near);
    let fresh = ask(&mut device, &Pose::IDENTITY);
    // An opacity of one half, at the centre of a splat or next to it.
    assert!((0.3..0.5).contains(&fresh), "{fresh}");
    device.render(&CAMERA, &Pose::IDENTITY, &options, Outputs::Color).unwrap();
    assert_eq!(ask(&mut device, &Pose::IDENTITY), fresh);
    // A view other than the rendered one, then a step, then other splats.
    let aside = Pose { translation: [50.0, 0.0, 0.0], ..Pose::IDENTITY };
    assert_eq!(ask(&mut device, &aside), 0.0);
    assert_eq!(ask(&mut device, &Pose::IDENTITY), fresh);
    let rates = LearningRates { opacity_logits: 5.0, ..STILL };
    device.step(&[view()], &[], &StepParams::new(0, 5, options, rates)).unwrap();
    assert_ne!(ask(&mut device, &Pose::IDENTITY), fresh);
    device.load(TrainState::new(far, Vec::new())).unwrap();
    assert_eq!(ask(&mut device, &Pose::IDENTITY), 0.0);
}

#[test]
fn the_work_of_the_last_pass_is_what_a_profile_counts_of_it() {
    let _alone = alone();
    let mut engine = engine(splats(&[(100, [0.0, 0.0, 5.0], 2.0), (30, [0.0, 0.0, -5.0], 2.0)]));
    assert_eq!(engine.work(), None, "nothing was drawn");
    gausset_prof::set_enabled(true);
    gausset_prof::reset();
    engine.step(&[view()], &[], &StepParams::new(0, 5, RenderOptions::default(), STILL)).unwrap();
    gausset_prof::set_enabled(false);
    let profile = gausset_prof::snapshot();
    let counted = StepWork::from_counters(|name| profile.counter(name).map(|counter| counter.last)).unwrap();
    let work = engine.work().unwrap();
    assert_eq!(work, counted);
    let [width, height] = [CAMERA.width, CAMERA.height].map(f64::from);
    assert_eq!((work.splats, work.visible, work.pixels), (130.0, 100.0, width * height));
    // All 130 splats are in 9 blocks, and a dense step moves them all.
    assert!(
        work.live_entries > 0.0 && work.live_entries <= work.intersections && work.updated_blocks == 9.0,
        "{work:?}"
    );

    // A render of the same view is the same work without an update.
    engine.render(&CAMERA, &Pose::IDENTITY, &RenderOptions::default(), Outputs::All).unwrap();
    assert_eq!(engine.work(), Some(StepWork { live_entries: 0.0, updated_blocks: 0.0, ..work }));
    let stages: Vec<&str> =
        engine.lower_bounds(&work).unwrap().stages.iter().map(|floor| floor.stage.name()).collect();
    assert_eq!(stages, ["project", "sort", "tile", "blend", "loss", "blend_vjp", "project_vjp+adam"]);
    let state = engine.save().unwrap();
    engine.load(state).unwrap();
    assert_eq!(engine.work(), None, "the buffers are those of another state");
}

#[test]
fn what_is_refused_changes_nothing_and_the_next_step_is_done() {
    let _alone = alone();
    let mut engine = engine(splats(&[(10, [0.0, 0.0, 5.0], 2.0)]));
    let before = engine.save().unwrap();
    let params = StepParams::new(4, 5, RenderOptions::default(), STILL);
    for views in [vec![], vec![view(), view()]] {
        let error = engine.step(&views, &[], &params).unwrap_err();
        assert!(matches!(error, EngineError::InvalidInput(_)), "{error}");
    }
    let error = engine.step(&[view(), view()], &[], &params).unwrap_err().to_string();
    assert_eq!(error, "2 views in step 4 (expected 1 at a time)");
    let small = TrainView { camera: Camera { width: 39, ..CAMERA }, ..view() };
    engine.step(&[small], &[], &params).unwrap_err();
    assert_eq!(engine.save().unwrap(), before);
    engine.step(&[view()], &[], &params).unwrap();
    assert_eq!(engine.flush().unwrap().steps, 1);
}

#[test]
fn the_screen_radius_of_a_splat_does_not_depend_on_those_beside_it_in_memory() {
    let _alone = alone();
    // Sixteen splats are a block. The last one is behind the others: it is projected, and gets no gradient.
    for in_front in [15, 16] {
        let mut splats = splats(&[(in_front, [0.0, 0.0, 5.0], 6.0), (1, [0.0, 0.0, 6.0], 6.0)]);
        splats.log_scales[..in_front].fill([-1.0; 3]);
        let mut engine = engine(splats);
        let mut params = StepParams::new(0, 5, RenderOptions::default(), STILL);
        params.statistic = GradientStatistic::Signed;
        engine.step(&[view()], &[], &params).unwrap();
        let statistics = engine.save().unwrap().statistics;
        assert_eq!(statistics.visible_steps, vec![1; in_front + 1]);
        // Three times a standard deviation of e^-1 / 5 · 30 px and the low-pass filter, for the visible ones.
        assert!((statistics.max_radius[0] - 6.8).abs() < 0.1, "{}", statistics.max_radius[0]);
        assert_eq!(statistics.max_radius[in_front], 0.0, "{in_front} in front");
    }
}

#[test]
fn steps_are_told_once_by_whoever_asks_first() {
    let _alone = alone();
    let mut engine = engine(splats(&[(10, [0.0, 0.0, 5.0], 2.0)]));
    let step = |engine: &mut CpuEngine, step| {
        engine.step(&[view()], &[], &StepParams::new(step, 5, RenderOptions::default(), STILL)).unwrap();
    };
    assert_eq!(engine.poll().unwrap().last_step, None);
    step(&mut engine, 7);
    step(&mut engine, 8);
    let told = engine.poll().unwrap();
    assert_eq!((told.steps, told.last_step, told.splats), (2, Some(8), 10));
    assert!(told.loss_sum > 0.0 && told.loss_sum == 2.0 * told.last_loss, "{told:?}");
    let again = engine.flush().unwrap();
    assert_eq!((again.steps, again.loss_sum), (0, 0.0), "each step is reported once");
    assert_eq!((again.last_step, again.last_loss, again.visible), (Some(8), told.last_loss, told.visible));
    step(&mut engine, 9);
    let third = engine.flush().unwrap();
    assert_eq!((third.steps, third.last_step), (1, Some(9)));
}
