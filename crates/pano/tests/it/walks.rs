//! Calibration of two fisheye lenses from frames of a camera that moves through a known room.
#![allow(clippy::print_stdout, reason = "measurements for research/benchmarks-log.md")]

use std::sync::atomic::AtomicBool;

use gausset_compute::Pool;
use gausset_core::{Pose, se3};
use gausset_pano::calibrate::{
    Calibration, CalibrationError, InitialCalibration, LumaImage, calibrate, check_poses,
};
use gausset_pano::fisheye::DualFisheye;
use gausset_pano::geometry::rotation;
use gausset_scenes::room;

use crate::two_circles::{DETAILED, Drawing, angles_between, poor_start, rotation_between};

/// Different lenses, neither of them equidistant.
const LENSES: &str = r#"{ "width": 1600, "height": 800, "blend_degrees": 4, "lenses": [
    { "cx": 402.4, "cy": 397.2, "radius": 381.3, "half_angle": 99, "polynomial": [1, -0.06, 0.012] },
    { "cx": 1196.7, "cy": 402.8, "radius": 383.1, "half_angle": 98.6, "polynomial": [1, -0.052, 0.003],
      "yaw": 180.9, "pitch": 0.6, "roll": -0.5 } ] }"#;
/// Distance of the second lens behind the first, m, where they are apart.
const APART: f64 = 0.03;
/// Frames of the whole path around the room.
const ROUND: usize = 24;

/// Poses of a camera that moves around the room by about 0.4 m per frame and rotates.
fn walk(frames: usize) -> Vec<Pose> {
    let pose = |k: usize| {
        let (on_path, step) = (room::pose(k, ROUND), k as f64);
        let look = rotation(15.0 * step, 8.0 * (1.7 * step).sin(), 6.0 * (2.3 * step).cos());
        let rotation = se3::mul(&look, &on_path.rotation);
        let translation = se3::mul_vec(&rotation, on_path.centre()).map(|v| -v);
        Pose { rotation, translation }
    };
    (0..frames).map(pose).collect()
}

/// The poses with errors of up to `degrees` around each axis and `metres` along it.
fn off(poses: &[Pose], degrees: f64, metres: f64) -> Vec<Option<Pose>> {
    let mut seed = 5u64;
    let mut next = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 40) as f64 / (1u64 << 23) as f64 - 1.0
    };
    let pose = |pose: &Pose| {
        let twist = [metres, metres, metres].map(|v| v * next());
        let turn = [degrees; 3].map(|v: f64| (v * next()).to_radians());
        let [x, y, z] = twist;
        let [a, b, c] = turn;
        Some(se3::exp([x, y, z, a, b, c]).compose(pose))
    };
    poses.iter().map(pose).collect()
}

/// The lenses in frames that are `smaller` times smaller than 1600 px.
fn truth(smaller: u32) -> DualFisheye {
    let mut lenses = DualFisheye::parse(LENSES.as_bytes()).unwrap();
    (lenses.width, lenses.height) = (1600 / smaller, 800 / smaller);
    for lens in &mut lenses.lenses {
        lens.centre = lens.centre.map(|c| c / f64::from(smaller));
        lens.radius /= f64::from(smaller);
    }
    lenses
}

fn frames(truth: &DualFisheye, poses: &[Pose], behind: f64, pool: &Pool) -> Vec<LumaImage> {
    let drawing = Drawing::of(truth, pool);
    poses.iter().map(|pose| drawing.room(DETAILED, pose, behind, pool)).collect()
}

/// Calibrates and returns the errors against the truth: RMS and worst angle, and rotation between the lenses, degrees.
fn found(
    what: &str,
    frames: &[LumaImage],
    start: &InitialCalibration,
    truth: &DualFisheye,
) -> (Calibration, [f64; 3]) {
    let found = calibrate(frames, start, &Pool::new(2), &AtomicBool::new(false)).unwrap();
    let ([mean, worst], turn) =
        (angles_between(&found.lenses, truth), rotation_between(&found.lenses, truth));
    println!(
        "{what}: angles {mean:.4} rms, {worst:.4} worst, rotation {turn:.4} degrees; tracks {:?}, spread {:.3} px, doubts {:.3} px {:.4} {:.4} degrees, {:?}",
        found.matches,
        found.residual_spread,
        found.centre_sigma,
        found.angle_sigma,
        found.rotation_sigma,
        found.pose_refinement
    );
    (found, [mean, worst, turn])
}

#[test]
fn poses_of_a_walk_tell_the_whole_of_each_lens_and_the_way_between_them() {
    let (truth, poses) = (truth(2), walk(3));
    let frames = frames(&truth, &poses, APART, &Pool::new(2));
    let (lenses, poses) = (Some(poor_start(&truth)), off(&poses, 0.3, 0.004));
    let start = InitialCalibration { lenses, poses, ..InitialCalibration::default() };
    let (with, [mean, worst, turn]) = found("apart", &frames, &start, &truth);
    // With six frames of twice the size the bound of the rotation is 0.03 (`walks_measured`). Three of these frames
    // cannot separate it from the sideways part of the offset between the lenses.
    assert!(mean < 0.05 && worst < 0.15 && turn < 0.05, "{mean} {worst} {turn}");
    assert!(turn < 3.0 * with.rotation_sigma && with.rotation_sigma < 0.02, "{}", with.rotation_sigma);
    let walk = with.pose_refinement.unwrap();
    assert!(
        se3::norm([walk.second_position[0], walk.second_position[1], walk.second_position[2] + APART])
            < 0.004,
        "{walk:?}"
    );
    // The same bytes on any number of threads.
    let again = calibrate(&frames, &start, &Pool::new(1), &AtomicBool::new(false)).unwrap();
    assert_eq!((again.lenses.to_json(), again.pose_refinement), (with.lenses.to_json(), Some(walk)));
}

#[test]
fn poses_at_one_place_tell_how_frames_are_turned() {
    let (truth, centre) = (truth(2), room::pose(0, ROUND).centre());
    let pose = |k: f64| {
        let rotation = rotation(50.0 * k, 8.0 * k, -6.0 * k);
        Pose { rotation, translation: se3::mul_vec(&rotation, centre).map(|v| -v) }
    };
    let poses = [0.0, 1.0, 2.0].map(pose);
    let frames = frames(&truth, &poses, 0.0, &Pool::new(2));
    // As from an alignment without usable positions.
    let alone = poses.map(|pose| Pose { translation: [0.0; 3], ..pose });
    let start = InitialCalibration {
        lenses: Some(poor_start(&truth)),
        poses: off(&alone, 0.2, 0.0),
        ..InitialCalibration::default()
    };
    let (with, [mean, worst, turn]) = found("on the spot", &frames, &start, &truth);
    assert_eq!((with.rotations, with.pose_refinement), (2, None));
    assert!(mean < 0.05 && worst < 0.15 && turn < 0.03, "{mean} {worst} {turn}");
    let mut others = start;
    others.poses.swap(0, 1);
    let found = calibrate(&frames, &others, &Pool::new(2), &AtomicBool::new(false)).unwrap_err();
    assert!(matches!(found, CalibrationError::TooFewMatches(found, 120) if found < 60), "{found}");
}

#[test]
fn fewer_than_three_poses_are_refused() {
    let mut poses = off(&walk(3), 0.0, 0.0);
    assert_eq!(check_poses(&poses), Ok(()));
    poses[1] = None;
    let found = check_poses(&poses).unwrap_err();
    assert_eq!(found, CalibrationError::TooFewPoses(2, 3));
    assert!(found.is_caused_by_poses());
}

#[test]
#[ignore = "measurements for research/benchmarks-log.md: some minutes"]
fn walks_measured() {
    const FRAMES: usize = 6;
    let (truth, poses) = (truth(1), walk(ROUND));
    let pool = Pool::new(2);
    for behind in [0.0, APART] {
        for (part, poses) in poses.chunks_exact(FRAMES).enumerate() {
            let frames = frames(&truth, poses, behind, &pool);
            let what = |how: &str| format!("{behind} m apart, part {part}, {how}");
            let rings =
                InitialCalibration { lenses: Some(poor_start(&truth)), ..InitialCalibration::default() };
            found(&what("rings alone"), &frames, &rings, &truth);
            let poor = InitialCalibration { poses: off(poses, 0.3, 0.004), ..rings };
            let none = InitialCalibration { lenses: None, ..poor.clone() };
            let exact = InitialCalibration { poses: off(poses, 0.0, 0.0), ..poor.clone() };
            // Other initial values for the first part only.
            let starts = [("poor start", poor), ("no start", none), ("exact poses", exact)];
            for (how, start) in starts.into_iter().take(if part == 0 { 3 } else { 1 }) {
                let (_, [mean, worst, turn]) = found(&what(how), &frames, &start, &truth);
                assert!(mean < 0.05 && worst < 0.15 && turn < 0.03, "{mean} {worst} {turn}");
            }
        }
    }
    // Poses of another part of the walk.
    let frames = frames(&truth, &poses[..4], 0.0, &pool);
    let mut poses = off(&poses[13..17], 0.0, 0.0);
    poses.reverse();
    let start = InitialCalibration { lenses: Some(truth), poses, ..InitialCalibration::default() };
    let found = calibrate(&frames, &start, &pool, &AtomicBool::new(false)).unwrap_err();
    println!("{found}");
    assert!(matches!(found, CalibrationError::TooFewMatches(..)), "{found}");
}
