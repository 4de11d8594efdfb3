//! Error metrics: MSE, MAE, PSNR, R², correlation.

use serde::Serialize;

/// Errors of values against the ground truth over a set of samples. Errors of no samples are NaN, in JSON `null`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Metrics {
    /// Number of samples.
    pub samples: u64,
    /// Mean squared error, value units squared.
    pub mse: f64,
    /// Mean absolute error, value units.
    pub mae: f64,
    /// Largest absolute error, value units.
    pub max_error: f64,
    /// `10 log10(peak² / mse)` in dB; `None` if the error or the peak is 0.
    pub psnr: Option<f64>,
    /// `1 - Σ (f - y)² / Σ (y - mean y)²` over this set; `None` if the truth is constant.
    pub r2: Option<f64>,
    /// Pearson correlation; `None` if either is constant.
    pub pearson: Option<f64>,
}

impl Metrics {
    /// Compares values with the ground truth; `peak` is the range of the data.
    #[must_use]
    pub fn new(found: &[f64], truth: &[f64], peak: f64) -> Self {
        let n = found.len().min(truth.len());
        if n == 0 {
            return Self { mse: f64::NAN, mae: f64::NAN, max_error: f64::NAN, ..Self::default() };
        }
        let count = n as f64;
        let mean = |values: &[f64]| values[..n].iter().sum::<f64>() / count;
        let (mean_found, mean_truth) = (mean(found), mean(truth));
        let (mut square, mut absolute, mut max_error) = (0.0, 0.0, 0.0f64);
        let (mut ff, mut tt, mut ft) = (0.0, 0.0, 0.0);
        for (f, t) in found.iter().zip(truth) {
            let error = f - t;
            square += error * error;
            absolute += error.abs();
            max_error = max_error.max(error.abs());
            let (df, dt) = (f - mean_found, t - mean_truth);
            ff += df * df;
            tt += dt * dt;
            ft += df * dt;
        }
        let mse = square / count;
        let psnr = (mse > 0.0 && peak > 0.0).then(|| 10.0 * libm::log10(peak * peak / mse));
        let r2 = (tt > 0.0).then(|| 1.0 - square / tt);
        let pearson = (ff > 0.0 && tt > 0.0).then(|| ft / (ff * tt).sqrt());
        Self { samples: n as u64, mse, mae: absolute / count, max_error, psnr, r2, pearson }
    }
}
