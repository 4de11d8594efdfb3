//! The fields and points of `bench field`, and their measurement.

use std::time::Instant;

use gausset::Failure;
use gausset_compute::rng;
use gausset_field::{
    AcceleratedEvaluator, Compute, CovarianceKind, Cutoff, Evaluator, FieldGradients, GaussianField,
    SortedPoints, WeightMode, probe,
};
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

#[derive(Debug, Serialize)]
pub(super) struct CutoffRow {
    pub(super) n: usize,
    pub(super) b: usize,
    pub(super) sigma: f64,
    pub(super) cutoff: String,
    /// CPU time of building lists and computing values; the points are already sorted.
    pub(super) forward_ms: f64,
    /// CPU time of sorting the points, once per point set.
    pub(super) sort_ms: f64,
    /// CPU time of a dense call; `null` if it was not measured.
    pub(super) dense_ms: Option<f64>,
    pub(super) speed_up: Option<f64>,
    pub(super) pairs_share: f64,
    /// Guaranteed maximum error, without rounding.
    pub(super) bound: Option<f64>,
    /// Largest difference from a computation in f64, over a sample of points.
    pub(super) measured_error: f64,
}

/// Four uniform random numbers of index `i` in a stream.
fn uniform(stream: u64, i: usize) -> [f32; 4] {
    rng::philox(1, rng::stream::FIELD, stream, i as u32).map(rng::uniform)
}

fn points(b: usize, size: f32) -> Vec<[f32; 3]> {
    (0..b).map(|i| uniform(14, i)).map(|u| [size * u[0], size * u[1], size * u[2]]).collect()
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

/// A field of isotropic Gaussians in the unit box.
fn round_field(n: usize, sigma: f32) -> Result<GaussianField<f32>, Failure> {
    let means = (0..n).map(|i| uniform(11, i)).map(|u| [u[0], u[1], u[2]]).collect();
    let weights = (0..n).map(|i| 2.0 * uniform(11, i)[3] - 1.0).collect();
    let log = sigma.ln();
    let chol = vec![[log, 0.0, log, 0.0, 0.0, log]; n];
    Ok(GaussianField::new(means, chol, weights, WeightMode::Raw, CovarianceKind::Full)?)
}

/// CPU and wall time of a call, ms.
fn timed(call: impl FnOnce() -> Result<(), Failure>) -> Result<(f64, f64), Failure> {
    let (wall, cpu) = (Instant::now(), cpu_seconds());
    call()?;
    Ok((1e3 * (cpu_seconds() - cpu), 1e3 * wall.elapsed().as_secs_f64()))
}

/// Parameters of a measurement.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setup<'a> {
    pub(super) compute: &'a Compute,
    /// Requested SIMD level.
    pub(super) simd: &'static str,
    /// Number of rounds, of which the median is reported.
    pub(super) rounds: u32,
}

pub(super) fn dense(setup: Setup<'_>, n: usize, b: usize) -> Result<Row, Failure> {
    let Setup { compute, simd, rounds } = setup;
    let field = dense_field(n)?;
    let points = points(b, 10.0);
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

/// CPU time of a dense call on the problem of the cut-off rows.
pub(super) fn dense_round(compute: &Compute) -> Result<f64, Failure> {
    let field = round_field(100_000, 0.02)?;
    let points = points(100_000, 1.0);
    let evaluator = Evaluator::new(compute, &field)?;
    // A fifth of the points is enough, because each costs the same.
    let part = &points[..20_000];
    let (cpu, _) = timed(|| {
        std::hint::black_box(evaluator.values(part)?);
        Ok(())
    })?;
    Ok(5.0 * cpu)
}

pub(super) fn with_cutoff(
    setup: Setup<'_>,
    (n, b, sigma): (usize, usize, f32),
    cutoff: Cutoff,
    dense_ms: Option<f64>,
) -> Result<CutoffRow, Failure> {
    const CHECKED: usize = 200;
    let compute = setup.compute;
    let field = round_field(n, sigma)?;
    let points = points(b, 1.0);
    let (mut sort, mut forward) = (Vec::new(), Vec::new());
    let mut last = None;
    let rounds = if n > 500_000 { 1 } else { setup.rounds.min(9) };
    // The evaluator runs once before it is timed, as in a loop where its lists keep their memory.
    for _ in 0..=rounds {
        let mut set = None;
        sort.push(
            timed(|| {
                set = Some(SortedPoints::new(&points)?);
                Ok(())
            })?
            .0,
        );
        let Some(set) = set else { continue };
        let evaluator = AcceleratedEvaluator::new(compute, &field)?;
        evaluator.values(&set, cutoff)?;
        let (cpu, _) = timed(|| {
            last = Some(evaluator.values(&set, cutoff)?);
            Ok(())
        })?;
        forward.push(cpu);
    }
    let (values, report) = last.unwrap_or_default();
    let exact: GaussianField<f64> = field.cast();
    let step = b / CHECKED;
    let sample: Vec<usize> = (0..CHECKED).map(|i| i * step).collect();
    let wide: Vec<[f64; 3]> = sample.iter().map(|&i| points[i].map(f64::from)).collect();
    let truth = Evaluator::new(compute, &exact)?.values(&wide)?;
    let errors = sample.iter().zip(&truth).map(|(&i, t)| (f64::from(values[i]) - t).abs());
    let measured_error = errors.fold(0.0, f64::max);
    let forward_ms = median(&mut forward[usize::from(rounds > 1)..]);
    Ok(CutoffRow {
        n,
        b,
        sigma: f64::from(sigma),
        cutoff: match cutoff {
            Cutoff::Absolute(error) => format!("{error:e}"),
            Cutoff::Relative(share) => format!("{}% of the largest |f|", 100.0 * share),
            Cutoff::Radius(radius) => format!("{radius} sigma"),
        },
        forward_ms,
        sort_ms: median(&mut sort),
        dense_ms,
        speed_up: dense_ms.map(|dense| dense / forward_ms),
        pairs_share: report.pairs as f64 / (n as f64 * b as f64),
        bound: report.bound,
        measured_error,
    })
}
