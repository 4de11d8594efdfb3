//! Dense Adam (Kingma and Ba 2015) with epsilon outside the root (README, section 8).
//!
//! ```text
//! m = 0.9 m + 0.1 g;   v = 0.999 v + 0.001 g²
//! param -= lr (m / (1 - 0.9^t)) / (sqrt(v / (1 - 0.999^t)) + 1e-15)
//! ```

use gausset_core::constants::{ADAM_BETA1, ADAM_BETA2, ADAM_EPSILON};

/// One step on a group of parameters; `t` counts its steps from 1. Parameters with zero gradient are updated as well.
///
/// # Panics
/// If the slices have different lengths.
pub fn adam_step(parameters: &mut [f64], m: &mut [f64], v: &mut [f64], gradients: &[f64], rate: f64, t: u64) {
    assert!(
        [m.len(), v.len(), gradients.len()] == [parameters.len(); 3],
        "arrays of one group differ in length"
    );
    let correction_m = 1.0 - libm::pow(ADAM_BETA1, t as f64);
    let correction_v = 1.0 - libm::pow(ADAM_BETA2, t as f64);
    for i in 0..parameters.len() {
        let g = gradients[i];
        m[i] = ADAM_BETA1 * m[i] + (1.0 - ADAM_BETA1) * g;
        v[i] = ADAM_BETA2 * v[i] + (1.0 - ADAM_BETA2) * g * g;
        parameters[i] -= rate * (m[i] / correction_m) / ((v[i] / correction_v).sqrt() + ADAM_EPSILON);
    }
}
