//! Learnable Gaussian fields: `f(x) = Σ_i w_i exp(-½ ‖L_i⁻¹ (x - µ_i)‖²)` in ℝ³.
#![forbid(unsafe_code)]

mod dense;
mod dense_vjp;
mod error;
mod eval;
mod field;
mod gradients;
mod packed;
mod real;
pub mod reference;

pub use error::FieldError;
pub use eval::{Compute, Derivatives, Evaluator};
pub use field::{Bounds, Covariance, GaussianField, WeightMode};
pub use gradients::FieldGradients;
pub use real::{Lanes, Real};
