//! A run with a time budget can be repeated exactly from its recorded decisions.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::common::{
    copy_folder, cpu, ignore, options, resume, runs, session, small_dataset, splats_of, train,
};
use gausset_io::atomic::Overwrite;
use gausset_train::{
    BudgetGrowth, Event, InitPoints, RecordedRun, Run, RunEnd, RunOutcome, StepPlan, TimeBudget, TrainConfig,
    TrainOptions, resumable_config,
};

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
    started.apply_time_budget(since, BudgetGrowth::Chosen).unwrap();
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
    // With other steps, the plan goes.
    let longer = TrainOptions { steps: Some(900), ..TrainOptions::default() };
    assert_eq!(TrainConfig::resolve(&longer, Some(&given)).unwrap().plan, StepPlan::identity(900));
}

#[test]
fn a_dense_start_with_a_time_budget_that_lowers_the_splats_is_repeated_by_its_config() {
    let (folder, run) = runs();
    let given =
        TrainOptions { init_points: Some(InitPoints::Dense), max_splats: Some(60_000), ..within(1_000) };
    let given = TrainOptions { data: Some(small_dataset().to_owned()), max_resolution: Some(80), ..given };
    start(&given, &run, None);
    let file = TrainOptions::read(&run.join("config.toml")).unwrap();
    assert_eq!(file.start_max_splats, Some(60_000));
    assert!(file.max_splats < Some(60_000), "{file:?}");
    let again = folder.path().join("again");
    train(&file, &mut cpu(2), &again, &mut ignore).unwrap();
    assert!(splats_of(&run) == splats_of(&again));
    // Not with another limit.
    let limited = TrainOptions { max_splats: Some(5_000), ..TrainOptions::default() };
    assert_eq!(limited.layered_over(file).start_max_splats, None);
}

#[test]
fn a_run_with_a_time_budget_resumes_with_the_options_that_it_was_started_with() {
    let (_folder, run) = runs();
    let given = within(1_500);
    start(&given, &run, Some(10));
    let config_file = run.join("config.toml");
    let resumed = |given: &TrainOptions| {
        RecordedRun::read(&config_file).unwrap().resumed_with(given, &config_file).map(|_| ())
    };
    resumed(&given).unwrap();
    resume(&TrainOptions::default(), &mut cpu(1), &run, &mut ignore).unwrap();
    let recorded = RecordedRun::read(&config_file).unwrap();
    assert!(recorded.config.time_budget == TimeBudget::None && recorded.config.plan.end() > 0);
    resumed(&given).unwrap();
    let begun = recorded.before_budget().unwrap();
    assert_eq!(begun.differences(&TrainConfig::resolve(&given, None).unwrap()), Vec::<String>::new());
    let refused = resumed(&within(9_000)).unwrap_err().to_string();
    assert!(refused.contains("time-budget = \"none\" (given: \"9s\")"), "{refused}");
}

#[test]
fn a_run_with_a_time_budget_and_no_checkpoint_chooses_again_from_its_first_options() {
    let (folder, run) = runs();
    let killed = folder.path().join("killed");
    let given = within(1_000);
    let config = TrainConfig::resolve(&given, None).unwrap();
    let session_of = |config: &TrainConfig| session(config, Box::new(cpu(1)), &Arc::default());
    let mut started =
        Run::start(config.clone(), &run, Overwrite::Refuse, session_of(&config), &mut |_| {}).unwrap();
    started.apply_time_budget(Instant::now(), BudgetGrowth::Chosen).unwrap();
    copy_folder(&run, &killed);
    let config = resumable_config(&killed, &TrainOptions::default()).unwrap();
    let mut resumed = Run::resume(config.clone(), &killed, session_of(&config), &mut |_| {}).unwrap();
    resumed.apply_time_budget(Instant::now(), BudgetGrowth::Given).unwrap();
    let before = |run: &Path| RecordedRun::read(&run.join("config.toml")).unwrap().record.before_budget;
    let begun = before(&killed).unwrap();
    assert_eq!((begun.steps, begun.max_splats, begun.growth), (Some(6_000), Some(400), Some(1.05)));
    assert_eq!(before(&run).unwrap(), begun);
}
