//! `transforms.json` in its dialects: Blender (NeRF-synthetic), instant-ngp, Nerfstudio.
//!
//! ```text
//! { intrinsics…, "frames": [ { "file_path", "transform_matrix": world_from_camera 4x4, intrinsics…, "mask_path" } ] }
//! ```
//! Matrices are `world_from_camera` in OpenGL axes (x right, y up, z backwards): columns 1 and 2 change sign to reach
//! OpenCV axes, then the inverse is the pose. The intrinsics of a frame take precedence over those of the file.
//! A frame without an image or a matrix is skipped.
//! `aabb_scale`, `scale`, `offset`, `sharpness` and similar keys belong to other programs and are ignored.
//!
//! Parsing is typed and streaming, so memory grows with the frames and not with other content of the file.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

mod camera;
mod values;

use std::fmt;
use std::io::Read;
use std::path::Path;

use gausset_core::{Pose, se3};
use serde::Deserialize;
use serde::de::{Deserializer, Error as _, SeqAccess, Visitor};

use super::any_json::{AnyNumbers, AnyText};
use super::colmap::open_regular;
use super::error::{DatasetError, DatasetProblem};
use super::limits::{MAX_IMAGES, MAX_JSON_BYTES, MAX_JSON_DEPTH, MAX_NAME_BYTES};
use super::warning::{SkipReason, SkippedImage};
use crate::text::excerpt;
use values::{CalibrationMatrix, Flag, Matrix, Real};

/// Largest deviation of the last row of a pose matrix from 0 0 0 1.
const LAST_ROW_TOLERANCE: f64 = 1e-6;

/// Fewer frames than this may be unusable.
const MAX_SKIPPED: usize = 2000;

/// Content of a file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Transforms {
    /// Intrinsics for all frames.
    pub intrinsics: Intrinsics,
    /// Frames in file order, at least one.
    pub frames: Vec<Frame>,
    /// Frames without a path of an image or without a matrix.
    pub skipped: Vec<SkippedImage>,
    /// `applied_transform`: rows of `dataset_from_original`.
    pub applied_transform: Option<[[f64; 4]; 3]>,
    /// Factor of the key `applied_scale`: see [`AppliedTransform::scale`](super::AppliedTransform::scale).
    pub applied_scale: Option<f64>,
    /// `ply_file_path`: file with the points.
    pub ply_file_path: Option<String>,
    /// `train_filenames`, `val_filenames`, `test_filenames`.
    pub split_lists: [Option<Vec<String>>; 3],
    /// Whether the file has `aabb_scale`, which instant-ngp's scripts write.
    pub has_aabb_scale: bool,
}

/// Content of a frame.
#[derive(Clone, Debug, PartialEq)]
pub struct Frame {
    /// Path of the image, relative to the file; its extension may be missing.
    pub file_path: String,
    /// Path of the mask, relative to the file.
    pub mask_path: Option<String>,
    /// `world_from_camera`, OpenGL axes, rows.
    pub matrix: [[f64; 4]; 4],
    /// Intrinsics of this frame, if it has any.
    pub intrinsics: Option<Box<Intrinsics>>,
}

/// Intrinsics as written; every value may be missing.
#[derive(Clone, Debug, Default, PartialEq)]
#[allow(missing_docs, reason = "the names are the keys of the file")]
pub struct Intrinsics {
    pub fl_x: Option<f64>,
    pub fl_y: Option<f64>,
    pub cx: Option<f64>,
    pub cy: Option<f64>,
    pub w: Option<f64>,
    pub h: Option<f64>,
    pub camera_angle_x: Option<f64>,
    pub camera_angle_y: Option<f64>,
    /// `x_fov`, or `fov`: degrees.
    pub x_fov: Option<f64>,
    /// Degrees.
    pub y_fov: Option<f64>,
    /// k1 to k6.
    pub k: [Option<f64>; 6],
    pub p1: Option<f64>,
    pub p2: Option<f64>,
    pub camera_model: Option<String>,
    pub is_fisheye: Option<bool>,
    /// ftheta_p0 to ftheta_p4 of instant-ngp: the angle as a polynomial of the distance from the centre in px.
    pub f_theta: [Option<f64>; 5],
    /// `latlong` or `equirectangular` of instant-ngp.
    pub is_spherical: Option<bool>,
}

/// A struct that is deserialised from an object with intrinsics among its keys (`serde(flatten)` would lose positions
/// and duplicates).
macro_rules! with_intrinsics {
    ($name:ident { $($field:ident: $kind:ty,)* }) => {
        #[derive(Deserialize)]
        struct $name {
            fl_x: Option<Real>,
            fl_y: Option<Real>,
            cx: Option<Real>,
            cy: Option<Real>,
            w: Option<Real>,
            h: Option<Real>,
            camera_angle_x: Option<Real>,
            camera_angle_y: Option<Real>,
            fov: Option<Real>,
            x_fov: Option<Real>,
            y_fov: Option<Real>,
            k1: Option<Real>,
            k2: Option<Real>,
            k3: Option<Real>,
            k4: Option<Real>,
            k5: Option<Real>,
            k6: Option<Real>,
            p1: Option<Real>,
            p2: Option<Real>,
            camera_model: Option<String>,
            is_fisheye: Option<Flag>,
            ftheta_p0: Option<Real>,
            ftheta_p1: Option<Real>,
            ftheta_p2: Option<Real>,
            ftheta_p3: Option<Real>,
            ftheta_p4: Option<Real>,
            latlong: Option<Flag>,
            equirectangular: Option<Flag>,
            #[serde(rename = "K")]
            calibration: Option<CalibrationMatrix>,
            intrinsic_matrix: Option<CalibrationMatrix>,
            $($field: $kind,)*
        }

        impl $name {
            fn intrinsics(&mut self) -> Intrinsics {
                let real = |value: &Option<Real>| value.map(|v| v.0);
                let matrix = self.calibration.as_ref().or(self.intrinsic_matrix.as_ref());
                let of_matrix = |value: fn(&CalibrationMatrix) -> f64| matrix.map(value);
                let spherical = [&self.latlong, &self.equirectangular];
                Intrinsics {
                    fl_x: real(&self.fl_x).or(of_matrix(|m| m.focal[0])),
                    fl_y: real(&self.fl_y).or(of_matrix(|m| m.focal[1])),
                    cx: real(&self.cx).or(of_matrix(|m| m.centre[0])),
                    cy: real(&self.cy).or(of_matrix(|m| m.centre[1])),
                    w: real(&self.w),
                    h: real(&self.h),
                    camera_angle_x: real(&self.camera_angle_x),
                    camera_angle_y: real(&self.camera_angle_y),
                    x_fov: real(&self.x_fov).or(real(&self.fov)),
                    y_fov: real(&self.y_fov),
                    k: [&self.k1, &self.k2, &self.k3, &self.k4, &self.k5, &self.k6].map(real),
                    p1: real(&self.p1),
                    p2: real(&self.p2),
                    camera_model: self.camera_model.take(),
                    is_fisheye: self.is_fisheye.as_ref().map(|t| t.0),
                    f_theta: [
                        &self.ftheta_p0, &self.ftheta_p1, &self.ftheta_p2, &self.ftheta_p3, &self.ftheta_p4,
                    ]
                    .map(real),
                    is_spherical: spherical.into_iter().flatten().map(|t| t.0).reduce(|a, b| a || b),
                }
            }
        }
    };
}

with_intrinsics!(RawFile {
    frames: Frames,
    applied_transform: Option<Matrix>,
    applied_scale: Option<Real>,
    ply_file_path: Option<String>,
    train_filenames: Option<Names>,
    val_filenames: Option<Names>,
    test_filenames: Option<Names>,
    aabb_scale: Option<serde::de::IgnoredAny>,
});

with_intrinsics!(RawFrame {
    file_path: Option<AnyText>,
    transform_matrix: Option<AnyNumbers>,
    mask_path: Option<String>,
});

/// What every frame should have: a file with too few such frames is refused with the place of the first other one.
#[derive(Deserialize)]
struct StrictFile {
    #[allow(dead_code, reason = "only the error of the first frame is used")]
    frames: Vec<StrictFrame>,
}

#[derive(Deserialize)]
#[allow(dead_code, reason = "only the error of the first frame is used")]
struct StrictFrame {
    file_path: Name,
    transform_matrix: Matrix,
}

/// The path of an image.
struct Name;

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        name_length(name.len()).map_or(Ok(Self), |problem| Err(D::Error::custom(problem)))
    }
}

/// What is wrong with the length of a name in bytes.
fn name_length(bytes: usize) -> Option<DatasetProblem> {
    (bytes == 0 || bytes > MAX_NAME_BYTES).then_some(DatasetProblem::NameLength { bytes })
}

#[derive(Default)]
struct Frames {
    usable: Vec<Frame>,
    /// At most [`MAX_SKIPPED`].
    skipped: Vec<SkippedImage>,
    count: u64,
}

/// What is wrong with a frame, and its name if it has one.
struct UnusableFrame {
    name: Option<String>,
    problem: String,
}

impl<'de> Deserialize<'de> for Frames {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct List;
        impl<'de> Visitor<'de> for List {
            type Value = Frames;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of frames")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Frames, A::Error> {
                let mut all = Frames::default();
                while let Some(frame) = items.next_element::<RawFrame>()? {
                    all.add(frame).map_err(A::Error::custom)?;
                }
                Ok(all)
            }
        }
        deserializer.deserialize_seq(List)
    }
}

impl Frames {
    fn add(&mut self, frame: RawFrame) -> Result<(), TooMany> {
        let index = self.count;
        if index >= MAX_IMAGES {
            return Err(TooMany("frames"));
        }
        self.count += 1;
        match frame.into_frame() {
            Ok(frame) => self.usable.push(frame),
            Err(UnusableFrame { name, problem }) if self.skipped.len() < MAX_SKIPPED => {
                let name = name.unwrap_or_else(|| format!("frames[{index}]"));
                self.skipped.push(SkippedImage { name, reason: SkipReason::Export(problem) });
            }
            Err(_) => {}
        }
        Ok(())
    }
}

/// More frames or names than a dataset has images.
#[derive(Debug, thiserror::Error)]
#[error("too many {0} (expected at most {MAX_IMAGES})")]
struct TooMany(&'static str);

struct Names(Vec<String>);

impl<'de> Deserialize<'de> for Names {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct List;
        impl<'de> Visitor<'de> for List {
            type Value = Names;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of file names")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Names, A::Error> {
                let mut list = Vec::new();
                while let Some(name) = items.next_element()? {
                    if list.len() as u64 >= MAX_IMAGES {
                        return Err(A::Error::custom(TooMany("names")));
                    }
                    list.push(name);
                }
                Ok(Names(list))
            }
        }
        deserializer.deserialize_seq(List)
    }
}

impl RawFrame {
    fn into_frame(mut self) -> Result<Frame, UnusableFrame> {
        let intrinsics = Some(self.intrinsics()).filter(|i| *i != Intrinsics::default()).map(Box::new);
        let nameless = |problem: String| UnusableFrame { name: None, problem };
        let file_path = match self.file_path {
            Some(AnyText::Text(name)) => match name_length(name.len()) {
                None => name,
                Some(problem) => return Err(nameless(problem.to_string())),
            },
            Some(AnyText::TooLong(bytes)) => {
                return Err(nameless(DatasetProblem::NameLength { bytes }.to_string()));
            }
            Some(AnyText::Other) => {
                return Err(nameless("file_path is no text (expected a path)".to_owned()));
            }
            None => return Err(nameless("file_path is missing or null (expected a path)".to_owned())),
        };
        let numbers = self.transform_matrix.as_ref();
        match AnyNumbers::of_shape(numbers, "transform_matrix", Matrix::EXPECTED, Matrix::has_shape) {
            Ok(values) => Ok(Frame {
                file_path,
                mask_path: self.mask_path.filter(|name| !name.trim().is_empty()),
                matrix: Matrix::of_values(values),
                intrinsics,
            }),
            Err(problem) => Err(UnusableFrame { name: Some(file_path), problem: format!("pose: {problem}") }),
        }
    }
}

/// Reads a file.
///
/// # Errors
/// The file cannot be read, is too large or too deeply nested, has unexpected content, or has no frames.
pub fn read(path: &Path) -> Result<Transforms, DatasetError> {
    let io = |e: std::io::Error| DatasetError::io(path, "read", &e);
    let file = open_regular(path)?;
    let found = file.metadata().map_err(io)?.len();
    if found > MAX_JSON_BYTES {
        let problem = DatasetProblem::FileSize { found, limit: MAX_JSON_BYTES };
        return Err(DatasetError::malformed(path, "top level", problem));
    }
    let mut bytes = Vec::new();
    file.take(MAX_JSON_BYTES + 1).read_to_end(&mut bytes).map_err(io)?;
    parse(&bytes).map_err(|(place, problem)| DatasetError::malformed(path, place, problem))
}

/// Parses the content of a file.
///
/// # Errors
/// As [`read`]: the position in the JSON and the problem.
pub fn parse(bytes: &[u8]) -> Result<Transforms, (String, DatasetProblem)> {
    let top = |problem| ("top level".to_owned(), problem);
    if bytes.len() as u64 > MAX_JSON_BYTES {
        return Err(top(DatasetProblem::FileSize { found: bytes.len() as u64, limit: MAX_JSON_BYTES }));
    }
    let bytes = values::as_utf8(bytes).ok_or_else(|| top(DatasetProblem::NotText))?;
    if bytes.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'[') {
        return Err(top(DatasetProblem::JsonList));
    }
    check_depth(&bytes)?;
    let bytes = values::with_quoted_non_finite(&bytes);
    let mut raw: RawFile = deserialise(&bytes)?;
    let Frames { usable: frames, skipped, count } = std::mem::take(&mut raw.frames);
    if count == 0 {
        return Err(("frames".to_owned(), DatasetProblem::NoFrames));
    }
    let intrinsics = raw.intrinsics();
    if frames.is_empty() || skipped.len() == MAX_SKIPPED {
        deserialise::<StrictFile>(&bytes)?;
        return Err(("frames".to_owned(), DatasetProblem::NoFrames));
    }
    Ok(Transforms {
        intrinsics,
        frames,
        skipped,
        applied_transform: raw.applied_transform.map(|m| [m.0[0], m.0[1], m.0[2]]),
        applied_scale: raw.applied_scale.map(|v| v.0),
        ply_file_path: raw.ply_file_path.filter(|name| !name.trim().is_empty()),
        split_lists: [raw.train_filenames, raw.val_filenames, raw.test_filenames].map(|l| l.map(|n| n.0)),
        has_aabb_scale: raw.aabb_scale.is_some(),
    })
}

fn deserialise<'de, T: Deserialize<'de>>(bytes: &'de [u8]) -> Result<T, (String, DatasetProblem)> {
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let content = serde_path_to_error::deserialize(&mut json).map_err(|e| {
        let path = e.path().to_string();
        // `?` means a key that was not read yet.
        let place = path.trim_end_matches(['.', '?']);
        let (line, problem) = json_problem(e.inner());
        (if place.is_empty() { line } else { excerpt(place) }, problem)
    })?;
    json.end().map_err(|e| json_problem(&e))?;
    Ok(content)
}

/// Position and problem of a JSON error.
fn json_problem(error: &serde_json::Error) -> (String, DatasetProblem) {
    let text = error.to_string();
    let reason = text.rsplit_once(" at line ").map_or(text.as_str(), |(reason, _)| reason);
    let line = format!("line {}", error.line());
    (line.clone(), DatasetProblem::Json(format!("{} ({line}, column {})", excerpt(reason), error.column())))
}

/// Checks the nesting depth before anything is deserialised.
fn check_depth(bytes: &[u8]) -> Result<(), (String, DatasetProblem)> {
    let (mut depth, mut line, mut in_string, mut escaped) = (0usize, 1usize, false, false);
    for &byte in bytes {
        line += usize::from(byte == b'\n');
        if in_string {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => in_string = false,
                _ => {}
            }
            continue;
        }
        match byte {
            b'"' => in_string = true,
            b'[' | b'{' => depth += 1,
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > MAX_JSON_DEPTH {
            return Err((format!("line {line}"), DatasetProblem::TooDeep));
        }
    }
    Ok(())
}

impl Frame {
    /// The pose of the camera.
    ///
    /// # Errors
    /// Values are not finite, the last row is not 0 0 0 1, or the matrix is mirrored, sheared or scaled differently along
    /// its axes.
    pub fn pose(&self) -> Result<Pose, SkipReason> {
        let [a, b, c, last] = self.matrix;
        let expected = [0.0, 0.0, 0.0, 1.0];
        // Not `>`: a NaN must fail as well.
        if !last.iter().zip(expected).all(|(v, e)| (v - e).abs() <= LAST_ROW_TOLERANCE) {
            return Err(SkipReason::LastRow(last));
        }
        // Rows of camera_from_world = columns of world_from_camera; y and z change sign from OpenGL to OpenCV.
        let rotation = [[a[0], b[0], c[0]], [-a[1], -b[1], -c[1]], [-a[2], -b[2], -c[2]]];
        let centre = [a[3], b[3], c[3]];
        // The rotation may be orthonormalised slightly; the centre stays as written.
        let rotation = match Pose::from_matrix(rotation, centre) {
            Ok(pose) => pose.rotation,
            Err(error) => {
                // Blender's cameras may have a scale, which is none of the pose.
                let scale = self.scale();
                let unscaled = rotation.map(|row| row.map(|v| v / scale));
                Pose::from_matrix(unscaled, centre).map_err(|_| error)?.rotation
            }
        };
        let back = se3::mul_vec(&rotation, centre);
        Ok(Pose { rotation, translation: [-back[0], -back[1], -back[2]] })
    }

    /// Factor by which the matrix scales volumes, per axis: 1 for a rigid one, NaN if it is mirrored or not finite.
    #[must_use]
    pub fn scale(&self) -> f64 {
        let [[a, b, c, _], [d, e, f, _], [g, h, i, _], _] = self.matrix;
        let determinant = se3::determinant(&[[a, b, c], [d, e, f], [g, h, i]]);
        if determinant > 0.0 && determinant.is_finite() { libm::cbrt(determinant) } else { f64::NAN }
    }
}
