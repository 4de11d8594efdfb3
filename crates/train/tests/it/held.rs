//! The owner of a run can render and send requests between its steps, move it to other threads, and drop it.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::common::{cpu, options, runs, session, splats_of};
use gausset_core::engine::{Outputs, RenderOptions};
use gausset_io::atomic::Overwrite;
use gausset_train::{
    AdvanceOutcome, Event, MAX_REQUESTS, Request, Run, RunEnd, TrainConfig, TrainOptions, resumable_config,
};

fn start(options: &TrainOptions, run: &Path) -> Run {
    let config = TrainConfig::resolve(options, None).unwrap();
    let session = session(&config, Box::new(cpu(1)), &Arc::default());
    Run::start(config, run, Overwrite::Refuse, session, &mut |_| {}).unwrap()
}

fn go_on(run: &Path) -> Run {
    let config = resumable_config(run, &TrainOptions::default()).unwrap();
    let session = session(&config, Box::new(cpu(1)), &Arc::default());
    Run::resume(config, run, session, &mut |_| {}).unwrap()
}

/// A run with every kind of work between steps.
fn busy() -> TrainOptions {
    TrainOptions {
        checkpoint_every: Some(9),
        export_every: Some(14),
        eval_every: Some(12),
        refine_poses: Some(true),
        ..options(40)
    }
}

fn finished(run: &mut Run) -> Vec<Event> {
    let mut events = Vec::new();
    let outcome = run.train(&mut |event| events.push(event)).unwrap();
    assert_eq!(outcome.end, RunEnd::Finished);
    events
}

/// Does `count` steps.
fn steps(run: &mut Run, count: u64) {
    let end = run.step() + count;
    while run.step() < end {
        run.advance().unwrap();
    }
}

#[test]
fn a_run_that_is_looked_at_paused_saved_dropped_and_resumed_gives_the_same_bytes() {
    let (_first, whole) = runs();
    let events = finished(&mut start(&busy(), &whole));
    let evaluated = |events: &[Event]| events.iter().filter(|e| matches!(e, Event::Evaluated { .. })).count();
    assert_eq!(evaluated(&events), 4, "three during training and the last");

    let (_second, held) = runs();
    let mut run = start(&busy(), &held);
    steps(&mut run, 5);
    // Renders between two steps, on the device of the run.
    let image = run.dataset().images[3].clone();
    let picture =
        run.engine().render(&image.camera, &image.pose, &RenderOptions::default(), Outputs::All).unwrap();
    assert!(picture.alpha.iter().any(|&alpha| alpha > 0.5));
    steps(&mut run, 3);
    let requests = run.requests();
    for request in [Request::Pause, Request::Save] {
        assert!(requests.send(request));
    }
    run.take_events().for_each(drop);
    while run.advance().unwrap() != AdvanceOutcome::Paused {}
    let told: Vec<Event> = run.take_events().collect();
    let told: Vec<String> = told
        .iter()
        .map(|event| match event {
            Event::Paused { step } => format!("paused {step}"),
            Event::Checkpointed { step, .. } => format!("checkpoint {step}"),
            _ => "progress".to_owned(),
        })
        .collect();
    assert_eq!(told, ["paused 8", "checkpoint 8"]);
    assert_eq!(run.step(), 8);
    // It is dropped without an end, as by a program that exits, and another run resumes.
    drop(run);
    let mut run = go_on(&held);
    assert_eq!(run.step(), 8);
    steps(&mut run, 1);
    finished(&mut run);
    assert!(splats_of(&held) == splats_of(&whole));
    // A run that has ended takes requests, and returns its outcome again.
    for request in [Request::Save, Request::Pause] {
        assert!(run.requests().send(request));
    }
    let outcome = run.train(&mut |event| panic!("{event:?}"));
    assert_eq!(outcome.unwrap().end, RunEnd::Finished);
}

#[test]
fn a_run_is_sent_to_a_thread_and_asked_from_another() {
    let (_folder, folder) = runs();
    let mut run = start(&TrainOptions { steps: Some(100_000), ..options(1) }, &folder);
    let requests = run.requests();
    assert!(requests.send(Request::Pause));
    let (tell, told) = std::sync::mpsc::channel();
    let worker = std::thread::spawn(move || {
        run.train(&mut |event| {
            let _ = tell.send(matches!(event, Event::Resumed { .. }));
        })
    });
    // The run waits, and handles requests before any step.
    assert!(requests.send(Request::Resume));
    assert!(told.iter().any(|is_resumed| is_resumed));
    assert!(requests.send(Request::Stop));
    let outcome = worker.join().unwrap().unwrap();
    assert_eq!(outcome.end, RunEnd::Stopped);
    assert!(folder.join("checkpoints").is_dir() && outcome.summary.steps < 100_000);
}

#[test]
fn a_paused_run_stops_when_it_is_told_to() {
    let (_folder, folder) = runs();
    let config = TrainConfig::resolve(&options(50), None).unwrap();
    let stop = Arc::<AtomicBool>::default();
    let session = session(&config, Box::new(cpu(1)), &stop);
    let mut run = Run::start(config, &folder, Overwrite::Refuse, session, &mut |_| {}).unwrap();
    assert!(run.requests().send(Request::Pause));
    assert_eq!(run.advance().unwrap(), AdvanceOutcome::Answered);
    assert_eq!(run.advance().unwrap(), AdvanceOutcome::Paused);
    stop.store(true, Ordering::Relaxed);
    let AdvanceOutcome::Ended(outcome) = run.advance().unwrap() else { panic!("the run has not ended") };
    assert_eq!((outcome.end, outcome.summary.steps), (RunEnd::Stopped, 0));
}

#[test]
fn no_more_requests_wait_than_there_is_room_for() {
    let (_folder, folder) = runs();
    let mut run = start(&options(3), &folder);
    let requests = run.requests();
    assert!((0..MAX_REQUESTS).all(|_| requests.send(Request::Resume)));
    assert!(!requests.send(Request::Resume));
    finished(&mut run);
    assert!(requests.send(Request::Resume));
}

#[test]
fn a_run_can_be_held_anywhere() {
    fn is_free<T: Send + 'static>() {}
    is_free::<Run>();
}
