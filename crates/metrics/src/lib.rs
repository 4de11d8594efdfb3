//! Image losses and metrics on the CPU: L1, SSIM and PSNR, with gradients.
//!
//! - [`mod@reference`]: the definition in f64, plain loops; everything else is tested against it.
//! - [`loss`]: `(1 - w) L1 + w (1 - SSIM)` of a training step with its gradient, in f32 on 16 lanes and all threads.
//! - [`gain`]: gains and vignetting on the rendered colour with their VJP.
//! - [`quality`]: what `eval` prints, [`ssim`]: SSIM as different programs define it,
//!   [`lpips`]: LPIPS with weights from a file.
//! - [`planes`]: the picture layout that the first two work on.
//!
//! Results are bit-identical for any number of threads and any SIMD level.
//!
//! ```
//! use gausset_metrics::quality::psnr;
//!
//! // Off by 0.1 everywhere: a mean squared error of 0.01.
//! let (render, truth) = (vec![0.6; 3 * 64], vec![0.5; 3 * 64]);
//! assert!((psnr(&render, &truth, None) - 20.0).abs() < 1e-5);
//! assert_eq!(psnr(&truth, &truth, None), f64::INFINITY);
//! ```
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

pub mod gain;
pub mod loss;
pub mod lpips;
pub mod planes;
pub mod quality;
pub mod reference;
mod size;
pub mod ssim;

pub use gain::{Gain, GainGradient, Vignetting, apply_gain, gain_vjp};
pub use loss::{GroundTruth, LatitudeWeights, LossKernel, LossOptions, LossValue};
pub use lpips::Lpips;
pub use planes::Planes;
pub use size::SizeMismatch;
pub use ssim::SsimDefinition;
