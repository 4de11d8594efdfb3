//! Projection and unprojection of all camera models, in f64.
//!
//! A ray (X, Y, Z) in camera axes (x right, y down, z forward) projects to the pixel `(fx x + cx, fy y + cy)`, where
//! (x, y) is the *distorted* point on the image plane. With (u, v) = (X/Z, Y/Z), r² = u² + v²:
//!
//! | family | (x, y) |
//! |---|---|
//! | perspective | (u, v) + d(u, v), d polynomial or rational in r² plus tangential terms |
//! | FOV | (u, v) · atan(2 r tan(ω/2)) / (r ω) (Devernay and Faugeras 2001) |
//! | fisheye | as perspective, but of (u, v) · θ/r, θ the angle from the axis (Kannala and Brandt 2006) |
//! | division | 2 (X, Y) / (Z + sqrt(Z² − 4 ρ² k)), ρ² = X² + Y² (Fitzgibbon 2001) |
//! | EUCM | (X, Y) / (α sqrt(β ρ² + Z²) + (1 − α) Z) (Khomutenko et al. 2016) |
//! | equirectangular | longitude and latitude |
//!
//! Distortion polynomials fold back at some radius, beyond which a wider angle would project closer to the centre
//! again; rays beyond that radius have no pixel. Formulas of the models: `colmap/sensor/models.h`.

use std::f64::consts::{FRAC_PI_2, PI};

use gausset_core::se3::{self, Mat3};

use super::camera_model::{CameraModel, SourceCamera};

/// Steps of the search for the radius at which a distortion folds back.
const RADIUS_SEARCH_STEPS: u32 = 512;
/// Widest angle from the axis of models on the plane z = 1: beyond it, r > 573.
const WIDEST_PERSPECTIVE_ANGLE: f64 = FRAC_PI_2 - 1.75e-3;
/// Newton's method has converged when the step is below this (image plane units).
const NEWTON_STEP: f64 = 1e-13;
/// Newton's method fails after this many iterations.
const NEWTON_ITERATIONS: u32 = 100;

/// Projection and unprojection of a camera.
#[derive(Clone, Debug, PartialEq)]
pub struct Lens {
    model: CameraModel,
    /// Focal lengths in px.
    focal: [f64; 2],
    /// Principal point in px from the top-left corner.
    centre: [f64; 2],
    /// Parameters after focal lengths and principal point, in file order, padded with zeros.
    k: [f64; 12],
    /// Largest valid radius before distortion: r for perspective models, θ for fisheye models.
    max_radius: f64,
    /// Rotation from the axes of the rays to those of the lens, for a face of a panorama.
    lens_from_ray: Option<Mat3>,
}

impl SourceCamera {
    /// The projection of this camera.
    #[must_use]
    pub fn lens(&self) -> Lens {
        Lens::new(self.model, &self.params)
    }
}

impl Lens {
    /// A lens from parameters in file order; missing ones are 0.
    #[must_use]
    pub fn new(model: CameraModel, params: &[f64]) -> Self {
        let at = |i: usize| params.get(i).copied().unwrap_or(0.0);
        let (focal, centre, first) = match model {
            CameraModel::Equirectangular => ([at(0), at(1)], [at(0) / 2.0, at(1) / 2.0], 2),
            _ if model.has_single_focal() => ([at(0), at(0)], [at(1), at(2)], 3),
            _ => ([at(0), at(1)], [at(2), at(3)], 4),
        };
        let mut lens = Self {
            model,
            focal,
            centre,
            k: std::array::from_fn(|i| at(first + i)),
            max_radius: f64::INFINITY,
            lens_from_ray: None,
        };
        lens.max_radius = lens.find_max_radius();
        lens
    }

    /// The same lens for an image scaled by these factors.
    #[must_use]
    pub fn scaled(&self, sx: f64, sy: f64) -> Self {
        Self {
            focal: [self.focal[0] * sx, self.focal[1] * sy],
            centre: [self.centre[0] * sx, self.centre[1] * sy],
            ..self.clone()
        }
    }

    /// The same lens for rays in axes that `lens_from_ray` rotates to those of the lens.
    #[must_use]
    pub fn rotated(&self, lens_from_ray: Mat3) -> Self {
        Self { lens_from_ray: Some(lens_from_ray), ..self.clone() }
    }

    /// The same lens for an image that starts `columns` px further to the left.
    #[must_use]
    pub fn shifted(&self, columns: f64) -> Self {
        Self { centre: [self.centre[0] + columns, self.centre[1]], ..self.clone() }
    }

    /// Width in px after which the image repeats; infinite if it does not.
    #[must_use]
    pub fn period(&self) -> f64 {
        if self.model == CameraModel::Equirectangular { self.focal[0] } else { f64::INFINITY }
    }

    /// The camera model that the lens follows.
    #[must_use]
    pub fn model(&self) -> CameraModel {
        self.model
    }

    /// Focal lengths in px.
    #[must_use]
    pub fn focal(&self) -> [f64; 2] {
        self.focal
    }

    /// Principal point in px from the top-left corner.
    #[must_use]
    pub fn principal_point(&self) -> [f64; 2] {
        self.centre
    }

    /// Whether it is a pinhole: a model without distortion, or all distortion coefficients are 0.
    #[must_use]
    pub fn is_pinhole(&self) -> bool {
        use CameraModel as M;
        match self.model {
            M::SimplePinhole | M::Pinhole => true,
            M::SimpleRadial | M::Radial | M::OpenCv | M::FullOpenCv | M::Fov => {
                self.k.iter().all(|&k| k == 0.0)
            }
            M::SimpleDivision | M::Division => self.k[0] == 0.0,
            M::Eucm => self.k[0] == 0.0,
            _ => false,
        }
    }

    /// Magnification at the principal point relative to a pinhole with the same focal lengths: d(x, y)/d(u, v).
    #[must_use]
    pub fn central_magnification(&self) -> f64 {
        match self.model {
            CameraModel::Fov => fov_factor(0.0, self.k[0]),
            _ => 1.0,
        }
    }

    /// Pixel of a ray; `None` if it has none (behind the camera, beyond the fold).
    #[must_use]
    pub fn project(&self, ray: [f64; 3]) -> Option<[f64; 2]> {
        let ray = self.lens_from_ray.map_or(ray, |turn| se3::mul_vec(&turn, ray));
        let [x, y, z] = ray;
        if self.model == CameraModel::Equirectangular {
            let length = (x * x + y * y + z * z).sqrt();
            let pixel = [
                self.centre[0] + libm::atan2(x, z) / (2.0 * PI) * self.focal[0],
                self.centre[1] + libm::asin((y / length).clamp(-1.0, 1.0)) / PI * self.focal[1],
            ];
            return pixel.iter().all(|v| v.is_finite()).then_some(pixel);
        }
        let [px, py] = self.distorted_point(x, y, z)?;
        let pixel = [self.focal[0] * px + self.centre[0], self.focal[1] * py + self.centre[1]];
        pixel.iter().all(|v| v.is_finite()).then_some(pixel)
    }

    /// Unit direction that projects to a pixel; `None` if there is none.
    ///
    /// ```
    /// use gausset_io::dataset::{CameraModel, lens::Lens};
    ///
    /// let fisheye = Lens::new(CameraModel::SimpleRadialFisheye, &[300.0, 400.0, 400.0, 0.01]);
    /// let pixel = fisheye.project([1.0, 0.0, 0.0]).unwrap();
    /// let ray = fisheye.unproject(pixel).unwrap();
    /// assert!((ray[0] - 1.0).abs() < 1e-9 && ray[2].abs() < 1e-6, "90 degrees to the right");
    /// ```
    #[must_use]
    pub fn unproject(&self, pixel: [f64; 2]) -> Option<[f64; 3]> {
        let ray = self.unproject_in_lens(pixel)?;
        Some(self.lens_from_ray.map_or(ray, |turn| se3::transpose_mul_vec(&turn, ray)))
    }

    fn unproject_in_lens(&self, pixel: [f64; 2]) -> Option<[f64; 3]> {
        use CameraModel as M;
        let [f, c] = [self.focal, self.centre];
        if self.model == M::Equirectangular {
            let (theta, phi) = (2.0 * PI * (pixel[0] - c[0]) / f[0], PI * (c[1] - pixel[1]) / f[1]);
            let cos_phi = libm::cos(phi);
            return normalised([cos_phi * libm::sin(theta), -libm::sin(phi), cos_phi * libm::cos(theta)]);
        }
        let p = [(pixel[0] - c[0]) / f[0], (pixel[1] - c[1]) / f[1]];
        if !p.iter().all(|v| v.is_finite()) {
            return None;
        }
        let r2 = p[0] * p[0] + p[1] * p[1];
        match self.model {
            M::SimplePinhole | M::Pinhole => normalised([p[0], p[1], 1.0]),
            M::SimpleDivision | M::Division => {
                let w = 1.0 + self.k[0] * r2;
                (w > 0.0).then(|| normalised([p[0], p[1], w])).flatten()
            }
            M::Eucm => {
                let [alpha, beta] = [self.k[0], self.k[1]];
                let inside = 1.0 - (2.0 * alpha - 1.0) * beta * r2;
                if inside < 0.0 {
                    return None;
                }
                let z = (1.0 - beta * alpha * alpha * r2) / (alpha * inside.sqrt() + 1.0 - alpha);
                normalised([p[0], p[1], z])
            }
            M::Fov => {
                let (distorted, omega) = (r2.sqrt(), self.k[0]);
                if distorted * omega >= FRAC_PI_2 {
                    return None;
                }
                // Closed-form inverse of the factor; its limit at the centre is the inverse of the factor there.
                let undistorted = if distorted < 1e-9 || omega < 1e-9 {
                    1.0 / fov_factor(0.0, omega)
                } else {
                    libm::tan(distorted * omega) / (2.0 * libm::tan(omega / 2.0) * distorted)
                };
                normalised([p[0] * undistorted, p[1] * undistorted, 1.0])
            }
            _ if self.is_fisheye() => {
                let [a, b] = self.undistort(p)?;
                let theta = (a * a + b * b).sqrt();
                if theta > PI {
                    return None;
                }
                let sine_over_theta = if theta < 1e-12 { 1.0 } else { libm::sin(theta) / theta };
                normalised([a * sine_over_theta, b * sine_over_theta, libm::cos(theta)])
            }
            _ => {
                let [u, v] = self.undistort(p)?;
                normalised([u, v, 1.0])
            }
        }
    }

    /// Largest valid radius before distortion: r for perspective models, the angle in radians for fisheye models; beyond
    /// it the distortion folds back.
    pub(super) fn max_radius(&self) -> f64 {
        self.max_radius
    }

    /// Whether (x, y) is a function of the angle θ rather than of tan θ.
    pub(super) fn is_fisheye(&self) -> bool {
        use CameraModel as M;
        matches!(
            self.model,
            M::OpenCvFisheye
                | M::SimpleRadialFisheye
                | M::RadialFisheye
                | M::ThinPrismFisheye
                | M::RadTanThinPrismFisheye
                | M::SimpleFisheye
                | M::Fisheye
        )
    }

    /// Distorted point of a ray on the image plane.
    fn distorted_point(&self, x: f64, y: f64, z: f64) -> Option<[f64; 2]> {
        use CameraModel as M;
        let rho2 = x * x + y * y;
        match self.model {
            M::SimpleDivision | M::Division => {
                let root = z * z - 4.0 * rho2 * self.k[0];
                if root < 0.0 {
                    return None;
                }
                let denominator = z + root.sqrt();
                (denominator > 0.0).then(|| [2.0 * x / denominator, 2.0 * y / denominator])
            }
            M::Eucm => {
                let [alpha, beta] = [self.k[0], self.k[1]];
                let d = (beta * rho2 + z * z).sqrt();
                let denominator = alpha * d + (1.0 - alpha) * z;
                // Beyond z = -w d the projection is not injective (Khomutenko et al. 2016, eq. 13).
                let w = if alpha <= 0.5 { alpha / (1.0 - alpha) } else { (1.0 - alpha) / alpha };
                (denominator > 0.0 && z > -w * d).then(|| [x / denominator, y / denominator])
            }
            _ if self.is_fisheye() => {
                let rho = rho2.sqrt();
                let theta = libm::atan2(rho, z);
                if theta > self.max_radius {
                    return None;
                }
                // On the axis the factor is 1/z for z > 0; straight backwards has no image direction.
                let factor = if rho > 1e-12 * z.abs() {
                    theta / rho
                } else if z > 0.0 {
                    1.0 / z
                } else {
                    return None;
                };
                Some(self.distort([x * factor, y * factor]))
            }
            _ => {
                if z <= 0.0 {
                    return None;
                }
                let p = [x / z, y / z];
                (p[0] * p[0] + p[1] * p[1] <= self.max_radius * self.max_radius).then(|| self.distort(p))
            }
        }
    }

    /// The polynomial distortion of a model: (u, v) + d(u, v).
    fn distort(&self, [u, v]: [f64; 2]) -> [f64; 2] {
        use CameraModel as M;
        let k = &self.k;
        let r2 = u * u + v * v;
        let tangential = |p1: f64, p2: f64| {
            [2.0 * p1 * u * v + p2 * (r2 + 2.0 * u * u), 2.0 * p2 * u * v + p1 * (r2 + 2.0 * v * v)]
        };
        let radial = self.radial(r2);
        match self.model {
            M::OpenCv | M::FullOpenCv => {
                let t = tangential(k[2], k[3]);
                [u * radial + t[0], v * radial + t[1]]
            }
            M::ThinPrismFisheye => {
                let t = tangential(k[2], k[3]);
                [u * radial + t[0] + k[6] * r2, v * radial + t[1] + k[7] * r2]
            }
            M::RadTanThinPrismFisheye => {
                let (x, y) = (u * radial, v * radial);
                let q2 = x * x + y * y;
                let [p0, p1, s0, s1, s2, s3] = [k[6], k[7], k[8], k[9], k[10], k[11]];
                [
                    x + 2.0 * p1 * x * y + p0 * (q2 + 2.0 * x * x) + s0 * q2 + s1 * q2 * q2,
                    y + 2.0 * p0 * x * y + p1 * (q2 + 2.0 * y * y) + s2 * q2 + s3 * q2 * q2,
                ]
            }
            _ => [u * radial, v * radial],
        }
    }

    /// Radial factor at a squared radius (r² or θ²).
    fn radial(&self, r2: f64) -> f64 {
        use CameraModel as M;
        let k = &self.k;
        match self.model {
            M::SimpleRadial | M::SimpleRadialFisheye => 1.0 + k[0] * r2,
            M::Radial | M::RadialFisheye | M::OpenCv => 1.0 + r2 * (k[0] + r2 * k[1]),
            M::OpenCvFisheye => 1.0 + r2 * (k[0] + r2 * (k[1] + r2 * (k[2] + r2 * k[3]))),
            M::ThinPrismFisheye => 1.0 + r2 * (k[0] + r2 * (k[1] + r2 * (k[4] + r2 * k[5]))),
            M::RadTanThinPrismFisheye => {
                1.0 + r2 * (k[0] + r2 * (k[1] + r2 * (k[2] + r2 * (k[3] + r2 * (k[4] + r2 * k[5])))))
            }
            M::FullOpenCv => {
                (1.0 + r2 * (k[0] + r2 * (k[1] + r2 * k[4]))) / (1.0 + r2 * (k[5] + r2 * (k[6] + r2 * k[7])))
            }
            M::Fov => fov_factor(r2, k[0]),
            _ => 1.0,
        }
    }

    /// Radius (r or θ) up to which `radius · radial` increases; infinity (or π) if it always does.
    fn find_max_radius(&self) -> f64 {
        use CameraModel as M;
        let fisheye = self.is_fisheye();
        let widest = if fisheye { PI } else { WIDEST_PERSPECTIVE_ANGLE };
        if matches!(
            self.model,
            M::SimplePinhole | M::Pinhole | M::Fov | M::SimpleDivision | M::Division | M::Eucm
        ) || self.model == M::Equirectangular
        {
            return f64::INFINITY;
        }
        let radius = |angle: f64| if fisheye { angle } else { libm::tan(angle) };
        let grows_at = |angle: f64| {
            let (r, step) = (radius(angle), 1e-6);
            let [below, above] = [r * (1.0 - step), r * (1.0 + step)];
            above * self.radial(above * above) > below * self.radial(below * below)
        };
        let step = widest / f64::from(RADIUS_SEARCH_STEPS);
        let first = (1..=RADIUS_SEARCH_STEPS).map(|i| f64::from(i) * step).find(|&a| !grows_at(a));
        let Some(mut high) = first else { return if fisheye { PI } else { f64::INFINITY } };
        let mut low = high - step;
        for _ in 0..40 {
            let middle = 0.5 * (low + high);
            if grows_at(middle) { low = middle } else { high = middle }
        }
        radius(low)
    }

    /// Inverse of [`Self::distort`] by Newton's method from the distorted point.
    fn undistort(&self, target: [f64; 2]) -> Option<[f64; 2]> {
        let mut p = target;
        // Start inside the fold: a far corner of a strong fisheye would otherwise start on the decreasing branch.
        let start = (p[0] * p[0] + p[1] * p[1]).sqrt();
        if start > 0.9 * self.max_radius {
            let shrink = 0.9 * self.max_radius / start;
            p = [p[0] * shrink, p[1] * shrink];
        }
        for _ in 0..NEWTON_ITERATIONS {
            let h = 1e-7 * (1.0 + p[0].abs() + p[1].abs());
            let at = self.distort(p);
            let [ux, uy] = self.distort([p[0] + h, p[1]]);
            let [lx, ly] = self.distort([p[0] - h, p[1]]);
            let [dx, dy] = self.distort([p[0], p[1] + h]);
            let [vx, vy] = self.distort([p[0], p[1] - h]);
            let scale = 0.5 / h;
            let j = [[(ux - lx) * scale, (dx - vx) * scale], [(uy - ly) * scale, (dy - vy) * scale]];
            let determinant = j[0][0] * j[1][1] - j[0][1] * j[1][0];
            let e = [target[0] - at[0], target[1] - at[1]];
            let step = [
                (j[1][1] * e[0] - j[0][1] * e[1]) / determinant,
                (j[0][0] * e[1] - j[1][0] * e[0]) / determinant,
            ];
            if !step.iter().all(|v| v.is_finite()) {
                return None;
            }
            p = [p[0] + step[0], p[1] + step[1]];
            let size = 1.0 + (p[0] * p[0] + p[1] * p[1]).sqrt();
            if step[0].abs().max(step[1].abs()) < NEWTON_STEP * size {
                let inside = p[0] * p[0] + p[1] * p[1] <= self.max_radius * self.max_radius;
                return inside.then_some(p);
            }
        }
        None
    }
}

/// `atan(2 r tan(ω/2)) / (r ω)`, by its series where it is 0/0 (as in COLMAP).
fn fov_factor(r2: f64, omega: f64) -> f64 {
    const SMALL: f64 = 1e-4;
    let omega2 = omega * omega;
    if omega2 < SMALL {
        omega2 * r2 / 3.0 - omega2 / 12.0 + 1.0
    } else if r2 < SMALL {
        let t = libm::tan(omega / 2.0);
        -2.0 * t * (4.0 * r2 * t * t - 3.0) / (3.0 * omega)
    } else {
        let r = r2.sqrt();
        libm::atan(r * 2.0 * libm::tan(omega / 2.0)) / (r * omega)
    }
}

fn normalised([x, y, z]: [f64; 3]) -> Option<[f64; 3]> {
    let length = (x * x + y * y + z * z).sqrt();
    (length.is_finite() && length > 0.0).then(|| [x / length, y / length, z / length])
}
