//! `gausset bench field`: speed of dense field evaluation, compared with the floor.
//!
//! Inputs: a box of side 10, σ about 0.5, full covariances, weights in -1..1, from counter-based random numbers, the
//! same on all machines. A call starts from raw parameters and ends with values, or with values and the gradients with
//! respect to means, factors and weights. Packing, padding and unpacking are included in the figures.
//!
//! The floor is the limit of the multiply-add pipes: 13 operations per pair forward (6 for the whitened difference, 3
//! for its square, 4 for the weighted exponential) and 23 backward (10 for the ten moments instead of the sum), at the
//! rate of a loop of multiply-adds, which is measured with each row.

use clap::Args;
use gausset_compute::SimdLevel;
use serde::Serialize;

use super::field_cases::{Row, dense};
use crate::EarlyExit;
use crate::console::Console;
use crate::device::{level_parser, threads_parser};
use crate::exit::Status;
use crate::lines::Lines;
use crate::table::{self, ColumnAlign};

/// Arguments of `bench field`.
#[derive(Clone, Copy, Debug, Args)]
#[command(after_help = "\
Examples:
  gausset bench field --threads 1
  gausset bench field --threads 1 --simd avx2 --json
  gausset bench field --threads 2 --large
Measure release builds on an otherwise idle machine.")]
pub(crate) struct BenchFieldArgs {
    /// SIMD instruction set: auto|avx512|avx2|fallback.
    #[arg(
        long, value_name = "LEVEL", default_value = "auto", value_parser = level_parser(),
        hide_possible_values = true
    )]
    simd: SimdLevel,
    /// Number of threads; 0 = all CPU cores.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = threads_parser())]
    threads: u32,
    /// Number of rounds per row; the median is reported.
    #[arg(long, value_name = "N", default_value_t = 31, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    rounds: u32,
    /// Also measure 10,000 Gaussians at 100,000 points.
    #[arg(long)]
    large: bool,
    /// Print the result as a JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}

/// The result: a stable contract.
#[derive(Debug, Serialize)]
struct FieldMeasurement {
    rows: Vec<Row>,
}

/// Runs the command.
pub(super) fn run(args: &BenchFieldArgs, console: &Console) -> Result<Status, EarlyExit> {
    let compute = gausset::fields::compute(args.threads, args.simd)?;
    let mut sizes = vec![(1000, 500), (10_000, 500)];
    if args.large {
        sizes.push((10_000, 100_000));
    }
    let row = |(n, b)| dense(&compute, args.simd.level_name(), args.rounds, n, b);
    let measured = FieldMeasurement { rows: sizes.into_iter().map(row).collect::<Result<_, _>>()? };
    console.json_or_text(&measured, || measured.table())?;
    Ok(Status::Done)
}

impl FieldMeasurement {
    fn table(&self) -> Lines {
        let header = [
            ("N", ColumnAlign::Right),
            ("B", ColumnAlign::Right),
            ("threads", ColumnAlign::Right),
            ("forward ms", ColumnAlign::Right),
            ("fwd+bwd ms", ColumnAlign::Right),
            ("ns/pair fwd", ColumnAlign::Right),
            ("bwd", ColumnAlign::Right),
            ("over floor", ColumnAlign::Right),
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
        table::columns(&header, &rows)
    }
}
