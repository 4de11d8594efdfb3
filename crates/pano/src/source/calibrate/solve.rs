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

use super::linear::{inverse_diagonal, median, solve_positive_definite as solve_system, variance};
use super::matching::LensMatch;
use super::model::LensModel;
use super::state::{
    CalibrationState, LENS_PARAMETERS, LENSES_PARAMETERS, OFFSET_PARAMETER, POSE_PARAMETERS, ResidualJacobian,
};

/// Prior standard deviations: of a centre, in radii, and of the coefficients.
const CENTRE_SIGMA: f64 = 0.002;
const COEFFICIENT_SIGMAS: [f64; 3] = [0.1, 0.01, 0.01];
/// Prior standard deviation of the difference of the coefficients of both lenses; larger with given poses, which
/// constrain each lens separately.
const COEFFICIENT_DIFFERENCE_SIGMA: f64 = 0.001;
const COEFFICIENT_DIFFERENCE_SIGMA_WITH_POSES: f64 = 0.03;
/// Prior standard deviations of given poses: rotation, radians, and position, in median distances between neighbouring
/// frames; then of the position of the second lens, in the same unit.
const POSE_ROTATION_SIGMA: f64 = 0.02;
const POSE_POSITION_SIGMA: f64 = 0.05;
const LENS_OFFSET_SIGMA: f64 = 0.1;
/// Prior standard deviation of inverse depth, times the median distance between neighbouring frames: closer landmarks
/// are not seen from other frames.
const INVERSE_DEPTH_SIGMA: f64 = 10.0;

/// Prior on a linear combination of parameters: `row` holds parameter indices with factors, `error` the deviation from
/// the prior, `sigma` its standard deviation.
struct Prior {
    row: Vec<(usize, f64)>,
    residual: f64,
    sigma: f64,
}

/// Uncertainty of a solution.
#[derive(Clone, Debug, Default)]
pub(super) struct CalibrationFit {
    /// Standard deviation of each parameter.
    pub(super) sigmas: Vec<f64>,
    /// Largest standard deviation of the angle from the axis of a pixel of either lens, radians.
    pub(super) angle_sigma: f64,
    /// Spread of the residuals, px.
    pub(super) spread: f64,
}

impl CalibrationFit {
    /// Largest standard deviation of a range of parameters; 0 if it is empty or the parameters are undetermined.
    pub(super) fn max_sigma(&self, unknowns: Range<usize>) -> f64 {
        self.sigmas.get(unknowns).unwrap_or_default().iter().copied().fold(0.0, f64::max)
    }
}

/// Priors on the first state, centred on the second.
fn priors(state: &CalibrationState, believed: &CalibrationState) -> Vec<Prior> {
    let mut rows = Vec::new();
    let mut push = |row: Vec<(usize, f64)>, error, sigma| rows.push(Prior { row, residual: error, sigma });
    for lens in 0..2 {
        let (now, then) = (&state.models[lens], &believed.models[lens]);
        for k in 0..2 {
            let error = now.centre[k] - then.centre[k];
            push(vec![(LENS_PARAMETERS * lens + k, 1.0)], error, CENTRE_SIGMA * now.radius);
        }
        for k in 0..3 {
            let error = now.polynomial[k] - then.polynomial[k];
            push(vec![(LENS_PARAMETERS * lens + 2 + k, 1.0)], error, COEFFICIENT_SIGMAS[k]);
        }
    }
    let alike = if state.spacing.is_some() {
        COEFFICIENT_DIFFERENCE_SIGMA_WITH_POSES
    } else {
        COEFFICIENT_DIFFERENCE_SIGMA
    };
    for k in 0..3 {
        let [a, b] = [0, 1].map(|lens| state.models[lens].polynomial[k]);
        let before = believed.models[0].polynomial[k] - believed.models[1].polynomial[k];
        push(vec![(2 + k, 1.0), (LENS_PARAMETERS + 2 + k, -1.0)], a - b - before, alike);
    }
    let Some(unit) = state.spacing else {
        // A weak prior keeps the rotation of frames without matches.
        (LENSES_PARAMETERS..state.parameter_count()).for_each(|k| push(vec![(k, 1.0)], 0.0, 10.0));
        return rows;
    };
    for k in 0..3 {
        push(vec![(OFFSET_PARAMETER + k, 1.0)], state.second_position[k], LENS_OFFSET_SIGMA * unit);
    }
    for (frame, (now, then)) in state.poses.iter().zip(&believed.poses).enumerate() {
        let Some(at) = state.frame_parameters(frame).map(|range| range.start) else { continue };
        let (a, b) = (now.centre(), then.centre());
        let off = se3::mul_vec(&now.rotation, [0, 1, 2].map(|k| b[k] - a[k]));
        let turned = se3::mul(&now.rotation, &se3::transpose(&then.rotation));
        let turned = [[2, 1], [0, 2], [1, 0]].map(|[i, j]| 0.5 * (turned[i][j] - turned[j][i]));
        for k in 0..3 {
            // The translation of a twist moves the centre in the opposite direction.
            push(vec![(at + k, 1.0)], off[k], POSE_POSITION_SIGMA * unit);
            push(vec![(at + POSE_PARAMETERS - 3 + k, 1.0)], turned[k], POSE_ROTATION_SIGMA);
        }
    }
    rows
}

/// Prior standard deviation of inverse depth.
fn inverse_depth_sigma(state: &CalibrationState) -> f64 {
    INVERSE_DEPTH_SIGMA / state.spacing.unwrap_or(1.0)
}

/// Scale of the Cauchy loss: squared residual, in squared spreads, at which the weight is one half.
const CAUCHY_SCALE: f64 = 6.0;

fn cost(state: &CalibrationState, believed: &CalibrationState, tracks: &[LensMatch], spread: f64) -> f64 {
    let squares = |e: [f64; 2]| (e[0] * e[0] + e[1] * e[1]) / (spread * spread);
    let tracks: f64 =
        tracks.iter().map(|t| CAUCHY_SCALE * libm::log1p(squares(state.residual(t)) / CAUCHY_SCALE)).sum();
    let square = |error: f64, sigma: f64| (error / sigma) * (error / sigma);
    let priors: f64 = priors(state, believed).iter().map(|p| square(p.residual, p.sigma)).sum();
    let sigma = inverse_depth_sigma(state);
    tracks + priors + state.inverse_depths.iter().map(|&nearness| square(nearness, sigma)).sum::<f64>()
}

/// Optimises all parameters from `start`, with priors centred on the second state. The matches must be sorted by
/// landmark.
pub(super) fn solve(
    start: &CalibrationState,
    believed: &CalibrationState,
    tracks: &[LensMatch],
) -> (CalibrationState, CalibrationFit) {
    let n = start.parameter_count();
    let mut state = start.clone();
    let mut damping = 1e-4;
    for _ in 0..25 {
        let spread = spread(&state, tracks);
        let equations = NormalEquations::new(&state, believed, tracks, spread);
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
    let (a, _) = NormalEquations::new(&state, believed, tracks, spread).reduced(0.0);
    let doubts = inverse_diagonal(&a, n).unwrap_or_default();
    let doubts = doubts.into_iter().map(|v| libm::sqrt(v.max(0.0))).collect();
    let angle_doubt =
        [0, 1].map(|lens| max_angle_sigma(&state.models[lens], LENS_PARAMETERS * lens + 2, &a, n));
    (state, CalibrationFit { sigmas: doubts, angle_sigma: angle_doubt[0].max(angle_doubt[1]), spread })
}

/// Largest standard deviation, over 12 angles up to the rim, of the angle at a fixed distance from the centre, radians.
/// `first` is the index of the lens' first coefficient.
fn max_angle_sigma(model: &LensModel, first: usize, a: &[f64], n: usize) -> f64 {
    let at = |part: u32| {
        let angle = f64::from(part) / 12.0 * model.angle_at(1.0);
        let (powers, slope) = model.radius_derivatives(angle);
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
pub(super) fn spread(state: &CalibrationState, tracks: &[LensMatch]) -> f64 {
    // The median of a Rayleigh distribution is 1.1774 of its standard deviation.
    (median(tracks.iter().map(|t| length(state.residual(t))).collect()) / 1.1774).max(0.02)
}

/// Normal equations of a step, with inverse depths kept apart for elimination.
struct NormalEquations {
    parameter_count: usize,
    /// Matrix of the parameters that are not eliminated; only the lower triangle is filled.
    matrix: Vec<f64>,
    right: Vec<f64>,
    landmarks: Vec<EliminatedLandmark>,
}

/// Row of the normal equations of a landmark's inverse depth.
struct EliminatedLandmark {
    landmark: usize,
    information: f64,
    right: f64,
    /// Parameter indices, ascending, with their coupling.
    coupling: Vec<(usize, f64)>,
}

impl NormalEquations {
    fn new(state: &CalibrationState, believed: &CalibrationState, tracks: &[LensMatch], spread: f64) -> Self {
        let n = state.parameter_count();
        let (mut a, mut b) = (vec![0.0; n * n], vec![0.0; n]);
        let mut things: Vec<EliminatedLandmark> = Vec::new();
        let held = 1.0 / (inverse_depth_sigma(state) * inverse_depth_sigma(state));
        for of_thing in tracks.chunk_by(|one, next| one.landmark.is_some() && one.landmark == next.landmark) {
            let (mut own, mut right, mut coupling) = (held, 0.0, Vec::new());
            for track in of_thing {
                let ResidualJacobian { residual: error, by_parameter: by, by_inverse_depth: by_nearness } =
                    state.linearise(track);
                let squares = (error[0] * error[0] + error[1] * error[1]) / (spread * spread);
                let weight = 1.0 / ((1.0 + squares / CAUCHY_SCALE) * spread * spread);
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
            if let Some(thing) = of_thing[0].landmark {
                right -= held * state.inverse_depths[thing];
                coupling.sort_by_key(|(k, _)| *k);
                coupling.dedup_by(|next, first| {
                    let is_same = next.0 == first.0;
                    first.1 += if is_same { next.1 } else { 0.0 };
                    is_same
                });
                things.push(EliminatedLandmark { landmark: thing, information: own, right, coupling });
            }
        }
        for Prior { row, residual: error, sigma } in priors(state, believed) {
            let weight = 1.0 / (sigma * sigma);
            for &(k, factor) in &row {
                b[k] -= weight * factor * error;
                for &(l, other) in &row {
                    a[k * n + l] += weight * factor * other;
                }
            }
        }
        Self { parameter_count: n, matrix: a, right: b, landmarks: things }
    }

    /// Damped matrix and right side after elimination of the inverse depths (Schur complement).
    fn reduced(&self, damping: f64) -> (Vec<f64>, Vec<f64>) {
        let (mut a, mut b) = (self.matrix.clone(), self.right.clone());
        (0..self.parameter_count).for_each(|k| a[k * self.parameter_count + k] *= 1.0 + damping);
        for EliminatedLandmark { information: own, right, coupling, .. } in &self.landmarks {
            let own = own * (1.0 + damping);
            for (at, &(k, of_k)) in coupling.iter().enumerate() {
                b[k] -= of_k * right / own;
                let row = &mut a[k * self.parameter_count..];
                coupling[..=at].iter().for_each(|&(l, of_l)| row[l] -= of_k * of_l / own);
            }
        }
        (a, b)
    }

    fn step(&self, state: &CalibrationState, damping: f64) -> Option<CalibrationState> {
        let (a, b) = self.reduced(damping);
        let step = solve_system(&a, &b)?;
        let mut next = state.stepped(&step);
        for EliminatedLandmark { landmark: thing, information: own, right, coupling } in &self.landmarks {
            let moved: f64 = coupling.iter().map(|&(k, of_k)| of_k * step[k]).sum();
            next.inverse_depths[*thing] += (right - moved) / (own * (1.0 + damping));
        }
        Some(next)
    }
}
