//! The noise that a step adds to the means is that of its definition in f64; steps beyond the contraction radius.

use std::sync::Arc;

use gausset_compute::{SimdLevel, dispatch_level, rng};
use gausset_core::engine::{
    AdamMode, Engine, LearningRates, PositionNoise, RenderOptions, StepParams, TrainState, TrainView,
};
use gausset_core::{Camera, Pose, Splats, TargetImage, se3};
use gausset_cpu::{CpuEngine, CpuOptions};
use gausset_scenes::workload::pattern;

const NOISE: PositionNoise = PositionNoise { scale: 3.0, fade_opacity: 0.005 };
/// Not a multiple of 16, so that a block has padding.
const SPLATS: usize = 1000;

/// Splats of all shapes and opacities in front of the camera and behind it.
fn splats() -> Splats {
    let mut splats = Splats::zeros(1, SPLATS);
    for i in 0..SPLATS {
        let u = |what| rng::philox(9, rng::stream::TEST, what, i as u32).map(rng::uniform);
        let (a, b, c) = (u(0), u(1), u(2));
        splats.means[i] = [4.0 * a[0] - 2.0, 4.0 * a[1] - 2.0, 8.0 * a[2] - 2.0];
        splats.log_scales[i] = [5.0 * b[0] - 6.0, 5.0 * b[1] - 6.0, 5.0 * b[2] - 6.0];
        splats.quats[i] = c.map(|v| 4.0 * v - 2.0);
        splats.opacity_logits[i] = 10.0 * b[3] - 8.0;
    }
    splats
}

/// `Σ z sigmoid(-100 (o - fade)) scale` of a splat for normal numbers `z` (Kheradmand et al. 2024, eq. 12), and the largest
/// effect of Σ on them.
fn noise(splats: &Splats, i: usize, z: [f32; 3]) -> ([f64; 3], f64) {
    let r = se3::rotation_from_quaternion(splats.quats[i].map(f64::from));
    let variance = splats.log_scales[i].map(|s| libm::exp(2.0 * f64::from(s)));
    let covariance: se3::Mat3 = std::array::from_fn(|i| {
        std::array::from_fn(|j| (0..3).map(|k| r[i][k] * variance[k] * r[j][k]).sum())
    });
    let opacity = 1.0 / (1.0 + libm::exp(-f64::from(splats.opacity_logits[i])));
    let fade = 1.0 / (1.0 + libm::exp(100.0 * (opacity - f64::from(NOISE.fade_opacity))));
    let strength = fade * f64::from(NOISE.scale);
    let z = z.map(f64::from);
    let largest = variance.into_iter().fold(0.0, f64::max);
    (se3::mul_vec(&covariance, z).map(|v| v * strength), largest * strength * se3::norm(z))
}

fn view() -> TrainView {
    let camera = Camera {
        projection: gausset_core::Projection::Pinhole,
        width: 40,
        height: 24,
        fx: 30.0,
        fy: 30.0,
        cx: 20.0,
        cy: 12.0,
    };
    let target: TargetImage = pattern(camera.width, camera.height);
    TrainView {
        index: 0,
        downscale: 1,
        name: "view".into(),
        camera,
        pose: Pose::IDENTITY,
        target: Arc::new(target),
        exposure_row: None,
        vignetting_row: None,
        pose_row: None,
        camera_from_rig: None,
    }
}

/// The state after one step at a SIMD level.
fn after_step(level: SimdLevel, params: &StepParams) -> TrainState {
    let mut engine = CpuEngine::new(CpuOptions { threads: 2, level }).unwrap();
    engine.load(TrainState::new(splats(), Vec::new())).unwrap();
    engine.step(&[view()], &[], params).unwrap();
    engine.save().unwrap()
}

#[test]
fn beyond_the_contraction_radius_steps_grow_and_regularisation_shrinks_with_distance() {
    const RADIUS: f32 = 0.4;
    let rates = LearningRates {
        means: 0.01,
        log_scales: 0.0,
        quats: 0.0,
        opacity_logits: 0.0,
        sh_dc: 0.0,
        sh_rest: 0.0,
    };
    let mut params = StepParams::new(7, 5, RenderOptions::default(), rates);
    let plain = after_step(SimdLevel::Auto, &params);
    params.contraction_radius = RADIUS;
    let moved = after_step(SimdLevel::Auto, &params);
    params.scale_regularisation = 1e3;
    let pulled = after_step(SimdLevel::Auto, &params);
    for level in SimdLevel::ALL.into_iter().filter(|level| dispatch_level(*level).is_some()) {
        assert!(after_step(level, &params).splats == pulled.splats, "{}", level.level_name());
    }
    let start = splats();
    let mut steps = 0;
    for i in 0..SPLATS {
        let mean = start.means[i];
        let distance = (mean.iter().map(|v| v * v).sum::<f32>().sqrt() / RADIUS).clamp(1.0, 10.0);
        for k in 0..3 {
            let step = |state: &TrainState| state.splats.means[i][k] - mean[k];
            // What is left of the difference of two means.
            let rounding = 1e-6 * mean[k].abs().max(1.0) * distance;
            assert!((step(&moved) - distance * step(&plain)).abs() <= rounding, "{i}.{k}");
            steps += usize::from(step(&plain) != 0.0 && distance > 2.0);
            // Splats that the view does not show have no other gradient.
            if plain.moments.m.log_scales[i] == [0.0; 3] {
                let pull = 0.1 * 1e3 / (3 * SPLATS) as f32 * libm::expf(start.log_scales[i][k]) / distance;
                let found = pulled.moments.m.log_scales[i][k];
                assert!((found - pull).abs() <= 1e-5 * pull, "{i}.{k}: {found} {pull}");
            }
        }
    }
    assert!(steps > 100, "{steps}");
}

#[test]
fn a_step_without_rates_moves_the_means_by_the_noise_of_the_definition() {
    // Enough of them move visibly for the test to be meaningful.
    let moved = moved_by_the_noise(f32::INFINITY);
    assert!(moved > 100, "{moved}");
    let moved = moved_by_the_noise(0.4);
    assert!(moved > 30, "{moved}");
}

/// Checks the noise with a contraction radius; returns how many coordinates moved visibly.
fn moved_by_the_noise(radius: f32) -> usize {
    let (splats, view) = (splats(), view());
    let still = LearningRates {
        means: 0.0,
        log_scales: 0.0,
        quats: 0.0,
        opacity_logits: 0.0,
        sh_dc: 0.0,
        sh_rest: 0.0,
    };
    let mut first: Option<Splats> = None;
    for wanted in SimdLevel::ALL {
        if dispatch_level(wanted).is_none() {
            continue;
        }
        for adam in [AdamMode::Dense, AdamMode::Sparse] {
            let mut engine = CpuEngine::new(CpuOptions { threads: 2, level: wanted }).unwrap();
            engine.load(TrainState::new(splats.clone(), Vec::new())).unwrap();
            let mut params = StepParams::new(7, 5, RenderOptions::default(), still);
            params.noise = Some(NOISE);
            params.contraction_radius = radius;
            params.adam = adam;
            engine.step(std::slice::from_ref(&view), &[], &params).unwrap();
            let after = engine.save().unwrap().splats;
            assert!(first.get_or_insert_with(|| after.clone()) == &after, "{} {adam:?}", wanted.level_name());
        }
    }
    let after = first.unwrap();
    assert_eq!(after.log_scales, splats.log_scales);
    let mut moved = 0;
    for i in 0..SPLATS {
        let distance = (splats.means[i].iter().map(|v| v * v).sum::<f32>().sqrt() / radius).clamp(1.0, 10.0);
        let normals = rng::normals(5, rng::stream::NOISE, 7, i as u32);
        let (shift, size) = noise(&splats, i, [normals[0], normals[1], normals[2]]);
        // The exponents of Σ and those of the fade lose up to 1e-5 of the largest effect on either side.
        for k in 0..3 {
            let shift = shift[k] / f64::from(distance);
            let found = after.means[i][k] - splats.means[i][k];
            // Half a unit in the last place of the mean is lost when the shift is added, and another in the difference.
            let tolerance = 3e-5 * size + 1.3e-7 * f64::from(splats.means[i][k].abs().max(1.0));
            assert!((f64::from(found) - shift).abs() <= tolerance, "{i}.{k}: {found} {shift}");
            moved += usize::from(found.abs() > 1e-3);
        }
    }
    moved
}
