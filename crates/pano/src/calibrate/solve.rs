//! Optimises both lenses and the poses of the frames: Levenberg-Marquardt over reprojection residuals with Cauchy
//! weights.
//!
//! ```text
//! residual   project(to, relative_pose(ray(from))) - pixel(to)    px, divided by the spread of the residuals
//! relative   y = R ray + inverse_depth · t, from one lens of a frame to a lens of another frame (`state`)
//! parameters of each lens: centre, three coefficients; rotation of the second lens; of each frame its rotation, or,
//!            with given poses, its pose and the position of the second lens; of each landmark its inverse depth,
//!            which is eliminated (Schur complement)
//! priors     centre: that of the circle; coefficients: those of the start, similar for both lenses; poses: as given
//! ```
//! Priors are needed because the matches leave parameters undetermined: with the ring of overlap alone, a wider first
//! lens with a narrower second lens explains the matches as well as the reverse.

use std::ops::Range;

use gausset_core::se3;

use super::linear::{inverse_diagonal, median, solve as solve_system, variance};
use super::model::Model;
use super::state::{BASELINE, BOTH, LENS, POSE, Slopes, State};
use super::tracks::Track;

/// Prior standard deviations: of a centre, in radii, and of the coefficients.
const CENTRE: f64 = 0.002;
const COEFFICIENTS: [f64; 3] = [0.1, 0.01, 0.01];
/// Prior standard deviation of the difference of the coefficients of both lenses; larger with given poses, which
/// constrain each lens separately.
const ALIKE: f64 = 0.001;
const ALIKE_WITH_POSES: f64 = 0.03;
/// Prior standard deviations of given poses: rotation, radians, and position, in median distances between neighbouring
/// frames; then of the position of the second lens, in the same unit.
const TURN: f64 = 0.02;
const PLACE: f64 = 0.05;
const APART: f64 = 0.1;
/// Prior standard deviation of inverse depth, times the median distance between neighbouring frames: closer landmarks
/// are not seen from other frames.
const NEARNESS: f64 = 10.0;

/// Prior on a linear combination of parameters: `row` holds parameter indices with factors, `error` the deviation from
/// the prior, `sigma` its standard deviation.
struct Prior {
    row: Vec<(usize, f64)>,
    error: f64,
    sigma: f64,
}

/// Uncertainty of a solution.
#[derive(Clone, Debug, Default)]
pub(super) struct Fit {
    /// Standard deviation of each parameter.
    pub(super) doubts: Vec<f64>,
    /// Largest standard deviation of the angle from the axis of a pixel of either lens, radians.
    pub(super) angle_doubt: f64,
    /// Spread of the residuals, px.
    pub(super) spread: f64,
}

impl Fit {
    /// Largest standard deviation of a range of parameters; 0 if it is empty or the parameters are undetermined.
    pub(super) fn doubt(&self, unknowns: Range<usize>) -> f64 {
        self.doubts.get(unknowns).unwrap_or_default().iter().copied().fold(0.0, f64::max)
    }
}

/// Priors on the first state, centred on the second.
fn priors(state: &State, believed: &State) -> Vec<Prior> {
    let mut rows = Vec::new();
    let mut push = |row: Vec<(usize, f64)>, error, sigma| rows.push(Prior { row, error, sigma });
    for lens in 0..2 {
        let (now, then) = (&state.models[lens], &believed.models[lens]);
        for k in 0..2 {
            let error = now.centre[k] - then.centre[k];
            push(vec![(LENS * lens + k, 1.0)], error, CENTRE * now.radius);
        }
        for k in 0..3 {
            let error = now.polynomial[k] - then.polynomial[k];
            push(vec![(LENS * lens + 2 + k, 1.0)], error, COEFFICIENTS[k]);
        }
    }
    let alike = if state.unit.is_some() { ALIKE_WITH_POSES } else { ALIKE };
    for k in 0..3 {
        let [a, b] = [0, 1].map(|lens| state.models[lens].polynomial[k]);
        let before = believed.models[0].polynomial[k] - believed.models[1].polynomial[k];
        push(vec![(2 + k, 1.0), (LENS + 2 + k, -1.0)], a - b - before, alike);
    }
    let Some(unit) = state.unit else {
        // A weak prior keeps the rotation of frames without matches.
        (BOTH..state.count()).for_each(|k| push(vec![(k, 1.0)], 0.0, 10.0));
        return rows;
    };
    for k in 0..3 {
        push(vec![(BASELINE + k, 1.0)], state.second[k], APART * unit);
    }
    for (frame, (now, then)) in state.poses.iter().zip(&believed.poses).enumerate() {
        let Some(at) = state.unknowns_of(frame).map(|range| range.start) else { continue };
        let (a, b) = (now.centre(), then.centre());
        let off = se3::mul_vec(&now.rotation, [0, 1, 2].map(|k| b[k] - a[k]));
        let turned = se3::mul(&now.rotation, &se3::transpose(&then.rotation));
        let turned = [[2, 1], [0, 2], [1, 0]].map(|[i, j]| 0.5 * (turned[i][j] - turned[j][i]));
        for k in 0..3 {
            // The translation of a twist moves the centre in the opposite direction.
            push(vec![(at + k, 1.0)], off[k], PLACE * unit);
            push(vec![(at + POSE - 3 + k, 1.0)], turned[k], TURN);
        }
    }
    rows
}

/// Prior standard deviation of inverse depth.
fn nearness_sigma(state: &State) -> f64 {
    NEARNESS / state.unit.unwrap_or(1.0)
}

/// Scale of the Cauchy loss: squared residual, in squared spreads, at which the weight is one half.
const CAUCHY: f64 = 6.0;

fn cost(state: &State, believed: &State, tracks: &[Track], spread: f64) -> f64 {
    let squares = |e: [f64; 2]| (e[0] * e[0] + e[1] * e[1]) / (spread * spread);
    let tracks: f64 = tracks.iter().map(|t| CAUCHY * libm::log1p(squares(state.error(t)) / CAUCHY)).sum();
    let square = |error: f64, sigma: f64| (error / sigma) * (error / sigma);
    let priors: f64 = priors(state, believed).iter().map(|p| square(p.error, p.sigma)).sum();
    let sigma = nearness_sigma(state);
    tracks + priors + state.nearness.iter().map(|&nearness| square(nearness, sigma)).sum::<f64>()
}

/// Optimises all parameters from `start`, with priors centred on the second state. The matches must be sorted by
/// landmark.
pub(super) fn solve(start: &State, believed: &State, tracks: &[Track]) -> (State, Fit) {
    let n = start.count();
    let mut state = start.clone();
    let mut damping = 1e-4;
    for _ in 0..25 {
        let spread = spread(&state, tracks);
        let equations = Equations::new(&state, believed, tracks, spread);
        let now = cost(&state, believed, tracks, spread);
        let mut gained = None;
        for _ in 0..8 {
            if let Some(next) = equations.step(&state, damping) {
                let next_cost = cost(&next, believed, tracks, spread);
                if next_cost < now {
                    gained = Some(now - next_cost);
                    state = next;
                    damping = (damping * 0.2_f64).max(1e-9);
                    break;
                }
            }
            damping *= 8.0;
        }
        if gained.is_none_or(|gain| gain < 1e-6 * now) {
            break;
        }
    }
    let spread = spread(&state, tracks);
    let (a, _) = Equations::new(&state, believed, tracks, spread).reduced(0.0);
    let doubts = inverse_diagonal(&a, n).unwrap_or_default();
    let doubts = doubts.into_iter().map(|v| libm::sqrt(v.max(0.0))).collect();
    let angle_doubt = [0, 1].map(|lens| angle_doubt(&state.models[lens], LENS * lens + 2, &a, n));
    (state, Fit { doubts, angle_doubt: angle_doubt[0].max(angle_doubt[1]), spread })
}

/// Largest standard deviation, over 12 angles up to the rim, of the angle at a fixed distance from the centre, radians.
/// `first` is the index of the lens' first coefficient.
fn angle_doubt(model: &Model, first: usize, a: &[f64], n: usize) -> f64 {
    let at = |part: u32| {
        let angle = f64::from(part) / 12.0 * model.angle(1.0);
        let (powers, slope) = model.slopes(angle);
        let mut along = vec![0.0; n];
        along[first..first + 3].copy_from_slice(&powers);
        variance(a, &along).map_or(f64::INFINITY, |v| libm::sqrt(v.max(0.0)) / slope)
    };
    (1..=12).map(at).fold(0.0, f64::max)
}

fn length(e: [f64; 2]) -> f64 {
    libm::hypot(e[0], e[1])
}

/// Robust standard deviation of a residual coordinate, px, from the median of the residual lengths; 0.02 px at least.
pub(super) fn spread(state: &State, tracks: &[Track]) -> f64 {
    // The median of a Rayleigh distribution is 1.1774 of its standard deviation.
    (median(tracks.iter().map(|t| length(state.error(t))).collect()) / 1.1774).max(0.02)
}

/// Normal equations of a step, with inverse depths kept apart for elimination.
struct Equations {
    n: usize,
    /// Matrix of the parameters that are not eliminated; only the lower triangle is filled.
    a: Vec<f64>,
    b: Vec<f64>,
    things: Vec<Eliminated>,
}

/// Row of the normal equations of a landmark's inverse depth.
struct Eliminated {
    thing: usize,
    own: f64,
    right: f64,
    /// Parameter indices, ascending, with their coupling.
    coupling: Vec<(usize, f64)>,
}

impl Equations {
    fn new(state: &State, believed: &State, tracks: &[Track], spread: f64) -> Self {
        let n = state.count();
        let (mut a, mut b) = (vec![0.0; n * n], vec![0.0; n]);
        let mut things: Vec<Eliminated> = Vec::new();
        let held = 1.0 / (nearness_sigma(state) * nearness_sigma(state));
        for of_thing in tracks.chunk_by(|one, next| one.thing.is_some() && one.thing == next.thing) {
            let (mut own, mut right, mut coupling) = (held, 0.0, Vec::new());
            for track in of_thing {
                let Slopes { error, by, by_nearness } = state.slopes(track);
                let squares = (error[0] * error[0] + error[1] * error[1]) / (spread * spread);
                let weight = 1.0 / ((1.0 + squares / CAUCHY) * spread * spread);
                let inner = |p: [f64; 2], q: [f64; 2]| weight * (p[0] * q[0] + p[1] * q[1]);
                for &(k, slope) in &by {
                    b[k] -= inner(slope, error);
                    let lower = by.iter().filter(|(l, _)| *l <= k);
                    lower.for_each(|&(l, other)| a[k * n + l] += inner(slope, other));
                    coupling.push((k, inner(slope, by_nearness)));
                }
                own += inner(by_nearness, by_nearness);
                right -= inner(by_nearness, error);
            }
            if let Some(thing) = of_thing[0].thing {
                right -= held * state.nearness[thing];
                coupling.sort_by_key(|(k, _)| *k);
                coupling.dedup_by(|next, first| {
                    let is_same = next.0 == first.0;
                    first.1 += if is_same { next.1 } else { 0.0 };
                    is_same
                });
                things.push(Eliminated { thing, own, right, coupling });
            }
        }
        for Prior { row, error, sigma } in priors(state, believed) {
            let weight = 1.0 / (sigma * sigma);
            for &(k, factor) in &row {
                b[k] -= weight * factor * error;
                for &(l, other) in &row {
                    a[k * n + l] += weight * factor * other;
                }
            }
        }
        Self { n, a, b, things }
    }

    /// Damped matrix and right side after elimination of the inverse depths (Schur complement).
    fn reduced(&self, damping: f64) -> (Vec<f64>, Vec<f64>) {
        let (mut a, mut b) = (self.a.clone(), self.b.clone());
        (0..self.n).for_each(|k| a[k * self.n + k] *= 1.0 + damping);
        for Eliminated { own, right, coupling, .. } in &self.things {
            let own = own * (1.0 + damping);
            for (at, &(k, of_k)) in coupling.iter().enumerate() {
                b[k] -= of_k * right / own;
                let row = &mut a[k * self.n..];
                coupling[..=at].iter().for_each(|&(l, of_l)| row[l] -= of_k * of_l / own);
            }
        }
        (a, b)
    }

    fn step(&self, state: &State, damping: f64) -> Option<State> {
        let (a, b) = self.reduced(damping);
        let step = solve_system(&a, &b)?;
        let mut next = state.moved(&step);
        for Eliminated { thing, own, right, coupling } in &self.things {
            let moved: f64 = coupling.iter().map(|&(k, of_k)| of_k * step[k]).sum();
            next.nearness[*thing] += (right - moved) / (own * (1.0 + damping));
        }
        Some(next)
    }
}
