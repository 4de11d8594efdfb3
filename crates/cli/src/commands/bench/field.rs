//! `gausset bench field`: speed of field evaluation, dense and with a cut-off, compared with the floor.
//!
//! Inputs: a box of side 10, σ about 0.5, full covariances, weights in -1..1, from counter-based random numbers, the
//! same on all machines. A call starts from raw parameters and ends with values, or with values and the gradients with
//! respect to means, factors and weights. Packing, padding and unpacking are included in the figures.
//!
//! The floor is the limit of the multiply-add pipes: 13 operations per pair forward (6 for the whitened difference, 3
//! for its square, 4 for the weighted exponential) and 23 backward (10 for the ten moments instead of the sum), at the
//! rate of a loop of multiply-adds, which is measured with each row.

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use gausset_compute::SimdLevel;
use gausset_field::Cutoff;
use serde::Serialize;

use super::field_cases::{CutoffRow, Row, Setup, dense, dense_round, with_cutoff};
use crate::EarlyExit;
use crate::console::Console;
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
        long, value_name = "LEVEL", default_value = "auto", hide_possible_values = true,
        value_parser = PossibleValuesParser::new(SimdLevel::ALL.map(SimdLevel::level_name))
            .map(|name| SimdLevel::ALL.into_iter().find(|level| level.level_name() == name).unwrap_or_default())
    )]
    pub(super) simd: SimdLevel,
    /// Number of threads; 0 = all CPU cores.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(0..=4096))]
    threads: u32,
    /// Number of rounds per row; the median is reported.
    #[arg(long, value_name = "N", default_value_t = 31, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(super) rounds: u32,
    /// Also measure 10,000 Gaussians at 100,000 points.
    #[arg(long)]
    large: bool,
    /// Also measure evaluation with a cut-off: 100,000 Gaussians at 100,000 points, sigma 2 % of the box.
    #[arg(long)]
    cutoff: bool,
    /// Also measure a million Gaussians at a million points with a cut-off, sigma 0.5 % of the box.
    #[arg(long)]
    million: bool,
    /// Print the result as a JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}

/// The result: a stable contract.
#[derive(Debug, Serialize)]
struct FieldMeasurement {
    rows: Vec<Row>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    cutoff: Vec<CutoffRow>,
}

/// Runs the command.
pub(super) fn run(args: &BenchFieldArgs, console: &Console) -> Result<Status, EarlyExit> {
    if cfg!(debug_assertions) {
        console.warn(
            "the build",
            "bench: not a release build, figures are not meaningful (use cargo build --release)",
        );
    }
    let compute = gausset::fields::compute(args.threads, args.simd)?;
    let setup = Setup { compute: &compute, simd: args.simd.level_name(), rounds: args.rounds };
    let mut measured = FieldMeasurement { rows: Vec::new(), cutoff: Vec::new() };
    let mut sizes = vec![(1000, 500), (10_000, 500)];
    if args.large {
        sizes.push((10_000, 100_000));
    }
    for (n, b) in sizes {
        measured.rows.push(dense(setup, n, b)?);
    }
    if args.cutoff {
        let dense = dense_round(&compute)?;
        for cutoff in [Cutoff::Absolute(1e-6), Cutoff::Relative(1e-5)] {
            measured.cutoff.push(with_cutoff(setup, (100_000, 100_000, 0.02), cutoff, Some(dense))?);
        }
    }
    if args.million {
        let size = (1_000_000, 1_000_000, 0.005);
        measured.cutoff.push(with_cutoff(setup, size, Cutoff::Absolute(1e-6), None)?);
    }
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
        let mut out = table::columns(&header, &rows);
        if !self.cutoff.is_empty() {
            let header = [
                ("N", ColumnAlign::Right),
                ("B", ColumnAlign::Right),
                ("cut-off", ColumnAlign::Left),
                ("forward ms", ColumnAlign::Right),
                ("sort ms", ColumnAlign::Right),
                ("speed-up", ColumnAlign::Right),
                ("pairs", ColumnAlign::Right),
                ("bound", ColumnAlign::Right),
                ("error", ColumnAlign::Right),
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
            out += "";
            out += table::columns(&header, &rows);
        }
        out
    }
}
