//! Camera pose files of other programs: reading, conversion to one convention, matching by name, and writing.
//!
//! ```text
//! tum, table (CSV), metashape (XML), sidecar (XMP), openmvg, opensfm   one file format each: parse, some also write;
//!            those that datasets have too are parsed in `gausset_io::dataset::exports`
//! read       detects the format of a path and reads it       matching   pairs the poses of two trajectories
//! ```
//! All formats are converted to `camera_from_world` with camera axes x right, y down, z forward; panoramas use the axes
//! of [`crate::sphere::geometry`]. Intrinsics of these files are ignored, because views have their own.

mod aligned_file;
pub mod export;
pub mod far_points;
pub mod gpx;
pub mod landmarks;
pub mod lens_pose;
pub mod matching;
pub mod metashape;
pub mod openmvg;
pub mod opensfm;
pub mod read;
pub mod sidecar;
pub mod table;
pub mod tum;

use std::path::PathBuf;

use gausset_core::pose::PoseError;
use gausset_io::dataset::exports::{Export, ExportFrame};

pub use crate::source::problem::FileProblem;
pub use crate::sphere::aligned::{NamedPose, WorldTransform};
pub use aligned_file::AlignedPosesError;

use crate::sphere::aligned::Georeference;

/// Poses of images.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Trajectory {
    /// File format, such as `TUM` or `Metashape XML`.
    pub format: &'static str,
    /// Images with a pose, in the order of the file.
    pub poses: Vec<NamedPose>,
    /// Names of the images without a pose.
    pub unregistered: Vec<String>,
    /// Whether the names are numbers (time stamps or list indices).
    pub is_numbered: bool,
    /// Whether the unit is known to be a metre.
    pub is_metric: bool,
    /// Georeference of the world, if the format has one.
    pub georeference: Option<Georeference>,
    /// Transform of the world that the file had applied; [`Self::poses`] have it undone.
    pub applied: Option<WorldTransform>,
    /// Warning about the content, for the log.
    pub note: Option<String>,
}

impl Trajectory {
    fn new(form: &'static str, poses: Vec<NamedPose>) -> Self {
        Self { format: form, poses, ..Self::default() }
    }
}

impl Trajectory {
    /// The poses of a camera file; each must be valid.
    fn from_export(form: &'static str, export: Export) -> Result<Self, FileProblem> {
        let mut found = Self { unregistered: export.unregistered, ..Self::new(form, Vec::new()) };
        for (ExportFrame { name, pose, .. }, frame) in export.frames.into_iter().zip(0..) {
            let pose = pose.map_err(|problem| FileProblem::new(gausset_io::text::quote(&name), problem))?;
            found.poses.push(NamedPose { name, pose, frame });
        }
        Ok(found)
    }
}

/// An invalid pose of the image `name`.
fn invalid_pose(name: &str, problem: &PoseError) -> FileProblem {
    FileProblem::new(gausset_io::text::quote(name), problem)
}

/// Why poses cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum PoseFileError {
    /// The file cannot be opened or read.
    #[error("{}: {reason}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's error, and what was expected.
        reason: String,
    },
    /// The file format is not recognised.
    #[error("{}: format: unknown (expected {EXPECTED})", .0.display())]
    UnknownFormat(PathBuf),
    /// The content is malformed.
    #[error("{}: {problem}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// Location in the file and problem.
        problem: FileProblem,
    },
    /// The file contains no pose.
    #[error("{}: poses: none", .0.display())]
    NoPoses(PathBuf),
    /// A COLMAP model or `transforms.json` that cannot be used.
    #[error(transparent)]
    Dataset(#[from] gausset_io::dataset::DatasetError),
    /// The result of an alignment that cannot be used.
    #[error(transparent)]
    Poses(#[from] AlignedPosesError),
}

/// Readable formats, for messages.
const EXPECTED: &str = "a folder of `gausset pano align`, poses.json, a COLMAP model, transforms.json, Metashape .xml, \
    RealityCapture .csv or a folder of .xmp, sfm_data.json, reconstruction.json, a TUM .txt";

/// Describes a JSON error. Python writes `NaN` and `Infinity`, which JSON does not allow.
fn json_problem(bytes: &[u8], error: &serde_json::Error) -> FileProblem {
    let line = bytes.split(|b| *b == b'\n').nth(error.line().saturating_sub(1)).unwrap_or_default();
    let rest = line.get(error.column().saturating_sub(1)..).unwrap_or_default();
    let found = ["NaN", "Infinity"].into_iter().find(|word| rest.starts_with(word.as_bytes()));
    let found = found.map(|word| format!(" (found {word}, which JSON does not allow)"));
    FileProblem::new("JSON", gausset_io::text::json_problem(error) + &found.unwrap_or_default())
}

/// Numbers separated by spaces, with enough digits to read back the same values.
fn join_numbers(values: impl IntoIterator<Item = f64>) -> String {
    let all: Vec<String> = values.into_iter().map(|v| v.to_string()).collect();
    all.join(" ")
}

#[cfg(test)]
pub(crate) mod examples {
    use gausset_core::{Pose, se3};

    use super::*;

    /// Poses in all directions, at distances of metres to kilometres.
    pub(crate) fn poses() -> Vec<NamedPose> {
        let mut all = Vec::new();
        for (k, q) in
            [[1.0, 0.0, 0.0, 0.0], [1.0, 0.2, -0.3, 0.1], [0.2, 0.9, 0.3, -0.4], [0.0, 0.6, 0.8, 0.0]]
                .into_iter()
                .enumerate()
        {
            let n = q.iter().map(|v: &f64| v * v).sum::<f64>().sqrt();
            let t = [0.5 - 3.0 * k as f64, 1e3 * k as f64 / 7.0, 7.0 / (1.0 + k as f64)];
            let pose = Pose::from_quaternion(q.map(|v| v / n), t).unwrap();
            all.push(NamedPose { name: format!("view{k:02}/p & {k}.jpg"), pose, frame: k as u32 });
        }
        all
    }

    /// Asserts that two lists of poses are equal: centres to 1e-9 of the path, rotations to 1e-9 rad.
    pub(crate) fn assert_same(found: &[NamedPose], wanted: &[NamedPose]) {
        assert_eq!(found.len(), wanted.len());
        for (a, b) in found.iter().zip(wanted) {
            let (c, d) = (a.pose.centre(), b.pose.centre());
            assert!((0..3).all(|k| (c[k] - d[k]).abs() < 1e-9 * 500.0), "{c:?} {d:?}");
            let r = se3::mul(&a.pose.rotation, &se3::transpose(&b.pose.rotation));
            assert!(
                (0..3).all(|i| (0..3).all(|j| (r[i][j] - f64::from(u8::from(i == j))).abs() < 1e-9)),
                "{} {r:?}",
                b.name
            );
        }
    }
}
