//! Cameras to render from: those of a dataset, an orbit around its scene, a camera path from a file.

use std::path::{Path, PathBuf};

use gausset_core::se3::Mat3;
use gausset_core::{Camera, Pose};
use gausset_io::dataset::Dataset;

use crate::words::Split;

/// A camera with a name for its picture.
#[derive(Clone, Debug, PartialEq)]
pub struct NamedCamera {
    /// Name, without extension.
    pub name: String,
    /// Intrinsics.
    pub camera: Camera,
    /// `camera_from_world`, in the axes of the saved splats.
    pub pose: Pose,
}

/// Why a camera path cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CameraPathError {
    /// It could not be read.
    #[error("{}: read: {}", path.display(), gausset_io::atomic::plain_reason(source))]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: std::io::Error,
    },
    /// It does not hold cameras.
    #[error("{}: {place}: {what}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// Line or field.
        place: String,
        /// What is wrong, with what was expected and found.
        what: String,
    },
}

/// The cameras of a dataset's split, turned like the saved splats.
#[must_use]
pub fn of_dataset(dataset: &Dataset, split: Split, splats_from_dataset: &Mat3) -> Vec<NamedCamera> {
    let _ = (dataset, split, splats_from_dataset);
    Vec::new()
}

/// `frames` cameras on a circle around the point that the training cameras look at, at their mean distance and
/// height, with the intrinsics of the first.
#[must_use]
pub fn orbit(dataset: &Dataset, frames: usize, splats_from_dataset: &Mat3) -> Vec<NamedCamera> {
    let _ = (dataset, frames, splats_from_dataset);
    Vec::new()
}

/// Cameras of a file: a Nerfstudio camera path or a `transforms.json`, in the axes of the saved splats.
///
/// # Errors
/// A file that is neither, or has a camera or pose that is none.
pub fn read_path(path: &Path) -> Result<Vec<NamedCamera>, CameraPathError> {
    let _ = path;
    Ok(Vec::new())
}
