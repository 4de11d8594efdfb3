//! A device on which one allocation fails, for each allocation in turn.

use gausset_core::engine::{
    ClassicRule, DensityRule, Engine, EngineError, Outputs, RenderOptions, TrainState,
};
use gausset_gpu::{AdapterChoice, Gpu, GpuEngine, GpuOptions};
use gausset_testkit::engine_contract::{params, start, view};

use crate::gpu::gpu;

fn engine(gpu: &Gpu) -> GpuEngine {
    GpuEngine::new(gpu, GpuOptions { threads: 1, ..GpuOptions::default() })
}

/// A small training: steps on two views, a rule that lets the set grow, a render, the state.
fn trained(engine: &mut GpuEngine) -> Result<TrainState, EngineError> {
    engine.load(start(Vec::new()))?;
    let rule = ClassicRule {
        seed: 1,
        step: 2,
        gradient_threshold: 0.0,
        clone_scale_limit: 0.1,
        split_shrink: 1.6,
        prune_opacity: 0.0,
        prune_scale: None,
        prune_screen: None,
        max_splats: 100,
        reorder: true,
    };
    for step in 0..3 {
        engine.step(&[view(step as u32 % 2)], &[], &params(step))?;
        if step == 1 {
            engine.densify(&DensityRule::Classic(rule))?;
        }
    }
    engine.flush()?;
    engine.render(&view(0).camera, &view(0).pose, &RenderOptions::default(), Outputs::All)?;
    engine.save()
}

#[test]
fn a_refused_allocation_is_one_line_and_the_device_goes_on() {
    if gpu("a_refused_allocation_is_one_line_and_the_device_goes_on").is_none() {
        return;
    }
    // A separate device: the others continue to work.
    let gpu = Gpu::open(&AdapterChoice::Best).expect("it was opened before");
    let expected = trained(&mut engine(&gpu)).expect("a state");
    let (mut refused, mut survived) = (0, 0);
    let mut number = 1;
    loop {
        gpu.refuse_allocation(number);
        let mut engine = engine(&gpu);
        let outcome = trained(&mut engine);
        let has_come = gpu.refuse_allocation(0);
        match outcome {
            // The failed allocation was optional: a cached image.
            Ok(state) => {
                survived += u32::from(has_come);
                assert!(state == expected, "allocation {number}");
            }
            Err(error) => {
                let line = error.to_string();
                assert!(error.is_device_failure() && !line.contains('\n'), "allocation {number}: {line}");
                assert!(
                    line.ends_with("of memory, and the device has none left"),
                    "allocation {number}: {line}"
                );
                refused += 1;
                // The same engine, with an earlier state.
                if number % 10 == 1 {
                    assert!(trained(&mut engine).expect("again") == expected, "after allocation {number}");
                }
            }
        }
        if !has_come {
            break;
        }
        // Each of the first allocations, then in larger steps: the slots of units are alike.
        number += if number < 12 { 1 } else { 5 };
    }
    assert!(refused > 15 && survived <= 2, "{refused} refused, {survived} survived of {number}");
}
