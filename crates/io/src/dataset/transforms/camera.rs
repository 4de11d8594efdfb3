//! From the intrinsics of a `transforms.json` to a camera.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use std::f64::consts::PI;

use super::{Intrinsics, excerpt};
use crate::dataset::camera_model::{CameraModel, SourceCamera};
use crate::dataset::error::DatasetProblem;

impl Intrinsics {
    /// These values, with missing ones taken from `general`.
    #[must_use]
    pub fn with_defaults(&self, general: &Self) -> Self {
        // A focal length given here as an angle takes precedence over one in pixels there.
        let own_focal = self.fl_x.is_some() || self.camera_angle_x.is_some() || self.x_fov.is_some();
        let from = |own: Option<f64>, other: Option<f64>| own.or(other);
        let focal = |own: Option<f64>, other: Option<f64>| own.or(other.filter(|_| !own_focal));
        let mut k = self.k;
        k.iter_mut().zip(general.k).for_each(|(own, other)| *own = from(*own, other));
        let mut f_theta = self.f_theta;
        f_theta.iter_mut().zip(general.f_theta).for_each(|(own, other)| *own = from(*own, other));
        Self {
            fl_x: focal(self.fl_x, general.fl_x),
            fl_y: focal(self.fl_y, general.fl_y),
            camera_angle_x: focal(self.camera_angle_x, general.camera_angle_x),
            camera_angle_y: focal(self.camera_angle_y, general.camera_angle_y),
            x_fov: focal(self.x_fov, general.x_fov),
            y_fov: focal(self.y_fov, general.y_fov),
            cx: from(self.cx, general.cx),
            cy: from(self.cy, general.cy),
            w: from(self.w, general.w),
            h: from(self.h, general.h),
            k,
            p1: from(self.p1, general.p1),
            p2: from(self.p2, general.p2),
            camera_model: self.camera_model.clone().or_else(|| general.camera_model.clone()),
            is_fisheye: self.is_fisheye.or(general.is_fisheye),
            f_theta,
            is_spherical: self.is_spherical.or(general.is_spherical),
        }
    }

    /// Whether the focal length is given only as an angle, without the keys that programs other than Blender's script
    /// write.
    #[must_use]
    pub fn is_blender_style(&self) -> bool {
        let angle = Self {
            camera_angle_x: self.camera_angle_x,
            camera_angle_y: self.camera_angle_y,
            ..Self::default()
        };
        self.camera_angle_x.is_some() && *self == angle
    }

    /// The camera model in COLMAP's spelling, if one is named: `Pinhole` is PINHOLE.
    fn model_name(&self) -> Option<String> {
        let name = self.camera_model.as_deref()?.trim();
        Some(name.to_ascii_uppercase().replace(['-', ' '], "_")).filter(|name| !name.is_empty())
    }

    /// Whether the pictures are panoramas.
    #[must_use]
    pub fn is_panorama(&self) -> bool {
        let model = self.model_name();
        matches!(model.as_deref(), Some("EQUIRECTANGULAR" | "EQUIRECT" | "SPHERICAL" | "LATLONG"))
            || (self.is_spherical == Some(true) && model.is_none())
    }

    /// The camera of an image; `stored` is its size if the file has none.
    ///
    /// Defaults: `fl_y` = `fl_x`, principal point = centre, distortion = 0. Without distortion the camera is a PINHOLE;
    /// a `k3` makes a perspective camera FULL_OPENCV, the smallest model that has it.
    ///
    /// # Errors
    /// There is no focal length, the `camera_model` is unknown or unsupported, or values are invalid.
    pub fn camera(&self, id: u32, stored: [u32; 2]) -> Result<SourceCamera, DatasetProblem> {
        let side = |name, value: Option<f64>, stored: u32| match value {
            None => Ok(u64::from(stored)),
            Some(v) if v.fract() == 0.0 && (1.0..1e9).contains(&v) => Ok(v as u64),
            Some(found) => Err(DatasetProblem::Value { name, found, expected: "a whole number of px" }),
        };
        let (width, height) = (side("w", self.w, stored[0])?, side("h", self.h, stored[1])?);
        let (w, h) = (width as f64, height as f64);
        let make = |model, params| Ok(SourceCamera::new(id, model, width, height, params)?);
        if self.is_panorama() {
            return make(CameraModel::Equirectangular, vec![w, h]);
        }
        let centre = [self.cx.unwrap_or(0.5 * w), self.cy.unwrap_or(0.5 * h)];
        if self.f_theta.iter().any(Option::is_some) {
            let focal = self.f_theta_focal()?;
            return make(CameraModel::OpenCvFisheye, [&[focal, focal], &centre, &[0.0; 4][..]].concat());
        }
        let model = match (self.model_name(), self.is_fisheye) {
            (Some(name), _) => name,
            (None, Some(true)) => "OPENCV_FISHEYE".to_owned(),
            (None, _) => "OPENCV".to_owned(),
        };
        let [fx, fy] = self.focal(w, h)?;
        let with = |rest: &[f64]| [&[fx, fy], &centre, rest].concat();
        let k = self.k.map(|k| k.unwrap_or(0.0));
        let (p1, p2) = (self.p1.unwrap_or(0.0), self.p2.unwrap_or(0.0));
        match model.as_str() {
            "OPENCV_FISHEYE" | "FISHEYE" | "SIMPLE_RADIAL_FISHEYE" | "RADIAL_FISHEYE" => {
                make(CameraModel::OpenCvFisheye, with(&k[..4]))
            }
            "FULL_OPENCV" => {
                make(CameraModel::FullOpenCv, with(&[k[0], k[1], p1, p2, k[2], k[3], k[4], k[5]]))
            }
            "OPENCV" | "PINHOLE" | "SIMPLE_PINHOLE" | "SIMPLE_RADIAL" | "RADIAL" | "PERSPECTIVE" => {
                if k[3] != 0.0 {
                    let expected = "0 for a perspective camera; undistort the pictures first";
                    return Err(DatasetProblem::Value { name: "k4", found: k[3], expected });
                }
                if k[2] != 0.0 {
                    make(CameraModel::FullOpenCv, with(&[k[0], k[1], p1, p2, k[2], 0.0, 0.0, 0.0]))
                } else if [k[0], k[1], p1, p2] != [0.0; 4] {
                    make(CameraModel::OpenCv, with(&[k[0], k[1], p1, p2]))
                } else {
                    make(CameraModel::Pinhole, with(&[]))
                }
            }
            _ => {
                let name = excerpt(self.camera_model.as_deref().unwrap_or_default());
                Err(DatasetProblem::UnknownModelName { name })
            }
        }
    }

    /// Focal lengths in px of an image of `w` x `h` px. Of several spellings the order is that of instant-ngp: `x_fov`
    /// in degrees, `fl_x`, `camera_angle_x` in radians; one axis stands for both.
    fn focal(&self, w: f64, h: f64) -> Result<[f64; 2], DatasetProblem> {
        let axis = |degrees: (&'static str, Option<f64>),
                    px: Option<f64>,
                    radians: (&'static str, Option<f64>),
                    size: f64| {
            let (name, angle, expected) = match (degrees.1, px, radians.1) {
                (Some(angle), ..) => (degrees.0, angle.to_radians(), "an angle in 0..180 degrees"),
                (None, Some(focal), _) => return Ok(Some(focal)),
                (None, None, Some(angle)) => (radians.0, angle, "an angle in 0..π radians"),
                (None, None, None) => return Ok(None),
            };
            if angle > 0.0 && angle < PI {
                return Ok(Some(0.5 * size / libm::tan(0.5 * angle)));
            }
            let found = degrees.1.unwrap_or(angle);
            Err(DatasetProblem::Value { name, found, expected })
        };
        let fx = axis(("x_fov", self.x_fov), self.fl_x, ("camera_angle_x", self.camera_angle_x), w)?;
        // A focal length in px is of both axes, whatever the angle of the other is.
        let angle_y = self.camera_angle_y.filter(|_| self.fl_x.is_none());
        let fy = axis(("y_fov", self.y_fov), self.fl_y, ("camera_angle_y", angle_y), h)?;
        match (fx, fy) {
            (Some(fx), fy) => Ok([fx, fy.unwrap_or(fx)]),
            (None, Some(fy)) => Ok([fy, fy]),
            (None, None) => Err(DatasetProblem::MissingValue("the focal length (fl_x or camera_angle_x)")),
        }
    }

    /// Focal length in px of an f-theta lens of degree 1: angle from the axis = `p1` · distance from the centre in px.
    fn f_theta_focal(&self) -> Result<f64, DatasetProblem> {
        const NAMES: [&str; 5] = ["ftheta_p0", "ftheta_p1", "ftheta_p2", "ftheta_p3", "ftheta_p4"];
        let values = self.f_theta.map(|p| p.unwrap_or(0.0));
        for (index, (name, found)) in NAMES.into_iter().zip(values).enumerate() {
            if index != 1 && found != 0.0 {
                let expected =
                    "0: of f-theta lenses only those of degree 1 are read; undistort the pictures first";
                return Err(DatasetProblem::Value { name, found, expected });
            }
        }
        Ok(1.0 / values[1])
    }
}
