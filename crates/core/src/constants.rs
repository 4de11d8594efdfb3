//! The constants of the renderer, shared by every device.
//!
//! The fixtures define them (`testdata/fixtures/raster/README.md`, section 1). Changing one changes every render, so
//! each is defined here once.

/// A splat is dropped unless its camera-space depth is greater than this (scene units), if no other near plane is
/// chosen. An f64, because the reference renderer uses it unrounded; kernels round it to f32.
pub const NEAR_PLANE: f64 = 0.01;

/// The smallest near plane that can be chosen, in any unit of length: far below all scenes, and 1/depth² fits into an f32.
pub const MIN_NEAR_PLANE: f64 = 1e-6;

/// Low-pass variance added to both diagonal entries of the screen covariance, in px² (Kerbl et al. 2023, code).
pub const LOW_PASS_VARIANCE: f32 = 0.3;

/// A splat is skipped at a pixel when its alpha is below this.
pub const ALPHA_MIN: f32 = 1.0 / 255.0;

/// Upper clamp of alpha. The gradient through an active clamp is zero.
pub const ALPHA_MAX: f32 = 0.99;

/// A splat is blended only while the transmittance *after* it stays greater than this.
pub const TRANSMITTANCE_STOP: f32 = 1e-4;

/// Margin of the Jacobian clamp as a fraction of half the image size: `x/z` is clamped this far outside the image.
pub const JACOBIAN_CLAMP_MARGIN: f32 = 0.3;

/// Smallest distance of a splat from the polar axis of a panorama that the Jacobian uses, as a fraction of the distance
/// from the camera. Below it, horizontal stretching would grow without bound.
pub const POLE_RATIO: f32 = 1e-3;

/// Edge of a tile in pixels. Tiles start at pixel (0, 0); the last ones may be partial.
pub const TILE_SIZE: u32 = 16;

/// Quaternions shorter than this are divided by it instead of by their length.
pub const QUATERNION_MIN_NORM: f64 = 1e-12;

/// Weight of D-SSIM in the loss `(1 - w) L1 + w (1 - SSIM)` (Kerbl et al. 2023).
pub const DSSIM_WEIGHT: f32 = 0.2;

/// SSIM: taps of the separable Gaussian window.
pub const SSIM_TAPS: usize = 11;
/// SSIM: standard deviation of the window in px.
pub const SSIM_SIGMA: f64 = 1.5;
/// SSIM: `(0.01 · data row_range)²`.
pub const SSIM_C1: f64 = 0.01 * 0.01;
/// SSIM: `(0.03 · data row_range)²`.
pub const SSIM_C2: f64 = 0.03 * 0.03;

/// Adam: decay of the first moment.
pub const ADAM_BETA1: f64 = 0.9;
/// Adam: decay of the second moment.
pub const ADAM_BETA2: f64 = 0.999;
/// Adam: added to the root of the second moment.
pub const ADAM_EPSILON: f64 = 1e-15;
/// Largest distance of a splat in units of the contraction radius that training uses (`StepParams::contraction_radius`).
pub const MAX_CONTRACTED_DISTANCE: f64 = 10.0;
