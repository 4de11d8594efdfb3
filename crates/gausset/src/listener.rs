//! Reports a person what happens in a job: notes, warnings, a bar.

use std::sync::Arc;

use gausset_flow::{Event, Host, Part, Stage};
use gausset_io::units;
use gausset_train::{RunWarning, Started, StereoReport, TrainError};

use crate::commands::viewer::Viewer;
use crate::console::Console;
use crate::interrupt::Interrupt;
use crate::lines::Lines;
use crate::numbers::{counted, duration, grouped, three_digits};
use crate::progress::{Reporter, budget_message, fit_message, training_message};
use crate::shell::in_shell;
use crate::{crash, describe, table};

/// Does a job that an interruption stops, and prints what happens in it.
pub(crate) fn attend<T>(interrupt: &Interrupt, console: &Console, job: impl FnOnce(&mut Host<'_>) -> T) -> T {
    let mut listener = Listener::new(console, Some(interrupt));
    let mut events = |event| listener.take(event);
    job(&mut Host::new(interrupt.stop(), &mut events))
}

/// [`attend`] with somebody who watches the training, if there is somebody.
pub(crate) fn attend_watched<T>(
    interrupt: &Interrupt,
    console: &Console,
    viewer: Option<&mut Viewer>,
    job: impl FnOnce(&mut Host<'_>) -> T,
) -> T {
    attend(interrupt, console, |host| match viewer {
        Some(viewer) => host.watched(&mut viewer.live, job),
        None => job(host),
    })
}

/// Does a short job that nothing stops, and prints what happens in it.
pub(crate) fn brief<T>(console: &Console, job: impl FnOnce(&mut Host<'_>) -> T) -> T {
    let mut listener = Listener::new(console, None);
    let mut events = |event| listener.take(event);
    job(&mut Host::new(&Arc::default(), &mut events))
}

/// Parts of a time budget that a bar shows.
const BUDGET_PARTS: u64 = 1000;

struct Listener<'a> {
    console: &'a Console,
    interrupt: Option<&'a Interrupt>,
    reporter: Option<Reporter<'a>>,
    told_stop: bool,
    /// What was told of the alignment last.
    aligning: String,
}

impl<'a> Listener<'a> {
    fn new(console: &'a Console, interrupt: Option<&'a Interrupt>) -> Self {
        Self { console, interrupt, reporter: None, told_stop: false, aligning: String::new() }
    }

    fn take(&mut self, event: Event) {
        match event {
            Event::Stage(stage) => self.console.note(line_of(&stage)),
            Event::Begun { part, done, total } => {
                self.reporter = Some(Reporter::start(self.console, noun(part), done, total));
            }
            Event::Fitting(progress) => {
                if let Some(reporter) = &mut self.reporter {
                    reporter.at(progress.step, || fit_message(&progress));
                }
            }
            Event::Done { done, views_per_s } => {
                if let Some(reporter) = &mut self.reporter {
                    let message = || {
                        views_per_s.map_or_else(String::new, |rate| format!("{} views/s", three_digits(rate)))
                    };
                    reporter.at(done, message);
                }
            }
            Event::Ended => {
                self.reporter = None;
                self.console.set_bar(None);
            }
            Event::RunFolder(folder) => crash::report_into(&folder),
            Event::Training(event) => self.training(&event),
            Event::Aligning(progress) => self.aligning(&progress),
            Event::PhotosAligned(alignment) => self.console.note(describe::photos(&alignment)),
            Event::PanosAligned(alignment) => self.console.note(describe::panos(&alignment)),
            Event::MetricScale { positions, residual } => {
                let residual = three_digits(residual);
                self.console.note(format!(
                    "scale from GPS: {positions} positions, {residual} m from the fit (root mean square)"
                ));
            }
            Event::NoMetricScale => self.console.note("scale: GPS positions scatter too much to tell it"),
            Event::OnTrack(earth) => {
                self.console.note(format!("scale from the track: {}", describe::on_track(&earth)))
            }
            Event::Masked(share) => self.console.note(format!("masks: {}", describe::mask_share(&share))),
            Event::Cut(times) => self.console.note(describe::split_times(&times)),
            Event::FarPoints(count) => {
                let points = counted(count as u64, "point");
                self.console.note(format!("start: {points} far away where there is sky"));
            }
            Event::DeviceChosen(line) => self.console.note(format!("device: {line}")),
            Event::FramesChosen(chosen) => self.console.note(describe::frames_chosen(&chosen)),
            Event::ViewsAdded(views) => self.console.note(describe::views_added(&views)),
            Event::Warning { about, line } => self.console.warn(about, line),
        }
    }

    /// One line a stage, and one for each tenth of it.
    fn aligning(&mut self, progress: &gausset_sfm::Progress) {
        let gausset_sfm::Progress { stage, done, all, rung } = progress;
        let again = if *rung > 0 { format!(", recipe {}", rung + 1) } else { String::new() };
        let line = match (done, all) {
            (0, _) => format!("{stage}{again}"),
            (_, 0) => format!("{stage}{again}: {done} registered"),
            (done, all) => format!("{stage}{again}: {} %", 100 * done * 10 / all / 100 * 10),
        };
        if self.aligning != line {
            self.console.note(line.as_str());
            self.aligning = line;
        }
    }

    fn training(&mut self, event: &gausset_train::Event) {
        use gausset_train::Event;
        match event {
            Event::StereoBegun { views } => {
                self.console.note(format!("stereo: depth maps of {}", counted(*views as u64, "view")));
            }
            Event::StereoDone(report) => self.console.note(stereo_line(report)),
            Event::Started(started) => {
                self.console.note(introduction(started));
                self.reporter = Some(match started.time_budget {
                    // The steps of a run with a time budget are what it finds: what passes is time, in hundredths.
                    Some(_) => Reporter::start(self.console, "", 0, BUDGET_PARTS),
                    None => Reporter::start(self.console, "step", started.step, started.steps),
                });
            }
            Event::Progress(progress) => {
                if let Some(reporter) = &mut self.reporter {
                    match progress.budget {
                        Some([used, seconds]) => {
                            let part = (BUDGET_PARTS as f64 * used / seconds.max(f64::MIN_POSITIVE)) as u64;
                            // The last line is that of the last step.
                            let part = if progress.step >= progress.steps { BUDGET_PARTS } else { part };
                            reporter.at(part.min(BUDGET_PARTS), || budget_message(progress, [used, seconds]));
                        }
                        None => reporter.at(progress.step, || training_message(progress)),
                    }
                }
                let is_asked = self.interrupt.is_some_and(|interrupt| interrupt.signal().is_some());
                if is_asked && !self.told_stop {
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
            // Nobody here asks for them.
            Event::Picture { .. }
            | Event::NoPicture { .. }
            | Event::Density { .. }
            | Event::Paused { .. }
            | Event::Resumed { .. } => {}
            Event::Finished(_) => {
                if let Some(reporter) = self.reporter.take() {
                    reporter.finish();
                }
            }
        }
    }
}

/// What parts are called.
const fn noun(part: Part) -> &'static str {
    match part {
        Part::Frames => "frame",
        Part::Pictures => "picture",
        Part::Steps => "step",
    }
}

/// A stage as a note.
fn line_of(stage: &Stage) -> String {
    match stage {
        Stage::MakeScene(folder) => format!("making the scene in {}", folder.display()),
        Stage::FindMasks => "finding what is to be masked".to_owned(),
        Stage::CutForAlignment => "cutting views for alignment".to_owned(),
        Stage::CutForTraining => "cutting views for training".to_owned(),
        Stage::LookAtFrames => "looking at all frames of the video".to_owned(),
        Stage::CompareLight => "comparing the light of neighbouring frames".to_owned(),
        Stage::TakeFrames(about) => format!("taking about {} from the video", counted(*about, "frame")),
        Stage::Align { count, what, tool } => {
            format!("aligning {} with {tool}", counted(*count as u64, what))
        }
        Stage::FieldInput { path, voxels, frame, samples } => {
            let what = match voxels {
                Some([x, y, z]) => format!("{x} x {y} x {z} voxels"),
                None => counted(*samples as u64, "sample"),
            };
            let frame = frame.map_or_else(String::new, |[frame, of]| format!(", frame {frame} of {of}"));
            format!("{}: {what}{frame}", path.display())
        }
        Stage::NoFieldState(path) => format!("{}: no such file; the fit begins at step 0", path.display()),
        Stage::GoOn(run) => format!("going on with the run in {}", run.display()),
        Stage::TrainedAlready => "the training is finished already".to_owned(),
        Stage::StoppedBeforeTraining => TrainError::Stopped.to_string(),
        Stage::TrainingStopped { step, run } => format!(
            "stopped after step {}, checkpoint saved; go on with: gausset train --resume {}",
            grouped(*step),
            in_shell(run)
        ),
        Stage::CutStopped => "stopped; the same command goes on with the frames that are left".to_owned(),
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
        RunWarning::HostRules { .. } | RunWarning::Note(_) => "the run",
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
fn introduction(started: &Started) -> Lines {
    let Started { device, memory, .. } = started;
    let train = counted(started.train_images as u64, "picture");
    let held_out = grouped(started.test_images as u64);
    let extent = three_digits(started.scene_extent);
    let steps = match started.step {
        0 => grouped(started.steps),
        done => format!("{} of {} are done", grouped(done), grouped(started.steps)),
    };
    let steps = match started.time_budget {
        Some(_) => format!("about {steps}, as many as fit"),
        None => steps,
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
    if let Some(seconds) = started.time_budget {
        rows.push(("time", format!("{} in all", duration(seconds))));
    } else if let Some(seconds) = started.predicted_seconds {
        rows.push(("time", format!("about {} at the pace of the first steps", duration(seconds))));
    }
    table::facts(&rows)
}
