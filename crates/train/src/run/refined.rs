//! The cameras of a dataset in the axes of the saved splats: `RUN/cameras.json`, and with refined poses `RUN/cameras/`.
//!
//! `cameras.json` has the layout of the released 3DGS code (Kerbl et al. 2023, `camera_to_JSON`), which viewers import:
//! a list of `id`, `img_name`, `width`, `height`, `position` (of the camera), `rotation` (rows of `world_from_camera`,
//! y down, z ahead), `fx`, `fy`; in addition the principal point, `cx` and `cy`. All image lengths are in px.
//!
//! A COLMAP model is written as a COLMAP model, a `transforms.json` as a `transforms.json`; intrinsics are those of the
//! dataset. Held-out views keep their poses, but are rotated with the others.

use std::io::Write;
use std::path::Path;

use gausset_core::se3::{self, Mat3};
use gausset_core::splats_transform::Similarity;
use gausset_core::{Camera, Pose};
use gausset_io::atomic::{FileSystem, Overwrite, WriteError, write_atomic};
use gausset_io::dataset::colmap::{ColmapImage, ColmapModel, ColmapPoint, ModelFolder, ModelFormat};
use gausset_io::dataset::{Dataset, DatasetKind, Face, ImageEntry, SourceCamera};
use gausset_io::ownership;
use gausset_io::run_folder::{CAMERAS_MARKER, cameras_folder, cameras_json_path};
use serde::Serialize;
use serde_json::{Map, Value, json};

/// A camera in the format of the released 3DGS code.
#[derive(Serialize)]
struct CameraJson<'a> {
    id: usize,
    img_name: &'a str,
    width: u32,
    height: u32,
    position: [f64; 3],
    rotation: Mat3,
    fx: f64,
    fy: f64,
    cx: f64,
    cy: f64,
}

/// Writes `cameras.json`: the cameras of the dataset with `poses`, one per image, in the axes of the saved splats.
pub(super) fn write_cameras_json(
    fs: &dyn FileSystem,
    run: &Path,
    dataset: &Dataset,
    poses: &[Pose],
) -> Result<(), WriteError> {
    let listed = dataset.images.iter().zip(poses).enumerate().map(|(id, (image, pose))| {
        let Camera { width, height, fx, fy, cx, cy, .. } = image.camera.as_pinhole();
        let (position, rotation) = (pose.centre(), se3::transpose(&pose.rotation));
        CameraJson { id, img_name: &image.name, width, height, position, rotation, fx, fy, cx, cy }
    });
    write_atomic(fs, &cameras_json_path(run), |file| {
        // One camera per line, for readability.
        let mut mark = "[\n";
        for camera in listed {
            file.write_all(mark.as_bytes())?;
            serde_json::to_writer(&mut *file, &camera)?;
            mark = ",\n";
        }
        file.write_all(if mark == "[\n" { b"[]\n" } else { b"\n]\n" })
    })?;
    Ok(())
}

/// Writes `RUN/cameras/`: the cameras of the dataset with refined `poses`, one per image. `turn` maps the axes of the
/// dataset to those of the saved splats, which are those of `poses`.
pub(super) fn write_cameras(
    fs: &dyn FileSystem,
    run: &Path,
    dataset: &Dataset,
    poses: &[Pose],
    turn: &Similarity,
) -> Result<(), WriteError> {
    let folder = cameras_folder(run);
    let files = match dataset.kind {
        DatasetKind::Colmap => colmap_files(dataset, poses, turn),
        _ => vec![("transforms.json", transforms_file(dataset, poses))],
    };
    // Ownership of existing files was checked when the run folder was taken.
    ownership::claim_for_files(
        fs,
        &folder,
        CAMERAS_MARKER,
        files.iter().map(|(name, _)| name),
        Overwrite::Replace,
    )?;
    for (name, content) in files {
        write_atomic(fs, &folder.join(name), |file| file.write_all(&content))?;
    }
    Ok(())
}

/// Pose of the stored image. The faces of a panorama move together, so its first face determines the pose.
fn stored_pose(image: &ImageEntry, pose: &Pose) -> Option<Pose> {
    match image.face {
        None => Some(*pose),
        Some(Face::Front) => Some(Face::Front.panorama_pose(pose)),
        Some(_) => None,
    }
}

/// The files of a COLMAP model, text or binary like the dataset's.
fn colmap_files(dataset: &Dataset, poses: &[Pose], turn: &Similarity) -> Vec<(&'static str, Vec<u8>)> {
    let format = match ModelFolder::find(&dataset.source) {
        Ok(Some(found)) => found.format,
        _ => ModelFormat::Binary,
    };
    let mut images: Vec<ColmapImage> = dataset
        .images
        .iter()
        .zip(poses)
        .filter_map(|(image, pose)| {
            let camera = dataset.cameras.get(image.source_camera).map_or(0, |camera| camera.id);
            Some(ColmapImage::new(
                image.id,
                image.stored_name().to_owned(),
                camera,
                &stored_pose(image, pose)?,
            ))
        })
        .collect();
    images.sort_by_key(|image| image.id);
    let points = dataset.points.iter().zip(1..).map(|(point, id)| ColmapPoint {
        id,
        position: turn.apply(point.position),
        colour: point.colour,
        error: point.error,
        track_length: 0,
        track: Vec::new(),
    });
    let model = ColmapModel { cameras: dataset.cameras.clone(), images, points: points.collect() };
    model.to_files(format).into()
}

/// A `transforms.json` with intrinsics per frame; image names as in the dataset.
fn transforms_file(dataset: &Dataset, poses: &[Pose]) -> Vec<u8> {
    let frames: Vec<Value> = dataset
        .images
        .iter()
        .zip(poses)
        .filter_map(|(image, pose)| {
            let pose = &stored_pose(image, pose)?;
            let mut frame = dataset.cameras.get(image.source_camera).map(intrinsics).unwrap_or_default();
            frame.insert("file_path".to_owned(), json!(image.stored_name()));
            frame.insert("transform_matrix".to_owned(), json!(opengl_matrix(pose)));
            Some(Value::Object(frame))
        })
        .collect();
    format!("{:#}\n", json!({ "frames": frames })).into_bytes()
}

/// Intrinsics under the keys of Nerfstudio.
fn intrinsics(camera: &SourceCamera) -> Map<String, Value> {
    let mut keys = Map::new();
    keys.insert("camera_model".to_owned(), json!(camera.model.name()));
    keys.insert("w".to_owned(), json!(camera.width));
    keys.insert("h".to_owned(), json!(camera.height));
    for (name, value) in camera.model.parameters().iter().zip(&camera.params) {
        let names: &[&str] = match *name {
            "f" => &["fl_x", "fl_y"],
            "fx" => &["fl_x"],
            "fy" => &["fl_y"],
            other => &[other],
        };
        for name in names {
            keys.insert((*name).to_owned(), json!(value));
        }
    }
    keys
}

/// `world_from_camera` with OpenGL axes (y up, looking along -z).
fn opengl_matrix(camera_from_world: &Pose) -> [[f64; 4]; 4] {
    let r = &camera_from_world.rotation;
    let centre = camera_from_world.centre();
    let row = |k: usize| [r[0][k], -r[1][k], -r[2][k], centre[k]];
    [row(0), row(1), row(2), [0.0, 0.0, 0.0, 1.0]]
}
