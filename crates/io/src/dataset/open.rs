//! Opens datasets: from a path to a [`Dataset`].
//!
//! ```text
//! find the source ─▶ list frames ─▶ find files ─▶ poses ─▶ sort by name
//!                                        ─▶ split ─▶ image headers ─▶ cameras ─▶ points
//! ```
//! This file handles the two kinds of sources separately; [`super::assemble`] does what they share.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use gausset_core::Pose;

use super::assemble::{CameraSource, DatasetBuilder, Findings, ListedImage};
use super::colmap::{ColmapPoint, ModelFolder, Observations, PointItem};
use super::error::DatasetError;
use super::exports;
use super::paths::{ExtensionRule, NameResolver, file_in};
use super::points::PointCollector;
use super::source::{self, ColmapSource, JsonFile, JsonSource, Source, SplitRole};
use super::transforms::{Frame, Transforms};
use super::warning::{SkipReason, Warning};
use super::{AppliedTransform, Dataset, DatasetKind, Georeference, OpenOptions, Point};

/// See [`super::open`].
pub(super) fn open(path: &Path, options: &OpenOptions) -> Result<Dataset, DatasetError> {
    let _span = gausset_prof::span("open");
    if let Some(masks) = &options.masks {
        // A mask folder from the options must not be missing silently.
        std::fs::read_dir(masks).map_err(|e| DatasetError::io(masks, "open masks", &e))?;
    }
    let mut report = Findings::default();
    match source::find(path, options, &mut report.warnings)? {
        Source::Colmap(source) => open_colmap(source, options, report),
        Source::Json(source) => open_json(source, options, report),
        Source::Export(source) => exports::open(source, options, report),
    }
}

fn open_colmap(
    source: ColmapSource,
    options: &OpenOptions,
    mut report: Findings,
) -> Result<Dataset, DatasetError> {
    let folder = source::image_folder(&source, options, &mut report.warnings)?;
    let ColmapSource { root, model, cameras, images, .. } = source;
    let frame_of = shared_frames(model.frames().unwrap_or_else(|e| {
        report.warnings.push(Warning::FramesUnreadable { reason: e.to_string() });
        BTreeMap::new()
    }));
    let listed = images
        .into_iter()
        .map(|image| ListedImage {
            id: image.id,
            frame: frame_of.get(&image.id).copied(),
            pose: Pose::from_quaternion(image.quaternion, image.translation).map_err(SkipReason::Pose),
            // The reader has checked that the camera exists.
            camera: CameraSource::Known(
                cameras.binary_search_by_key(&image.camera_id, |c| c.id).unwrap_or_default(),
            ),
            name: image.name,
            mask: None,
            role: SplitRole::Undecided,
        })
        .collect();
    let georeference = Georeference::read(&model.path).unwrap_or_else(|error| {
        report.warnings.push(Warning::GeoreferenceUnreadable { reason: error.to_string() });
        None
    });
    let mut read = vec![model.path.clone()];
    let points = colmap_points(&root, &model, options, &mut read, &mut report)?;
    DatasetBuilder {
        file: model.images_path(),
        cameras_file: model.cameras_path(),
        read,
        source: model.path.clone(),
        model: Some(model),
        kind: DatasetKind::Colmap,
        extension: ExtensionRule::Required,
        name_folder: None,
        applied_transform: None,
        georeference,
        root,
        folder,
        cameras,
        points,
    }
    .build(listed, options, report)
}

/// Points of a model, or of a PLY file where it has none, which is added to the files that are read.
fn colmap_points(
    root: &Path,
    model: &ModelFolder,
    options: &OpenOptions,
    read: &mut Vec<PathBuf>,
    report: &mut Findings,
) -> Result<Vec<Point>, DatasetError> {
    let points_path = model.points_path();
    let mut list = PointCollector::new(&points_path, options.memory_bytes);
    model.for_each_point(Observations::Skip, &mut |next| match next {
        PointItem::Expected(count) => list.reserve(count),
        PointItem::Point(point) => {
            let ColmapPoint { id, position, colour, error, track_length, .. } = point;
            let track_length = u32::try_from(track_length).unwrap_or(u32::MAX);
            list.add(id, Point { position, colour, error, track_length })
        }
    })?;
    let dropped = list.dropped;
    let mut points = list.into_points();
    if dropped > 0 {
        report.warnings.push(Warning::PointsDropped { path: points_path.clone(), count: dropped });
    }
    if points.is_empty() {
        let in_root = |name| file_in(root, name);
        let places =
            [file_in(&model.path, "points3D.ply"), in_root("points3D.ply"), in_root("sparse_pc.ply")];
        match source::usual_ply_points(&places, &model.path, options.memory_bytes, &mut report.warnings)? {
            Some(found) => {
                read.push(found.path);
                points = found.points;
            }
            None => report.warnings.push(Warning::NoPoints { path: points_path }),
        }
    }
    Ok(points)
}

fn open_json(
    source: JsonSource,
    options: &OpenOptions,
    mut report: Findings,
) -> Result<Dataset, DatasetError> {
    let JsonSource { root, kind, files } = source;
    let folder = options.images.clone().unwrap_or_else(|| root.clone());
    let data = NameResolver::new(&root, options.allow_outside);
    let mut listed = Vec::new();
    let mut applied_transform = None;
    let mut points = Vec::new();
    let mut read: Vec<_> = files.iter().map(|file| file.path.clone()).collect();
    for JsonFile { path, content, roles } in &files {
        let mut unused = 0;
        report.warnings.extend(scaled_poses(path, content));
        report.skipped.extend(content.skipped.iter().cloned());
        for (frame, &role) in content.frames.iter().zip(roles) {
            if role == SplitRole::Unused {
                unused += 1;
                continue;
            }
            let values = match &frame.intrinsics {
                Some(own) => own.with_defaults(&content.intrinsics),
                None => content.intrinsics.clone(),
            };
            listed.push(ListedImage {
                id: u32::try_from(listed.len()).unwrap_or(u32::MAX),
                frame: None,
                name: frame.file_path.clone(),
                pose: frame.pose(),
                camera: CameraSource::Intrinsics {
                    values: Box::new(values),
                    file: path.to_owned(),
                    are_own: frame.intrinsics.is_some(),
                },
                // A folder that is given counts more.
                mask: frame.mask_path.clone().filter(|_| options.masks.is_none()),
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
            match source::ply_points(&data, name, path, options.memory_bytes, &mut report.warnings)? {
                Ok(found) => {
                    points = found.points;
                    read.push(found.path.clone());
                    if found.dropped > 0 {
                        let warning = Warning::PointsDropped { path: found.path, count: found.dropped };
                        report.warnings.push(warning);
                    }
                }
                Err(error) => {
                    report.warnings.push(Warning::PointsUnreadable { reason: error.to_string() });
                }
            }
        }
    }
    let file = files.first().map_or_else(|| root.clone(), |f| f.path.clone());
    if points.is_empty() {
        let places = ["sparse_pc.ply", "points3D.ply"].map(|name| file_in(&root, name));
        match source::usual_ply_points(&places, &file, options.memory_bytes, &mut report.warnings)? {
            Some(found) => {
                read.push(found.path);
                points = found.points;
            }
            None => report.warnings.push(Warning::NoPoints { path: file.clone() }),
        }
    }
    DatasetBuilder {
        source: file.clone(),
        model: None,
        read,
        cameras_file: file.clone(),
        file,
        kind,
        extension: ExtensionRule::MayBeMissing,
        name_folder: Some(data),
        applied_transform,
        georeference: None,
        root,
        folder,
        cameras: Vec::new(),
        points,
    }
    .build(listed, options, report)
}

/// What is to be said of frames whose matrices have a scale.
fn scaled_poses(path: &Path, content: &Transforms) -> Option<Warning> {
    let is_scaled = |frame: &&Frame| (frame.scale() - 1.0).abs() > 0.01 && frame.pose().is_ok();
    let mut scaled = content.frames.iter().filter(is_scaled);
    let (name, scale) = scaled.next().map(|frame| (crate::text::excerpt(&frame.file_path), frame.scale()))?;
    Some(Warning::ScaledPoses { path: path.to_owned(), count: 1 + scaled.count(), name, scale })
}

/// Keeps frames with more than one image, as a map from image id to frame id.
fn shared_frames(mut frame_of: BTreeMap<u32, u32>) -> BTreeMap<u32, u32> {
    let mut sizes = BTreeMap::new();
    frame_of.values().for_each(|&frame| *sizes.entry(frame).or_insert(0u32) += 1);
    frame_of.retain(|_, frame| sizes.get(frame).is_some_and(|&size| size > 1));
    frame_of
}
