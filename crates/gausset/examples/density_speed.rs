//! Measures whole density control updates, classic and MCMC, of a state of SH degree 3 at its limit of splats:
//! `cargo run --release -p gausset --example density_speed [-- cpu|gpu [PASSES [MAX_SPLATS]]]`.
//!
//! With `gpu`: on the GPU, on the host with copies of the state in both directions, and on the CPU alone. Prints medians
//! of wall time in ms, with the 10th and 90th percentile.
#![allow(clippy::print_stdout, reason = "a program for the terminal")]

use std::error::Error;
use std::time::Instant;

use gausset::device::{Device, DeviceOptions, GpuDensity};
use gausset_compute::rng;
use gausset_core::engine::{ClassicRule, DensityRule, Engine, McmcRule, Outputs, RenderOptions, TrainState};
use gausset_core::{Camera, Pose, Splats};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number =
        |index: usize, default| arguments.get(index).map_or(Ok(default), |text| text.parse::<usize>());
    let (passes, most) = (number(1, 20)?, number(2, 1_000_000)?);
    let gpu =
        |density| DeviceOptions { device: Device::Gpu, density: Some(density), ..DeviceOptions::default() };
    let mut devices = vec![("CPU", DeviceOptions { device: Device::Cpu, ..DeviceOptions::default() })];
    if arguments.first().is_some_and(|word| word == "gpu") {
        devices.extend([("GPU", gpu(GpuDensity::Device)), ("host and copies", gpu(GpuDensity::Host))]);
    }
    let mut engines = Vec::new();
    for (name, options) in devices {
        engines.push((name, options.engine(0)?));
    }
    println!("rule       splats  changed  on               median (10 to 90 %) ms");
    for count in [30_000, 100_000, 300_000, 1_000_000].into_iter().filter(|&count| count <= most) {
        let state = state(count);
        for (rule_name, rule) in rules(count as u64) {
            for (name, engine) in &mut engines {
                let (mut times, changed) = time(&mut **engine, &state, &rule, passes)?;
                times.sort_by(f64::total_cmp);
                let [low, median, high] =
                    [0.1, 0.5, 0.9].map(|q: f64| times[(q * (times.len() - 1) as f64) as usize]);
                println!(
                    "{rule_name:<8} {count:>8} {changed:>8}  {name:<16} {median:>7.1} ({low:.1} to {high:.1})"
                );
            }
        }
    }
    Ok(())
}

/// Times in ms of a rule on the same state after an untimed pass, and the number of changed splats.
fn time(
    engine: &mut dyn Engine,
    state: &TrainState,
    rule: &DensityRule,
    passes: usize,
) -> Result<(Vec<f64>, u64), Box<dyn Error>> {
    let camera = Camera::new(16, 16, 16.0, 16.0, 8.0, 8.0)?;
    // The camera sees no splats.
    let pose = Pose { translation: [0.0, 0.0, -100.0], ..Pose::IDENTITY };
    let (mut times, mut changed) = (Vec::new(), 0);
    for _ in 0..=passes.max(1) {
        engine.load(state.clone())?;
        // Uploads are deferred until the first command, so this render completes them before the clock starts.
        engine.render(&camera, &pose, &RenderOptions::default(), Outputs::Color)?;
        let started = Instant::now();
        engine.densify(rule)?;
        let report = engine.flush()?;
        times.push(1e3 * started.elapsed().as_secs_f64());
        changed = report.cloned + report.split + report.pruned + report.relocated + report.added;
    }
    Ok((times.split_off(1), changed))
}

/// A state in which about a tenth of the splats are dead and a tenth would grow.
fn state(count: usize) -> TrainState {
    let mut splats = Splats::zeros(3, count);
    let draw =
        |i: usize, k: u32| rng::philox(2, rng::stream::BACKGROUND, u64::from(k), i as u32).map(rng::uniform);
    for i in 0..count {
        let [x, y, z, opacity] = draw(i, 0);
        splats.means[i] = [x, y, z].map(|u| 20.0 * u - 10.0);
        splats.opacity_logits[i] = -6.5 + 12.0 * opacity;
        let [a, b, c, _] = draw(i, 1);
        splats.log_scales[i] = [a, b, c].map(|u| -9.0 + 5.0 * u);
        splats.quats[i] = draw(i, 2).map(|u| 0.1 + u);
    }
    let mut state = TrainState::new(splats, Vec::new());
    state.statistics.visible_steps.fill(100);
    for (i, sum) in state.statistics.gradient_sum.iter_mut().enumerate() {
        *sum = 100.0 * 2.2e-4 * draw(i, 3)[0];
    }
    state
}

fn rules(max_splats: u64) -> [(&'static str, DensityRule); 2] {
    let classic = ClassicRule {
        seed: 0,
        step: 0,
        gradient_threshold: 2e-4,
        clone_scale_limit: 0.002,
        split_shrink: 1.6,
        prune_opacity: 0.005,
        prune_scale: None,
        prune_screen: None,
        max_splats,
        reorder: true,
    };
    let mcmc = McmcRule {
        seed: 0,
        step: 0,
        dead_opacity: 0.005,
        growth: 1.05,
        max_splats,
        split_largest: 0.5,
        reorder: true,
    };
    [("classic", DensityRule::Classic(classic)), ("mcmc", DensityRule::Mcmc(mcmc))]
}
