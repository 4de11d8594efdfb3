//! Calibration from frames with given poses: bundle adjustment with priors on the poses instead of fixed poses.
//!
//! Poses that were estimated with a rough lens inherit its errors, so they are refined as well, each with a prior at
//! its given value. The priors also fix position, rotation and scale of the world. The offset between the two lenses,
//! some centimetres, is estimated from near landmarks that both see.

use gausset_core::Pose;

use super::follow::{COARSE, FINE, Level, Thing, distance, near, tracks_of};
use super::linear::median;
use super::run::{CalibrationError, Job};
use super::solve::{Fit, solve};
use super::state::State;
use super::tracks::Track;

/// Minimum number of frames with poses.
pub const FEWEST_POSES: usize = 3;
/// Minimum number of matches in other frames, per frame.
const FEWEST: usize = 150;
/// Expected error of rough lens and poses together, degrees, and the error that remains after the first solve.
const OFF: f64 = 2.0;
const LEFT: f64 = 0.6;
/// Landmarks per parallel task.
const PART: usize = 64;

/// Motion of the camera between the frames.
pub(super) enum Stand {
    /// All frames have the same position: the camera only rotated.
    Turned,
    /// Frames have different positions; the value is the median distance of a frame to its nearest neighbour.
    Apart(f64),
}

/// Camera motion from the poses; fails if fewer than [`FEWEST_POSES`] frames have one.
pub(super) fn stand(poses: &[Option<Pose>]) -> Result<Stand, CalibrationError> {
    let centres: Vec<[f64; 3]> = poses.iter().flatten().map(Pose::centre).collect();
    if centres.len() < FEWEST_POSES {
        return Err(CalibrationError::Poses(centres.len(), FEWEST_POSES));
    }
    let extent = centres.iter().map(|c| distance(*c, centres[0])).fold(0.0, f64::max);
    let size = centres.iter().flatten().fold(0.0f64, |most, v| most.max(v.abs()));
    if extent <= 1e-9 * size || extent == 0.0 {
        return Ok(Stand::Turned);
    }
    let nearest = centres.iter().map(|a| {
        let others = centres.iter().map(|b| distance(*a, *b)).filter(|way| *way > 1e-3 * extent);
        others.fold(f64::INFINITY, f64::min)
    });
    Ok(Stand::Apart(median(nearest.collect())))
}

impl Job<'_> {
    /// Optimises lenses and poses from approximate lenses: first on coarse images, then on fine ones.
    pub(super) fn walk(
        &self,
        rough: &State,
        poses: &[Option<Pose>],
        unit: f64,
    ) -> Result<(State, Fit, Vec<Track>), CalibrationError> {
        let has_pose: Vec<bool> = poses.iter().map(Option::is_some).collect();
        let poses = poses.iter().map(|pose| pose.unwrap_or_default()).collect();
        let believed = State { poses, unit: Some(unit), ..rough.clone() };
        let near = near(&believed, &has_pose);
        let fewest = FEWEST * has_pose.iter().filter(|&&has_pose| has_pose).count();
        let coarse = Level::new(self.frames, &believed, COARSE, self.pool);
        let found = self.pool.map(2 * self.frames.len(), |task| {
            let eye = [task / 2, task % 2];
            if !has_pose[eye[0]] || self.go_on().is_err() {
                return Vec::new();
            }
            coarse.look(&believed, eye, &near[eye[0]], OFF.to_radians())
        });
        self.go_on()?;
        drop(coarse);
        let mut things = found.concat();
        let (state, ..) = solved(&believed, &believed, &mut things, fewest)?;
        let fine = Level::new(self.frames, &state, FINE, self.pool);
        let refined = self.pool.map(things.len().div_ceil(PART), |part| {
            if self.go_on().is_err() {
                return Vec::new();
            }
            let part = things.iter().skip(part * PART).take(PART);
            let refine =
                |thing: &Thing| fine.refine(&state, thing, &near[thing.corner.frame], LEFT.to_radians());
            part.filter_map(refine).collect()
        });
        self.go_on()?;
        solved(&state, &believed, &mut refined.concat(), fewest)
    }
}

/// Optimises over the observations of the landmarks and writes the new inverse depths to the landmarks.
fn solved(
    state: &State,
    believed: &State,
    things: &mut [Thing],
    fewest: usize,
) -> Result<(State, Fit, Vec<Track>), CalibrationError> {
    let (tracks, nearness) = tracks_of(things);
    let elsewhere = tracks.iter().filter(|track| track.from.frame != track.to.frame).count();
    if elsewhere < fewest {
        return Err(CalibrationError::Sightings(elsewhere, fewest));
    }
    let (state, fit) = solve(&State { nearness, ..state.clone() }, believed, &tracks);
    for (thing, nearness) in things.iter_mut().zip(&state.nearness) {
        thing.nearness = *nearness;
    }
    Ok((state, fit, tracks))
}
