//! Relative pose of two lenses that were aligned separately: one pose from all frames.
//!
//! Each frame gives one noisy estimate, and frames whose alignment failed for one lens are outliers. The geometric
//! median of the rotations (tangent space of SO(3)) and of the centres is robust as long as outliers are fewer than
//! half: Weiszfeld's algorithm (Hartley, Aftab, Trumpf: L1 rotation averaging using the Weiszfeld algorithm, 2011).

use gausset_core::Pose;
use gausset_core::se3;
use gausset_core::statistics::upper_median;

pub use crate::sphere::aligned::LensRelation;

use crate::sphere::aligned::{AlignedPoses, FramePose};
use crate::sphere::lens_views::{frame_of_lens, lens_frame, upright_rotation};

/// Maximum iterations of Weiszfeld's algorithm.
const MAX_ITERATIONS: usize = 200;
/// Step below which iteration ends, radians or units of the poses.
const CONVERGED_STEP: f64 = 1e-12;

/// The constant relative pose of two lenses, with the deviations of the frames from it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LensPairPose {
    /// Relative pose: axes of the first lens to those of the second.
    pub second_from_first: Pose,
    /// Number of frames with poses of both lenses.
    pub frames: usize,
    /// Median and largest deviation of the rotation, degrees.
    pub rotation_deviation: [f64; 2],
    /// Median and largest deviation of the centre of the second lens, in the unit of the poses.
    pub position_deviation: [f64; 2],
}

impl LensPairPose {
    /// Estimates the relative pose from the poses (`lens_from_world`) of both lenses at each frame; `None` without
    /// frames.
    #[must_use]
    pub fn from_frames(frames: &[[Pose; 2]]) -> Option<Self> {
        let each: Vec<Pose> = frames.iter().map(|[first, second]| second.compose(&first.inverse())).collect();
        let first = each.first()?;
        let mut rotation = Pose::from_quaternion(median_quaternion(&each), [0.0; 3]).ok()?.rotation;
        for _ in 0..MAX_ITERATIONS {
            let away = each.iter().map(|pose| rotation_vector(pose, &rotation));
            let step = weiszfeld_step(away);
            rotation = se3::mul(&se3::so3_exp(step), &rotation);
            if se3::norm(step) < CONVERGED_STEP {
                break;
            }
        }
        let centres: Vec<[f64; 3]> = each.iter().map(Pose::centre).collect();
        let mut centre: [f64; 3] =
            std::array::from_fn(|k| upper_median(centres.iter().map(|c| c[k]).collect()).unwrap_or(0.0));
        for _ in 0..MAX_ITERATIONS {
            let step = weiszfeld_step(centres.iter().map(|c| se3::sub(*c, centre)));
            centre = std::array::from_fn(|k| centre[k] + step[k]);
            if se3::norm(step) < CONVERGED_STEP {
                break;
            }
        }
        // Normalise the rotation exactly.
        let quaternion = Pose { rotation, ..*first }.quaternion();
        let rotation = Pose::from_quaternion(quaternion, [0.0; 3]).ok()?.rotation;
        let translation = se3::mul_vec(&rotation, centre).map(|v| -v);
        let turns =
            each.iter().map(|pose| se3::norm(rotation_vector(pose, &rotation)).to_degrees()).collect();
        let places = centres.iter().map(|c| se3::distance(*c, centre)).collect();
        Some(Self {
            second_from_first: Pose { rotation, translation },
            frames: each.len(),
            rotation_deviation: median_and_largest(turns),
            position_deviation: median_and_largest(places),
        })
    }
}

/// Minimum number of frames with poses of both lenses for completing missing poses.
const MIN_COMMON_FRAMES: usize = 3;

impl LensRelation {
    /// Estimates the relative pose of the lenses. If three or more frames have poses of both, missing poses are
    /// computed from the other lens and added to `poses`. `axes` are yaw and pitch of the lenses in the lens file,
    /// degrees. `None` if no frame has poses of both lenses.
    #[must_use]
    pub fn estimate_and_complete(poses: &mut AlignedPoses, axes: [[f64; 2]; 2]) -> Option<Self> {
        let find = |name: &str| poses.frames.iter().position(|frame| frame.name == name);
        let pairs: Vec<[usize; 2]> = (poses.frames.iter().enumerate())
            .filter_map(|(first, frame)| {
                let (source, _) = frame_of_lens(&frame.name).filter(|(_, lens)| *lens == 0)?;
                Some([first, find(&lens_frame(source, 1))?])
            })
            .collect();
        let both = |pair: &[usize; 2]| {
            let [first, second] = pair.map(|at| poses.frames[at].pose());
            Some([first?, second?])
        };
        let found = LensPairPose::from_frames(&pairs.iter().filter_map(both).collect::<Vec<_>>())?;
        let second_from_first = found.second_from_first;
        let mut completed = Vec::new();
        for [first, second] in pairs.into_iter().filter(|_| found.frames >= MIN_COMMON_FRAMES) {
            let (at, pose) = match [first, second].map(|at| poses.frames[at].pose()) {
                [Some(pose), None] => (second, second_from_first.compose(&pose)),
                [None, Some(pose)] => (first, second_from_first.inverse().compose(&pose)),
                _ => continue,
            };
            let name = poses.frames[at].name.clone();
            let (rotation, translation) = (Some(pose.quaternion()), Some(pose.translation));
            poses.frames[at] = FramePose { name: name.clone(), rotation, translation };
            completed.push(name);
        }
        let said = se3::mul(&se3::transpose(&upright_rotation(axes[1])), &upright_rotation(axes[0]));
        let degrees = |from: &se3::Mat3| se3::norm(rotation_vector(&second_from_first, from)).to_degrees();
        Some(Self {
            frames: found.frames,
            rotation: second_from_first.quaternion(),
            translation: second_from_first.translation,
            angle_degrees: degrees(&Pose::IDENTITY.rotation),
            off_lens_file_degrees: degrees(&said),
            baseline: se3::norm(second_from_first.centre()),
            deviation_degrees: found.rotation_deviation,
            deviation: found.position_deviation,
            completed,
        })
    }
}

/// Rotation vector from a rotation to that of a pose, radians.
fn rotation_vector(pose: &Pose, from: &se3::Mat3) -> [f64; 3] {
    let between = se3::mul(&pose.rotation, &se3::transpose(from));
    let [w, x, y, z] = Pose { rotation: between, translation: [0.0; 3] }.quaternion();
    let sine = se3::norm([x, y, z]);
    // Of the two equivalent quaternions use the smaller angle.
    let half = libm::atan2(sine, w.abs());
    let factor = if sine > 1e-15 { 2.0 * half / sine } else { 2.0 } * w.signum();
    [x, y, z].map(|v| factor * v)
}

/// One Weiszfeld step towards the geometric median; `away` are the samples relative to the current point.
fn weiszfeld_step(away: impl Iterator<Item = [f64; 3]>) -> [f64; 3] {
    let (mut sum, mut weights) = ([0.0; 3], 0.0);
    for d in away {
        // Bound the weight of a sample at the current point.
        let weight = 1.0 / se3::norm(d).max(CONVERGED_STEP);
        sum = std::array::from_fn(|k| sum[k] + weight * d[k]);
        weights += weight;
    }
    sum.map(|v| v / weights)
}

/// Initial rotation: component-wise medians of the quaternions, with signs aligned to the first.
fn median_quaternion(poses: &[Pose]) -> [f64; 4] {
    let first = poses[0].quaternion();
    let same_side = |pose: &Pose| {
        let q = pose.quaternion();
        let sign = (0..4).map(|k| q[k] * first[k]).sum::<f64>().signum();
        q.map(|v| sign * v)
    };
    let all: Vec<[f64; 4]> = poses.iter().map(same_side).collect();
    let found: [f64; 4] =
        std::array::from_fn(|k| upper_median(all.iter().map(|q| q[k]).collect()).unwrap_or(0.0));
    if found.iter().map(|v| v * v).sum::<f64>() > 0.1 { found } else { first }
}

fn median_and_largest(values: Vec<f64>) -> [f64; 2] {
    let largest = values.iter().copied().fold(0.0, f64::max);
    [upper_median(values).unwrap_or(0.0), largest]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pseudo-random numbers from -1 to 1.
    fn noise(seed: &mut u64) -> f64 {
        *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (*seed >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    }

    /// Frames with random poses, noise `error`, and outliers where `is_lost`.
    fn frames(truth: &Pose, error: f64, is_lost: impl Fn(usize) -> bool) -> Vec<[Pose; 2]> {
        let mut seed = 7;
        let mut three = |scale: f64| [0; 3].map(|_| scale * noise(&mut seed));
        (0..40)
            .map(|k| {
                let ([a, b, c], [x, y, z]) = (three(3.0), three(5.0));
                let first = se3::exp([x, y, z, a, b, c]);
                let scale = if is_lost(k) { 2.0 } else { error };
                let ([a, b, c], [x, y, z]) = (three(scale), three(scale));
                [first, se3::exp([x, y, z, a, b, c]).compose(truth).compose(&first)]
            })
            .collect()
    }

    fn truth() -> Pose {
        let half_turn = se3::so3_exp([0.01, std::f64::consts::PI - 0.02, 0.015]);
        let translation = se3::mul_vec(&half_turn, [0.0, 0.0, -0.03]).map(|v| -v);
        Pose { rotation: half_turn, translation }
    }

    #[test]
    fn poses_without_errors_give_the_pose_itself() {
        let truth = truth();
        let found = LensPairPose::from_frames(&frames(&truth, 0.0, |_| false)).unwrap();
        assert!(se3::distance(found.second_from_first.centre(), truth.centre()) < 1e-9);
        assert!(se3::norm(rotation_vector(&found.second_from_first, &truth.rotation)) < 1e-9);
        assert!(
            found.rotation_deviation[1] < 1e-6 && found.position_deviation[1] < 1e-9 && found.frames == 40,
            "{found:?}"
        );
    }

    #[test]
    fn frames_at_which_a_lens_was_lost_do_not_move_it() {
        let truth = truth();
        let found = LensPairPose::from_frames(&frames(&truth, 1e-3, |k| k % 5 == 0)).unwrap();
        let apart = se3::distance(found.second_from_first.centre(), truth.centre());
        let turned = se3::norm(rotation_vector(&found.second_from_first, &truth.rotation)).to_degrees();
        assert!(apart < 6e-4 && turned < 0.03, "{apart} {turned}");
        // The median deviation is that of the inliers; the largest shows the outliers.
        assert!(found.rotation_deviation[0] < 0.15 && found.rotation_deviation[1] > 10.0, "{found:?}");
        assert!(found.position_deviation[0] < 3e-3 && found.position_deviation[1] > 0.3, "{found:?}");
    }

    #[test]
    fn a_lens_that_was_lost_gets_the_pose_of_the_other() {
        let truth = truth();
        let all = frames(&truth, 0.0, |_| false);
        let of = |lost: &dyn Fn(usize, usize) -> bool| {
            let frame = |(k, pair): (usize, &[Pose; 2])| {
                [0, 1].map(|lens| FramePose {
                    name: lens_frame(&format!("f{k}"), lens),
                    rotation: (!lost(k, lens)).then(|| pair[lens].quaternion()),
                    translation: (!lost(k, lens)).then_some(pair[lens].translation),
                })
            };
            AlignedPoses {
                frames: all.iter().enumerate().flat_map(frame).collect(),
                ..AlignedPoses::default()
            }
        };
        let mut poses = of(&|k, lens| k % 4 == 0 && lens == k / 4 % 2 || k == 7);
        let found = LensRelation::estimate_and_complete(&mut poses, [[0.0, 0.0], [180.0, 0.0]]).unwrap();
        assert_eq!((found.frames, found.completed.len(), poses.registered_frames()), (29, 10, 78));
        assert_eq!(found.completed[1], "f4_lens1");
        for (frame, truth) in
            poses.frames.iter().zip(all.iter().flatten()).filter(|(f, _)| f.rotation.is_some())
        {
            assert!(se3::distance(frame.pose().unwrap().centre(), truth.centre()) < 1e-9, "{frame:?}");
        }
        assert!((found.baseline - 0.03).abs() < 1e-9, "{found:?}");
        let half_turn = se3::so3_exp([0.0, std::f64::consts::PI, 0.0]);
        let off = se3::norm(rotation_vector(&truth, &half_turn)).to_degrees();
        assert!((found.off_lens_file_degrees - off).abs() < 1e-6, "{found:?} {off}");
        // Two frames are too few for completing others.
        let mut few = of(&|k, lens| k > 2 || k == 2 && lens == 1);
        let found = LensRelation::estimate_and_complete(&mut few, [[0.0, 0.0], [180.0, 0.0]]).unwrap();
        assert_eq!((found.frames, few.registered_frames()), (2, 5));
        assert!(LensRelation::estimate_and_complete(&mut of(&|_, lens| lens == 1), [[0.0; 2]; 2]).is_none());
    }

    #[test]
    fn no_frame_has_no_pose() {
        assert!(LensPairPose::from_frames(&[]).is_none());
    }
}
