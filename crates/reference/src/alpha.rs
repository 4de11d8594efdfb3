//! Alpha of a splat at a point of the screen (README, section 3).

use super::constants::{ALPHA_MAX, ALPHA_MIN};
use super::project::ScreenSplat;

/// Alpha of a splat at a point of the screen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Alpha {
    /// Offset from the projected mean, px.
    pub offset: [f64; 2],
    /// `exp(-sigma)`.
    pub falloff: f64,
    /// `min(0.99, opacity · falloff)`.
    pub alpha: f64,
    /// Whether the minimum cut it off; then no gradient passes through alpha.
    pub clamped: bool,
}

/// Alpha of a splat at a point of the screen, `None` where it is below 1/255.
#[must_use]
pub fn alpha_at(splat: &ScreenSplat, point: [f64; 2]) -> Option<Alpha> {
    /// Opacities are at most 1 and ln 255 = 5.541, so beyond this alpha is below 1/255: spares an exponential.
    const SIGMA_MAX: f64 = 5.6;
    let offset @ [dx, dy] = [point[0] - splat.mean2d[0], point[1] - splat.mean2d[1]];
    let [a, b, c] = splat.conic;
    let sigma = 0.5 * (a * dx * dx + c * dy * dy) + b * dx * dy;
    if sigma.is_nan() || sigma > SIGMA_MAX {
        return None;
    }
    // The form is positive definite; rounding makes it negative for extremely elongated splats only.
    let falloff = libm::exp(-sigma.max(0.0));
    let unclamped = splat.opacity * falloff;
    let alpha = unclamped.min(ALPHA_MAX);
    (alpha >= ALPHA_MIN).then_some(Alpha { offset, falloff, alpha, clamped: unclamped > ALPHA_MAX })
}
