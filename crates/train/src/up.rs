//! Determines the up direction of the saved scene.
//!
//! Splat files are viewed with y pointing down, as in COLMAP: common viewers use -y as up. A dataset's axes are
//! arbitrary, so the saved scene is rotated by the smallest rotation that maps its up direction to -y.
//!
//! The up direction of a set of cameras is the mean of theirs, `-row 1` of each `camera_from_world` rotation (image y
//! points down). Of aerial photographs that look straight down (`nadir.rs`), and of cameras whose up directions
//! cancel out, it is the mean direction opposite to their viewing directions. A georeferenced dataset has z up.

use gausset_core::Pose;
use gausset_core::se3::{self, IDENTITY3, Mat3};
use gausset_core::splats_transform::rotation_between;
use gausset_io::dataset::Dataset;

use crate::nadir::look_straight_down;
use crate::option_values::Up;
use crate::view_pairs::point_stride;

/// The up direction of viewers.
pub const SAVED_UP: [f64; 3] = [0.0, -1.0, 0.0];

/// Minimum length of the mean of unit vectors that defines a direction.
const MIN_MEAN_LENGTH: f64 = 0.2;

/// The up direction of a scene in its dataset's axes, as a unit vector; `None` if the scene is saved unrotated or the
/// cameras do not define one.
#[must_use]
pub fn direction(up: Up, camera_from_world: &[Pose]) -> Option<[f64; 3]> {
    match up {
        Up::Auto => up_of_cameras(camera_from_world, &[]),
        Up::X => Some([1.0, 0.0, 0.0]),
        Up::Y => Some([0.0, 1.0, 0.0]),
        Up::Z => Some([0.0, 0.0, 1.0]),
        Up::MinusX => Some([-1.0, 0.0, 0.0]),
        Up::MinusY => Some([0.0, -1.0, 0.0]),
        Up::MinusZ => Some([0.0, 0.0, -1.0]),
        Up::None => None,
    }
}

/// As [`direction`], for a dataset: its georeference and its points count, too.
#[must_use]
pub fn direction_of(up: Up, dataset: &Dataset) -> Option<[f64; 3]> {
    let poses: Vec<Pose> = dataset.split.train.iter().map(|&index| dataset.images[index].pose).collect();
    match up {
        Up::Auto if dataset.georeference.is_some() => direction(Up::Z, &poses),
        Up::Auto => {
            let points = dataset.points.iter().step_by(point_stride(dataset));
            let points: Vec<[f64; 3]> = points.map(|point| point.position).collect();
            up_of_cameras(&poses, &points)
        }
        _ => direction(up, &poses),
    }
}

/// The mean up direction of cameras, or the mean direction opposite to their viewing directions.
fn up_of_cameras(camera_from_world: &[Pose], points: &[[f64; 3]]) -> Option<[f64; 3]> {
    let look_away = || mean_axis(camera_from_world, 2);
    if look_straight_down(camera_from_world, points) {
        return look_away();
    }
    mean_axis(camera_from_world, 1).or_else(look_away)
}

/// The normalised mean of the negated axes `row` of cameras; `None` if they cancel out.
fn mean_axis(camera_from_world: &[Pose], row: usize) -> Option<[f64; 3]> {
    let mut sum = [0.0; 3];
    for pose in camera_from_world {
        sum = std::array::from_fn(|k| sum[k] - pose.rotation[row][k]);
    }
    let length = se3::norm(sum);
    (length > MIN_MEAN_LENGTH * camera_from_world.len() as f64).then(|| sum.map(|v| v / length))
}

/// The rotation `saved_from_dataset`.
///
/// ```
/// use gausset_core::{Pose, matrix::mul_vec};
/// use gausset_train::{Up, up};
///
/// // In a dataset whose up is +z, +z becomes the up of viewers.
/// let saved_from_dataset = up::rotation(Up::Z, &[Pose::IDENTITY]);
/// let found = mul_vec(&saved_from_dataset, [0.0, 0.0, 1.0]);
/// assert!((0..3).all(|k| (found[k] - up::SAVED_UP[k]).abs() < 1e-12));
/// ```
#[must_use]
pub fn rotation(up: Up, camera_from_world: &[Pose]) -> Mat3 {
    direction(up, camera_from_world).map_or(IDENTITY3, saved_from)
}

/// As [`rotation`], for a dataset.
#[must_use]
pub fn rotation_of(up: Up, dataset: &Dataset) -> Mat3 {
    direction_of(up, dataset).map_or(IDENTITY3, saved_from)
}

fn saved_from(up: [f64; 3]) -> Mat3 {
    rotation_between(up, SAVED_UP)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn looking(down: [f64; 3], forward: [f64; 3]) -> Pose {
        Pose { rotation: [se3::cross(down, forward), down, forward], translation: [0.0; 3] }
    }

    #[test]
    fn the_up_direction_becomes_minus_y() {
        for up in [Up::X, Up::Y, Up::Z, Up::MinusX, Up::MinusY, Up::MinusZ] {
            let from = direction(up, &[]).unwrap();
            let to = se3::mul_vec(&rotation(up, &[]), from);
            assert!((0..3).all(|k| (to[k] - SAVED_UP[k]).abs() < 1e-12), "{up}: {to:?}");
        }
        // An up direction that is already correct, or must not be changed, keeps its bits.
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
}
