//! Finds and reads the source of a dataset: a COLMAP model, JSON files, or the cameras of another program.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::camera_model::SourceCamera;
use super::colmap::{ColmapImage, ModelFolder, Observations};
use super::error::DatasetError;
use super::exports::{self, ExportSource};
use super::paths::{ExtensionRule, NameResolver, file_in, has_extension, is_named};
use super::similar::{FileKind, NameIndex, Similar};
use super::transforms::{self, Transforms};
use super::warning::{SkipReason, Warning};
use super::{DatasetKind, OpenOptions, Point};
use crate::ownership::is_gausset_owned;
use crate::run_folder::RUN_MARKER;
use crate::splat::{self, Initial, ReadLimits, SplatError};

/// Folders of a COLMAP model below the dataset folder that take precedence over a `transforms.json`.
const MODEL_FOLDERS: [&str; 2] = ["sparse", ""];
/// Folders where Nerfstudio and instant-ngp's `colmap2nerf.py` keep the model from which they made a `transforms.json`.
const SECOND_MODEL_FOLDERS: [&str; 2] = ["colmap/sparse", "colmap_sparse"];
/// Folders of COLMAP's dense workspace, each a dataset of its own.
const DENSE_FOLDERS: [&str; 2] = ["dense/0", "dense"];
/// JSON files that are a dataset, in the order in which they are tried.
const JSON_FILES: [&str; 2] = ["transforms_train.json", "transforms.json"];
/// Folder where the released 3DGS code keeps the model of its `input` pictures.
const INPUT_MODEL_FOLDER: &str = "distorted";
/// Largest number of folders whose sub-folders are searched.
const MAX_FOLDERS: usize = 200;
/// Largest number of JSON files of other names that are looked at.
const MAX_JSON_FILES: usize = 100;
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
    /// The folder that the user gave: `root`, or one above it.
    pub(super) given: PathBuf,
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
    if !data.is_dir() {
        let folder = path.parent().unwrap_or(Path::new(""));
        let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        if let Some(source) = exports::of_file(folder, path) {
            return Ok(Source::Export(source));
        }
        if has_extension(path, "json") && splat::recognise(path).is_none() {
            return read_json(folder, path, warnings).map(Source::Json);
        }
        return Err(exports::why_not_read(path).unwrap_or_else(|| not_a_dataset(path, Vec::new())));
    }
    if let Some(sparse) = &options.sparse {
        std::fs::metadata(sparse).map_err(|e| DatasetError::io(sparse, "open", &e))?;
        let source = read_models(path, sparse, warnings)?;
        return source.map(Source::Colmap).ok_or_else(|| not_a_dataset(sparse, Vec::new()));
    }
    // Half a model may be none, such as a list of pictures named `images.txt`, and must not hide another dataset.
    let mut half_model = None;
    let found = find_in_or_below(path, warnings, &mut half_model);
    let Some(half) = half_model else { return found };
    if matches!(found, Err(DatasetError::NotADataset { .. })) {
        return Err(half);
    }
    warnings.push(Warning::BrokenModel { reason: half.to_string() });
    found
}

fn not_a_dataset(path: &Path, deeper: Vec<PathBuf>) -> DatasetError {
    DatasetError::NotADataset { path: path.to_owned(), splats: splat::recognise(path), deeper }
}

/// The source in a folder, or in the only folder below it that is a dataset.
fn find_in_or_below(
    path: &Path,
    warnings: &mut Vec<Warning>,
    half_model: &mut Option<DatasetError>,
) -> Result<Source, DatasetError> {
    if let Some(source) = find_in_folder(path, warnings, half_model)? {
        return Ok(source);
    }
    if let Some(source) = exports::find_in(path)? {
        return Ok(Source::Export(source));
    }
    let dense = DENSE_FOLDERS.map(|name| path.join(name)).into_iter().find(|folder| is_dataset(folder));
    let mut deeper = dense.map_or_else(|| datasets_below(path), |folder| vec![folder]);
    if deeper.is_empty() {
        deeper =
            folders_below(path).iter().take(MAX_FOLDERS).flat_map(|folder| datasets_below(folder)).collect();
    }
    if let [used] = deeper.as_slice()
        && let Some(mut source) = find_in_folder(used, warnings, half_model)?
    {
        warnings.push(Warning::FoundDeeper { root: path.to_owned(), used: used.clone() });
        if let Source::Colmap(source) = &mut source {
            path.clone_into(&mut source.given);
        }
        return Ok(source);
    }
    if deeper.is_empty()
        && let Some(json) = other_json(path)?
    {
        warnings.push(Warning::OtherJsonFile { root: path.to_owned(), used: json.clone() });
        return read_json(path, &json, warnings).map(Source::Json);
    }
    if deeper.is_empty() {
        let mut found = exports_below(path);
        if let [_] = found.as_slice()
            && let Some((used, source)) = found.pop()
        {
            warnings.push(Warning::FoundDeeper { root: path.to_owned(), used });
            return source.map(Source::Export);
        }
        deeper = found.into_iter().map(|(folder, _)| folder).collect();
    }
    if deeper.is_empty()
        && let Some(error) = exports::why_not_read_in(path)
    {
        return Err(error);
    }
    deeper.truncate(2);
    Err(not_a_dataset(path, deeper))
}

/// The source of a folder that is a dataset. Half a model is passed over and its error kept.
fn find_in_folder(
    path: &Path,
    warnings: &mut Vec<Warning>,
    half_model: &mut Option<DatasetError>,
) -> Result<Option<Source>, DatasetError> {
    let mut read_models =
        |folder: &str, warnings: &mut Vec<Warning>| match read_models(path, &path.join(folder), warnings) {
            Err(error @ DatasetError::MissingModelFile { .. }) => {
                half_model.get_or_insert(error);
                Ok(None)
            }
            read => read,
        };
    let json = JSON_FILES.map(|name| file_in(path, name)).into_iter().find(|p| p.exists());
    for folder in MODEL_FOLDERS {
        if let Some(source) = read_models(folder, warnings)? {
            if let Some(json) = json {
                warnings.push(Warning::TwoSources { json, model: source.model.path.clone() });
            }
            return Ok(Some(Source::Colmap(source)));
        }
    }
    if let Some(json) = json {
        return read_json(path, &json, warnings).map(|source| Some(Source::Json(source)));
    }
    for folder in SECOND_MODEL_FOLDERS {
        if let Some(source) = read_models(folder, warnings)? {
            return Ok(Some(Source::Colmap(source)));
        }
    }
    Ok(None)
}

/// Whether a folder has what [`find_in_folder`] looks for.
fn is_dataset(folder: &Path) -> bool {
    let mut models = MODEL_FOLDERS.iter().chain(&SECOND_MODEL_FOLDERS).map(|name| folder.join(name));
    JSON_FILES.iter().any(|name| file_in(folder, name).exists())
        || models.any(|folder| {
            models_in(&folder).is_ok_and(|(models, broken)| !(models.is_empty() && broken.is_empty()))
        })
}

/// Folders in a folder that are datasets, sorted.
fn datasets_below(path: &Path) -> Vec<PathBuf> {
    let mut found = folders_below(path);
    found.retain(|folder| is_dataset(folder));
    found
}

/// The only JSON file of a folder, under any name, whose start has frames with matrices.
///
/// # Errors
/// There are two.
fn other_json(path: &Path) -> Result<Option<PathBuf>, DatasetError> {
    let entries = std::fs::read_dir(path).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path()));
    let mut files: Vec<PathBuf> = entries.filter(|file| has_extension(file, "json")).collect();
    files.sort();
    let mut found = files.into_iter().take(MAX_JSON_FILES).filter(|file| exports::has_frames(file));
    match (found.next(), found.next()) {
        (Some(first), Some(second)) if !is_gausset_owned(path, RUN_MARKER) => {
            let folder = path.to_owned();
            Err(DatasetError::SeveralExports { folder, first, second, programs: ["Nerfstudio"; 2] })
        }
        (first, _) => Ok(first.filter(|_| !is_gausset_owned(path, RUN_MARKER))),
    }
}

/// Folders in a folder that have the cameras of another program, sorted, with their source.
fn exports_below(path: &Path) -> Vec<(PathBuf, Result<ExportSource, DatasetError>)> {
    let folders = folders_below(path).into_iter().take(MAX_FOLDERS);
    let found =
        folders.filter_map(|folder| exports::find_in(&folder).transpose().map(|found| (folder, found)));
    found.collect()
}

/// Visible folders in a folder, sorted.
fn folders_below(path: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(path).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path()));
    let is_hidden =
        |path: &Path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
    let mut found: Vec<PathBuf> = entries.filter(|path| !is_hidden(path) && path.is_dir()).collect();
    found.sort();
    found
}

/// Models in the numbered sub-folders of a folder, or in the folder itself, and those of which a file is missing.
fn models_in(folder: &Path) -> Result<(Vec<ModelFolder>, Vec<DatasetError>), DatasetError> {
    let (mut models, mut broken) = (Vec::new(), Vec::new());
    if !folder.is_dir() {
        return Ok((models, broken));
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
    let mut add = |path: &Path, models: &mut Vec<ModelFolder>| match ModelFolder::find(path) {
        Ok(found) => models.extend(found),
        Err(error) => broken.push(error),
    };
    numbered.iter().for_each(|(_, path)| add(path, &mut models));
    if models.is_empty() {
        add(folder, &mut models);
    }
    Ok((models, broken))
}

/// The model in a folder or in its numbered sub-folders: the one with the most images, the first of equals. Models that
/// cannot be read are passed over if there is another one, also one as text beside a binary one.
fn read_models(
    root: &Path,
    folder: &Path,
    warnings: &mut Vec<Warning>,
) -> Result<Option<ColmapSource>, DatasetError> {
    let (models, mut broken) = models_in(folder)?;
    let mut count = 0;
    let mut best: Option<ColmapSource> = None;
    for model in models {
        let text = model.text_beside();
        let is_empty = text.as_ref().and_then(|_| model.empty_file());
        let read = is_empty.map_or_else(|| read_model(root, model), Err);
        let read = read.or_else(|error| {
            broken.push(error);
            text.map(|text| read_model(root, text)).transpose()?.ok_or(None)
        });
        match read {
            Ok(source) => {
                count += 1;
                if best.as_ref().is_none_or(|b| source.images.len() > b.images.len()) {
                    best = Some(source);
                }
            }
            Err(error) => broken.extend(error),
        }
    }
    let Some(used) = &best else { return broken.into_iter().next().map_or(Ok(None), Err) };
    warnings.extend(broken.iter().map(|error| Warning::BrokenModel { reason: error.to_string() }));
    if count > 1 {
        let chosen = used.model.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let images = used.images.len();
        warnings.push(Warning::SeveralModels { folder: folder.to_owned(), count, chosen, images });
    }
    Ok(best)
}

/// Reads the cameras and images of a model.
fn read_model(root: &Path, model: ModelFolder) -> Result<ColmapSource, DatasetError> {
    let cameras = model.cameras()?;
    let images = model.images(&cameras, Observations::Skip)?;
    Ok(ColmapSource { given: root.to_owned(), root: root.to_owned(), model, cameras, images })
}

/// The image folder of a COLMAP dataset.
pub(super) fn image_folder(
    source: &ColmapSource,
    options: &OpenOptions,
    warnings: &mut Vec<Warning>,
) -> Result<PathBuf, DatasetError> {
    let ColmapSource { given, root, model, images, .. } = source;
    let first_name = images.first().map_or("", |image| image.name.as_str());
    if let Some(folder) = &options.images {
        return match folder.is_dir() {
            true => Ok(folder.clone()),
            false => Err(DatasetError::NoImageFolder { path: folder.clone() }),
        };
    }
    let standard = file_in(root, "images");
    if standard.is_dir() {
        return Ok(standard);
    }
    let siblings = OTHER_IMAGE_FOLDERS.iter().map(|name| root.join(name));
    // The given path may be the model folder itself: `images` is then next to `sparse`, or next to the model.
    let above = model.path.ancestors().skip(1).take(2).map(|folder| folder.join("images"));
    let first_of_given = if is_named(root, INPUT_MODEL_FOLDER) { "input" } else { "images" };
    let of_given = [first_of_given, "images"].into_iter().chain(OTHER_IMAGE_FOLDERS);
    let of_given = of_given.map(|name| given.join(name));
    let used = siblings.chain(above).chain(of_given).find(|folder| folder.is_dir()).or_else(|| {
        let holds_first = |folder: &&PathBuf| {
            let is_beside = !first_name.is_empty() && folder.join(first_name).is_file();
            let files = || NameIndex::of_folder(folder);
            is_beside || files().find(first_name, FileKind::Picture) != Similar::Nothing
        };
        [root, given].into_iter().find(holds_first).cloned()
    });
    match used {
        Some(used) => {
            warnings.push(Warning::OtherImageFolder { root: root.clone(), used: used.clone() });
            Ok(used)
        }
        None => Err(DatasetError::NoImageFolder { path: standard }),
    }
}

/// Reads a JSON file, or all of `transforms_{train,val,test}.json` if it is one of them.
fn read_json(folder: &Path, path: &Path, warnings: &mut Vec<Warning>) -> Result<JsonSource, DatasetError> {
    let root = folder.to_owned();
    if !is_named(path, "transforms_train.json") {
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
    let [test, val] = ["transforms_test.json", "transforms_val.json"].map(|name| file_in(folder, name));
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
    // A held-out image that the list spells differently would otherwise be trained on.
    let root = NameResolver::new(folder, true);
    let tidy = |name: &str| root.canonical_name(&name.replace('\\', "/"));
    let frames: BTreeSet<String> = content.frames.iter().map(|f| tidy(&f.file_path)).collect();
    let index = NameIndex::new(frames.iter().cloned().collect());
    let [train, val, test] = &content.split_lists;
    let lists = [("train_filenames", train), ("val_filenames", val), ("test_filenames", test)];
    let [train, val, test] = lists.map(|(list, names)| {
        let names = names.as_ref()?;
        let found: BTreeSet<String> = frames_of(names, list, &tidy, &index, path, warnings);
        Some(found).filter(|_| !names.is_empty())
    });
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

/// The frames that a list names.
fn frames_of(
    names: &[String],
    list: &'static str,
    tidy: &dyn Fn(&str) -> String,
    frames: &NameIndex,
    path: &Path,
    warnings: &mut Vec<Warning>,
) -> BTreeSet<String> {
    let (mut found, mut similar, mut unknown) = (BTreeSet::new(), Vec::new(), Vec::new());
    for name in names {
        let tidied = tidy(name);
        if frames.names().binary_search(&tidied).is_ok() {
            found.insert(tidied);
        } else if let Similar::One(index) = frames.find(&tidied, FileKind::Listed) {
            similar.push((name, frames.name(index)));
            found.insert(frames.name(index).to_owned());
        } else {
            unknown.push(name);
        }
    }
    let path = || path.to_owned();
    if let Some((name, used)) = similar.first() {
        let (name, used) = (crate::text::excerpt(name), crate::text::excerpt(used));
        warnings.push(Warning::SimilarNames { path: path(), what: list, count: similar.len(), name, used });
    }
    if let Some(first) = unknown.first() {
        let (count, name) = (unknown.len(), crate::text::excerpt(first));
        warnings.push(Warning::UnknownSplitNames { path: path(), list, count, name });
    }
    found
}

/// Whether a file is one of the three of a NeRF-synthetic scene.
pub(super) fn is_blender_file(path: &Path) -> bool {
    let names = ["transforms_train.json", "transforms_val.json", "transforms_test.json"];
    names.iter().any(|name| is_named(path, name))
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

/// Points of a PLY file.
pub(super) struct PlyPoints {
    pub(super) path: PathBuf,
    /// The finite ones.
    pub(super) points: Vec<Point>,
    /// Number of those that are not finite.
    pub(super) dropped: usize,
}

/// Points of the file named by `ply_file_path`, or why there are none.
///
/// # Errors
/// The points exceed the memory limit.
pub(super) fn ply_points(
    data: &NameResolver,
    name: &str,
    file: &Path,
    memory_bytes: u64,
    warnings: &mut Vec<Warning>,
) -> Result<Result<PlyPoints, PlyPointsError>, DatasetError> {
    let found = data.find(name, ExtensionRule::Required).or_else(|reason| {
        let found = data.find_similar(name, FileKind::Points, reason)?;
        let (name, used) = (crate::text::excerpt(name), found.name.clone());
        let what = "ply_file_path";
        warnings.push(Warning::SimilarNames { path: file.to_owned(), what, count: 1, name, used });
        Ok(found)
    });
    match found {
        Ok(found) => read_ply(&found.path, memory_bytes),
        Err(reason) => Ok(Err(PlyPointsError::NotFound { path: data.path(name), reason })),
    }
}

/// The first of some PLY files that exists, for a source that names no points.
///
/// # Errors
/// As [`ply_points`].
pub(super) fn usual_ply_points(
    places: &[PathBuf],
    source_file: &Path,
    memory_bytes: u64,
    warnings: &mut Vec<Warning>,
) -> Result<Option<PlyPoints>, DatasetError> {
    let Some(path) = places.iter().find(|path| path.exists()) else { return Ok(None) };
    match read_ply(path, memory_bytes)? {
        Ok(found) if found.points.is_empty() => Ok(None),
        Ok(found) => {
            let source_file = source_file.to_owned();
            warnings.push(Warning::PointsFound { path: path.clone(), source_file });
            Ok(Some(found))
        }
        Err(error) => {
            warnings.push(Warning::PointsUnreadable { reason: error.to_string() });
            Ok(None)
        }
    }
}

pub(super) fn read_ply(
    path: &Path,
    memory_bytes: u64,
) -> Result<Result<PlyPoints, PlyPointsError>, DatasetError> {
    // Of 76 bytes per point the reader accounts for 36; the rest is the resulting `Point`.
    let reading = memory_bytes / 19 * 9;
    let limits = ReadLimits { memory_bytes: reading.min(ReadLimits::default().memory_bytes) };
    let (positions, colours) = match splat::load_initial(path, &limits) {
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
            (splats.means.iter().map(|mean| mean.map(f64::from)).collect(), Some(colours))
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
                position: *p,
                colour: colour.map(gausset_core::image::quantise),
                error: f64::NAN,
                track_length: 0,
            }
        })
        .collect();
    let dropped = count - points.len();
    Ok(Ok(PlyPoints { path: path.to_owned(), points, dropped }))
}
