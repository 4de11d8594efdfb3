//! `transforms.json` in its dialects: Blender (NeRF-synthetic), instant-ngp, Nerfstudio.
//!
//! ```text
//! { intrinsics…, "frames": [ { "file_path", "transform_matrix": world_from_camera 4x4, intrinsics…, "mask_path" } ] }
//! ```
//! Matrices are `world_from_camera` in OpenGL axes (x right, y up, z backwards): columns 1 and 2 change sign to reach
//! OpenCV axes, then the inverse is the pose. The intrinsics of a frame take precedence over those of the file.
//! `aabb_scale`, `scale`, `offset`, `sharpness` and similar keys belong to other programs and are ignored.
//!
//! Parsing is typed and streaming, so memory grows with the frames and not with other content of the file.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use std::f64::consts::PI;
use std::fmt;
use std::io::Read;
use std::path::Path;

use gausset_core::{Pose, se3};
use serde::Deserialize;
use serde::de::{Deserializer, Error as _, SeqAccess, Visitor};

use super::camera_model::{CameraModel, SourceCamera};
use super::colmap::open_regular;
use super::error::{DatasetError, DatasetProblem};
use super::limits::{MAX_IMAGES, MAX_JSON_BYTES, MAX_JSON_DEPTH, MAX_NAME_BYTES};
use super::warning::SkipReason;
use crate::text::excerpt;

/// Largest deviation of the last row of a pose matrix from 0 0 0 1.
const LAST_ROW_TOLERANCE: f64 = 1e-6;

/// Message for another kind of file.
const IS_A_LIST: &str = "is a list (expected an object with frames as in transforms.json, the list of OpenSfM's \
    reconstruction.json or of a cameras.json)";

/// Content of a file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Transforms {
    /// Intrinsics for all frames.
    pub intrinsics: Intrinsics,
    /// Frames in file order.
    pub frames: Vec<Frame>,
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
    /// k1 to k6.
    pub k: [Option<f64>; 6],
    pub p1: Option<f64>,
    pub p2: Option<f64>,
    pub camera_model: Option<String>,
    pub is_fisheye: Option<bool>,
}

/// A struct that is deserialised from an object with intrinsics among its keys (`serde(flatten)` would lose positions
/// and duplicates).
macro_rules! with_intrinsics {
    ($name:ident { $($field:ident: $kind:ty,)* }) => {
        #[derive(Deserialize)]
        struct $name {
            fl_x: Option<f64>,
            fl_y: Option<f64>,
            cx: Option<f64>,
            cy: Option<f64>,
            w: Option<f64>,
            h: Option<f64>,
            camera_angle_x: Option<f64>,
            camera_angle_y: Option<f64>,
            k1: Option<f64>,
            k2: Option<f64>,
            k3: Option<f64>,
            k4: Option<f64>,
            k5: Option<f64>,
            k6: Option<f64>,
            p1: Option<f64>,
            p2: Option<f64>,
            camera_model: Option<String>,
            is_fisheye: Option<BoolOrNumber>,
            $($field: $kind,)*
        }

        impl $name {
            fn intrinsics(&mut self) -> Intrinsics {
                Intrinsics {
                    fl_x: self.fl_x,
                    fl_y: self.fl_y,
                    cx: self.cx,
                    cy: self.cy,
                    w: self.w,
                    h: self.h,
                    camera_angle_x: self.camera_angle_x,
                    camera_angle_y: self.camera_angle_y,
                    k: [self.k1, self.k2, self.k3, self.k4, self.k5, self.k6],
                    p1: self.p1,
                    p2: self.p2,
                    camera_model: self.camera_model.take(),
                    is_fisheye: self.is_fisheye.as_ref().map(|t| t.0),
                }
            }
        }
    };
}

with_intrinsics!(RawFile {
    frames: Frames,
    applied_transform: Option<Matrix>,
    applied_scale: Option<f64>,
    ply_file_path: Option<String>,
    train_filenames: Option<Names>,
    val_filenames: Option<Names>,
    test_filenames: Option<Names>,
    aabb_scale: Option<serde::de::IgnoredAny>,
});

with_intrinsics!(RawFrame {
    file_path: String,
    transform_matrix: Matrix,
    mask_path: Option<String>,
});

/// A boolean, or a number as some Python scripts write it.
struct BoolOrNumber(bool);

impl<'de> Deserialize<'de> for BoolOrNumber {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Flag;
        impl Visitor<'_> for Flag {
            type Value = BoolOrNumber;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("true or false")
            }
            fn visit_bool<E>(self, v: bool) -> Result<BoolOrNumber, E> {
                Ok(BoolOrNumber(v))
            }
            fn visit_u64<E>(self, v: u64) -> Result<BoolOrNumber, E> {
                Ok(BoolOrNumber(v != 0))
            }
        }
        deserializer.deserialize_any(Flag)
    }
}

/// Three or four rows of four numbers; the last row defaults to 0 0 0 1.
struct Matrix([[f64; 4]; 4]);

impl<'de> Deserialize<'de> for Matrix {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Rows;
        impl<'de> Visitor<'de> for Rows {
            type Value = Matrix;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("3 or 4 rows of 4 numbers")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut rows: A) -> Result<Matrix, A::Error> {
                let mut matrix = [[0.0, 0.0, 0.0, 1.0]; 4];
                let mut count = 0;
                while let Some(row) = rows.next_element::<[f64; 4]>()? {
                    match matrix.get_mut(count) {
                        Some(slot) => *slot = row,
                        None => return Err(A::Error::invalid_length(count + 1, &self)),
                    }
                    count += 1;
                }
                if count < 3 {
                    return Err(A::Error::invalid_length(count, &self));
                }
                Ok(Matrix(matrix))
            }
        }
        deserializer.deserialize_seq(Rows)
    }
}

/// Deserialises a list with a limit on its length.
fn bounded_list<'de, A: SeqAccess<'de>, T: Deserialize<'de>, U>(
    mut items: A,
    what: &'static str,
    convert: impl Fn(T) -> Result<U, DatasetProblem>,
) -> Result<Vec<U>, A::Error> {
    let mut list = Vec::new();
    while let Some(item) = items.next_element::<T>()? {
        if list.len() as u64 >= MAX_IMAGES {
            return Err(A::Error::custom(format_args!("too many {what} (expected at most {MAX_IMAGES})")));
        }
        list.push(convert(item).map_err(A::Error::custom)?);
    }
    Ok(list)
}

struct Frames(Vec<Frame>);

impl<'de> Deserialize<'de> for Frames {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct List;
        impl<'de> Visitor<'de> for List {
            type Value = Frames;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of frames")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<Frames, A::Error> {
                bounded_list(items, "frames", RawFrame::into_frame).map(Frames)
            }
        }
        deserializer.deserialize_seq(List)
    }
}

struct Names(Vec<String>);

impl<'de> Deserialize<'de> for Names {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct List;
        impl<'de> Visitor<'de> for List {
            type Value = Names;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of file names")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<Names, A::Error> {
                bounded_list(items, "names", Ok::<String, DatasetProblem>).map(Names)
            }
        }
        deserializer.deserialize_seq(List)
    }
}

impl RawFrame {
    fn into_frame(mut self) -> Result<Frame, DatasetProblem> {
        if self.file_path.is_empty() || self.file_path.len() > MAX_NAME_BYTES {
            return Err(DatasetProblem::NameLength { bytes: self.file_path.len() });
        }
        let intrinsics = Some(self.intrinsics()).filter(|i| *i != Intrinsics::default()).map(Box::new);
        Ok(Frame {
            file_path: self.file_path,
            mask_path: self.mask_path,
            matrix: self.transform_matrix.0,
            intrinsics,
        })
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
    let bytes = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes);
    if bytes.trim_ascii_start().starts_with(b"[") {
        return Err(top(DatasetProblem::Json(IS_A_LIST.to_owned())));
    }
    check_depth(bytes)?;
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let mut raw: RawFile = serde_path_to_error::deserialize(&mut json).map_err(|e| {
        let path = e.path().to_string();
        // `?` means a key that was not read yet.
        let place = path.trim_end_matches(['.', '?']);
        let (line, problem) = json_problem(e.inner());
        (if place.is_empty() { line } else { excerpt(place) }, problem)
    })?;
    json.end().map_err(|e| json_problem(&e))?;
    if raw.frames.0.is_empty() {
        return Err(("frames".to_owned(), DatasetProblem::NoFrames));
    }
    let intrinsics = raw.intrinsics();
    Ok(Transforms {
        intrinsics,
        frames: raw.frames.0,
        applied_transform: raw.applied_transform.map(|m| [m.0[0], m.0[1], m.0[2]]),
        applied_scale: raw.applied_scale,
        ply_file_path: raw.ply_file_path,
        split_lists: [raw.train_filenames, raw.val_filenames, raw.test_filenames].map(|l| l.map(|n| n.0)),
        has_aabb_scale: raw.aabb_scale.is_some(),
    })
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

impl Intrinsics {
    /// These values, with missing ones taken from `general`.
    #[must_use]
    pub fn with_defaults(&self, general: &Self) -> Self {
        // A focal length given here as an angle takes precedence over one in pixels there.
        let own_focal = self.fl_x.is_some() || self.camera_angle_x.is_some();
        let from = |own: Option<f64>, other: Option<f64>| own.or(other);
        let focal = |own: Option<f64>, other: Option<f64>| own.or(other.filter(|_| !own_focal));
        let mut k = self.k;
        k.iter_mut().zip(general.k).for_each(|(own, other)| *own = from(*own, other));
        Self {
            fl_x: focal(self.fl_x, general.fl_x),
            fl_y: focal(self.fl_y, general.fl_y),
            camera_angle_x: focal(self.camera_angle_x, general.camera_angle_x),
            camera_angle_y: focal(self.camera_angle_y, general.camera_angle_y),
            cx: from(self.cx, general.cx),
            cy: from(self.cy, general.cy),
            w: from(self.w, general.w),
            h: from(self.h, general.h),
            k,
            p1: from(self.p1, general.p1),
            p2: from(self.p2, general.p2),
            camera_model: self.camera_model.clone().or_else(|| general.camera_model.clone()),
            is_fisheye: self.is_fisheye.or(general.is_fisheye),
        }
    }

    /// Whether the focal length is given only as an angle, without the keys that programs other than Blender's script
    /// write.
    #[must_use]
    pub fn is_blender_style(&self) -> bool {
        let Self { camera_angle_x, fl_x, cx, w, k, camera_model, .. } = self;
        camera_angle_x.is_some()
            && fl_x.is_none()
            && cx.is_none()
            && w.is_none()
            && camera_model.is_none()
            && k.iter().all(Option::is_none)
    }

    /// The camera of an image; `stored` is its size if the file has none.
    ///
    /// Defaults: `fl_y` = `fl_x`, principal point = centre, distortion = 0. Without distortion the camera is a PINHOLE;
    /// a `k3` makes a perspective camera FULL_OPENCV, the smallest model that has it.
    ///
    /// # Errors
    /// There is no focal length, the `camera_model` is unknown or unsupported, or values are invalid.
    pub fn camera(&self, id: u32, stored: [u32; 2]) -> Result<SourceCamera, DatasetProblem> {
        let side = |name, value: Option<f64>, stored: u32| match value {
            None => Ok(u64::from(stored)),
            Some(v) if v.fract() == 0.0 && (1.0..1e9).contains(&v) => Ok(v as u64),
            Some(found) => Err(DatasetProblem::Value { name, found, expected: "a whole number of px" }),
        };
        let (width, height) = (side("w", self.w, stored[0])?, side("h", self.h, stored[1])?);
        let (w, h) = (width as f64, height as f64);
        let model = match (self.camera_model.as_deref(), self.is_fisheye) {
            (Some(name), _) => name,
            (None, Some(true)) => "OPENCV_FISHEYE",
            (None, _) => "OPENCV",
        };
        let make = |model, params| Ok(SourceCamera::new(id, model, width, height, params)?);
        if model == "EQUIRECTANGULAR" {
            return make(CameraModel::Equirectangular, vec![w, h]);
        }
        let from_angle = |name, angle: f64, size: f64| {
            if angle > 0.0 && angle < PI {
                Ok(0.5 * size / libm::tan(0.5 * angle))
            } else {
                Err(DatasetProblem::Value { name, found: angle, expected: "an angle in 0..π radians" })
            }
        };
        let fx = match (self.fl_x, self.camera_angle_x) {
            (Some(f), _) => f,
            (None, Some(angle)) => from_angle("camera_angle_x", angle, w)?,
            (None, None) => {
                return Err(DatasetProblem::MissingValue("the focal length (fl_x or camera_angle_x)"));
            }
        };
        let fy = match (self.fl_y, self.fl_x, self.camera_angle_y) {
            (Some(f), _, _) => f,
            (None, None, Some(angle)) => from_angle("camera_angle_y", angle, h)?,
            _ => fx,
        };
        let start = [fx, fy, self.cx.unwrap_or(0.5 * w), self.cy.unwrap_or(0.5 * h)];
        let with = |rest: &[f64]| [&start, rest].concat();
        let k = self.k.map(|k| k.unwrap_or(0.0));
        let (p1, p2) = (self.p1.unwrap_or(0.0), self.p2.unwrap_or(0.0));
        match model {
            "OPENCV_FISHEYE" | "FISHEYE" | "SIMPLE_RADIAL_FISHEYE" | "RADIAL_FISHEYE" => {
                make(CameraModel::OpenCvFisheye, with(&k[..4]))
            }
            "FULL_OPENCV" => {
                make(CameraModel::FullOpenCv, with(&[k[0], k[1], p1, p2, k[2], k[3], k[4], k[5]]))
            }
            "OPENCV" | "PINHOLE" | "SIMPLE_PINHOLE" | "SIMPLE_RADIAL" | "RADIAL" | "PERSPECTIVE" => {
                if k[3] != 0.0 {
                    let expected = "0 for a perspective camera; undistort the pictures first";
                    return Err(DatasetProblem::Value { name: "k4", found: k[3], expected });
                }
                if k[2] != 0.0 {
                    make(CameraModel::FullOpenCv, with(&[k[0], k[1], p1, p2, k[2], 0.0, 0.0, 0.0]))
                } else if [k[0], k[1], p1, p2] != [0.0; 4] {
                    make(CameraModel::OpenCv, with(&[k[0], k[1], p1, p2]))
                } else {
                    make(CameraModel::Pinhole, with(&[]))
                }
            }
            other => Err(DatasetProblem::UnknownModelName { name: excerpt(other) }),
        }
    }
}

impl Frame {
    /// The pose of the camera.
    ///
    /// # Errors
    /// Values are not finite, the last row is not 0 0 0 1, or the matrix is mirrored, scaled or sheared.
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
        let rotation = Pose::from_matrix(rotation, centre)?.rotation;
        let back = se3::mul_vec(&rotation, centre);
        Ok(Pose { rotation, translation: [-back[0], -back[1], -back[2]] })
    }
}
