//! Poses against others of the same pictures: what they are off, in degrees and metres.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use gausset_io::dataset::colmap::Observations;
use gausset_pano::poses::find;
use gausset_pano::poses::matching::{self, MatchedBy};
use gausset_pano::poses::{NamedPose, Trajectory};
use gausset_sfm::compare::{self, Comparison, Drift, Similarity, Spread};
use gausset_sfm::reprojection::{Reprojection, reprojection};
use serde::Serialize;

use crate::Failure;

/// One side of a comparison.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Side {
    /// Where it was read.
    pub path: PathBuf,
    /// Its form.
    pub form: &'static str,
    /// Pictures with a pose.
    pub poses: usize,
    /// Pictures without one, as far as the form tells.
    pub unregistered: usize,
    /// Whether one unit is known to be a metre.
    pub is_metric: bool,
    /// What was chosen while it was read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// How far its points are from where its pictures saw them, where it has points with observations.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reprojection: Option<Reprojection>,
}

/// What one picture's pose is off.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Frame {
    /// Name in the reference.
    pub name: String,
    /// Distance of the centres, units of the reference.
    pub centre_error: f64,
    /// Angle between the rotations.
    pub rotation_error_degrees: f64,
    /// Centre, taken to the world of the reference.
    pub fitted: [f64; 3],
    /// Centre in the reference.
    pub reference: [f64; 3],
    /// Whether it took part in the fit.
    pub is_fitted: bool,
}

/// A comparison of poses: a stable contract.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Compared {
    /// Version of this form.
    pub schema: u32,
    /// What is judged.
    pub first: Side,
    /// What it is judged by.
    pub reference: Side,
    /// How names found each other.
    pub matched_by: MatchedBy,
    /// Poses of the reference that the first has, too.
    pub common: usize,
    /// Their share of the reference's.
    pub registered_share: f64,
    /// Names in the reference that the first has no pose of.
    pub missing: Vec<String>,
    /// The similarity that takes the first to the reference.
    pub fit: Similarity,
    /// Whether all centres lie on a line, so that the fit turns as the cameras do.
    pub is_line: bool,
    /// Names that did not take part in the fit, because they are too far off.
    pub left_out_of_fit: Vec<String>,
    /// Errors of the centres, units of the reference.
    pub centre: Spread,
    /// Errors of the rotations.
    pub rotation_degrees: Spread,
    /// Length of the reference's path.
    pub path: f64,
    /// What adds up along it.
    pub drift: Option<Drift>,
    /// Picture by picture, in the order of the reference.
    pub frames: Vec<Frame>,
}

/// Compares the poses at two places.
///
/// # Errors
/// Poses that cannot be read, fewer than three in common, names that stand twice, worlds that no similarity joins.
pub fn compare(first: &Path, reference: &Path) -> Result<Compared, Failure> {
    let (a, b) = (find::read(first)?, find::read(reference)?);
    let sides = [side(first, &a)?, side(reference, &b)?];
    compare_lists(&a, &b, sides)
}

/// Refuses poses that have no name in common with some frames.
///
/// # Errors
/// As [`compare()`].
pub fn check_names(frames: &[String], reference: &Path) -> Result<(), Failure> {
    let pose =
        |(moment, name): (u32, &String)| NamedPose { name: name.clone(), pose: Default::default(), moment };
    let poses = (0..).zip(frames).map(pose).collect();
    let frames = Trajectory { poses, ..Trajectory::default() };
    let found = matching::pairs(&frames, &find::read(reference)?, ["the frames", "it"]);
    found.map(|_| ()).map_err(|e| Failure::new("poses", format!("{}: names: {e}", reference.display())))
}

fn side(path: &Path, list: &Trajectory) -> Result<Side, Failure> {
    let model = if path.is_dir() { find::colmap_model(path)? } else { None };
    let reprojection = match model {
        Some(model) => reprojection(&model.read(Observations::Keep)?),
        None => None,
    };
    Ok(Side {
        path: path.to_owned(),
        form: list.form,
        poses: list.poses.len(),
        unregistered: list.unregistered.len(),
        is_metric: list.is_metric,
        note: list.note.clone(),
        reprojection,
    })
}

fn compare_lists(a: &Trajectory, b: &Trajectory, sides: [Side; 2]) -> Result<Compared, Failure> {
    let [first, reference] = sides;
    let failed = |place: &str, problem: &dyn std::fmt::Display| {
        let (a, b) = (first.path.display(), reference.path.display());
        Failure::new("poses", format!("{a}, {b}: {place}: {problem}"))
    };
    let matched = matching::pairs(a, b, ["the first", "the second"]).map_err(|e| failed("names", &e))?;
    let pairs: Vec<_> = matched.pairs.iter().map(|&(i, j)| (a.poses[i].pose, b.poses[j].pose)).collect();
    let moments: Vec<u32> = matched.pairs.iter().map(|&(_, j)| b.poses[j].moment).collect();
    let Comparison { fit, is_line, errors, centre, rotation, path, drift } =
        compare::compare(&pairs, &moments).map_err(|e| failed("poses", &e))?;
    let name = |pair: usize| b.poses[matched.pairs[pair].1].name.clone();
    let frames: Vec<Frame> = errors
        .iter()
        .enumerate()
        .map(|(pair, error)| Frame {
            name: name(pair),
            centre_error: error.centre,
            rotation_error_degrees: error.rotation,
            fitted: error.fitted,
            reference: error.reference,
            is_fitted: error.is_fitted,
        })
        .collect();
    Ok(Compared {
        schema: 1,
        matched_by: matched.by,
        common: frames.len(),
        registered_share: frames.len() as f64 / b.poses.len() as f64,
        missing: matching::missing(b, a, matched.by),
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

impl Compared {
    /// Picture by picture as a table (CSV).
    #[must_use]
    pub fn csv(&self) -> String {
        let mut out = "name,centre_error,rotation_error_degrees,fitted_x,fitted_y,fitted_z,reference_x,reference_y,reference_z,in_fit\n".to_owned();
        for Frame { name, centre_error, rotation_error_degrees, fitted, reference, is_fitted } in &self.frames
        {
            let name = if name.contains([',', '"']) {
                format!("\"{}\"", name.replace('"', "\"\""))
            } else {
                name.clone()
            };
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

    /// The picture whose error is largest.
    #[must_use]
    pub fn worst(&self, error: impl Fn(&Frame) -> f64) -> Option<&Frame> {
        self.frames.iter().max_by(|a, b| error(a).total_cmp(&error(b)))
    }
}
