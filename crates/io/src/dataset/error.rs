//! Everything that can be wrong with a dataset, as values with a place and a line.
//!
//! Each displays as one line `FILE: PLACE: what is wrong (expected …, found …); what to do`. What costs a single
//! picture, or nothing, is in [`super::report`].

use std::path::{Path, PathBuf};

use super::camera_model::{CameraModel, CameraModelError};
use super::limits::{MAX_JSON_DEPTH, MAX_NAME_BYTES};
use super::report::Skipped;
use crate::splat::Format;
use crate::units::short_numbers;

/// Why a dataset cannot be used at all.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum DatasetError {
    /// Neither a COLMAP model nor a `transforms.json`.
    #[error(
        "{}: dataset: nothing to train on (expected a COLMAP model in sparse/0 or a transforms.json, \
         found {}); {}",
        path.display(),
        splats.map_or("neither".to_owned(), |format| format!("splats, {}", format.row().title)),
        if splats.is_some() {
            "see them with `gausset view`, start from them with ⟨init⟩"
        } else {
            "name the folder that holds one"
        }
    )]
    NotADataset {
        /// The path that was given.
        path: PathBuf,
        /// What it is, if it is splats.
        splats: Option<Format>,
    },
    /// A call to the system failed.
    #[error("{}: {action}: {reason}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What was being done.
        action: &'static str,
        /// The system's answer in plain words.
        reason: String,
    },
    /// A file of a COLMAP model is not there.
    #[error("{}: model: {file} is missing (expected beside {beside}); copy the whole model", folder.display())]
    MissingModelFile {
        /// Folder of the model.
        folder: PathBuf,
        /// The file.
        file: &'static str,
        /// A file of the model that is there.
        beside: &'static str,
    },
    /// There is no picture folder.
    #[error(
        "{}: images: no such folder (expected the pictures of the dataset); name it with ⟨images⟩",
        path.display()
    )]
    NoImageFolder {
        /// The folder looked for.
        path: PathBuf,
    },
    /// A model or JSON file holds something that cannot be right.
    #[error("{}: {place}: {problem}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// Where in it: `record 17`, `line 4`, `frames[17].transform_matrix`.
        place: String,
        /// What is wrong.
        problem: Box<Problem>,
    },
    /// A camera model for which there is no way to train yet.
    #[error(
        "{}: camera {camera}: {} cannot be trained on in this shape (expected a panorama twice \
         as wide as high); check the camera's size",
        path.display(), model.name()
    )]
    Untrainable {
        /// The file that names the model.
        path: PathBuf,
        /// Camera id.
        camera: u32,
        /// Its model.
        model: CameraModel,
    },
    /// There are more points than fit into the memory.
    #[error(
        "{}: points: too many for the memory (expected at most {possible} in {}, found {found} or more); thin them \
         out or raise ⟨max-memory⟩",
        path.display(), crate::units::bytes(*limit)
    )]
    TooManyPoints {
        /// The file.
        path: PathBuf,
        /// Points found, as far as it was looked.
        found: u64,
        /// Points that fit.
        possible: u64,
        /// Bytes that they may take.
        limit: u64,
    },
    /// No picture is left.
    #[error(
        "{}: images: none of the {listed} listed can be used{}",
        path.display(), first_of(first.as_deref())
    )]
    NoImages {
        /// Model or JSON file.
        path: PathBuf,
        /// Pictures that it lists.
        listed: usize,
        /// The first that was left out, with its reason.
        first: Option<Box<Skipped>>,
    },
    /// More than a tenth of the pictures cannot be read.
    #[error(
        "{}: images: {unreadable} of {present} cannot be read (expected at most a tenth){}; repair or \
         remove them",
        folder.display(), first_of(Some(first.as_ref()))
    )]
    TooManyUnreadable {
        /// Picture folder.
        folder: PathBuf,
        /// Pictures that cannot be read.
        unreadable: usize,
        /// Pictures on disk.
        present: usize,
        /// The first of them, with its reason.
        first: Box<Skipped>,
    },
    /// Every usable picture is held out.
    #[error(
        "{}: images: all {images} are held out for evaluation (expected some to train on); use a larger \
         ⟨test-every⟩, or 0",
        path.display()
    )]
    NothingToTrainOn {
        /// Model or JSON file.
        path: PathBuf,
        /// Usable pictures.
        images: usize,
    },
}

impl DatasetError {
    pub(crate) fn io(path: &Path, action: &'static str, error: &std::io::Error) -> Self {
        Self::Io { path: path.to_owned(), action, reason: crate::atomic::plain_reason(error) }
    }

    pub(crate) fn malformed(path: &Path, place: impl Into<String>, problem: Problem) -> Self {
        Self::Malformed { path: path.to_owned(), place: place.into(), problem: Box::new(problem) }
    }
}

fn first_of(skipped: Option<&Skipped>) -> String {
    skipped.map_or_else(String::new, |s| format!("; the first: {s}"))
}

/// What is wrong at a place of a model or JSON file.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Problem {
    /// The file ends inside a record.
    #[error("the file ends too early (expected {needed} more bytes, found {left}); copy it again")]
    Truncated {
        /// Bytes that the record still needs.
        needed: u64,
        /// Bytes that there are.
        left: u64,
    },
    /// A count that the rest of the file cannot hold.
    #[error(
        "count of {what} is {found} (expected at most {possible} in the {left} bytes that follow); copy the file again"
    )]
    Count {
        /// What is counted.
        what: &'static str,
        /// Count found.
        found: u64,
        /// Largest count for the bytes that follow.
        possible: u64,
        /// Bytes that follow.
        left: u64,
    },
    /// More of something than is accepted.
    #[error("{found} {what} are too many (expected at most {limit}); make a smaller dataset of it")]
    Limit {
        /// What is counted.
        what: &'static str,
        /// Count found.
        found: u64,
        /// Largest count accepted.
        limit: u64,
    },
    /// Bytes after the last record.
    #[error(
        "{bytes} bytes follow the last record (expected none); the count at the start is too small or the file is of another program"
    )]
    Trailing {
        /// Number of bytes.
        bytes: u64,
    },
    /// A camera model id that nobody knows.
    #[error("camera model id is {id} (expected 0..17)")]
    UnknownModelId {
        /// Id found.
        id: i32,
    },
    /// A camera model name that nobody knows.
    #[error("camera model `{name}` is not known (expected a COLMAP model, for example OPENCV)")]
    UnknownModelName {
        /// Name found.
        name: String,
    },
    /// Parameters that are not a camera.
    #[error("{}", short_numbers(&.0.to_string()))]
    Camera(#[from] CameraModelError),
    /// A name without its closing zero byte.
    #[error("name has no end (expected a zero byte within {limit} bytes)", limit = MAX_NAME_BYTES)]
    NameWithoutEnd,
    /// A name longer than accepted.
    #[error("name has {bytes} bytes (expected 1..{limit})", limit = MAX_NAME_BYTES)]
    NameLength {
        /// Length found.
        bytes: usize,
    },
    /// A name that is not UTF-8.
    #[error("name `{name}` is not UTF-8; rename the picture")]
    NameEncoding {
        /// The name with its strange bytes replaced.
        name: String,
    },
    /// An id that occurs twice.
    #[error("{what} id {id} occurs twice (expected each once)")]
    DuplicateId {
        /// Kind of id.
        what: &'static str,
        /// The id.
        id: u64,
    },
    /// An image that names a camera which is not there.
    #[error("camera id {id} is not in {file} (has {known})")]
    UnknownCamera {
        /// Camera id found.
        id: u32,
        /// File of the cameras.
        file: &'static str,
        /// Ids that there are, for people.
        known: String,
    },
    /// A line with too few fields.
    #[error("line has {found} fields (expected {expected})")]
    Fields {
        /// Fields expected, for people: `10: IMAGE_ID QW …`.
        expected: &'static str,
        /// Fields found.
        found: usize,
    },
    /// A field that is not the number it should be.
    #[error("{field} is `{found}` (expected {expected})")]
    Number {
        /// Name of the field.
        field: &'static str,
        /// Text found.
        found: String,
        /// Kind of number.
        expected: &'static str,
    },
    /// A line that is not text.
    #[error("line is not UTF-8 text; is it a binary file under a wrong name?")]
    NotText,
    /// The file is larger than accepted.
    #[error("file has {} (expected at most {})", crate::units::bytes(*found), crate::units::bytes(*limit))]
    FileSize {
        /// Length found.
        found: u64,
        /// Largest length accepted.
        limit: u64,
    },
    /// JSON nested too deeply.
    #[error("nested deeper than {limit} levels", limit = MAX_JSON_DEPTH)]
    TooDeep,
    /// Not JSON, or not the JSON expected here; the text names line and column.
    #[error("{0}")]
    Json(String),
    /// A value that is missing.
    #[error("{0} is missing")]
    MissingValue(&'static str),
    /// A value out of its range.
    #[error("{name} is {} (expected {expected})", short_numbers(&found.to_string()))]
    Value {
        /// Name of the value.
        name: &'static str,
        /// Value found.
        found: f64,
        /// Values allowed.
        expected: &'static str,
    },
    /// A JSON file without frames.
    #[error("no frames (expected at least 1)")]
    NoFrames,
}
