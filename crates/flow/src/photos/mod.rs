//! Ordinary photographs and video: structure from motion, and from pictures to a splat.
//!
//! ```text
//! video ─▶ OUTPUT/frames/ (chosen by the camera's way)  ┐
//! photographs ──────────────────────────────────────────┴▶ OUTPUT/sparse/0 ─▶ OUTPUT/run/
//! ```
//! Frames and model have a marker of ours and a record of what they were made with ([`crate::records`]). What has no
//! marker is somebody else's: frames are never put among it, a model only where it may be replaced.

pub(crate) mod alignment;
mod model;
mod pictures;

use std::path::{Path, PathBuf};

pub use alignment::PhotoAlignment;
use gausset_io::atomic::Overwrite;
use gausset_io::dataset::CameraModel;
use gausset_io::reading::Reading;
use gausset_pano::selection::Wanted;
use gausset_train::{TrainConfig, TrainOptions};

use crate::film_frames::{Rates, SelectChoice};
use crate::tool::ToolOptions;
use crate::training::{self, Conditions, Trained};
use crate::{Event, Failure, Host, records};

/// How the photographs were taken.
#[derive(Clone, Debug, PartialEq)]
pub struct LensOptions {
    /// Camera model of COLMAP.
    pub camera_model: CameraModel,
    /// All photographs are of one camera at one focal length.
    pub single_camera: bool,
    /// Names follow the way of the camera: neighbours only are matched, from 121 photographs on.
    pub sequence: bool,
    /// Folder of masks NAME.png (0 = ignore).
    pub masks: Option<PathBuf>,
    /// Video: by what frames are chosen.
    pub select: SelectChoice,
    /// Video: pictures per second, by time. `None` = 2.
    pub fps: Option<f64>,
    /// Video: first second. `None` = 0.
    pub start: Option<f64>,
    /// Video: last second.
    pub end: Option<f64>,
    /// Video: at most so many pictures, spread by parallax. `None` = 300.
    pub max_frames: Option<u32>,
}

impl Default for LensOptions {
    fn default() -> Self {
        Self {
            camera_model: CameraModel::SimpleRadial,
            single_camera: false,
            sequence: false,
            masks: None,
            select: SelectChoice::default(),
            fps: None,
            start: None,
            end: None,
            max_frames: None,
        }
    }
}

impl LensOptions {
    /// What is wanted of the frames of a video; `None` = all of them.
    fn wanted(&self) -> Result<Option<Wanted>, Failure> {
        let rates = Rates { fps: self.fps, sharpest_of: None, max_frames: Some(self.max_frames()) };
        self.select.wanted(rates)
    }

    fn start(&self) -> f64 {
        self.start.unwrap_or(0.0)
    }

    fn max_frames(&self) -> u32 {
        self.max_frames.unwrap_or(300)
    }

    /// Refuses what only a video listens to.
    fn check_photographs(&self) -> Result<(), Failure> {
        let of_video = [
            ("⟨select⟩", self.select.select.is_some()),
            ("⟨step⟩", self.select.step.is_some()),
            ("⟨fps⟩", self.fps.is_some()),
            ("⟨start⟩", self.start.is_some()),
            ("⟨end⟩", self.end.is_some()),
            ("⟨max-frames⟩", self.max_frames.is_some()),
        ];
        match of_video.iter().find(|(_, is_given)| *is_given) {
            None => Ok(()),
            Some((option, _)) => Err(Failure::new(
                "option",
                format!("{option}: has no effect on a folder of photographs; leave it out, or name a video"),
            )),
        }
    }
}

/// Photographs or a video to be aligned, and where to.
#[derive(Clone, Debug)]
pub struct PhotoOptions {
    /// Folder of photographs, or a video (through ffmpeg).
    pub photos: PathBuf,
    /// Folder for the model (`sparse/0`), and for the run.
    pub output: PathBuf,
    /// How they were taken.
    pub lens: LensOptions,
    /// What aligns them.
    pub tool: ToolOptions,
    /// Whether a model of somebody else, and frames and runs of other options, may be replaced.
    pub overwrite: Overwrite,
}

impl PhotoOptions {
    /// Photographs, and the folder for what is made of them; everything else as it is by default.
    #[must_use]
    pub fn new(photos: impl Into<PathBuf>, output: impl Into<PathBuf>) -> Self {
        Self {
            photos: photos.into(),
            output: output.into(),
            lens: LensOptions::default(),
            tool: ToolOptions::default(),
            overwrite: Overwrite::Refuse,
        }
    }
}

/// Aligns photographs or the frames of a video: writes `OUTPUT/sparse/0`.
///
/// # Errors
/// Pictures or a video that cannot be used, no COLMAP, no pair that matches, a folder of somebody else; the job was
/// asked to stop.
pub fn align(options: &PhotoOptions, host: &mut Host<'_>) -> Result<PhotoAlignment, Failure> {
    let _reading = Reading::of([Some(&options.photos), options.lens.masks.as_ref()].into_iter().flatten());
    let aligned = pictures::source(options, host).and_then(|source| {
        let _lock = records::lock(&options.output)?;
        let pictures = pictures::pictures(options, source, host)?;
        model::align(options, &pictures, &pictures::photographs(&pictures.folder)?, host)
    });
    host.unless_stopped(aligned)
}

/// From photographs or a video to a splat: aligns them, where that was not done before, and trains in `OUTPUT/run`. The
/// same call goes on where an earlier one was stopped.
///
/// `training` are the options of the run; data, pictures and masks are put in their place.
///
/// # Errors
/// As [`align`] and [`training::train`].
pub fn run(
    options: &PhotoOptions,
    training: &TrainOptions,
    conditions: Conditions,
    host: &mut Host<'_>,
) -> Result<(PhotoAlignment, Trained), Failure> {
    let training = TrainOptions {
        data: Some(options.output.clone()),
        images: Some(pictures::picture_folder(options)),
        masks: options.lens.masks.clone(),
        ..training.clone()
    };
    let _reading = Reading::of([Some(&options.photos), options.lens.masks.as_ref()].into_iter().flatten());
    // A mistake in the options is reported before the work begins.
    TrainConfig::resolve(&training, None)?;
    let aligned = pictures::source(options, host).and_then(|source| {
        let lock = records::lock(&options.output)?;
        records::stay_inside(&options.output, &["run"])?;
        let pictures = pictures::pictures(options, source, host)?;
        let frames = pictures::photographs(&pictures.folder)?;
        // A model that is there and is one of these photographs is used again.
        let alignment = match model::known(options, &pictures, &frames)? {
            Some(known) => model::describe(options, &known, &frames),
            None => model::align(options, &pictures, &frames, host)?,
        };
        Ok((alignment, lock))
    });
    let (alignment, _lock) = host.unless_stopped(aligned)?;
    host.report(Event::PhotosAligned(alignment.clone()));
    let folder = options.output.join("run");
    let trained = training::begin_or_go_on(folder, &training, options.overwrite, conditions, host)?;
    Ok((alignment, trained))
}

/// A path from the root, for programs that work in another folder.
fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}
