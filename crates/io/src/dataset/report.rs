//! What happened to single pictures, and what a person should know: values that display as one line each.
//!
//! A [`SkipReason`] costs one picture, a [`Warning`] nothing; what ends the work is a [`super::DatasetError`].

use std::path::PathBuf;

use gausset_core::camera::CameraError;
use gausset_core::pose::PoseError;

use super::camera_model::CameraModel;
use super::limits::MAX_DISTANCE;
use crate::image::ImageProblem;
use crate::units::short_numbers;

/// Names quoted in a line that stands for many pictures.
const QUOTED_NAMES: usize = 3;

/// A picture that was left out.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{name}: {reason}")]
pub struct Skipped {
    /// Name as in the dataset.
    pub name: String,
    /// Why.
    pub reason: SkipReason,
}

/// Why a picture was left out.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SkipReason {
    /// Listed, but there is no such file.
    #[error("picture: no such file")]
    Missing,
    /// The name leads out of the picture folder.
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
    /// The camera is so far away that nothing can be computed in single precision.
    #[error("pose: camera is {0:e} units from the origin (expected at most {MAX_DISTANCE:e})")]
    TooFar(f64),
    /// Another picture is the same file: under the same name, in another spelling, or through a link.
    #[error("name: is the same file as {of} (expected each picture once)")]
    SameFile {
        /// The picture that stays.
        of: String,
    },
    /// The file cannot be read as a picture.
    #[error("{0}")]
    Unreadable(ImageProblem),
    /// Picture and camera have different shapes.
    #[error(
        "size: {}x{} px does not fit its camera of {}x{} px (expected one ratio for both sides){}",
        found[0], found[1], camera[0], camera[1], if *turned { "; it would fit turned by a quarter: was it rotated after the cameras were found?" } else { "" }
    )]
    Size {
        /// Size of the picture.
        found: [u32; 2],
        /// Size that the camera was made for.
        camera: [u32; 2],
        /// Whether the sides fit when swapped.
        turned: bool,
    },
    /// The intrinsics do not make a camera at the picture's size.
    #[error("camera: {}", short_numbers(&.0.to_string()))]
    Camera(#[from] CameraError),
    /// The camera's model cannot be trained on.
    #[error("camera: {} cannot be trained on in this shape (expected a panorama twice as wide as high)", .0.name())]
    Untrainable(CameraModel),
    /// The mask cannot be read.
    #[error("mask {}: {problem}", path.display())]
    Mask {
        /// The mask.
        path: PathBuf,
        /// What is wrong with it.
        problem: ImageProblem,
    },
    /// The mask that the dataset names is not there.
    #[error("mask {}: {}", path.display(), reason)]
    NoMask {
        /// Where it should be.
        path: PathBuf,
        /// Why it cannot be had.
        reason: String,
    },
    /// The mask ignores every pixel.
    #[error("mask {}: ignores every pixel (expected some above 0)", path.display())]
    EmptyMask {
        /// The mask.
        path: PathBuf,
    },
    /// Nothing to train on though there is no mask file: the alpha channel, or a lens that sees nothing.
    #[error("picture: no pixel is left after undistortion and alpha channel (expected some)")]
    NoPixels,
}

impl SkipReason {
    /// The reason without the word that says what a picture's line is about: for files that are none.
    pub(super) fn of_other_file(&self) -> String {
        let reason = self.to_string();
        let words = ["picture: ", "name: "].iter().find_map(|word| reason.strip_prefix(word));
        words.unwrap_or(&reason).to_owned()
    }

    /// Whether the picture is there but cannot be read: a tenth of those at most is accepted.
    #[must_use]
    pub fn is_unreadable(&self) -> bool {
        matches!(self, Self::Unreadable(_) | Self::Mask { .. } | Self::NoMask { .. })
    }
}

/// Something a person should know though the dataset is usable.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Warning {
    /// Listed but absent files.
    #[error(
        "{}: missing {count} of {listed} listed pictures: {}{}",
        folder.display(), quoted(*count, names), case_hint(hint.as_ref())
    )]
    MissingFiles {
        /// Picture folder.
        folder: PathBuf,
        /// How many.
        count: usize,
        /// Pictures listed.
        listed: usize,
        /// The first names.
        names: Vec<String>,
        /// A file whose name differs from the first missing one in case only.
        hint: Option<String>,
    },
    /// Pictures that are listed more than once.
    #[error(
        "{}: {} to a file that is listed already (the first: {name}{}); each picture counts once, held out \
         if one of its names is",
        folder.display(), if *count == 1 { "1 name leads".to_owned() } else { format!("{count} names lead") },
        if name == of { String::new() } else { format!(" is {of}") }
    )]
    ListedTwice {
        /// Picture folder.
        folder: PathBuf,
        /// How many.
        count: usize,
        /// The first that was left out.
        name: String,
        /// The picture that it is.
        of: String,
    },
    /// Pictures of another size than their cameras.
    #[error(
        "{}: intrinsics rescaled for {} of another size than the camera (the first: {name}, {}x{} for \
         {}x{} px)",
        folder.display(), many(*count, "picture"), found[0], found[1], camera[0], camera[1]
    )]
    Rescaled {
        /// Picture folder.
        folder: PathBuf,
        /// How many.
        count: usize,
        /// The first.
        name: String,
        /// Its size.
        found: [u32; 2],
        /// Size of its camera.
        camera: [u32; 2],
    },
    /// Several models side by side.
    #[error("{}: {count} models; using {chosen} with the most images ({images})", folder.display())]
    SeveralModels {
        /// Their folder.
        folder: PathBuf,
        /// How many.
        count: usize,
        /// Name of the one used.
        chosen: String,
        /// Its images.
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
        /// The model.
        model: PathBuf,
    },
    /// The picture folder has another name than `images`.
    #[error("{}: no folder `images`; using {}", root.display(), used.display())]
    OtherImageFolder {
        /// Folder of the dataset.
        root: PathBuf,
        /// Folder used.
        used: PathBuf,
    },
    /// No points.
    #[error("{}: no points; training starts from random splats", path.display())]
    NoPoints {
        /// The file that has or should have them.
        path: PathBuf,
    },
    /// Points that are not finite.
    #[error("{}: dropped {} with coordinates that are not finite", path.display(), many(*count, "point"))]
    PointsDropped {
        /// The file.
        path: PathBuf,
        /// How many.
        count: usize,
    },
    /// The frames of camera rigs cannot be read.
    #[error("{reason}; pictures count as taken one by one")]
    FramesUnreadable {
        /// Line of the reader.
        reason: String,
    },
    /// The points of a `transforms.json` cannot be read.
    #[error("{reason}; the points are left out")]
    PointsUnreadable {
        /// Line of the reader.
        reason: String,
    },
    /// Pictures that viewers show rotated.
    #[error(
        "{}: EXIF orientation ignored in {}, because poses belong to the stored pixels (the first: \
         {name}, orientation {orientation})",
        folder.display(), many(*count, "picture")
    )]
    Orientation {
        /// Picture folder.
        folder: PathBuf,
        /// How many.
        count: usize,
        /// The first.
        name: String,
        /// Its orientation.
        orientation: u8,
    },
    /// Frames in neither half of the dataset's own split.
    #[error(
        "{}: not using {} in neither the training nor the test list",
        path.display(), many(*count, "frame")
    )]
    UnusedFrames {
        /// JSON file.
        path: PathBuf,
        /// How many.
        count: usize,
    },
    /// Names in a split list that no frame has.
    #[error("{}: {list}: no frame for {} (the first: {name})", path.display(), many(*count, "name"))]
    UnknownSplitNames {
        /// JSON file.
        path: PathBuf,
        /// Name of the list.
        list: &'static str,
        /// How many.
        count: usize,
        /// The first.
        name: String,
    },
    /// Masks of another size than their picture.
    #[error(
        "{}: mask resized from {}x{} to the picture's {}x{} px{}",
        path.display(), found[0], found[1], picture[0], picture[1], if *count > 1 { format!(", and {} more", count - 1) } else { String::new() }
    )]
    MaskResized {
        /// The first mask.
        path: PathBuf,
        /// How many.
        count: usize,
        /// Its size.
        found: [u32; 2],
        /// Size of its picture.
        picture: [u32; 2],
    },
    /// Few cameras.
    #[error("{}: only {} to train on; expect little", path.display(), many(*count, "picture"))]
    FewImages {
        /// Model or JSON file.
        path: PathBuf,
        /// How many.
        count: usize,
    },
    /// All cameras in one place.
    #[error(
        "{}: all cameras are at one place; depth cannot be learned (scene extent set to {})",
        path.display(), short_numbers(&format!("{extent:.6}"))
    )]
    CoincidentCameras {
        /// Model or JSON file.
        path: PathBuf,
        /// Extent used.
        extent: f64,
    },
}

/// `1 picture`, `2 pictures`.
fn many(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// `a, b, c … and 14 more`.
fn quoted(count: usize, names: &[String]) -> String {
    let shown = names.len().min(QUOTED_NAMES);
    let mut line = names[..shown].join(", ");
    if count > shown {
        line += &format!(" … and {} more", count - shown);
    }
    line
}

fn case_hint(hint: Option<&String>) -> String {
    hint.map_or_else(String::new, |name| format!(" ({name} is there: names differ in case only)"))
}
