//! Stages of a calibration.

use std::f64::consts::{FRAC_PI_2, PI, TAU};
use std::sync::atomic::{AtomicBool, Ordering};

use gausset_compute::Pool;
use gausset_core::Pose;
use gausset_core::se3::{self, IDENTITY3, Mat3};

use super::circle::{self, CircleError, ImageCircle};
use super::frame_rotation::{describe_corners, rotation_between};
use super::matching::{
    CornerRegion, LensImage, LensMatch, SearchWindow, USABLE_RADIUS, detect_corners, match_corner,
};
use super::model::{LensModel, REFERENCE_ANGLE};
use super::solve::{CalibrationFit, solve, spread};
use super::state::{CalibrationState, LENS_PARAMETERS, LENSES_PARAMETERS, OFFSET_PARAMETER};
use super::with_poses::{CameraMotion, camera_motion};
use super::{LumaImage, circle_cells};
use crate::sphere::fisheye::{DualFisheye, Lens};
use crate::sphere::geometry::rotation;

/// Minimum number of matches in the ring.
const MIN_RING_MATCHES: usize = 60;
/// Maximum spread of the residuals, in radii of the circle; above it no lens fits the matches.
const MAX_SPREAD: f64 = 0.006;
/// Maximum width of the blend zone, radians, as in lens files.
const MAX_BLEND: f64 = 45.0 * PI / 180.0;

/// Initial values of a calibration.
#[derive(Clone, Debug, Default)]
pub struct InitialCalibration {
    /// Approximate lenses; `None` = equidistant lenses back to back, with any roll.
    pub lenses: Option<DualFisheye>,
    /// Radius of the image circles, px; `None` = detected in the frames.
    pub radius: Option<f64>,
    /// Known poses (`pano_from_world`), one entry per frame; empty = none.
    pub poses: Vec<Option<Pose>>,
}

/// Calibrated lenses with their uncertainty.
#[derive(Clone, Debug)]
pub struct Calibration {
    /// The calibrated lenses.
    pub lenses: DualFisheye,
    /// Detected image circles; `None` if a radius was given and no circle was found.
    pub circles: [Option<ImageCircle>; 2],
    /// Number of matches in the ring that both lenses see, and number of matches between frames.
    pub matches: [usize; 2],
    /// Number of frames whose rotation relative to the previous frame is known.
    pub rotations: usize,
    /// Spread of the residuals: robust standard deviation of a coordinate, px.
    pub residual_spread: f64,
    /// Standard deviation of the centres, px.
    pub centre_sigma: f64,
    /// Standard deviation of the rotation between the lenses, degrees.
    pub rotation_sigma: f64,
    /// Largest standard deviation of the angle from the axis of a pixel, degrees.
    pub angle_sigma: f64,
    /// Result of the calibration with given poses; `None` if there were none or the camera only rotated.
    pub pose_refinement: Option<PoseRefinement>,
}

/// Details of a calibration from frames with poses at different positions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PoseRefinement {
    /// Frames with a pose.
    pub frames: usize,
    /// Number of landmarks.
    pub landmarks: usize,
    /// RMS change of the given poses: rotation, degrees, and position, in median distances between neighbouring frames.
    pub pose_change: [f64; 2],
    /// Position of the second lens relative to the first in panorama axes, in the unit of the poses.
    pub second_position: [f64; 3],
    /// Standard deviation of a coordinate of [`Self::second_position`], in the unit of the poses.
    pub second_sigma: f64,
}

/// Why a calibration failed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum CalibrationError {
    /// The frame is too small or not about 2:1 or 1:2; its size, px.
    #[error(
        "frames of {0}x{1} px (expected two circles of at least 64 px, side by side or one above the other: about 2:1 or 1:2)"
    )]
    Shape(u32, u32),
    /// An image circle was not found.
    #[error(transparent)]
    Circle(#[from] CircleError),
    /// Too few matches between the two lenses: found, required.
    #[error(
        "{0} matches between the two lenses (expected at least {1}); take frames of a distant scene with detail all around"
    )]
    TooLittleOverlap(usize, usize),
    /// No lens fits the matches: spread of the residuals, and its maximum, px.
    #[error(
        "no lens fits the matches between the two lenses (residual {0:.1} px; expected below {1:.1}); take frames of a more distant scene, or start from a lens file with ⟨lens⟩"
    )]
    Inconsistent(f64, f64),
    /// Too few frames have a pose: found, required.
    #[error("{0} of its frames have a pose (expected at least {1})")]
    TooFewPoses(usize, usize),
    /// Too few matches between frames with poses: found, required.
    #[error(
        "{0} corners were matched in other frames where the poses predict them (expected at least {1}); check that the poses belong to these frames, with axes x right, y down, z forward"
    )]
    TooFewMatches(usize, usize),
    /// The matches do not agree with the given poses: spread of the residuals, and its maximum, px.
    #[error(
        "the frames do not agree with their poses (residual {0:.1} px; expected below {1:.1}); check that the poses belong to these frames, with axes x right, y down, z forward"
    )]
    PoseMismatch(f64, f64),
    /// The job was asked to stop.
    #[error("stopped")]
    Stopped,
}

impl CalibrationError {
    /// Whether the given poses are the cause.
    #[must_use]
    pub fn is_caused_by_poses(&self) -> bool {
        matches!(self, Self::TooFewPoses(..) | Self::TooFewMatches(..) | Self::PoseMismatch(..))
    }
}

/// Checks that enough frames have a pose.
///
/// # Errors
/// [`CalibrationError::TooFewPoses`].
pub fn check_poses(poses: &[Option<Pose>]) -> Result<(), CalibrationError> {
    camera_motion(poses).map(|_| ())
}

/// Calibrates two lenses from frames of equal size. The result does not depend on the number of threads.
///
/// # Errors
/// See [`CalibrationError`].
pub fn calibrate(
    frames: &[LumaImage],
    start: &InitialCalibration,
    pool: &Pool,
    stop: &AtomicBool,
) -> Result<Calibration, CalibrationError> {
    let size = frames.first().map_or([0, 0], |f| [f.width as u32, f.height as u32]);
    let cells = circle_cells(size).ok_or(CalibrationError::Shape(size[0], size[1]))?;
    let stands = if start.poses.is_empty() { None } else { Some(camera_motion(&start.poses)?) };
    let found = pool.map(2, |lens| circle::find_circle(frames, cells[lens], lens));
    let mut circles = [None; 2];
    for (slot, found) in circles.iter_mut().zip(found) {
        *slot = match (found, start.radius) {
            (Ok(circle), _) => Some(circle),
            // A given radius replaces a circle that is not found, but not black frames.
            (Err(CircleError::NotFound(_) | CircleError::BrightOutside(..)), Some(_)) => None,
            (Err(error), _) => return Err(error.into()),
        };
    }
    let job = Calibrator { frames, pool, stop };
    let state = job.initial_state(start, cells, circles)?;
    let pixel = state.models[0].pixel_angle();
    let coarse = SearchWindow { sample_angle: (4.5 * PI / 180.0 / 20.0_f64).max(pixel), reach: 20 };
    let fine = [6, 3].map(|reach| SearchWindow { sample_angle: pixel, reach });
    // With poses at different positions, the ring only initialises the lenses: fewer rounds and corners suffice.
    let is_beginning = matches!(stands, Some(CameraMotion::Moving(_)));
    let (rounds, each) = if is_beginning { (1, 2) } else { (2, 4) };
    let mut ring = job.ring_matches(&state, coarse, 1)?;
    let (mut state, mut fit) = solve(&state, &state, &ring);
    for search in &fine[..rounds] {
        ring = job.ring_matches(&state, *search, each)?;
        (state, fit) = solve(&state, &state, &ring);
    }
    if let Some(CameraMotion::Moving(unit)) = stands {
        let (walked, fit, tracks) = job.refine_with_poses(&state, &start.poses, unit)?;
        let most = MAX_SPREAD * state.models[0].radius;
        if fit.spread > most {
            return Err(CalibrationError::PoseMismatch(fit.spread, most));
        }
        let walk = PoseRefinement::new(&walked, &start.poses, unit, &fit);
        return Ok(Calibration {
            pose_refinement: Some(walk),
            ..calibration(&walked, size, circles, &fit, &tracks)
        });
    }
    let turned = match stands {
        // Poses at one position give the rotations between frames.
        Some(_) => set_rotations(&mut state, &start.poses),
        None => job.estimate_rotations(&mut state)?,
    };
    let mut across = Vec::new();
    if turned.iter().any(|&is_known| is_known) {
        for reach in [8, 3] {
            let search = SearchWindow { sample_angle: pixel, reach };
            across = job.frame_matches(&state, &turned, search)?;
            ring = job.ring_matches(&state, SearchWindow { sample_angle: pixel, reach: 3 }, 4)?;
            // Poses that belong to other frames leave almost no matches.
            let fewest = MIN_RING_MATCHES * turned.iter().filter(|&&is_known| is_known).count();
            if across.len() < fewest && stands.is_some() {
                return Err(CalibrationError::TooFewMatches(across.len(), fewest));
            }
            (state, fit) = solve(&state, &state, &[ring.clone(), across.clone()].concat());
        }
    }
    let most = MAX_SPREAD * state.models[0].radius;
    let apart = spread(&state, &ring);
    if apart > most {
        return Err(CalibrationError::Inconsistent(apart, most));
    }
    let turned = turned.iter().filter(|&&is_known| is_known).count();
    let tracks = [ring, across].concat();
    Ok(Calibration { rotations: turned, ..calibration(&state, size, circles, &fit, &tracks) })
}

/// Assembles the result without the details of given poses.
fn calibration(
    state: &CalibrationState,
    size: [u32; 2],
    circles: [Option<ImageCircle>; 2],
    fit: &CalibrationFit,
    tracks: &[LensMatch],
) -> Calibration {
    let ring = tracks.iter().filter(|track| track.from.frame == track.to.frame).count();
    Calibration {
        lenses: to_dual_fisheye(state, size),
        circles,
        matches: [ring, tracks.len() - ring],
        rotations: 0,
        residual_spread: fit.spread,
        centre_sigma: fit.max_sigma(0..2).max(fit.max_sigma(LENS_PARAMETERS..LENS_PARAMETERS + 2)),
        rotation_sigma: fit.max_sigma(2 * LENS_PARAMETERS..LENSES_PARAMETERS).to_degrees(),
        angle_sigma: fit.angle_sigma.to_degrees(),
        pose_refinement: None,
    }
}

impl PoseRefinement {
    fn new(state: &CalibrationState, poses: &[Option<Pose>], unit: f64, fit: &CalibrationFit) -> Self {
        let given: Vec<(&Pose, &Pose)> =
            state.poses.iter().zip(poses).filter_map(|(now, then)| Some((now, then.as_ref()?))).collect();
        let root = |square: &dyn Fn(&Pose, &Pose) -> f64| {
            let sum: f64 = given.iter().map(|(now, then)| square(now, then)).sum();
            libm::sqrt(sum / given.len().max(1) as f64)
        };
        let turned = root(&|now, then| {
            let apart = [0, 1, 2].map(|k| se3::distance(now.rotation[k], then.rotation[k]));
            // ‖A - B‖² of two rotations is 8 sin²(angle/2), about twice the square of the angle.
            apart.iter().map(|v| 0.5 * v * v).sum()
        });
        let moved = root(&|now, then| {
            let way = se3::sub(now.centre(), then.centre());
            se3::dot(way, way) / (unit * unit)
        });
        Self {
            frames: given.len(),
            landmarks: state.inverse_depths.len(),
            pose_change: [turned.to_degrees(), moved],
            second_position: state.second_position,
            second_sigma: fit.max_sigma(OFFSET_PARAMETER..OFFSET_PARAMETER + 3),
        }
    }
}

/// Takes the rotations of frames from their poses. Returns, for each pair of consecutive frames, whether both have a
/// pose.
fn set_rotations(state: &mut CalibrationState, poses: &[Option<Pose>]) -> Vec<bool> {
    let mut first = None;
    for (now, given) in state.poses.iter_mut().zip(poses) {
        let Some(given) = given else { continue };
        let first = first.get_or_insert_with(|| se3::transpose(&given.rotation));
        now.rotation = se3::mul(&given.rotation, first);
    }
    poses.windows(2).map(|pair| pair[0].is_some() && pair[1].is_some()).collect()
}

/// Frames, thread pool and stop flag of a calibration.
pub(super) struct Calibrator<'a> {
    pub(super) frames: &'a [LumaImage],
    pub(super) pool: &'a Pool,
    stop: &'a AtomicBool,
}

impl Calibrator<'_> {
    pub(super) fn check_stop(&self) -> Result<(), CalibrationError> {
        if self.stop.load(Ordering::Relaxed) { Err(CalibrationError::Stopped) } else { Ok(()) }
    }

    /// Initial state from circles and [`InitialCalibration`].
    fn initial_state(
        &self,
        start: &InitialCalibration,
        cells: [[usize; 4]; 2],
        circles: [Option<ImageCircle>; 2],
    ) -> Result<CalibrationState, CalibrationError> {
        let poses = vec![Pose::IDENTITY; self.frames.len()];
        let state = |models| CalibrationState {
            models,
            poses,
            spacing: None,
            second_position: [0.0; 3],
            inverse_depths: Vec::new(),
        };
        let circle = |lens: usize| {
            let [left, top, width, height] = cells[lens].map(|v| v as f64);
            let middle = [left + 0.5 * width, top + 0.5 * height];
            let found = circles[lens];
            let radius = start.radius.or(found.map(|c| c.radius)).unwrap_or(0.5 * width.min(height));
            (found.map_or(middle, |c| c.centre), radius)
        };
        let model = |lens: usize, polynomial, pano_from_lens| {
            let (centre, radius) = circle(lens);
            LensModel { centre, radius, polynomial, pano_from_lens }
        };
        if let Some(lenses) = &start.lenses {
            let models = [0, 1].map(|lens| {
                let known = &lenses.lenses[lens];
                let (_, radius) = circle(lens);
                model(lens, rescaled_coefficients(known, radius), known.pano_from_lens)
            });
            return Ok(state(models));
        }
        let (share, roll) = self
            .scan_radius_and_roll([circle(0), circle(1)])
            .ok_or(CalibrationError::TooLittleOverlap(0, MIN_RING_MATCHES))?;
        // Equidistant: `share` of the radius corresponds to 90 degrees.
        let polynomial = [share * REFERENCE_ANGLE / FRAC_PI_2, 0.0, 0.0];
        let back = se3::mul(&rotation(180.0, 0.0, 0.0), &rotation(0.0, 0.0, roll));
        Ok(state([model(0, polynomial, IDENTITY3), model(1, polynomial, back)]))
    }

    /// Fraction of the radius at which both lenses see the same, and roll of the second lens, degrees, by the best
    /// correlation of bands around both circles.
    fn scan_radius_and_roll(&self, circles: [([f64; 2], f64); 2]) -> Option<(f64, f64)> {
        const AROUND: usize = 720;
        const BANDS: [f64; 5] = [-0.03, -0.015, 0.0, 0.015, 0.03];
        let around = |frame: &LumaImage, lens: usize, radii: f64| -> Vec<f64> {
            let (centre, radius) = circles[lens];
            let values = (0..AROUND).map(|k| {
                let angle = TAU * k as f64 / AROUND as f64;
                // The second lens looks backwards, so its angle runs in the opposite direction, from the left.
                let angle = if lens == 0 { angle } else { PI - angle };
                let r = radii * radius;
                frame.sample(centre[0] + r * libm::cos(angle), centre[1] + r * libm::sin(angle))
            });
            let values: Vec<f64> = values.collect();
            let mean = values.iter().sum::<f64>() / AROUND as f64;
            values.into_iter().map(|v| v - mean).collect()
        };
        let shares: Vec<f64> = (0..24).map(|k| 0.76 + 0.01 * f64::from(k)).collect();
        let scores = self.pool.map(shares.len(), |at| {
            let mut products = vec![0.0; AROUND];
            let mut squares = [0.0; 2];
            for frame in self.frames {
                for band in BANDS {
                    let [a, b] =
                        [(0, band), (1, -band)].map(|(lens, band)| around(frame, lens, shares[at] + band));
                    squares[0] += a.iter().map(|v| v * v).sum::<f64>();
                    squares[1] += b.iter().map(|v| v * v).sum::<f64>();
                    for (shift, product) in products.iter_mut().enumerate() {
                        let (head, tail) = b.split_at(shift);
                        *product += a.iter().zip(tail.iter().chain(head)).map(|(a, b)| a * b).sum::<f64>();
                    }
                }
            }
            let norm = libm::sqrt(squares[0] * squares[1]).max(1e-9);
            let best = (0..AROUND).max_by(|&a, &b| products[a].total_cmp(&products[b])).unwrap_or(0);
            (products[best] / norm, best)
        });
        let at = (0..shares.len()).max_by(|&a, &b| scores[a].0.total_cmp(&scores[b].0))?;
        let (score, shift) = scores[at];
        let roll = 360.0 * shift as f64 / AROUND as f64;
        (score > 0.3).then_some((shares[at], roll))
    }

    /// Matches in the ring that both lenses see, in both directions, with `each` corners per bin.
    fn ring_matches(
        &self,
        state: &CalibrationState,
        search: SearchWindow,
        each: usize,
    ) -> Result<Vec<LensMatch>, CalibrationError> {
        let tracks = self.pool.map(2 * self.frames.len(), |task| {
            if self.check_stop().is_err() {
                return Vec::new();
            }
            let (frame, lens) = (task / 2, task % 2);
            let eye = |lens| LensImage { frame, lens, grey: &self.frames[frame], model: &state.models[lens] };
            let (from, to) = (eye(lens), eye(1 - lens));
            // Inwards to where the other lens still sees, and a little more.
            let inner = from.model.radii_at(PI - to.model.angle_at(USABLE_RADIUS) - 0.03);
            let zone = CornerRegion {
                radii: [inner.clamp(0.3, 0.95), USABLE_RADIUS - 0.02],
                bins: [90, 2],
                per_bin: each,
            };
            detect_corners(from, zone)
                .into_iter()
                .filter_map(|pixel| match_corner(from, to, &IDENTITY3, pixel, search))
                .collect()
        });
        self.check_stop()?;
        let tracks: Vec<LensMatch> = tracks.into_iter().flatten().collect();
        if tracks.len() < MIN_RING_MATCHES {
            return Err(CalibrationError::TooLittleOverlap(tracks.len(), MIN_RING_MATCHES));
        }
        Ok(tracks)
    }

    /// Estimates the rotation of each frame relative to the previous one. Returns whether each was found; otherwise the
    /// frame keeps the rotation of the previous one.
    fn estimate_rotations(&self, state: &mut CalibrationState) -> Result<Vec<bool>, CalibrationError> {
        let models = &state.models;
        let shown = self.pool.map(self.frames.len(), |frame| describe_corners(&self.frames[frame], models));
        self.check_stop()?;
        let count = self.frames.len().saturating_sub(1);
        let found = self.pool.map(count, |at| rotation_between(&shown[at], &shown[at + 1]));
        let mut known = vec![false; count];
        for (at, turn) in found.into_iter().enumerate() {
            known[at] = turn.is_some();
            let before = state.poses[at].rotation;
            state.poses[at + 1].rotation = turn.map_or(before, |turn: Mat3| se3::mul(&turn, &before));
        }
        self.check_stop()?;
        Ok(known)
    }

    /// Matches from each frame to the next, where the rotation is known. A camera that also moved has none.
    fn frame_matches(
        &self,
        state: &CalibrationState,
        known: &[bool],
        search: SearchWindow,
    ) -> Result<Vec<LensMatch>, CalibrationError> {
        let tracks = self.pool.map(2 * known.len(), |task| {
            let (frame, lens) = (task / 2, task % 2);
            if !known[frame] || self.check_stop().is_err() {
                return Vec::new();
            }
            let eye = |frame: usize, lens: usize| LensImage {
                frame,
                lens,
                grey: &self.frames[frame],
                model: &state.models[lens],
            };
            let [before, after] = [frame, frame + 1].map(|frame| state.poses[frame].rotation);
            let turn = se3::mul(&after, &se3::transpose(&before));
            let from = eye(frame, lens);
            let zone = CornerRegion { radii: [0.02, 0.95], bins: [24, 6], per_bin: 3 };
            let mut tracks = Vec::new();
            for pixel in detect_corners(from, zone) {
                for lens in 0..2 {
                    tracks.extend(match_corner(from, eye(frame + 1, lens), &turn, pixel, search));
                }
            }
            tracks
        });
        self.check_stop()?;
        Ok(tracks.into_iter().flatten().collect())
    }
}

/// Coefficients of a lens for an image circle of this radius.
fn rescaled_coefficients(lens: &Lens, radius: f64) -> [f64; 3] {
    let sum: f64 = lens.polynomial.iter().sum();
    let scale = lens.radius / radius / sum;
    let t = REFERENCE_ANGLE / lens.half_angle;
    let [a, b, c] = lens.polynomial;
    [scale * a * t, scale * b * t * t * t, scale * c * libm::pow(t, 5.0)]
}

/// Converts the result to the form of a lens file, whose polynomial ends at the rim of the circle.
fn to_dual_fisheye(state: &CalibrationState, [width, height]: [u32; 2]) -> DualFisheye {
    let lenses = state.models.map(|model| {
        let half_angle = model.angle_at(1.0).clamp(0.1, 139.0 * PI / 180.0);
        let t = half_angle / REFERENCE_ANGLE;
        let [a, b, c] = model.polynomial;
        let polynomial = [a * t, b * t * t * t, c * libm::pow(t, 5.0)];
        Lens {
            centre: model.centre,
            radius: model.radius,
            half_angle,
            polynomial,
            pano_from_lens: model.pano_from_lens,
            gain: [1.0; 3],
            vignetting: [[0.0; 3]; 3],
        }
    });
    let mut found = DualFisheye { width, height, blend: 0.0, lenses };
    found.blend = found.overlap().min(MAX_BLEND);
    found
}
