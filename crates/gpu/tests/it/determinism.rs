//! Same inputs, same bytes: in two runs, with too little capacity for entries at first, and with a save between steps.

use gausset_core::engine::{
    AdamMode, Engine, EngineError, GradientStatistic, PositionNoise, StepReport, TrainState, TrainView,
};
use gausset_gpu::{GpuEngine, GpuOptions};

use crate::against_cpu::{recipe, setup};
use crate::gpu::{engine, gpu};

fn train(engine: &mut dyn Engine, steps: std::ops::Range<u64>) {
    let mut setup = setup(recipe(1500, 2), true, true);
    setup.params.adam = AdamMode::Sparse;
    setup.params.statistic = GradientStatistic::Absolute;
    setup.params.noise = Some(PositionNoise { scale: 0.1, fade_opacity: 0.1 });
    for step in steps {
        engine.step(std::slice::from_ref(&setup.view), &[], &setup.params.with_step(step)).expect("a step");
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
        train(&mut *engine, 0..4);
        engine.save().expect("saved")
    };
    let expected = whole();
    assert!(whole() == expected, "twice");
    let mut first = engine(&gpu);
    first.load(start()).expect("a state");
    train(&mut *first, 0..2);
    let mut second = engine(&gpu);
    second.load(first.save().expect("saved")).expect("a state");
    train(&mut *second, 2..4);
    assert!(second.save().expect("saved") == expected, "stopped and resumed");
}

/// Steps on views of several sizes, so that buffers grow while steps are in flight, with far too little capacity for
/// entries at first; the tile lists of some views are long.
fn train_on_many(engine: &mut dyn Engine) -> (StepReport, TrainState) {
    let large = |width, height| {
        let mut setup = setup(gausset_testkit::RandomScene { width, height, ..recipe(700, 1) }, true, true);
        setup.state.splats.log_scales.iter_mut().for_each(|scale| *scale = [0.2; 3]);
        setup.state.splats.opacity_logits.iter_mut().for_each(|logit| *logit = -3.5);
        setup
    };
    let mut setups = [large(96, 70), large(130, 80), large(320, 200)];
    // The last needs the room; its lists are cut before they are blended, which takes most of the time.
    setups[2].params.render.max_splats_per_tile = 64;
    engine.load(setups[0].state.clone()).expect("a state");
    for step in 0..6u64 {
        let index = (step % 3) as u32;
        let setup = &setups[index as usize];
        let params = setup.params.with_step(step);
        engine.step(&[TrainView { index, ..setup.view.clone() }], &[], &params).expect("a step");
    }
    let report = engine.flush().expect("flushed");
    (report, engine.save().expect("saved"))
}

#[test]
fn any_number_of_steps_under_way_gives_the_same_bytes() {
    let Some(gpu) = gpu("any_number_of_steps_under_way_gives_the_same_bytes") else { return };
    let with = |in_flight: usize| {
        let mut engine = GpuEngine::new(&gpu, GpuOptions { threads: 2, in_flight, ..GpuOptions::default() });
        let halted = train_on_many(&mut engine);
        assert_eq!((halted.0.steps, halted.0.last_step), (6, Some(5)));
        assert!(halted.0.intersections > 65_536, "{:?}", halted.0);
        (engine, halted)
    };
    let (_, expected) = with(1);
    let (mut engine, halted) = with(8);
    assert!(halted == expected);
    // Now the capacity suffices from the start.
    assert!(train_on_many(&mut engine) == expected);
}

/// The third of eight steps in flight fails: two are done, and none after it.
#[test]
fn a_step_that_fails_under_way_ends_what_is_behind_it() {
    let Some(gpu) = gpu("a_step_that_fails_under_way_ends_what_is_behind_it") else { return };
    let setup = setup(recipe(300, 1), false, false);
    let submit = |engine: &mut dyn Engine, step: u64| {
        let mut params = setup.params.with_step(step);
        if step == 2 {
            params.render.background = [f32::NAN; 3];
        }
        engine.step(std::slice::from_ref(&setup.view), &[], &params)
    };
    let mut two = engine(&gpu);
    two.load(setup.state.clone()).expect("a state");
    (0..2).for_each(|step| submit(&mut *two, step).expect("a step"));
    let expected = two.save().expect("saved");
    let mut engine = engine(&gpu);
    engine.load(setup.state.clone()).expect("a state");
    for step in 0..8 {
        if submit(&mut *engine, step).is_err() {
            break;
        }
    }
    let failed = engine.flush();
    assert!(matches!(failed, Err(EngineError::NonFiniteLoss { step: 2, .. })), "{failed:?}");
    assert!(engine.save().expect("saved") == expected);
    engine.load(setup.state.clone()).expect("a state");
    (0..2).for_each(|step| submit(&mut *engine, step).expect("a step"));
    assert!(engine.save().expect("saved") == expected, "and it goes on with another state");
}

/// Splats over the whole image: far more entries than the initial capacity, so that the step is halted and repeated.
#[test]
fn a_step_that_lacks_room_is_done_again_and_only_once() {
    let Some(gpu) = gpu("a_step_that_lacks_room_is_done_again_and_only_once") else { return };
    let large = |n: usize| {
        let mut setup =
            setup(gausset_testkit::RandomScene { width: 320, height: 200, ..recipe(n, 1) }, false, false);
        setup.state.splats.log_scales.iter_mut().for_each(|scale| *scale = [0.5; 3]);
        setup.state.splats.opacity_logits.iter_mut().for_each(|logit| *logit = -4.5);
        // Cut lists need the same room and are blended in a fraction of the time.
        setup.params.render.max_splats_per_tile = 64;
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
    // Now the capacity suffices from the start.
    assert!(run(&mut *engine) == halted);
    // A render that does not fit at first is completed as well.
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

/// Entries beyond the available memory are processed band by band.
#[test]
fn a_step_with_too_many_entries_for_its_memory_gives_the_same_bytes() {
    let Some(gpu) = gpu("a_step_with_too_many_entries_for_its_memory_gives_the_same_bytes") else {
        return;
    };
    if !gpu.info().shares_memory() {
        return;
    }
    let mut setup =
        setup(gausset_testkit::RandomScene { width: 320, height: 200, ..recipe(700, 1) }, false, false);
    setup.state.splats.log_scales.iter_mut().for_each(|scale| *scale = [0.5; 3]);
    setup.state.splats.opacity_logits.iter_mut().for_each(|logit| *logit = -4.5);
    // Cut lists need the same room and are blended in a fraction of the time.
    setup.params.render.max_splats_per_tile = 64;
    let with = |memory: u64| {
        let mut engine = engine(&gpu);
        engine.load(setup.state.clone()).expect("a state");
        engine.limit_memory(memory);
        engine.step(std::slice::from_ref(&setup.view), &[], &setup.params).expect("a step");
        let report = engine.flush().expect("flushed");
        // More than fits into memory: an entry takes 68 bytes.
        assert!(68 * report.intersections > 9 << 20, "{report:?}");
        (report, engine.save().expect("saved"))
    };
    assert!(with(15 << 20) == with(u64::MAX));
}
