//! Whichever disk operation fails, a run ends with a one-line error and resumes later to the same bytes.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::common::{MockEngine, cpu, ignore, options, resume, runs, session, splats_of, train};
use gausset_core::engine::{Engine, EngineError, StepParams, TrainView};
use gausset_cpu::CpuEngine;
use gausset_io::atomic::faults::{Fault, FaultyDisk};
use gausset_io::atomic::{Disk, FileInfo, FileSystem, OutputFile, Overwrite};
use gausset_train::{
    BudgetGrowth, Event, InitPoints, RecordedRun, Request, Run, RunEnd, Session, TimeBudget, TrainConfig,
    TrainError, TrainOptions, resumable_config,
};
use rustix::io::Errno;

fn run_on(disk: &Arc<FaultyDisk>, options: &TrainOptions, run: &Path) -> Result<(), TrainError> {
    let config = TrainConfig::resolve(options, None)?;
    let session = session(&config, Box::new(MockEngine::default()), &Arc::default());
    let session = Session { fs: Arc::clone(disk) as Arc<dyn FileSystem>, ..session };
    Run::start(config, run, Overwrite::Refuse, session, &mut |_| {})?.train(&mut |_| {}).map(|_| ())
}

#[test]
fn an_export_or_a_checkpoint_that_was_asked_for_and_finds_no_room_is_told_and_the_run_goes_on() {
    let options = options(6);
    let held = |disk: &Arc<FaultyDisk>, run: &Path| {
        let config = TrainConfig::resolve(&options, None).unwrap();
        let session = session(&config, Box::new(MockEngine::default()), &Arc::default());
        let session = Session { fs: Arc::clone(disk) as Arc<dyn FileSystem>, ..session };
        let mut run = Run::start(config, run, Overwrite::Refuse, session, &mut |_| {}).unwrap();
        while run.step() < 3 {
            run.advance().unwrap();
        }
        run
    };
    let (_folder, run) = runs();
    let healthy = Arc::new(FaultyDisk::new(0, Fault::Once(Errno::IO)));
    let mut whole = held(&healthy, &run);
    let before = healthy.calls().len();
    whole.train(&mut |_| {}).unwrap();
    let expected = splats_of(&run);
    let mut told = 0;
    for (request, call) in
        [Request::Export, Request::Save].iter().flat_map(|r| (1..12).map(move |call| (r, call)))
    {
        let (_folder, run) = runs();
        let disk = Arc::new(FaultyDisk::new(before + call, Fault::Once(Errno::NOSPC)));
        let mut faulty = held(&disk, &run);
        assert!(faulty.requests().send(request.clone()));
        faulty.advance().unwrap();
        let warnings = faulty.take_events().filter(|event| {
            matches!(event, Event::Warning(warning) if warning.to_string().ends_with("; training continues"))
        });
        told += warnings.count();
        // The fault may occur later, in a call that was not requested.
        if disk.calls().len() >= before + call {
            faulty.train(&mut |_| {}).unwrap();
            assert_eq!(splats_of(&run), expected);
        }
    }
    assert!(told > 6, "{told}");
}

#[test]
fn a_disk_that_fails_at_any_call_costs_one_line_and_no_result() {
    // Depth maps, two checkpoints, an export during training and all writes at the end.
    let options = TrainOptions {
        checkpoint_every: Some(2),
        export_every: Some(2),
        init_points: Some(InitPoints::Auto),
        keep_depth: Some(true),
        ..options(3)
    };
    let (_folder, run) = runs();
    let healthy = Arc::new(FaultyDisk::new(0, Fault::Once(Errno::IO)));
    run_on(&healthy, &options, &run).unwrap();
    let expected = splats_of(&run);
    let calls = healthy.calls().len();
    assert!(calls > 50, "{calls}");
    let mut told = 0;
    // Every third call: this includes each kind of call, and the tests of the file functions try them all.
    for fail_at in (1..=calls).step_by(3) {
        let fault = if fail_at % 2 == 0 { Fault::FromNowOn(Errno::NOSPC) } else { Fault::Once(Errno::IO) };
        let (folder, run) = runs();
        match run_on(&Arc::new(FaultyDisk::new(fail_at, fault)), &options, &run) {
            // Some failures are harmless: cleaning up, or checking for free space.
            Ok(()) => {}
            Err(error) => {
                let line = error.to_string();
                // The error names the run, a file in it, or the parent folder, which is also synced.
                let place = folder.path().to_str().unwrap();
                assert!(!line.contains('\n') && line.contains(place), "{fail_at}: {line}");
                told += 1;
                if run.join("config.toml").exists() {
                    resume(&TrainOptions::default(), &mut MockEngine::default(), &run, &mut ignore).unwrap();
                } else {
                    train(&options, &mut MockEngine::default(), &run, &mut ignore).unwrap();
                }
            }
        }
        assert!(splats_of(&run) == expected, "call {fail_at}");
    }
    assert!(told * 6 > calls, "{told} of {calls}");
}

/// The real file system, except that it rejects checkpoints once `config.toml` contains no time budget.
struct RefusesTheLastCheckpoint {
    run: PathBuf,
}

impl FileSystem for RefusesTheLastCheckpoint {
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let config = std::fs::read_to_string(self.run.join("config.toml")).unwrap_or_default();
        if to.extension() == Some("ckpt".as_ref()) && config.contains("time-budget = \"none\"") {
            return Err(Errno::IO.into());
        }
        Disk.rename(from, to)
    }

    fn info(&self, path: &Path) -> io::Result<Option<FileInfo>> {
        Disk.info(path)
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn io::Read + Send>> {
        Disk.open(path)
    }

    fn create_new(&self, path: &Path, mode: Option<u32>) -> io::Result<Box<dyn OutputFile>> {
        Disk.create_new(path, mode)
    }

    fn append(&self, path: &Path) -> io::Result<Box<dyn OutputFile>> {
        Disk.append(path)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        Disk.remove(path)
    }

    fn create_folder(&self, path: &Path) -> io::Result<()> {
        Disk.create_folder(path)
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<std::ffi::OsString>> {
        Disk.list(folder)
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        Disk.sync_folder(folder)
    }

    fn free_space(&self, folder: &Path) -> io::Result<u64> {
        Disk.free_space(folder)
    }
}

/// A device whose steps each take longer by a fixed duration.
struct Slow(CpuEngine, Duration);

impl Engine for Slow {
    gausset_testkit::forward_to_engine!(|self| self.0; describe needs load save densify flush poll render_into);

    fn step(
        &mut self,
        views: &[TrainView],
        next: &[TrainView],
        params: &StepParams,
    ) -> Result<(), EngineError> {
        std::thread::sleep(self.1);
        self.0.step(views, next, params)
    }
}

/// `config.toml` is written before the last checkpoint: if that fails, the run still ends as `config.toml` says.
#[test]
fn a_time_budget_whose_last_checkpoint_fails_goes_on_to_what_its_config_says() {
    let (folder, run) = runs();
    let given =
        TrainOptions { time_budget: Some(TimeBudget::Milliseconds(2_000)), steps: None, ..options(1) };
    let config = TrainConfig::resolve(&given, None).unwrap();
    let begin = |engine: Box<dyn Engine>, stop_at: u64, is_new: bool| {
        let since = Instant::now();
        let stop = Arc::<AtomicBool>::default();
        let mut events = |event: Event| {
            if let Event::Progress(progress) = event {
                stop.store(progress.step >= stop_at, Ordering::Relaxed);
            }
        };
        let disk = RefusesTheLastCheckpoint { run: run.clone() };
        let session = Session { fs: Arc::new(disk), ..session(&config, engine, &stop) };
        let mut begun = if is_new {
            Run::start(config.clone(), &run, Overwrite::Refuse, session, &mut events)?
        } else {
            Run::resume(resumable_config(&run, &TrainOptions::default())?, &run, session, &mut events)?
        };
        begun.apply_time_budget(since, BudgetGrowth::Chosen)?;
        begun.train(&mut events)
    };
    // Stopped once, so that a checkpoint exists that contains only the first decision. Then the machine becomes slow.
    let first = begin(Box::new(cpu(1)), 10, true).unwrap();
    assert_eq!(first.end, RunEnd::Stopped);
    let planned = RecordedRun::read(&run.join("config.toml")).unwrap().config.plan.end();
    let error =
        begin(Box::new(Slow(cpu(1), Duration::from_millis(10))), u64::MAX, false).unwrap_err().to_string();
    assert!(error.contains(".ckpt: rename: "), "{error}");
    let said = RecordedRun::read(&run.join("config.toml")).unwrap().config;
    assert_eq!(said.time_budget, TimeBudget::None);
    assert!(said.plan.end() < planned, "{} of {planned}", said.plan.end());

    let resumed = resume(&TrainOptions::default(), &mut cpu(1), &run, &mut ignore).unwrap();
    assert_eq!(resumed.summary.steps, said.plan.end());
    let again = folder.path().join("again");
    train(&said.to_options(), &mut cpu(1), &again, &mut ignore).unwrap();
    assert!(splats_of(&run) == splats_of(&again));
}
