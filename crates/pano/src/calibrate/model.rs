//! A lens while it is calibrated.

use gausset_core::se3::{self, Mat3};

/// Angle to which polynomials are scaled, radians (100 degrees).
pub(super) const REFERENCE: f64 = 100.0 * std::f64::consts::PI / 180.0;

/// `r = radius · t (b0 + b1 t² + b2 t⁴)`, `t = angle / 100°`; `b0 + b1 + b2` need not be 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Model {
    /// Centre, px of the frame.
    pub(super) centre: [f64; 2],
    /// Radius of the circle that the lens draws, px.
    pub(super) radius: f64,
    /// Coefficients.
    pub(super) polynomial: [f64; 3],
    /// Lens axes to panorama axes.
    pub(super) pano_from_lens: Mat3,
}

impl Model {
    /// Distance from the centre at an angle from the axis, in radii.
    pub(super) fn mapped(&self, angle: f64) -> f64 {
        let t = angle / REFERENCE;
        let [a, b, c] = self.polynomial;
        t * (a + t * t * (b + t * t * c))
    }

    /// The pixel of a direction in lens axes.
    pub(super) fn project(&self, [x, y, z]: [f64; 3]) -> [f64; 2] {
        let across = libm::sqrt(x * x + y * y);
        let r = self.radius * self.mapped(libm::atan2(across, z));
        let scale = if across > 0.0 { r / across } else { 0.0 };
        [self.centre[0] + scale * x, self.centre[1] + scale * y]
    }

    /// The angle from the axis at so many radii from the centre, by Newton's method.
    pub(super) fn angle(&self, radii: f64) -> f64 {
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
        t * REFERENCE
    }

    /// The unit direction, in lens axes, of a pixel.
    pub(super) fn unproject(&self, [u, v]: [f64; 2]) -> [f64; 3] {
        let (dx, dy) = (u - self.centre[0], v - self.centre[1]);
        let far = libm::hypot(dx, dy);
        let angle = self.angle(far / self.radius);
        let scale = if far > 0.0 { libm::sin(angle) / far } else { 0.0 };
        [scale * dx, scale * dy, libm::cos(angle)]
    }

    /// The pixel of a direction in panorama axes, if it is within so many radii.
    pub(super) fn seen(&self, direction: [f64; 3], within: f64) -> Option<[f64; 2]> {
        let [u, v] = self.project(se3::transpose_mul_vec(&self.pano_from_lens, direction));
        let far = libm::hypot(u - self.centre[0], v - self.centre[1]);
        (far <= within * self.radius).then_some([u, v])
    }

    /// Radians of a pixel at the reference angle, about.
    pub(super) fn pixel(&self) -> f64 {
        REFERENCE / self.radius
    }
}
