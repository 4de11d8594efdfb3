//! Learnable Gaussian fields: `f(x) = Σ_i w_i exp(-½ ‖L_i⁻¹ (x - µ_i)‖²)` in ℝ³.
#![forbid(unsafe_code)]

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
