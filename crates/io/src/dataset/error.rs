//! Errors of datasets, with their position in a file and a one-line message.
//!
//! Each displays as one line `FILE: PLACE: problem (expected …, found …); what to do`. Problems of a single image, and
//! warnings, are in [`super::warning`].

use std::cmp::Reverse;
use std::path::{Path, PathBuf};

use super::camera_model::{CameraModel, CameraModelError};
use super::limits::{MAX_JSON_DEPTH, MAX_NAME_BYTES};
use super::similar::NameIndex;
use super::warning::SkippedImage;
use crate::image::formats::{format_of_ending, left_out_line};
use crate::splat::Format;
use crate::text::{excerpt, lfs_pointer_problem, short_numbers};

/// Why a dataset cannot be used.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum DatasetError {
    /// The path has neither a COLMAP model nor a `transforms.json`.
    #[error(
        "{}: dataset: nothing to train on (expected a COLMAP model in sparse/0 or a transforms.json, \
         found {}); {}",
        path.display(),
        splats.map_or("neither".to_owned(), |format| format!("splats, {}", format.row().title)),
        match deeper.as_slice() {
            _ if splats.is_some() => "see them with `gausset view`, start from them with ⟨init⟩".to_owned(),
            [] => "name the folder that holds one".to_owned(),
            [one] => format!("name the folder that holds one: {}", one.display()),
            [first, second, ..] => {
                format!("name the folder that holds one, for example {} or {}", first.display(), second.display())
            }
        }
    )]
    NotADataset {
        /// The path as given.
        path: PathBuf,
        /// The format, if the file contains splats.
        splats: Option<Format>,
        /// Folders in it that hold one, at most two.
        deeper: Vec<PathBuf>,
    },
    /// The cameras are in a format that is not read.
    #[error(
        "{}: cameras: the format of {program} is not read (expected a COLMAP model or another format that is); {instead}, or \
         let `gausset run` align the pictures", path.display()
    )]
    UnreadFormat {
        /// The file with the cameras.
        path: PathBuf,
        /// Name of the program or format.
        program: &'static str,
        /// What to export instead.
        instead: &'static str,
    },
    /// A system call failed.
    #[error("{}: {action}: {reason}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The attempted action.
        action: &'static str,
        /// Error message of the system.
        reason: String,
    },
    /// A folder has the cameras of two programs.
    #[error(
        "{}: cameras: {} of {} and {} of {} (expected those of one program); name one of the files",
        folder.display(), below(first, folder), programs[0], below(second, folder), programs[1]
    )]
    SeveralExports {
        /// Folder of the dataset.
        folder: PathBuf,
        /// A camera file.
        first: PathBuf,
        /// Another camera file.
        second: PathBuf,
        /// Names of the programs that wrote them.
        programs: [&'static str; 2],
    },
    /// A file of a COLMAP model is missing.
    #[error("{}: model: {file} is missing (expected beside {beside}); copy the whole model", folder.display())]
    MissingModelFile {
        /// Folder of the model.
        folder: PathBuf,
        /// The missing file.
        file: &'static str,
        /// Another file of the model, which exists.
        beside: &'static str,
    },
    /// The image folder does not exist.
    #[error(
        "{}: images: no such folder (expected the pictures of the dataset); name it with ⟨images⟩",
        path.display()
    )]
    NoImageFolder {
        /// The expected folder.
        path: PathBuf,
    },
    /// A model or JSON file contains invalid data.
    #[error("{}: {place}: {problem}", path.display())]
    Malformed {
        /// The model or JSON file.
        path: PathBuf,
        /// Position in the file: `record 17`, `line 4`, `frames[17].transform_matrix`.
        place: String,
        /// What is wrong at this place.
        problem: Box<DatasetProblem>,
    },
    /// Training does not support the camera model.
    #[error(
        "{}: camera {camera}: {} cannot be trained on in this shape (expected a panorama twice \
         as wide as high); check the camera's size",
        path.display(), model.name()
    )]
    Untrainable {
        /// The camera file.
        path: PathBuf,
        /// Id of the camera in the file.
        camera: u32,
        /// Its camera model.
        model: CameraModel,
    },
    /// The points exceed the memory limit.
    #[error(
        "{}: points: too many for the memory (expected at most {possible} in {}, found {found} or more); thin them \
         out or raise ⟨max-memory⟩",
        path.display(), crate::text::format_bytes(*limit)
    )]
    TooManyPoints {
        /// The file with the points.
        path: PathBuf,
        /// Number of points found before reading stopped.
        found: u64,
        /// Number of points that fit.
        possible: u64,
        /// Memory limit, bytes.
        limit: u64,
    },
    /// No usable image remains.
    #[error(
        "{}: images: none of the {listed} listed can be used{}{}",
        path.display(), first_suffix(first.as_deref()),
        there.as_ref().map_or_else(String::new, |there| format!("; {there}; name the folder of the pictures with ⟨images⟩"))
    )]
    NoImages {
        /// Model or JSON file.
        path: PathBuf,
        /// Number of images that it lists.
        listed: usize,
        /// The first skipped image, with its reason.
        first: Option<Box<SkippedImage>>,
        /// What the searched folder holds, if the first image is missing.
        there: Option<PicturesThere>,
    },
    /// More than a tenth of the images cannot be read.
    #[error(
        "{}: images: {unreadable} of {present} cannot be read (expected at most a tenth){}; repair or \
         remove them",
        folder.display(), first_suffix(Some(first.as_ref()))
    )]
    TooManyUnreadable {
        /// The folder with the images.
        folder: PathBuf,
        /// Number of unreadable images.
        unreadable: usize,
        /// Number of images on disk.
        present: usize,
        /// The first unreadable image, with its reason.
        first: Box<SkippedImage>,
    },
    /// All usable images are held out.
    #[error(
        "{}: images: {} held out for evaluation{} (expected some to train on); {}",
        path.display(),
        if *images == 1 { "the only one is".to_owned() } else { format!("all {images} are") },
        if *own_list { " by the list of the dataset itself" } else { "" },
        if *own_list { "take some off the list, or give more pictures" }
        else if *images == 1 { "give ⟨test-every⟩ 0, or more pictures" } else { "use a larger ⟨test-every⟩, or 0" }
    )]
    NothingToTrainOn {
        /// Model or JSON file.
        path: PathBuf,
        /// Number of usable images.
        images: usize,
        /// Whether the dataset itself holds them out, not an option.
        own_list: bool,
    },
}

impl DatasetError {
    pub(crate) fn io(path: &Path, action: &'static str, error: &std::io::Error) -> Self {
        Self::Io { path: path.to_owned(), action, reason: crate::atomic::plain_reason(error) }
    }

    pub(crate) fn malformed(path: &Path, place: impl Into<String>, problem: DatasetProblem) -> Self {
        Self::Malformed { path: path.to_owned(), place: place.into(), problem: Box::new(problem) }
    }
}

/// The pictures in a folder that was searched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PicturesThere {
    /// The folder.
    pub folder: PathBuf,
    /// Names of the first two, relative to it.
    pub names: Vec<String>,
    /// Number of all.
    pub count: usize,
    /// Those that are not read: how many of which extension, the two most frequent.
    pub unread: Vec<(String, usize)>,
}

impl PicturesThere {
    pub(super) fn new(folder: &Path, files: &NameIndex) -> Self {
        let names = files.names();
        let names = || names.iter().filter(|name| !name.to_ascii_lowercase().ends_with(".ply"));
        let first = names().take(2).map(|name| excerpt(name)).collect();
        let mut unread: Vec<(String, usize)> =
            files.unread().iter().map(|(ending, &count)| (ending.clone(), count)).collect();
        unread.sort_by_key(|(_, count)| Reverse(*count));
        unread.truncate(2);
        Self { folder: folder.to_owned(), names: first, count: names().count(), unread }
    }
}

impl std::fmt::Display for PicturesThere {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (folder, names) = (self.folder.display(), self.names.join(", "));
        match self.count - self.names.len() {
            _ if self.count == 0 && self.unread.is_empty() => write!(f, "{folder} holds no picture")?,
            _ if self.count == 0 => write!(f, "{folder} holds no picture that is read")?,
            0 => write!(f, "{folder} holds {names}")?,
            more => write!(f, "{folder} holds {names} and {more} more")?,
        }
        let mut lines = self
            .unread
            .iter()
            .filter_map(|(ending, count)| left_out_line(format_of_ending(ending)?, ending, *count));
        lines.try_for_each(|line| write!(f, "; {line}"))
    }
}

/// A path relative to the folder above it.
fn below(path: &Path, folder: &Path) -> String {
    path.strip_prefix(folder).unwrap_or(path).display().to_string()
}

fn first_suffix(skipped: Option<&SkippedImage>) -> String {
    skipped.map_or_else(String::new, |s| format!("; the first: {s}"))
}

/// Problem at a position of a model or JSON file.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum DatasetProblem {
    /// The file ends inside a record.
    #[error("the file ends too early (expected {needed} more bytes, found {left}); copy it again")]
    Truncated {
        /// Bytes that the record still needs.
        needed: u64,
        /// Bytes that remain.
        left: u64,
    },
    /// A count exceeds what the rest of the file can hold.
    #[error(
        "count of {what} is {found} (expected at most {possible} in the {left} bytes that follow); copy the file again"
    )]
    Count {
        /// Kind of record.
        what: &'static str,
        /// Count that the file states.
        found: u64,
        /// Largest count that fits into the remaining bytes.
        possible: u64,
        /// Bytes that remain.
        left: u64,
    },
    /// A count exceeds the limit of Gausset.
    #[error("{found} {what} are too many (expected at most {limit}); make a smaller dataset of it")]
    Limit {
        /// Kind of record.
        what: &'static str,
        /// Count that the file states.
        found: u64,
        /// Largest count that Gausset accepts.
        limit: u64,
    },
    /// The file was not downloaded: Git stores a pointer in its place.
    #[error("{}", lfs_pointer_problem("cameras and poses"))]
    LfsPointer,
    /// Bytes follow the last record.
    #[error(
        "{bytes} bytes follow the last record (expected none); the count at the start is too small or the file is of another program"
    )]
    Trailing {
        /// Number of bytes.
        bytes: u64,
    },
    /// Unknown camera model id.
    #[error("camera model id is {id} (expected 0..17)")]
    UnknownModelId {
        /// Id found, not in 0..=17.
        id: i32,
    },
    /// Unknown camera model name.
    #[error("camera model `{name}` is not known (expected a COLMAP model, for example OPENCV)")]
    UnknownModelName {
        /// Name found, which is none of [`CameraModel::name`].
        name: String,
    },
    /// The camera parameters are invalid.
    #[error("{}", short_numbers(&.0.to_string()))]
    Camera(#[from] CameraModelError),
    /// A name is not terminated by a zero byte.
    #[error("name has no end (expected a zero byte within {limit} bytes)", limit = MAX_NAME_BYTES)]
    NameWithoutEnd,
    /// A name is empty or too long.
    #[error("name has {bytes} bytes (expected 1..{limit})", limit = MAX_NAME_BYTES)]
    NameLength {
        /// Length found, bytes.
        bytes: usize,
    },
    /// A name is not UTF-8.
    #[error("name `{name}` is not UTF-8; rename the picture")]
    NameEncoding {
        /// The name with invalid bytes replaced.
        name: String,
    },
    /// An id is used twice.
    #[error("{what} id {id} occurs twice (expected each once)")]
    DuplicateId {
        /// Kind of id.
        what: &'static str,
        /// The id that occurs twice.
        id: u64,
    },
    /// An image refers to a missing camera.
    #[error("camera id {id} is not in {file} (has {known})")]
    UnknownCamera {
        /// Camera id found.
        id: u32,
        /// The camera file.
        file: &'static str,
        /// Existing ids, as text.
        known: String,
    },
    /// A line has too few fields.
    #[error("line has {found} fields (expected {expected})")]
    Fields {
        /// Expected fields, as text: `10: IMAGE_ID QW …`.
        expected: &'static str,
        /// Number of fields found, separated by white space.
        found: usize,
    },
    /// A field is not a number of the expected kind.
    #[error("{field} is `{found}` (expected {expected})")]
    Number {
        /// Name of the field.
        field: &'static str,
        /// Text of the field.
        found: String,
        /// Kind of number.
        expected: &'static str,
    },
    /// A line is not text.
    #[error("line is not UTF-8 text; is it a binary file under a wrong name?")]
    NotText,
    /// The file is too large.
    #[error("file has {} (expected at most {})", crate::text::format_bytes(*found), crate::text::format_bytes(*limit))]
    FileSize {
        /// Length of the file, bytes.
        found: u64,
        /// Largest length allowed.
        limit: u64,
    },
    /// The JSON is a list.
    #[error(
        "is a list (expected an object with `frames`, as in transforms.json); reconstruction.json of OpenSfM and \
         cameras.json of 3DGS are lists"
    )]
    JsonList,
    /// The JSON is nested too deeply.
    #[error("nested deeper than {limit} levels", limit = MAX_JSON_DEPTH)]
    TooDeep,
    /// Invalid JSON, or unexpected content; the message contains line and column.
    #[error("{0}")]
    Json(String),
    /// A problem in a camera file of another program.
    #[error("{0}")]
    Export(String),
    /// A required value is missing.
    #[error("{0} is missing")]
    MissingValue(&'static str),
    /// A value is out of range.
    #[error("{name} is {} (expected {expected})", short_numbers(&found.to_string()))]
    Value {
        /// Name of the value.
        name: &'static str,
        /// Value found, in the unit of the file.
        found: f64,
        /// Values allowed, as text.
        expected: &'static str,
    },
    /// The JSON file has no frames.
    #[error("no frames (expected at least 1)")]
    NoFrames,
}
