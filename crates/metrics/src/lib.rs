//! How far a picture is from the truth, and in which direction it should change: L1, SSIM, PSNR on the CPU.
//!
//! - [`mod@reference`]: the definition in f64, plain loops; everything else is tested against it.
//! - [`loss`]: `(1 - w) L1 + w (1 - SSIM)` of a training step with its gradient, in f32 on 16 lanes and all threads.
//! - [`gain`]: gains and vignetting on the rendered colour with their VJP; [`exposure`]: a 3x4 affine (version 0.1).
//! - [`quality`]: what `eval` prints, [`ssim`]: SSIM as different programs define it,
//!   [`lpips`]: LPIPS with weights from a file.
//! - [`planes`]: the picture layout that the first two work on.
//!
//! The same inputs give the same bytes, whatever the number of threads and the vector level.
#![forbid(unsafe_code)]

pub mod exposure;
pub mod gain;
pub mod loss;
pub mod lpips;
pub mod planes;
pub mod quality;
pub mod reference;
pub mod ssim;

use fearless_simd::{Simd, f32x16, prelude::*};
use gausset_compute::simd::LANES;

pub use exposure::{Exposure, apply_exposure, exposure_vjp};
pub use gain::{Gain, GainGradient, Vignetting, apply_gain, gain_vjp};
pub use loss::{LossKernel, LossOptions, LossValue, Truth};
pub use lpips::Lpips;
pub use planes::Planes;
pub use ssim::SsimDefinition;

/// Pictures that should have one size have two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} is {found_width}x{found_height} px (expected {width}x{height}, the size of the render)")]
pub struct SizeMismatch {
    /// Which picture does not fit.
    pub what: &'static str,
    /// Width that was expected.
    pub width: u32,
    /// Height that was expected.
    pub height: u32,
    /// Width found.
    pub found_width: u32,
    /// Height found.
    pub found_height: u32,
}

/// Sum of the lanes in f64, in their order.
#[inline(always)]
fn sum_in_f64<S: Simd>(lanes: f32x16<S>) -> f64 {
    let lanes: [f32; LANES] = lanes.to_array();
    lanes.into_iter().map(f64::from).sum()
}
