//! Fitting a field to samples.
//!
//! ```text
//! samples ─ split ─▶ init ─▶ weights by least squares ─▶ Adam in scaled variables ─▶ weights ─▶ best by validation
//!                                                          │ every 50 steps: prune, merge, relocate, split
//! few Gaussians: Levenberg-Marquardt on all parameters instead
//! ```
//! A step is a function of the state, the samples and the options: a fit gives the same bytes when it is killed and
//! resumed, on any number of threads and at any SIMD level.

mod adam;
mod data;
mod density;
mod error;
mod init;
mod lm;
mod metrics;
mod options;
mod pursuit;
mod result;
mod resume;
mod run;
mod weights;

pub use data::{Grid, Normalisation, Samples};
pub use error::FitError;
pub use metrics::Metrics;
pub use options::{FitOptions, FitSolver};
pub use result::{FitProgress, FitResult};
pub use run::FieldFit;
