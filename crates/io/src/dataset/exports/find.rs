//! Recognises camera files of other programs, by name and content, in a folder and in the folders directly below it.

use std::io::Read;
use std::path::{Path, PathBuf};

use super::open::MAX_BYTES;
use super::{bundler, decode_text, openmvg, parse_numbers, polycam, realitycapture};
use crate::dataset::error::DatasetProblem;
use crate::dataset::paths::{has_extension, is_named};
use crate::dataset::{DatasetError, DatasetKind};
use crate::input;
use crate::ownership;
use crate::run_folder::RUN_MARKER;
use crate::text::is_lfs_pointer;

/// Number of leading bytes by which a file is recognised.
const START_BYTES: u64 = 4096;
/// Number of leading bytes that must have the first frame of a JSON file.
const START_BYTES_OF_FRAMES: u64 = 1 << 16;
/// What OpenSfM writes beside its `reconstruction.json`, which is preferred.
const TOPOCENTRIC: &str = "reconstruction.topocentric.json";
/// Largest number of sub-folders that are searched.
const MAX_FOLDERS: usize = 200;
/// Largest number of sidecars of a folder of which one must be RealityCapture's.
const MAX_SIDECARS: usize = 1000;
/// Largest number of folders below a folder of a dataset that are searched for sidecars.
const MAX_SIDECAR_FOLDERS: usize = 1000;

/// A camera file, and the folder of the dataset.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::dataset) struct ExportSource {
    pub(super) root: PathBuf,
    pub(super) kind: DatasetKind,
    /// The file; the first of several for sidecars and keyframes.
    pub(super) file: PathBuf,
    /// Folder of the file; for sidecars the one whose sub-folders are read as well.
    pub(super) folder: PathBuf,
}

impl ExportSource {
    pub(in crate::dataset) fn new(root: &Path, kind: DatasetKind, file: &Path) -> Self {
        let folder = file.parent().unwrap_or(Path::new(""));
        Self { root: root.to_owned(), kind, file: file.to_owned(), folder: folder.to_owned() }
    }
}

/// The program that wrote a camera file, by its name and first bytes; `None` for other files.
#[must_use]
pub fn recognise(file: &Path) -> Option<DatasetKind> {
    let extension = file.extension()?.to_str()?.to_ascii_lowercase();
    if is_named(file, "poses_bounds.npy") {
        return file.is_file().then_some(DatasetKind::Llff);
    }
    if !["xml", "csv", "json", "out", "xmp"].contains(&&*extension) || !file.is_file() {
        return None;
    }
    let start = start_of(file, START_BYTES)?;
    let text = decode_text(&start);
    match &*extension {
        "xml" => (root_element(&text) == "document").then_some(DatasetKind::Metashape),
        "csv" => realitycapture::is_table(&start).then_some(DatasetKind::RealityCapture),
        "out" => text.trim_start().starts_with(bundler::MAGIC).then_some(DatasetKind::Bundler),
        "xmp" => text.contains(realitycapture::NAMESPACE).then_some(DatasetKind::RealityCapture),
        _ => recognise_json(&text),
    }
}

/// The first bytes of a file.
fn start_of(file: &Path, bytes: u64) -> Option<Vec<u8>> {
    let mut start = Vec::new();
    input::open(file, input::NO_LIMIT).ok()?.take(bytes).read_to_end(&mut start).ok()?;
    Some(start)
}

/// Whether the first text of a JSON file has frames with matrices, as a `transforms.json`.
pub(in crate::dataset) fn has_frames(file: &Path) -> bool {
    let start = if file.is_file() { start_of(file, START_BYTES_OF_FRAMES) } else { None };
    start.is_some_and(|start| {
        let text = decode_text(&start);
        ["\"frames\"", "\"transform_matrix\""].iter().all(|key| text.contains(key))
    })
}

/// Why the first file with cameras in a folder, or directly below, is not read.
pub(in crate::dataset) fn why_not_read_in(root: &Path) -> Option<DatasetError> {
    let (files, folders) = files_and_folders(root);
    let below = folders.iter().take(MAX_FOLDERS).map(|folder| files_and_folders(folder).0);
    std::iter::once(files.clone())
        .chain(below)
        .find_map(|files| files.iter().find_map(|file| why_not_read(file)))
}

/// Why a file with cameras is not read: it is of a program whose format is not known, or was not downloaded.
pub(in crate::dataset) fn why_not_read(file: &Path) -> Option<DatasetError> {
    let name = file.file_name()?.to_str()?.to_ascii_lowercase();
    let (_, extension) = name.rsplit_once('.')?;
    let is_known = match extension {
        "nvm" | "sfm" | "xml" | "csv" | "out" => true,
        "bin" => name.starts_with("sfm_data"),
        "json" => is_camera_json(&name),
        "npy" => name == "poses_bounds.npy",
        "txt" => ["trajectory", "groundtruth"].iter().any(|part| name.contains(part)),
        _ => false,
    };
    if !is_known || !file.is_file() {
        return None;
    }
    let start = start_of(file, START_BYTES)?;
    if is_lfs_pointer(&start) {
        return Some(DatasetError::malformed(file, "content", DatasetProblem::LfsPointer));
    }
    let text = decode_text(&start);
    let (program, instead) = match extension {
        "nvm" if text.trim_start().starts_with("NVM_V") => {
            ("VisualSFM", "save it as bundle.out, with list.txt beside it")
        }
        "sfm" if text.trim_start().starts_with('{') => ("Meshroom", "export it with the node ExportColmap"),
        "bin" => ("OpenMVG, binary,", "convert it to JSON with openMVG_main_ConvertSfM_DataFormat"),
        "csv" if realitycapture::is_geographic_table(&start) => (
            "RealityCapture, longitude and latitude,",
            "export Internal/External camera parameters in a local or projected coordinate system",
        ),
        "xml" if root_element(&text) == "BlocksExchange" => {
            ("ContextCapture, BlocksExchange,", "export the cameras for COLMAP")
        }
        "txt" if is_tum_trajectory(&text) => {
            ("TUM, poses without intrinsics,", "export a transforms.json or the cameras for COLMAP")
        }
        _ => return None,
    };
    Some(DatasetError::UnreadFormat { path: file.to_owned(), program, instead })
}

/// Whether the first line that is no comment has a time, a position and a quaternion.
fn is_tum_trajectory(text: &str) -> bool {
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.next().is_some_and(|line| parse_numbers::<8>(line).is_some())
}

/// Whether a JSON file with this name, in lower case, may be a camera file.
fn is_camera_json(name: &str) -> bool {
    name == "cameras.json" || name.starts_with("sfm_data") || is_reconstruction(name)
}

/// Whether a file with this name, in lower case, may be a reconstruction of OpenSfM.
fn is_reconstruction(name: &str) -> bool {
    name.starts_with("reconstruction") && name.ends_with(".json")
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
    let has = |key: &str| text.contains(&format!("\"{key}\""));
    if has("sfm_data_version") && text.starts_with('{') {
        return Some(DatasetKind::OpenMvg);
    }
    if has("t_00") && has("t_23") && has("fx") && text.starts_with('{') {
        return Some(DatasetKind::Polycam);
    }
    if let Some(object) = text.strip_prefix('{') {
        return recognise_object(object, has);
    }
    let (key, _) = first_entry(text.strip_prefix('[')?.trim_start().strip_prefix('{')?)?;
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

/// An object in place of the usual list: `{"cameras": [..]}` of 3DGS, or one reconstruction of OpenSfM.
fn recognise_object(object: &str, has: impl Fn(&str) -> bool) -> Option<DatasetKind> {
    let (key, value) = first_entry(object)?;
    if key == "cameras" && value.starts_with('[') && has("img_name") {
        return Some(DatasetKind::Inria);
    }
    let is_reconstruction = ["cameras", "shots"].contains(&key) && value.starts_with('{');
    (is_reconstruction && (has("projection_type") || has("shots")) && !has("frames"))
        .then_some(DatasetKind::OpenSfm)
}

/// The first key of an object and what follows its colon.
fn first_entry(object: &str) -> Option<(&str, &str)> {
    let (key, rest) = object.trim_start().strip_prefix('"')?.split_once('"')?;
    Some((key, rest.trim_start().strip_prefix(':').unwrap_or(rest).trim_start()))
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
    let folders = || folders.iter().filter(|folder| !ownership::is_gausset_owned(folder, RUN_MARKER));
    for folder in folders() {
        let (below, _) = candidates(root, folder);
        found.extend(below.into_iter().filter(|source| !above.contains(&source.kind)));
    }
    if found.is_empty() {
        // Sidecars beside photographs in sub-folders of an image folder.
        let mut left = MAX_SIDECAR_FOLDERS;
        found.extend(folders().filter_map(|folder| {
            let file = first_sidecar(folder, realitycapture::SIDECAR_DEPTH, &mut left)?;
            let source = ExportSource::new(root, DatasetKind::RealityCapture, &file);
            Some(ExportSource { folder: folder.clone(), ..source })
        }));
    }
    if found.len() > 1 && found.iter().all(|source| source.kind == DatasetKind::OpenMvg) {
        // The scene before reconstruction lies in a folder of its own.
        let posed: Vec<ExportSource> = found.iter().filter(|source| has_poses(source)).cloned().collect();
        if posed.len() == 1 {
            found = posed;
        }
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

/// Whether a file of OpenMVG has poses.
fn has_poses(source: &ExportSource) -> bool {
    input::read(&source.file, MAX_BYTES).is_ok_and(|bytes| openmvg::has_poses(&bytes))
}

/// Camera files in a folder, sorted by name, and its sub-folders.
fn candidates(root: &Path, folder: &Path) -> (Vec<ExportSource>, Vec<PathBuf>) {
    let (files, folders) = files_and_folders(folder);
    // Of several reconstructions the usual one is meant.
    let usual = ["reconstruction.json", TOPOCENTRIC]
        .into_iter()
        .find(|name| files.iter().any(|file| is_named(file, name)));
    let mut found = Vec::new();
    let mut sidecars = 0;
    for path in files {
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else { continue };
        let name = name.to_ascii_lowercase();
        let extension = name.rsplit_once('.').map_or("", |(_, extension)| extension);
        match extension {
            "xml" | "csv" | "out" | "npy" => {}
            "json" if is_reconstruction(&name) && usual.is_some_and(|usual| name != usual) => continue,
            "json" if is_camera_json(&name) => {}
            "xmp" if sidecars < MAX_SIDECARS => sidecars += 1,
            _ => continue,
        }
        if let Some(kind) = recognise(&path) {
            found.push(ExportSource::new(root, kind, &path));
            if extension == "xmp" {
                sidecars = MAX_SIDECARS;
            }
        }
    }
    found.extend(polycam::keyframes(folder).map(|file| ExportSource::new(root, DatasetKind::Polycam, &file)));
    (found, folders)
}

/// The first sidecar of RealityCapture in a folder or below.
fn first_sidecar(folder: &Path, depth: usize, folders_left: &mut usize) -> Option<PathBuf> {
    *folders_left = folders_left.checked_sub(1)?;
    let (files, folders) = files_and_folders(folder);
    let mut sidecars = files.into_iter().filter(|file| has_extension(file, "xmp")).take(MAX_SIDECARS);
    let is_wanted = |file: &PathBuf| recognise(file) == Some(DatasetKind::RealityCapture);
    sidecars.find(is_wanted).or_else(|| {
        let below = depth.checked_sub(1)?;
        folders.iter().find_map(|folder| first_sidecar(folder, below, folders_left))
    })
}

/// Files of a folder, and at most [`MAX_FOLDERS`] folders, both sorted and without hidden ones.
fn files_and_folders(folder: &Path) -> (Vec<PathBuf>, Vec<PathBuf>) {
    let Ok(entries) = input::read_dir(folder) else { return Default::default() };
    let is_hidden = |entry: &std::fs::DirEntry| entry.file_name().to_string_lossy().starts_with('.');
    let entries = entries.flatten().filter(|entry| !is_hidden(entry));
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    let (mut folders, files): (Vec<PathBuf>, Vec<PathBuf>) =
        paths.into_iter().partition(|path| path.is_dir());
    folders.truncate(MAX_FOLDERS);
    (files, folders)
}
