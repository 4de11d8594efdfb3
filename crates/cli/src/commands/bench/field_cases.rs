//! The fields and points of `bench field`, and their measurement.

use std::time::Instant;

use gausset::Failure;
use gausset_compute::rng;
use gausset_field::{Compute, CovarianceKind, Evaluator, FieldGradients, GaussianField, WeightMode, probe};
use serde::Serialize;

use super::timing::{cpu_seconds, median};

/// Multiply-add operations per pair of Gaussian and point.
const FORWARD_OPERATIONS: f64 = 13.0;
const BACKWARD_OPERATIONS: f64 = 23.0;

#[derive(Debug, Serialize)]
pub(super) struct Row {
    pub(super) n: usize,
    pub(super) b: usize,
    pub(super) threads: usize,
    pub(super) simd: &'static str,
    /// CPU time per call, all threads.
    pub(super) forward_ms: f64,
    pub(super) forward_backward_ms: f64,
    pub(super) ns_per_pair_forward: f64,
    pub(super) ns_per_pair_backward: f64,
    /// Time of a forward and a backward pass divided by the floor of the multiply-add pipes.
    pub(super) floor_ratio: f64,
    pub(super) forward_wall_ms: f64,
    pub(super) forward_backward_wall_ms: f64,
    pub(super) floor_ns_per_operation: f64,
}

/// Four uniform random numbers of index `i` in a stream.
fn uniform(stream: u64, i: usize) -> [f32; 4] {
    rng::philox(1, rng::stream::FIELD, stream, i as u32).map(rng::uniform)
}

/// A field in a box of side 10 with σ about 0.5.
fn dense_field(n: usize) -> Result<GaussianField<f32>, Failure> {
    let log = |u: f32| 0.5f32.ln() + 0.6 * (u - 0.5);
    let chol = |i: usize| {
        let (u, v) = (uniform(12, i), uniform(13, i));
        [log(u[0]), 0.3 * (v[0] - 0.5), log(u[1]), 0.3 * (v[1] - 0.5), 0.3 * (v[2] - 0.5), log(u[2])]
    };
    let weights = (0..n).map(|i| 2.0 * uniform(11, i)[3] - 1.0).collect();
    let means = (0..n).map(|i| uniform(11, i)).map(|u| [10.0 * u[0], 10.0 * u[1], 10.0 * u[2]]).collect();
    let chol = (0..n).map(chol).collect();
    Ok(GaussianField::new(means, chol, weights, WeightMode::Raw, CovarianceKind::Full)?)
}

/// CPU and wall time of a call, ms.
fn timed(call: impl FnOnce() -> Result<(), Failure>) -> Result<(f64, f64), Failure> {
    let (wall, cpu) = (Instant::now(), cpu_seconds());
    call()?;
    Ok((1e3 * (cpu_seconds() - cpu), 1e3 * wall.elapsed().as_secs_f64()))
}

/// Measures `n` Gaussians at `b` points: medians of `rounds` rounds. `simd` is the requested SIMD level.
pub(super) fn dense(
    compute: &Compute,
    simd: &'static str,
    rounds: u32,
    n: usize,
    b: usize,
) -> Result<Row, Failure> {
    let field = dense_field(n)?;
    let points: Vec<[f32; 3]> =
        (0..b).map(|i| uniform(14, i)).map(|u| [10.0 * u[0], 10.0 * u[1], 10.0 * u[2]]).collect();
    let gbar: Vec<f32> = (0..b).map(|i| uniform(15, i)[0] - 0.5).collect();
    let mut gradients = FieldGradients::zeros(0);
    let rounds = if n * b > 100_000_000 { rounds.min(5) } else { rounds };
    let (mut forward, mut both, mut floor) = (Vec::new(), Vec::new(), Vec::new());
    let (mut forward_wall, mut both_wall) = (Vec::new(), Vec::new());
    for _ in 0..=rounds {
        let (cpu, wall) = timed(|| {
            std::hint::black_box(Evaluator::new(compute, &field)?.values(&points)?);
            Ok(())
        })?;
        forward.push(cpu);
        forward_wall.push(wall);
        let (cpu, wall) = timed(|| {
            let evaluator = Evaluator::new(compute, &field)?;
            std::hint::black_box(evaluator.values(&points)?);
            Ok(evaluator.vjp_into(&points, &gbar, &mut gradients)?)
        })?;
        both.push(cpu);
        both_wall.push(wall);
        floor.push(probe::ns_per_lane_operation(compute.level, cpu_seconds));
    }
    // The first round is a warm-up of caches and memory.
    let settled = |values: &mut Vec<f64>| median(&mut values[1..]);
    let (forward_ms, forward_backward_ms) = (settled(&mut forward), settled(&mut both));
    let operation = settled(&mut floor);
    let pairs = n as f64 * b as f64;
    Ok(Row {
        n,
        b,
        threads: compute.pool.threads(),
        simd,
        forward_ms,
        forward_backward_ms,
        ns_per_pair_forward: 1e6 * forward_ms / pairs,
        ns_per_pair_backward: 1e6 * (forward_backward_ms - forward_ms) / pairs,
        floor_ratio: 1e6 * forward_backward_ms
            / (pairs * operation * (FORWARD_OPERATIONS + BACKWARD_OPERATIONS)),
        forward_wall_ms: settled(&mut forward_wall),
        forward_backward_wall_ms: settled(&mut both_wall),
        floor_ns_per_operation: operation,
    })
}
