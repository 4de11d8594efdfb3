//! Polycam's raw data: one JSON per keyframe in `keyframes/corrected_cameras` or `keyframes/cameras`.
//!
//! ```text
//! t_00 .. t_23   world_from_camera, rows of a 3x4 matrix; camera x right, y up, z backwards; world y up
//! fx fy cx cy width height   px, no distortion
//! ```
//! Source: Nerfstudio (`process_data/polycam_utils.py`), Polycam's developer page.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::json::{self, Number};
use super::lens::{Distortion, ExportLens, LensUnit, perspective};
use super::{ExportError, ExportFrame, pose_from_opengl, recognise};
use crate::dataset::DatasetKind;
use crate::file_problem::FileProblem;
use crate::input;

/// Largest number of files by which a folder of keyframes is recognised: the first may be broken.
const MAX_KEYFRAMES_LOOKED_AT: usize = 20;

#[derive(Deserialize)]
#[serde(untagged)]
enum Value {
    Number(Number),
    Other(IgnoredAny),
}

/// Parses the camera of the picture `name`.
///
/// # Errors
/// Not JSON, or values are missing.
pub fn parse(bytes: &[u8], name: &str) -> Result<ExportFrame, FileProblem> {
    let file: BTreeMap<String, Value> = json::parse(bytes)?;
    let value = |key: &str| match file.get(key) {
        Some(Value::Number(number)) => Ok(*number),
        Some(Value::Other(_)) => Err(FileProblem::new(key, "is not a number")),
        None => Err(FileProblem::new(key, "is missing (expected the camera of a Polycam keyframe)")),
    };
    let row = |i: u32| -> Result<[f64; 4], FileProblem> {
        let at = |j: u32| value(&format!("t_{i}{j}")).map(|number| number.0);
        Ok([at(0)?, at(1)?, at(2)?, at(3)?])
    };
    let [a, b, c] = [row(0)?, row(1)?, row(2)?];
    let rotation = [a, b, c].map(|[x, y, z, _]| [x, y, z]);
    let pose = pose_from_opengl(rotation, [a[3], b[3], c[3]]).map_err(Into::into);
    let focal = [value("fx")?.0, value("fy")?.0];
    let centre = [value("cx")?.0, value("cy")?.0];
    let size = json::size(value("width")?, value("height")?);
    let lens = size.map_err(ExportError::from).and_then(|size| {
        let (model, params) = perspective(focal, centre, Distortion::default())?;
        Ok(ExportLens { model, size: Some(size), unit: LensUnit::Pixel, params })
    });
    Ok(ExportFrame { name: name.to_owned(), pose, lens: Arc::new(lens) })
}

/// The first camera that is recognised of a raw data folder or of its `keyframes`; corrected ones are preferred where they have pictures.
pub(super) fn keyframes(folder: &Path) -> Option<PathBuf> {
    [folder.join("keyframes"), folder.to_owned()].iter().find_map(|base| {
        let has_corrected = base.join("corrected_images").is_dir();
        let corrected = has_corrected.then(|| base.join("corrected_cameras"));
        let some = |cameras: PathBuf| Some(cameras_in(&cameras)).filter(|files| !files.is_empty());
        let files = corrected.and_then(some).or_else(|| some(base.join("cameras")))?;
        let is_keyframe = |file: &PathBuf| recognise(file) == Some(DatasetKind::Polycam);
        files.into_iter().take(MAX_KEYFRAMES_LOOKED_AT).find(is_keyframe)
    })
}

/// The JSON files of a folder, sorted by name.
pub(super) fn cameras_in(folder: &Path) -> Vec<PathBuf> {
    let paths = input::read_dir(folder).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path()));
    let mut files: Vec<PathBuf> =
        paths.filter(|path| path.extension().is_some_and(|e| e == "json")).collect();
    files.sort();
    files
}

/// The pictures of a folder of cameras: `corrected_images` beside `corrected_cameras`.
pub(super) fn images_beside(cameras: &Path) -> Option<PathBuf> {
    let name = cameras.file_name()?.to_str()?.replace("cameras", "images");
    Some(cameras.parent()?.join(name))
}
