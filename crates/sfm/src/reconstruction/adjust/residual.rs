//! The residual of an observation, and its Jacobian by pose and point.

use gausset_core::Pose;
use gausset_core::matrix::{cross, dot, norm, transpose_mul_vec};

use super::POSE_PARAMETERS;
use crate::reconstruction::picture::{CAMERA_PARAMETERS, PictureCamera};
use crate::reconstruction::two_view::tangents;

/// A residual of two components with its Jacobian.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LinearisedResidual {
    pub(super) residual: [f64; 2],
    pub(super) jacobian_pose: [[f64; POSE_PARAMETERS]; 2],
    pub(super) jacobian_point: [[f64; 3]; 2],
    /// By the parameters of the camera; 0 for panoramas.
    pub(super) jacobian_camera: [[f64; CAMERA_PARAMETERS]; 2],
    /// Huber weight.
    pub(super) weight: f64,
}

impl LinearisedResidual {
    /// `Jᵀ J` between the camera and the point.
    pub(super) fn camera_coupling(&self) -> [[f64; 3]; CAMERA_PARAMETERS] {
        std::array::from_fn(|k| {
            std::array::from_fn(|m| {
                self.weight
                    * (self.jacobian_camera[0][k] * self.jacobian_point[0][m]
                        + self.jacobian_camera[1][k] * self.jacobian_point[1][m])
            })
        })
    }
}

/// The residual of an observation, and its derivatives by a left twist of the pose and by the point.
pub(super) fn linearise(pose: &Pose, point: [f64; 3], bearing: [f64; 3], huber: f64) -> LinearisedResidual {
    let y = pose.apply(point);
    let distance = norm(y).max(1e-12);
    let unit = y.map(|v| v / distance);
    let across = tangents(bearing);
    let error = across.map(|u| dot(u, unit));
    // d(u · y/|y|)/dy = (u - (u · ŷ) ŷ)/|y|.
    let by_place = across.map(|u| {
        let along = dot(u, unit);
        std::array::from_fn(|k| (u[k] - along * unit[k]) / distance)
    });
    linearised(pose, y, error, by_place, huber)
}

/// A residual with its derivatives by a left twist of the pose and by the point, from those by the point in camera
/// axes, `y`.
fn linearised(
    pose: &Pose,
    y: [f64; 3],
    error: [f64; 2],
    by_place: [[f64; 3]; 2],
    huber: f64,
) -> LinearisedResidual {
    let by_pose = by_place.map(|d: [f64; 3]| {
        // y moves by ρ + φ × y, and d · (φ × y) = φ · (y × d).
        let turn = cross(y, d);
        [d[0], d[1], d[2], turn[0], turn[1], turn[2]]
    });
    let by_point = by_place.map(|d| transpose_mul_vec(&pose.rotation, d));
    let size = libm::sqrt(error[0] * error[0] + error[1] * error[1]);
    LinearisedResidual {
        residual: error,
        jacobian_pose: by_pose,
        jacobian_point: by_point,
        jacobian_camera: [[0.0; CAMERA_PARAMETERS]; 2],
        weight: if size > huber { huber / size } else { 1.0 },
    }
}

/// As [`linearise`], for a pixel of a picture: the residual is in px, times `scale`. Only `free` parameters of the camera are
/// adjusted. A point behind the camera has no influence.
pub(super) fn linearise_pixel(
    pose: &Pose,
    point: [f64; 3],
    (camera, scale): (&PictureCamera, f64),
    pixel: [f64; 2],
    (huber, free): (f64, [bool; CAMERA_PARAMETERS]),
) -> LinearisedResidual {
    let y = pose.apply(point);
    let Some(seen) = camera.project(y) else {
        let none = linearised(pose, y, [0.0; 2], [[0.0; 3]; 2], huber);
        return LinearisedResidual { weight: 0.0, ..none };
    };
    let (by_place, by_camera) = camera.jacobians(y);
    let by_place = by_place.map(|row| row.map(|by| scale * by));
    let mut by_camera = by_camera.map(|row| row.map(|by| scale * by));
    for row in &mut by_camera {
        row.iter_mut().zip(free).filter(|(_, is_free)| !is_free).for_each(|(by, _)| *by = 0.0);
    }
    let error = [0, 1].map(|k| scale * (seen[k] - pixel[k]));
    LinearisedResidual { jacobian_camera: by_camera, ..linearised(pose, y, error, by_place, huber) }
}

/// Huber loss of a pixel, px² times `scale²`. A point behind the camera counts as an error of a focal length.
pub(super) fn huber_loss_pixel(
    pose: &Pose,
    point: [f64; 3],
    (camera, scale): (&PictureCamera, f64),
    pixel: [f64; 2],
    huber: f64,
) -> f64 {
    let size = scale
        * match camera.project(pose.apply(point)) {
            Some([x, y]) => libm::hypot(x - pixel[0], y - pixel[1]),
            None => camera.focal,
        };
    if size > huber { huber * (2.0 * size - huber) } else { size * size }
}

/// Huber loss of an observation. A point behind counts as an error of 90 degrees.
pub(super) fn huber_loss(pose: &Pose, point: [f64; 3], bearing: [f64; 3], huber: f64) -> f64 {
    let y = pose.apply(point);
    let unit = y.map(|v| v / norm(y).max(1e-12));
    let size = if dot(unit, bearing) < 0.0 { 1.0 } else { norm(cross(unit, bearing)) };
    if size > huber { huber * (2.0 * size - huber) } else { size * size }
}

#[cfg(test)]
mod tests {
    use gausset_core::se3::{self, so3_exp};

    use super::*;
    use crate::reconstruction::two_view::tests::vector;

    #[test]
    fn derivatives_are_those_of_finite_differences() {
        for seed in 0..50 {
            let pose = Pose { rotation: so3_exp(vector(seed, 0, 0)), translation: vector(seed, 1, 0) };
            let point = vector(seed, 2, 0).map(|v| 4.0 * v);
            let y = pose.apply(point);
            let off = vector(seed, 3, 0);
            let bearing: [f64; 3] = std::array::from_fn(|k| y[k] / norm(y) + 0.3 * off[k]);
            let bearing = bearing.map(|v| v / norm(bearing));
            let row = linearise(&pose, point, bearing, 10.0);
            let h = 1e-6;
            for k in 0..POSE_PARAMETERS {
                let mut twist = [0.0; POSE_PARAMETERS];
                twist[k] = h;
                let ahead = linearise(&se3::exp(twist).compose(&pose), point, bearing, 10.0);
                twist[k] = -h;
                let behind = linearise(&se3::exp(twist).compose(&pose), point, bearing, 10.0);
                for e in 0..2 {
                    let numeric = (ahead.residual[e] - behind.residual[e]) / (2.0 * h);
                    assert!(
                        (numeric - row.jacobian_pose[e][k]).abs() < 1e-6 * (1.0 + numeric.abs()),
                        "{seed} {k}"
                    );
                }
            }
            for k in 0..3 {
                let moved = |by: f64| {
                    let mut point = point;
                    point[k] += by;
                    linearise(&pose, point, bearing, 10.0).residual
                };
                let (ahead, behind) = (moved(h), moved(-h));
                for e in 0..2 {
                    let numeric = (ahead[e] - behind[e]) / (2.0 * h);
                    assert!(
                        (numeric - row.jacobian_point[e][k]).abs() < 1e-6 * (1.0 + numeric.abs()),
                        "{seed} {k}"
                    );
                }
            }
        }
    }
}
