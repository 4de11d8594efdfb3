//! The engine contract, for the CPU engine and for an f64 engine on the reference renderer; and that both give the same
//! results.

mod broken;
mod reference;

use gausset_core::engine::{
    CorrectionGroup, CorrectionKind, Engine, GradientStatistic, Outputs, TrainState, TrainView,
};
use gausset_cpu::{CpuEngine, CpuOptions};
use gausset_testkit::engine_contract::{loaded, params, view};
use reference::ReferenceEngine;

fn cpu() -> Box<dyn Engine> {
    let options = CpuOptions { threads: 2, ..CpuOptions::default() };
    Box::new(CpuEngine::new(options).expect("there is always a vector level"))
}

mod on_the_processor {
    gausset_testkit::engine_contract!(super::cpu);
}

mod on_the_reference {
    gausset_testkit::engine_contract!(|| Box::<super::ReferenceEngine>::default());
}

/// The largest difference between two arrays, as a fraction of the largest value.
fn difference(a: impl IntoIterator<Item = f32>, b: impl IntoIterator<Item = f32>) -> f64 {
    let (mut largest, mut difference) = (1e-12f64, 0.0f64);
    for (a, b) in a.into_iter().zip(b) {
        largest = largest.max(f64::from(b.abs()));
        difference = difference.max(f64::from((a - b).abs()));
    }
    difference / largest
}

/// Renders, losses, gradients (in the first moments) and statistics of a step.
#[test]
fn both_engines_do_the_same_step() {
    let groups = || {
        [CorrectionKind::Gain, CorrectionKind::Pose, CorrectionKind::Sky]
            .map(|group| CorrectionGroup::new(group, 1))
            .to_vec()
    };
    let make: [&dyn Fn() -> Box<dyn Engine>; 2] = [&cpu, &|| Box::<ReferenceEngine>::default()];
    let [processor, reference] = make.map(|make| {
        let mut engine = loaded(make, groups());
        let mut step = params(0);
        step.render.sky = true;
        (step.statistic, step.opacity_regularisation, step.scale_regularisation) =
            (GradientStatistic::Signed, 0.01, 0.01);
        let rates = gausset_core::engine::CorrectionRates { first: 1e-2, second: 1e-3, decay: 0.1 };
        (step.exposure, step.pose, step.sky) = (Some(rates), Some(rates), Some(rates));
        let view = TrainView { exposure_row: Some(0), pose_row: Some(0), ..view(1) };
        let picture = engine.render(&view.camera, &view.pose, &step.render, Outputs::All).expect("a picture");
        engine.step(&[view], &[], &step).expect("a step");
        (picture, engine.flush().expect("flushed"), engine.save().expect("saved"))
    });
    let (a, b) = (&processor.0, &reference.0);
    // f32 against f64, as in the fixtures.
    assert!(
        difference(a.color.clone(), b.color.clone()) < 1e-5
            && difference(a.alpha.clone(), b.alpha.clone()) < 1e-5
    );
    assert!(difference(a.depth.clone(), b.depth.clone()) < 1e-5 && a.count == b.count);
    let (a, b) = (processor.1, reference.1);
    assert!((a.last_loss - b.last_loss).abs() < 1e-5 * b.last_loss, "{} {}", a.last_loss, b.last_loss);
    assert_eq!((a.steps, a.last_step, a.visible), (b.steps, b.last_step, b.visible));
    let (a, b): (TrainState, TrainState) = (processor.2, reference.2);
    let flat = |values: &[[f32; 3]]| values.as_flattened().to_vec();
    let (m, n) = (&a.moments.m, &b.moments.m);
    assert!(difference(flat(&m.means), flat(&n.means)) < 1e-3);
    assert!(difference(flat(&m.log_scales), flat(&n.log_scales)) < 1e-3);
    assert!(difference(m.quats.as_flattened().to_vec(), n.quats.as_flattened().to_vec()) < 1e-3);
    assert!(difference(m.opacity_logits.clone(), n.opacity_logits.clone()) < 1e-3);
    assert!(difference(m.sh.clone(), n.sh.clone()) < 1e-3);
    assert_eq!(a.statistics.visible_steps, b.statistics.visible_steps);
    assert!(difference(a.statistics.gradient_sum, b.statistics.gradient_sum) < 1e-3);
    assert!(difference(a.statistics.max_radius, b.statistics.max_radius) < 1e-4);
    for (a, b) in a.corrections.iter().zip(&b.corrections) {
        assert!(difference(a.m.clone(), b.m.clone()) < 1e-3, "{}", a.group);
        assert_eq!((a.group, &a.update_counts), (b.group, &b.update_counts));
    }
}
