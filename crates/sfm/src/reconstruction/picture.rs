//! The cameras of ordinary pictures, with the formulas of COLMAP.
//!
//! ```text
//! perspective: p = (x/z, y/z),  d = s p + t,  s = 1 + k1 |p|² + k2 |p|⁴
//!              t = (2 p1 px py + p2 (|p|² + 2 px²),  p1 (|p|² + 2 py²) + 2 p2 px py)
//! fisheye:     d = (x, y) / r · θ (1 + k1 θ² + k2 θ⁴ + k3 θ⁶ + k4 θ⁸),  r = |(x, y)|,  θ = atan2(r, z)
//! pixel = f (dx, a dy) + centre
//! ```

use gausset_core::matrix::unit;
use gausset_io::dataset::camera_model::CameraModelError;
use gausset_io::dataset::{CameraModel, SourceCamera};

use crate::pair_list::PairChoice;

/// Adjusted parameters: ln f, the four of the distortion, ln a.
pub(crate) const CAMERA_PARAMETERS: usize = 6;
/// Standard deviations that are expected of the distortion (perspective: k1, k2, p1, p2; fisheye: k1 to k4) and of ln a.
const PERSPECTIVE_DEVIATIONS: [f64; 5] = [0.3, 0.3, 0.02, 0.02, 0.02];
const FISHEYE_DEVIATIONS: [f64; 5] = [0.3, 0.3, 0.1, 0.1, 0.02];
/// Focal length without any information, relative to the longest side: that of COLMAP; for fisheye lenses, one that sees 115
/// degrees along that side.
pub(crate) const DEFAULT_FOCAL: f64 = 1.2;
const DEFAULT_FISHEYE_FOCAL: f64 = 0.5;
/// Focal lengths to try where pairs do not tell them, relative to the longest side, and their number.
pub(crate) const FOCALS_TRIED: usize = 5;
const PERSPECTIVE_FOCALS_TRIED: [f64; FOCALS_TRIED] = [DEFAULT_FOCAL, 0.6, 0.8, 1.0, 1.8];
const FISHEYE_FOCALS_TRIED: [f64; FOCALS_TRIED] = [DEFAULT_FISHEYE_FOCAL, 0.32, 0.4, 0.65, 0.9];

/// A camera with its principal point at the centre of the image.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PictureCamera {
    /// Width of the image, px.
    pub width: u32,
    /// Height of the image, px.
    pub height: u32,
    /// How it projects, and which parameters are estimated: `SIMPLE_PINHOLE`, `PINHOLE`, `SIMPLE_RADIAL`, `RADIAL`, `OPENCV`
    /// or `OPENCV_FISHEYE`; others are not supported.
    pub model: CameraModel,
    /// Focal length along x, px.
    pub focal: f64,
    /// Focal length along y, relative to that along x.
    pub aspect: f64,
    /// Distortion: k1, k2, p1, p2; of a fisheye lens k1, k2, k3, k4.
    pub distortion: [f64; 4],
}

/// Magnification along the radius in the corners, relative to the centre, below which a lens has two parameters of distortion:
/// phones have 0.9 and more, action cameras 0.5.
const STRONG_DISTORTION: f64 = 0.7;

impl PictureCamera {
    /// A `SIMPLE_RADIAL` camera, at first without distortion.
    #[must_use]
    pub fn new(width: u32, height: u32, focal: f64) -> Self {
        let model = CameraModel::SimpleRadial;
        Self { width, height, model, focal, aspect: 1.0, distortion: [0.0; 4] }
    }

    /// The camera as models of COLMAP have it.
    ///
    /// # Errors
    /// A parameter that is not finite or out of range, an image without pixels, another [`Self::model`].
    pub fn source(&self, id: u32) -> Result<SourceCamera, CameraModelError> {
        let [cx, cy] = self.centre();
        let distortion = self.free()[1..CAMERA_PARAMETERS - 1].iter().take_while(|is_free| **is_free).count();
        let mut params = vec![self.focal];
        if !self.model.has_single_focal() {
            params.push(self.focal * self.aspect);
        }
        params.extend([cx, cy]);
        params.extend(&self.distortion[..distortion]);
        SourceCamera::new(id, self.model, self.width.into(), self.height.into(), params)
    }

    /// Whether the lens compresses the corners so much that one parameter of distortion is too few.
    pub(crate) fn needs_second_radial(&self) -> bool {
        let [cx, cy] = self.centre();
        let radius = self.radius_before(libm::hypot(cx, cy) / self.focal);
        let (stretch, growth) = self.stretch(radius * radius);
        self.model == CameraModel::SimpleRadial
            && stretch + 2.0 * radius * radius * growth < STRONG_DISTORTION
    }

    fn centre(&self) -> [f64; 2] {
        [0.5 * f64::from(self.width), 0.5 * f64::from(self.height)]
    }

    pub(crate) fn is_fisheye(&self) -> bool {
        self.model == CameraModel::OpenCvFisheye
    }

    /// Which of the adjusted parameters the model has.
    pub(crate) fn free(&self) -> [bool; CAMERA_PARAMETERS] {
        let (distortion, has_aspect) = match self.model {
            CameraModel::SimpleRadial => (1, false),
            CameraModel::Radial => (2, false),
            CameraModel::OpenCv | CameraModel::OpenCvFisheye => (4, true),
            model => (0, model == CameraModel::Pinhole),
        };
        std::array::from_fn(|k| k <= distortion || (k == CAMERA_PARAMETERS - 1 && has_aspect))
    }

    /// Focal length without any information, px.
    pub(crate) fn default_focal(&self) -> f64 {
        self.longest_side() * if self.is_fisheye() { DEFAULT_FISHEYE_FOCAL } else { DEFAULT_FOCAL }
    }

    /// Focal lengths to try where pairs do not tell them, px; the default first.
    pub(crate) fn focals_tried(&self) -> [f64; FOCALS_TRIED] {
        let relative = if self.is_fisheye() { FISHEYE_FOCALS_TRIED } else { PERSPECTIVE_FOCALS_TRIED };
        relative.map(|focal| focal * self.longest_side())
    }

    /// Standard deviations that are expected of the distortion and of ln a.
    pub(crate) fn deviations(&self) -> [f64; 5] {
        if self.is_fisheye() { FISHEYE_DEVIATIONS } else { PERSPECTIVE_DEVIATIONS }
    }

    /// Values of the adjusted parameters.
    pub(crate) fn parameters(&self) -> [f64; CAMERA_PARAMETERS] {
        let [a, b, c, d] = self.distortion;
        [libm::log(self.focal), a, b, c, d, libm::log(self.aspect)]
    }

    /// Unit direction, in the axes of the camera, of the continuous pixel position (x, y).
    ///
    /// ```
    /// use gausset_io::dataset::CameraModel;
    /// use gausset_sfm::reconstruction::PictureCamera;
    ///
    /// for model in [CameraModel::OpenCv, CameraModel::OpenCvFisheye] {
    ///     let distortion = [-0.1, 0.02, 1e-3, -2e-3];
    ///     let camera = PictureCamera { model, distortion, aspect: 1.01, ..PictureCamera::new(640, 480, 500.0) };
    ///     let [x, y, z] = camera.bearing([600.0, 20.0]);
    ///     let [u, v] = camera.project([3.0 * x, 3.0 * y, 3.0 * z]).unwrap();
    ///     assert!((u - 600.0).abs() < 1e-9 && (v - 20.0).abs() < 1e-9);
    /// }
    /// ```
    #[must_use]
    pub fn bearing(&self, pixel: [f64; 2]) -> [f64; 3] {
        let centre = self.centre();
        let scale = [self.focal, self.focal * self.aspect];
        let distorted = [0, 1].map(|k| (pixel[k] - centre[k]) / scale[k]);
        if self.is_fisheye() {
            let length = libm::hypot(distorted[0], distorted[1]);
            let angle = self.radius_before(length);
            let angle = if angle > 0.0 { angle } else { length }.min(MAX_FISHEYE_ANGLE);
            let across = if length > 1e-12 { libm::sin(angle) / length } else { 1.0 };
            return unit([across * distorted[0], across * distorted[1], libm::cos(angle)]);
        }
        let mut p = self.without_radial(distorted);
        if self.distortion[2..] != [0.0; 2] {
            // The tangential part is small: its value at the last estimate is taken off, as long as that converges.
            let mut last = f64::INFINITY;
            for _ in 0..20 {
                let shift = self.tangential(p);
                let next = self.without_radial([0, 1].map(|k| distorted[k] - shift[k]));
                let step = libm::hypot(next[0] - p[0], next[1] - p[1]);
                if step.is_nan() || step >= last {
                    break;
                }
                (p, last) = (next, step);
            }
        }
        unit([p[0], p[1], 1.0])
    }

    /// The point that radial distortion moves to this one.
    fn without_radial(&self, distorted: [f64; 2]) -> [f64; 2] {
        let length = libm::hypot(distorted[0], distorted[1]);
        let r = self.radius_before(length);
        let scale = if length > 1e-12 && r > 0.0 { r / length } else { 1.0 };
        distorted.map(|v| scale * v)
    }

    /// The radius (of a fisheye lens: the angle) that radial distortion turns into `length`, by Newton's method.
    fn radius_before(&self, length: f64) -> f64 {
        let mut r = length;
        for _ in 0..20 {
            let (stretch, growth) = self.stretch(r * r);
            let slope = stretch + 2.0 * r * r * growth;
            if slope < 0.1 {
                break; // Beyond the fold of the distortion.
            }
            let step = (r * stretch - length) / slope;
            r -= step;
            if step.abs() < 1e-14 {
                break;
            }
        }
        r
    }

    /// The factor s of radial distortion at a squared radius, or at a squared angle, and its derivative by that.
    fn stretch(&self, squared: f64) -> (f64, f64) {
        let [k1, k2, k3, k4] = self.distortion;
        let [k3, k4] = if self.is_fisheye() { [k3, k4] } else { [0.0; 2] };
        let s = 1.0 + squared * (k1 + squared * (k2 + squared * (k3 + squared * k4)));
        (s, k1 + squared * (2.0 * k2 + squared * (3.0 * k3 + squared * 4.0 * k4)))
    }

    fn tangential(&self, [x, y]: [f64; 2]) -> [f64; 2] {
        let [_, _, p1, p2] = self.distortion;
        let squared = x * x + y * y;
        [2.0 * p1 * x * y + p2 * (squared + 2.0 * x * x), p1 * (squared + 2.0 * y * y) + 2.0 * p2 * x * y]
    }

    /// The continuous pixel position of a point in the axes of the camera; `None` behind it.
    #[must_use]
    pub fn project(&self, [x, y, z]: [f64; 3]) -> Option<[f64; 2]> {
        if z.is_nan() || z <= 0.0 {
            return None;
        }
        let d = if self.is_fisheye() {
            let r = libm::hypot(x, y);
            let angle = libm::atan2(r, z);
            let scale = if r > 1e-9 * z { angle * self.stretch(angle * angle).0 / r } else { 1.0 / z };
            [scale * x, scale * y]
        } else {
            let p = [x / z, y / z];
            let (s, shift) = (self.stretch(p[0] * p[0] + p[1] * p[1]).0, self.tangential(p));
            [0, 1].map(|k| s * p[k] + shift[k])
        };
        let centre = self.centre();
        Some([self.focal * d[0] + centre[0], self.focal * self.aspect * d[1] + centre[1]])
    }

    /// Derivatives of the pixel position of a point in front of the camera: by the point, and by the adjusted parameters.
    pub(crate) fn jacobians(&self, point: [f64; 3]) -> ([[f64; 3]; 2], [[f64; CAMERA_PARAMETERS]; 2]) {
        let (d, by_point, by_distortion) =
            if self.is_fisheye() { self.fisheye_jacobians(point) } else { self.perspective_jacobians(point) };
        let scale = [self.focal, self.focal * self.aspect];
        let by_camera = [0, 1].map(|k| {
            let [a, b, c, e] = by_distortion.map(|by| scale[k] * by[k]);
            let own = scale[k] * d[k];
            [own, a, b, c, e, if k == 1 { own } else { 0.0 }]
        });
        ([0, 1].map(|k| by_point[k].map(|v| scale[k] * v)), by_camera)
    }

    /// The distorted position d, and its derivatives by the point and by each parameter of the distortion.
    fn perspective_jacobians(&self, [x, y, z]: [f64; 3]) -> DistortedPosition {
        let p = [x / z, y / z];
        let squared = p[0] * p[0] + p[1] * p[1];
        let (s, growth) = self.stretch(squared);
        let shift = self.tangential(p);
        let [_, _, p1, p2] = self.distortion;
        let cross = 2.0 * (p1 * p[0] + p2 * p[1]);
        let by_p = [
            [
                s + 2.0 * growth * p[0] * p[0] + 2.0 * p1 * p[1] + 6.0 * p2 * p[0],
                2.0 * growth * p[0] * p[1] + cross,
            ],
            [
                2.0 * growth * p[0] * p[1] + cross,
                s + 2.0 * growth * p[1] * p[1] + 6.0 * p1 * p[1] + 2.0 * p2 * p[0],
            ],
        ];
        let by_point = by_p.map(|by| [by[0] / z, by[1] / z, -(by[0] * p[0] + by[1] * p[1]) / z]);
        let both = 2.0 * p[0] * p[1];
        let by_distortion = [
            p.map(|v| squared * v),
            p.map(|v| squared * squared * v),
            [both, squared + 2.0 * p[1] * p[1]],
            [squared + 2.0 * p[0] * p[0], both],
        ];
        ([0, 1].map(|k| s * p[k] + shift[k]), by_point, by_distortion)
    }

    fn fisheye_jacobians(&self, [x, y, z]: [f64; 3]) -> DistortedPosition {
        let r = libm::hypot(x, y);
        if r <= 1e-9 * z {
            let by_point = [[1.0 / z, 0.0, -x / (z * z)], [0.0, 1.0 / z, -y / (z * z)]];
            return ([x / z, y / z], by_point, [[0.0; 2]; 4]);
        }
        let way = [x / r, y / r];
        let angle = libm::atan2(r, z);
        let squared = angle * angle;
        let (s, growth) = self.stretch(squared);
        let (distorted, slope) = (angle * s, s + 2.0 * squared * growth);
        // The angle changes by (z dr - r dz)/(r² + z²), d along the way by the slope times that, across it like (x, y).
        let distance = r * r + z * z;
        let (along, across) = (slope * z / distance, distorted / r);
        let by_point = [0, 1].map(|k| {
            let by: [f64; 2] = std::array::from_fn(|l| {
                along * way[k] * way[l] + across * (f64::from(u8::from(k == l)) - way[k] * way[l])
            });
            [by[0], by[1], -slope * r / distance * way[k]]
        });
        let mut power = angle;
        let by_distortion = [(); 4].map(|()| {
            power *= squared;
            way.map(|v| power * v)
        });
        (way.map(|v| distorted * v), by_point, by_distortion)
    }

    /// The camera after a step of its parameters.
    pub(crate) fn moved(&self, [log_focal, a, b, c, d, log_aspect]: [f64; CAMERA_PARAMETERS]) -> Self {
        let step = [a, b, c, d];
        Self {
            focal: self.focal * libm::exp(log_focal),
            aspect: self.aspect * libm::exp(log_aspect),
            distortion: std::array::from_fn(|k| self.distortion[k] + step[k]),
            ..*self
        }
    }

    /// Longest side, px.
    pub(crate) fn longest_side(&self) -> f64 {
        f64::from(self.width.max(self.height))
    }
}

/// A distorted position, its derivatives by the point, and by each parameter of the distortion.
type DistortedPosition = ([f64; 2], [[f64; 3]; 2], [[f64; 2]; 4]);

/// Largest angle from the axis of a fisheye bearing, radians: [`PictureCamera::project`] ends at 90 degrees.
const MAX_FISHEYE_ANGLE: f64 = 1.57;

/// The cameras of a set of pictures.
#[derive(Clone, Debug, PartialEq)]
pub struct Pictures {
    /// The cameras, with a first guess of their focal lengths.
    pub cameras: Vec<PictureCamera>,
    /// Focal length of the metadata of each, px.
    pub known_focals: Vec<Option<f64>>,
    /// Reduction of the pictures of each before features were found (1 = none): errors are in px of the reduced picture.
    pub reductions: Vec<f64>,
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

    /// Angle that `factor * tolerance` px of the reduced picture of a camera span, radians.
    pub(crate) fn angle_of(&self, camera: usize, factor: f64, tolerance: f64) -> f64 {
        factor * (tolerance * self.reductions[camera]) / self.cameras[camera].focal.max(1.0)
    }

    /// The largest reduction.
    pub(crate) fn coarsest(&self) -> f64 {
        self.reductions.iter().copied().fold(1.0, f64::max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn camera(model: CameraModel) -> PictureCamera {
        let camera = PictureCamera { model, ..PictureCamera::new(800, 600, 700.0) };
        let values = [0.0, -0.12, 0.03, 4e-3, -6e-3, 0.02];
        let free = camera.free();
        camera.moved(std::array::from_fn(|k| if free[k] { values[k] } else { 0.0 }))
    }

    #[test]
    fn jacobians_are_finite_differences() {
        let models = [CameraModel::Radial, CameraModel::OpenCv, CameraModel::OpenCvFisheye];
        for (model, point) in models.into_iter().flat_map(|m| [(m, [0.7, -0.4, 2.1]), (m, [1e-12, 0.0, 2.0])])
        {
            let camera = camera(model);
            let (by_point, by_camera) = camera.jacobians(point);
            let step = 1e-6;
            for l in 0..CAMERA_PARAMETERS {
                let at = |sign: f64| {
                    let mut point = point;
                    point[l % 3] += sign * step;
                    camera.project(point).unwrap()
                };
                let of_camera = |sign: f64| {
                    let mut by = [0.0; CAMERA_PARAMETERS];
                    by[l] = sign * step;
                    camera.moved(by).project(point).unwrap()
                };
                for k in 0..2 {
                    let slope = (at(1.0)[k] - at(-1.0)[k]) / (2.0 * step);
                    assert!(
                        (by_point[k][l % 3] - slope).abs() < 1e-5 * (1.0 + slope.abs()),
                        "{model:?} {k} {l}"
                    );
                    let slope = (of_camera(1.0)[k] - of_camera(-1.0)[k]) / (2.0 * step);
                    assert!(
                        (by_camera[k][l] - slope).abs() < 1e-5 * (1.0 + slope.abs()),
                        "{model:?} {k} {l}"
                    );
                }
            }
        }
    }

    #[test]
    fn pixels_are_those_of_the_dataset_reader() {
        let models =
            [CameraModel::Pinhole, CameraModel::Radial, CameraModel::OpenCv, CameraModel::OpenCvFisheye];
        for model in models {
            let camera = camera(model);
            let source = camera.source(1).unwrap();
            for point in [[0.3, -0.2, 1.0], [-0.5, 0.4, 1.3], [0.0, 0.0, 2.0]] {
                let (found, expected) =
                    (camera.project(point).unwrap(), source.lens().project(point).unwrap());
                assert!(
                    (0..2).all(|k| (found[k] - expected[k]).abs() < 1e-9),
                    "{model:?} {found:?} {expected:?}"
                );
            }
        }
    }

    #[test]
    fn a_bearing_beyond_the_fold_is_finite() {
        for model in [CameraModel::SimpleRadial, CameraModel::OpenCv, CameraModel::OpenCvFisheye] {
            let distortion = [-0.8, 0.0, 0.05, 0.05];
            let camera = PictureCamera { model, distortion, ..PictureCamera::new(800, 600, 300.0) };
            assert!(camera.bearing([0.0, 0.0]).iter().all(|v| v.is_finite()));
        }
    }
}
