//! A training run seen from outside: dataset, device, progress, final table. Shared by `train` and `demo`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use gausset_io::atomic::{Disk, Overwrite};
use gausset_io::dataset::{self, Dataset};
use gausset_io::run_folder::{config_path, eval_folder, splats_path};
use gausset_io::units;
use gausset_train::eval::CONTACT_SHEET;
use gausset_train::{
    Advice, End, Event, Outcome, Run, RunWarning, Session, Started, StereoReport, TimeBudget, TrainConfig,
    TrainError, TrainOptions, check_dataset, check_init, read_finished, resumable_config,
};

use super::saved_run::SavedRun;
use crate::console::Console;
use crate::device::DeviceArgs;
use crate::exit::Status;
use crate::failure::Failure;
use crate::interrupt::{Interrupt, Signal};
use crate::numbers::{counted, decibels, duration, grouped, three_digits};
use crate::progress::{Reporter, training_message};
use crate::{crash, profiling, scores, table};

/// Which run, and where.
#[derive(Debug)]
pub(crate) enum Task {
    /// A run with the options that somebody gave, in a new folder or one that may be replaced.
    New(Box<TrainOptions>, PathBuf, Overwrite),
    /// The run in this folder goes on.
    Resume(Box<TrainConfig>, PathBuf),
}

impl Task {
    /// A new run; options that nobody may give are refused before any picture is looked at.
    pub(crate) fn new(options: TrainOptions, folder: PathBuf, overwrite: Overwrite) -> Result<Self, Failure> {
        TrainConfig::resolve(&options, None)?;
        Ok(Self::New(Box::new(options), folder, overwrite))
    }

    /// The run in a folder, with what `given` may change of it.
    pub(crate) fn resume(folder: PathBuf, given: &TrainOptions) -> Result<Self, Failure> {
        Ok(Self::Resume(Box::new(resumable_config(&folder, given)?), folder))
    }

    fn folder(&self) -> &Path {
        match self {
            Self::New(_, folder, _) | Self::Resume(_, folder) => folder,
        }
    }

    /// The configuration as far as it is known without the dataset.
    fn first_config(&self) -> Result<TrainConfig, Failure> {
        let config = match self {
            Self::New(options, ..) => TrainConfig::resolve(options, None)?,
            Self::Resume(config, _) => (**config).clone(),
        };
        with_absolute_paths(config)
    }
}

/// Paths from the root, so that a run can go on from any folder.
fn with_absolute_paths(config: TrainConfig) -> Result<TrainConfig, Failure> {
    config.with_absolute_paths().map_err(|error| {
        let reason = gausset_io::atomic::plain_reason(&error);
        Failure::new("option", format!("working folder: cannot be named: {reason}"))
    })
}

/// What is to be done.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) task: Task,
    pub(crate) device: DeviceArgs,
    pub(crate) profile: bool,
}

/// What was done.
#[derive(Debug)]
pub(crate) struct Trained {
    pub(crate) folder: PathBuf,
    pub(crate) outcome: Outcome,
    pub(crate) status: Status,
}

/// Trains to the end or until it is interrupted.
///
/// # Errors
/// Everything that can be wrong with dataset, folder, options and device.
pub(crate) fn train(job: Job, interrupt: &Interrupt, console: &Console) -> Result<Trained, Failure> {
    let folder = job.task.folder().to_owned();
    let config = job.task.first_config()?;
    let mut engine = job.device.engine(config.threads())?;
    if job.profile {
        profiling::start();
    }
    let dataset = Arc::new(dataset::open(&config.data.path, &config.open_options())?);
    for line in dataset.report() {
        console.warn("the dataset", line);
    }
    let mut listener = Listener::new(console, interrupt);
    let mut tell = |event: &Event| listener.take(event);
    let session = Session {
        dataset: Arc::clone(&dataset),
        engine: &mut *engine,
        fs: &Disk,
        stop: interrupt.stop(),
        events: &mut tell,
    };
    let has_budget = config.time_budget != TimeBudget::None;
    let begun = match job.task {
        Task::New(options, folder, overwrite) => {
            let config = with_absolute_paths(TrainConfig::resolve_for(&options, &dataset)?)?;
            Run::start(config, &folder, overwrite, session)
        }
        Task::Resume(_, folder) => Run::resume(config, &folder, session),
    };
    let mut run = match begun {
        Err(TrainError::Stopped) => {
            console.note(TrainError::Stopped.to_string());
            let status = Status::Interrupted(interrupt.signal().unwrap_or(Signal::Interrupt));
            return Ok(Trained { folder, outcome: Outcome::not_begun(), status });
        }
        begun => begun?,
    };
    crash::report_into(&folder);
    run.keep_to_budget(*crate::STARTED)?;
    if !has_budget {
        run.predict_time()?;
    }
    let outcome = run.train();
    console.set_bar(None);
    let outcome = outcome?;
    if job.profile {
        let about = [
            ("run", folder.display().to_string()),
            ("device", engine.describe().name),
            ("steps", grouped(outcome.summary.steps)),
            ("splats", grouped(outcome.summary.splats)),
        ];
        let (profile, trace) = profiling::stop(&mut *engine, &about);
        console.note(profiling::report(&profile));
        profiling::save(&profile, &trace, &folder)?;
    }
    for view in outcome.evaluation.iter().flat_map(|report| &report.skipped) {
        console
            .warn("pictures left out of the evaluation", format!("{}: skipped: {}", view.name, view.reason));
    }
    let status = match outcome.end {
        End::Finished => status_of_finished(&dataset, &outcome),
        End::Stopped => {
            let (step, folder) = (grouped(outcome.summary.steps), folder.display());
            console.note(format!(
                "stopped after step {step}, checkpoint saved; go on with: gausset train --resume {folder}"
            ));
            Status::Interrupted(interrupt.signal().unwrap_or(Signal::Interrupt))
        }
    };
    Ok(Trained { folder, outcome, status })
}

/// Trains in a folder that may hold the same run: one that is finished is told again, one that was begun goes on. A
/// run of other data or options is replaced with [`Overwrite::Replace`] only.
pub(crate) fn fresh_or_resumed(
    folder: PathBuf,
    options: &TrainOptions,
    overwrite: Overwrite,
    device: DeviceArgs,
    interrupt: &Interrupt,
    console: &Console,
) -> Result<Trained, Failure> {
    let task = if overwrite == Overwrite::Replace || !SavedRun::is_one(&folder) {
        Task::new(options.clone(), folder, overwrite)?
    } else {
        let dataset = same_run(&folder, options)?;
        if let Some(outcome) = read_finished(&folder)? {
            console.note("the training is finished already");
            for line in dataset.report() {
                console.warn("the dataset", line);
            }
            let status = status_of_finished(&dataset, &outcome);
            return Ok(Trained { folder, outcome, status });
        }
        Task::resume(folder, options)?
    };
    train(Job { task, device, profile: false }, interrupt, console)
}

/// The dataset of the run in a folder, if it is the run that these options ask for. Options that nobody gives now, but
/// somebody gave then, are differences, too.
fn same_run(folder: &Path, options: &TrainOptions) -> Result<Dataset, Failure> {
    let recorded = SavedRun::read(folder)?.recorded;
    let first = with_absolute_paths(TrainConfig::resolve(options, None)?)?;
    let dataset = dataset::open(&first.data.path, &first.open_options())?;
    let differences = recorded.differences(&TrainConfig::resolve_for(options, &dataset)?);
    if !differences.is_empty() {
        let line = format!(
            "{}: the run was started with {}; give the same options to go on, choose another folder with -o, or replace it with --force",
            config_path(folder).display(),
            differences.join(", "),
        );
        return Err(Failure::new("other-options", line));
    }
    check_dataset(folder, &recorded, &dataset)?;
    check_init(&recorded)?;
    Ok(dataset)
}

/// Whether a run that is finished had to leave something out.
fn status_of_finished(dataset: &Dataset, outcome: &Outcome) -> Status {
    let in_evaluation = outcome.evaluation.as_ref().is_some_and(|report| !report.skipped.is_empty());
    Status::done(dataset.has_skipped() || in_evaluation || !outcome.skipped.is_empty())
}

/// Tells a person what happens in a run.
struct Listener<'a> {
    console: &'a Console,
    interrupt: &'a Interrupt,
    reporter: Option<Reporter<'a>>,
    told_stop: bool,
}

impl<'a> Listener<'a> {
    fn new(console: &'a Console, interrupt: &'a Interrupt) -> Self {
        Self { console, interrupt, reporter: None, told_stop: false }
    }

    fn take(&mut self, event: &Event) {
        match event {
            Event::StereoBegun { views } => {
                self.console.note(format!("stereo: depth maps of {}", counted(*views as u64, "view")));
            }
            Event::StereoDone(report) => self.console.note(stereo_line(report)),
            Event::Started(started) => {
                self.console.note(introduction(started).trim_end());
                self.reporter = Some(Reporter::start(self.console, "step", started.step, started.steps));
            }
            Event::Progress(progress) => {
                if let Some(reporter) = &mut self.reporter {
                    reporter.set_total(progress.steps);
                    reporter.at(progress.step, || training_message(progress));
                }
                if self.interrupt.signal().is_some() && !self.told_stop {
                    self.told_stop = true;
                    self.console.note("stopping: saving a checkpoint (interrupt again to stop at once)");
                }
            }
            Event::Warning(warning) => self.console.warn(kind(warning), warning.to_string()),
            Event::Evaluated { step, report } => {
                if let (Some(psnr), Some(ssim)) = (report.psnr, report.ssim) {
                    let step = grouped(*step);
                    self.console
                        .note(format!("step {step}: PSNR {psnr:.2} dB, SSIM {ssim:.4} on held-out pictures"));
                }
            }
            Event::Exported { path, splats, dropped, .. } if *dropped > 0 => {
                let (splats, dropped, path) = (grouped(*splats), grouped(*dropped), path.display());
                let line = format!(
                    "{path}: {dropped} splats left out, because a parameter is not finite ({splats} written)"
                );
                self.console.warn("splats", line);
            }
            // Where they go is in the final table; how often they come is an option.
            Event::Checkpointed { .. } | Event::Exported { .. } => {}
            Event::Finished(_) => {
                if let Some(reporter) = self.reporter.take() {
                    reporter.finish();
                }
            }
        }
    }
}

/// What a warning is about; beyond five of a kind they are counted only.
fn kind(warning: &RunWarning) -> &'static str {
    match warning {
        RunWarning::UnreadablePicture(_) => "pictures",
        RunWarning::LossExplosion { .. } => "the loss",
        RunWarning::DeadSplats { .. } | RunWarning::SkippedUpdates { .. } => "splats",
        RunWarning::CutLists { .. } | RunWarning::CutPictures { .. } => "the tile lists",
        RunWarning::DamagedCheckpoint(_) | RunWarning::NoCheckpoint { .. } => "checkpoints",
        RunWarning::Note(_) => "the run",
    }
}

/// What stereo has found.
fn stereo_line(report: &StereoReport) -> String {
    let StereoReport { views, confirmed, views_per_point, points } = report;
    let (views, points) = (counted(*views as u64, "view"), counted(*points as u64, "point"));
    let confirmed = 100.0 * confirmed;
    format!(
        "stereo: {views}, {confirmed:.0} % of pixels confirmed ({views_per_point:.1} views each), {points}"
    )
}

/// What a run starts with, and what it will need.
fn introduction(started: &Started) -> String {
    let Started { device, memory, .. } = started;
    let train = counted(started.train_images as u64, "picture");
    let held_out = grouped(started.test_images as u64);
    let extent = three_digits(started.scene_extent);
    let steps = match started.step {
        0 => grouped(started.steps),
        done => format!("{} of {} are done", grouped(done), grouped(started.steps)),
    };
    let parts = [
        (format!("{} splats", grouped(memory.splat_count)), memory.splats),
        ("points".to_owned(), memory.points),
        ("pictures".to_owned(), memory.pictures),
        ("buffers".to_owned(), memory.working),
        ("checkpoints and evaluation".to_owned(), memory.beside),
    ];
    let parts = parts.into_iter().filter(|(_, bytes)| *bytes > 0);
    let parts: Vec<String> = parts.map(|(what, bytes)| format!("{what} {}", units::bytes(bytes))).collect();
    let [total, limit] = [memory.total(), memory.limit].map(units::bytes);
    let parts = parts.join(", ");
    let mut rows = vec![
        ("device", device.name.clone()),
        ("data", format!("{train} to train on, {held_out} held out, scene extent {extent}")),
        ("start", started.start.clone()),
        ("memory", format!("about {total} of {limit}: {parts}")),
        ("steps", steps),
    ];
    if let Some(seconds) = started.predicted_seconds {
        rows.push(("time", format!("about {} at the pace of the first steps", duration(seconds))));
    }
    table::facts(&rows)
}

impl Trained {
    /// The result as a table.
    pub(crate) fn table(&self) -> String {
        let Outcome { summary, evaluation, end, .. } = &self.outcome;
        let mut rows: Vec<(&str, String)> = Vec::new();
        if let Some(report) = evaluation.as_ref().filter(|report| report.images > 0) {
            let images = counted(report.images as u64, "held-out picture");
            rows.push(("PSNR", format!("{} (mean of {images})", decibels(report.psnr))));
            rows.extend(scores::facts(report.ssim, &report.scores));
            if let Some(psnr) = summary.trust.training_psnr {
                rows.push(("training", format!("{psnr:.2} dB on some of the training pictures")));
            }
            if let Some(advice) = Advice::of(report, &summary.trust) {
                rows.push(("advice", advice.line().to_owned()));
            }
            if report.valid_share < 1.0 {
                rows.push(("valid", format!("{:.1} % of the pixels", 100.0 * report.valid_share)));
            }
        } else if summary.psnr.is_some() {
            rows.push(("PSNR", decibels(summary.psnr)));
        } else if *end == End::Finished {
            rows.push(("PSNR", "not measured: no picture is held out".to_owned()));
        }
        let rate = summary.steps as f64 / summary.seconds.max(f64::MIN_POSITIVE);
        let rate = if summary.steps > 0 { format!(", {} it/s", three_digits(rate)) } else { String::new() };
        rows.push(("steps", grouped(summary.steps)));
        rows.push(("splats", grouped(summary.splats)));
        rows.push(("time", format!("{}{rate}", duration(summary.seconds))));
        rows.push(("CPU time", duration(summary.cpu_seconds)));
        if *end == End::Finished {
            rows.push(("result", splats_path(&self.folder).display().to_string()));
            let sheet = eval_folder(&self.folder).join(CONTACT_SHEET);
            if sheet.is_file() {
                rows.push(("pictures", format!("{} ({})", sheet.display(), scores::PANELS)));
            }
        }
        table::facts(&rows)
    }
}
