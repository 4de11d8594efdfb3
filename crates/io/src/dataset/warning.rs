//! Skipped images and warnings: values that display as one line each.
//!
//! A [`SkipReason`] drops one image and a [`Warning`] drops nothing; a [`super::DatasetError`] ends the work.

use std::path::PathBuf;

use gausset_core::camera::CameraError;
use gausset_core::pose::PoseError;

use super::camera_model::CameraModel;
use super::error::DatasetProblem;
use super::limits::MAX_DISTANCE;
use crate::image::ImageProblem;
use crate::text::short_numbers;

/// Number of names quoted in a line about many images.
const QUOTED_NAMES: usize = 3;

/// A skipped image.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{name}: {reason}")]
pub struct SkippedImage {
    /// Name as in the dataset.
    pub name: String,
    /// Why the image is not used.
    pub reason: SkipReason,
}

/// Why an image was skipped.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SkipReason {
    /// The image is listed, but the file does not exist.
    #[error("picture: no such file")]
    Missing,
    /// The listed file does not exist, and two files may be meant.
    #[error("picture: no such file, and two are like it ({} and {}); name one of them", candidates[0], candidates[1])]
    Ambiguous {
        /// Names relative to the image folder.
        candidates: [String; 2],
    },
    /// The name points outside the image folder.
    #[error(
        "name: leads out of the folder it is relative to (expected a file below it); ⟨allow-outside⟩ accepts it"
    )]
    Outside,
    /// The pose is not a rigid transform.
    #[error("pose: {}", short_numbers(&.0.to_string()))]
    Pose(#[from] PoseError),
    /// The last row of a pose matrix is not 0 0 0 1.
    #[error("pose: last row is {} (expected [0.0, 0.0, 0.0, 1.0])", short_numbers(&format!("{:?}", .0)))]
    LastRow([f64; 4]),
    /// The camera is too far from the origin for single precision.
    #[error("pose: camera is {0:e} units from the origin (expected at most {MAX_DISTANCE:e})")]
    TooFar(f64),
    /// The camera file has no usable pose or lens for it.
    #[error("{}", short_numbers(.0))]
    Export(String),
    /// Another image is the same file: by the same name, another spelling, or a link.
    #[error("name: is the same file as {of} (expected each picture once)")]
    SameFile {
        /// The image that is kept.
        of: String,
    },
    /// The file cannot be decoded.
    #[error("{0}")]
    Unreadable(ImageProblem),
    /// Image and camera have different aspect ratios.
    #[error(
        "size: {}x{} px does not fit its camera of {}x{} px (expected one ratio for both sides){}",
        found[0], found[1], camera[0], camera[1], if *fits_rotated { "; it would fit turned by a quarter: was it rotated after the cameras were found?" } else { "" }
    )]
    Size {
        /// Size of the image.
        found: [u32; 2],
        /// Size of the camera.
        camera: [u32; 2],
        /// Whether it would fit with width and height swapped.
        fits_rotated: bool,
    },
    /// The intrinsics are invalid at the image size.
    #[error("camera: {}", short_numbers(&.0.to_string()))]
    Camera(#[from] CameraError),
    /// The intrinsics of the frame are not usable.
    #[error("camera: {0}")]
    Intrinsics(Box<DatasetProblem>),
    /// Training does not support the camera model.
    #[error("camera: {} cannot be trained on in this shape (expected a panorama twice as wide as high)", .0.name())]
    Untrainable(CameraModel),
    /// The mask cannot be read.
    #[error("mask {}: {problem}", path.display())]
    Mask {
        /// The mask file.
        path: PathBuf,
        /// Why it cannot be decoded.
        problem: ImageProblem,
    },
    /// The mask named by the dataset does not exist.
    #[error("mask {}: {}", path.display(), reason)]
    NoMask {
        /// The expected path.
        path: PathBuf,
        /// Why it cannot be used.
        reason: String,
    },
    /// The mask ignores every pixel.
    #[error("mask {}: ignores every pixel (expected some above 0)", path.display())]
    EmptyMask {
        /// The mask file, which is black everywhere.
        path: PathBuf,
    },
    /// No pixels remain although there is no mask file: the alpha channel or the lens excludes all.
    #[error("picture: no pixel is left after undistortion and alpha channel (expected some)")]
    NoPixels,
}

impl SkipReason {
    /// The reason without its leading label, for files that are not the image itself.
    pub(super) fn without_label(&self) -> String {
        let reason = self.to_string();
        let words = ["picture: ", "name: "].iter().find_map(|word| reason.strip_prefix(word));
        words.unwrap_or(&reason).to_owned()
    }

    /// Whether no file was found.
    pub(super) fn is_missing(&self) -> bool {
        matches!(self, Self::Missing | Self::Ambiguous { .. } | Self::Outside)
    }

    /// Whether the image exists but cannot be read. At most a tenth of such images is accepted.
    #[must_use]
    pub fn is_unreadable(&self) -> bool {
        matches!(self, Self::Unreadable(_) | Self::Mask { .. } | Self::NoMask { .. })
    }
}

/// A problem that the user should know of although the dataset is usable.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Warning {
    /// Listed files do not exist.
    #[error(
        "{}: missing {count} of {listed} listed pictures: {}", folder.display(), quoted_names(*count, names)
    )]
    MissingFiles {
        /// The folder that lacks the files.
        folder: PathBuf,
        /// Number of missing files.
        count: usize,
        /// Number of images listed.
        listed: usize,
        /// The first missing names.
        names: Vec<String>,
    },
    /// Names lead to no file, but to similar ones.
    #[error(
        "{}: {what}: {} to a similar one (the first: {name} is {used})", path.display(),
        if *count == 1 { "1 name leads to no file but".to_owned() } else { format!("{count} names lead to no file but") }
    )]
    SimilarNames {
        /// The folder that was searched, or the file with the names.
        path: PathBuf,
        /// What they are names of.
        what: &'static str,
        /// Number of names.
        count: usize,
        /// The first name.
        name: String,
        /// The name that is used for it.
        used: String,
    },
    /// A model is not usable, and another one is used.
    #[error("{reason}; another model is used")]
    BrokenModel {
        /// Message of the reader.
        reason: String,
    },
    /// The dataset is in a sub-folder.
    #[error("{}: no dataset in the folder itself; using {}", root.display(), used.display())]
    FoundDeeper {
        /// The folder that was given.
        root: PathBuf,
        /// The model or folder that is used.
        used: PathBuf,
    },
    /// The cameras are those of a JSON file with another name.
    #[error("{}: no transforms.json; using {}", root.display(), used.display())]
    OtherJsonFile {
        /// The folder that was given.
        root: PathBuf,
        /// The file that is used.
        used: PathBuf,
    },
    /// The points are those of a file that the source does not name.
    #[error("{}: taken for the points, because {} has none", path.display(), source_file.display())]
    PointsFound {
        /// The file with the points.
        path: PathBuf,
        /// The model or JSON file.
        source_file: PathBuf,
    },
    /// Poses have a scale besides rotation and translation.
    #[error(
        "{}: the matrices of {} have a scale, which is not used (the first: {name}, {})",
        path.display(), counted(*count, "frame"), short_numbers(&((1e6 * scale).round() / 1e6).to_string())
    )]
    ScaledPoses {
        /// The JSON file.
        path: PathBuf,
        /// Number of frames.
        count: usize,
        /// Name of the first picture.
        name: String,
        /// Its scale.
        scale: f64,
    },
    /// A calibration cannot be that of the pictures.
    #[error(
        "{}: camera {camera}: {doubt}{}; check the calibration", path.display(),
        if *count > 1 { format!(" (and {})", counted(count - 1, "more camera")) } else { String::new() }
    )]
    DoubtfulCamera {
        /// The file with the cameras.
        path: PathBuf,
        /// Number of doubtful cameras.
        count: usize,
        /// Id of the first one.
        camera: u32,
        /// What is wrong with it.
        doubt: String,
    },
    /// Terms of lenses that hardly matter are left out.
    #[error(
        "{}: {first}{}", path.display(),
        if *count > 1 { format!(" (and {})", counted(count - 1, "more term")) } else { String::new() }
    )]
    TermsDropped {
        /// The file with the cameras.
        path: PathBuf,
        /// Number of terms.
        count: usize,
        /// The first one, as a line.
        first: String,
    },
    /// There are masks, but not for all images.
    #[error("{}: masks: {}", folder.display(), if let Some(other) = other {
        format!("none is a picture that is read (expected PNG, JPEG, TIFF or WebP, found {other}); convert them to PNG")
    } else if *files == 0 {
        "the folder is empty".to_owned()
    } else if *with == 0 {
        format!("none of {} fits a picture by its name (expected, for example, {}.png for {name})", counted(*files, "file"), name_stem(name))
    } else {
        format!("{} of {} have no mask and are used whole (the first: {name})", pictures - with, counted(*pictures, "picture"))
    })]
    MasksMissing {
        /// The folder of the masks.
        folder: PathBuf,
        /// Number of pictures in it.
        files: usize,
        /// The first file of another kind, if there are no pictures in it.
        other: Option<String>,
        /// Number of images with a mask.
        with: usize,
        /// Number of images.
        pictures: usize,
        /// The first image without a mask.
        name: String,
    },
    /// Masks keep almost nothing.
    #[error(
        "{}: {few} of {looked_at} masks that were looked at keep less than 5 % of the picture (this one {:.1} %); if they are \
         inverted, ⟨invert-masks⟩ turns them over", path.display(), 100.0 * kept
    )]
    InvertedMasks {
        /// The first such mask.
        path: PathBuf,
        /// Number of such masks.
        few: usize,
        /// Number of masks that were looked at.
        looked_at: usize,
        /// Fraction of the pixels that the first one keeps.
        kept: f64,
    },
    /// Images are listed more than once.
    #[error(
        "{}: {} to a file that is listed already (the first: {name}{}); each picture counts once, held out \
         if one of its names is",
        folder.display(), if *count == 1 { "1 name leads".to_owned() } else { format!("{count} names lead") },
        if name == of { String::new() } else { format!(" is {of}") }
    )]
    ListedTwice {
        /// The folder with the images.
        folder: PathBuf,
        /// Number of duplicates.
        count: usize,
        /// The first duplicate.
        name: String,
        /// The image that is the same file.
        of: String,
    },
    /// Images have another size than their cameras.
    #[error(
        "{}: intrinsics rescaled for {} of another size than the camera (the first: {name}, {}x{} for \
         {}x{} px)",
        folder.display(), counted(*count, "picture"), found[0], found[1], camera[0], camera[1]
    )]
    Rescaled {
        /// The folder with the images.
        folder: PathBuf,
        /// Number of images.
        count: usize,
        /// Name of the first one.
        name: String,
        /// Its width and height, px.
        found: [u32; 2],
        /// Size of its camera.
        camera: [u32; 2],
    },
    /// The folder contains several models.
    #[error("{}: {count} models; using {chosen} with the most images ({images})", folder.display())]
    SeveralModels {
        /// The folder that contains the models.
        folder: PathBuf,
        /// Number of models.
        count: usize,
        /// Name of the chosen model.
        chosen: String,
        /// Number of its images.
        images: usize,
    },
    /// Both a COLMAP model and a `transforms.json`.
    #[error(
        "{}: ignored, because there is a COLMAP model in {}; name the JSON file to use it",
        json.display(), model.display()
    )]
    TwoSources {
        /// The JSON file.
        json: PathBuf,
        /// The model, which is used.
        model: PathBuf,
    },
    /// The image folder is not named `images`.
    #[error("{}: no folder `images`; using {}", root.display(), used.display())]
    OtherImageFolder {
        /// Folder of the dataset.
        root: PathBuf,
        /// Folder that is used.
        used: PathBuf,
    },
    /// A program has no pose for some images.
    #[error("{}: left out {count} of {listed} pictures, which have no pose in it", path.display())]
    WithoutPose {
        /// The camera file.
        path: PathBuf,
        /// Number of images without a pose.
        count: usize,
        /// Number of images that it lists.
        listed: usize,
    },
    /// There are no points.
    #[error("{}: no points; training starts from random splats", path.display())]
    NoPoints {
        /// The file that should contain them.
        path: PathBuf,
    },
    /// Points are not finite.
    #[error("{}: dropped {} with coordinates that are not finite", path.display(), counted(*count, "point"))]
    PointsDropped {
        /// The file with the points.
        path: PathBuf,
        /// Number of dropped points.
        count: usize,
    },
    /// The frames of camera rigs cannot be read.
    #[error("{reason}; pictures count as taken one by one")]
    FramesUnreadable {
        /// Message of the reader.
        reason: String,
    },
    /// The coordinates are too far from the origin.
    #[error(
        "{}: coordinates: {} {} {} is subtracted, because the scene is far from the origin; the run and the comments of its PLY keep that",
        path.display(), offset[0], offset[1], offset[2]
    )]
    FarCoordinates {
        /// The file that lists the images.
        path: PathBuf,
        /// What is subtracted.
        offset: [f64; 3],
    },
    /// Cameras stand far from all others.
    #[error(
        "{}: {} far from all others, the farthest {factor:.0} times as far as most ({first}); check the pose; the scene extent leaves it out",
        path.display(), counted(*count, "camera")
    )]
    FarCameras {
        /// The file that lists the images.
        path: PathBuf,
        /// Number of cameras.
        count: usize,
        /// The farthest.
        first: String,
        /// Its distance over the median distance.
        factor: f64,
    },
    /// The georeference of a model cannot be read.
    #[error("{reason}; the scene is not georeferenced")]
    GeoreferenceUnreadable {
        /// Message of the reader.
        reason: String,
    },
    /// The points of a `transforms.json` cannot be read.
    #[error("{reason}; the points are left out")]
    PointsUnreadable {
        /// Message of the reader.
        reason: String,
    },
    /// Images have an EXIF orientation.
    #[error(
        "{}: EXIF orientation: {} {} (the first: {name}, orientation {orientation})",
        folder.display(), counted(*count, "picture"), applied.described()
    )]
    Orientation {
        /// The folder with the images.
        folder: PathBuf,
        /// Number of images.
        count: usize,
        /// Name of the first one.
        name: String,
        /// Its orientation as EXIF defines it, 2..=8.
        orientation: u8,
        /// What is done with it.
        applied: OrientationUse,
    },
    /// Frames are in neither half of the dataset's own split.
    #[error(
        "{}: not using {} in neither the training nor the test list",
        path.display(), counted(*count, "frame")
    )]
    UnusedFrames {
        /// The JSON file with the frames.
        path: PathBuf,
        /// Number of frames.
        count: usize,
    },
    /// A split list contains names that no frame has.
    #[error("{}: {list}: no frame for {} (the first: {name})", path.display(), counted(*count, "name"))]
    UnknownSplitNames {
        /// The JSON file with the list.
        path: PathBuf,
        /// Name of the list.
        list: &'static str,
        /// Number of names.
        count: usize,
        /// The first name.
        name: String,
    },
    /// Masks have another size than their images.
    #[error(
        "{}: mask resized from {}x{} to the picture's {}x{} px{}",
        path.display(), found[0], found[1], picture[0], picture[1], if *count > 1 { format!(", and {} more", count - 1) } else { String::new() }
    )]
    MaskResized {
        /// The first mask.
        path: PathBuf,
        /// Number of masks.
        count: usize,
        /// Width and height of the first mask, px.
        found: [u32; 2],
        /// Size of its image.
        picture: [u32; 2],
    },
    /// There are few training images.
    #[error("{}: only {} to train on; expect little", path.display(), counted(*count, "picture"))]
    FewImages {
        /// Model or JSON file.
        path: PathBuf,
        /// Number of training images.
        count: usize,
    },
    /// All cameras have the same position.
    #[error(
        "{}: all cameras are at one place; depth cannot be learned (scene extent set to {})",
        path.display(), short_numbers(&format!("{extent:.6}"))
    )]
    CoincidentCameras {
        /// Model or JSON file.
        path: PathBuf,
        /// Scene extent that is used.
        extent: f64,
    },
}

/// What is done with the EXIF orientation of images.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OrientationUse {
    /// The view is turned: pixels and pose together.
    View,
    /// The pixels are turned, because the camera fits only so.
    Pixels,
    /// None: the images are panoramas.
    Ignored,
}

impl OrientationUse {
    fn described(self) -> &'static str {
        match self {
            Self::View => "turned upright, each with its camera: poses belong to the stored pixels",
            Self::Pixels => "turned upright: cameras and poses belong to the upright pictures",
            Self::Ignored => "not turned: poses of panoramas belong to the stored pixels",
        }
    }
}

/// `1 picture`, `2 pictures`.
fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// `a, b, c … and 14 more`.
fn quoted_names(count: usize, names: &[String]) -> String {
    let shown = names.len().min(QUOTED_NAMES);
    let mut line = names[..shown].join(", ");
    if count > shown {
        line += &format!(" … and {} more", count - shown);
    }
    line
}

/// A name without its extension.
fn name_stem(name: &str) -> &str {
    name.rsplit_once('.').map_or(name, |(stem, _)| stem)
}
