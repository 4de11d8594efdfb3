//! Walking direction in the axes of each panorama: from poses, or from the motion measured in a video.
//!
//! An operator turns with the walking direction. Panoramas that are levelled and oriented north do not.

use gausset_core::Pose;
use gausset_core::se3::{self, IDENTITY3, Mat3};
use gausset_pano::selection::FrameRecord;

/// A camera that moves less than this fraction of the median step is considered stationary: its direction is noise.
const MIN_STEP_FRACTION: f64 = 0.2;
/// Minimum horizontal fraction of a displacement for it to have a heading.
const MIN_HORIZONTAL_FRACTION: f64 = 0.3;
/// Minimum parallax in degrees for the direction of motion of a video frame to be used.
const MIN_PARALLAX: f64 = 1.0;

/// Headings from poses (`pano_from_world`): direction from the previous to the next camera, in degrees of yaw.
pub(super) fn from_poses(poses: &[Option<Pose>]) -> Vec<Option<f64>> {
    let known: Vec<(usize, &Pose)> =
        poses.iter().enumerate().filter_map(|(frame, pose)| Some((frame, pose.as_ref()?))).collect();
    let way = |from: &Pose, to: &Pose| -> [f64; 3] {
        let (from, to) = (from.centre(), to.centre());
        std::array::from_fn(|k| to[k] - from[k])
    };
    let mut steps: Vec<f64> = known.windows(2).map(|pair| se3::norm(way(pair[0].1, pair[1].1))).collect();
    steps.sort_by(f64::total_cmp);
    let least = MIN_STEP_FRACTION * steps.get(steps.len() / 2).copied().unwrap_or(0.0);
    let mut headings = vec![None; poses.len()];
    for (place, (frame, pose)) in known.iter().enumerate() {
        let before = known[place.saturating_sub(1)].1;
        let behind = known[(place + 1).min(known.len() - 1)].1;
        let way = way(before, behind);
        if se3::norm(way) > least {
            headings[*frame] = yaw(se3::mul_vec(&pose.rotation, way));
        }
    }
    headings
}

/// Headings from the frame selection of a video. For each selected frame: the mean direction of motion of the frames
/// between its selected neighbours, in its own axes.
pub(super) fn from_selection(lines: &[FrameRecord], names: &[&str]) -> Vec<Option<f64>> {
    // For each frame, the number of its stretch of known rotations, and the rotation from the first frame of that
    // stretch.
    let mut turns: Vec<(usize, Mat3)> = Vec::with_capacity(lines.len());
    for line in lines {
        let (stretch, last) = turns.last().copied().unwrap_or((0, IDENTITY3));
        turns.push(match line.rotation {
            Some(degrees) => {
                (stretch, se3::orthonormalise(&se3::mul(&se3::so3_exp(degrees.map(f64::to_radians)), &last)))
            }
            None => (stretch + 1, IDENTITY3),
        });
    }
    let kept: Vec<usize> = (0..lines.len()).filter(|at| lines[*at].kept).collect();
    let mut headings = vec![None; names.len()];
    for (place, at) in kept.iter().enumerate() {
        let Some(frame) = lines[*at].name.as_deref().and_then(|name| names.iter().position(|n| *n == name))
        else {
            continue;
        };
        let first = place.checked_sub(1).map_or(0, |before| kept[before] + 1);
        let last = kept.get(place + 1).copied().unwrap_or(lines.len() - 1);
        let (stretch, own) = turns[*at];
        let mut sum = [0.0; 3];
        for (line, (other, turn)) in lines[first..=last].iter().zip(&turns[first..=last]) {
            let is_far = line.parallax.is_some_and(|parallax| parallax >= MIN_PARALLAX);
            let Some(way) = line.way.filter(|_| is_far && *other == stretch) else { continue };
            let in_own = se3::mul_vec(&own, se3::transpose_mul_vec(turn, way));
            sum.iter_mut().zip(in_own).for_each(|(sum, v)| *sum += v);
        }
        headings[frame] = yaw(sum);
    }
    headings
}

/// Yaw of a direction; `None` if it is too steep.
fn yaw([x, y, z]: [f64; 3]) -> Option<f64> {
    let level = libm::hypot(x, z);
    (level > 1e-12 && level >= MIN_HORIZONTAL_FRACTION * libm::hypot(level, y))
        .then(|| libm::atan2(x, z).to_degrees())
}

#[cfg(test)]
mod tests {
    use gausset_pano::motion::FrameMotion;

    use super::*;

    /// `pano_from_world` of a panorama at `centre`, rotated to the right by `turn` degrees.
    fn pose(centre: [f64; 3], turn: f64) -> Pose {
        let rotation = se3::transpose(&gausset_pano::geometry::rotation_y(turn));
        let moved = se3::mul_vec(&rotation, centre);
        Pose { rotation, translation: moved.map(|v| -v) }
    }

    #[test]
    fn poses_tell_the_way_in_the_axes_of_each_panorama() {
        // East, then north (forward), with a rotating panorama; one has no pose, one is at the position of the previous
        // one.
        let poses = [
            Some(pose([0.0, 0.0, 0.0], 0.0)),
            Some(pose([1.0, 0.0, 0.0], 90.0)),
            None,
            Some(pose([2.0, -0.5, 0.0], -30.0)),
            Some(pose([2.0, -0.5, 1.0], 20.0)),
            Some(pose([2.0, -0.5, 1.0], 40.0)),
        ];
        let found = from_poses(&poses);
        let expected = [Some(90.0), Some(0.0), None, Some(45.0 + 30.0), Some(-20.0), None];
        for (found, expected) in found.iter().zip(expected) {
            let off = found.unwrap_or(999.0) - expected.unwrap_or(999.0);
            assert!(off.abs() < 1e-9, "{found:?}, {expected:?}");
        }
        assert_eq!(from_poses(&[None, None]), [None, None]);
        // Straight up has no heading.
        let up = [Some(pose([0.0; 3], 0.0)), Some(pose([0.0, -1.0, 0.0], 0.0))];
        assert_eq!(from_poses(&up), [None, None]);
    }

    #[test]
    fn a_film_tells_the_way_in_the_axes_of_each_kept_frame() {
        // The camera rotates right by ten degrees per frame and moves along its initial forward direction.
        let line = |frame: usize| {
            let angle = (10.0 * frame as f64).to_radians();
            let sight = FrameMotion {
                sharpness: 1.0,
                exposure: 0.0,
                is_duplicate: false,
                rotation: (frame > 0).then_some([0.0, -10.0, 0.0]),
                parallax: Some(2.0),
                direction: Some([-libm::sin(angle), 0.0, libm::cos(angle)]),
                reference: 0,
                path: 0.0,
                tracks: 100,
            };
            let mut line = FrameRecord::new(frame, frame as f64, &sight);
            line.kept = frame.is_multiple_of(3);
            line.name = line.kept.then(|| format!("frame_{:06}", frame / 3));
            line
        };
        let mut lines: Vec<FrameRecord> = (0..10).map(line).collect();
        let names = ["frame_000000", "frame_000001", "frame_000002", "frame_000003"];
        let of = |lines: &[FrameRecord]| from_selection(lines, &names);
        for (frame, heading) in of(&lines).into_iter().enumerate() {
            let off = heading.unwrap() + 30.0 * frame as f64;
            assert!(off.abs() < 0.1, "frame {frame}: {heading:?}");
        }
        // A stationary camera has no heading.
        lines[7..].iter_mut().for_each(|line| line.parallax = Some(0.3));
        assert_eq!(of(&lines)[3], None);
        assert!(of(&lines)[2].is_some());
    }
}
