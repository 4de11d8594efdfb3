//! A run with a time budget can be repeated exactly from its recorded decisions.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::common::{cpu, ignore, options, resume, runs, session, splats_of, train};
use gausset_io::atomic::Overwrite;
use gausset_train::{Event, RecordedRun, Run, RunEnd, RunOutcome, TimeBudget, TrainConfig, TrainOptions};

fn within(budget_ms: u64) -> TrainOptions {
    TrainOptions { time_budget: Some(TimeBudget::Milliseconds(budget_ms)), steps: None, ..options(1) }
}

/// Starts a run with a time budget; stops it after `stop_after` steps. A run that is stopped loses time before its first
/// step, so that it decides on fewer steps as soon as a decision may follow the first one.
fn start(given: &TrainOptions, run: &Path, stop_after: Option<u64>) -> RunOutcome {
    let since = Instant::now();
    let config = TrainConfig::resolve(given, None).unwrap();
    let stop = Arc::<AtomicBool>::default();
    let mut events = |event: Event| match event {
        Event::Started(_) if stop_after.is_some() => std::thread::sleep(Duration::from_millis(300)),
        Event::Progress(progress) => {
            stop.store(stop_after.is_some_and(|after| progress.step >= after), Ordering::Relaxed);
        }
        _ => {}
    };
    let session = session(&config, Box::new(cpu(1)), &stop);
    let mut started = Run::start(config, run, Overwrite::Refuse, session, &mut events).unwrap();
    started.apply_time_budget(since).unwrap();
    started.train(&mut events).unwrap()
}

/// The `config.toml` of a run, as options of another run.
fn recorded(run: &Path) -> TrainOptions {
    RecordedRun::read(&run.join("config.toml")).unwrap().config.to_options()
}

#[test]
fn a_run_with_a_time_budget_is_repeated_by_its_config() {
    let (folder, run) = runs();
    let outcome = start(&within(1_200), &run, None);
    let given = recorded(&run);
    assert_eq!((outcome.end, given.steps), (RunEnd::Finished, Some(outcome.summary.steps)));
    assert_eq!(given.time_budget, Some(TimeBudget::None));
    let again = folder.path().join("again");
    train(&given, &mut cpu(2), &again, &mut ignore).unwrap();
    assert!(splats_of(&run) == splats_of(&again));
}

#[test]
fn a_run_with_a_time_budget_that_was_stopped_goes_on_and_is_repeated_as_a_whole() {
    let (folder, run) = runs();
    let stopped = start(&within(3_000), &run, Some(10));
    assert_eq!(stopped.end, RunEnd::Stopped);
    let finished = resume(&TrainOptions::default(), &mut cpu(1), &run, &mut ignore).unwrap();
    assert_eq!(finished.end, RunEnd::Finished);
    // The second session had no budget: its steps are those that the first one had planned.
    let given = recorded(&run);
    assert!(given.plan.is_some(), "a decision of the first session");
    assert_eq!((given.time_budget, given.steps), (Some(TimeBudget::None), Some(finished.summary.steps)));
    let again = folder.path().join("again");
    train(&given, &mut cpu(1), &again, &mut ignore).unwrap();
    assert!(splats_of(&run) == splats_of(&again));
}
