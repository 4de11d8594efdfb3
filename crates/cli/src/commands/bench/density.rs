//! `gausset bench density`: the pass over raw parameters that decides which splats are cloned, split and pruned. On a
//! GPU, whole density control updates are measured (`density_rules`).

use std::time::Instant;

use clap::Args;
use gausset::Failure;
use gausset::device::Device;
use gausset_compute::level::{dispatch_level, name};
use gausset_compute::{Exec, PeakRates, Pool, rng};
use gausset_core::engine::ClassicRule;
use gausset_cpu::UnsupportedLevel;
use gausset_density::decide::{self, DecisionInputs, Thresholds};
use serde::Serialize;

use super::density_rules;
use super::timing::TimeStatistics;
use crate::EarlyExit;
use crate::console::Console;
use crate::device::ComputeArgs;
use crate::exit::Status;
use crate::lines::Lines;
use crate::numbers::grouped;
use crate::table::{self, ColumnAlign};

/// Measured numbers of splats.
const SIZES: [usize; 5] = [100_000, 300_000, 1_000_000, 3_000_000, 10_000_000];
/// Bytes read and written per splat: sum, steps, three scales, an opacity, and the decision.
const BYTES_PER_SPLAT: f64 = 25.0;

/// Arguments of `bench density`.
#[derive(Clone, Copy, Debug, Args)]
pub(super) struct DensityArgs {
    /// Number of timed passes per size, after an untimed one.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    passes: u64,
    /// Maximum number of splats (on a GPU at most 1,000,000).
    #[arg(long, value_name = "N", default_value_t = 10_000_000)]
    splats: usize,
    /// Print the result as a JSON object.
    #[arg(long)]
    pub(super) json: bool,
    #[command(flatten)]
    compute: ComputeArgs,
}

/// The result.
#[derive(Debug, Serialize)]
struct DensityMeasurement {
    threads: usize,
    simd: &'static str,
    /// Memory bandwidth of this machine, bytes per second read and written in place.
    stream_bytes_per_s: f64,
    sizes: Vec<SizeMeasurement>,
}

#[derive(Debug, Serialize)]
struct SizeMeasurement {
    splats: usize,
    clone: u64,
    split: u64,
    prune: u64,
    /// Median wall time of a pass.
    median_ms: f64,
    /// 10th percentile; `p90_ms` is the 90th.
    p10_ms: f64,
    p90_ms: f64,
    /// Time of the fastest pass.
    min_ms: f64,
    /// Median time per million splats.
    ms_per_million: f64,
    /// Minimum time for its memory traffic at the measured bandwidth.
    floor_ms: f64,
}

/// Input arrays with one value per splat.
struct Arrays {
    gradient_sum: Vec<f32>,
    visible_steps: Vec<u32>,
    max_radius: Vec<f32>,
    log_scales: Vec<[f32; 3]>,
    opacity_logits: Vec<f32>,
}

impl Arrays {
    /// Random values with which about a tenth of the splats grow, half of them by splitting, and a tenth are pruned.
    fn new(count: usize) -> Self {
        let draw = |i: usize, k: u32| {
            let [a, b, c, d] = rng::philox(1, rng::stream::BACKGROUND, i as u64, k);
            [a, b, c, d].map(rng::uniform)
        };
        let scales = |i: usize| {
            let [a, b, c, _] = draw(i, 1);
            [a, b, c].map(|u| -9.0 + 5.0 * u)
        };
        Self {
            gradient_sum: (0..count).map(|i| 100.0 * 2.2e-4 * draw(i, 0)[0]).collect(),
            visible_steps: vec![100; count],
            max_radius: vec![0.0; count],
            log_scales: (0..count).map(scales).collect(),
            opacity_logits: (0..count).map(|i| -6.5 + 12.0 * draw(i, 0)[1]).collect(),
        }
    }

    fn first(&self, count: usize) -> DecisionInputs<'_> {
        DecisionInputs {
            gradient_sum: &self.gradient_sum[..count],
            visible_steps: &self.visible_steps[..count],
            max_radius: &self.max_radius[..count],
            log_scales: &self.log_scales[..count],
            opacity_logits: &self.opacity_logits[..count],
        }
    }
}

/// Runs the benchmark.
pub(super) fn run(args: &DensityArgs, console: &Console) -> Result<Status, EarlyExit> {
    let options = args.compute.device.options();
    if !matches!(options.device, Device::Auto | Device::Cpu) {
        let measured =
            density_rules::measure(options, args.compute.threads as usize, args.splats, args.passes)?;
        console.json_or_text(&measured, || measured.table())?;
        return Ok(Status::Done);
    }
    let wanted = args.compute.device.level();
    let level = dispatch_level(wanted).ok_or_else(|| Failure::from(UnsupportedLevel(wanted)))?;
    let threads = args.compute.threads as usize;
    let pool = if threads == 0 { Pool::with_all_cores() } else { Pool::new(threads) };
    let exec = Exec { pool: &pool, level };
    let rates = PeakRates::measure(exec);
    let sizes: Vec<usize> = SIZES.into_iter().filter(|&size| size <= args.splats.max(SIZES[0])).collect();
    let arrays = Arrays::new(sizes.iter().copied().max().unwrap_or(0));
    let rule = ClassicRule {
        seed: 0,
        step: 0,
        gradient_threshold: 2e-4,
        clone_scale_limit: 0.002,
        split_shrink: 1.6,
        prune_opacity: 0.005,
        prune_scale: Some(0.018),
        prune_screen: None,
        max_splats: u64::MAX,
        reorder: false,
    };
    let thresholds = Thresholds::from_rule(&rule);
    let measured = sizes.into_iter().map(|splats| {
        let inputs = arrays.first(splats);
        let mut actions = vec![0; splats];
        let mut counts = decide::decide(exec, &inputs, &thresholds, &mut actions);
        let mut times: Vec<f64> = (0..args.passes)
            .map(|_| {
                let started = Instant::now();
                counts = decide::decide(exec, &inputs, &thresholds, &mut actions);
                1e3 * started.elapsed().as_secs_f64()
            })
            .collect();
        let TimeStatistics { median_ms, p10_ms, p90_ms } = TimeStatistics::from_times(&mut times);
        let bytes = BYTES_PER_SPLAT * splats as f64;
        SizeMeasurement {
            splats,
            clone: counts.clone,
            split: counts.split,
            prune: counts.prune,
            median_ms,
            p10_ms,
            p90_ms,
            min_ms: times.first().copied().unwrap_or(0.0),
            ms_per_million: median_ms * 1e6 / splats as f64,
            floor_ms: 1e3 * bytes / rates.stream_rate_for(bytes),
        }
    });
    let measured = DensityMeasurement {
        threads: pool.threads(),
        simd: name(level),
        stream_bytes_per_s: rates.memory_bytes_per_s(),
        sizes: measured.collect(),
    };
    console.json_or_text(&measured, || measured.table())?;
    Ok(Status::Done)
}

impl DensityMeasurement {
    fn table(&self) -> Lines {
        let header = [
            ("splats", ColumnAlign::Right),
            ("clone", ColumnAlign::Right),
            ("split", ColumnAlign::Right),
            ("prune", ColumnAlign::Right),
            ("median ms", ColumnAlign::Right),
            ("fastest", ColumnAlign::Right),
            ("ms per million", ColumnAlign::Right),
            ("floor ms", ColumnAlign::Right),
        ];
        let row = |size: &SizeMeasurement| {
            vec![
                grouped(size.splats as u64),
                grouped(size.clone),
                grouped(size.split),
                grouped(size.prune),
                format!("{:.3}", size.median_ms),
                format!("{:.3}", size.min_ms),
                format!("{:.3}", size.ms_per_million),
                format!("{:.3}", size.floor_ms),
            ]
        };
        let rows: Vec<_> = self.sizes.iter().map(row).collect();
        let plural = if self.threads == 1 { "" } else { "s" };
        let rate = self.stream_bytes_per_s / 1e9;
        let about = format!(
            "{} thread{plural}, {}, {rate:.1} GB/s read and written in place",
            self.threads, self.simd
        );
        Lines::from(about) + "" + table::columns(&header, &rows)
    }
}
