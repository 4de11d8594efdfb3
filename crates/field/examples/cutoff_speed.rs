//! Measures evaluation with a cut-off against dense evaluation, of isotropic Gaussians in the unit box:
//! `cargo run --release -p gausset-field --example cutoff_speed [-- GAUSSIANS SIGMA [THREADS]]` (100000 0.02 1).
//!
//! There are as many points as Gaussians. Prints CPU ms: values for sorted points (median of nine), sorting, and the
//! dense call, estimated from a share of the points; the share of the pairs that are evaluated; the guaranteed error,
//! without rounding; and the largest difference from f64 at 200 points.
#![allow(clippy::print_stdout, reason = "a program for the terminal")]

use std::error::Error;
use std::hint::black_box;

use gausset_compute::{SimdLevel, rng};
use gausset_field::{
    AcceleratedEvaluator, Compute, CovarianceKind, Cutoff, Evaluator, GaussianField, SortedPoints, WeightMode,
};

const ROUNDS: usize = 9;
/// Pairs of the dense call that is timed.
const DENSE_PAIRS: usize = 2_000_000_000;
/// Points that are checked in f64.
const CHECKED: usize = 200;

fn uniform(stream: u64, i: usize) -> [f32; 4] {
    rng::philox(1, rng::stream::FIELD, stream, i as u32).map(rng::uniform)
}

fn cpu_ms() -> f64 {
    gausset_prof::process_cpu().map_or(f64::NAN, |time| 1e3 * time.as_secs_f64())
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let n: usize = arguments.next().map_or(Ok(100_000), |text| text.parse())?;
    let sigma: f32 = arguments.next().map_or(Ok(0.02), |text| text.parse())?;
    let compute = Compute::new(arguments.next().map_or(Ok(1), |text| text.parse())?, SimdLevel::Auto);
    let compute = compute.ok_or("no SIMD level")?;
    let place = |stream: u64| move |i: usize| [0, 1, 2].map(|axis| uniform(stream, i)[axis]);
    let (means, points): (Vec<_>, Vec<_>) =
        ((0..n).map(place(11)).collect(), (0..n).map(place(14)).collect());
    let weights = (0..n).map(|i| 2.0 * uniform(11, i)[3] - 1.0).collect();
    let log = sigma.ln();
    let chol = vec![[log, 0.0, log, 0.0, 0.0, log]; n];
    let field = GaussianField::new(means, chol, weights, WeightMode::Raw, CovarianceKind::Full)?;

    let part = &points[..(DENSE_PAIRS / n).clamp(1, n)];
    let dense = Evaluator::new(&compute, &field)?;
    let started = cpu_ms();
    black_box(dense.values(part)?);
    let dense_ms = (cpu_ms() - started) * n as f64 / part.len() as f64;

    let exact: GaussianField<f64> = field.cast();
    let checked: Vec<usize> = (0..CHECKED).map(|k| k * (n / CHECKED)).collect();
    let wide: Vec<[f64; 3]> = checked.iter().map(|&i| points[i].map(f64::from)).collect();
    let truth = Evaluator::new(&compute, &exact)?.values(&wide)?;
    println!("cut-off                values ms   sort ms    dense ms   pairs    bound    error");
    for cutoff in [Cutoff::Absolute(1e-6), Cutoff::Relative(1e-5)] {
        let started = cpu_ms();
        let sorted = SortedPoints::new(&points)?;
        let sort_ms = cpu_ms() - started;
        let evaluator = AcceleratedEvaluator::new(&compute, &field)?;
        // The first round allocates the lists.
        let (mut values, mut report) = evaluator.values(&sorted, cutoff)?;
        let mut times = Vec::new();
        for _ in 0..ROUNDS {
            let started = cpu_ms();
            (values, report) = evaluator.values(&sorted, cutoff)?;
            times.push(cpu_ms() - started);
        }
        times.sort_by(f64::total_cmp);
        let name = format!("{cutoff:?}");
        let errors = checked.iter().zip(&truth).map(|(&i, t)| (f64::from(values[i]) - t).abs());
        println!(
            "{name:<20} {:>11.1} {sort_ms:>9.1} {dense_ms:>11.1} {:>5.2} % {:>8.1e} {:>8.1e}",
            times[ROUNDS / 2],
            100.0 * report.pairs as f64 / (n as f64 * n as f64),
            report.bound.unwrap_or(f64::NAN),
            errors.fold(0.0, f64::max)
        );
    }
    Ok(())
}
