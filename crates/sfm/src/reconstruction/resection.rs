//! Poses of pictures that are not registered, from the landmarks that they see: the rotation by a matched picture that is
//! registered, then the position, then both.

use gausset_compute::rng::{below, philox4x32};
use gausset_core::Pose;
use gausset_core::matrix::{Mat3, cross, dot, mul_vec, norm, transpose_mul_vec};
use gausset_core::se3;

use crate::reconstruction::adjust::adjust_pose;
use crate::reconstruction::solve::inverse_symmetric;

/// Stream of random numbers of this module.
const STREAM: u32 = 0x7265_7365;
/// Samples of two landmarks, each of which determines a position.
const SAMPLES: u32 = 200;
/// Least number of landmarks that agree, and their least fraction.
const MIN_INLIERS: usize = 20;
const MIN_INLIER_FRACTION: f64 = 0.25;

/// A landmark in a picture: bearing, and position in the world.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sight {
    pub(crate) bearing: [f64; 3],
    pub(crate) position: [f64; 3],
}

/// The pose with the most landmarks within `tolerance` (radians) that starts with one of the rotations; `None` if too few
/// agree.
pub(crate) fn resect(sights: &[Sight], rotations: &[Mat3], tolerance: f64, seed: [u32; 2]) -> Option<Pose> {
    if sights.len() < MIN_INLIERS {
        return None;
    }
    let agreeing = |pose: &Pose, tolerance: f64| -> Vec<Sight> {
        sights.iter().filter(|sight| angle(pose, sight) < tolerance).copied().collect()
    };
    let mut best: Option<(usize, Pose)> = None;
    for (number, rotation) in rotations.iter().enumerate() {
        // A rotation from two views is less accurate than a pose.
        let loose = 4.0 * tolerance;
        let mut found: Option<(usize, Pose)> = None;
        for draw in 0..SAMPLES {
            let words = philox4x32([draw, number as u32, seed[1], 0], [seed[0], STREAM]);
            let pick = |words| sights[below(words, sights.len() as u64) as usize];
            let sample = [pick([words[0], words[1]]), pick([words[2], words[3]])];
            let Some(translation) = translation(rotation, &sample) else { continue };
            let pose = Pose { rotation: *rotation, translation };
            let count = sights.iter().filter(|sight| angle(&pose, sight) < loose).count();
            if found.as_ref().is_none_or(|(most, _)| count > *most) {
                found = Some((count, pose));
            }
        }
        let Some((_, mut pose)) = found else { continue };
        for factor in [4.0, 4.0, 2.0, 1.0, 1.0] {
            let inliers = agreeing(&pose, factor * tolerance);
            let pairs: Vec<([f64; 3], [f64; 3])> = inliers.iter().map(|s| (s.position, s.bearing)).collect();
            adjust_pose(&mut pose, &pairs, 0.5 * tolerance);
        }
        let count = agreeing(&pose, tolerance).len();
        if best.as_ref().is_none_or(|(most, _)| count > *most) {
            best = Some((count, pose));
        }
    }
    let (count, mut pose) = best?;
    let enough = count >= MIN_INLIERS && count as f64 >= MIN_INLIER_FRACTION * sights.len() as f64;
    pose.rotation = se3::orthonormalise(&pose.rotation);
    enough.then_some(pose)
}

/// Angle between the bearing of a landmark and its direction, radians.
fn angle(pose: &Pose, sight: &Sight) -> f64 {
    let y = pose.apply(sight.position);
    libm::atan2(norm(cross(y, sight.bearing)), dot(y, sight.bearing))
}

/// The translation with which landmarks lie on their bearings, by least squares; `None` if it is not determined.
fn translation(rotation: &Mat3, sights: &[Sight]) -> Option<[f64; 3]> {
    let (mut a, mut right) = ([[0.0; 3]; 3], [0.0; 3]);
    for sight in sights {
        let b = sight.bearing;
        let turned = mul_vec(rotation, sight.position);
        for i in 0..3 {
            for j in 0..3 {
                let across = f64::from(u8::from(i == j)) - b[i] * b[j];
                a[i][j] += across;
                right[i] -= across * turned[j];
            }
        }
    }
    let t = mul_vec(&inverse_symmetric(&a)?, right);
    let centre = transpose_mul_vec(rotation, t);
    centre.iter().all(|v| v.is_finite()).then_some(t)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reconstruction::two_view::tests::{angle_between, vector};
    use gausset_core::matrix::{mul, unit};
    use gausset_core::se3::so3_exp;

    #[test]
    fn a_picture_finds_its_place_among_landmarks_a_third_of_which_are_wrong() {
        let truth = Pose { rotation: so3_exp([0.2, -0.5, 0.1]), translation: [0.4, -0.2, 6.0] };
        let sights: Vec<Sight> = (0..120)
            .map(|k| {
                let position = vector(60, k, 0).map(|v| 2.0 * v);
                let off =
                    if k.is_multiple_of(3) { vector(61, k, 0) } else { vector(61, k, 0).map(|v| 1e-4 * v) };
                let y = truth.apply(position);
                Sight { bearing: unit(std::array::from_fn(|i| y[i] / norm(y) + off[i])), position }
            })
            .collect();
        let near = mul(&so3_exp([0.004, 0.003, -0.004]), &truth.rotation);
        let wrong = so3_exp([1.0, 1.0, 0.0]);
        let found = resect(&sights, &[wrong, near], 1e-3, [0, 0]).unwrap();
        assert!(angle_between(&found.rotation, &truth.rotation) < 1e-3);
        let off: [f64; 3] = std::array::from_fn(|k| found.centre()[k] - truth.centre()[k]);
        assert!(norm(off) < 5e-3, "{off:?}");
        assert!(resect(&sights, &[wrong], 1e-3, [0, 0]).is_none());
    }
}
