//! Prints the events of a job: notes, warnings and a progress bar.

use std::sync::Arc;

use gausset::{CountedItem, Event, Host, Stage};
use gausset_io::text::{self, shell_quote};
use gausset_train::{RunProgress, RunStart, RunWarning, StereoReport, TrainError};

use crate::commands::viewer::Viewer;
use crate::console::Console;
use crate::event_log;
use crate::interrupt::Interrupt;
use crate::lines::Lines;
use crate::numbers::{counted, duration, grouped, three_digits};
use crate::progress::{ProgressReporter, budget_message, fit_message, training_message};
use crate::{crash, describe, table};

/// Runs a job that a signal can stop, and prints its events.
pub(crate) fn run_job<T>(
    interrupt: &Interrupt,
    console: &Console,
    job: impl FnOnce(&mut Host<'_>) -> T,
) -> T {
    let mut listener = EventPrinter::new(console, Some(interrupt));
    let mut events = |event| listener.handle(event);
    job(&mut Host::new(interrupt.stop(), &mut events))
}

/// [`run_job`] with an optional viewer of the training.
pub(crate) fn run_job_with_viewer<T>(
    interrupt: &Interrupt,
    console: &Console,
    viewer: Option<&mut Viewer>,
    job: impl FnOnce(&mut Host<'_>) -> T,
) -> T {
    run_job(interrupt, console, |host| match viewer {
        Some(viewer) => host.with_watcher(&mut viewer.live, job),
        None => job(host),
    })
}

/// Runs a short job that cannot be stopped, and prints its events.
pub(crate) fn run_short_job<T>(console: &Console, job: impl FnOnce(&mut Host<'_>) -> T) -> T {
    let mut listener = EventPrinter::new(console, None);
    let mut events = |event| listener.handle(event);
    job(&mut Host::new(&Arc::default(), &mut events))
}

/// Number of parts into which the progress bar divides a time budget.
const BUDGET_PARTS: u64 = 1000;

struct EventPrinter<'a> {
    console: &'a Console,
    interrupt: Option<&'a Interrupt>,
    reporter: Option<ProgressReporter<'a>>,
    stop_reported: bool,
    /// Last line that was printed about the alignment.
    last_alignment_line: String,
    /// The part of a run in blocks that is trained, if one is.
    part: Option<RunPart>,
}

/// A part of a run in blocks.
struct RunPart {
    /// Its name, as `block 2 of 4`.
    name: String,
    /// Number of steps of the blocks after it; `None` in the coarse run, before they are known.
    later_steps: Option<u64>,
}

impl RunPart {
    /// The part that begins with a stage; `None` if none does.
    fn beginning(stage: &Stage) -> Option<Self> {
        match stage {
            Stage::CoarseRun { .. } => Some(Self { name: "coarse run".to_owned(), later_steps: None }),
            Stage::BlockRun { block, blocks, later_steps, .. } => {
                Some(Self { name: format!("block {block} of {blocks}"), later_steps: Some(*later_steps) })
            }
            _ => None,
        }
    }

    /// Progress of the part, with the time left for it and all later ones.
    fn message(&self, progress: &RunProgress) -> String {
        let later = self.later_steps.map(|steps| steps as f64 / progress.it_per_s.max(f64::MIN_POSITIVE));
        let left = progress.seconds_left.zip(later).map(|(now, later)| now + later);
        format!("{}, {}", self.name, training_message(&RunProgress { seconds_left: left, ..*progress }))
    }
}

impl<'a> EventPrinter<'a> {
    fn new(console: &'a Console, interrupt: Option<&'a Interrupt>) -> Self {
        Self {
            console,
            interrupt,
            reporter: None,
            stop_reported: false,
            last_alignment_line: String::new(),
            part: None,
        }
    }

    fn handle(&mut self, event: Event) {
        self.console.log_event(|| event_log::line_of(&event));
        match event {
            Event::Stage(stage) => {
                self.part = RunPart::beginning(&stage);
                self.console.note(format_stage(&stage));
            }
            Event::Part(part) => self.console.json_event(&part),
            Event::Begun { item: part, done, total } => {
                self.reporter = Some(ProgressReporter::start(self.console, part_name(part), done, total));
            }
            Event::Fitting(progress) => {
                if let Some(reporter) = &mut self.reporter {
                    reporter.update(progress.step, || fit_message(&progress));
                }
            }
            Event::Done { done, views_per_s } => {
                if let Some(reporter) = &mut self.reporter {
                    let message = || {
                        views_per_s.map_or_else(String::new, |rate| format!("{} views/s", three_digits(rate)))
                    };
                    reporter.update(done, message);
                }
            }
            Event::Ended => {
                self.reporter = None;
                self.console.set_bar(None);
            }
            Event::RunFolder(folder) => crash::set_run_folder(&folder),
            Event::Training(event) => self.handle_training_event(&event),
            Event::Aligning(progress) => self.print_alignment_progress(&progress),
            Event::PhotosAligned(alignment) => self.console.note(describe::photo_alignment(&alignment)),
            Event::PanosAligned(alignment) => self.console.note(describe::pano_alignment(&alignment)),
            Event::MetricScale { positions, residual, left_out } => {
                let residual = three_digits(residual);
                let out = describe::left_out_positions(&left_out);
                self.console.note(format!(
                    "scale from GPS: {positions} positions, RMS residual {residual} m{out}; metres, north and up"
                ));
            }
            Event::NoMetricScale => {
                self.console.note("scale: GPS positions scatter too much to determine it")
            }
            Event::OnTrack(earth) => {
                self.console.note(format!("scale from the GPS track: {}", describe::track_fit(&earth)))
            }
            Event::Masked(share) => {
                self.console.note(format!("masks: {}", describe::mask_statistics(&share)))
            }
            Event::Cut(times) => self.console.note(describe::split_times(&times)),
            Event::FarPoints(count) => {
                let points = counted(count as u64, "point");
                self.console.note(format!("start: {points} added at a distance for the sky"));
            }
            Event::DeviceChosen(line) => self.console.note(format!("device: {line}")),
            Event::FramesChosen(chosen) => self.console.note(describe::frames_chosen(&chosen)),
            Event::ViewsAdded(views) => self.console.note(describe::views_added(&views)),
            Event::Warning { topic: about, line } => self.console.warn(about, line),
        }
    }

    /// Prints one line per stage of the alignment, and one per tenth of it.
    fn print_alignment_progress(&mut self, progress: &gausset_sfm::AlignProgress) {
        let gausset_sfm::AlignProgress { stage, done, total: all, recipe: rung } = progress;
        let again = if *rung > 0 { format!(", recipe {}", rung + 1) } else { String::new() };
        let line = match (done, all) {
            (0, _) => format!("{stage}{again}"),
            (_, 0) => format!("{stage}{again}: {done} registered"),
            (done, all) => format!("{stage}{again}: {} %", 100 * done * 10 / all / 100 * 10),
        };
        if self.last_alignment_line != line {
            self.console.note(line.as_str());
            self.last_alignment_line = line;
        }
    }

    fn handle_training_event(&mut self, event: &gausset_train::Event) {
        use gausset_train::Event;
        match event {
            Event::StereoBegun { views } => {
                self.console.note(format!("stereo: depth maps of {}", counted(*views as u64, "view")));
            }
            Event::StereoDone(report) => self.console.note(stereo_line(report)),
            Event::Started(started) => {
                if self.part.is_none() {
                    self.console.note(format_run_start(started));
                }
                self.reporter = Some(match started.time_budget {
                    // The number of steps of a run with a time budget is not known, so the bar shows time.
                    Some(_) => ProgressReporter::start(self.console, "", 0, BUDGET_PARTS),
                    None => ProgressReporter::start(self.console, "step", started.step, started.steps),
                });
            }
            Event::Progress(progress) => {
                if let Some(reporter) = &mut self.reporter {
                    match progress.budget {
                        Some([used, seconds]) => {
                            let part = (BUDGET_PARTS as f64 * used / seconds.max(f64::MIN_POSITIVE)) as u64;
                            // The last step completes the bar, whatever time it took.
                            let part = if progress.step >= progress.steps { BUDGET_PARTS } else { part };
                            reporter
                                .update(part.min(BUDGET_PARTS), || budget_message(progress, [used, seconds]));
                        }
                        None => reporter.update(progress.step, || match &self.part {
                            Some(part) => part.message(progress),
                            None => training_message(progress),
                        }),
                    }
                }
                let is_asked = self.interrupt.is_some_and(|interrupt| interrupt.signal().is_some());
                if is_asked && !self.stop_reported {
                    self.stop_reported = true;
                    self.console.note("stopping: saving a checkpoint (interrupt again to stop immediately)");
                }
            }
            Event::Warning(warning) => self.console.warn(warning_kind(warning), warning.to_string()),
            Event::Evaluated { step, report } => {
                if let (Some(psnr), Some(ssim)) = (report.psnr, report.ssim) {
                    let step = grouped(*step);
                    self.console
                        .note(format!("step {step}: PSNR {psnr:.2} dB, SSIM {ssim:.4} on held-out images"));
                }
            }
            Event::Exported { path, splats, dropped, .. } if *dropped > 0 => {
                let (splats, dropped, path) = (grouped(*splats), grouped(*dropped), path.display());
                let line = format!(
                    "{path}: {dropped} splats with non-finite parameters left out ({splats} written)"
                );
                self.console.warn("splats", line);
            }
            // The final table lists the files; options set how often they are written.
            Event::Checkpointed { .. } | Event::Exported { .. } => {}
            // These events are for the viewer.
            Event::Density { .. } | Event::Paused { .. } | Event::Resumed { .. } => {}
            Event::Finished(_) => {
                if let Some(reporter) = self.reporter.take() {
                    reporter.finish();
                }
            }
        }
    }
}

/// The name of a part of a job.
const fn part_name(part: CountedItem) -> &'static str {
    match part {
        CountedItem::Frames => "frame",
        CountedItem::Pictures => "image",
        CountedItem::Steps => "step",
    }
}

/// Formats a stage as a note.
fn format_stage(stage: &Stage) -> String {
    match stage {
        Stage::MakeScene(folder) => format!("generating the scene in {}", folder.display()),
        Stage::FindMasks => "computing masks".to_owned(),
        Stage::CutForAlignment => "cutting views for alignment".to_owned(),
        Stage::CutForTraining => "cutting views for training".to_owned(),
        Stage::LookAtFrames => "analysing all frames of the video".to_owned(),
        Stage::CompareLight => "comparing the exposure of neighbouring frames".to_owned(),
        Stage::TakeFrames(about) => format!("extracting about {} from the video", counted(*about, "frame")),
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
        Stage::NoFieldState(path) => format!("{}: no such file; the fit starts at step 0", path.display()),
        Stage::GoOn(run) => format!("resuming the run in {}", run.display()),
        Stage::RunFolderChosen(run) => format!("run folder: {}", run.display()),
        Stage::AlignedAlready => "the alignment is already finished".to_owned(),
        Stage::TrainedAlready => "the training is already finished".to_owned(),
        Stage::StoppedBeforeTraining => TrainError::Stopped.to_string(),
        Stage::TrainingStopped { step, run } => format!(
            "stopped after step {}, checkpoint and splats.ply saved; resume with: gausset train --resume {}",
            grouped(*step),
            shell_quote(run)
        ),
        Stage::CoarseRun { images, steps } => {
            let images = counted(*images as u64, "image");
            format!("coarse run on all {images}, {} steps", grouped(*steps))
        }
        Stage::Divided { images } => {
            let list: Vec<String> = images.iter().map(|&count| grouped(count as u64)).collect();
            let blocks = counted(images.len() as u64, "block");
            format!("divided into {blocks} of {} images", list.join(", "))
        }
        Stage::BlockRun { block, blocks, images, steps, .. } => {
            let images = counted(*images as u64, "image");
            format!("block {block} of {blocks}: {images}, {} steps", grouped(*steps))
        }
        Stage::Merged { splats, blocks } => {
            let blocks = counted(*blocks as u64, "block");
            format!("merged {} splats of {blocks}", grouped(*splats))
        }
        Stage::Borders { images, psnr: [at, elsewhere], coarse_psnr: [coarse_at, coarse_elsewhere] } => {
            let images = counted(*images as u64, "held-out image");
            format!(
                "borders between blocks: PSNR {at:.2} dB, elsewhere {elsewhere:.2} dB (coarse run: {coarse_at:.2}, \
                 {coarse_elsewhere:.2}), on {images}"
            )
        }
        Stage::BlocksStopped { place, run } => format!(
            "stopped {place}, checkpoint saved; resume with: gausset train --resume {}",
            shell_quote(run)
        ),
        Stage::CutStopped => "stopped; run the same command again for the remaining frames".to_owned(),
    }
}

/// The kind of a warning, by which the console limits how many are printed.
fn warning_kind(warning: &RunWarning) -> &'static str {
    match warning {
        RunWarning::UnreadableImage(_) => "images",
        RunWarning::LossExplosion { .. } => "the loss",
        RunWarning::DeadSplats { .. } | RunWarning::SkippedUpdates { .. } => "splats",
        RunWarning::TruncatedLists { .. } | RunWarning::TruncatedRenders { .. } => "the tile lists",
        RunWarning::DamagedCheckpoint(_) | RunWarning::NoCheckpoint { .. } => "checkpoints",
        RunWarning::HostDensityControl { .. } | RunWarning::Note(_) => "the run",
    }
}

/// Formats the result of stereo.
fn stereo_line(report: &StereoReport) -> String {
    let StereoReport { views, confirmed, views_per_point, points, background } = report;
    let (views, points) = (counted(*views as u64, "view"), counted(*points as u64, "point"));
    let confirmed = 100.0 * confirmed;
    let background = match background {
        0 => String::new(),
        &count => format!(", {} in the background", grouped(count as u64)),
    };
    format!(
        "stereo: {views}, {confirmed:.0} % of pixels confirmed ({views_per_point:.1} views each), \
         {points}{background}"
    )
}

/// Formats the facts of a starting run: device, data, memory, steps and time.
fn format_run_start(started: &RunStart) -> Lines {
    let RunStart { device, memory, .. } = started;
    let train = counted(started.train_images as u64, "image");
    let held_out = grouped(started.test_images as u64);
    let extent = three_digits(started.scene_extent);
    let steps = match started.step {
        0 => grouped(started.steps),
        done => format!("{} of {} done", grouped(done), grouped(started.steps)),
    };
    let steps = match started.time_budget {
        Some(_) => format!("about {steps}, as the time budget allows"),
        None => steps,
    };
    let parts = [
        (format!("{} splats", grouped(memory.splat_count)), memory.splats),
        ("points".to_owned(), memory.points),
        ("images".to_owned(), memory.pictures),
        ("buffers".to_owned(), memory.working),
        ("checkpoints and evaluation".to_owned(), memory.beside),
    ];
    let parts = parts.into_iter().filter(|(_, bytes)| *bytes > 0);
    let parts: Vec<String> =
        parts.map(|(what, bytes)| format!("{what} {}", text::format_bytes(bytes))).collect();
    let [total, limit] = [memory.total(), memory.limit].map(text::format_bytes);
    let parts = parts.join(", ");
    let mut rows = vec![
        ("device", device.name.clone()),
        ("data", format!("{train} for training, {held_out} held out, scene extent {extent}")),
        ("start", started.start.clone()),
        ("memory", format!("about {total} of {limit}: {parts}")),
        ("steps", steps),
    ];
    if memory.device > 0 {
        let (needed, splats) = (text::format_bytes(memory.device), grouped(memory.splat_count));
        rows.insert(4, ("GPU memory", format!("about {needed} for {splats} splats")));
    }
    if let Some(seconds) = started.time_budget {
        rows.push(("time", format!("{} in total", duration(seconds))));
    } else if let Some(seconds) = started.predicted_seconds {
        rows.push(("time", format!("about {} at the speed of the first steps", duration(seconds))));
    }
    table::facts(&rows)
}
