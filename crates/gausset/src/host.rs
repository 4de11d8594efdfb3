//! The interface between a job and its front end: events out, and a stop flag in.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use gausset_field::fit::FitProgress;
use serde::Serialize;
use serde_json::{Value, json};

use crate::panos::alignment::PanoAlignment;
use crate::panos::mask_options::MaskStatistics;
use crate::photos::alignment::PhotoAlignment;
use crate::selection_summary::SelectionSummary;
use crate::{Failure, Watcher};

/// What happened in a job, as data.
#[derive(Clone, Debug)]
pub enum Event {
    /// The job enters its next stage.
    Stage(Stage),
    /// A part of a long job begins or ends.
    Part(JobPart),
    /// A progress count begins; [`Event::Done`] advances it.
    Begun {
        /// Kind of the counted items.
        item: CountedItem,
        /// Number already done.
        done: u64,
        /// Total number, an estimate for videos.
        total: u64,
    },
    /// Progress of the current count.
    Done {
        /// Number done so far.
        done: u64,
        /// Views per second, while panoramas are split.
        views_per_s: Option<f64>,
    },
    /// The current count is complete.
    Ended,
    /// The run folder exists and belongs to this job.
    RunFolder(PathBuf),
    /// An event of the training run.
    Training(Box<gausset_train::Event>),
    /// A step of a field fit is done.
    Fitting(FitProgress),
    /// Progress of structure from motion.
    Aligning(gausset_sfm::AlignProgress),
    /// Photographs are aligned, by this job or an earlier one.
    PhotosAligned(PhotoAlignment),
    /// Panoramas are aligned, by this job or an earlier one.
    PanosAligned(Box<PanoAlignment>),
    /// The model was placed on the earth by GPS: metres east, north and up.
    MetricScale {
        /// Number of GPS positions used.
        positions: usize,
        /// Root mean square distance between GPS positions and the fit, in metres.
        residual: f64,
        /// Names of the pictures whose position does not fit and was left out.
        left_out: Vec<String>,
    },
    /// GPS positions exist, but scatter too much to determine scale and place.
    NoMetricScale,
    /// The model was scaled to metres by a GPS track.
    OnTrack(gausset_pano::export::Georeference),
    /// Views that were added to the layout so that it covers the sphere; empty if none were needed.
    ViewsAdded(Vec<gausset_pano::geometry::View>),
    /// Frames of a video were selected.
    FramesChosen(SelectionSummary),
    /// A segmentation model created masks.
    Masked(MaskStatistics),
    /// Panoramas were split; time per stage.
    Cut(gausset_pano::split::StageTimes),
    /// Number of points added far away, in the direction of the sky.
    FarPoints(usize),
    /// Reason why a device was chosen automatically, in one line.
    DeviceChosen(String),
    /// A warning; the job continues.
    Warning {
        /// Topic, such as `pictures` or `the dataset`. Front ends may show only the first few warnings of one topic.
        topic: &'static str,
        /// The warning in one line.
        line: String,
    },
}

/// A stage of a job.
#[derive(Clone, Debug, PartialEq)]
pub enum Stage {
    /// A procedural scene is generated in this folder.
    MakeScene(PathBuf),
    /// A segmentation model creates masks.
    FindMasks,
    /// Panoramas are split into the views that are aligned.
    CutForAlignment,
    /// Panoramas are split into the views that are trained on.
    CutForTraining,
    /// All frames of a video are measured for frame selection.
    LookAtFrames,
    /// The brightness of neighbouring frames is compared, to equalise it.
    CompareLight,
    /// Frames are extracted from a video; their estimated number.
    TakeFrames(u64),
    /// Alignment begins.
    Align {
        /// Number of images.
        count: usize,
        /// Noun for one of them: `photograph` or `frame`.
        what: &'static str,
        /// Name and version of the aligner.
        tool: String,
    },
    /// An earlier job has finished the alignment.
    AlignedAlready,
    /// The samples of a field fit were read.
    FieldInput {
        /// The input file.
        path: PathBuf,
        /// Number of voxels along x, y and z of a volume.
        voxels: Option<[usize; 3]>,
        /// Index of the frame and number of frames, for a volume with several.
        frame: Option<[usize; 2]>,
        /// Number of samples or voxels in the file.
        samples: usize,
    },
    /// This checkpoint of a field fit does not exist; the fit starts at step 0.
    NoFieldState(PathBuf),
    /// The run in this folder resumes.
    GoOn(PathBuf),
    /// An earlier job has finished the training.
    TrainedAlready,
    /// The job was asked to stop before the training could begin.
    StoppedBeforeTraining,
    /// The run has begun in this folder, whose name was not given.
    RunFolderChosen(PathBuf),
    /// The job was asked to stop; training has saved a checkpoint and the splats.
    TrainingStopped {
        /// Number of finished steps.
        step: u64,
        /// The run folder.
        run: PathBuf,
    },
    /// A coarse run on all training images begins or resumes, before the scene is divided into blocks.
    CoarseRun {
        /// Number of training images.
        images: usize,
        /// Number of steps.
        steps: u64,
    },
    /// The scene is divided into blocks.
    Divided {
        /// Number of training images of each block.
        images: Vec<usize>,
    },
    /// The run of a block begins or resumes.
    BlockRun {
        /// Number of the block, from 1.
        block: usize,
        /// Number of blocks.
        blocks: usize,
        /// Number of its training images.
        images: usize,
        /// Number of its steps.
        steps: u64,
        /// Number of steps of the blocks after it.
        later_steps: u64,
    },
    /// The splats of all blocks are merged.
    Merged {
        /// Number of splats.
        splats: u64,
        /// Number of blocks.
        blocks: usize,
    },
    /// The quality at the borders of merged blocks is measured.
    Borders {
        /// Number of held-out images that show borders.
        images: usize,
        /// PSNR at the borders and elsewhere, dB.
        psnr: [f64; 2],
        /// The same of the coarse run, which has no borders.
        coarse_psnr: [f64; 2],
    },
    /// The job was asked to stop in a part of a run in blocks; that part has saved a checkpoint.
    BlocksStopped {
        /// Which part, as `in block 2 of 4`.
        place: String,
        /// The run folder.
        run: PathBuf,
    },
    /// The job was asked to stop while panoramas were split; the remaining ones were not begun.
    CutStopped,
}

impl Stage {
    /// Name and fields of the event of a run in blocks; `None` if the stage is no such event. A stable contract.
    #[must_use]
    pub fn block_event(&self) -> Option<(&'static str, Value)> {
        Some(match self {
            Self::CoarseRun { images, steps } => ("coarse_run", json!({ "images": images, "steps": steps })),
            Self::Divided { images } => ("divided", json!({ "images": images })),
            Self::BlockRun { block, blocks, images, steps, .. } => {
                ("block", json!({ "block": block, "blocks": blocks, "images": images, "steps": steps }))
            }
            Self::Merged { splats, blocks } => ("merged", json!({ "splats": splats, "blocks": blocks })),
            Self::Borders { images, psnr, coarse_psnr } => {
                ("borders", json!({ "images": images, "psnr": psnr, "coarse_psnr": coarse_psnr }))
            }
            _ => return None,
        })
    }
}

/// Beginning or end of a part of a long job; the JSON form is a stable contract.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "lowercase")]
pub enum JobPart {
    /// The part begins.
    Begin {
        /// Its name.
        stage: &'static str,
        /// Seconds since the job began.
        at_seconds: f64,
    },
    /// The part has ended without an error.
    End {
        /// Its name.
        stage: &'static str,
        /// Seconds since the job began.
        at_seconds: f64,
        /// Duration in seconds.
        seconds: f64,
    },
}

/// Items that a job counts to show progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CountedItem {
    /// Frames of a video or panoramas.
    Frames,
    /// Single images, not frames of a video.
    Pictures,
    /// Steps of a fit.
    Steps,
}

/// Topic of warnings of which each names a kind of files that an input holds and a job leaves out. Their list is short,
/// and none of them should be dropped.
pub const FILES_LEFT_OUT: &str = "files left out";

/// Connects a job to its front end.
pub struct Host<'a> {
    stop: &'a Arc<AtomicBool>,
    events: &'a mut dyn FnMut(Event),
    watcher: Option<&'a mut dyn Watcher>,
}

impl<'a> Host<'a> {
    /// Creates a host. The job sends `events`, and ends after saving its progress once `stop` is set.
    pub fn new(stop: &'a Arc<AtomicBool>, events: &'a mut dyn FnMut(Event)) -> Self {
        Self { stop, events, watcher: None }
    }

    /// Runs a job with a watcher for its training.
    pub fn with_watcher<T>(&mut self, watcher: &mut dyn Watcher, job: impl FnOnce(&mut Host<'_>) -> T) -> T {
        job(&mut Host { stop: self.stop, events: &mut *self.events, watcher: Some(watcher) })
    }

    /// The watcher of the training, if there is one.
    pub(crate) fn watcher(&mut self) -> Option<&mut (dyn Watcher + 'a)> {
        self.watcher.as_deref_mut()
    }

    /// The stop flag, for threads and libraries of the job.
    #[must_use]
    pub fn stop(&self) -> &'a Arc<AtomicBool> {
        self.stop
    }

    /// Whether the job has been asked to stop.
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Sends an event; training events go to the watcher first.
    pub fn report(&mut self, event: Event) {
        if let (Event::Training(event), Some(watcher)) = (&event, &mut self.watcher) {
            watcher.event(event);
        }
        (self.events)(event);
    }

    /// Reports the next stage.
    pub fn stage(&mut self, stage: Stage) {
        self.report(Event::Stage(stage));
    }

    /// Does a part of a job that began at `begun`, and reports its beginning and its end.
    pub(crate) fn part<T>(
        &mut self,
        stage: &'static str,
        begun: Instant,
        work: impl FnOnce(&mut Self) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let from = begun.elapsed().as_secs_f64();
        self.report(Event::Part(JobPart::Begin { stage, at_seconds: from }));
        let done = work(self)?;
        let at_seconds = begun.elapsed().as_secs_f64();
        self.report(Event::Part(JobPart::End { stage, at_seconds, seconds: at_seconds - from }));
        Ok(done)
    }

    /// Sends a warning.
    pub fn warn(&mut self, about: &'static str, line: impl Into<String>) {
        self.report(Event::Warning { topic: about, line: line.into() });
    }

    /// Replaces any error by [`Failure::stopped`] if the job has been asked to stop: the stop is then its cause.
    ///
    /// # Errors
    /// The failure, or [`Failure::stopped`].
    pub fn unless_stopped<T, E: Into<Failure>>(&self, result: Result<T, E>) -> Result<T, Failure> {
        result.map_err(|error| if self.is_stopping() { Failure::stopped() } else { error.into() })
    }
}

/// Runs a job without a front end: its events are dropped, and nothing stops it.
///
/// # Errors
/// The failure of the job.
pub fn run_job<T>(job: impl FnOnce(&mut Host<'_>) -> Result<T, Failure>) -> Result<T, Failure> {
    job(&mut Host::new(&Arc::default(), &mut |_| {}))
}
