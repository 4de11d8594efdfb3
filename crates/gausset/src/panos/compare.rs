//! Compares poses with reference poses of the same images: errors in degrees and metres.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use gausset_io::dataset::colmap::Observations;
use gausset_pano::poses::matching::{self, MatchKey};
use gausset_pano::poses::table::csv_cell;
use gausset_pano::poses::{NamedPose, Trajectory, read};
use gausset_sfm::compare::{self, Comparison, Drift, ErrorStats, Similarity};
use gausset_sfm::reprojection::{ReprojectionErrors, reprojection_errors};
use serde::Serialize;

use crate::Failure;

/// One side of a comparison.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PoseSource {
    /// Path that was read.
    pub path: PathBuf,
    /// Name of the file format.
    pub form: &'static str,
    /// Number of images with a pose.
    pub poses: usize,
    /// Number of images without a pose, as far as the format records them.
    pub unregistered: usize,
    /// Whether the unit is known to be a metre.
    pub is_metric: bool,
    /// Note about an ambiguity resolved while reading.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Reprojection error, if the file has points with observations.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reprojection: Option<ReprojectionErrors>,
}

/// Errors of one image's pose.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FrameError {
    /// Name in the reference.
    pub name: String,
    /// Distance of the camera centres in units of the reference.
    pub centre_error: f64,
    /// Angle between the rotations in degrees.
    pub rotation_error_degrees: f64,
    /// Camera centre, transformed to the coordinates of the reference.
    pub fitted: [f64; 3],
    /// Camera centre in the reference.
    pub reference: [f64; 3],
    /// Whether the pose was used for the fit.
    pub is_fitted: bool,
}

/// A comparison of poses; the JSON form is a stable contract.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PoseComparison {
    /// Version of this layout.
    pub schema: u32,
    /// The poses under test.
    pub first: PoseSource,
    /// The reference poses.
    pub reference: PoseSource,
    /// How names were matched.
    pub matched_by: MatchKey,
    /// Number of poses that both sides have.
    pub common: usize,
    /// Fraction of the poses of the reference that the first side has.
    pub registered_share: f64,
    /// Names in the reference without a pose in the first.
    pub missing: Vec<String>,
    /// Similarity from the coordinates of the first to those of the reference.
    pub fit: Similarity,
    /// Whether all centres are on a line, so that camera rotations determine the rotation about it.
    pub is_line: bool,
    /// Names excluded from the fit as outliers.
    pub left_out_of_fit: Vec<String>,
    /// Errors of the centres in units of the reference.
    pub centre: ErrorStats,
    /// Errors of the rotations in degrees.
    pub rotation_degrees: ErrorStats,
    /// Length of the reference trajectory.
    pub path: f64,
    /// Drift along the trajectory.
    pub drift: Option<Drift>,
    /// Errors per image, in the order of the reference.
    pub frames: Vec<FrameError>,
}

/// Compares the poses of two files or folders.
///
/// # Errors
/// Poses that cannot be read, fewer than three in common, duplicate names, or no similarity that fits.
pub fn compare(first: &Path, reference: &Path) -> Result<PoseComparison, Failure> {
    let (a, b) = (read::read(first)?, read::read(reference)?);
    let sides = [side(first, &a)?, side(reference, &b)?];
    compare_lists(&a, &b, sides)
}

/// Refuses reference poses that share no name with the frames.
///
/// # Errors
/// As [`compare()`].
pub fn check_names(frames: &[String], reference: &Path) -> Result<(), Failure> {
    let pose = |(moment, name): (u32, &String)| NamedPose {
        name: name.clone(),
        pose: Default::default(),
        frame: moment,
    };
    let poses = (0..).zip(frames).map(pose).collect();
    let frames = Trajectory { poses, ..Trajectory::default() };
    let found = matching::pair_poses(&frames, &read::read(reference)?, ["the frames", "it"]);
    found.map(|_| ()).map_err(|e| Failure::new("poses", format!("{}: names: {e}", reference.display())))
}

fn side(path: &Path, list: &Trajectory) -> Result<PoseSource, Failure> {
    let model = if path.is_dir() { read::colmap_model(path)? } else { None };
    let reprojection = match model {
        Some(model) => reprojection_errors(&model.read(Observations::Keep)?),
        None => None,
    };
    Ok(PoseSource {
        path: path.to_owned(),
        form: list.format,
        poses: list.poses.len(),
        unregistered: list.unregistered.len(),
        is_metric: list.is_metric,
        note: list.note.clone(),
        reprojection,
    })
}

fn compare_lists(a: &Trajectory, b: &Trajectory, sides: [PoseSource; 2]) -> Result<PoseComparison, Failure> {
    let [first, reference] = sides;
    let failed = |place: &str, problem: &dyn std::fmt::Display| {
        let (a, b) = (first.path.display(), reference.path.display());
        Failure::new("poses", format!("{a}, {b}: {place}: {problem}"))
    };
    let matched = matching::pair_poses(a, b, ["the first", "the second"]).map_err(|e| failed("names", &e))?;
    let pairs: Vec<_> = matched.pairs.iter().map(|&(i, j)| (a.poses[i].pose, b.poses[j].pose)).collect();
    let moments: Vec<u32> = matched.pairs.iter().map(|&(_, j)| b.poses[j].frame).collect();
    let Comparison { fit, is_collinear: is_line, errors, centre, rotation, path_length: path, drift } =
        compare::compare(&pairs, &moments).map_err(|e| failed("poses", &e))?;
    let name = |pair: usize| b.poses[matched.pairs[pair].1].name.clone();
    let frames: Vec<FrameError> = errors
        .iter()
        .enumerate()
        .map(|(pair, error)| FrameError {
            name: name(pair),
            centre_error: error.centre,
            rotation_error_degrees: error.rotation,
            fitted: error.fitted,
            reference: error.reference,
            is_fitted: error.is_fitted,
        })
        .collect();
    let missing = matching::missing_names(b, a, matched.key);
    Ok(PoseComparison {
        schema: 1,
        matched_by: matched.key,
        common: frames.len(),
        registered_share: (b.poses.len() - missing.len()) as f64 / b.poses.len() as f64,
        missing,
        left_out_of_fit: frames.iter().filter(|f| !f.is_fitted).map(|f| f.name.clone()).collect(),
        first,
        reference,
        fit,
        is_line,
        centre,
        rotation_degrees: rotation,
        path,
        drift,
        frames,
    })
}

impl PoseComparison {
    /// Errors per image as CSV.
    #[must_use]
    pub fn csv(&self) -> String {
        let mut out = "name,centre_error,rotation_error_degrees,fitted_x,fitted_y,fitted_z,reference_x,reference_y,reference_z,in_fit\n".to_owned();
        for FrameError { name, centre_error, rotation_error_degrees, fitted, reference, is_fitted } in
            &self.frames
        {
            let name = csv_cell(name);
            let [[a, b, c], [x, y, z]] = [fitted, reference];
            // Writing to a string cannot fail.
            let _ = writeln!(
                out,
                "{name},{centre_error},{rotation_error_degrees},{a},{b},{c},{x},{y},{z},{}",
                u8::from(*is_fitted)
            );
        }
        out
    }

    /// The image with the largest error.
    #[must_use]
    pub fn largest_error(&self, error: impl Fn(&FrameError) -> f64) -> Option<&FrameError> {
        self.frames.iter().max_by(|a, b| error(a).total_cmp(&error(b)))
    }
}
