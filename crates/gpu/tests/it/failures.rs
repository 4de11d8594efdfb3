//! Failures are errors of one line, never panics.

use gausset_core::engine::{EngineError, Outputs, RenderOptions};
use gausset_gpu::{AdapterChoice, Gpu};
use gausset_testkit::engine_contract::{loaded, params, view};

use crate::gpu::{engine, gpu};

#[test]
fn a_device_that_is_taken_away_is_an_error_of_every_call() {
    let test = "a_device_that_is_taken_away_is_an_error_of_every_call";
    if gpu(test).is_none() {
        return;
    }
    // A separate device: the others continue to work.
    let lost = Gpu::open(&AdapterChoice::Best).expect("it was opened before");
    let mut engine = loaded(&|| engine(&lost), Vec::new());
    engine.step(&[view(0)], &[], &params(0)).expect("a step");
    engine.flush().expect("flushed");
    lost.destroy();
    let is_device = |outcome: Result<(), EngineError>| match outcome {
        Err(EngineError::DeviceFailed(what)) => assert!(!what.contains('\n') && !what.is_empty(), "{what}"),
        other => panic!("{other:?}"),
    };
    let late = engine.step(&[view(0)], &[], &params(1));
    if late.is_err() {
        is_device(late);
    }
    is_device(engine.flush().map(drop));
    is_device(engine.save().map(drop));
    let camera = view(0).camera;
    is_device(engine.render(&camera, &view(0).pose, &RenderOptions::default(), Outputs::All).map(drop));
}

#[test]
fn an_adapter_that_is_not_there_is_told_with_those_that_are() {
    let test = "an_adapter_that_is_not_there_is_told_with_those_that_are";
    if gpu(test).is_none() {
        return;
    }
    let refused = Gpu::open(&AdapterChoice::Named("Voodoo 2".to_owned()));
    let Err(EngineError::DeviceFailed(what)) = refused else { panic!("{refused:?}") };
    assert!(what.contains("Voodoo 2") && what.contains(&Gpu::list()[0].name), "{what}");
}
