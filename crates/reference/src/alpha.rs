//! Alpha of a splat at a point of the screen (README, section 3).
//!
//! The columns of a panorama wrap around: a splat is equivalent to its copies at `u + k period` for all integers k, and
//! each tile of 16 columns sees the copy nearest to its centre. So a splat at the seam is rendered on both sides, and
//! one near a pole, which spans all columns, once.

use gausset_core::constants::TILE_SIZE;

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
    /// Whether the minimum clamped it; then alpha has no gradient.
    pub clamped: bool,
}

/// Alpha of a splat at a point of the screen; `None` below 1/255.
#[must_use]
pub fn alpha_at(splat: &ScreenSplat, point: [f64; 2]) -> Option<Alpha> {
    /// Opacities are at most 1 and ln 255 = 5.541, so beyond this alpha is below 1/255: saves an exponential.
    const SIGMA_MAX: f64 = 5.6;
    let around = if splat.period.is_finite() { period_shift(splat, point[0]) * splat.period } else { 0.0 };
    let offset @ [dx, dy] = [point[0] - (splat.mean2d[0] + around), point[1] - splat.mean2d[1]];
    let [a, b, c] = splat.conic;
    let sigma = 0.5 * (a * dx * dx + c * dy * dy) + b * dx * dy;
    if sigma.is_nan() || sigma > SIGMA_MAX {
        return None;
    }
    // The form is positive definite; only rounding makes it negative, for extremely elongated splats.
    let falloff = libm::exp(-sigma.max(0.0));
    let unclamped = splat.opacity * falloff;
    let alpha = unclamped.min(ALPHA_MAX);
    (alpha >= ALPHA_MIN).then_some(Alpha { offset, falloff, alpha, clamped: unclamped > ALPHA_MAX })
}

/// Number of periods to the nearest copy of a splat, for the tile of a column.
fn period_shift(splat: &ScreenSplat, column: f64) -> f64 {
    let tile = f64::from(TILE_SIZE);
    let middle = ((column / tile).floor() + 0.5) * tile;
    ((middle - splat.mean2d[0]) / splat.period).round()
}
