//! Reads `poses.json`, the result of an alignment.

use std::path::{Path, PathBuf};

use crate::source::json::{self, JsonError};
use crate::sphere::aligned::AlignedPoses;

/// Maximum size of `poses.json`, bytes.
const MAX_POSES_BYTES: u64 = 256 << 20;

impl AlignedPoses {
    /// Reads `poses.json`.
    ///
    /// # Errors
    /// It cannot be read, or a pose, `earth` or `applied` is invalid.
    pub fn read(path: &Path) -> Result<Self, AlignedPosesError> {
        let found: Self = json::read_json(path, MAX_POSES_BYTES, "the result of `gausset pano align`")?;
        if let Some(bad) = found.frames.iter().find(|f| f.rotation.is_some() && f.pose().is_none()) {
            return Err(AlignedPosesError::Pose { path: path.to_owned(), frame: bad.name.clone() });
        }
        let world = |place| Err(AlignedPosesError::Georeference { path: path.to_owned(), place });
        match &found {
            Self { earth: Some(earth), .. } if !earth.is_valid() => world("earth"),
            Self { applied: Some(applied), .. } if !applied.is_similarity() => world("applied"),
            _ => Ok(found),
        }
    }
}

/// Why poses cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum AlignedPosesError {
    /// The file cannot be read or parsed.
    #[error(transparent)]
    File(#[from] JsonError),
    /// `earth` or `applied` is invalid.
    #[error("{}: {place}: is not a valid rotation, position and scale", path.display())]
    Georeference {
        /// The file.
        path: PathBuf,
        /// `earth` or `applied`.
        place: &'static str,
    },
    /// The pose of a frame is invalid.
    #[error("{}: frames: {frame:?}: pose is not finite or not a rotation", path.display())]
    Pose {
        /// The file.
        path: PathBuf,
        /// Name of the frame.
        frame: String,
    },
}
