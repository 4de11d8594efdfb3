//! Learnable Gaussian fields: `f(x) = Σ_i w_i exp(-½ ‖L_i⁻¹ (x - µ_i)‖²)` in ℝ³.
//!
//! ```
//! use gausset_field::Compute;
//! use gausset_field::fit::{FieldFit, FitOptions, Samples};
//!
//! // 64 samples of a Gaussian with a standard deviation of 1.
//! let points: Vec<[f64; 3]> = (0..64).map(|i| [i % 4, i / 4 % 4, i / 16].map(|k| f64::from(k) - 1.5)).collect();
//! let values = points.iter().map(|p| (-0.5 * (p[0] * p[0] + p[1] * p[1] + p[2] * p[2])).exp()).collect();
//! let samples = Samples { points, values, grid: None };
//!
//! let compute = Compute::best();
//! let mut fit = FieldFit::new(&compute, &samples, &FitOptions { gaussians: 1, ..FitOptions::default() })?;
//! while !fit.is_done() {
//!     fit.step()?;
//! }
//! let field = fit.finish()?.field;
//! assert_eq!(field.len(), 1);
//! # Ok::<(), gausset_field::fit::FitError>(())
//! ```
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod accel;
mod dense;
mod dense_vjp;
mod error;
mod eval;
mod field;
pub mod fit;
mod gradients;
pub mod inner;
pub mod input;
mod memory;
pub mod model;
pub mod output;
mod packed;
pub mod probe;
mod real;
pub mod reference;
pub mod render;
pub mod splat;

pub use accel::{AcceleratedEvaluator, Cutoff, CutoffReport, SortedPoints};
pub use error::{ContentError, FieldError};
pub use eval::{Compute, Evaluator, FieldDerivatives};
pub use field::{CovarianceKind, FieldBounds, GaussianField, WeightMode};
pub use gradients::FieldGradients;
pub use real::{Lanes, Real};
