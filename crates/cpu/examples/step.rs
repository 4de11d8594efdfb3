//! Times training steps of the reference workload: `cargo run --release -p gausset-cpu --example step -- trained 2 auto 30`.
#![allow(clippy::print_stdout, reason = "prints its result")]

use std::sync::Arc;
use std::time::Instant;

use gausset_compute::huge_pages::HugePages;
use gausset_compute::{Pool, SimdLevel};
use gausset_core::engine::{
    AdamMode, Engine, GradientStatistic, LearningRates, Outputs, RenderOptions, StepParams, TrainState,
    TrainView,
};
use gausset_cpu::{CpuEngine, CpuOptions};
use gausset_scenes::workload::{Workload, WorkloadState};

/// The allocator of the program.
#[global_allocator]
static MEMORY: HugePages = HugePages;

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let arg = |i: usize, default: &str| args.get(i).cloned().unwrap_or_else(|| default.to_owned());
    let state = if arg(1, "trained") == "init" { WorkloadState::Initial } else { WorkloadState::Trained };
    let threads: usize = arg(2, "1").parse().expect("threads");
    let wanted =
        SimdLevel::ALL.into_iter().find(|l| l.level_name() == arg(3, "auto")).expect("a vector level");
    let steps: usize = arg(4, "30").parse().expect("steps");
    let adam = if arg(5, "sparse") == "dense" { AdamMode::Dense } else { AdamMode::Sparse };

    let workload = Workload::new(state);
    // Sorted along a Morton curve, as training keeps them.
    let order = gausset_density::morton::order(&workload.splats.means, &Pool::new(1));
    let splats = workload.splats.select(&order.into_iter().map(|i| i as usize).collect::<Vec<_>>());
    let mut engine = CpuEngine::new(CpuOptions { threads, level: wanted }).expect("level");
    println!("{}", engine.describe().name);
    engine.load(TrainState::new(splats, Vec::new())).expect("load");
    let view = TrainView {
        index: 0,
        downscale: 1,
        name: "workload".into(),
        camera: workload.camera,
        pose: workload.pose,
        target: Arc::new(workload.target.clone()),
        exposure_row: None,
        vignetting_row: None,
        pose_row: None,
        camera_from_rig: None,
    };
    let rates = LearningRates {
        means: 1.6e-10,
        log_scales: 5e-9,
        quats: 1e-9,
        opacity_logits: 5e-8,
        sh_dc: 2.5e-9,
        sh_rest: 1.25e-10,
    };
    let mut times = Vec::new();
    gausset_prof::set_enabled(true);
    for step in 0..steps + 3 {
        if step == 3 {
            gausset_prof::reset();
        }
        let mut params = StepParams::new(step as u64, 0, RenderOptions::default(), rates);
        params.adam = adam;
        params.statistic = GradientStatistic::Signed;
        let start = Instant::now();
        {
            let _span = gausset_prof::span("step");
            engine.step(std::slice::from_ref(&view), &[], &params).expect("step");
        }
        if step >= 3 {
            times.push(start.elapsed().as_secs_f64() * 1e3);
        }
    }
    let report = engine.flush().expect("flush");
    times.sort_by(f64::total_cmp);
    println!("{}", gausset_prof::snapshot().table());
    println!(
        "median {:.2} ms, best {:.2} ms; visible {}, entries {}, loss {:.6}; {:.1} MB",
        times[times.len() / 2],
        times[0],
        report.visible,
        report.intersections,
        report.last_loss,
        engine.bytes() as f64 / 1e6
    );
    let picture = engine
        .render(&workload.camera, &workload.pose, &RenderOptions::default(), Outputs::All)
        .expect("render");
    let mean = picture.color.iter().map(|&v| f64::from(v)).sum::<f64>() / picture.color.len() as f64;
    println!("mean of the picture {mean:.5}");
}
