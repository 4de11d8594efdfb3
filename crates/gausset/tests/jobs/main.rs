//! Jobs through the library: no command line, no terminal.

mod blocks;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use gausset::device::DeviceOptions;
use gausset::evaluate::{EvaluateOptions, evaluate};
use gausset::panos::run as pano_run;
use gausset::panos::{PanoOptions, SplitOptions, split};
use gausset::photos::{self, PhotoOptions};
use gausset::training::{self, RunSettings, Task};
use gausset::{Event, Failure, Host, Stage};
use gausset_compute::Pool;
use gausset_io::atomic::Overwrite;
use gausset_train::{Background, Blocks, Event as RunEvent, RecordedRun, TrainOptions};
use tempfile::TempDir;

/// Runs a job and returns its result with the events; the event handler may set the stop flag.
fn job<T>(
    mut on_event: impl FnMut(&Event, &AtomicBool),
    job: impl FnOnce(&mut Host<'_>) -> T,
) -> (T, Vec<Event>) {
    let stop = Arc::<AtomicBool>::default();
    let mut told = Vec::new();
    let mut events = |event: Event| {
        on_event(&event, &stop);
        told.push(event);
    };
    let done = job(&mut Host::new(&stop, &mut events));
    (done, told)
}

/// Runs a job without stopping it.
fn done<T>(work: impl FnOnce(&mut Host<'_>) -> Result<T, Failure>) -> (T, Vec<Event>) {
    let (done, events) = job(|_, _| {}, work);
    (done.unwrap(), events)
}

fn scene(folder: &Path) -> PathBuf {
    let data = folder.join("data");
    gausset_scenes::write_dataset(&gausset_scenes::tiny(), &data, &Pool::new(1), &mut |_, _| {}).unwrap();
    data
}

fn options(data: &Path) -> TrainOptions {
    TrainOptions {
        data: Some(data.to_owned()),
        steps: Some(40),
        max_splats: Some(400),
        threads: Some(1),
        background: Some(Background::Colour([0.0; 3])),
        ..TrainOptions::default()
    }
}

fn conditions() -> RunSettings {
    RunSettings::for_device(DeviceOptions::default())
}

fn has_stage(events: &[Event], wanted: &Stage) -> bool {
    events.iter().any(|event| matches!(event, Event::Stage(stage) if stage == wanted))
}

fn bytes(run: &Path) -> Vec<u8> {
    std::fs::read(run.join("splats.ply")).unwrap()
}

#[test]
fn a_training_is_stopped_goes_on_and_is_reported_again() {
    let root = TempDir::new().unwrap();
    let options = options(&scene(root.path()));
    let begin = |run: &Path, host: &mut Host<'_>| {
        training::start_or_resume(run.to_owned(), &options, Overwrite::Refuse, conditions(), host)
    };
    let (whole, stopped) = (root.path().join("whole"), root.path().join("stopped"));
    let (trained, events) = done(|host| begin(&whole, host));
    assert!(!trained.is_stopped() && !trained.has_skipped());
    assert_eq!(trained.outcome.summary.steps, 40);
    assert!(events.iter().any(|event| matches!(event, Event::RunFolder(folder) if *folder == whole)));

    let stop_soon = |event: &Event, stop: &AtomicBool| {
        if matches!(event, Event::Training(event) if matches!(**event, RunEvent::Progress(_))) {
            stop.store(true, Ordering::Relaxed);
        }
    };
    let (trained, events) = job(stop_soon, |host| begin(&stopped, host).unwrap());
    let step = trained.outcome.summary.steps;
    assert!(trained.is_stopped() && (1..40).contains(&step), "{step}");
    assert!(has_stage(&events, &Stage::TrainingStopped { step, run: stopped.clone() }));
    let (trained, _) = done(|host| begin(&stopped, host));
    assert_eq!(trained.outcome.summary.steps, 40);
    assert_eq!(bytes(&stopped), bytes(&whole));

    let (again, events) = done(|host| begin(&stopped, host));
    assert!(has_stage(&events, &Stage::TrainedAlready));
    assert_eq!(again.outcome.summary.psnr, trained.outcome.summary.psnr);

    // Other options are a different run.
    let other = TrainOptions { seed: Some(1), ..options.clone() };
    let (refused, _) = job(
        |_, _| {},
        |host| training::start_or_resume(whole.clone(), &other, Overwrite::Refuse, conditions(), host),
    );
    assert_eq!(refused.unwrap_err().code, "other-options");
}

#[test]
fn the_same_command_with_a_time_budget_goes_on_and_is_reported_again() {
    let root = TempDir::new().unwrap();
    let data = scene(root.path());
    let run = root.path().join("run");
    let within = |budget: &str| TrainOptions {
        time_budget: Some(budget.parse().unwrap()),
        steps: None,
        max_splats: Some(200_000),
        ..options(&data)
    };
    let begin = |given: &TrainOptions, host: &mut Host<'_>| {
        training::start_or_resume(run.clone(), given, Overwrite::Refuse, conditions(), host)
    };
    let given = within("3s");
    let stop_soon = |event: &Event, stop: &AtomicBool| {
        if matches!(event, Event::Training(event) if matches!(**event, RunEvent::Progress(_))) {
            stop.store(true, Ordering::Relaxed);
        }
    };
    let (trained, _) = job(stop_soon, |host| begin(&given, host).unwrap());
    assert!(trained.is_stopped());
    let recorded = || RecordedRun::read(&run.join("config.toml")).unwrap().config.recipe;
    assert!(recorded().max_splats < 200_000, "{}", recorded().max_splats);
    let (trained, _) = done(|host| begin(&given, host));
    assert!(!trained.is_stopped());
    let (_, events) = done(|host| begin(&given, host));
    assert!(has_stage(&events, &Stage::TrainedAlready));

    // What differs is named.
    let refused = |given: TrainOptions| job(|_, _| {}, |host| begin(&given, host)).0.unwrap_err().to_string();
    let line = refused(within("9s"));
    assert!(line.contains("the run was started with time-budget = \"3s\" (given: \"9s\")"), "{line}");
    let line = refused(TrainOptions { max_splats: Some(50_000), ..given.clone() });
    assert!(line.contains("started with max-splats = 200000 (given: 50000); "), "{line}");

    // Killed before its evaluation: `config.toml` has the steps and no budget.
    std::fs::remove_dir_all(run.join("eval")).unwrap();
    let (trained, events) = done(|host| begin(&given, host));
    assert!(!trained.is_stopped() && !has_stage(&events, &Stage::TrainedAlready));
}

#[test]
fn a_finished_run_is_evaluated_from_its_folder_alone() {
    let root = TempDir::new().unwrap();
    let run = root.path().join("run");
    let task = Task::new(options(&scene(root.path())), run.clone(), Overwrite::Refuse).unwrap();
    let (trained, _) = done(|host| training::train(task, conditions(), host));
    let (evaluated, _) = done(|host| evaluate(&EvaluateOptions::new(&run), host));
    // The file holds the splats rotated upright, in single precision.
    let [of_file, of_run] = [evaluated.report.psnr, trained.outcome.summary.psnr].map(Option::unwrap);
    assert!((of_file - of_run).abs() < 1e-3, "{of_file} {of_run}");
    assert_eq!(evaluated.folder, run.join("eval"));
    // A job that was asked to stop reports exactly that.
    let stop_at_once = Arc::new(AtomicBool::new(true));
    let mut events = |_| {};
    let stopped = evaluate(&EvaluateOptions::new(&run), &mut Host::new(&stop_at_once, &mut events));
    assert!(stopped.unwrap_err().is_stopped());
}

#[test]
fn panoramas_are_looked_at_once_and_cut_with_the_options_of_a_library() {
    let root = TempDir::new().unwrap();
    let input = root.path().join("none");
    std::fs::create_dir(&input).unwrap();
    let (refused, _) =
        job(|_, _| {}, |host| split::split(&SplitOptions::new(&input, root.path().join("out")), host));
    assert_eq!(refused.unwrap_err().code, "frames");
    assert!(!root.path().join("out").exists());
    // The whole pipeline is refused before anything is created.
    for blocks in [None, Some(Blocks::Count(2))] {
        let mut options = PanoOptions::new(&input, root.path().join("all"));
        options.training.blocks = blocks;
        let (refused, _) = job(|_, _| {}, |host| pano_run::run(&options, conditions(), host));
        assert!(["frames", "colmap"].contains(&refused.unwrap_err().code));
        assert!(!root.path().join("all").exists());
    }
}

#[test]
fn photographs_become_a_splat_without_another_program() {
    let test = "photographs_become_a_splat_without_another_program";
    let Some(pictures) = gausset_testkit::data_file(test, "scenes/plush/images") else { return };
    let root = TempDir::new().unwrap();
    let photographs = root.path().join("photographs");
    std::fs::create_dir(&photographs).unwrap();
    // A part of the circle is enough, and quick to align.
    let mut names: Vec<_> = std::fs::read_dir(pictures).unwrap().map(|e| e.unwrap().path()).collect();
    names.sort();
    for path in names.iter().take(10) {
        std::fs::copy(path, photographs.join(path.file_name().unwrap())).unwrap();
    }
    let mut options = PhotoOptions::new(&photographs, root.path().join("out"));
    options.lens.single_camera = true;
    let training = TrainOptions {
        steps: Some(30),
        max_splats: Some(2_000),
        max_resolution: Some(160),
        threads: Some(1),
        ..TrainOptions::default()
    };
    let ((alignment, trained), events) = done(|host| photos::run(&options, &training, conditions(), host));
    assert!(alignment.registered >= 8, "{alignment:?}");
    assert!(!trained.is_stopped() && trained.folder.join("splats.ply").is_file());
    assert!(events.iter().any(|event| matches!(event, Event::Aligning(_))));
    let is_own = |tool: &str| tool.starts_with("own aligner");
    let aligned_by = |event: &Event| match event {
        Event::Stage(Stage::Align { tool, .. }) => Some(is_own(tool)),
        _ => None,
    };
    assert_eq!(events.iter().filter_map(aligned_by).collect::<Vec<_>>(), [true]);
    // Repeating the call does no work.
    let ((again, _), events) = done(|host| photos::run(&options, &training, conditions(), host));
    assert_eq!(again, alignment);
    assert!(has_stage(&events, &Stage::TrainedAlready));
    assert!(!events.iter().any(|event| matches!(event, Event::Aligning(_))));
}
