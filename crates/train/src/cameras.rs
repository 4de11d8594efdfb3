//! Cameras to render from: those of a dataset, or a camera path from a file. Orbits are in [`crate::orbit`].
//!
//! Poses are `camera_from_world` in the axes of the *saved* splats. Cameras of a dataset and of a `transforms.json` are
//! in the dataset's axes and are rotated like the splats. A Nerfstudio camera path is created in a viewer that shows
//! the saved splats and is not rotated.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use gausset_core::camera::CameraError;
use gausset_core::se3::Mat3;
use gausset_core::splats_transform::Similarity;
use gausset_core::{Camera, Pose};
use gausset_io::dataset::{CameraModel, Dataset, DatasetError, SkipReason, SourceCamera, transforms};
use gausset_io::image::MAX_PIXELS;
use gausset_io::text::one_line;
use gausset_io::{input, output_names};
use serde::Deserialize;

use crate::option_values::Split;

/// Maximum size of a camera path file, in bytes.
const MAX_PATH_BYTES: u64 = 64 << 20;
/// Maximum number of cameras in a path.
const MAX_CAMERAS: usize = 100_000;

/// A camera with a name for its render.
#[derive(Clone, Debug, PartialEq)]
pub struct NamedCamera {
    /// Name for the files of its render, without extension: a path that stays inside the output folder, unique per
    /// camera.
    pub name: PathBuf,
    /// Intrinsics and image size of the render.
    pub camera: Camera,
    /// `camera_from_world`, in the axes of the saved splats.
    pub pose: Pose,
}

/// Why a camera path is invalid.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CameraPathError {
    /// The file could not be read.
    #[error("{}: read: {}", path.display(), gausset_io::atomic::plain_reason(source))]
    Io {
        /// The file that could not be read.
        path: PathBuf,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// The file does not contain valid cameras.
    #[error("{}: {place}: {what}", path.display())]
    Malformed {
        /// The file with the invalid cameras.
        path: PathBuf,
        /// Line or field.
        place: String,
        /// What is wrong, with expected and found values.
        what: String,
    },
    /// The file is an invalid `transforms.json`.
    #[error(transparent)]
    Transforms(#[from] DatasetError),
}

/// Why numbers are not a camera pose.
#[derive(Debug, thiserror::Error)]
enum MatrixError {
    #[error("has {0} numbers (expected 16)")]
    Length(usize),
    #[error(transparent)]
    Pose(#[from] SkipReason),
}

/// Suffixes of a camera's name for its files other than colour.
pub const FILE_SUFFIXES: [&str; 2] = ["_alpha", "_depth"];

/// The cameras of a dataset's split, in the coordinates of the splats. Their names do not depend on the split.
#[must_use]
pub fn dataset_cameras(
    dataset: &Dataset,
    split: Split,
    splats_from_dataset: &Similarity,
) -> Vec<NamedCamera> {
    let views = match split {
        Split::Train => &dataset.split.train,
        Split::Test => &dataset.split.test,
    };
    // A name may be an absolute path into the image folder; the location of that folder is not part of the name.
    let folder = format!("{}/", dataset.images_folder.display());
    let own_name = |name: &'_ Arc<str>| name.strip_prefix(&folder).unwrap_or(name).to_owned();
    let own_names: Vec<String> = dataset.images.iter().map(|image| own_name(&image.name)).collect();
    let own_names: Vec<&str> = own_names.iter().map(String::as_str).collect();
    let names = output_names::distinct_paths(&own_names, &FILE_SUFFIXES);
    let images = views.iter().map(|&index| (&dataset.images[index], &names[index]));
    images
        .map(|(image, name)| NamedCamera {
            name: name.clone(),
            camera: image.camera,
            pose: splats_from_dataset.apply_to_pose(&image.pose),
        })
        .collect()
}

/// The JSON of a Nerfstudio camera path.
#[derive(Deserialize)]
struct NerfstudioPath {
    camera_path: Vec<NerfstudioCamera>,
    camera_type: Option<String>,
    render_width: Option<f64>,
    render_height: Option<f64>,
}

/// A camera of a Nerfstudio camera path.
#[derive(Deserialize)]
struct NerfstudioCamera {
    /// `world_from_camera`, OpenGL axes, 4x4 row-major.
    camera_to_world: Vec<f64>,
    /// Vertical field of view in degrees.
    fov: f64,
}

/// A camera of a `cameras.json`, as written by the released 3DGS code and by every run.
#[derive(Deserialize)]
struct CameraJson {
    img_name: String,
    width: u32,
    height: u32,
    position: [f64; 3],
    /// Rows of `world_from_camera`.
    rotation: Mat3,
    fx: f64,
    fy: f64,
    cx: Option<f64>,
    cy: Option<f64>,
}

/// Reads the cameras of a file: a Nerfstudio camera path or a `cameras.json`, which refer to the saved splats and are
/// not rotated, or a `transforms.json`, which is moved and rotated like the saved splats. `size` is used if the file has
/// no image size. Distortion is ignored.
///
/// # Errors
/// The file has none of these formats, or contains an invalid camera or pose; no size is given where one is needed.
pub fn read_path(
    path: &Path,
    size: Option<[u32; 2]>,
    splats_from_dataset: &Similarity,
    offset: Option<[f64; 3]>,
) -> Result<Vec<NamedCamera>, CameraPathError> {
    let io = |source| CameraPathError::Io { path: path.to_owned(), source };
    let bytes = input::read(path, MAX_PATH_BYTES).map_err(io)?;
    // Parses only the key that distinguishes the formats; each format has its own reader.
    #[derive(Deserialize)]
    struct Kind {
        camera_path: Option<serde::de::IgnoredAny>,
    }
    if bytes.trim_ascii_start().starts_with(b"[") {
        return check_sizes(path, listed_cameras(path, &bytes, size)?);
    }
    let kind: Kind = serde_json::from_slice(&bytes).map_err(|error| json_error(path, &error))?;
    let cameras = if kind.camera_path.is_some() {
        nerfstudio_cameras(path, &bytes, size)
    } else {
        transforms_cameras(path, size, &splats_from_source(splats_from_dataset, offset))
    }?;
    check_sizes(path, cameras)
}

/// The transform to the splats from a dataset before `offset` was subtracted from its coordinates.
fn splats_from_source(splats_from_dataset: &Similarity, offset: Option<[f64; 3]>) -> Similarity {
    let translation = offset.map_or([0.0; 3], |offset| offset.map(|v| -v));
    Similarity { translation, ..Similarity::IDENTITY }.then(splats_from_dataset)
}

/// Checks that every camera's image fits the size limits.
fn check_sizes(path: &Path, cameras: Vec<NamedCamera>) -> Result<Vec<NamedCamera>, CameraPathError> {
    let too_large = |view: &&NamedCamera| view.camera.pixels() as u64 > MAX_PIXELS;
    if let Some(NamedCamera { name, camera, .. }) = cameras.iter().find(too_large) {
        let (width, height) = (camera.width, camera.height);
        let what = format!("{width}x{height} px are too many (expected at most {MAX_PIXELS} in all)");
        return Err(malformed(path, format!("camera {}", name.display()), what));
    }
    Ok(cameras)
}

fn malformed(path: &Path, place: impl Into<String>, what: impl Into<String>) -> CameraPathError {
    CameraPathError::Malformed { path: path.to_owned(), place: place.into(), what: what.into() }
}

fn json_error(path: &Path, error: &serde_json::Error) -> CameraPathError {
    let text = error.to_string();
    let what = text.split(" at line ").next().unwrap_or_default();
    let what = format!(
        "{} (expected a Nerfstudio camera path, a transforms.json or a cameras.json; the cameras of any dataset: ⟨data⟩ and \
         ⟨split = all⟩)",
        one_line(what)
    );
    malformed(path, format!("line {}", error.line()), what)
}

fn listed_cameras(
    path: &Path,
    bytes: &[u8],
    size: Option<[u32; 2]>,
) -> Result<Vec<NamedCamera>, CameraPathError> {
    let listed: Vec<CameraJson> = serde_json::from_slice(bytes).map_err(|error| json_error(path, &error))?;
    if listed.is_empty() || listed.len() > MAX_CAMERAS {
        let what = format!("has {} cameras (expected 1..{MAX_CAMERAS})", listed.len());
        return Err(malformed(path, "cameras", what));
    }
    let names: Vec<&str> = listed.iter().map(|camera| camera.img_name.as_str()).collect();
    let names = output_names::distinct_paths(&names, &FILE_SUFFIXES);
    let cameras = listed.iter().zip(names).enumerate();
    cameras
        .map(|(index, (listed, name))| {
            let bad = |what: String| malformed(path, format!("[{index}]"), what);
            let [width, height] = size.unwrap_or([listed.width, listed.height]);
            let (across, down) = (
                f64::from(width) / f64::from(listed.width.max(1)),
                f64::from(height) / f64::from(listed.height.max(1)),
            );
            let cx = listed.cx.map_or(0.5 * f64::from(width), |cx| cx * across);
            let cy = listed.cy.map_or(0.5 * f64::from(height), |cy| cy * down);
            let camera = Camera::new(width, height, listed.fx * across, listed.fy * down, cx, cy)
                .map_err(|error| bad(error.to_string()))?;
            let [x, y, z] = listed.position;
            let [a, b, c] = listed.rotation;
            // The y and z columns are negated: OpenGL axes.
            let row = |[right, down, ahead]: [f64; 3], centre| [right, -down, -ahead, centre];
            let matrix = [row(a, x), row(b, y), row(c, z), [0.0, 0.0, 0.0, 1.0]].concat();
            let pose = pose_from_matrix(&matrix).map_err(|error| bad(error.to_string()))?;
            Ok(NamedCamera { name, camera, pose })
        })
        .collect()
}

fn nerfstudio_cameras(
    path: &Path,
    bytes: &[u8],
    size: Option<[u32; 2]>,
) -> Result<Vec<NamedCamera>, CameraPathError> {
    let file: NerfstudioPath = serde_json::from_slice(bytes).map_err(|error| json_error(path, &error))?;
    if let Some(kind) = file.camera_type.filter(|kind| kind != "perspective") {
        let what = format!("is `{}` (expected perspective)", kind.chars().take(40).collect::<String>());
        return Err(malformed(path, "camera_type", what));
    }
    if file.camera_path.is_empty() || file.camera_path.len() > MAX_CAMERAS {
        let what = format!("has {} cameras (expected 1..{MAX_CAMERAS})", file.camera_path.len());
        return Err(malformed(path, "camera_path", what));
    }
    let side = |value: Option<f64>| {
        value
            .filter(|v| v.fract() == 0.0 && (1.0..=f64::from(Camera::MAX_SIDE)).contains(v))
            .map(|v| v as u32)
    };
    let written = side(file.render_width).zip(side(file.render_height)).map(|(w, h)| [w, h]);
    let [width, height] = size.or(written).ok_or_else(|| {
        malformed(path, "render_width, render_height", "no image size (expected whole numbers of px)")
    })?;
    let cameras = file.camera_path.iter().enumerate();
    cameras
        .map(|(index, camera)| {
            let place = || format!("camera_path[{index}]");
            if !(camera.fov > 0.0 && camera.fov < 180.0) {
                let what =
                    format!("field of view is {} degrees (expected more than 0, less than 180)", camera.fov);
                return Err(malformed(path, place() + ".fov", what));
            }
            let focal = 0.5 * f64::from(height) / libm::tan(0.5 * camera.fov.to_radians());
            let (cx, cy) = (0.5 * f64::from(width), 0.5 * f64::from(height));
            let camera_error = |error: CameraError| malformed(path, place(), error.to_string());
            let pinhole = Camera::new(width, height, focal, focal, cx, cy).map_err(camera_error)?;
            let pose = pose_from_matrix(&camera.camera_to_world)
                .map_err(|error| malformed(path, place() + ".camera_to_world", error.to_string()))?;
            Ok(NamedCamera { name: format!("frame_{index:04}").into(), camera: pinhole, pose })
        })
        .collect()
}

/// `camera_from_world` of a row-major 4x4 `world_from_camera` with OpenGL axes.
fn pose_from_matrix(matrix: &[f64]) -> Result<Pose, MatrixError> {
    let rows: Vec<[f64; 4]> = matrix.as_chunks().0.to_vec();
    let Ok(matrix) = <[[f64; 4]; 4]>::try_from(rows) else {
        return Err(MatrixError::Length(matrix.len()));
    };
    let frame = transforms::Frame { file_path: String::new(), mask_path: None, matrix, intrinsics: None };
    Ok(frame.pose()?)
}

fn transforms_cameras(
    path: &Path,
    size: Option<[u32; 2]>,
    splats_from_source: &Similarity,
) -> Result<Vec<NamedCamera>, CameraPathError> {
    let file = transforms::read(path)?;
    if file.frames.len() > MAX_CAMERAS {
        let what = format!("has {} cameras (expected 1..{MAX_CAMERAS})", file.frames.len());
        return Err(malformed(path, "frames", what));
    }
    let frames = file.frames.iter().enumerate();
    frames
        .map(|(index, frame)| {
            let place = || format!("frames[{index}]");
            let general = &file.intrinsics;
            let intrinsics =
                frame.intrinsics.as_ref().map_or_else(|| general.clone(), |own| own.with_defaults(general));
            let has_size = intrinsics.w.is_some() && intrinsics.h.is_some();
            let stored = match size {
                Some(size) => size,
                None if has_size => [1, 1],
                None => {
                    return Err(malformed(path, place(), "no image size (expected w and h, or ⟨size⟩)"));
                }
            };
            let source = intrinsics
                .camera(index as u32, stored)
                .map_err(|problem| malformed(path, place(), problem.to_string()))?;
            let mut camera =
                without_distortion(&source).map_err(|error| malformed(path, place(), error.to_string()))?;
            if let Some([width, height]) = size {
                camera = camera.resized(width, height);
            }
            let pose = frame
                .pose()
                .map_err(|reason| malformed(path, place() + ".transform_matrix", reason.to_string()))?;
            let name = output_names::safe_path(&frame.file_path).with_extension("");
            let name = name.file_name().unwrap_or_default().display();
            let name = format!("{index:04}_{name}").into();
            Ok(NamedCamera { name, camera, pose: splats_from_source.apply_to_pose(&pose) })
        })
        .collect()
}

/// A camera of any model, without its distortion.
fn without_distortion(source: &SourceCamera) -> Result<Camera, CameraError> {
    if source.model == CameraModel::Equirectangular {
        return Camera::panorama(source.width, source.height);
    }
    let value = |names: [&str; 2]| {
        let mut parameters = source.model.parameters().iter().zip(&source.params);
        parameters.find(|(name, _)| names.contains(name)).map_or(f64::NAN, |(_, &value)| value)
    };
    let (fx, fy) = (value(["fx", "f"]), value(["fy", "f"]));
    Camera::new(source.width, source.height, fx, fy, value(["cx", "cx"]), value(["cy", "cy"]))
}

#[cfg(test)]
mod tests {
    use gausset_core::splats_transform::Similarity;

    use super::*;

    fn close(a: [f64; 3], b: [f64; 3]) -> bool {
        (0..3).all(|k| (a[k] - b[k]).abs() < 1e-9)
    }

    fn read(text: &str) -> Result<Vec<NamedCamera>, CameraPathError> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("path.json");
        std::fs::write(&path, text).unwrap();
        read_path(&path, None, &Similarity::IDENTITY, None)
    }

    #[test]
    fn a_nerfstudio_path_has_vertical_fields_of_view_and_opengl_axes() {
        let path = r#"{"camera_type": "perspective", "render_width": 200, "render_height": 100, "fps": 24,
            "camera_path": [{"camera_to_world": [1,0,0,1, 0,1,0,2, 0,0,1,3, 0,0,0,1], "fov": 90, "aspect": 2}]}"#;
        let cameras = read(path).unwrap();
        assert_eq!(cameras.len(), 1);
        let NamedCamera { name, camera, pose } = &cameras[0];
        assert_eq!((name.to_str(), camera.width, camera.height), (Some("frame_0000"), 200, 100));
        assert!((camera.fy - 50.0).abs() < 1e-9 && camera.fx == camera.fy);
        // The camera is at (1, 2, 3) and looks along -z.
        assert!(close(pose.centre(), [1.0, 2.0, 3.0]));
        assert!(close(pose.apply([1.0, 2.0, 0.0]), [0.0, 0.0, 3.0]));
        assert!(pose.apply([1.0, 3.0, 0.0])[1] < 0.0);
    }

    #[test]
    fn broken_paths_are_refused_with_the_place() {
        let message = |text: &str| {
            let line = read(text).unwrap_err().to_string();
            line.split_once("path.json: ").map(|(_, rest)| rest.to_owned()).unwrap_or(line)
        };
        assert!(message("{").starts_with("line 1: EOF while parsing"));
        assert_eq!(
            message(r#"{"camera_path": [], "render_width": 2, "render_height": 2}"#),
            "camera_path: has 0 cameras (expected 1..100000)"
        );
        let with = |camera: &str| {
            format!(r#"{{"camera_path": [{camera}], "render_width": 20, "render_height": 20}}"#)
        };
        assert_eq!(
            message(&with(r#"{"camera_to_world": [1, 2], "fov": 50}"#)),
            "camera_path[0].camera_to_world: has 2 numbers (expected 16)"
        );
        assert!(
            message(&with(r#"{"camera_to_world": [0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,1], "fov": 50}"#))
                .starts_with("camera_path[0].camera_to_world: ")
        );
        assert!(
            message(&with(r#"{"camera_to_world": [1,0,0,1, 0,1,0,2, 0,0,1,3, 0,0,0,1], "fov": 180}"#))
                .starts_with("camera_path[0].fov: field of view is 180 degrees")
        );
        assert_eq!(
            message(r#"{"camera_type": "equirectangular", "camera_path": [], "render_width": 2}"#),
            "camera_type: is `equirectangular` (expected perspective)"
        );
    }

    #[test]
    fn a_transforms_file_serves_as_a_path() {
        let text = r#"{"fl_x": 80, "fl_y": 81, "cx": 50, "cy": 25, "w": 100, "h": 50, "k1": 0.1,
            "frames": [{"file_path": "images/a.png",
                        "transform_matrix": [[1,0,0,0],[0,1,0,0],[0,0,1,4],[0,0,0,1]]}]}"#;
        let cameras = read(text).unwrap();
        assert_eq!(cameras[0].name, Path::new("0000_a"));
        assert_eq!(cameras[0].camera, Camera::new(100, 50, 80.0, 81.0, 50.0, 25.0).unwrap());
        assert!(close(cameras[0].pose.centre(), [0.0, 0.0, 4.0]));
    }
}
