//! Gains and vignetting as rows of the engine's state: they are estimated, and their mean has no effect.

use std::sync::Arc;

use gausset_core::engine::{
    CorrectionGroup, CorrectionKind, CorrectionRates, Engine, LearningRates, RenderOptions, StepParams,
    TrainState, TrainView,
};
use gausset_core::{Camera, Pose, Splats, TargetImage};
use gausset_cpu::{CpuEngine, CpuOptions};

const STILL: LearningRates =
    LearningRates { means: 0.0, log_scales: 0.0, quats: 0.0, opacity_logits: 0.0, sh_dc: 0.0, sh_rest: 0.0 };
const CAMERA: Camera = Camera {
    projection: gausset_core::Projection::Pinhole,
    width: 48,
    height: 32,
    fx: 40.0,
    fy: 40.0,
    cx: 24.0,
    cy: 16.0,
};
const RATES: CorrectionRates = CorrectionRates { first: 0.01, second: 0.01, decay: 0.0 };

/// One grey wall that fills the image.
fn wall() -> Splats {
    let mut splats = Splats::zeros(0, 1);
    splats.means[0] = [0.0, 0.0, 2.0];
    splats.log_scales[0] = [3.0, 3.0, -4.0];
    splats.quats[0] = [1.0, 0.0, 0.0, 0.0];
    splats.opacity_logits[0] = 8.0;
    splats
}

/// An image of the wall by a camera with these brightnesses in its centre and corners.
fn view(row: u32, middle: f32, corner: f32) -> TrainView {
    let pixel = |i: u32| {
        let [x, y] = [i % CAMERA.width, i / CAMERA.width].map(|v| v as f32 + 0.5);
        let square = ((x - 24.0).powi(2) + (y - 16.0).powi(2)) / (24.0f32.powi(2) + 16.0f32.powi(2));
        [((middle + (corner - middle) * square) * 255.0).round() as u8; 3]
    };
    let rgb = (0..CAMERA.width * CAMERA.height).flat_map(pixel).collect();
    let target = TargetImage { width: CAMERA.width, height: CAMERA.height, rgb, alpha: None, mask: None };
    TrainView {
        index: row,
        downscale: 1,
        name: "view".into(),
        camera: CAMERA,
        pose: Pose::IDENTITY,
        target: Arc::new(target),
        exposure_row: Some(row),
        vignetting_row: None,
        pose_row: None,
        camera_from_rig: None,
    }
}

fn engine(groups: Vec<CorrectionGroup>) -> CpuEngine {
    let mut engine = CpuEngine::new(CpuOptions { threads: 2, ..CpuOptions::default() }).unwrap();
    engine.load(TrainState::new(wall(), groups)).unwrap();
    engine
}

fn train(engine: &mut CpuEngine, views: &[TrainView], steps: u64) {
    for step in 0..steps {
        let mut params = StepParams::new(step, 0, RenderOptions::default(), STILL);
        (params.exposure, params.vignetting) = (Some(RATES), Some(RATES));
        engine.step(std::slice::from_ref(&views[step as usize % views.len()]), &[], &params).unwrap();
    }
}

#[test]
fn gains_find_the_exposure_of_the_pictures_and_their_mean_stays_zero() {
    let brightness = [0.35f32, 0.45, 0.6];
    let views: Vec<TrainView> = (0..3).zip(brightness).map(|(row, b)| view(row, b, b)).collect();
    let mut engine = engine(vec![CorrectionGroup::new(CorrectionKind::Gain, 3)]);
    train(&mut engine, &views, 300);
    let state = engine.save().unwrap();
    let gains = state.correction_group(CorrectionKind::Gain).unwrap();
    for c in 0..3 {
        let row = |row: usize| f64::from(gains.row(row)[c]);
        // The wall keeps its 0.5: only the differences between the images become gains, not their common part.
        let mean = (0..3).map(row).sum::<f64>() / 3.0;
        assert!(mean.abs() < 1e-8, "{mean}");
        assert!(row(0) < row(1) && row(1) < row(2), "{gains:?}");
    }
    assert_eq!(gains.update_counts, [100; 3]);
}

#[test]
fn vignetting_is_found_per_camera() {
    let views = [TrainView { vignetting_row: Some(0), exposure_row: None, ..view(0, 0.5, 0.4) }];
    let mut engine = engine(vec![CorrectionGroup::new(CorrectionKind::Vignetting, 2)]);
    train(&mut engine, &views, 400);
    let state = engine.save().unwrap();
    let vignetting = state.correction_group(CorrectionKind::Vignetting).unwrap();
    let corner: f32 = 1.0 + vignetting.row(0).iter().sum::<f32>();
    // 0.4 / 0.5 in the corner; L1 with steps of 0.01 stays within a few steps of it.
    assert!((corner - 0.8).abs() < 0.03, "{vignetting:?}");
    assert_eq!(vignetting.row(1), [0.0; 3]);
}

#[test]
fn without_rates_rows_stay_and_are_applied() {
    let mut gains = CorrectionGroup::new(CorrectionKind::Gain, 2);
    gains.values = vec![0.2, 0.2, 0.2, -0.2, -0.2, -0.2];
    let mut engine = engine(vec![gains.clone()]);
    let bright = (0.5 * libm::expf(0.2) * 255.0).round() / 255.0;
    let loss = |engine: &mut CpuEngine, view: &TrainView| {
        engine
            .step(std::slice::from_ref(view), &[], &StepParams::new(0, 0, RenderOptions::default(), STILL))
            .unwrap();
        engine.flush().unwrap().last_loss
    };
    let [right, wrong] = [0, 1].map(|row| loss(&mut engine, &view(row, bright, bright)));
    assert!(right < 0.01 && wrong > 0.1, "{right} {wrong}");
    assert_eq!(engine.save().unwrap().corrections, [gains]);
    let missing =
        engine.step(&[view(2, 0.5, 0.5)], &[], &StepParams::new(0, 0, RenderOptions::default(), STILL));
    assert!(missing.unwrap_err().to_string().contains("row 2 of group `gains`"));
}
