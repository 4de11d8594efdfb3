//! Which way is up in the saved scene.
//!
//! Splat files are looked at with y pointing down, as in COLMAP: common viewers take -y for up. A dataset's axes are
//! arbitrary, so the saved scene is turned by the smallest rotation that takes its up direction to -y.
//!
//! The up direction of a set of cameras is the mean of theirs, `-row 1` of each `camera_from_world` rotation (image y
//! points down). Where those cancel out, as for aerial photographs that look straight down from flights back and forth,
//! it is the direction that they look away from.

use gausset_core::Pose;
use gausset_core::se3::{self, IDENTITY3, Mat3};

use crate::words::Up;

/// What viewers take for up.
pub const SAVED_UP: [f64; 3] = [0.0, -1.0, 0.0];

/// Shorter mean directions of unit vectors do not tell a direction.
const SHORTEST_MEAN: f64 = 0.2;

/// The up direction of a scene in its dataset's axes, as a unit vector; `None` when the scene is saved as it is or
/// the cameras do not tell.
#[must_use]
pub fn direction(up: Up, camera_from_world: &[Pose]) -> Option<[f64; 3]> {
    match up {
        Up::Auto => of_cameras(camera_from_world),
        Up::X => Some([1.0, 0.0, 0.0]),
        Up::Y => Some([0.0, 1.0, 0.0]),
        Up::Z => Some([0.0, 0.0, 1.0]),
        Up::MinusX => Some([-1.0, 0.0, 0.0]),
        Up::MinusY => Some([0.0, -1.0, 0.0]),
        Up::MinusZ => Some([0.0, 0.0, -1.0]),
        Up::None => None,
    }
}

/// The mean up direction of cameras, or the mean direction that they look away from.
fn of_cameras(camera_from_world: &[Pose]) -> Option<[f64; 3]> {
    mean_of(camera_from_world, 1).or_else(|| mean_of(camera_from_world, 2))
}

/// The normalised mean of the negated axes `row` of cameras, `None` when they cancel out.
fn mean_of(camera_from_world: &[Pose], row: usize) -> Option<[f64; 3]> {
    let mut sum = [0.0; 3];
    for pose in camera_from_world {
        sum = std::array::from_fn(|k| sum[k] - pose.rotation[row][k]);
    }
    let length = se3::norm(sum);
    (length > SHORTEST_MEAN * camera_from_world.len() as f64).then(|| sum.map(|v| v / length))
}

/// The rotation `saved_from_dataset`.
#[must_use]
pub fn rotation(up: Up, camera_from_world: &[Pose]) -> Mat3 {
    direction(up, camera_from_world).map_or(IDENTITY3, |up| smallest_rotation(up, SAVED_UP))
}

/// The smallest rotation that takes unit vector `from` to unit vector `to`.
///
/// `R = I + [v]ₓ + [v]ₓ² / (1 + c)` with `v = from × to`, `c = from · to` (Rodrigues); exact for coordinate axes.
#[must_use]
pub fn smallest_rotation(from: [f64; 3], to: [f64; 3]) -> Mat3 {
    let v = se3::cross(from, to);
    let c = se3::dot(from, to);
    if c < -1.0 + 1e-12 {
        // Half a turn; about x unless that is the vector itself.
        let axis = if from[0].abs() < 0.9 { [1.0, 0.0, 0.0] } else { [0.0, 0.0, 1.0] };
        let along = se3::dot(axis, from);
        let normal: [f64; 3] = std::array::from_fn(|k| axis[k] - along * from[k]);
        let length = se3::norm(normal);
        let n = normal.map(|x| x / length);
        return std::array::from_fn(|i| std::array::from_fn(|j| 2.0 * n[i] * n[j] - IDENTITY3[i][j]));
    }
    let cross = [[0.0, -v[2], v[1]], [v[2], 0.0, -v[0]], [-v[1], v[0], 0.0]];
    let squared = se3::mul(&cross, &cross);
    std::array::from_fn(|i| {
        std::array::from_fn(|j| IDENTITY3[i][j] + cross[i][j] + squared[i][j] / (1.0 + c))
    })
}

/// A `camera_from_world` pose after the world was turned by `turned_from_world`.
#[must_use]
pub fn turned_pose(pose: &Pose, turned_from_world: &Mat3) -> Pose {
    let world_from_turned = se3::transpose(turned_from_world);
    Pose { rotation: se3::mul(&pose.rotation, &world_from_turned), translation: pose.translation }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn looking(down: [f64; 3], forward: [f64; 3]) -> Pose {
        Pose { rotation: [se3::cross(down, forward), down, forward], translation: [0.0; 3] }
    }

    fn close(a: [f64; 3], b: [f64; 3]) -> bool {
        (0..3).all(|k| (a[k] - b[k]).abs() < 1e-12)
    }

    #[test]
    fn the_up_direction_becomes_minus_y_whatever_it_was() {
        let s = 0.5f64.sqrt();
        for up in
            [[0.0, 0.0, 1.0], [0.0, 1.0, 0.0], [0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [s, 0.0, -s], [0.0, s, s]]
        {
            let r = smallest_rotation(up, SAVED_UP);
            assert!(close(se3::mul_vec(&r, up), SAVED_UP), "{up:?}");
            assert!(se3::orthonormality_error(&r) < 1e-12 && se3::determinant(&r) > 0.999, "{up:?}");
        }
        // Blender's z: a quarter turn about x, exactly.
        assert_eq!(rotation(Up::Z, &[]), [[1.0, 0.0, 0.0], [0.0, 0.0, -1.0], [0.0, 1.0, 0.0]]);
        assert_eq!(rotation(Up::MinusY, &[]), IDENTITY3);
        assert_eq!(rotation(Up::None, &[]), IDENTITY3);
    }

    #[test]
    fn level_cameras_tell_up_by_their_own() {
        // Two cameras that look at each other in a world with z up.
        let cameras =
            [looking([0.0, 0.0, -1.0], [1.0, 0.0, 0.0]), looking([0.0, 0.0, -1.0], [-1.0, 0.0, 0.0])];
        assert_eq!(direction(Up::Auto, &cameras), Some([0.0, 0.0, 1.0]));
    }

    #[test]
    fn cameras_that_look_straight_down_back_and_forth_tell_up_by_looking_away_from_it() {
        let cameras =
            [looking([0.0, -1.0, 0.0], [0.0, 0.0, -1.0]), looking([0.0, 1.0, 0.0], [0.0, 0.0, -1.0])];
        assert_eq!(direction(Up::Auto, &cameras), Some([0.0, 0.0, 1.0]));
        assert_eq!(direction(Up::Auto, &[]), None);
    }

    #[test]
    fn a_turned_camera_sees_a_turned_point_where_the_old_one_saw_the_old() {
        let pose = Pose::from_quaternion([0.5, 0.5, -0.5, 0.5], [1.0, 2.0, 3.0]).unwrap();
        let turn = smallest_rotation([0.6, 0.0, 0.8], SAVED_UP);
        let point = [0.3, -1.0, 2.0];
        let seen = turned_pose(&pose, &turn).apply(se3::mul_vec(&turn, point));
        assert!(close(seen, pose.apply(point)));
    }
}
