//! The numbers of the renderer as exact decimals.

use gausset_core::constants;

/// Added to both diagonal entries of the screen covariance, in px².
pub const LOW_PASS_VARIANCE: f64 = 0.3;
/// A splat is skipped at a pixel if its alpha is below.
pub const ALPHA_MIN: f64 = 1.0 / 255.0;
/// Upper clamp of alpha.
pub const ALPHA_MAX: f64 = 0.99;
/// A splat is blended only while the transmittance after it stays greater.
pub const TRANSMITTANCE_STOP: f64 = 1e-4;
/// Margin of the Jacobian clamp as a fraction of half the image size.
pub const JACOBIAN_CLAMP_MARGIN: f64 = 0.3;

// Rounding 0.3 to f32 would already cost 4e-8, more than the 1e-9 that the fixtures allow in f64. So these are the
// exact decimals, and the f32 constants of all other devices must equal their rounded values.
const _: () = assert!(
    LOW_PASS_VARIANCE as f32 == constants::LOW_PASS_VARIANCE
        && ALPHA_MIN as f32 == constants::ALPHA_MIN
        && ALPHA_MAX as f32 == constants::ALPHA_MAX
        && TRANSMITTANCE_STOP as f32 == constants::TRANSMITTANCE_STOP
        && JACOBIAN_CLAMP_MARGIN as f32 == constants::JACOBIAN_CLAMP_MARGIN
);
