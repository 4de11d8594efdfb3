//! Lens model of the calibration.

use gausset_core::se3::{self, Mat3};

/// Angle that normalises the polynomial's argument, radians (100 degrees).
pub(super) const REFERENCE_ANGLE: f64 = 100.0 * std::f64::consts::PI / 180.0;

/// Radially symmetric lens: `r = radius · t (b0 + b1 t² + b2 t⁴)`, `t = angle / 100°`. `b0 + b1 + b2` need not be 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct LensModel {
    /// Centre, px of the frame.
    pub(super) centre: [f64; 2],
    /// Radius of the image circle, px.
    pub(super) radius: f64,
    /// Coefficients `b0`, `b1`, `b2`.
    pub(super) polynomial: [f64; 3],
    /// Lens axes to panorama axes.
    pub(super) pano_from_lens: Mat3,
}

impl LensModel {
    /// Distance from the centre, in radii, at an angle from the axis, radians.
    pub(super) fn radii_at(&self, angle: f64) -> f64 {
        let t = angle / REFERENCE_ANGLE;
        let [a, b, c] = self.polynomial;
        t * (a + t * t * (b + t * t * c))
    }

    /// Projects a direction in lens axes to a pixel.
    pub(super) fn project(&self, [x, y, z]: [f64; 3]) -> [f64; 2] {
        let across = libm::sqrt(x * x + y * y);
        let r = self.radius * self.radii_at(libm::atan2(across, z));
        let scale = if across > 0.0 { r / across } else { 0.0 };
        [self.centre[0] + scale * x, self.centre[1] + scale * y]
    }

    /// Angle from the axis, radians, at a distance from the centre, in radii: inverse of [`Self::mapped`] by Newton's
    /// method.
    pub(super) fn angle_at(&self, radii: f64) -> f64 {
        let [a, b, c] = self.polynomial;
        let mut t = radii / (a + b + c);
        for _ in 0..12 {
            let t2 = t * t;
            let slope = a + t2 * (3.0 * b + 5.0 * t2 * c);
            let step = (t * (a + t2 * (b + t2 * c)) - radii) / slope.max(0.05);
            t -= step;
            if step.abs() < 1e-14 {
                break;
            }
        }
        t * REFERENCE_ANGLE
    }

    /// Unit direction of a pixel in lens axes.
    pub(super) fn unproject(&self, [u, v]: [f64; 2]) -> [f64; 3] {
        let (dx, dy) = (u - self.centre[0], v - self.centre[1]);
        let far = libm::sqrt(dx * dx + dy * dy);
        let angle = self.angle_at(far / self.radius);
        let scale = if far > 0.0 { libm::sin(angle) / far } else { 0.0 };
        [scale * dx, scale * dy, libm::cos(angle)]
    }

    /// Projects a direction in panorama axes; `None` if the pixel is farther than `within` radii from the centre.
    pub(super) fn project_within(&self, direction: [f64; 3], within: f64) -> Option<[f64; 2]> {
        self.project_in_lens_within(se3::transpose_mul_vec(&self.pano_from_lens, direction), within)
    }

    /// Projects a direction in lens axes; `None` if the pixel is farther than `within` radii from the centre.
    pub(super) fn project_in_lens_within(&self, [x, y, z]: [f64; 3], within: f64) -> Option<[f64; 2]> {
        let across = libm::sqrt(x * x + y * y);
        let radii = self.radii_at(libm::atan2(across, z));
        let scale = if across > 0.0 { radii * self.radius / across } else { 0.0 };
        (radii <= within).then_some([self.centre[0] + scale * x, self.centre[1] + scale * y])
    }

    /// Step sizes of the central differences by centre (px) and coefficients.
    pub(super) const DIFFERENCE_STEPS: [f64; 5] = [1e-3, 1e-3, 1e-6, 1e-6, 1e-6];

    /// For each parameter, this lens with the parameter increased and decreased by its step.
    pub(super) fn perturbed(&self) -> [[Self; 2]; 5] {
        std::array::from_fn(|k| {
            [1.0, -1.0].map(|sign| {
                let mut changed = *self;
                match k {
                    0..2 => changed.centre[k] += sign * Self::DIFFERENCE_STEPS[k],
                    _ => changed.polynomial[k - 2] += sign * Self::DIFFERENCE_STEPS[k],
                }
                changed
            })
        })
    }

    /// Jacobian of the pixel by the direction in lens axes, by central differences.
    pub(super) fn direction_jacobian(&self, direction: [f64; 3]) -> [[f64; 3]; 2] {
        let step = 1e-6 * se3::norm(direction);
        let by = [0, 1, 2].map(|k| {
            let beside = [step, -step].map(|by| {
                let mut beside = direction;
                beside[k] += by;
                self.project(beside)
            });
            [0, 1].map(|c| (beside[0][c] - beside[1][c]) / (2.0 * step))
        });
        [0, 1].map(|c| by.map(|pixel| pixel[c]))
    }

    /// Derivatives of the distance from the centre, px, by each coefficient and by the angle.
    pub(super) fn radius_derivatives(&self, angle: f64) -> ([f64; 3], f64) {
        let t = angle / REFERENCE_ANGLE;
        let t2 = t * t;
        let [a, b, c] = self.polynomial;
        let powers = [t, t * t2, t * t2 * t2].map(|power| self.radius * power);
        (powers, self.radius * (a + t2 * (3.0 * b + 5.0 * t2 * c)) / REFERENCE_ANGLE)
    }

    /// The lens for images that are downsampled by `factor`.
    pub(super) fn downsampled(&self, factor: usize) -> Self {
        let scale = 1.0 / factor as f64;
        Self { centre: self.centre.map(|c| c * scale), radius: self.radius * scale, ..*self }
    }

    /// Approximate angle of a pixel, radians.
    pub(super) fn pixel_angle(&self) -> f64 {
        REFERENCE_ANGLE / self.radius
    }
}
