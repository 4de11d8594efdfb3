//! Renders, losses, gradients, clocks and statistics of a step, compared with the CPU engine from the same state.
//!
//! Gradients are compared as first moments after one step from zero, which are a tenth of them: where the gradient is
//! small, the parameters after Adam's first step are signs of rounding errors.

use std::sync::Arc;

use gausset_core::engine::{
    AdamMode, Bubble, CorrectionGroup, CorrectionKind, CorrectionRates, DensityRule, Engine, EngineError,
    FreeSpaceRule, GradientStatistic, LearningRates, Outputs, PositionNoise, RenderOptions, Rendering,
    StepParams, StepReport, TrainState, TrainView,
};
use gausset_core::{Splats, TargetImage, se3};
use gausset_cpu::{CpuEngine, CpuOptions};
use gausset_gpu::{DensityBackend, GpuEngine, GpuOptions};
use gausset_testkit::RandomScene;

use crate::gpu::{engine, gpu};

const RATES: LearningRates = LearningRates {
    means: 2e-3,
    log_scales: 5e-3,
    quats: 1e-3,
    opacity_logits: 2e-2,
    sh_dc: 1e-2,
    sh_rest: 5e-4,
};
const CORRECTION: CorrectionRates = CorrectionRates { first: 1e-2, second: 1e-3, decay: 0.1 };

/// A state, a view and a step.
pub(crate) struct Setup {
    pub(crate) state: TrainState,
    pub(crate) view: TrainView,
    pub(crate) params: StepParams,
}

/// An image with structure, optionally with coverage and mask.
fn target(width: u32, height: u32, coverage: bool, mask: bool) -> TargetImage {
    let places = || (0..height).flat_map(move |y| (0..width).map(move |x| (x, y)));
    let rgb =
        places().flat_map(|(x, y)| [(x * 7 + y) as u8, (y * 9) as u8, (60 + x * y % 97) as u8]).collect();
    let alpha = coverage.then(|| places().map(|(x, y)| (x * 11 + y * 5) as u8).collect());
    let mask = mask.then(|| places().map(|(x, y)| u8::from((x / 3 + y / 4) % 3 != 0)).collect());
    TargetImage { width, height, rgb, alpha, mask }
}

pub(crate) fn setup(recipe: RandomScene, coverage: bool, mask: bool) -> Setup {
    let scene = recipe.build();
    let view = TrainView {
        index: 0,
        downscale: 1,
        name: "view".into(),
        target: Arc::new(target(recipe.width, recipe.height, coverage, mask)),
        camera: scene.camera,
        pose: scene.pose,
        exposure_row: None,
        vignetting_row: None,
        pose_row: None,
        camera_from_rig: None,
    };
    let render = RenderOptions { background: [0.1, 0.4, 0.7], ..RenderOptions::default() };
    let params = StepParams::new(3, 0x1_2345_6789, render, RATES);
    Setup { state: TrainState::new(scene.splats, Vec::new()), view, params }
}

fn cpu() -> Box<dyn Engine> {
    Box::new(CpuEngine::new(CpuOptions { threads: 2, ..CpuOptions::default() }).expect("a level"))
}

/// Relative L2 error.
fn error(a: impl IntoIterator<Item = f32>, b: impl IntoIterator<Item = f32>) -> f64 {
    let (mut difference, mut size) = (0.0f64, 1e-30f64);
    for (a, b) in a.into_iter().zip(b) {
        difference += f64::from(a - b).powi(2);
        size += f64::from(b).powi(2);
    }
    (difference / size).sqrt()
}

fn arrays(splats: &Splats) -> [(&'static str, Vec<f32>); 5] {
    [
        ("means", splats.means.as_flattened().to_vec()),
        ("log scales", splats.log_scales.as_flattened().to_vec()),
        ("quats", splats.quats.as_flattened().to_vec()),
        ("logits", splats.opacity_logits.clone()),
        ("sh", splats.sh.clone()),
    ]
}

/// A render before, and report and state after one step.
fn run(engine: &mut dyn Engine, setup: &Setup) -> (Rendering, StepReport, TrainState) {
    engine.load(setup.state.clone()).expect("a state");
    let view = &setup.view;
    let picture =
        engine.render(&view.camera, &view.pose, &setup.params.render, Outputs::All).expect("a picture");
    engine.step(std::slice::from_ref(view), &[], &setup.params).expect("a step");
    (picture, engine.flush().expect("flushed"), engine.save().expect("saved"))
}

/// One step on both engines, compared.
fn compare(test: &str, name: &str, setup: &Setup) {
    let Some(gpu) = gpu(test) else { return };
    let (picture, report, state) = run(&mut *engine(&gpu), setup);
    let (expected_picture, expected_report, expected) = run(&mut *cpu(), setup);
    compare_pictures(name, &picture, &expected_picture);
    let (loss, expected_loss) = (report.last_loss, expected_report.last_loss);
    assert!((loss - expected_loss).abs() <= 1e-5 * expected_loss, "{name}: loss {loss} {expected_loss}");
    let counts = |r: &StepReport| {
        (r.steps, r.last_step, r.splats, r.visible, r.intersections, r.skipped_updates, r.dead_splats)
    };
    assert_eq!(counts(&report), counts(&expected_report), "{name}");
    assert_eq!(
        (report.cap_hits, report.capped_steps),
        (expected_report.cap_hits, expected_report.capped_steps)
    );
    assert_eq!(
        (&state.update_counts, state.dense_update_count),
        (&expected.update_counts, expected.dense_update_count),
        "{name}"
    );
    assert_eq!((&state.ids, state.next_id), (&expected.ids, expected.next_id), "{name}");
    let moments =
        [(&state.moments.m, &expected.moments.m, 2e-4), (&state.moments.v, &expected.moments.v, 4e-4)];
    for (a, b, tolerance) in moments {
        for ((what, a), (_, b)) in arrays(a).into_iter().zip(arrays(b)) {
            let error = error(a, b);
            assert!(error <= tolerance, "{name}: moments of {what} are off by {error}");
        }
    }
    let (a, b) = (&state.statistics, &expected.statistics);
    assert_eq!(a.visible_steps, b.visible_steps, "{name}");
    assert!(error(a.gradient_sum.clone(), b.gradient_sum.clone()) <= 2e-4, "{name}: sums of gradients");
    assert!(error(a.max_radius.clone(), b.max_radius.clone()) <= 1e-5, "{name}: radii");
    for (a, b) in state.corrections.iter().zip(&expected.corrections) {
        assert_eq!((a.group, &a.update_counts), (b.group, &b.update_counts), "{name}");
        let found = error(a.m.clone(), b.m.clone());
        assert!(found <= 1e-3, "{name}: {} is off by {found}", a.group);
        let found = error(a.values.clone(), b.values.clone());
        assert!(found <= 1e-4, "{name}: {} has values that are off by {found}", a.group);
    }
}

/// Pixels at which both blend the same number of splats are robust: no threshold is decided by rounding alone.
fn compare_pictures(name: &str, a: &Rendering, b: &Rendering) {
    assert_eq!((a.width, a.height, a.capped_tiles), (b.width, b.height, b.capped_tiles), "{name}");
    let pixels = a.count.len();
    let robust: Vec<usize> = (0..pixels).filter(|&i| a.count[i] == b.count[i]).collect();
    assert!(robust.len() * 500 >= pixels * 499, "{name}: {} of {pixels} pixels are robust", robust.len());
    for i in robust {
        for k in 0..3 {
            let (x, y) = (a.color[3 * i + k], b.color[3 * i + k]);
            assert!((x - y).abs() <= 2e-5, "{name}: pixel {i} is {x} (expected {y})");
        }
        assert!((a.alpha[i] - b.alpha[i]).abs() <= 2e-5, "{name}: alpha at {i}");
        assert!((a.depth[i] - b.depth[i]).abs() <= 2e-5 * (1.0 + b.depth[i]), "{name}: depth at {i}");
    }
}

pub(crate) fn recipe(splats: usize, sh_degree: u8) -> RandomScene {
    RandomScene { splats, sh_degree, width: 53, height: 37, seed: 5, ..RandomScene::default() }
}

#[test]
fn any_number_of_splats_makes_the_same_step() {
    for splats in [0, 1, 255, 256, 257, 4097] {
        let mut setup = setup(recipe(splats, 1), false, false);
        setup.params.statistic = GradientStatistic::Signed;
        compare("any_number_of_splats_makes_the_same_step", &format!("{splats} splats"), &setup);
    }
}

#[test]
fn any_degree_and_size_makes_the_same_step() {
    let test = "any_degree_and_size_makes_the_same_step";
    for (stored, degree) in [(0, 0), (3, 0), (3, 1), (3, 2), (3, 3), (2, 3)] {
        let mut setup = setup(recipe(300, stored), false, false);
        setup.params.render.sh_degree = degree;
        compare(test, &format!("degree {degree} of {stored}"), &setup);
    }
    for (width, height) in [(1, 1), (16, 16), (17, 5), (300, 40)] {
        let setup = setup(RandomScene { width, height, ..recipe(200, 2) }, true, false);
        compare(test, &format!("{width}x{height}"), &setup);
    }
}

#[test]
fn every_option_of_a_step_does_the_same() {
    let test = "every_option_of_a_step_does_the_same";
    type Change = fn(&mut Setup);
    let options: [(&str, Change); 15] = [
        ("sparse", |s| s.params.adam = AdamMode::Sparse),
        ("absolute statistic", |s| s.params.statistic = GradientStatistic::Absolute),
        ("signed statistic", |s| s.params.statistic = GradientStatistic::Signed),
        ("antialiased", |s| s.params.render.antialiased = true),
        ("dropout", |s| s.params.dropout = 0.3),
        ("near plane", |s| s.params.render.near_plane = 2.5),
        ("only the first", |s| s.params.render.splat_limit = Some(100)),
        ("cap", |s| s.params.render.max_splats_per_tile = 9),
        ("no ssim", |s| s.params.dssim_weight = 0.0),
        ("regularised", |s| {
            (s.params.opacity_regularisation, s.params.scale_regularisation) = (0.01, 0.01);
        }),
        ("noise", |s| s.params.noise = Some(PositionNoise { scale: 50.0, fade_opacity: 0.2 })),
        ("contracted", |s| {
            (s.params.contraction_radius, s.params.scale_regularisation) = (0.8, 0.01);
            s.params.noise = Some(PositionNoise { scale: 50.0, fade_opacity: 0.2 });
        }),
        ("a later update", |s| {
            s.params.adam = AdamMode::Sparse;
            s.state.dense_update_count = 900;
            s.state
                .update_counts
                .iter_mut()
                .enumerate()
                .for_each(|(i, clock)| *clock = 7 * i as u32 * i as u32);
        }),
        ("a late dense update", |s| s.state.dense_update_count = 900),
        ("all of it", |s| {
            s.params.adam = AdamMode::Sparse;
            s.params.render.antialiased = true;
            s.params.statistic = GradientStatistic::Absolute;
            (s.params.dropout, s.params.opacity_regularisation) = (0.1, 0.02);
            s.params.render.max_splats_per_tile = 20;
        }),
    ];
    for (name, change) in options {
        let mut setup = setup(recipe(400, 3), false, false);
        change(&mut setup);
        compare(test, name, &setup);
    }
}

#[test]
fn masks_and_coverage_count_the_same() {
    let test = "masks_and_coverage_count_the_same";
    for (coverage, mask) in [(true, false), (false, true), (true, true)] {
        compare(test, &format!("coverage {coverage}, mask {mask}"), &setup(recipe(300, 2), coverage, mask));
    }
    let mut nothing = setup(recipe(50, 1), false, false);
    let mut picture = (*nothing.view.target).clone();
    picture.mask = Some(vec![0; 53 * 37]);
    nothing.view.target = Arc::new(picture);
    nothing.params.scale_regularisation = 0.1;
    compare(test, "no valid pixel", &nothing);
}

#[test]
fn corrections_are_applied_and_moved_the_same() {
    let test = "corrections_are_applied_and_moved_the_same";
    let rows = |group: CorrectionKind, rows: usize, size: f32| {
        let mut extra = CorrectionGroup::new(group, rows);
        for (i, value) in extra.values.iter_mut().enumerate() {
            *value += size * ((i * 37 % 11) as f32 / 11.0 - 0.4);
        }
        extra.update_counts[0] = 4;
        extra
    };
    type Change<'a> = &'a dyn Fn(&mut Setup);
    let changes: [(&str, Change<'_>); 6] = [
        ("gains", &|s| {
            s.state.corrections = vec![rows(CorrectionKind::Gain, 5, 0.3)];
            (s.view.exposure_row, s.params.exposure) = (Some(3), Some(CORRECTION));
        }),
        ("gains and vignetting", &|s| {
            s.state.corrections =
                vec![rows(CorrectionKind::Vignetting, 2, 0.5), rows(CorrectionKind::Gain, 2, 0.6)];
            (s.view.exposure_row, s.params.exposure) = (Some(1), Some(CORRECTION));
            (s.view.vignetting_row, s.params.vignetting) = (Some(0), Some(CORRECTION));
        }),
        ("a pose", &|s| {
            s.state.corrections = vec![rows(CorrectionKind::Pose, 3, 0.05)];
            (s.view.pose_row, s.params.pose) = (Some(2), Some(CORRECTION));
        }),
        ("a rig", &|s| {
            s.state.corrections = vec![rows(CorrectionKind::Pose, 3, 0.03)];
            (s.view.pose_row, s.params.pose) = (Some(1), Some(CORRECTION));
            s.view.camera_from_rig = Some(se3::exp([0.3, -0.2, 0.1, 0.5, -0.7, 0.4]));
        }),
        ("a sky", &|s| {
            s.state.corrections = vec![rows(CorrectionKind::Sky, 1, 0.4)];
            (s.params.render.sky, s.params.sky) = (true, Some(CORRECTION));
            s.state.splats.opacity_logits.iter_mut().for_each(|logit| *logit -= 2.0);
        }),
        ("rows that rest", &|s| {
            s.state.corrections = vec![
                rows(CorrectionKind::Gain, 2, 0.3),
                rows(CorrectionKind::Pose, 2, 0.05),
                rows(CorrectionKind::Sky, 1, 0.3),
            ];
            (s.view.exposure_row, s.view.pose_row, s.params.render.sky) = (Some(1), Some(1), true);
        }),
    ];
    for (name, change) in changes {
        let mut setup = setup(recipe(300, 2), false, true);
        change(&mut setup);
        compare(test, name, &setup);
    }
}

/// Degenerate splats are not rendered, stay unchanged, and are counted.
#[test]
fn hostile_splats_are_treated_the_same() {
    type Spoil = fn(&mut Splats);
    let spoilt: [(&str, Spoil); 15] = [
        ("a mean that is NaN", |s| s.means[0] = [f32::NAN; 3]),
        ("an infinite mean", |s| s.means[1] = [f32::INFINITY, 0.0, 0.0]),
        ("a zero quaternion", |s| s.quats[2] = [0.0; 4]),
        ("a quaternion that is NaN", |s| s.quats[3] = [f32::NAN, 0.0, 0.0, 1.0]),
        ("a log scale that is NaN", |s| s.log_scales[4] = [0.0, f32::NAN, 0.0]),
        ("a logit that is NaN", |s| s.opacity_logits[7] = f32::NAN),
        ("a huge scale", |s| s.log_scales[5] = [200.0; 3]),
        ("no scale", |s| s.log_scales[6] = [-200.0; 3]),
        ("the opacity 1", |s| s.opacity_logits[8] = f32::INFINITY),
        ("the opacity 0", |s| s.opacity_logits[9] = f32::NEG_INFINITY),
        ("a colour that is NaN", |s| s.sh[12 * 10] = f32::NAN),
        ("an infinite colour", |s| s.sh[12 * 11 + 4] = f32::INFINITY),
        ("a mean far away", |s| s.means[12] = [1e30; 3]),
        ("a short quaternion", |s| s.quats[13] = [1e-20; 4]),
        ("a long quaternion", |s| s.quats[14] = [1e18; 4]),
    ];
    for (name, spoil) in spoilt {
        let mut setup = setup(recipe(300, 1), false, false);
        spoil(&mut setup.state.splats);
        compare("hostile_splats_are_treated_the_same", name, &setup);
    }
}

/// Rules are applied on the host: their result equals the CPU's, bit for bit.
#[test]
fn free_space_is_cleared_on_the_host_with_the_help_of_the_processor() {
    let Some(gpu) = gpu("free_space_is_cleared_on_the_host_with_the_help_of_the_processor") else { return };
    let setup = setup(recipe(300, 1), false, false);
    let rule = DensityRule::FreeSpace(FreeSpaceRule {
        views: Vec::new().into(),
        free_fraction: 0.5,
        min_points: 1,
        min_weight: 1.0,
        bubbles: vec![Bubble { centre: setup.state.splats.means[0], radius: 1.5 }].into(),
        cameras: Vec::new().into(),
        near_factor: 1.0,
    });
    let on_host = GpuOptions { density: DensityBackend::Host, ..GpuOptions::default() };
    let alone = GpuEngine::new(&gpu, on_host);
    let helped = GpuEngine::new(&gpu, on_host).with_helper(cpu());
    let mut engines: [Box<dyn Engine>; 3] = [Box::new(alone), Box::new(helped), cpu()];
    for engine in &mut engines {
        engine.load(setup.state.clone()).expect("a state");
    }
    let [alone, helped, processor] = &mut engines;
    assert!(matches!(alone.densify(&rule), Err(EngineError::InvalidInput(_))));
    assert!(alone.save().expect("saved") == setup.state, "what is refused changes nothing");
    helped.densify(&rule).expect("a rule");
    processor.densify(&rule).expect("a rule");
    let (found, expected) = (helped.flush().expect("flushed"), processor.flush().expect("flushed"));
    assert!(found.cleared == expected.cleared && found.cleared > 0, "{found:?}");
    assert!(helped.save().expect("saved") == processor.save().expect("saved"));
}
