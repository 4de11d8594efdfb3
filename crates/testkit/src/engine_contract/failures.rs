//! Invalid arguments, failures, and memory limits.

use gausset_core::engine::{
    CorrectionGroup, CorrectionKind, DensityRule, Engine, EngineError, Outputs, SceneSize, StepParams,
    TrainState, TrainView,
};

use super::scene::{CORRECTION, loaded, options, params, scene, start, train, view};
use super::{MakeEngine, assert_same};

/// A step with invalid arguments returns an error at once, and the engine continues as if it had not been called.
pub fn what_is_refused_changes_nothing(make: MakeEngine<'_>) {
    let mut engine = loaded(make, vec![CorrectionGroup::new(CorrectionKind::Gain, 2)]);
    train(&mut *engine, 0..1);
    let before = engine.save().expect("saved");
    let whole = view(0);
    let small = TrainView { camera: whole.camera.downscaled(2), ..whole.clone() };
    let no_row = TrainView { exposure_row: Some(2), ..whole.clone() };
    let no_group = TrainView { pose_row: Some(0), ..whole.clone() };
    let rated = StepParams { exposure: Some(CORRECTION), pose: Some(CORRECTION), ..params(1) };
    let mut sky = params(1);
    sky.render.sky = true;
    let wrong = [
        ("no view", vec![], params(1)),
        ("a picture of another size than its camera's", vec![small], params(1)),
        ("a row that is not there", vec![no_row], rated),
        ("a group that is not there", vec![no_group], rated),
        ("a sky that is not there", vec![whole], sky),
    ];
    for (what, views, params) in wrong {
        let refused = engine.step(&views, &[], &params);
        assert!(matches!(refused, Err(EngineError::InvalidInput(_))), "{what}: {refused:?}");
    }
    let picture = engine.render(&view(0).camera, &scene().pose, &sky.render, Outputs::Color);
    assert!(matches!(picture, Err(EngineError::InvalidInput(_))), "a picture with a sky that is not there");
    assert!(engine.save().expect("saved") == before);
    train(&mut *engine, 1..2);
    assert_eq!(engine.flush().expect("flushed").steps, 2);
}

/// States whose arrays have inconsistent lengths.
pub fn arrays_that_do_not_fit_are_refused(make: MakeEngine<'_>) {
    /// Name of a fault, and how to create it.
    type Spoilt = (&'static str, fn(&mut TrainState));
    let wrong: [Spoilt; 5] = [
        ("a mean too few", |state| state.splats.means.truncate(23)),
        ("a first moment too few", |state| state.moments.m.quats.truncate(23)),
        ("an id too many", |state| state.ids.push(99)),
        ("a statistic too few", |state| state.statistics.max_radius.truncate(23)),
        ("a value of a correction too few", |state| state.corrections[0].values.truncate(5)),
    ];
    let mut engine = loaded(make, Vec::new());
    for (what, spoil) in wrong {
        let mut state = start(vec![CorrectionGroup::new(CorrectionKind::Gain, 2)]);
        spoil(&mut state);
        let refused = engine.load(state);
        assert!(matches!(refused, Err(EngineError::InvalidInput(_))), "{what}: {refused:?}");
    }
    engine.load(start(Vec::new())).expect("a whole state");
    train(&mut *engine, 0..1);
}

/// The failed step, all later steps, all reports and renders return an error; the state is that before the failed step;
/// a new state resets the error.
pub fn a_loss_that_is_not_finite_stops_what_follows_and_changes_nothing(make: MakeEngine<'_>) {
    let mut engine = loaded(make, Vec::new());
    train(&mut *engine, 0..2);
    let mut nothing = params(4);
    nothing.render.background = [f32::NAN; 3];
    let failed = |outcome: Result<(), EngineError>| match outcome {
        Err(EngineError::NonFiniteLoss { step, view, loss }) => {
            assert_eq!((step, &view[..], loss.is_finite()), (4, "view 1", false));
        }
        other => panic!("the first loss that is not finite should be reported: {other:?}"),
    };
    let late = |outcome: Result<(), EngineError>| {
        if outcome.is_err() {
            failed(outcome);
        }
    };
    // The error may come late.
    late(engine.step(&[view(1)], &[], &nothing));
    late(engine.step(&[view(2)], &[], &params(5)));
    failed(engine.flush().map(drop));
    failed(engine.flush().map(drop));
    failed(engine.poll().map(drop));
    failed(engine.step(&[view(2)], &[], &params(6)));
    failed(engine.densify(&DensityRule::ResetOpacity { max_opacity: 0.1 }));
    let camera = view(0).camera;
    failed(engine.render(&camera, &scene().pose, &options(), Outputs::Color).map(drop));
    // A device that does not support the query need not report the error.
    match engine.weight_in_front(&camera, &scene().pose, &options(), &[]) {
        Ok(None) => {}
        told => failed(told.map(drop)),
    }

    let mut other = loaded(make, Vec::new());
    train(&mut *other, 0..2);
    let (state, expected) = (engine.save().expect("saved"), other.save().expect("saved"));
    assert_same(&state, &expected, "as before the step that failed");
    assert!(engine.read_corrections().is_ok());

    engine.load(state).expect("loaded");
    assert_eq!(engine.flush().expect("flushed").steps, 0, "steps of the state before");
    train(&mut *engine, 2..3);
    train(&mut *other, 2..3);
    let (a, b) = (engine.save().expect("saved"), other.save().expect("saved"));
    assert_same(&a, &b, "gone on");
}

/// Steps and renders beyond the limit are refused and change nothing; with enough memory they are done.
pub fn too_little_memory_is_told_before_it_is_taken(make: MakeEngine<'_>) {
    let mut engine = loaded(make, Vec::new());
    let size = SceneSize { splats: 24, sh_degree: 1, pixels: view(0).camera.pixels() as u64 };
    if engine.memory_needs(&size).limit.is_some() {
        return;
    }
    let before = engine.save().expect("saved");
    engine.limit_memory(1000);
    let short = |outcome: Result<(), EngineError>| match outcome {
        Err(EngineError::OutOfMemory { what, needed, limit }) => {
            assert!(needed > limit && limit <= 1000 && !what.is_empty(), "{what}: {needed} {limit}");
        }
        other => panic!("1000 bytes are too little: {other:?}"),
    };
    short(engine.step(&[view(0)], &[], &params(0)));
    let camera = view(0).camera;
    short(engine.render(&camera, &scene().pose, &options(), Outputs::Color).map(drop));
    short(engine.render(&camera, &scene().pose, &options(), Outputs::All).map(drop));
    assert!(engine.save().expect("saved") == before);
    // A render that no machine has the memory for.
    engine.limit_memory(1 << 30);
    let huge = gausset_core::Camera::new(32_768, 32_768, 3e4, 3e4, 1.6e4, 1.6e4).expect("a camera");
    let refused = engine.render(&huge, &scene().pose, &options(), Outputs::All);
    assert!(matches!(refused, Err(EngineError::OutOfMemory { .. })), "{:?}", refused.map(|_| ()));
    train(&mut *engine, 0..1);
    assert_eq!(engine.flush().expect("flushed").steps, 1);
}

/// Twice the splats need twice the memory on top of what is needed without splats.
pub fn needs_grow_evenly(make: MakeEngine<'_>) {
    let engine = make();
    let need = |splats: u64, pixels: u64| engine.memory_needs(&SceneSize { splats, sh_degree: 3, pixels });
    let parts = |splats: u64| {
        let need = need(splats, 10_000);
        [need.host.state, need.host.working, need.device.state, need.device.working]
    };
    let [none, one, many] = [0, 1, 1000].map(parts);
    for k in 0..4 {
        assert_eq!(many[k] - none[k], 1000 * (one[k] - none[k]), "{none:?} {one:?} {many:?}");
    }
    assert!(many[0] + many[2] > 0, "a state is somewhere");
    let [small, large] = [need(1000, 1_000), need(1000, 1_000_000)];
    assert!(large.host.working + large.device.working > small.host.working + small.device.working);
    assert_eq!(
        small.limit.is_some(),
        small.device.total() > 0,
        "a limit for memory of its own, and only for that"
    );
    let info = engine.describe();
    assert!(!info.name.is_empty() && !info.kind.is_empty());
}

/// The trait must be object-safe and `Send`: engines are moved to the training thread.
const _: fn(Box<dyn Engine>) = |engine| {
    fn is_send<T: Send>(_: T) {}
    is_send(engine);
};
