//! Recognises camera files of other programs, by name and content, in a folder and in the folders directly below it.

use std::io::Read;
use std::path::{Path, PathBuf};

use super::{bundler, decode_text, realitycapture};
use crate::dataset::{DatasetError, DatasetKind};
use crate::input;
use crate::ownership;
use crate::run_folder::RUN_MARKER;

/// Number of leading bytes by which a file is recognised.
const START_BYTES: u64 = 4096;
/// Largest number of sub-folders that are searched.
const MAX_FOLDERS: usize = 200;
/// Largest number of sidecars of which one must be RealityCapture's.
const MAX_SIDECARS: usize = 8;

/// A camera file, and the folder of the dataset.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::dataset) struct ExportSource {
    pub(super) root: PathBuf,
    pub(super) kind: DatasetKind,
    /// The file; the first of several for sidecars and keyframes.
    pub(super) file: PathBuf,
}

impl ExportSource {
    pub(in crate::dataset) fn new(root: &Path, kind: DatasetKind, file: &Path) -> Self {
        Self { root: root.to_owned(), kind, file: file.to_owned() }
    }
}

/// The program that wrote a camera file, by its name and first bytes; `None` for other files.
#[must_use]
pub fn recognise(file: &Path) -> Option<DatasetKind> {
    let name = file.file_name()?.to_str()?;
    let extension = file.extension()?.to_str()?.to_ascii_lowercase();
    if name == "poses_bounds.npy" {
        return file.is_file().then_some(DatasetKind::Llff);
    }
    if !["xml", "csv", "json", "out", "xmp"].contains(&&*extension) || !file.is_file() {
        return None;
    }
    let mut start = Vec::new();
    input::open(file, input::NO_LIMIT).ok()?.take(START_BYTES).read_to_end(&mut start).ok()?;
    let text = decode_text(&start);
    match &*extension {
        "xml" => (root_element(&text) == "document").then_some(DatasetKind::Metashape),
        "csv" => realitycapture::is_table(&start).then_some(DatasetKind::RealityCapture),
        "out" => text.trim_start().starts_with(bundler::MAGIC).then_some(DatasetKind::Bundler),
        "xmp" => text.contains(realitycapture::NAMESPACE).then_some(DatasetKind::RealityCapture),
        _ => recognise_json(&text),
    }
}

/// Name of the first element of an XML file.
fn root_element(text: &str) -> &str {
    let starts_element = |rest: &&str| rest.starts_with(|c: char| c.is_ascii_alphabetic());
    let rest = text.split('<').skip(1).find(starts_element).unwrap_or_default();
    rest.split(|c: char| c.is_ascii_whitespace() || c == '>' || c == '/').next().unwrap_or_default()
}

/// JSON files differ in their first keys.
fn recognise_json(text: &str) -> Option<DatasetKind> {
    let text = text.trim_start();
    if text.starts_with('{') {
        let has = |key: &str| text.contains(&format!("\"{key}\""));
        return if has("sfm_data_version") {
            Some(DatasetKind::OpenMvg)
        } else if has("t_00") && has("t_23") && has("fx") {
            Some(DatasetKind::Polycam)
        } else {
            None
        };
    }
    let first = text.strip_prefix('[')?.trim_start().strip_prefix('{')?.trim_start();
    let key = first.strip_prefix('"')?.split('"').next()?;
    let of_camera = ["id", "img_name", "width", "height", "position", "rotation", "fx", "fy"];
    let of_reconstruction = [
        "cameras",
        "shots",
        "points",
        "biases",
        "rig_cameras",
        "rig_instances",
        "reference_lla",
        "metadata",
        "reference",
        "gps_points",
        "pairs",
        "points_shots",
    ];
    match key {
        key if of_camera.contains(&key) => Some(DatasetKind::Inria),
        key if of_reconstruction.contains(&key) => Some(DatasetKind::OpenSfm),
        _ => None,
    }
}

/// The camera file of a dataset folder: in it, or directly below.
///
/// # Errors
/// There are two, of different programs or in one folder.
pub(in crate::dataset) fn find_in(root: &Path) -> Result<Option<ExportSource>, DatasetError> {
    // A run has the layout of the released 3DGS code, but is no dataset.
    if ownership::is_gausset_owned(root, RUN_MARKER) {
        return Ok(None);
    }
    let (mut found, folders) = candidates(root, root);
    // An undistorted copy below the folder of a program is its own.
    let above: Vec<DatasetKind> = found.iter().map(|source| source.kind).collect();
    for folder in folders.into_iter().filter(|folder| !ownership::is_gausset_owned(folder, RUN_MARKER)) {
        let (below, _) = candidates(root, &folder);
        found.extend(below.into_iter().filter(|source| !above.contains(&source.kind)));
    }
    match &found[..] {
        [first, second, ..] => Err(DatasetError::SeveralExports {
            folder: root.to_owned(),
            first: first.file.clone(),
            second: second.file.clone(),
            programs: [first.kind.program(), second.kind.program()],
        }),
        _ => Ok(found.pop()),
    }
}

/// Camera files in a folder, sorted by name, and its sub-folders.
fn candidates(root: &Path, folder: &Path) -> (Vec<ExportSource>, Vec<PathBuf>) {
    let Ok(entries) = input::read_dir(folder) else { return Default::default() };
    let mut paths: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.sort();
    let mut folders = Vec::new();
    let mut found = Vec::new();
    let mut sidecars = 0;
    for path in paths {
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else { continue };
        if name.starts_with('.') {
            continue;
        }
        let extension = path.extension().and_then(|e| e.to_str()).unwrap_or_default().to_ascii_lowercase();
        match &*extension {
            "xml" | "csv" | "out" | "npy" => {}
            "json"
                if ["reconstruction.json", "cameras.json"].contains(&name)
                    || name.starts_with("sfm_data") => {}
            "xmp" if sidecars < MAX_SIDECARS => sidecars += 1,
            _ => {
                if folders.len() < MAX_FOLDERS && path.is_dir() {
                    folders.push(path);
                }
                continue;
            }
        }
        if let Some(kind) = recognise(&path) {
            found.push(ExportSource::new(root, kind, &path));
            if extension == "xmp" {
                sidecars = MAX_SIDECARS;
            }
        }
    }
    found.extend(
        super::polycam::keyframes(folder).map(|file| ExportSource::new(root, DatasetKind::Polycam, &file)),
    );
    (found, folders)
}
