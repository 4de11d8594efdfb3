//! The rounds of a calibration.

use std::f64::consts::{FRAC_PI_2, PI, TAU};
use std::sync::atomic::{AtomicBool, Ordering};

use gausset_compute::Pool;
use gausset_core::se3::{self, IDENTITY3, Mat3};

use super::circle::{self, Circle, CircleError};
use super::model::{Model, REFERENCE};
use super::solve::{Fit, State, solve, spread};
use super::tracks::{Eye, RIM, Search, Track, Zone, corners, find};
use super::turn::{between, described};
use super::{Grey, cells};
use crate::fisheye::{DualFisheye, Lens};
use crate::geometry::rotation;

/// Fewest tracks in the ring from which lenses are calibrated.
const FEWEST: usize = 60;
/// Width of the zone in which a lens fades out, at most, radians.
const BLEND: f64 = 5.0 * PI / 180.0;

/// What is known before.
#[derive(Clone, Debug, Default)]
pub struct Start {
    /// Lenses that are roughly right; `None` = back to back, with any roll, equidistant.
    pub lenses: Option<DualFisheye>,
    /// Radius of the circles, px, whatever the pictures say.
    pub radius: Option<f64>,
}

/// Two calibrated lenses, and how well they are known.
#[derive(Clone, Debug)]
pub struct Calibration {
    /// The lenses.
    pub lenses: DualFisheye,
    /// The circles that were found; `None` of a lens whose radius was given and that shows none.
    pub circles: [Option<Circle>; 2],
    /// Tracks in the ring that both lenses see, and between frames that are turned against each other.
    pub tracks: [usize; 2],
    /// Frames whose turn against the one before is known.
    pub turned: usize,
    /// Spread of the tracks: standard deviation of a coordinate, px.
    pub spread: f64,
    /// Standard deviation of the centres, px.
    pub centre_doubt: f64,
    /// Standard deviation of the rotation between the lenses, degrees.
    pub rotation_doubt: f64,
}

/// Why lenses were not calibrated.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum CalibrationError {
    /// Neither twice as wide as high nor the other way round.
    #[error(
        "frames of {0}x{1} px (expected two circles of at least 64 px, side by side or one above the other: about 2:1 or 1:2)"
    )]
    Shape(u32, u32),
    /// A circle.
    #[error(transparent)]
    Circle(#[from] CircleError),
    /// Too little is seen by both lenses: tracks found, and those needed.
    #[error(
        "{0} places were found that both lenses see (expected at least {1}); take frames of a far scene with detail all around"
    )]
    Overlap(usize, usize),
    /// The tracks agree on no lens: their spread, px.
    #[error(
        "what both lenses see does not fit together ({0:.1} px apart; expected below {1:.1}); take frames of a farther scene, or say ⟨lens⟩ to start from"
    )]
    Spread(f64, f64),
    /// The job was asked to stop.
    #[error("stopped")]
    Stopped,
}

/// Calibrates two lenses from frames of one size, which is not empty.
///
/// # Errors
/// See [`CalibrationError`].
pub fn calibrate(
    frames: &[Grey],
    start: &Start,
    pool: &Pool,
    stop: &AtomicBool,
) -> Result<Calibration, CalibrationError> {
    let size = frames.first().map_or([0, 0], |f| [f.width as u32, f.height as u32]);
    let cells = cells(size).ok_or(CalibrationError::Shape(size[0], size[1]))?;
    let found = pool.map(2, |lens| circle::find(frames, cells[lens], lens));
    let mut circles = [None; 2];
    for (slot, found) in circles.iter_mut().zip(found) {
        *slot = match (found, start.radius) {
            (Ok(circle), _) => Some(circle),
            // A circle that was given need not be found; black says that nothing can be.
            (Err(CircleError::None(_) | CircleError::More(..)), Some(_)) => None,
            (Err(error), _) => return Err(error.into()),
        };
    }
    let job = Job { frames, pool, stop };
    let mut state = job.first_state(start, cells, circles)?;
    let pixel = state.models[0].pixel();
    let coarse = Search { step: (4.5 * PI / 180.0 / 20.0_f64).max(pixel), reach: 20 };
    let mut fit = Fit::default();
    let mut ring = Vec::new();
    for search in [coarse, Search { step: pixel, reach: 6 }, Search { step: pixel, reach: 3 }] {
        let each = if search.reach == coarse.reach { 1 } else { 4 };
        ring = job.ring(&state, search, each)?;
        (state, fit) = solve(&state, &ring);
    }
    let turned = job.turns(&mut state)?;
    let mut across = Vec::new();
    if turned.iter().any(|&is_known| is_known) {
        for reach in [8, 3] {
            let search = Search { step: pixel, reach };
            across = job.across(&state, &turned, search)?;
            ring = job.ring(&state, Search { step: pixel, reach: 3 }, 4)?;
            (state, fit) = solve(&state, &[ring.clone(), across.clone()].concat());
        }
    }
    let most = 0.006 * state.models[0].radius;
    let apart = spread(&state, &ring);
    if apart > most {
        return Err(CalibrationError::Spread(apart, most));
    }
    let doubt = |from: usize, to: usize| {
        fit.doubts.get(from..to).unwrap_or_default().iter().copied().fold(0.0, f64::max)
    };
    Ok(Calibration {
        lenses: lenses_of(&state, size, start),
        circles,
        tracks: [ring.len(), across.len()],
        turned: turned.iter().filter(|&&is_known| is_known).count(),
        spread: fit.spread,
        centre_doubt: doubt(0, 2).max(doubt(5, 7)),
        rotation_doubt: doubt(10, 13).to_degrees(),
    })
}

struct Job<'a> {
    frames: &'a [Grey],
    pool: &'a Pool,
    stop: &'a AtomicBool,
}

impl Job<'_> {
    fn go_on(&self) -> Result<(), CalibrationError> {
        if self.stop.load(Ordering::Relaxed) { Err(CalibrationError::Stopped) } else { Ok(()) }
    }

    /// Circles and start as models.
    fn first_state(
        &self,
        start: &Start,
        cells: [[usize; 4]; 2],
        circles: [Option<Circle>; 2],
    ) -> Result<State, CalibrationError> {
        let turns = vec![IDENTITY3; self.frames.len()];
        let circle = |lens: usize| {
            let [left, top, width, height] = cells[lens].map(|v| v as f64);
            let middle = [left + 0.5 * width, top + 0.5 * height];
            let found = circles[lens];
            let radius = start.radius.or(found.map(|c| c.radius)).unwrap_or(0.5 * width.min(height));
            (found.map_or(middle, |c| c.centre), radius)
        };
        let model = |lens: usize, polynomial, pano_from_lens| {
            let (centre, radius) = circle(lens);
            Model { centre, radius, polynomial, pano_from_lens }
        };
        if let Some(lenses) = &start.lenses {
            let models = [0, 1].map(|lens| {
                let known = &lenses.lenses[lens];
                let (_, radius) = circle(lens);
                model(lens, scaled(known, radius), known.pano_from_lens)
            });
            return Ok(State { models, turns });
        }
        let (share, roll) = self.scan([circle(0), circle(1)]).ok_or(CalibrationError::Overlap(0, FEWEST))?;
        // Equidistant: the given share of the radius is at 90 degrees.
        let polynomial = [share * REFERENCE / FRAC_PI_2, 0.0, 0.0];
        let back = se3::mul(&rotation(180.0, 0.0, 0.0), &rotation(0.0, 0.0, roll));
        Ok(State { models: [model(0, polynomial, IDENTITY3), model(1, polynomial, back)], turns })
    }

    /// The share of the radius at which both lenses see the same, and the roll of the second lens, degrees: where bands
    /// around both circles are most alike.
    fn scan(&self, circles: [([f64; 2], f64); 2]) -> Option<(f64, f64)> {
        const AROUND: usize = 720;
        const BANDS: [f64; 5] = [-0.03, -0.015, 0.0, 0.015, 0.03];
        let around = |frame: &Grey, lens: usize, radii: f64| -> Vec<f64> {
            let (centre, radius) = circles[lens];
            let values = (0..AROUND).map(|k| {
                let angle = TAU * k as f64 / AROUND as f64;
                // Seen from behind, the second lens goes round the other way, from its left.
                let angle = if lens == 0 { angle } else { PI - angle };
                let r = radii * radius;
                frame.at(centre[0] + r * libm::cos(angle), centre[1] + r * libm::sin(angle))
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

    /// Tracks in the ring that both lenses see, both ways, from so many corners a bin.
    fn ring(&self, state: &State, search: Search, each: usize) -> Result<Vec<Track>, CalibrationError> {
        let tracks = self.pool.map(2 * self.frames.len(), |task| {
            if self.go_on().is_err() {
                return Vec::new();
            }
            let (frame, lens) = (task / 2, task % 2);
            let eye = |lens| Eye { frame, lens, grey: &self.frames[frame], model: &state.models[lens] };
            let (from, to) = (eye(lens), eye(1 - lens));
            // As far inwards as the other lens still sees, and a little more.
            let inner = from.model.mapped(PI - to.model.angle(RIM) - 0.03);
            let zone = Zone { radii: [inner.clamp(0.3, 0.95), RIM - 0.02], bins: [90, 2], each };
            corners(from, zone)
                .into_iter()
                .filter_map(|pixel| find(from, to, &IDENTITY3, pixel, search))
                .collect()
        });
        self.go_on()?;
        let tracks: Vec<Track> = tracks.into_iter().flatten().collect();
        if tracks.len() < FEWEST {
            return Err(CalibrationError::Overlap(tracks.len(), FEWEST));
        }
        Ok(tracks)
    }

    /// Finds how each frame is turned against the one before; whether it is known.
    fn turns(&self, state: &mut State) -> Result<Vec<bool>, CalibrationError> {
        let models = &state.models;
        let shown = self.pool.map(self.frames.len(), |frame| described(&self.frames[frame], models));
        self.go_on()?;
        let count = self.frames.len().saturating_sub(1);
        let found = self.pool.map(count, |at| between(&shown[at], &shown[at + 1]));
        let mut known = vec![false; count];
        for (at, turn) in found.into_iter().enumerate() {
            known[at] = turn.is_some();
            state.turns[at + 1] =
                turn.map_or(state.turns[at], |turn: Mat3| se3::mul(&turn, &state.turns[at]));
        }
        self.go_on()?;
        Ok(known)
    }

    /// Tracks from each frame to the next, where the turn is known; of a camera that moved, none.
    fn across(&self, state: &State, known: &[bool], search: Search) -> Result<Vec<Track>, CalibrationError> {
        let tracks = self.pool.map(2 * known.len(), |task| {
            let (frame, lens) = (task / 2, task % 2);
            if !known[frame] || self.go_on().is_err() {
                return Vec::new();
            }
            let eye = |frame: usize, lens: usize| Eye {
                frame,
                lens,
                grey: &self.frames[frame],
                model: &state.models[lens],
            };
            let turn = se3::mul(&state.turns[frame + 1], &se3::transpose(&state.turns[frame]));
            let from = eye(frame, lens);
            let zone = Zone { radii: [0.02, 0.95], bins: [24, 6], each: 3 };
            let mut tracks = Vec::new();
            for pixel in corners(from, zone) {
                for lens in 0..2 {
                    tracks.extend(find(from, eye(frame + 1, lens), &turn, pixel, search));
                }
            }
            tracks
        });
        self.go_on()?;
        Ok(tracks.into_iter().flatten().collect())
    }
}

/// The coefficients of a lens for a circle of this radius.
fn scaled(lens: &Lens, radius: f64) -> [f64; 3] {
    let sum: f64 = lens.polynomial.iter().sum();
    let scale = lens.radius / radius / sum;
    let t = REFERENCE / lens.half_angle;
    let [a, b, c] = lens.polynomial;
    [scale * a * t, scale * b * t * t * t, scale * c * libm::pow(t, 5.0)]
}

/// The result as a lens file has it: from the axis to the rim of the circle.
fn lenses_of(state: &State, [width, height]: [u32; 2], start: &Start) -> DualFisheye {
    let lenses = state.models.map(|model| {
        let half_angle = model.angle(1.0).clamp(0.1, 139.0 * PI / 180.0);
        let t = half_angle / REFERENCE;
        let [a, b, c] = model.polynomial;
        let polynomial = [a * t, b * t * t * t, c * libm::pow(t, 5.0)];
        Lens {
            centre: model.centre,
            radius: model.radius,
            half_angle,
            polynomial,
            pano_from_lens: model.pano_from_lens,
            gain: [1.0; 3],
        }
    });
    // Where one ends the other must still see.
    let overlap = lenses[0].half_angle + lenses[1].half_angle - PI;
    let blend = start.lenses.as_ref().map_or(BLEND, |l| l.blend).min((0.5 * overlap).max(0.0));
    DualFisheye { width, height, blend, lenses }
}
