//! The procedural room, whose poses are known: from rendered images to poses.

use std::sync::atomic::AtomicBool;

use gausset_compute::{Exec, Pool};
use gausset_core::matrix::{Mat3, mul, norm, transpose};
use gausset_core::se3::so3_exp;
use gausset_core::{Pose, matrix};
use gausset_scenes::room::{self, Room};
use gausset_sfm::reconstruction::features::{Features, ViewImage, extract};
use gausset_sfm::reconstruction::{PanoView, Reconstruction, ReconstructionOptions, Stopped, reconstruct};

const FRAMES: usize = 8;
const SIDE: u32 = 256;

/// A ring of eight views with a field of view of 90 degrees.
fn ring() -> Vec<PanoView> {
    let turn = |k: u32| so3_exp([0.0, f64::from(k) * std::f64::consts::FRAC_PI_4, 0.0]);
    let focal = 0.5 * f64::from(SIDE);
    (0..8).map(|k| PanoView { focal, width: SIDE, height: SIDE, pano_from_view: turn(k) }).collect()
}

/// Features of a frame of the room; if `masked`, everything below a latitude is masked.
fn features(frame: usize, masked: bool, pool: &Pool) -> Features {
    let views = ring();
    let mut all = Features::default();
    for (index, view) in views.iter().enumerate() {
        let ray = |x: f64, y: f64| view.bearing([x, y]);
        let seen = Room::FOR_REGISTRATION.picture([SIDE, SIDE], &room::pose(frame, FRAMES), pool, &ray);
        let keep = |k: usize| u8::from((k as u32 / SIDE) < SIDE / 2);
        let picture = ViewImage {
            width: SIDE,
            height: SIDE,
            rgb: seen.data,
            mask: masked.then(|| (0..(SIDE * SIDE) as usize).map(keep).collect()),
        };
        all.append(extract(&views, index, &picture, 800, Exec::best(pool).level));
    }
    all
}

fn options() -> ReconstructionOptions {
    ReconstructionOptions { tolerance: 4.0 / f64::from(SIDE), is_sequence: true, seed: 0 }
}

fn solve(frames: &[Features], pool: &Pool) -> Reconstruction {
    reconstruct(frames, options(), None, Exec::best(pool), &AtomicBool::new(false), &mut |_| {})
        .expect("not stopped")
}

/// Largest error of the centres as a fraction of the path, and of the rotations in degrees, after alignment of the
/// first pose and of the path length with the ground truth.
fn errors(found: &[Pose], truth: &[Pose]) -> (f64, f64) {
    let path = |poses: &[Pose]| -> f64 {
        poses.windows(2).map(|p| norm([0, 1, 2].map(|k| p[1].centre()[k] - p[0].centre()[k]))).sum()
    };
    let scale = path(truth) / path(found);
    let turn: Mat3 = mul(&transpose(&found[0].rotation), &truth[0].rotation);
    let (mut worst, mut turned) = (0.0f64, 0.0f64);
    for (a, b) in found.iter().zip(truth) {
        let way = |poses: &[Pose], pose: &Pose| [0, 1, 2].map(|k| pose.centre()[k] - poses[0].centre()[k]);
        let moved = matrix::transpose_mul_vec(&turn, way(found, a)).map(|v| scale * v);
        let wanted = way(truth, b);
        worst = worst.max(norm([0, 1, 2].map(|k| moved[k] - wanted[k])));
        let off = mul(&mul(&a.rotation, &turn), &transpose(&b.rotation));
        let sine = norm([off[2][1] - off[1][2], off[0][2] - off[2][0], off[1][0] - off[0][1]]) / 2.0;
        turned = turned.max(libm::asin(sine).to_degrees());
    }
    (worst / path(truth), turned)
}

#[test]
fn the_room_is_found_from_its_pictures_the_same_with_any_number_of_threads() {
    let pool = Pool::new(2);
    let frames: Vec<Features> = (0..FRAMES).map(|frame| features(frame, false, &pool)).collect();
    let found = solve(&frames, &pool);
    let poses: Vec<Pose> = found.poses.iter().map(|pose| pose.expect("a pose")).collect();
    let truth: Vec<Pose> = (0..FRAMES).map(|k| room::pose(k, FRAMES)).collect();
    let (centre, turned) = errors(&poses, &truth);
    assert!(centre < 1e-3 && turned < 0.05, "{centre:.2e} of the path, {turned:.4} degrees");
    assert!(found.landmarks.len() > 500, "{}", found.landmarks.len());
    for point in &found.landmarks {
        assert!(
            point.observations.len() > 1 && point.observations.windows(2).all(|pair| pair[0][0] < pair[1][0])
        );
    }
    assert!(solve(&frames, &Pool::new(1)) == found);
    // Frame 3 has no features: it gets no pose, and the others keep theirs.
    let mut without = frames;
    without[3] = Features::default();
    let found = solve(&without, &pool);
    assert_eq!(
        found.poses.iter().map(Option::is_some).collect::<Vec<_>>(),
        [0, 1, 2, 3, 4, 5, 6, 7].map(|k| k != 3)
    );
}

#[test]
fn masked_parts_have_no_features_and_a_stop_is_heard() {
    let pool = Pool::new(2);
    let all = features(0, false, &pool);
    let masked = features(0, true, &pool);
    assert!(masked.features.iter().all(|feature| feature.pixel[1] <= f64::from(SIDE / 2)));
    let above = all.features.iter().filter(|feature| feature.pixel[1] < f64::from(SIDE / 2)).count();
    assert!(above > 200 && masked.features.len() == above, "{above} {}", masked.features.len());
    let stop = AtomicBool::new(true);
    let stopped = reconstruct(&[all, masked], options(), None, Exec::best(&pool), &stop, &mut |_| {});
    assert_eq!(stopped, Err(Stopped));
    let nothing = solve(&[Features::default(), Features::default()], &pool);
    assert!(nothing.landmarks.is_empty() && nothing.poses == [None, None]);
}
