//! Finds and reads the source of a dataset: a COLMAP model, JSON files, or the cameras of another program.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::camera_model::SourceCamera;
use super::colmap::{ColmapImage, ModelFolder, Observations};
use super::error::DatasetError;
use super::exports::{self, ExportSource};
use super::paths::{ExtensionRule, NameResolver};
use super::transforms::{self, Transforms};
use super::warning::{SkipReason, Warning};
use super::{DatasetKind, OpenOptions, Point};
use crate::splat::{self, Initial, ReadLimits, SplatError};

/// Folders of a COLMAP model below the dataset folder that take precedence over a `transforms.json`.
const MODEL_FOLDERS: [&str; 2] = ["sparse", ""];
/// Folder where Nerfstudio keeps the model from which it made its `transforms.json`.
const SECOND_MODEL_FOLDER: &str = "colmap/sparse";
/// Image folders to try if there is no `images`.
pub(super) const OTHER_IMAGE_FOLDERS: [&str; 4] = ["images_2", "images_4", "images_8", "input"];

/// Half of the split that a frame belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SplitRole {
    /// Not specified by the dataset: every n-th is held out.
    Undecided,
    Train,
    Test,
    /// In neither list.
    Unused,
}

pub(super) enum Source {
    Colmap(ColmapSource),
    Json(JsonSource),
    Export(ExportSource),
}

/// A model with its cameras and images.
pub(super) struct ColmapSource {
    pub(super) root: PathBuf,
    pub(super) model: ModelFolder,
    pub(super) cameras: Vec<SourceCamera>,
    pub(super) images: Vec<ColmapImage>,
}

/// The JSON files of one dataset.
pub(super) struct JsonSource {
    pub(super) root: PathBuf,
    pub(super) kind: DatasetKind,
    pub(super) files: Vec<JsonFile>,
}

pub(super) struct JsonFile {
    pub(super) path: PathBuf,
    pub(super) content: Transforms,
    /// One per frame.
    pub(super) roles: Vec<SplitRole>,
}

/// Finds and reads the source of the dataset at a path.
pub(super) fn find(
    path: &Path,
    options: &OpenOptions,
    warnings: &mut Vec<Warning>,
) -> Result<Source, DatasetError> {
    let data = std::fs::metadata(path).map_err(|e| DatasetError::io(path, "open", &e))?;
    let not_a_dataset =
        |path: &Path| DatasetError::NotADataset { path: path.to_owned(), splats: splat::recognise(path) };
    if !data.is_dir() {
        let folder = path.parent().unwrap_or(Path::new(""));
        let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        if let Some(source) = exports::of_file(folder, path) {
            return Ok(Source::Export(source));
        }
        return match path.extension().and_then(|e| e.to_str()) {
            Some("json") if splat::recognise(path).is_none() => {
                read_json(folder, path, warnings).map(Source::Json)
            }
            _ => Err(not_a_dataset(path)),
        };
    }
    if let Some(sparse) = &options.sparse {
        std::fs::metadata(sparse).map_err(|e| DatasetError::io(sparse, "open", &e))?;
        let source = read_models(path, sparse, warnings)?;
        return source.map(Source::Colmap).ok_or_else(|| not_a_dataset(sparse));
    }
    let json = ["transforms_train.json", "transforms.json"].map(|name| path.join(name));
    let json = json.into_iter().find(|p| p.exists());
    for folder in MODEL_FOLDERS {
        if let Some(source) = read_models(path, &path.join(folder), warnings)? {
            if let Some(json) = json {
                warnings.push(Warning::TwoSources { json, model: source.model.path.clone() });
            }
            return Ok(Source::Colmap(source));
        }
    }
    if let Some(json) = json {
        return read_json(path, &json, warnings).map(Source::Json);
    }
    if let Some(source) = read_models(path, &path.join(SECOND_MODEL_FOLDER), warnings)? {
        return Ok(Source::Colmap(source));
    }
    exports::find_in(path)?.map(Source::Export).ok_or_else(|| not_a_dataset(path))
}

/// The model in a folder or in its numbered sub-folders: the one with the most images, the first of equals.
fn read_models(
    root: &Path,
    folder: &Path,
    warnings: &mut Vec<Warning>,
) -> Result<Option<ColmapSource>, DatasetError> {
    if !folder.is_dir() {
        return Ok(None);
    }
    let mut numbered: Vec<(u64, PathBuf)> = std::fs::read_dir(folder)
        .map_err(|e| DatasetError::io(folder, "list", &e))?
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let number = entry.file_name().to_str()?.parse().ok()?;
            entry.path().is_dir().then(|| (number, entry.path()))
        })
        .collect();
    numbered.sort();
    let mut models = Vec::new();
    for (_, path) in numbered {
        models.extend(ModelFolder::find(&path)?);
    }
    if models.is_empty() {
        models.extend(ModelFolder::find(folder)?);
    }
    let count = models.len();
    let mut best: Option<ColmapSource> = None;
    for model in models {
        let cameras = model.cameras()?;
        let images = model.images(&cameras, Observations::Skip)?;
        if best.as_ref().is_none_or(|b| images.len() > b.images.len()) {
            best = Some(ColmapSource { root: root.to_owned(), model, cameras, images });
        }
    }
    if let (Some(best), true) = (&best, count > 1) {
        let chosen = best.model.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let images = best.images.len();
        warnings.push(Warning::SeveralModels { folder: folder.to_owned(), count, chosen, images });
    }
    Ok(best)
}

/// The image folder of a COLMAP dataset.
pub(super) fn image_folder(
    root: &Path,
    model: &Path,
    first_name: &str,
    options: &OpenOptions,
    warnings: &mut Vec<Warning>,
) -> Result<PathBuf, DatasetError> {
    if let Some(folder) = &options.images {
        return match folder.is_dir() {
            true => Ok(folder.clone()),
            false => Err(DatasetError::NoImageFolder { path: folder.clone() }),
        };
    }
    let standard = root.join("images");
    if standard.is_dir() {
        return Ok(standard);
    }
    let siblings = OTHER_IMAGE_FOLDERS.iter().map(|name| root.join(name));
    // The given path may be the model folder itself: `images` is then next to `sparse`, or next to the model.
    let above = model.ancestors().skip(1).take(2).map(|folder| folder.join("images"));
    let used = siblings.chain(above).find(|folder| folder.is_dir()).or_else(|| {
        let is_beside = !first_name.is_empty() && root.join(first_name).is_file();
        is_beside.then(|| root.to_owned())
    });
    match used {
        Some(used) => {
            warnings.push(Warning::OtherImageFolder { root: root.to_owned(), used: used.clone() });
            Ok(used)
        }
        None => Err(DatasetError::NoImageFolder { path: standard }),
    }
}

/// Reads a JSON file, or all of `transforms_{train,val,test}.json` if it is one of them.
fn read_json(folder: &Path, path: &Path, warnings: &mut Vec<Warning>) -> Result<JsonSource, DatasetError> {
    let name = path.file_name().and_then(|n| n.to_str()).unwrap_or_default();
    let root = folder.to_owned();
    if name != "transforms_train.json" {
        let content = transforms::read(path)?;
        let kind = dataset_kind(&content);
        let roles = split_roles(&content, folder, path, warnings);
        return Ok(JsonSource {
            root,
            kind,
            files: vec![JsonFile { path: path.to_owned(), content, roles }],
        });
    }
    let mut files = Vec::new();
    let mut add = |path: PathBuf, role: SplitRole| -> Result<(), DatasetError> {
        let content = transforms::read(&path)?;
        let roles = vec![role; content.frames.len()];
        files.push(JsonFile { path, content, roles });
        Ok(())
    };
    let [test, val] = ["transforms_test.json", "transforms_val.json"].map(|name| folder.join(name));
    // Without a test list, the validation list is held out; without both, every n-th image.
    match (test.exists(), val.exists()) {
        (true, has_val) => {
            add(path.to_owned(), SplitRole::Train)?;
            add(test, SplitRole::Test)?;
            if has_val {
                add(val, SplitRole::Unused)?;
            }
        }
        (false, true) => {
            add(path.to_owned(), SplitRole::Train)?;
            add(val, SplitRole::Test)?;
        }
        (false, false) => add(path.to_owned(), SplitRole::Undecided)?,
    }
    let kind = files.first().map_or(DatasetKind::Blender, |f: &JsonFile| dataset_kind(&f.content));
    Ok(JsonSource { root, kind, files })
}

fn dataset_kind(content: &Transforms) -> DatasetKind {
    let own = content.frames.iter().any(|f| f.intrinsics.is_some());
    if content.has_aabb_scale {
        DatasetKind::InstantNgp
    } else if content.intrinsics.is_blender_style() && !own && content.applied_transform.is_none() {
        DatasetKind::Blender
    } else {
        DatasetKind::Nerfstudio
    }
}

/// Roles of the frames of a single file, from its own lists if it has any.
fn split_roles(
    content: &Transforms,
    folder: &Path,
    path: &Path,
    warnings: &mut Vec<Warning>,
) -> Vec<SplitRole> {
    // Names are canonicalised: a held-out image that the list spells differently would otherwise be trained on.
    let root = NameResolver::new(folder, true);
    let tidy = |name: &str| root.canonical_name(name);
    let list = |names: &Option<Vec<String>>| -> Option<BTreeSet<String>> {
        names
            .as_ref()
            .map(|names| names.iter().map(|n| tidy(n)).collect())
            .filter(|l: &BTreeSet<_>| !l.is_empty())
    };
    let [train, val, test] = &content.split_lists;
    let frames: BTreeSet<String> = content.frames.iter().map(|f| tidy(&f.file_path)).collect();
    for (name, names) in [("train_filenames", train), ("val_filenames", val), ("test_filenames", test)] {
        let unknown: Vec<&String> = names.iter().flatten().filter(|n| !frames.contains(&tidy(n))).collect();
        if let Some(first) = unknown.first() {
            warnings.push(Warning::UnknownSplitNames {
                path: path.to_owned(),
                list: name,
                count: unknown.len(),
                name: crate::text::excerpt(first),
            });
        }
    }
    let (train, val, test) = (list(train), list(val), list(test));
    let held_out = test.as_ref().or(val.as_ref());
    let role = |name: String| match (held_out, &train) {
        (None, None) => SplitRole::Undecided,
        (Some(held_out), _) if held_out.contains(&name) => SplitRole::Test,
        // With both lists, the validation images are unused.
        (Some(_), None) if val.as_ref().is_some_and(|val| val.contains(&name)) => SplitRole::Unused,
        (Some(_), None) => SplitRole::Train,
        (None, Some(train)) if train.contains(&name) => SplitRole::Undecided,
        (Some(_), Some(train)) if train.contains(&name) => SplitRole::Train,
        (_, Some(_)) => SplitRole::Unused,
    };
    content.frames.iter().map(|f| role(tidy(&f.file_path))).collect()
}

/// Why the file named by `ply_file_path` gives no points.
#[derive(Debug, thiserror::Error)]
pub(super) enum PlyPointsError {
    /// There is no such file.
    #[error("{}: points: {}", path.display(), reason.without_label())]
    NotFound { path: PathBuf, reason: SkipReason },
    /// It cannot be read.
    #[error(transparent)]
    Unreadable(#[from] SplatError),
}

/// Finite points of the file named by `ply_file_path` and the number that is not finite, or why there are none.
///
/// # Errors
/// The points exceed the memory limit.
pub(super) fn ply_points(
    data: &NameResolver,
    name: &str,
    memory_bytes: u64,
) -> Result<Result<(Vec<Point>, usize), PlyPointsError>, DatasetError> {
    let found = match data.find(name, ExtensionRule::Required) {
        Ok(found) => found,
        Err(reason) => {
            return Ok(Err(PlyPointsError::NotFound { path: data.path(name), reason }));
        }
    };
    // Of 64 bytes per point the reader accounts for 24; the rest is the resulting `Point`.
    let reading = memory_bytes / 8 * 3;
    let limits = ReadLimits { memory_bytes: reading.min(ReadLimits::default().memory_bytes) };
    let (positions, colours) = match splat::load_initial(&found.path, &limits) {
        Err(SplatError::Memory { path, count, needed, limit }) => {
            let possible = (u128::from(count) * u128::from(limit) / u128::from(needed.max(1))) as u64;
            return Err(DatasetError::TooManyPoints { path, found: count, possible, limit: memory_bytes });
        }
        Err(error) => return Ok(Err(error.into())),
        Ok(Initial::Points(cloud)) => (cloud.positions, cloud.colours),
        Ok(Initial::Splats(file)) => {
            let splats = file.scene().into_owned();
            let colour = |i: usize| {
                let sh = splats.sh_coefficients(i);
                [0, 1, 2].map(|c| gausset_core::sh::colour_from_dc(sh.get(c).copied().unwrap_or(0.0)))
            };
            let colours = (0..splats.len()).map(colour).collect();
            (splats.means, Some(colours))
        }
    };
    let count = positions.len();
    let points: Vec<Point> = positions
        .iter()
        .enumerate()
        .filter(|(_, p)| p.iter().all(|v| v.is_finite()))
        .map(|(i, p)| {
            let colour = colours.as_ref().and_then(|c| c.get(i)).copied().unwrap_or([0.5; 3]);
            Point {
                position: p.map(f64::from),
                colour: colour.map(gausset_core::image::quantise),
                error: f64::NAN,
                track_length: 0,
            }
        })
        .collect();
    let dropped = count - points.len();
    Ok(Ok((points, dropped)))
}
