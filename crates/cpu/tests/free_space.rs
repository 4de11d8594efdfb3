//! Splats in space that is known to be empty are removed, and others stay.

use std::sync::Arc;

use gausset_compute::SimdLevel;
use gausset_core::engine::{Bubble, DensityRule, Engine, FreeSpaceRule, FreeSpaceView, TrainState};
use gausset_core::{Camera, Pose, Splats};
use gausset_cpu::{CpuEngine, CpuOptions};

const CAMERA: Camera = Camera {
    projection: gausset_core::Projection::Pinhole,
    width: 64,
    height: 48,
    fx: 60.0,
    fy: 60.0,
    cx: 32.0,
    cy: 24.0,
};

/// Round splats: mean, size, opacity logit.
fn splats(all: &[([f32; 3], f32, f32)]) -> Splats {
    let mut splats = Splats::zeros(0, all.len());
    for (i, &(mean, size, logit)) in all.iter().enumerate() {
        splats.means[i] = mean;
        splats.log_scales[i] = [size.ln(); 3];
        splats.quats[i] = [1.0, 0.0, 0.0, 0.0];
        splats.opacity_logits[i] = logit;
    }
    splats
}

/// Points on a wall at z = 4, as the camera at the origin sees it.
fn wall() -> Vec<[f32; 3]> {
    let along = |n: i32| (0..n).map(move |i| 0.2 * (i - n / 2) as f32);
    along(11).flat_map(|x| along(9).map(move |y| [x, y, 4.0])).collect()
}

fn rays(points: Vec<[f32; 3]>) -> FreeSpaceRule {
    let view = FreeSpaceView { camera: CAMERA, pose: Pose::IDENTITY, points };
    FreeSpaceRule {
        views: Arc::from([view]),
        free_fraction: 0.3,
        min_points: 10,
        min_weight: 2.0,
        bubbles: Arc::from([]),
        cameras: Arc::from([]),
        near_factor: 3.0,
    }
}

/// Which of the splats a rule keeps.
fn kept(splats: &Splats, rule: FreeSpaceRule, options: CpuOptions) -> Vec<bool> {
    let mut engine = CpuEngine::new(options).unwrap();
    engine.load(TrainState::new(splats.clone(), Vec::new())).unwrap();
    engine.densify(&DensityRule::FreeSpace(rule)).unwrap();
    let after = engine.save().unwrap().splats;
    let kept: Vec<bool> =
        after.opacity_logits.iter().zip(&splats.opacity_logits).map(|(a, b)| a == b).collect();
    let cleared = kept.iter().filter(|&&kept| !kept).count() as u64;
    assert_eq!(engine.flush().unwrap().cleared, cleared);
    // Only opacities have changed.
    assert_eq!((&after.means, &after.log_scales, &after.sh), (&splats.means, &splats.log_scales, &splats.sh));
    kept
}

#[test]
fn a_veil_close_in_front_of_a_camera_goes_and_all_else_stays() {
    let mut all = vec![
        // Covers the whole image, close: a veil.
        ([0.0, 0.0, 0.4], 0.15, 0.0),
        // As close, but in a corner with two of the points.
        ([0.12, 0.09, 0.4], 0.01, 2.0),
        // As large in the image, at half the distance: it may be the leaf of a tree.
        ([0.0, 0.0, 2.0], 0.75, 0.0),
        // Close, and too faint to have an effect.
        ([0.0, 0.0, 0.5], 0.2, -5.0),
        // Behind the camera.
        ([0.0, 0.0, -0.5], 0.2, 2.0),
    ];
    let others = all.len();
    all.extend(wall().into_iter().map(|point| (point, 0.1, 2.0)));
    let all = splats(&all);
    let found = kept(&all, rays(wall()), CpuOptions::default());
    assert_eq!(found[..others], [false, true, true, true, true]);
    assert!(found[others..].iter().all(|&kept| kept));
    // Without points nothing is known, and with points at the same distance nothing is free.
    assert!(kept(&all, rays(Vec::new()), CpuOptions::default()).iter().all(|&kept| kept));
    let close: Vec<[f32; 3]> = wall().into_iter().map(|p| p.map(|v| v / 8.0)).collect();
    assert!(kept(&all, rays(close), CpuOptions::default()).iter().all(|&kept| kept));
}

#[test]
fn a_splat_in_a_bubble_goes_unless_a_camera_sees_it_from_close() {
    let all = splats(&[
        ([0.5, 0.0, 0.0], 0.01, 2.0),
        ([0.0, 0.9, 0.0], 0.01, 2.0),
        // Outside.
        ([0.0, 0.0, 1.1], 0.01, 2.0),
    ]);
    // A camera that looks at the bubble from a distance along -z.
    let from = |distance: f64| (CAMERA, Pose { translation: [0.0, 0.0, distance], ..Pose::IDENTITY });
    let rule = |cameras: &[(Camera, Pose)]| FreeSpaceRule {
        views: Arc::from([]),
        bubbles: Arc::from([Bubble { centre: [0.0; 3], radius: 1.0 }]),
        cameras: cameras.into(),
        ..rays(Vec::new())
    };
    let found = |cameras: &[(Camera, Pose)]| kept(&all, rule(cameras), CpuOptions::default());
    assert_eq!(found(&[]), [false, false, true]);
    assert_eq!(found(&[from(9.0)]), [false, false, true]);
    // 2.5 away: more than 3 times 0.5, less than 3 times 0.9 (and both are inside the image).
    assert_eq!(found(&[from(9.0), from(2.5)]), [false, true, true]);
    // As near, but looking in the opposite direction.
    assert_eq!(found(&[from(-2.5)]), [false, false, true]);
}

#[test]
fn what_is_cleared_does_not_depend_on_threads_or_vectors() {
    // A cloud of splats of all sizes between the camera and the wall.
    let value = |i: u32, k: usize| {
        use gausset_compute::rng::{philox, stream, uniform};
        uniform(philox(3, stream::TEST, k as u64, i)[0])
    };
    let cloud = (0..3_000).map(|i| {
        let z = 0.1 + 4.0 * value(i, 0);
        (
            [z * (value(i, 1) - 0.5), z * (value(i, 2) - 0.5), z],
            0.3 * value(i, 3) * value(i, 3),
            4.0 * value(i, 4) - 2.0,
        )
    });
    let all = splats(&cloud.collect::<Vec<_>>());
    let rule = FreeSpaceRule { min_points: 2, min_weight: 0.1, ..rays(wall()) };
    let reference = kept(&all, rule.clone(), CpuOptions { threads: 1, level: SimdLevel::Auto });
    let cleared = reference.iter().filter(|&&kept| !kept).count();
    assert!((3..1_500).contains(&cleared), "{cleared}");
    for level in SimdLevel::ALL {
        if gausset_compute::dispatch_level(level).is_some() {
            assert_eq!(kept(&all, rule.clone(), CpuOptions { threads: 3, level }), reference, "{level:?}");
        }
    }
}
