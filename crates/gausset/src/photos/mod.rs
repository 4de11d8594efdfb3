//! Photographs and ordinary video: alignment, and the whole pipeline to a splat.
//!
//! ```text
//! video ─▶ OUTPUT/frames/ (selected by camera motion)   ┐
//! photographs (OUTPUT/images/ where COLMAP needs copies) ┴▶ OUTPUT/sparse/0 ─▶ OUTPUT/run/
//! ```
//! Frames and model have an ownership marker and a record of their options ([`crate::records`]). Without a marker they
//! were not created by Gausset: frames are never added to such a folder, and a model only replaces it on request.

pub(crate) mod alignment;
mod copies;
mod full_sphere;
mod heif;
mod images;
mod list;
mod model;
mod picture_report;

use std::path::{Path, PathBuf};

pub use alignment::{LeftOut, PhotoAlignment};
pub use full_sphere::{FullSphere, full_sphere_of, full_sphere_of_folder};
use gausset_io::atomic::Overwrite;
use gausset_io::dataset::{self, CameraModel, OpenOptions};
use gausset_io::input_files::InputFiles;
use gausset_io::ownership;
use gausset_io::text::shell_quote;
use gausset_pano::selection::SelectionCriteria;
use gausset_sfm::model::FrameImages;
use gausset_sfm::pair_list::{PairList, PairListError};
use gausset_sfm::{AlignmentTool, PairChoice};
use gausset_train::{Quality, TrainConfig, TrainOptions};
pub use list::{PhotographList, advice_for_photographs};

use crate::aligner::{Aligner, AlignerOptions};
use crate::footage_options::SelectionOptions;
use crate::frame_selection::Rates;
use crate::records::OutputFolder;
use crate::training::{self, RunSettings, Trained};
use crate::{Event, Failure, Host, Stage, records};

/// Which pairs of photographs are matched.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum PairOption {
    /// The aligner decides.
    #[default]
    Auto,
    /// Every pair.
    All,
    /// Those of a file: two names a line, as `matches_importer` of COLMAP takes them.
    File(PathBuf),
}

impl PairOption {
    /// From `auto`, `all` or the path of a file.
    #[must_use]
    pub fn from_argument(argument: &Path) -> Self {
        match argument.to_str() {
            Some("auto") => Self::Auto,
            Some("all") => Self::All,
            _ => Self::File(argument.to_owned()),
        }
    }

    /// The file, if there is one.
    fn file(&self) -> Option<&PathBuf> {
        match self {
            Self::File(path) => Some(path),
            Self::Auto | Self::All => None,
        }
    }

    /// The pairs of these photographs.
    fn choose(&self, frames: &[FrameImages]) -> Result<PairChoice, PairListError> {
        Ok(match self {
            Self::Auto => PairChoice::Auto,
            Self::All => PairChoice::All,
            Self::File(path) => PairChoice::Listed(PairList::read(path)?.pairs(frames)?),
        })
    }
}

/// How the photographs or the video were taken.
#[derive(Clone, Debug, PartialEq)]
pub struct CaptureOptions {
    /// COLMAP camera model.
    pub camera_model: CameraModel,
    /// All photographs are from one camera at one focal length.
    pub single_camera: bool,
    /// Which pairs are matched.
    pub pairs: PairOption,
    /// File names follow the path of the camera: of more than 25 (COLMAP: 120), mainly neighbours are matched.
    pub sequence: bool,
    /// Folder with masks NAME.png (0 = ignore); `None` = `masks`, `mask` or `segmentation`, where training finds it.
    pub masks: Option<PathBuf>,
    /// Whether masks are black where pixels are kept; [`run`] takes it from the training options.
    pub invert_masks: bool,
    /// Video: criterion of the frame selection.
    pub select: SelectionOptions,
    /// Video: frames per second, for selection by time. `None` = 2.
    pub fps: Option<f64>,
    /// Video: start in seconds. `None` = 0.
    pub start: Option<f64>,
    /// Video: end in seconds.
    pub end: Option<f64>,
    /// Video: maximum number of frames, selected by parallax. `None` = 300.
    pub max_frames: Option<u32>,
}

impl Default for CaptureOptions {
    fn default() -> Self {
        Self {
            camera_model: CameraModel::SimpleRadial,
            single_camera: false,
            pairs: PairOption::default(),
            sequence: false,
            masks: None,
            invert_masks: false,
            select: SelectionOptions::default(),
            fps: None,
            start: None,
            end: None,
            max_frames: None,
        }
    }
}

impl CaptureOptions {
    /// Options of the frame selection; `None` = take all frames.
    fn selection(&self) -> Result<Option<SelectionCriteria>, Failure> {
        let rates = Rates { fps: self.fps, sharpest_of: None, max_frames: Some(self.max_frames()) };
        self.select.resolve(rates)
    }

    fn start(&self) -> f64 {
        self.start.unwrap_or(0.0)
    }

    fn max_frames(&self) -> u32 {
        self.max_frames.unwrap_or(300)
    }

    /// Refuses masks and a list of pairs that are none, and options that have no effect on pairs that are given.
    fn check_inputs(&self) -> Result<(), Failure> {
        if let Some(masks) = self.masks.as_ref().filter(|masks| !masks.is_dir()) {
            let line =
                format!("{}: masks: no such folder (expected one with masks NAME.png)", masks.display());
            return Err(Failure::new("option", line));
        }
        if self.sequence && self.pairs != PairOption::Auto {
            let line =
                "⟨sequence⟩: has no effect on pairs that are given; leave it out, or take ⟨pairs = auto⟩";
            return Err(Failure::new("option", line));
        }
        self.pairs.file().map_or(Ok(()), |path| Ok(PairList::read(path).map(drop)?))
    }

    /// Files and folders that the options name.
    fn inputs(&self) -> impl Iterator<Item = &PathBuf> {
        self.masks.iter().chain(self.pairs.file())
    }

    /// Refuses options that apply to videos only.
    fn refuse_video_options(&self) -> Result<(), Failure> {
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
                format!("{option}: has no effect on a folder of photographs; leave it out, or give a video"),
            )),
        }
    }
}

/// Longest side of the photographs from which features are extracted, px. COLMAP's own limit is 3200: 1.8 times the
/// pixels. `fast` takes less.
const MAX_IMAGE_SIZE: u32 = 2400;
const FAST_IMAGE_SIZE: u32 = 1600;

/// Options of [`align()`] and [`run`].
#[derive(Clone, Debug)]
pub struct PhotoOptions {
    /// Folder of photographs, or a video (through ffmpeg).
    pub photos: PathBuf,
    /// Output folder of the model (`sparse/0`) and the run.
    pub output: PathBuf,
    /// How the input was taken.
    pub lens: CaptureOptions,
    /// Aligner and its options.
    pub tool: AlignerOptions,
    /// Features are extracted from photographs whose longest side is reduced to this, px.
    pub max_image_size: u32,
    /// Whether to replace models that Gausset did not create, and frames and runs with other options.
    pub overwrite: Overwrite,
}

impl PhotoOptions {
    /// Input and output folder, with defaults for everything else.
    #[must_use]
    pub fn new(photos: impl Into<PathBuf>, output: impl Into<PathBuf>) -> Self {
        Self {
            photos: photos.into(),
            output: output.into(),
            lens: CaptureOptions::default(),
            tool: AlignerOptions::default(),
            max_image_size: MAX_IMAGE_SIZE,
            overwrite: Overwrite::Refuse,
        }
    }

    /// Finds the aligner.
    ///
    /// # Errors
    /// As [`AlignerOptions::find`]; a camera model that needs COLMAP with the built-in aligner.
    fn find_aligner(&self, host: &Host<'_>) -> Result<AlignmentTool, Failure> {
        let model = self.lens.camera_model;
        let needs_colmap = !AlignmentTool::BUILT_IN_CAMERAS.contains(&model);
        if needs_colmap && self.tool.aligner == Aligner::Own {
            let known = AlignmentTool::BUILT_IN_CAMERAS.map(CameraModel::name).join(", ");
            return Err(Failure::usage(format!(
                "⟨camera-model⟩: {} needs COLMAP (expected {known} with ⟨aligner = own⟩)",
                model.name()
            )));
        }
        self.tool.find(needs_colmap, host)
    }
}

/// Aligns photographs or video frames and writes `OUTPUT/sparse/0`. A complete model with these options is kept.
///
/// # Errors
/// Unusable images or video, no COLMAP where it is asked for, no matching pair of images, a folder that Gausset did not
/// create, a model with other options, or the job was asked to stop.
pub fn align(options: &PhotoOptions, host: &mut Host<'_>) -> Result<PhotoAlignment, Failure> {
    let _reading = InputFiles::new(options.lens.inputs().chain([&options.photos]));
    let _folder = OutputFolder::new(&options.output);
    let aligned = images::source(options, host).and_then(|source| {
        let _lock = records::lock(&options.output)?;
        let pictures = images::prepare_images(options, source, host)?;
        let frames = &pictures.frames;
        if options.overwrite == Overwrite::Refuse {
            records::check_model_folder(&options.output, Overwrite::Refuse)?;
            if let Some(known) = model::existing_model(options, &pictures, frames)? {
                host.stage(Stage::AlignedAlready);
                return Ok(model::summarise(options, &known, &pictures));
            }
        }
        model::align(options, &pictures, frames, host)
    });
    host.unless_stopped(aligned)
}

/// Warns about a folder of photographs whose cameras are known: they are estimated anew.
fn warn_of_cameras(options: &PhotoOptions, host: &mut Host<'_>) {
    let photos = &options.photos;
    let has_own_model = ownership::is_gausset_owned(&records::model_folder(photos), records::MODEL_PURPOSE);
    if !photos.is_dir() || has_own_model {
        return;
    }
    if let Ok(dataset) = dataset::open(photos, &OpenOptions::default()) {
        let (source, place) = (dataset.source.display(), shell_quote(photos));
        let line = format!(
            "{source}: its cameras are not used but estimated anew; to use them: gausset train {place}"
        );
        host.warn("photographs", line);
    }
}

/// From photographs or a video to a splat: aligns them unless done before, and trains in `OUTPUT/run`. The same call
/// resumes after a stop.
///
/// `training` holds the options of the run; its dataset, images and masks are overridden.
///
/// # Errors
/// As [`align`] and [`training::train`].
pub fn run(
    options: &PhotoOptions,
    training: &TrainOptions,
    conditions: RunSettings,
    host: &mut Host<'_>,
) -> Result<(PhotoAlignment, Trained), Failure> {
    let training = TrainOptions {
        data: Some(options.output.clone()),
        // The folder of the originals may be replaced below.
        images: Some(options.photos.clone()),
        masks: options.lens.masks.clone(),
        ..training.clone()
    };
    let _reading = InputFiles::new(options.lens.inputs().chain([&options.photos]));
    // Report a mistake in the options before any work begins.
    TrainConfig::resolve(&training, None)?;
    let begun = conditions.started;
    let is_fast = training.quality == Some(Quality::Fast);
    let max_image_size = if is_fast { FAST_IMAGE_SIZE } else { options.max_image_size };
    let invert_masks = training.invert_masks.unwrap_or_default();
    let lens = CaptureOptions { invert_masks, ..options.lens.clone() };
    let options = &PhotoOptions { max_image_size, lens, ..options.clone() };
    let _folder = OutputFolder::new(&options.output);
    let aligned = images::source(options, host).and_then(|source| {
        let lock = records::lock(&options.output)?;
        records::refuse_links_out(&options.output, &["run"])?;
        let pictures = host.part("images", begun, |host| images::prepare_images(options, source, host))?;
        let frames = &pictures.frames;
        // An existing model of the same photographs is used again.
        let alignment = match model::existing_model(options, &pictures, frames)? {
            Some(known) => {
                model::warn_of_other_program(options, host);
                model::summarise(options, &known, &pictures)
            }
            None => {
                warn_of_cameras(options, host);
                host.part("align", begun, |host| model::align(options, &pictures, frames, host))?
            }
        };
        Ok((alignment, lock, pictures))
    });
    let (alignment, _lock, pictures) = host.unless_stopped(aligned)?;
    // Beside copies, training finds no masks.
    let is_copy = pictures.folder.starts_with(&options.output);
    let masks = training.masks.clone().or(pictures.mask_folder.filter(|_| is_copy));
    let training = TrainOptions { images: Some(pictures.folder), masks, ..training };
    host.report(Event::PhotosAligned(alignment.clone()));
    let folder = options.output.join("run");
    let trained = host.part("train", begun, |host| {
        training::start_or_resume(folder, &training, options.overwrite, conditions, host)
    })?;
    Ok((alignment, trained))
}
