//! Poses of pictures as programs write them: read, brought to one form, put beside each other by name, written again.
//!
//! ```text
//! tum, table (CSV), metashape (XML), sidecar (XMP), openmvg, opensfm   one file per form: parse, and write where we export it
//! find       which form a path is            matching   which poses of two lists belong together
//! ```
//! Whatever a form has, here it is `camera_from_world` in camera axes x right, y down, z forward; for panoramas those of
//! [`crate::geometry`]. Intrinsics are not taken from these files: views know their own.

pub mod find;
pub mod gpx;
pub mod matching;
pub mod metashape;
pub mod openmvg;
pub mod opensfm;
pub mod sidecar;
pub mod table;
pub mod tum;

use std::path::PathBuf;

use gausset_core::Pose;
use gausset_core::pose::PoseError;
use gausset_core::se3::{self, Mat3};
use gausset_io::units::{excerpt, one_line};
use serde::{Deserialize, Serialize};

use crate::export::Earth;

/// Poses of pictures.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Trajectory {
    /// What form they had: `TUM`, `Metashape XML`.
    pub form: &'static str,
    /// Those with a pose, in the order of the file.
    pub poses: Vec<NamedPose>,
    /// Names of the pictures without one.
    pub unregistered: Vec<String>,
    /// Whether the names are numbers (time stamps, places in a list).
    pub is_numbered: bool,
    /// Whether one unit is known to be a metre.
    pub is_metric: bool,
    /// Where their world is on the earth, as far as the form tells.
    pub earth: Option<Earth>,
    /// What was done to the world that these poses are of, in the file that they came from; here it is undone.
    pub applied: Option<Applied>,
    /// What a person should know about how it was read.
    pub note: Option<String>,
}

/// What a `transforms.json` has done to its world: a point x became `scale (L x + t)`, rows of `[L t]`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Applied {
    /// `[L t]`: `applied_transform`.
    pub transform: [[f64; 4]; 3],
    /// `applied_scale`.
    pub scale: f64,
}

impl Applied {
    /// A point of the world, in the file's.
    #[must_use]
    pub fn point(&self, x: [f64; 3]) -> [f64; 3] {
        self.transform.map(|[a, b, c, t]| self.scale * (a * x[0] + b * x[1] + c * x[2] + t))
    }

    /// Whether it is a turn, a shift and a scale.
    #[must_use]
    pub(crate) fn is_similarity(&self) -> bool {
        let linear = self.transform.map(|[a, b, c, _]| [a, b, c]);
        let shift = self.transform.map(|[.., t]| t);
        Pose::from_matrix(linear, shift).is_ok() && self.scale.is_finite() && self.scale > 0.0
    }

    /// A direction of the world, in the file's.
    #[must_use]
    pub fn direction(&self, d: [f64; 3]) -> [f64; 3] {
        self.transform.map(|[a, b, c, _]| a * d[0] + b * d[1] + c * d[2])
    }
}

/// A picture with its pose.
#[derive(Clone, Debug, PartialEq)]
pub struct NamedPose {
    /// Name of the picture as the file has it.
    pub name: String,
    /// `camera_from_world`.
    pub pose: Pose,
    /// The moment: pictures of one have the same; its place in the list where each stands alone.
    pub moment: u32,
}

impl Trajectory {
    fn new(form: &'static str, poses: Vec<NamedPose>) -> Self {
        Self { form, poses, ..Self::default() }
    }
}

/// Where something in a file is wrong, and what.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {problem}")]
pub struct Malformed {
    /// A line, an element, a picture.
    pub place: String,
    /// What is wrong there.
    pub problem: String,
}

impl Malformed {
    /// The problem may quote the file: it is cut to a length for a message.
    pub(crate) fn new(place: impl ToString, problem: impl ToString) -> Self {
        const LONGEST: usize = 280;
        let problem = one_line(&problem.to_string()).chars().take(LONGEST).collect();
        Self { place: excerpt(&place.to_string()), problem }
    }

    /// A pose that is none.
    fn pose(name: &str, problem: &PoseError) -> Self {
        Self::new(gausset_io::units::quote(name), problem)
    }
}

/// Why poses cannot be read from a path.
#[derive(Debug, thiserror::Error)]
pub enum PoseFileError {
    /// It cannot be read.
    #[error("{}: {reason}", path.display())]
    Read {
        /// What was to be read.
        path: PathBuf,
        /// The system's answer, and what was expected.
        reason: String,
    },
    /// It is none of the forms.
    #[error("{}: form: not known (expected {EXPECTED})", .0.display())]
    Unknown(PathBuf),
    /// Something in it is wrong.
    #[error("{}: {problem}", path.display())]
    Malformed {
        /// What was read.
        path: PathBuf,
        /// Place and problem.
        problem: Malformed,
    },
    /// There is no pose in it.
    #[error("{}: poses: none", .0.display())]
    Nothing(PathBuf),
    /// A COLMAP model or `transforms.json` that cannot be used.
    #[error(transparent)]
    Dataset(#[from] gausset_io::dataset::DatasetError),
    /// The result of an alignment that cannot be used.
    #[error(transparent)]
    Poses(#[from] crate::export::PosesError),
}

/// For messages: what can be read.
const EXPECTED: &str = "a folder of `gausset pano align`, poses.json, a COLMAP model, transforms.json, Metashape .xml, \
    RealityCapture .csv or a folder of .xmp, sfm_data.json, reconstruction.json, a TUM .txt";

/// What is wrong with JSON. Python writes numbers that JSON does not have.
fn not_json(bytes: &[u8], error: &serde_json::Error) -> Malformed {
    let line = bytes.split(|b| *b == b'\n').nth(error.line().saturating_sub(1)).unwrap_or_default();
    let rest = line.get(error.column().saturating_sub(1)..).unwrap_or_default();
    let found = ["NaN", "Infinity"].into_iter().find(|word| rest.starts_with(word.as_bytes()));
    let found = found.map(|word| format!(" (found {word}, which is no number of JSON)"));
    Malformed::new("JSON", gausset_io::units::json_problem(error) + &found.unwrap_or_default())
}

/// A pose from its rotation (`camera_from_world`) and the camera's centre.
fn from_centre(rotation: Mat3, centre: [f64; 3]) -> Result<Pose, PoseError> {
    // The rotation may be repaired a little; the centre stays where it was written.
    let rotation = Pose::from_matrix(rotation, centre)?.rotation;
    let back = se3::mul_vec(&rotation, centre);
    Ok(Pose { rotation, translation: back.map(|v| -v) })
}

/// Numbers between white space, exactly `N`.
fn numbers<const N: usize>(text: &str) -> Option<[f64; N]> {
    let mut out = [0.0; N];
    let mut fields = text.split_ascii_whitespace();
    for slot in &mut out {
        *slot = fields.next()?.parse().ok().filter(|v: &f64| v.is_finite())?;
    }
    fields.next().is_none().then_some(out)
}

/// Numbers with a space between them, as many digits as bring them back.
fn spaced(values: impl IntoIterator<Item = f64>) -> String {
    let all: Vec<String> = values.into_iter().map(|v| v.to_string()).collect();
    all.join(" ")
}

#[cfg(test)]
pub(crate) mod examples {
    use super::*;

    /// Poses that look everywhere, some metres and some kilometres away.
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
            all.push(NamedPose { name: format!("view{k:02}/p & {k}.jpg"), pose, moment: k as u32 });
        }
        all
    }

    /// Whether two lists of poses are the same: centres to 1e-9 of the path, rotations to 1e-9 rad.
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
