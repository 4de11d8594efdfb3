//! The sky as a row of the engine's state: it is trained where nothing hides it, and it is saved and loaded.

use std::sync::Arc;

use gausset_core::engine::{
    CorrectionGroup, CorrectionKind, CorrectionRates, Engine, LearningRates, Outputs, RenderOptions,
    StepParams, TrainState, TrainView,
};
use gausset_core::{Camera, Pose, Splats, TargetImage, se3};
use gausset_cpu::{CpuEngine, CpuOptions};

const STILL: LearningRates =
    LearningRates { means: 0.0, log_scales: 0.0, quats: 0.0, opacity_logits: 0.0, sh_dc: 0.0, sh_rest: 0.0 };
const CAMERA: Camera = Camera {
    projection: gausset_core::Projection::Pinhole,
    width: 48,
    height: 32,
    fx: 30.0,
    fy: 30.0,
    cx: 24.0,
    cy: 16.0,
};
const RATES: CorrectionRates = CorrectionRates { first: 0.02, second: 0.02, decay: 0.0 };
const OPTIONS: RenderOptions = RenderOptions {
    sh_degree: 0,
    background: [0.0; 3],
    antialiased: false,
    max_splats_per_tile: 0,
    near_plane: 0.01,
    sky: true,
    splat_limit: None,
};

/// A grey ball in front of a part of the sky of the first view.
fn ball() -> Splats {
    let mut splats = Splats::zeros(0, 1);
    splats.means[0] = [0.0, 0.0, 2.0];
    splats.log_scales[0] = [-1.5; 3];
    splats.quats[0] = [1.0, 0.0, 0.0, 0.0];
    splats.opacity_logits[0] = 8.0;
    splats
}

/// Three views 120 degrees apart about y, with blue, grey and orange images.
fn views() -> Vec<TrainView> {
    let colours = [[77u8, 128, 230], [128, 128, 128], [230, 153, 51]];
    let view = |(turn, colour): (usize, [u8; 3])| {
        let angle = std::f64::consts::TAU / 3.0 * turn as f64;
        let rgb = colour.repeat(CAMERA.pixels());
        TrainView {
            index: turn as u32,
            downscale: 1,
            name: "view".into(),
            camera: CAMERA,
            pose: se3::exp([0.0, 0.0, 0.0, 0.0, angle, 0.0]),
            target: Arc::new(TargetImage { width: 48, height: 32, rgb, alpha: None, mask: None }),
            exposure_row: None,
            vignetting_row: None,
            pose_row: None,
            camera_from_rig: None,
        }
    };
    colours.into_iter().enumerate().map(view).collect()
}

fn engine(threads: usize, state: TrainState) -> CpuEngine {
    let mut engine = CpuEngine::new(CpuOptions { threads, ..CpuOptions::default() }).unwrap();
    engine.load(state).unwrap();
    engine
}

fn train(engine: &mut CpuEngine, steps: std::ops::Range<u64>) {
    let views = views();
    for step in steps {
        let params = StepParams { sky: Some(RATES), ..StepParams::new(step, 0, OPTIONS, STILL) };
        engine.step(std::slice::from_ref(&views[step as usize % views.len()]), &[], &params).unwrap();
    }
}

#[test]
fn the_sky_takes_the_colours_of_the_directions() {
    let mut engine = engine(2, TrainState::new(ball(), vec![CorrectionGroup::new(CorrectionKind::Sky, 1)]));
    train(&mut engine, 0..300);
    for view in views() {
        let rendering = engine.render(&CAMERA, &view.pose, &OPTIONS, Outputs::All).unwrap();
        let expected = view.target.rgb[..3].iter().map(|&v| f32::from(v) / 255.0);
        // The corner, which the ball does not reach. Three colours with edges in between are not quite a sky of degree
        // 2; the sky started at 0.5, which is up to 0.4 off.
        for (found, expected) in rendering.color.iter().zip(expected) {
            assert!((found - expected).abs() < 0.15, "{found} {expected}");
        }
        // Alpha is that of splats alone.
        assert_eq!(rendering.alpha[0], 0.0);
    }
    let state = engine.save().unwrap();
    assert_eq!(state.correction_group(CorrectionKind::Sky).unwrap().update_counts, [300]);
    // Without rates the sky does not change.
    engine.step(&views()[..1], &[], &StepParams::new(300, 0, OPTIONS, STILL)).unwrap();
    assert_eq!(engine.save().unwrap().corrections, state.corrections);
}

#[test]
fn a_sky_goes_on_from_a_saved_state_with_the_same_bytes_on_any_number_of_threads() {
    let start = || TrainState::new(ball(), vec![CorrectionGroup::new(CorrectionKind::Sky, 1)]);
    let mut whole = engine(1, start());
    train(&mut whole, 0..20);
    let expected = whole.save().unwrap();
    for threads in [1, 2, 3] {
        let mut first = engine(threads, start());
        train(&mut first, 0..9);
        let mut second = engine(threads, first.save().unwrap());
        train(&mut second, 9..20);
        assert_eq!(second.save().unwrap(), expected, "{threads} threads");
    }
}

#[test]
fn a_sky_that_the_state_does_not_have_is_an_error() {
    let mut engine = engine(1, TrainState::new(ball(), Vec::new()));
    let error = engine.render(&CAMERA, &Pose::IDENTITY, &OPTIONS, Outputs::All).unwrap_err().to_string();
    assert!(error.contains("`sky`"), "{error}");
    let other = CorrectionGroup::new(CorrectionKind::Pose, 1);
    engine.load(TrainState::new(ball(), vec![other])).unwrap();
    engine.render(&CAMERA, &Pose::IDENTITY, &OPTIONS, Outputs::All).unwrap_err();
}
