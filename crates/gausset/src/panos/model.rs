//! Reads and writes the sparse model of aligned panoramas.

use std::io::Write;
use std::path::Path;

use gausset_io::atomic::{Disk, FileSystem, plain_reason, write_atomic};
use gausset_io::dataset::colmap::{ColmapPoint, ModelFolder, ModelFormat, Observations};
use gausset_pano::export::{self, AlignedPoses};
use gausset_pano::landmarks::{self, Landmark};
use gausset_pano::split::SplitDescription;

use crate::{Failure, records};

/// Points of the model in an alignment folder; empty without a model.
///
/// # Errors
/// The model cannot be read.
pub fn points_of(folder: &Path) -> Result<Vec<ColmapPoint>, Failure> {
    match ModelFolder::find(&records::model_folder(folder))? {
        Some(model) => Ok(model.points(Observations::Skip)?),
        None => Ok(Vec::new()),
    }
}

/// Points of the model in an alignment folder, with their observations in the views.
///
/// # Errors
/// The model cannot be read.
pub fn observed_points(folder: &Path, description: &SplitDescription) -> Result<Vec<Landmark>, Failure> {
    match ModelFolder::find(&records::model_folder(folder))? {
        Some(model) => Ok(landmarks::from_model(model.read(Observations::Keep)?, description)),
        None => Ok(Vec::new()),
    }
}

/// Writes a COLMAP model of the views of aligned panoramas; its points have no observations.
///
/// # Errors
/// A file cannot be written.
pub fn write_colmap(
    folder: &Path,
    description: &SplitDescription,
    poses: &AlignedPoses,
    points: &[ColmapPoint],
    format: ModelFormat,
) -> Result<(), Failure> {
    let points: Vec<Landmark> = points.iter().cloned().map(Landmark::from).collect();
    let files = export::colmap_files(description, poses, &points, format);
    files.iter().try_for_each(|(name, bytes)| write(&folder.join(name), bytes))
}

/// Writes a file and creates its folder if needed.
///
/// # Errors
/// The file cannot be written.
pub fn write(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    if let Some(parent) = path.parent() {
        Disk.create_folder(parent).map_err(|e| {
            let reason = plain_reason(&e);
            Failure::new("write", format!("{}: folder: {reason}", parent.display()))
        })?;
    }
    Ok(write_atomic(&Disk, path, |file| file.write_all(bytes))?)
}
