//! The camera of ordinary pictures: a pinhole with radial distortion (SIMPLE_RADIAL and RADIAL of COLMAP).
//!
//! ```text
//! p = (x/z, y/z),   s = 1 + k1 |p|² + k2 |p|⁴,   pixel = f s p + centre
//! ```

use gausset_core::matrix::unit;

use crate::pair_list::PairChoice;

/// Adjusted parameters: ln f, k1, k2.
pub(crate) const CAMERA_PARAMETERS: usize = 3;

/// A pinhole camera with radial distortion and the principal point at the centre of the image.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PictureCamera {
    /// Width of the image, px.
    pub width: u32,
    /// Height of the image, px.
    pub height: u32,
    /// Focal length, px.
    pub focal: f64,
    /// Distortion: k1, k2.
    pub radial: [f64; 2],
}

impl PictureCamera {
    /// A camera without distortion.
    #[must_use]
    pub fn new(width: u32, height: u32, focal: f64) -> Self {
        Self { width, height, focal, radial: [0.0; 2] }
    }

    fn centre(&self) -> [f64; 2] {
        [0.5 * f64::from(self.width), 0.5 * f64::from(self.height)]
    }

    /// Unit direction, in the axes of the camera, of the continuous pixel position (x, y).
    ///
    /// ```
    /// use gausset_sfm::reconstruction::PictureCamera;
    ///
    /// let camera = PictureCamera { radial: [-0.1, 0.02], ..PictureCamera::new(640, 480, 500.0) };
    /// let [x, y, z] = camera.bearing([600.0, 20.0]);
    /// let [u, v] = camera.project([3.0 * x, 3.0 * y, 3.0 * z]).unwrap();
    /// assert!((u - 600.0).abs() < 1e-9 && (v - 20.0).abs() < 1e-9);
    /// ```
    #[must_use]
    pub fn bearing(&self, pixel: [f64; 2]) -> [f64; 3] {
        let centre = self.centre();
        let distorted = [0, 1].map(|k| (pixel[k] - centre[k]) / self.focal);
        let length = libm::hypot(distorted[0], distorted[1]);
        let [k1, k2] = self.radial;
        // Newton's method on the radius: r s(r) = length.
        let mut r = length;
        for _ in 0..20 {
            let squared = r * r;
            let slope = 1.0 + squared * (3.0 * k1 + 5.0 * k2 * squared);
            if slope < 0.1 {
                break; // Beyond the fold of the distortion.
            }
            let step = (r * (1.0 + squared * (k1 + k2 * squared)) - length) / slope;
            r -= step;
            if step.abs() < 1e-14 {
                break;
            }
        }
        let scale = if length > 1e-12 && r > 0.0 { r / length } else { 1.0 };
        unit([scale * distorted[0], scale * distorted[1], 1.0])
    }

    /// The continuous pixel position of a point in the axes of the camera; `None` behind it.
    #[must_use]
    pub fn project(&self, [x, y, z]: [f64; 3]) -> Option<[f64; 2]> {
        let centre = self.centre();
        (z > 0.0).then(|| {
            let p = [x / z, y / z];
            let s = self.focal * self.stretch(p);
            [0, 1].map(|k| s * p[k] + centre[k])
        })
    }

    fn stretch(&self, p: [f64; 2]) -> f64 {
        let squared = p[0] * p[0] + p[1] * p[1];
        1.0 + squared * (self.radial[0] + squared * self.radial[1])
    }

    /// Derivatives of the pixel position of a point in front of the camera: by the point, and by [ln f, k1, k2].
    pub(crate) fn jacobians(&self, [x, y, z]: [f64; 3]) -> ([[f64; 3]; 2], [[f64; CAMERA_PARAMETERS]; 2]) {
        let p = [x / z, y / z];
        let squared = p[0] * p[0] + p[1] * p[1];
        let s = self.stretch(p);
        // ds/dp = 2 p (k1 + 2 k2 |p|²).
        let growth = 2.0 * (self.radial[0] + 2.0 * squared * self.radial[1]);
        let by_point = [0, 1].map(|k| {
            let by_p: [f64; 2] = std::array::from_fn(|l| {
                self.focal * (f64::from(u8::from(k == l)) * s + growth * p[k] * p[l])
            });
            [by_p[0] / z, by_p[1] / z, -(by_p[0] * p[0] + by_p[1] * p[1]) / z]
        });
        let by_camera =
            p.map(|v| [self.focal * s * v, self.focal * squared * v, self.focal * squared * squared * v]);
        (by_point, by_camera)
    }

    /// The camera after a step of its parameters.
    pub(crate) fn moved(&self, [log_focal, k1, k2]: [f64; CAMERA_PARAMETERS]) -> Self {
        let radial = [self.radial[0] + k1, self.radial[1] + k2];
        Self { focal: self.focal * libm::exp(log_focal), radial, ..*self }
    }

    /// Longest side, px.
    pub(crate) fn longest_side(&self) -> f64 {
        f64::from(self.width.max(self.height))
    }
}

/// What is known of a camera before the reconstruction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CameraPrior {
    /// Focal length of the metadata, px.
    pub focal: Option<f64>,
    /// Number of distortion coefficients that are estimated: 0 to 2.
    pub coefficients: usize,
}

/// The cameras of a set of pictures.
#[derive(Clone, Debug, PartialEq)]
pub struct Pictures {
    /// The cameras, with a first guess of their focal lengths.
    pub cameras: Vec<PictureCamera>,
    /// What is known of each.
    pub priors: Vec<CameraPrior>,
    /// Index of the camera of each picture.
    pub camera_of: Vec<u32>,
    /// Which pairs are matched.
    pub pairs: PairChoice,
    /// Pairs of pictures that were taken near each other: [`PairChoice::Auto`] has them even if others look more alike.
    pub near: Vec<[usize; 2]>,
}

impl Pictures {
    pub(crate) fn camera(&self, frame: usize) -> &PictureCamera {
        &self.cameras[self.camera_of[frame] as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jacobians_are_finite_differences() {
        let camera = PictureCamera { radial: [-0.12, 0.03], ..PictureCamera::new(800, 600, 700.0) };
        let point = [0.7, -0.4, 2.1];
        let (by_point, by_camera) = camera.jacobians(point);
        let step = 1e-6;
        for l in 0..3 {
            let at = |sign: f64| {
                let mut point = point;
                point[l] += sign * step;
                camera.project(point).unwrap()
            };
            let of_camera = |sign: f64| {
                let mut by = [0.0; CAMERA_PARAMETERS];
                by[l] = sign * step;
                camera.moved(by).project(point).unwrap()
            };
            for k in 0..2 {
                let slope = (at(1.0)[k] - at(-1.0)[k]) / (2.0 * step);
                assert!((by_point[k][l] - slope).abs() < 1e-5 * (1.0 + slope.abs()), "{k} {l}");
                let slope = (of_camera(1.0)[k] - of_camera(-1.0)[k]) / (2.0 * step);
                assert!((by_camera[k][l] - slope).abs() < 1e-5 * (1.0 + slope.abs()), "{k} {l}");
            }
        }
    }

    #[test]
    fn a_bearing_beyond_the_fold_is_finite() {
        let camera = PictureCamera { radial: [-0.8, 0.0], ..PictureCamera::new(800, 600, 300.0) };
        assert!(camera.bearing([0.0, 0.0]).iter().all(|v| v.is_finite()));
    }
}
