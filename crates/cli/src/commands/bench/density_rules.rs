//! `gausset bench density --device gpu`: whole density control updates of a state of SH degree 3 at its maximum number
//! of splats: on the GPU, on the host with copies of the state in both directions, and on the CPU alone.

use std::time::Instant;

use gausset::Failure;
use gausset::device::{Device, DeviceOptions, GpuDensity};
use gausset_compute::rng;
use gausset_core::engine::{
    ClassicRule, DensityRule, Engine, EngineError, McmcRule, Outputs, RenderOptions, TrainState,
};
use gausset_core::{Camera, Pose, Splats};
use serde::Serialize;

use super::timing::TimeStatistics;
use crate::lines::Lines;
use crate::numbers::grouped;
use crate::table::{self, ColumnAlign};

/// Measured numbers of splats.
const SIZES: [usize; 4] = [30_000, 100_000, 300_000, 1_000_000];
const SH_DEGREE: u8 = 3;

/// The result.
#[derive(Debug, Serialize)]
pub(super) struct RulesMeasurement {
    device: String,
    threads: usize,
    sh_degree: u8,
    rules: Vec<RuleMeasurement>,
}

#[derive(Debug, Serialize)]
struct RuleMeasurement {
    rule: &'static str,
    splats: usize,
    /// Number of splats that the rule moved, split, cloned, added or removed.
    changed: u64,
    /// Time on the GPU, from the call to the report.
    device: TimeStatistics,
    /// Time on the host, including the copies of the state from and to the GPU.
    staged: TimeStatistics,
    /// Time on the CPU engine.
    processor: TimeStatistics,
}

/// A state in which about a tenth of the splats are dead and a tenth would grow.
fn state(count: usize) -> TrainState {
    let mut splats = Splats::zeros(SH_DEGREE, count);
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

fn rules(count: usize) -> [(&'static str, DensityRule); 2] {
    let classic = ClassicRule {
        seed: 0,
        step: 0,
        gradient_threshold: 2e-4,
        clone_scale_limit: 0.002,
        split_shrink: 1.6,
        prune_opacity: 0.005,
        prune_scale: None,
        prune_screen: None,
        max_splats: count as u64,
        reorder: true,
    };
    let mcmc = McmcRule {
        seed: 0,
        step: 0,
        dead_opacity: 0.005,
        growth: 1.05,
        max_splats: count as u64,
        split_largest: 0.5,
        reorder: true,
    };
    [("classic", DensityRule::Classic(classic)), ("mcmc", DensityRule::Mcmc(mcmc))]
}

/// Times a rule on the same state after an untimed pass. Returns the times and the number of changed splats.
fn time(
    engine: &mut dyn Engine,
    state: &TrainState,
    rule: &DensityRule,
    passes: u64,
) -> Result<(TimeStatistics, u64), EngineError> {
    let camera = Camera::new(16, 16, 16.0, 16.0, 8.0, 8.0)
        .map_err(|err| EngineError::InvalidInput(err.to_string()))?;
    let identity = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]];
    // The camera sees no splats.
    let pose = Pose { rotation: identity, translation: [0.0, 0.0, -100.0] };
    let mut times = Vec::new();
    let mut changed = 0;
    for pass in 0..=passes {
        engine.load(state.clone())?;
        // Uploads are deferred until the first command, so this render completes them before the clock starts.
        engine.render(&camera, &pose, &RenderOptions::default(), Outputs::Color)?;
        let started = Instant::now();
        engine.densify(rule)?;
        let report = engine.flush()?;
        if pass > 0 {
            times.push(1e3 * started.elapsed().as_secs_f64());
        }
        changed = report.cloned + report.split + report.pruned + report.relocated + report.added;
    }
    Ok((TimeStatistics::from_times(&mut times), changed))
}

/// Measures both rules at all sizes up to `largest`, each with `passes` timed passes.
pub(super) fn measure(
    options: DeviceOptions,
    threads: usize,
    largest: usize,
    passes: u64,
) -> Result<RulesMeasurement, Failure> {
    let engine = |options: DeviceOptions| options.engine(threads);
    let mut device = engine(DeviceOptions { density: Some(GpuDensity::Device), ..options })?;
    let mut staged = engine(DeviceOptions { density: Some(GpuDensity::Host), ..options })?;
    let mut processor = engine(DeviceOptions { device: Device::Cpu, density: None, ..options })?;
    let about = device.describe();
    let mut measured = Vec::new();
    for splats in SIZES.into_iter().filter(|&size| size <= largest.max(SIZES[0])) {
        let state = state(splats);
        for (name, rule) in rules(splats) {
            let (on_device, changed) = time(&mut *device, &state, &rule, passes)?;
            let (with_copies, _) = time(&mut *staged, &state, &rule, passes)?;
            let (alone, _) = time(&mut *processor, &state, &rule, passes)?;
            measured.push(RuleMeasurement {
                rule: name,
                splats,
                changed,
                device: on_device,
                staged: with_copies,
                processor: alone,
            });
        }
    }
    Ok(RulesMeasurement { device: about.name, threads: about.threads, sh_degree: SH_DEGREE, rules: measured })
}

impl RulesMeasurement {
    /// Formats the measurement as a table.
    pub(super) fn table(&self) -> Lines {
        let header = [
            ("rule", ColumnAlign::Left),
            ("splats", ColumnAlign::Right),
            ("changed", ColumnAlign::Right),
            ("on the device ms", ColumnAlign::Right),
            ("copies and host ms", ColumnAlign::Right),
            ("processor ms", ColumnAlign::Right),
        ];
        let cell = |i: &TimeStatistics| format!("{:.1} ({:.1} to {:.1})", i.median_ms, i.p10_ms, i.p90_ms);
        let row = |m: &RuleMeasurement| {
            vec![
                m.rule.to_owned(),
                grouped(m.splats as u64),
                grouped(m.changed),
                cell(&m.device),
                cell(&m.staged),
                cell(&m.processor),
            ]
        };
        let rows: Vec<_> = self.rules.iter().map(row).collect();
        let about = format!("{}, degree {}, medians (10 to 90 %)", self.device, self.sh_degree);
        Lines::from(about) + "" + table::columns(&header, &rows)
    }
}
