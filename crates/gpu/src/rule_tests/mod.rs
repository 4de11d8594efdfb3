//! Density rules on the device compared with those of the host, from the same states.

mod classic;
mod free_space;
mod mcmc;
mod protocol;

use gausset_compute::Pool;
use gausset_compute::rng::{philox, stream, uniform};
use gausset_core::Splats;
use gausset_core::engine::{ClassicRule, DensityRule, Engine, McmcRule, StepReport, TrainState};

use crate::device::Gpu;
use crate::engine::{DensityBackend, GpuEngine, GpuOptions};
use crate::test_device::gpu;

/// Sizes around a workgroup of 256, a block of 4096, and the capacity of such a state.
const SIZES: [usize; 6] = [0, 1, 255, 256, 257, 4097];

fn engine(gpu: &Gpu, in_flight: usize) -> GpuEngine {
    GpuEngine::new(
        gpu,
        GpuOptions { threads: 1, in_flight, density: DensityBackend::Device, ..GpuOptions::default() },
    )
}

/// A state with non-trivial moments, clocks, statistics, and ids out of order. 1 in 8 opacities are below the dead
/// threshold.
fn state(n: usize, degree: u8, seed: u64) -> TrainState {
    let mut splats = Splats::zeros(degree, n);
    let stride = splats.sh_stride();
    for i in 0..n {
        let of = |k: u32| uniform(philox(seed, stream::TEST, u64::from(k), i as u32)[0]);
        let between = |k: u32, low: f32, high: f32| low + (high - low) * of(k);
        splats.means[i] = [0, 1, 2].map(|k| between(k, -3.0, 3.0));
        splats.log_scales[i] = [3, 4, 5].map(|k| between(k, -6.0, -2.0));
        splats.quats[i] = [6, 7, 8, 9].map(|k| between(k, -1.0, 1.0));
        splats.opacity_logits[i] =
            if of(10) < 0.125 { between(11, -9.0, -5.4) } else { between(11, -2.0, 4.0) };
        for k in 0..stride {
            splats.sh[i * stride + k] = between(100 + k as u32, -1.0, 1.0);
        }
    }
    let mut state = TrainState::new(splats, Vec::new());
    for (moment, first) in [(&mut state.moments.m, 1e-3f32), (&mut state.moments.v, 1e-6)] {
        let value = |i: usize| first * (1 + i % 97) as f32;
        let arrays = [&mut moment.means, &mut moment.log_scales];
        arrays
            .into_iter()
            .for_each(|a| a.as_flattened_mut().iter_mut().enumerate().for_each(|(i, v)| *v = value(i)));
        moment.quats.as_flattened_mut().iter_mut().enumerate().for_each(|(i, v)| *v = value(i + 1));
        moment.opacity_logits.iter_mut().enumerate().for_each(|(i, v)| *v = value(i + 2));
        moment.sh.iter_mut().enumerate().for_each(|(i, v)| *v = value(i + 3));
    }
    for i in 0..n {
        let words = philox(seed, stream::TEST, 1000, i as u32);
        state.update_counts[i] = words[0] % 500;
        state.ids[i] = (i as u32).wrapping_mul(7).wrapping_add(11);
        state.statistics.visible_steps[i] = words[1] % 100;
        state.statistics.gradient_sum[i] = uniform(words[2]) * 0.04;
        state.statistics.max_radius[i] = uniform(words[3]) * 40.0;
    }
    state.next_id = 7 * n as u32 + 100;
    state
}

fn classic_rule() -> ClassicRule {
    ClassicRule {
        seed: 0x5_0000_0003,
        step: 700,
        gradient_threshold: 2e-4,
        clone_scale_limit: 0.02,
        split_shrink: 1.6,
        prune_opacity: 0.005,
        prune_scale: None,
        prune_screen: None,
        max_splats: u64::MAX,
        reorder: false,
    }
}

fn mcmc_rule() -> McmcRule {
    McmcRule {
        seed: 0x9_0000_0001,
        step: 900,
        dead_opacity: 0.005,
        growth: 1.05,
        max_splats: u64::MAX,
        split_largest: 0.5,
        reorder: false,
    }
}

/// The state and report of an engine after some rules.
fn applied(engine: &mut GpuEngine, state: &TrainState, rules: &[DensityRule]) -> (TrainState, StepReport) {
    engine.load(state.clone()).expect("a state");
    rules.iter().for_each(|rule| engine.densify(rule).expect("a rule"));
    let report = engine.flush().expect("flushed");
    (engine.save().expect("saved"), report)
}

fn on_host(state: &TrainState, rule: &DensityRule) -> (TrainState, StepReport) {
    let mut state = state.clone();
    let mut report = StepReport::default();
    gausset_density::apply(&mut state, rule, &Pool::new(1)).add_to(&mut report);
    let splats = state.splats.len();
    (state, report.take_report(splats))
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|v| v.to_bits()).collect()
}

/// All arrays of floats of a state, by name.
fn arrays(state: &TrainState) -> Vec<(String, Vec<u32>)> {
    let parts = [("", &state.splats), ("m ", &state.moments.m), ("v ", &state.moments.v)];
    let mut all = Vec::new();
    for (part, splats) in parts {
        all.push((format!("{part}means"), bits(splats.means.as_flattened())));
        all.push((format!("{part}log scales"), bits(splats.log_scales.as_flattened())));
        all.push((format!("{part}quats"), bits(splats.quats.as_flattened())));
        all.push((format!("{part}logits"), bits(&splats.opacity_logits)));
        all.push((format!("{part}sh"), bits(&splats.sh)));
    }
    all.push(("gradient sums".to_owned(), bits(&state.statistics.gradient_sum)));
    all.push(("radii".to_owned(), bits(&state.statistics.max_radius)));
    all.push(("visible steps".to_owned(), state.statistics.visible_steps.clone()));
    all.push(("clocks".to_owned(), state.update_counts.clone()));
    all.push(("ids".to_owned(), state.ids.clone()));
    all.push(("next id".to_owned(), vec![state.next_id]));
    all
}

/// Compares the bits of all arrays except `but`, which are compared elsewhere.
fn assert_equal_bits(name: &str, a: &TrainState, b: &TrainState, but: &[&str]) {
    for ((what, a), (_, b)) in arrays(a).into_iter().zip(arrays(b)) {
        if !but.contains(&&*what) {
            assert_eq!(a.len(), b.len(), "{name}: {what}");
            let first = a.iter().zip(&b).position(|(a, b)| a != b);
            assert_eq!(first, None, "{name}: {what} differ");
        }
    }
}
