//! From a pixel of a view to its direction, and from a direction to a pixel of a panorama.
//!
//! ```text
//! panorama axes p: x right, y down, z forward (towards the image centre)
//! camera axes   c: x right, y down, z forward (OpenCV, COLMAP)
//! p = Ry(yaw) · Rx(pitch) · Rz(roll) · c        yaw > 0 turns right, pitch > 0 looks up
//! lon = atan2(x, z), lat = atan2(-y, hypot(x, z))
//! u = (lon/π + 1) W/2,  v = (1/2 - lat/π) H      continuous, pixel (i, j) has its centre at (i + ½, j + ½)
//! ```
//! The same as COLMAP's camera model EQUIRECTANGULAR. Images and all exported poses use [`View::pano_from_camera`].

use std::f64::consts::PI;

use gausset_core::se3::{self, Mat3};
use serde::{Deserialize, Serialize};

/// A perspective view of a panorama: square pixels, principal point at the centre. Serialised under these names in the
/// description of a split.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct View {
    /// Name of the view and its folder: `view00`.
    pub name: String,
    /// Rotation to the right, degrees.
    pub yaw: f64,
    /// Rotation upwards, degrees.
    pub pitch: f64,
    /// Clockwise rotation of the camera seen from behind, degrees.
    pub roll: f64,
    /// Horizontal field of view, degrees.
    pub hfov: f64,
    /// Width in px.
    pub width: u32,
    /// Height in px.
    pub height: u32,
}

/// Sine and cosine of an angle in degrees, exact at multiples of 90.
#[must_use]
pub fn sin_cos_degrees(degrees: f64) -> (f64, f64) {
    let turn = degrees.rem_euclid(360.0);
    let quadrant = (turn / 90.0).round();
    let rest = (turn - 90.0 * quadrant).to_radians();
    let (s, c) = (libm::sin(rest), libm::cos(rest));
    match quadrant as u32 % 4 {
        0 => (s, c),
        1 => (c, -s),
        2 => (-s, -c),
        _ => (-c, s),
    }
}

/// Rotation about y (down): positive turns z towards x.
#[must_use]
pub fn rotation_y(degrees: f64) -> Mat3 {
    let (s, c) = sin_cos_degrees(degrees);
    [[c, 0.0, s], [0.0, 1.0, 0.0], [-s, 0.0, c]]
}

/// Rotation about x (right): positive turns z towards -y, upwards.
#[must_use]
pub fn rotation_x(degrees: f64) -> Mat3 {
    let (s, c) = sin_cos_degrees(degrees);
    [[1.0, 0.0, 0.0], [0.0, c, -s], [0.0, s, c]]
}

/// Rotation about z (forward).
#[must_use]
pub fn rotation_z(degrees: f64) -> Mat3 {
    let (s, c) = sin_cos_degrees(degrees);
    [[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]]
}

/// `Ry(yaw) · Rx(pitch) · Rz(roll)`.
#[must_use]
pub fn rotation(yaw: f64, pitch: f64, roll: f64) -> Mat3 {
    se3::mul(&se3::mul(&rotation_y(yaw), &rotation_x(pitch)), &rotation_z(roll))
}

impl View {
    /// Rotation from camera to panorama axes.
    #[must_use]
    pub fn pano_from_camera(&self) -> Mat3 {
        rotation(self.yaw, self.pitch, self.roll)
    }

    /// Focal length in px, the same along both axes.
    #[must_use]
    pub fn focal(&self) -> f64 {
        let (s, c) = sin_cos_degrees(0.5 * self.hfov);
        0.5 * f64::from(self.width) * c / s
    }

    /// Focal length for a film that is 36 mm along the longer side, as RealityCapture defines it.
    #[must_use]
    pub fn focal_36mm(&self) -> f64 {
        36.0 * self.focal() / f64::from(self.width.max(self.height))
    }

    /// Vertical field of view in degrees, computed from the tangent, not in proportion to the height.
    #[must_use]
    pub fn vfov(&self) -> f64 {
        2.0 * libm::atan(0.5 * f64::from(self.height) / self.focal()).to_degrees()
    }

    /// Direction in camera axes of the continuous point (x, y), not normalised.
    #[must_use]
    pub fn ray_in_camera(&self, x: f64, y: f64) -> [f64; 3] {
        let f = self.focal();
        [(x - 0.5 * f64::from(self.width)) / f, (y - 0.5 * f64::from(self.height)) / f, 1.0]
    }

    /// Direction in panorama axes of the continuous point (x, y), not normalised.
    #[must_use]
    pub fn ray_in_panorama(&self, x: f64, y: f64) -> [f64; 3] {
        se3::mul_vec(&self.pano_from_camera(), self.ray_in_camera(x, y))
    }

    /// Source pixels per output pixel at the centre of the view, for a panorama with `pano_width` pixels per 360
    /// degrees.
    #[must_use]
    pub fn minification(&self, pano_width: u32) -> f64 {
        f64::from(pano_width) / (2.0 * PI) / self.focal()
    }
}

/// Continuous coordinates of a direction in a full panorama of `width` x `height` px.
#[must_use]
pub fn equirect_from_direction(d: [f64; 3], width: f64, height: f64) -> [f64; 2] {
    let [x, y, z] = d;
    let lon = libm::atan2(x, z);
    let lat = libm::atan2(-y, libm::sqrt(x * x + z * z));
    [(lon / PI + 1.0) * 0.5 * width, (0.5 - lat / PI) * height]
}

/// Unit direction of the continuous point (u, v) in a full panorama.
#[must_use]
pub fn direction_from_equirect(u: f64, v: f64, width: f64, height: f64) -> [f64; 3] {
    let lon = (2.0 * u / width - 1.0) * PI;
    let lat = (0.5 - v / height) * PI;
    let (sin_lat, cos_lat) = (libm::sin(lat), libm::cos(lat));
    [cos_lat * libm::sin(lon), -sin_lat, cos_lat * libm::cos(lon)]
}

/// Rotation from the axes of a levelled panorama to those of the stored one, whose camera had this pitch and roll
/// (degrees): the inverse of `Rx(pitch) Rz(roll)`.
pub(crate) fn pano_from_level([pitch, roll]: [f64; 2]) -> Mat3 {
    se3::transpose(&se3::mul(&rotation_x(pitch), &rotation_z(roll)))
}

/// The views in the axes of a panorama whose camera had this pitch and roll (degrees), so that they look in the same
/// directions of the levelled panorama.
pub(crate) fn level_views(views: &[View], [pitch, roll]: [f64; 2]) -> Vec<View> {
    if pitch == 0.0 && roll == 0.0 {
        return views.to_vec();
    }
    let pano_from_level = pano_from_level([pitch, roll]);
    views
        .iter()
        .map(|view| {
            let r = se3::mul(&pano_from_level, &view.pano_from_camera());
            let (yaw, pitch, roll) = yaw_pitch_roll(&r);
            View { yaw, pitch, roll, ..view.clone() }
        })
        .collect()
}

/// Yaw, pitch and roll (degrees) of a rotation `Ry Rx Rz`.
#[must_use]
pub fn yaw_pitch_roll(r: &Mat3) -> (f64, f64, f64) {
    // Third column: (sin yaw cos pitch, -sin pitch, cos yaw cos pitch).
    let pitch = libm::atan2(-r[1][2], libm::sqrt(r[1][0] * r[1][0] + r[1][1] * r[1][1]));
    if pitch.abs() > 89.999_f64.to_radians() {
        // Straight up or down, yaw and roll have the same axis: the yaw takes the whole rotation.
        let yaw = libm::atan2(-r[2][0], r[0][0]);
        return (yaw.to_degrees(), pitch.to_degrees(), 0.0);
    }
    let yaw = libm::atan2(r[0][2], r[2][2]);
    let roll = libm::atan2(r[1][0], r[1][1]);
    (yaw.to_degrees(), pitch.to_degrees(), roll.to_degrees())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(yaw: f64, pitch: f64, roll: f64, hfov: f64, width: u32, height: u32) -> View {
        View { name: "v".into(), yaw, pitch, roll, hfov, width, height }
    }

    fn centre(v: &View) -> [f64; 2] {
        let ray = v.ray_in_camera(0.5 * f64::from(v.width), 0.5 * f64::from(v.height));
        equirect_from_direction(se3::mul_vec(&v.pano_from_camera(), ray), 360.0, 180.0)
    }

    #[test]
    fn known_directions_land_where_colmap_puts_them() {
        // pycolmap 4.2.1, EQUIRECTANGULAR, img_from_cam.
        let at = |d| equirect_from_direction(d, 8.0, 4.0);
        let near = |a: [f64; 2], b: [f64; 2]| (a[0] - b[0]).abs() + (a[1] - b[1]).abs() < 1e-12;
        assert!(near(at([0.0, 0.0, 1.0]), [4.0, 2.0]));
        assert!(near(at([1.0, 0.0, 0.0]), [6.0, 2.0]));
        assert!(near(at([0.0, -1.0, 1.0]), [4.0, 1.0]));
    }

    #[test]
    fn positive_pitch_looks_up_and_positive_yaw_to_the_right() {
        let [u, v] = centre(&view(90.0, 30.0, 0.0, 90.0, 64, 64));
        assert!((u - 270.0).abs() < 1e-9, "{u}");
        assert!((v - 60.0).abs() < 1e-9, "{v}");
    }

    #[test]
    fn a_clockwise_camera_turns_its_picture_counter_clockwise() {
        // The direction of the camera's right edge goes down in the panorama.
        let v = view(0.0, 0.0, 10.0, 90.0, 64, 64);
        let ray = v.ray_in_panorama(64.0, 32.0);
        assert!(ray[1] > 0.0);
    }

    #[test]
    fn the_vertical_field_of_view_follows_the_tangent() {
        // 1920x1080 at 90 degrees: 58.7, not 50.6.
        assert!((view(0.0, 0.0, 0.0, 90.0, 1920, 1080).vfov() - 58.715_507_8).abs() < 1e-6);
    }

    #[test]
    fn directions_and_coordinates_undo_each_other() {
        for (u, v) in [(0.1, 0.1), (3.0, 1.9), (7.9, 3.9), (4.0, 2.0)] {
            let back = equirect_from_direction(direction_from_equirect(u, v, 8.0, 4.0), 8.0, 4.0);
            assert!((back[0] - u).abs() + (back[1] - v).abs() < 1e-12);
        }
    }

    #[test]
    fn angles_undo_rotations() {
        for (yaw, pitch, roll) in [(0.0, 0.0, 0.0), (100.0, 30.0, -20.0), (-170.0, -80.0, 179.0)] {
            let (y, p, r) = yaw_pitch_roll(&rotation(yaw, pitch, roll));
            assert!((y - yaw).abs() + (p - pitch).abs() + (r - roll).abs() < 1e-9);
        }
        // Straight up: yaw and roll turn about the same axis.
        let r = rotation(30.0, 90.0, 0.0);
        let (y, p, roll) = yaw_pitch_roll(&r);
        let again = rotation(y, p, roll);
        assert!((0..3).all(|i| (0..3).all(|j| (again[i][j] - r[i][j]).abs() < 1e-9)));
    }

    #[test]
    fn level_views_of_a_tilted_panorama_look_where_the_world_is_level() {
        let at = |tilt: [f64; 2], yaw: f64, pitch: f64| {
            centre(&level_views(&[view(yaw, pitch, 0.0, 90.0, 64, 64)], tilt)[0])
        };
        let near = |a: [f64; 2], b: [f64; 2]| (a[0] - b[0]).abs() + (a[1] - b[1]).abs() < 1e-9;
        // One pixel per degree. The camera was pitched up by 20 degrees: the horizon ahead is 20 degrees below the
        // centre, behind it is 20 degrees above, and at the sides it is unchanged.
        assert!(near(at([20.0, 0.0], 0.0, 0.0), [180.0, 110.0]));
        assert!(
            near(at([20.0, 0.0], 180.0, 0.0), [360.0, 70.0])
                || near(at([20.0, 0.0], 180.0, 0.0), [0.0, 70.0])
        );
        assert!(near(at([20.0, 0.0], 90.0, 0.0), [270.0, 90.0]));
        assert!(near(at([20.0, 0.0], 0.0, 20.0), [180.0, 90.0]));
        // The camera was rolled clockwise by 10 degrees: the level right is 10 degrees above its own.
        assert!(near(at([0.0, 10.0], 90.0, 0.0), [270.0, 80.0]));
        assert!(near(at([0.0, 10.0], -90.0, 0.0), [90.0, 100.0]));
        assert!(near(at([0.0, 10.0], 0.0, 0.0), [180.0, 90.0]));
        // The roll of the view ahead compensates that of the camera.
        let ahead = &level_views(&[view(0.0, 0.0, 0.0, 90.0, 64, 64)], [0.0, 10.0])[0];
        assert!((ahead.roll + 10.0).abs() < 1e-9);
    }
}
