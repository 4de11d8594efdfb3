//! Calibration from frames with given poses: bundle adjustment with priors on the poses instead of fixed poses.
//!
//! Poses that were estimated with a rough lens inherit its errors, so they are refined as well, each with a prior at
//! its given value. The priors also fix position, rotation and scale of the world. The offset between the two lenses,
//! some centimetres, is estimated from near landmarks that both see.

use gausset_core::Pose;
use gausset_core::se3::distance;

use super::landmarks::{
    COARSE_PIXEL_ANGLE, FINE_PIXEL_ANGLE, ImageLevel, Landmark, matches_of, nearest_frames,
};
use super::linear::median;
use super::matching::LensMatch;
use super::run::{CalibrationError, Calibrator};
use super::solve::{CalibrationFit, solve};
use super::state::CalibrationState;

/// Minimum number of frames with poses.
pub const MIN_POSES: usize = 3;
/// Minimum number of matches in other frames, per frame.
const MIN_MATCHES_PER_FRAME: usize = 150;
/// Expected error of rough lens and poses together, degrees, and the error that remains after the first solve.
const COARSE_ERROR_DEGREES: f64 = 2.0;
const FINE_ERROR_DEGREES: f64 = 0.6;
/// Landmarks per parallel task.
const LANDMARKS_PER_TASK: usize = 64;

/// Motion of the camera between the frames.
pub(super) enum CameraMotion {
    /// All frames have the same position: the camera only rotated.
    Rotating,
    /// Frames have different positions; the value is the median distance of a frame to its nearest neighbour.
    Moving(f64),
}

/// Camera motion from the poses; fails if fewer than [`MIN_POSES`] frames have one.
pub(super) fn camera_motion(poses: &[Option<Pose>]) -> Result<CameraMotion, CalibrationError> {
    let centres: Vec<[f64; 3]> = poses.iter().flatten().map(Pose::centre).collect();
    if centres.len() < MIN_POSES {
        return Err(CalibrationError::TooFewPoses(centres.len(), MIN_POSES));
    }
    let extent = centres.iter().map(|c| distance(*c, centres[0])).fold(0.0, f64::max);
    let size = centres.iter().flatten().fold(0.0f64, |most, v| most.max(v.abs()));
    if extent <= 1e-9 * size || extent == 0.0 {
        return Ok(CameraMotion::Rotating);
    }
    let nearest = centres.iter().map(|a| {
        let others = centres.iter().map(|b| distance(*a, *b)).filter(|way| *way > 1e-3 * extent);
        others.fold(f64::INFINITY, f64::min)
    });
    Ok(CameraMotion::Moving(median(nearest.collect())))
}

impl Calibrator<'_> {
    /// Optimises lenses and poses from approximate lenses: first on coarse images, then on fine ones.
    pub(super) fn refine_with_poses(
        &self,
        rough: &CalibrationState,
        poses: &[Option<Pose>],
        unit: f64,
    ) -> Result<(CalibrationState, CalibrationFit, Vec<LensMatch>), CalibrationError> {
        let has_pose: Vec<bool> = poses.iter().map(Option::is_some).collect();
        let poses = poses.iter().map(|pose| pose.unwrap_or_default()).collect();
        let believed = CalibrationState { poses, spacing: Some(unit), ..rough.clone() };
        let near = nearest_frames(&believed, &has_pose);
        let fewest = MIN_MATCHES_PER_FRAME * has_pose.iter().filter(|&&has_pose| has_pose).count();
        let coarse = ImageLevel::new(self.frames, &believed, COARSE_PIXEL_ANGLE, self.pool);
        let found = self.pool.map(2 * self.frames.len(), |task| {
            let eye = [task / 2, task % 2];
            if !has_pose[eye[0]] || self.check_stop().is_err() {
                return Vec::new();
            }
            coarse.find_landmarks(&believed, eye, &near[eye[0]], COARSE_ERROR_DEGREES.to_radians())
        });
        self.check_stop()?;
        drop(coarse);
        let mut things = found.concat();
        let (state, ..) = solve_landmarks(&believed, &believed, &mut things, fewest)?;
        let fine = ImageLevel::new(self.frames, &state, FINE_PIXEL_ANGLE, self.pool);
        let refined = self.pool.map(things.len().div_ceil(LANDMARKS_PER_TASK), |part| {
            if self.check_stop().is_err() {
                return Vec::new();
            }
            let part = things.iter().skip(part * LANDMARKS_PER_TASK).take(LANDMARKS_PER_TASK);
            let refine = |thing: &Landmark| {
                fine.refine_landmark(
                    &state,
                    thing,
                    &near[thing.corner.frame],
                    FINE_ERROR_DEGREES.to_radians(),
                )
            };
            part.filter_map(refine).collect()
        });
        self.check_stop()?;
        solve_landmarks(&state, &believed, &mut refined.concat(), fewest)
    }
}

/// Optimises over the observations of the landmarks and writes the new inverse depths to the landmarks.
fn solve_landmarks(
    state: &CalibrationState,
    believed: &CalibrationState,
    things: &mut [Landmark],
    fewest: usize,
) -> Result<(CalibrationState, CalibrationFit, Vec<LensMatch>), CalibrationError> {
    let (tracks, nearness) = matches_of(things);
    let elsewhere = tracks.iter().filter(|track| track.from.frame != track.to.frame).count();
    if elsewhere < fewest {
        return Err(CalibrationError::TooFewMatches(elsewhere, fewest));
    }
    let (state, fit) =
        solve(&CalibrationState { inverse_depths: nearness, ..state.clone() }, believed, &tracks);
    for (thing, nearness) in things.iter_mut().zip(&state.inverse_depths) {
        thing.inverse_depth = *nearness;
    }
    Ok((state, fit, tracks))
}
