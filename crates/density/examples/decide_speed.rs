//! Measures the pass that decides which splats are cloned, split and pruned:
//! `cargo run --release -p gausset-density --example decide_speed [-- THREADS [PASSES]]`.
//!
//! Prints medians of wall time (with the 10th and 90th percentile), and the floor: the minimum time for the memory
//! traffic of 25 bytes per splat at the rate measured here.
#![allow(clippy::print_stdout, reason = "a program for the terminal")]

use std::error::Error;
use std::time::Instant;

use gausset_compute::{Exec, PeakRates, Pool, SimdLevel, dispatch_level, rng};
use gausset_core::engine::ClassicRule;
use gausset_density::decide::{self, DecisionInputs, Thresholds};

/// Bytes read and written per splat: sum, steps, three scales, an opacity, and the decision.
const BYTES_PER_SPLAT: f64 = 25.0;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let pool = Pool::new(arguments.next().map_or(Ok(1), |text| text.parse())?);
    let passes: usize = arguments.next().map_or(Ok(20), |text| text.parse())?;
    let level = dispatch_level(SimdLevel::Auto).ok_or("no SIMD level")?;
    let exec = Exec { pool: &pool, level };
    let rates = PeakRates::measure(exec);
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
    println!("    splats    clone    split    prune  median (10 to 90 %) ms  floor ms");
    for count in [100_000, 300_000, 1_000_000, 3_000_000, 10_000_000] {
        // About a tenth of the splats grow, half of them by splitting, and a tenth are pruned.
        let draw = |i: usize, k: u32| rng::philox(1, rng::stream::BACKGROUND, i as u64, k).map(rng::uniform);
        let gradient_sum: Vec<f32> = (0..count).map(|i| 100.0 * 2.2e-4 * draw(i, 0)[0]).collect();
        let opacity_logits: Vec<f32> = (0..count).map(|i| -6.5 + 12.0 * draw(i, 0)[1]).collect();
        let log_scales: Vec<[f32; 3]> =
            (0..count).map(|i| draw(i, 1)).map(|[a, b, c, _]| [a, b, c].map(|u| -9.0 + 5.0 * u)).collect();
        let inputs = DecisionInputs {
            gradient_sum: &gradient_sum,
            visible_steps: &vec![100; count],
            max_radius: &vec![0.0; count],
            log_scales: &log_scales,
            opacity_logits: &opacity_logits,
        };
        let mut actions = vec![0; count];
        let mut counts = decide::decide(exec, &inputs, &thresholds, &mut actions);
        let mut times = Vec::new();
        for _ in 0..passes.max(1) {
            let started = Instant::now();
            counts = decide::decide(exec, &inputs, &thresholds, &mut actions);
            times.push(1e3 * started.elapsed().as_secs_f64());
        }
        times.sort_by(f64::total_cmp);
        let [low, median, high] =
            [0.1, 0.5, 0.9].map(|q: f64| times[(q * (times.len() - 1) as f64) as usize]);
        let bytes = BYTES_PER_SPLAT * count as f64;
        let floor = 1e3 * bytes / rates.stream_rate_for(bytes);
        let decide::DecisionCounts { clone, split, prune } = counts;
        println!(
            "{count:>10} {clone:>8} {split:>8} {prune:>8}  {median:>7.3} ({low:.3} to {high:.3})  {floor:>8.3}"
        );
    }
    Ok(())
}
