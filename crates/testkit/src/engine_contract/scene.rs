//! A scene small enough for an engine in f64.

use std::sync::Arc;

use gausset_core::engine::{
    CorrectionGroup, CorrectionRates, Engine, LearningRates, RenderOptions, StepParams, TrainState, TrainView,
};
use gausset_core::{Splats, TargetImage};

use super::MakeEngine;
use crate::{RandomScene, TestScene};

/// Rates with which a few steps have a visible effect.
pub(super) const RATES: LearningRates = LearningRates {
    means: 2e-3,
    log_scales: 5e-3,
    quats: 1e-3,
    opacity_logits: 2e-2,
    sh_dc: 1e-2,
    sh_rest: 5e-4,
};

/// Zero rates.
pub(super) const ZERO_RATES: LearningRates =
    LearningRates { means: 0.0, log_scales: 0.0, quats: 0.0, opacity_logits: 0.0, sh_dc: 0.0, sh_rest: 0.0 };

/// Rates of corrections.
pub(super) const CORRECTION: CorrectionRates = CorrectionRates { first: 1e-2, second: 1e-3, decay: 0.0 };

pub(super) fn scene() -> TestScene {
    RandomScene { splats: 24, sh_degree: 1, width: 24, height: 18, margin: 0.0, ..RandomScene::default() }
        .build()
}

/// The splats of the contract.
pub(super) fn splats() -> Splats {
    scene().splats
}

/// The state before the first step, with corrections.
#[must_use]
pub fn start(extras: Vec<CorrectionGroup>) -> TrainState {
    TrainState::new(splats(), extras)
}

/// A view: the larger its index, the brighter its image.
#[must_use]
pub fn view(index: u32) -> TrainView {
    let TestScene { camera, pose, .. } = scene();
    let pixel = |i: u32| {
        let [x, y] = [i % camera.width, i / camera.width];
        [30 + 3 * x, 40 + 5 * y, 90].map(|v| (v + 40 * index) as u8)
    };
    let rgb = (0..camera.width * camera.height).flat_map(pixel).collect();
    let target = TargetImage { width: camera.width, height: camera.height, rgb, alpha: None, mask: None };
    TrainView {
        index,
        downscale: 1,
        name: format!("view {index}").into(),
        camera,
        pose,
        target: Arc::new(target),
        exposure_row: None,
        vignetting_row: None,
        pose_row: None,
        camera_from_rig: None,
    }
}

/// Render options of the contract.
pub(super) fn options() -> RenderOptions {
    RenderOptions { sh_degree: 1, background: [0.2, 0.3, 0.4], ..RenderOptions::default() }
}

/// A step without optional parts.
#[must_use]
pub fn params(step: u64) -> StepParams {
    StepParams::new(step, 11, options(), RATES)
}

/// An engine with the splats of the contract.
#[must_use]
pub fn loaded(make: MakeEngine<'_>, extras: Vec<CorrectionGroup>) -> Box<dyn Engine> {
    let mut engine = make();
    engine.load(start(extras)).expect("a state of 24 splats");
    engine
}

/// Steps on three views in turn.
pub(super) fn train(engine: &mut dyn Engine, steps: std::ops::Range<u64>) {
    for step in steps {
        engine
            .step(&[view((step % 3) as u32)], &[view(((step + 1) % 3) as u32)], &params(step))
            .expect("a step");
    }
}
