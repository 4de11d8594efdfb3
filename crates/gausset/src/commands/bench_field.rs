//! `gausset bench field`: how fast fields are evaluated, dense and with a cut-off, and how near that is to the floor.
//!
//! Inputs: box 10, about σ 0.5, full covariances, weights in -1..1, from counter-based random numbers: the same everywhere. A call begins with raw parameters and ends with values, or with values
//! and the gradients by means, factors and weights: packing, padding and unpacking are in the figures.
//!
//! The floor is what the multiply-add pipes allow: 13 operations a pair forward (6 for the whitened difference, 3 for
//! its square, 4 for the weighted exponential) and 23 backward (10 for the ten moments instead of the sum), at the rate this machine shows in a loop of nothing else, measured beside each row.

use std::time::Instant;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use gausset_compute::{VectorLevel, rng};
use gausset_field::{
    AcceleratedEvaluator, Compute, Covariance, Cutoff, Evaluator, FieldGradients, GaussianField, PointSet,
    WeightMode, probe,
};
use gausset_flow::Failure;
use serde::Serialize;

use super::bench::{cpu_seconds, median};
use crate::Ending;
use crate::console::Console;
use crate::exit::Status;
use crate::table::{self, Align};

/// Operations of a pair on the multiply-add pipes.
const FORWARD_OPERATIONS: f64 = 13.0;
const BACKWARD_OPERATIONS: f64 = 23.0;

/// Arguments of `bench field`.
#[derive(Clone, Copy, Debug, Args)]
#[command(after_help = "\
Examples:
  gausset bench field --threads 1
  gausset bench field --threads 1 --simd avx2 --json
  gausset bench field --threads 2 --large
Measure release builds on an otherwise idle machine.")]
pub(crate) struct BenchFieldArgs {
    /// Vector instructions: auto|avx512|avx2|fallback.
    #[arg(
        long, value_name = "LEVEL", default_value = "auto", hide_possible_values = true,
        value_parser = PossibleValuesParser::new(VectorLevel::ALL.map(VectorLevel::name))
            .map(|name| VectorLevel::ALL.into_iter().find(|level| level.name() == name).unwrap_or_default())
    )]
    simd: VectorLevel,
    /// Threads; 0 = all processors.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(0..=4096))]
    threads: u32,
    /// Rounds per row, of which the median counts.
    #[arg(long, value_name = "N", default_value_t = 31, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    rounds: u32,
    /// Also 10,000 Gaussians at 100,000 points.
    #[arg(long)]
    large: bool,
    /// Also evaluation with a cut-off: 100,000 Gaussians at 100,000 points, sigma 2 % of the box.
    #[arg(long)]
    cutoff: bool,
    /// Also a million Gaussians at a million points, sigma 0.5 % of the box, with a cut-off.
    #[arg(long)]
    million: bool,
    /// Print the result as a JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}

/// The result: a stable contract.
#[derive(Debug, Serialize)]
struct Measured {
    rows: Vec<Row>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    cutoff: Vec<CutoffRow>,
}

#[derive(Debug, Serialize)]
struct Row {
    n: usize,
    b: usize,
    threads: usize,
    simd: &'static str,
    /// CPU time of a call, all threads.
    forward_ms: f64,
    forward_backward_ms: f64,
    ns_per_pair_forward: f64,
    ns_per_pair_backward: f64,
    /// Time of a forward and a backward pass over what the multiply-add pipes allow.
    floor_ratio: f64,
    forward_wall_ms: f64,
    forward_backward_wall_ms: f64,
    floor_ns_per_operation: f64,
}

#[derive(Debug, Serialize)]
struct CutoffRow {
    n: usize,
    b: usize,
    sigma: f64,
    cutoff: String,
    /// CPU time: lists and values, points already sorted.
    forward_ms: f64,
    /// CPU time of sorting the points, once per point set.
    sort_ms: f64,
    /// CPU time of a dense call; `null` where it was not run.
    dense_ms: Option<f64>,
    speed_up: Option<f64>,
    pairs_share: f64,
    /// Guaranteed, rounding apart.
    bound: Option<f64>,
    /// Largest difference from f64 over a sample of points.
    measured_error: f64,
}

/// Uniform numbers of a row.
fn uniform(stream: u64, i: usize) -> [f32; 4] {
    rng::philox(1, rng::stream::FIELD, stream, i as u32).map(rng::uniform)
}

fn points(b: usize, size: f32) -> Vec<[f32; 3]> {
    (0..b).map(|i| uniform(14, i)).map(|u| [size * u[0], size * u[1], size * u[2]]).collect()
}

/// Box 10, σ about 0.5.
fn dense_field(n: usize) -> Result<GaussianField<f32>, Failure> {
    let log = |u: f32| 0.5f32.ln() + 0.6 * (u - 0.5);
    let chol = |i: usize| {
        let (u, v) = (uniform(12, i), uniform(13, i));
        [log(u[0]), 0.3 * (v[0] - 0.5), log(u[1]), 0.3 * (v[1] - 0.5), 0.3 * (v[2] - 0.5), log(u[2])]
    };
    let weights = (0..n).map(|i| 2.0 * uniform(11, i)[3] - 1.0).collect();
    let means = (0..n).map(|i| uniform(11, i)).map(|u| [10.0 * u[0], 10.0 * u[1], 10.0 * u[2]]).collect();
    let chol = (0..n).map(chol).collect();
    Ok(GaussianField::new(means, chol, weights, WeightMode::Raw, Covariance::Full)?)
}

/// Unit box, round Gaussians.
fn round_field(n: usize, sigma: f32) -> Result<GaussianField<f32>, Failure> {
    let means = (0..n).map(|i| uniform(11, i)).map(|u| [u[0], u[1], u[2]]).collect();
    let weights = (0..n).map(|i| 2.0 * uniform(11, i)[3] - 1.0).collect();
    let log = sigma.ln();
    let chol = vec![[log, 0.0, log, 0.0, 0.0, log]; n];
    Ok(GaussianField::new(means, chol, weights, WeightMode::Raw, Covariance::Full)?)
}

/// Runs the command.
pub(super) fn run(args: &BenchFieldArgs, console: &Console) -> Result<Status, Ending> {
    if cfg!(debug_assertions) {
        console
            .warn("the build", "bench: not a release build: figures mean little (use cargo build --release)");
    }
    let compute = Compute::new(args.threads as usize, args.simd).ok_or_else(|| {
        let name = args.simd.name();
        Failure::new("device", format!("--simd {name}: this processor does not have it; use --simd auto"))
    })?;
    let mut measured = Measured { rows: Vec::new(), cutoff: Vec::new() };
    let mut sizes = vec![(1000, 500), (10_000, 500)];
    if args.large {
        sizes.push((10_000, 100_000));
    }
    for (n, b) in sizes {
        measured.rows.push(dense(args, &compute, n, b)?);
    }
    if args.cutoff {
        let dense = dense_round(&compute)?;
        for cutoff in [Cutoff::Absolute(1e-6), Cutoff::Relative(1e-5)] {
            measured.cutoff.push(with_cutoff(args, &compute, (100_000, 100_000, 0.02), cutoff, Some(dense))?);
        }
    }
    if args.million {
        let size = (1_000_000, 1_000_000, 0.005);
        measured.cutoff.push(with_cutoff(args, &compute, size, Cutoff::Absolute(1e-6), None)?);
    }
    console.object_or(&measured, || measured.table())?;
    Ok(Status::Done)
}

/// CPU and wall time of a call in ms.
fn timed(call: impl FnOnce() -> Result<(), Failure>) -> Result<(f64, f64), Failure> {
    let (wall, cpu) = (Instant::now(), cpu_seconds());
    call()?;
    Ok((1e3 * (cpu_seconds() - cpu), 1e3 * wall.elapsed().as_secs_f64()))
}

fn dense(args: &BenchFieldArgs, compute: &Compute, n: usize, b: usize) -> Result<Row, Failure> {
    let field = dense_field(n)?;
    let points = points(b, 10.0);
    let gbar: Vec<f32> = (0..b).map(|i| uniform(15, i)[0] - 0.5).collect();
    let mut gradients = FieldGradients::zeros(0);
    let rounds = if n * b > 100_000_000 { args.rounds.min(5) } else { args.rounds };
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
    // The first round warms caches and memory up.
    let settled = |values: &mut Vec<f64>| median(&mut values[1..]);
    let (forward_ms, forward_backward_ms) = (settled(&mut forward), settled(&mut both));
    let operation = settled(&mut floor);
    let pairs = n as f64 * b as f64;
    Ok(Row {
        n,
        b,
        threads: compute.pool.threads(),
        simd: args.simd.name(),
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
fn dense_round(compute: &Compute) -> Result<f64, Failure> {
    let field = round_field(100_000, 0.02)?;
    let points = points(100_000, 1.0);
    let evaluator = Evaluator::new(compute, &field)?;
    // A fifth of the points stands for all: the cost is the same for each.
    let part = &points[..20_000];
    let (cpu, _) = timed(|| {
        std::hint::black_box(evaluator.values(part)?);
        Ok(())
    })?;
    Ok(5.0 * cpu)
}

fn with_cutoff(
    args: &BenchFieldArgs,
    compute: &Compute,
    (n, b, sigma): (usize, usize, f32),
    cutoff: Cutoff,
    dense_ms: Option<f64>,
) -> Result<CutoffRow, Failure> {
    const CHECKED: usize = 200;
    let field = round_field(n, sigma)?;
    let points = points(b, 1.0);
    let (mut sort, mut forward) = (Vec::new(), Vec::new());
    let mut last = None;
    let rounds = if n > 500_000 { 1 } else { args.rounds.min(9) };
    // One evaluator, as in a loop: its lists keep their memory. Its construction is timed, too.
    for _ in 0..=rounds {
        let mut set = None;
        sort.push(
            timed(|| {
                set = Some(PointSet::new(&points)?);
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

impl Measured {
    fn table(&self) -> String {
        let header = [
            ("N", Align::Right),
            ("B", Align::Right),
            ("threads", Align::Right),
            ("forward ms", Align::Right),
            ("fwd+bwd ms", Align::Right),
            ("ns/pair fwd", Align::Right),
            ("bwd", Align::Right),
            ("over floor", Align::Right),
        ];
        let rows: Vec<Vec<String>> = self
            .rows
            .iter()
            .map(|row| {
                vec![
                    row.n.to_string(),
                    row.b.to_string(),
                    row.threads.to_string(),
                    format!("{:.4}", row.forward_ms),
                    format!("{:.4}", row.forward_backward_ms),
                    format!("{:.3}", row.ns_per_pair_forward),
                    format!("{:.3}", row.ns_per_pair_backward),
                    format!("{:.2}", row.floor_ratio),
                ]
            })
            .collect();
        let mut out = table::columns(&header, &rows);
        if !self.cutoff.is_empty() {
            let header = [
                ("N", Align::Right),
                ("B", Align::Right),
                ("cut-off", Align::Left),
                ("forward ms", Align::Right),
                ("sort ms", Align::Right),
                ("speed-up", Align::Right),
                ("pairs", Align::Right),
                ("bound", Align::Right),
                ("error", Align::Right),
            ];
            let rows: Vec<Vec<String>> = self
                .cutoff
                .iter()
                .map(|row| {
                    vec![
                        row.n.to_string(),
                        row.b.to_string(),
                        row.cutoff.clone(),
                        format!("{:.1}", row.forward_ms),
                        format!("{:.1}", row.sort_ms),
                        row.speed_up.map_or_else(|| "-".to_owned(), |s| format!("{s:.1}x")),
                        format!("{:.2} %", 100.0 * row.pairs_share),
                        row.bound.map_or_else(|| "-".to_owned(), |b| format!("{b:.1e}")),
                        format!("{:.1e}", row.measured_error),
                    ]
                })
                .collect();
            out += "\n";
            out += &table::columns(&header, &rows);
        }
        out
    }
}
