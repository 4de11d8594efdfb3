//! Same inputs, same bytes: twice, with too little room for entries at first, and with steps taken apart by a save.

use gausset_core::engine::{AdamMode, Engine, GradientStatistic, Noise, TrainState};

use crate::against_cpu::{recipe, setup};
use crate::gpu::{engine, gpu};

fn train(engine: &mut dyn Engine, steps: std::ops::Range<u64>) {
    let mut setup = setup(recipe(1500, 2), true, true);
    setup.params.adam = AdamMode::Sparse;
    setup.params.statistic = GradientStatistic::Absolute;
    setup.params.noise = Some(Noise { scale: 0.1, opacity_fade: 0.1 });
    for step in steps {
        engine.step(std::slice::from_ref(&setup.view), &[], &setup.params.numbered(step)).expect("a step");
    }
}

fn start() -> TrainState {
    setup(recipe(1500, 2), true, true).state
}

#[test]
fn the_same_steps_give_the_same_bytes_also_when_they_are_taken_apart() {
    let Some(gpu) = gpu("the_same_steps_give_the_same_bytes_also_when_they_are_taken_apart") else { return };
    let whole = || {
        let mut engine = engine(&gpu);
        engine.load(start()).expect("a state");
        train(&mut *engine, 0..6);
        engine.save().expect("saved")
    };
    let expected = whole();
    assert!(whole() == expected, "twice");
    let mut first = engine(&gpu);
    first.load(start()).expect("a state");
    train(&mut *first, 0..2);
    let mut second = engine(&gpu);
    second.load(first.save().expect("saved")).expect("a state");
    train(&mut *second, 2..6);
    assert!(second.save().expect("saved") == expected, "stopped and resumed");
}

/// Splats over the whole picture: far more entries than there is room for at first, so that the step is halted and done
/// again.
#[test]
fn a_step_that_lacks_room_is_done_again_and_only_once() {
    let Some(gpu) = gpu("a_step_that_lacks_room_is_done_again_and_only_once") else { return };
    let large = |n: usize| {
        let mut setup =
            setup(gausset_testkit::RandomScene { width: 320, height: 200, ..recipe(n, 1) }, false, false);
        setup.state.splats.log_scales.iter_mut().for_each(|scale| *scale = [0.5; 3]);
        setup.state.splats.opacity_logits.iter_mut().for_each(|logit| *logit = -4.5);
        setup
    };
    let setup = large(700);
    let run = |engine: &mut dyn Engine| {
        engine.load(setup.state.clone()).expect("a state");
        engine.step(std::slice::from_ref(&setup.view), &[], &setup.params).expect("a step");
        let report = engine.flush().expect("flushed");
        assert_eq!((report.steps, report.last_step), (1, Some(setup.params.step)));
        assert!(report.intersections > 65_536, "{report:?}");
        engine.save().expect("saved")
    };
    let mut engine = engine(&gpu);
    let halted = run(&mut *engine);
    // Now there is room from the start.
    assert!(run(&mut *engine) == halted);
    // And a picture that lacks room is drawn all the same.
    let mut fresh = crate::gpu::engine(&gpu);
    fresh.load(setup.state.clone()).expect("a state");
    let picture = |engine: &mut dyn Engine| {
        engine
            .render(&setup.view.camera, &setup.view.pose, &setup.params.render, Default::default())
            .expect("a picture")
    };
    let small = picture(&mut *fresh);
    assert!(small == picture(&mut *fresh));
}

/// Entries beyond what one buffer may hold are refused with numbers, and the engine goes on.
#[test]
fn a_step_with_too_many_entries_for_its_memory_fails_and_changes_nothing() {
    let Some(gpu) = gpu("a_step_with_too_many_entries_for_its_memory_fails_and_changes_nothing") else {
        return;
    };
    if !gpu.info().shares_memory() {
        return;
    }
    let mut setup =
        setup(gausset_testkit::RandomScene { width: 320, height: 200, ..recipe(700, 1) }, false, false);
    setup.state.splats.log_scales.iter_mut().for_each(|scale| *scale = [0.5; 3]);
    setup.state.splats.opacity_logits.iter_mut().for_each(|logit| *logit = -4.5);
    let mut engine = engine(&gpu);
    engine.load(setup.state.clone()).expect("a state");
    engine.limit_memory(15 << 20);
    engine.step(std::slice::from_ref(&setup.view), &[], &setup.params).expect("a step that is under way");
    let failed = engine.flush();
    let Err(gausset_core::engine::EngineError::OutOfMemory { what, needed, limit }) = failed else {
        panic!("{failed:?}")
    };
    assert!(what.starts_with("view `view`: the tile lists") && needed > limit, "{what}");
    assert!(engine.save().expect("saved") == setup.state);
}
