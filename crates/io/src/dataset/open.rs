//! Opening: from a path to a [`Dataset`].
//!
//! ```text
//! find the source ─▶ list frames ─▶ find files ─▶ poses ─▶ sort by name ─▶ split ─▶ picture headers ─▶ cameras ─▶ points
//! ```
//! The split is made over pictures that have a pose and a file, before any picture is looked at: one bad JPEG does not
//! reshuffle the test set.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gausset_core::{Pose, se3};

use super::camera_model::{CameraModel, SourceCamera};
use super::error::{DatasetError, MAX_DISTANCE, SkipReason, Skipped, Warning};
use super::lens::Lens;
use super::paths::{Extension, Found, Root, find_mask};
use super::source::{self, ColmapSource, JsonFile, JsonSource, Role, Source};
use super::transforms::Intrinsics;
use super::{AppliedTransform, Dataset, DatasetKind, ImageEntry, OpenOptions, Point, Split};
use crate::image::{Header, read_header, warp};

/// Fewer training pictures than this are worth a warning.
const FEW_IMAGES: usize = 3;
/// Share of unreadable pictures that is accepted: one in so many.
const UNREADABLE_LIMIT: usize = 10;
/// Factor on the largest distance of a camera from the mean of all (Kerbl et al. 2023, code).
const EXTENT_MARGIN: f64 = 1.1;

/// A picture as the source lists it.
struct Listed {
    id: u32,
    frame: Option<u32>,
    name: String,
    pose: Result<Pose, SkipReason>,
    camera: CameraOf,
    mask: Option<String>,
    role: Role,
}

/// Where the camera of a picture comes from.
enum CameraOf {
    /// Index into the cameras of the model.
    Known(usize),
    /// Intrinsics that may need the size of the picture, their file, and their frame if they are not those of the file.
    Intrinsics { values: Box<Intrinsics>, file: PathBuf, frame: Option<usize> },
}

/// A picture with a file and a pose.
struct Present {
    listed: Listed,
    found: Found,
    pose: Pose,
    role: Role,
}

/// Everything that is collected on the way.
#[derive(Default)]
struct Report {
    warnings: Vec<Warning>,
    skipped: Vec<Skipped>,
}

impl Report {
    fn skip(&mut self, name: &str, reason: SkipReason) {
        self.skipped.push(Skipped { name: name.to_owned(), reason });
    }
}

/// See [`super::open`].
pub(super) fn open(path: &Path, options: &OpenOptions) -> Result<Dataset, DatasetError> {
    let _span = gausset_prof::span("open");
    let mut report = Report::default();
    match source::find(path, options, &mut report.warnings)? {
        Source::Colmap(source) => open_colmap(source, options, report),
        Source::Json(source) => open_json(source, options, report),
    }
}

fn open_colmap(
    source: ColmapSource,
    options: &OpenOptions,
    mut report: Report,
) -> Result<Dataset, DatasetError> {
    let ColmapSource { root, model, cameras, images } = source;
    let first_name = images.first().map_or("", |image| image.name.as_str());
    let folder = source::image_folder(&root, &model.path, first_name, options, &mut report.warnings)?;
    let frame_of = shared_frames(model.frames().unwrap_or_else(|e| {
        report.warnings.push(Warning::FramesUnreadable { reason: e.to_string() });
        BTreeMap::new()
    }));
    let listed = images
        .into_iter()
        .map(|image| Listed {
            id: image.id,
            frame: frame_of.get(&image.id).copied(),
            pose: Pose::from_quaternion(image.quaternion, image.translation).map_err(SkipReason::Pose),
            // The reader has checked that the camera is there.
            camera: CameraOf::Known(
                cameras.binary_search_by_key(&image.camera_id, |c| c.id).unwrap_or_default(),
            ),
            name: image.name,
            mask: None,
            role: Role::Undecided,
        })
        .collect();
    let mut points = Vec::new();
    let mut dropped = 0;
    for point in model.points(super::colmap::Observations::Skip)? {
        if point.position.iter().all(|v| v.is_finite()) {
            points.push(Point {
                position: point.position,
                colour: point.colour,
                error: point.error,
                track_length: u32::try_from(point.track_length).unwrap_or(u32::MAX),
            });
        } else {
            dropped += 1;
        }
    }
    let points_path = model.points_path();
    if dropped > 0 {
        report.warnings.push(Warning::PointsDropped { path: points_path.clone(), count: dropped });
    }
    if points.is_empty() {
        report.warnings.push(Warning::NoPoints { path: points_path });
    }
    let masks = options.masks.clone().unwrap_or_else(|| root.join("masks"));
    Assembly {
        file: model.images_path(),
        cameras_file: model.cameras_path(),
        source: model.path,
        kind: DatasetKind::Colmap,
        extension: Extension::Required,
        name_folder: None,
        applied_transform: None,
        root,
        folder,
        masks,
        cameras,
        points,
    }
    .finish(listed, options, report)
}

fn open_json(source: JsonSource, options: &OpenOptions, mut report: Report) -> Result<Dataset, DatasetError> {
    let JsonSource { root, kind, files } = source;
    let folder = options.images.clone().unwrap_or_else(|| root.clone());
    let data = Root::new(&root, options.allow_outside).map_err(|e| DatasetError::io(&root, "open", &e))?;
    let mut listed = Vec::new();
    let mut applied_transform = None;
    let mut points = Vec::new();
    for JsonFile { path, content, roles } in &files {
        let mut unused = 0;
        for (index, (frame, &role)) in content.frames.iter().zip(roles).enumerate() {
            if role == Role::Unused {
                unused += 1;
                continue;
            }
            let values = match &frame.intrinsics {
                Some(own) => own.over(&content.intrinsics),
                None => content.intrinsics.clone(),
            };
            listed.push(Listed {
                id: u32::try_from(listed.len()).unwrap_or(u32::MAX),
                frame: None,
                name: frame.file_path.clone(),
                pose: frame.pose(),
                camera: CameraOf::Intrinsics {
                    values: Box::new(values),
                    file: path.to_owned(),
                    frame: frame.intrinsics.as_ref().map(|_| index),
                },
                mask: frame.mask_path.clone(),
                role,
            });
        }
        if unused > 0 {
            report.warnings.push(Warning::UnusedFrames { path: path.to_owned(), count: unused });
        }
        if content.applied_transform.is_some() || content.applied_scale.is_some() {
            let identity = [[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0]];
            applied_transform.get_or_insert(AppliedTransform {
                transform: content.applied_transform.unwrap_or(identity),
                scale: content.applied_scale.unwrap_or(1.0),
            });
        }
        if let (Some(name), true) = (&content.ply_file_path, points.is_empty()) {
            match source::ply_points(&data, name) {
                Ok((read, dropped)) => {
                    points = read;
                    if dropped > 0 {
                        let path = root.join(name);
                        report.warnings.push(Warning::PointsDropped { path, count: dropped });
                    }
                }
                Err(reason) => report.warnings.push(Warning::PointsUnreadable { reason }),
            }
        }
    }
    let file = files.first().map_or_else(|| root.clone(), |f| f.path.clone());
    if points.is_empty() {
        report.warnings.push(Warning::NoPoints { path: file.clone() });
    }
    let masks = options.masks.clone().unwrap_or_else(|| root.join("masks"));
    Assembly {
        source: file.clone(),
        cameras_file: file.clone(),
        file,
        kind,
        extension: Extension::MayBeMissing,
        name_folder: Some(data),
        applied_transform,
        root,
        folder,
        masks,
        cameras: Vec::new(),
        points,
    }
    .finish(listed, options, report)
}

/// What the two kinds of sources have in common once they are read.
struct Assembly {
    root: PathBuf,
    source: PathBuf,
    /// The file that lists the pictures, for messages.
    file: PathBuf,
    /// The file that lists the cameras, for messages.
    cameras_file: PathBuf,
    kind: DatasetKind,
    folder: PathBuf,
    masks: PathBuf,
    extension: Extension,
    /// Folder of `mask_path` entries.
    name_folder: Option<Root>,
    cameras: Vec<SourceCamera>,
    points: Vec<Point>,
    applied_transform: Option<AppliedTransform>,
}

impl Assembly {
    fn finish(
        mut self,
        listed: Vec<Listed>,
        options: &OpenOptions,
        mut report: Report,
    ) -> Result<Dataset, DatasetError> {
        let listed_count = listed.len();
        let present = self.present(listed, options, &mut report)?;
        let present_count = present.len();
        let (images, split) = self.entries(present, options, &mut report)?;
        self.check_enough(listed_count, present_count, &images, &split, &report)?;

        let centres: Vec<[f64; 3]> = split.train.iter().map(|&i| images[i].pose.centre()).collect();
        if split.train.len() < FEW_IMAGES {
            let warning = Warning::FewImages { path: self.file.clone(), count: split.train.len() };
            report.warnings.push(warning);
        }
        let (extent, spread) = scene_extent(&centres, &self.points);
        if spread == 0.0 && centres.len() > 1 && options.scene_extent.is_none() {
            report.warnings.push(Warning::CoincidentCameras { path: self.file.clone(), extent });
        }
        report.skipped.sort_by(|a, b| a.name.cmp(&b.name));
        let mut dataset = Dataset {
            root: self.root,
            source: self.source,
            images_folder: self.folder,
            kind: self.kind,
            cameras: self.cameras,
            images,
            points: self.points,
            split,
            background: if self.kind == DatasetKind::Blender { [1.0; 3] } else { [0.0; 3] },
            alpha: options.alpha,
            scene_extent: options.scene_extent.unwrap_or(extent),
            applied_transform: self.applied_transform,
            warnings: report.warnings,
            skipped: report.skipped,
            fingerprint: String::new(),
        };
        dataset.fingerprint = super::fingerprint::of(&dataset);
        Ok(dataset)
    }

    /// Pictures with a file and a pose, each once, by name, with their half of the split.
    fn present(
        &self,
        listed: Vec<Listed>,
        options: &OpenOptions,
        report: &mut Report,
    ) -> Result<Vec<Present>, DatasetError> {
        let root = Root::new(&self.folder, options.allow_outside)
            .map_err(|_| DatasetError::NoImageFolder { path: self.folder.clone() })?;
        let listed_count = listed.len();
        let mut missing = Vec::new();
        let mut present: Vec<Present> = Vec::new();
        for mut entry in listed {
            let mut found = root.find(&entry.name, self.extension);
            if let (Err(SkipReason::Missing), Some((_, rest)), true) =
                (&found, entry.name.trim_start_matches("./").split_once('/'), options.images.is_some())
            {
                // `images/a.jpg` of a JSON file, looked for in another folder of pictures.
                found = root.find(rest, self.extension);
            }
            let pose = std::mem::replace(&mut entry.pose, Ok(Pose::IDENTITY)).and_then(|pose| {
                let distance = pose.translation.iter().fold(0.0f64, |far, v| far.max(v.abs()));
                if distance <= MAX_DISTANCE { Ok(pose) } else { Err(SkipReason::TooFar(distance)) }
            });
            match (found, pose) {
                (Ok(found), Ok(pose)) => {
                    let role = entry.role;
                    present.push(Present { listed: entry, found, pose, role });
                }
                (Err(SkipReason::Missing), _) => {
                    missing.push(entry.name.clone());
                    report.skip(&entry.name, SkipReason::Missing);
                }
                (Err(reason), _) | (_, Err(reason)) => report.skip(&entry.name, reason),
            }
        }
        if let Some(first) = missing.first() {
            let (count, hint) = (missing.len(), root.twin_in_case(first));
            let folder = self.folder.clone();
            missing.truncate(10);
            let warning = Warning::MissingFiles { folder, count, listed: listed_count, names: missing, hint };
            report.warnings.push(warning);
        }
        // Stable: of twins, the first listed stays.
        present.sort_by(|a, b| a.found.name.as_bytes().cmp(b.found.name.as_bytes()));
        let mut last: Option<String> = None;
        present.retain(|p| {
            let is_twin = last.as_deref() == Some(&p.found.name);
            if is_twin {
                report.skip(&p.found.name, SkipReason::DuplicateName);
            } else {
                last = Some(p.found.name.clone());
            }
            !is_twin
        });
        for (index, picture) in present.iter_mut().enumerate() {
            if picture.role == Role::Undecided {
                let held_out = options.test_every > 0 && index % options.test_every == 0;
                picture.role = if held_out { Role::Test } else { Role::Train };
            }
        }
        Ok(present)
    }

    /// Looks at each picture's header and makes its camera.
    fn entries(
        &mut self,
        present: Vec<Present>,
        options: &OpenOptions,
        report: &mut Report,
    ) -> Result<(Vec<ImageEntry>, Split), DatasetError> {
        let mut notes = Notes::default();
        let mut known_cameras = BTreeMap::new();
        let mut lenses = BTreeMap::new();
        let (mut images, mut split) = (Vec::new(), Split::default());
        for picture in present {
            let Present { listed, found, pose, role } = picture;
            let header = match read_header(&found.path) {
                Ok(header) => header,
                Err(e) => {
                    report.skip(&found.name, SkipReason::Unreadable(e.problem));
                    continue;
                }
            };
            notes.orientation(&found.name, &header);
            let stored = [header.width, header.height];
            let source_camera = match listed.camera {
                CameraOf::Known(index) => index,
                CameraOf::Intrinsics { values, file, frame } => {
                    let id = self.cameras.len() as u32;
                    let camera = values
                        .camera(id, stored)
                        .map_err(|problem| DatasetError::malformed(&file, place_of(frame), problem))?;
                    *known_cameras.entry(camera_key(&camera)).or_insert_with(|| {
                        self.cameras.push(camera);
                        self.cameras.len() - 1
                    })
                }
            };
            let source = &self.cameras[source_camera];
            if let Err(reason) = check_shape(source, stored) {
                report.skip(&found.name, reason);
                continue;
            }
            notes.rescaled(&found.name, source, stored);
            let size = training_size(stored, options.max_resolution);
            let lens = lenses.entry((source_camera, stored)).or_insert_with(|| lens_at(source, stored));
            let camera = match warp::pinhole_for(lens, stored, size[0], size[1]) {
                Ok(camera) => camera,
                Err(e) => {
                    report.skip(&found.name, SkipReason::Camera(e));
                    continue;
                }
            };
            let mask = match self.mask_of(&found.name, listed.mask.as_deref(), stored, &mut notes) {
                Ok(mask) => mask,
                Err(reason) => {
                    report.skip(&found.name, reason);
                    continue;
                }
            };
            match role {
                Role::Test => split.test.push(images.len()),
                _ => split.train.push(images.len()),
            }
            images.push(ImageEntry {
                name: Arc::from(found.name.as_str()),
                file_bytes: std::fs::metadata(&found.path).map_or(0, |m| m.len()),
                path: found.path,
                id: listed.id,
                frame: listed.frame,
                source_camera,
                stored_size: stored,
                camera,
                pose,
                mask,
            });
        }
        notes.report(&self.folder, &mut report.warnings);
        Ok((images, split))
    }

    /// The mask file of a picture, whose header must be readable.
    fn mask_of(
        &self,
        name: &str,
        named: Option<&str>,
        stored: [u32; 2],
        notes: &mut Notes,
    ) -> Result<Option<PathBuf>, SkipReason> {
        let named = named.zip(self.name_folder.as_ref());
        let path = match named.and_then(|(mask, folder)| folder.find(mask, Extension::Required).ok()) {
            Some(found) => Some(found.path),
            None => find_mask(&self.masks, &self.folder, name).or_else(|| {
                // `images/a.jpg` of a JSON file: masks/a.png and the like.
                name.split_once('/').and_then(|(_, rest)| find_mask(&self.masks, &self.folder, rest))
            }),
        };
        let Some(path) = path else { return Ok(None) };
        match read_header(&path) {
            Ok(header) => notes.mask(&path, [header.width, header.height], stored),
            Err(e) => return Err(SkipReason::Mask { path, problem: e.problem }),
        }
        Ok(Some(path))
    }

    /// Refuses a dataset of which too little is left.
    fn check_enough(
        &self,
        listed: usize,
        present: usize,
        images: &[ImageEntry],
        split: &Split,
        report: &Report,
    ) -> Result<(), DatasetError> {
        let unreadable = || report.skipped.iter().filter(|s| s.reason.is_unreadable());
        let count = unreadable().count();
        if let (Some(first), true) = (unreadable().next(), count * UNREADABLE_LIMIT > present) {
            return Err(DatasetError::TooManyUnreadable {
                folder: self.folder.clone(),
                unreadable: count,
                present,
                first: Box::new(first.clone()),
            });
        }
        if images.is_empty() {
            let untrainable = report.skipped.iter().find_map(|s| match s.reason {
                SkipReason::Untrainable(model) => Some(model),
                _ => None,
            });
            if let Some(model) = untrainable {
                let camera = self.cameras.iter().find(|c| c.model == model).map_or(0, |c| c.id);
                return Err(DatasetError::Untrainable { path: self.cameras_file.clone(), camera, model });
            }
            let first = report.skipped.first().cloned().map(Box::new);
            return Err(DatasetError::NoImages { path: self.file.clone(), listed, first });
        }
        if split.train.is_empty() {
            return Err(DatasetError::NothingToTrainOn { path: self.file.clone(), images: images.len() });
        }
        Ok(())
    }
}

/// Facts about many pictures that make one warning each.
#[derive(Default)]
struct Notes {
    oriented: Option<(usize, String, u8)>,
    rescaled: Option<(usize, String, [u32; 2], [u32; 2])>,
    masks: Option<(usize, PathBuf, [u32; 2], [u32; 2])>,
}

impl Notes {
    fn orientation(&mut self, name: &str, header: &Header) {
        if header.orientation != 1 {
            self.oriented.get_or_insert_with(|| (0, name.to_owned(), header.orientation)).0 += 1;
        }
    }

    fn rescaled(&mut self, name: &str, camera: &SourceCamera, stored: [u32; 2]) {
        let size = [camera.width, camera.height];
        if size != stored {
            self.rescaled.get_or_insert_with(|| (0, name.to_owned(), stored, size)).0 += 1;
        }
    }

    fn mask(&mut self, path: &Path, found: [u32; 2], picture: [u32; 2]) {
        if found != picture {
            self.masks.get_or_insert_with(|| (0, path.to_owned(), found, picture)).0 += 1;
        }
    }

    fn report(self, folder: &Path, warnings: &mut Vec<Warning>) {
        let folder = || folder.to_owned();
        if let Some((count, name, orientation)) = self.oriented {
            warnings.push(Warning::Orientation { folder: folder(), count, name, orientation });
        }
        if let Some((count, name, found, camera)) = self.rescaled {
            warnings.push(Warning::Rescaled { folder: folder(), count, name, found, camera });
        }
        if let Some((count, path, found, picture)) = self.masks {
            warnings.push(Warning::MaskResized { path, count, found, picture });
        }
    }
}

/// Frames of more than one image: frame id of each image id.
fn shared_frames(mut frame_of: BTreeMap<u32, u32>) -> BTreeMap<u32, u32> {
    let mut sizes = BTreeMap::new();
    frame_of.values().for_each(|&frame| *sizes.entry(frame).or_insert(0u32) += 1);
    frame_of.retain(|_, frame| sizes.get(frame).is_some_and(|&size| size > 1));
    frame_of
}

/// The JSON place of intrinsics.
fn place_of(frame: Option<usize>) -> String {
    frame.map_or_else(|| "top level".to_owned(), |frame| format!("frames[{frame}]"))
}

/// What makes two cameras the same, with a total order.
fn camera_key(camera: &SourceCamera) -> (u8, [u32; 2], Vec<u64>) {
    let params = camera.params.iter().map(|p| p.to_bits()).collect();
    (camera.model.id(), [camera.width, camera.height], params)
}

/// Whether a picture can be of a camera: one ratio for both sides, each within a pixel, and a model that trains.
fn check_shape(camera: &SourceCamera, stored: [u32; 2]) -> Result<(), SkipReason> {
    if camera.model == CameraModel::Equirectangular {
        return Err(SkipReason::Untrainable(camera.model));
    }
    let size = [camera.width, camera.height];
    if fits(stored, size) {
        return Ok(());
    }
    Err(SkipReason::Size { found: stored, camera: size, turned: fits([stored[1], stored[0]], size) })
}

/// Whether one ratio takes `camera` to `found` within a pixel on each side.
fn fits(found: [u32; 2], camera: [u32; 2]) -> bool {
    let ratios = |k: usize| {
        let (found, camera) = (f64::from(found[k]), f64::from(camera[k]));
        [(found - 1.0) / camera, (found + 1.0) / camera]
    };
    let ([low_x, high_x], [low_y, high_y]) = (ratios(0), ratios(1));
    low_x.max(low_y) <= high_x.min(high_y)
}

/// The lens of a camera for pictures of another size.
pub(super) fn lens_at(camera: &SourceCamera, stored: [u32; 2]) -> Lens {
    let ratio = |found: u32, of: u32| f64::from(found) / f64::from(of);
    camera.lens().scaled(ratio(stored[0], camera.width), ratio(stored[1], camera.height))
}

/// Size of the training picture: as stored, or with `longest` as its long side.
fn training_size(stored: [u32; 2], longest: u32) -> [u32; 2] {
    let long = stored[0].max(stored[1]);
    if longest == 0 || long <= longest {
        return stored;
    }
    let scale = f64::from(longest) / f64::from(long);
    stored.map(|side| ((f64::from(side) * scale).round() as u32).clamp(1, longest))
}

/// Scene extent, and the largest distance of a camera from their mean.
pub(super) fn scene_extent(centres: &[[f64; 3]], points: &[Point]) -> (f64, f64) {
    let share = 1.0 / centres.len().max(1) as f64;
    let mut mean = [0.0; 3];
    for centre in centres {
        (0..3).for_each(|k| mean[k] += share * centre[k]);
    }
    let distance = |p: [f64; 3]| {
        let d = [p[0] - mean[0], p[1] - mean[1], p[2] - mean[2]];
        (d[0] * d[0] + d[1] * d[1] + d[2] * d[2]).sqrt()
    };
    let spread = centres.iter().map(|&c| distance(c)).fold(0.0, f64::max);
    // Centres are computed from rotations and translations: one place is one place up to rounding.
    let is_one_place = spread <= 1e-9 * (1.0 + se3::norm(mean));
    let spread = if is_one_place { 0.0 } else { spread };
    let mut distances: Vec<f64> = points.iter().map(|p| distance(p.position)).collect();
    let median = super::median(&mut distances).unwrap_or(0.0);
    let extent = (EXTENT_MARGIN * spread).max(median);
    // One camera and no points: any unit is as good as another.
    let is_usable = extent.is_finite() && extent > 0.0;
    (if is_usable { extent } else { 1.0 }, spread)
}
