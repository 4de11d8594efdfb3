//! Linear least squares for the weights, in which f is linear.
//!
//! `(Φᵀ Φ + λ I) w = Φᵀ y` by conjugate gradients from the current weights; `Φ p` is the forward half of a pass and
//! `Φᵀ r` its zeroth moments, so an iteration is one pass.

use crate::accel::pass::{PassMemory, PassOutput, SamplePass};
use crate::packed::Record;

/// Improves the weights of `records` in place; returns them.
pub(crate) fn solve(
    pass: &SamplePass<'_>,
    passes: &PassMemory,
    records: &mut [Record<f32>],
    lambda: f64,
    iterations: usize,
) -> Vec<f32> {
    let n = records.len();
    let mut moments = vec![[0.0f32; 10]; n];
    let mut w: Vec<f64> = records.iter().map(|record| f64::from(record[9])).collect();
    let residual_pass = SamplePass { records, want: PassOutput::Zeroth, zero_targets: false, ..*pass };
    residual_pass.run(passes, &mut moments, None);
    let mut r: Vec<f64> = moments.iter().zip(&w).map(|(m, w)| -f64::from(m[0]) - lambda * w).collect();
    let mut p = r.clone();
    let mut rr: f64 = r.iter().map(|v| v * v).sum();
    let first = rr;
    for _ in 0..iterations {
        if rr <= 1e-12 * first || rr == 0.0 {
            break;
        }
        for (record, p) in records.iter_mut().zip(&p) {
            record[9] = *p as f32;
        }
        let apply = SamplePass { records, want: PassOutput::Zeroth, zero_targets: true, ..*pass };
        apply.run(passes, &mut moments, None);
        let q: Vec<f64> = moments.iter().zip(&p).map(|(m, p)| f64::from(m[0]) + lambda * p).collect();
        let pq: f64 = p.iter().zip(&q).map(|(p, q)| p * q).sum();
        if pq <= 0.0 || !pq.is_finite() {
            break;
        }
        let alpha = rr / pq;
        for i in 0..n {
            w[i] += alpha * p[i];
            r[i] -= alpha * q[i];
        }
        let next: f64 = r.iter().map(|v| v * v).sum();
        let beta = next / rr;
        rr = next;
        for i in 0..n {
            p[i] = r[i] + beta * p[i];
        }
    }
    let w: Vec<f32> = w.into_iter().map(|w| w as f32).collect();
    for (record, w) in records.iter_mut().zip(&w) {
        record[9] = *w;
    }
    w
}
