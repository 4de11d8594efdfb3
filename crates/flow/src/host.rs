//! Who a job works for: who receives events, and where to look whether to stop.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use gausset_field::fit::FitProgress;

use crate::frames_chosen::FramesChosen;
use crate::panos::alignment::PanoAlignment;
use crate::panos::masked::MaskShare;
use crate::photos::alignment::PhotoAlignment;
use crate::{Failure, Watcher};

/// Something that happened in a job, as data.
#[derive(Clone, Debug)]
pub enum Event {
    /// The next part of the job begins.
    Stage(Stage),
    /// So many things are to be done one after the other; [`Event::Done`] counts them.
    Begun {
        /// What they are.
        part: Part,
        /// How many are done already.
        done: u64,
        /// How many there are, about.
        total: u64,
    },
    /// So many of them are done.
    Done {
        /// How many.
        done: u64,
        /// Views per second, where views are cut.
        views_per_s: Option<f64>,
    },
    /// There are no more of them.
    Ended,
    /// A folder of a run is ours from now on.
    RunFolder(PathBuf),
    /// Something happened in the training run.
    Training(Box<gausset_train::Event>),
    /// A step of a field's fit is done.
    Fitting(FitProgress),
    /// Structure from motion is so far.
    Aligning(gausset_sfm::Progress),
    /// Photographs are aligned, now or by an earlier job.
    PhotosAligned(PhotoAlignment),
    /// Panoramas are aligned, now or by an earlier job.
    PanosAligned(Box<PanoAlignment>),
    /// The scale of a model is in metres.
    MetricScale {
        /// GPS positions that it is taken from.
        positions: usize,
        /// Root mean square of their distances to the fit, m.
        residual: f64,
    },
    /// GPS positions are there, but scatter too much to tell the scale.
    NoMetricScale,
    /// A track fits the frames: the scale is in metres.
    OnTrack(gausset_pano::export::Earth),
    /// These views were added so that every direction is seen; none if nothing was missing.
    ViewsAdded(Vec<gausset_pano::geometry::View>),
    /// These frames of a film are taken.
    FramesChosen(FramesChosen),
    /// A model looked for what is not to be seen, and masked so much.
    Masked(MaskShare),
    /// Panoramas were cut, and this is where the time went.
    Cut(gausset_pano::split::StageTimes),
    /// Points were added far away, where there is sky.
    FarPoints(usize),
    /// Nobody has named a device, there was a choice, and this one is taken: a line that says why.
    DeviceChosen(String),
    /// Something a person should know though the job goes on.
    Warning {
        /// What it is about: `pictures`, `the dataset`. Of many about the same, the first few are enough for a person.
        about: &'static str,
        /// One line.
        line: String,
    },
}

/// A part of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stage {
    /// A procedural scene is made in this folder.
    MakeScene(PathBuf),
    /// A model looks for what is to be masked.
    FindMasks,
    /// Panoramas are cut into views to align.
    CutForAlignment,
    /// Panoramas are cut into views to train on.
    CutForTraining,
    /// All frames of a film are looked at, to choose among them.
    LookAtFrames,
    /// The light of neighbouring frames is compared, to make them alike.
    CompareLight,
    /// About so many pictures are taken from a video.
    TakeFrames(u64),
    /// COLMAP begins.
    Align {
        /// How many …
        count: usize,
        /// … of what: `photograph`, `frame`.
        what: &'static str,
        /// Name and version of the program.
        tool: String,
    },
    /// A field is fitted to these samples.
    FieldInput {
        /// The file.
        path: PathBuf,
        /// Voxels along x, y and z of a volume.
        voxels: Option<[usize; 3]>,
        /// Which frame of how many, where there are several.
        frame: Option<[usize; 2]>,
        /// Samples of the file, voxels included.
        samples: usize,
    },
    /// This file of an interrupted fit is not there; the fit begins at step 0.
    NoFieldState(PathBuf),
    /// The run in this folder goes on.
    GoOn(PathBuf),
    /// The training was finished by an earlier job.
    TrainedAlready,
    /// The job was asked to stop before the training could begin.
    StoppedBeforeTraining,
    /// The training was asked to stop and has saved a checkpoint.
    TrainingStopped {
        /// Finished steps.
        step: u64,
        /// Folder of the run.
        run: PathBuf,
    },
    /// The views of some panoramas are cut; the rest was not begun, because the job was asked to stop.
    CutStopped,
}

/// Things of which a job does many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Frames of a video or panoramas.
    Frames,
    /// Pictures.
    Pictures,
    /// Steps of a fit.
    Steps,
}

/// Who a job works for.
pub struct Host<'a> {
    stop: &'a Arc<AtomicBool>,
    events: &'a mut dyn FnMut(Event),
    watcher: Option<&'a mut dyn Watcher>,
}

impl<'a> Host<'a> {
    /// Somebody who sets `stop` when the job is to end as soon as what it has is saved, and receives `events`.
    pub fn new(stop: &'a Arc<AtomicBool>, events: &'a mut dyn FnMut(Event)) -> Self {
        Self { stop, events, watcher: None }
    }

    /// Does a job whose training somebody watches.
    pub fn watched<T>(&mut self, watcher: &mut dyn Watcher, job: impl FnOnce(&mut Host<'_>) -> T) -> T {
        job(&mut Host { stop: self.stop, events: &mut *self.events, watcher: Some(watcher) })
    }

    /// Whoever watches the training.
    pub(crate) fn watcher(&mut self) -> Option<&mut (dyn Watcher + 'a)> {
        self.watcher.as_deref_mut()
    }

    /// The flag that says that the job is to stop.
    #[must_use]
    pub fn stop(&self) -> &'a Arc<AtomicBool> {
        self.stop
    }

    /// Whether the job is to stop.
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Reports what happened.
    pub fn report(&mut self, event: Event) {
        if let (Event::Training(event), Some(watcher)) = (&event, &mut self.watcher) {
            watcher.hear(event);
        }
        (self.events)(event);
    }

    /// Reports which part of the job begins.
    pub fn stage(&mut self, stage: Stage) {
        self.report(Event::Stage(stage));
    }

    /// Warns.
    pub fn warn(&mut self, about: &'static str, line: impl Into<String>) {
        self.report(Event::Warning { about, line: line.into() });
    }

    /// What failed while the job was asked to stop failed because of that.
    ///
    /// # Errors
    /// The failure, or [`Failure::stopped`].
    pub fn unless_stopped<T, E: Into<Failure>>(&self, result: Result<T, E>) -> Result<T, Failure> {
        result.map_err(|error| if self.is_stopping() { Failure::stopped() } else { error.into() })
    }
}
