//! What a fit reports: its progress, and its result.

use crate::field::GaussianField;
use crate::fit::data::Normalisation;
use crate::fit::metrics::Metrics;

/// Progress of a fit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FitProgress {
    /// Steps done so far, 0..=`steps`.
    pub step: u64,
    /// Total number of steps.
    pub steps: u64,
    /// Number of Gaussians.
    pub gaussians: usize,
    /// Mean squared error of the last step's samples, relative to the squared range of the data.
    pub loss: f64,
    /// Lowest mean squared error on the validation samples so far.
    pub validation: Option<f64>,
}

/// The result of a fit.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct FitResult {
    /// The field, user coordinates: `value = offset + scale f(x)`.
    pub field: GaussianField<f64>,
    /// The normalisation of values.
    pub normalisation: Normalisation,
    /// Number of steps taken.
    pub steps: u64,
    /// Step with the lowest validation loss, whose field is returned.
    pub best_step: u64,
    /// Errors on the training samples (validation samples included), value units.
    pub train: Metrics,
    /// Errors on the held-out samples, value units.
    pub test: Metrics,
    /// Errors on the held-out samples that are not background (above 2 % of the range), value units.
    pub test_foreground: Metrics,
    /// Duration of the fit without the last evaluation, seconds.
    pub seconds: f64,
    /// Duration of the last evaluation, seconds.
    pub report_seconds: f64,
    /// Pairs computed by all steps of Adam; `None` for Levenberg-Marquardt.
    pub pairs: Option<u64>,
}
