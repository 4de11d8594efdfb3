//! Both lenses and the turns between frames, from tracks: Levenberg-Marquardt over pixels, with Cauchy's weights.
//!
//! ```text
//! error      project(to, turn · ray(from)) - pixel(to)        px, divided by the tracks' own spread
//! unknowns   of each lens: centre, three coefficients; the rotation of the second lens; that of each frame
//! priors     centre: that of the circle; coefficients: those of the start, and alike for both lenses
//! ```
//! The priors decide what the tracks leave open: from one ring of overlap alone, one lens that is wider and one that is
//! narrower than believed look the same.

use gausset_core::se3::{self, Mat3};

use super::linear::{inverse_diagonal, median, solve as solve_system};
use super::model::Model;
use super::tracks::Track;

/// Standard deviations of what is believed before.
const CENTRE: f64 = 0.002;
const COEFFICIENTS: [f64; 3] = [0.1, 0.01, 0.01];
const ALIKE: f64 = 0.001;
/// Unknowns of a lens; of both, with the second one's rotation.
const LENS: usize = 5;
const BOTH: usize = 2 * LENS + 3;

/// What is looked for.
#[derive(Clone, Debug)]
pub(super) struct State {
    pub(super) models: [Model; 2],
    /// Of each frame: its panorama axes from those of the first frame.
    pub(super) turns: Vec<Mat3>,
}

/// Something that is believed before: unknowns with their factors, what they miss it by, its standard deviation.
struct Prior {
    row: Vec<(usize, f64)>,
    error: f64,
    sigma: f64,
}

/// How well it is known.
#[derive(Clone, Debug, Default)]
pub(super) struct Fit {
    /// Standard deviations of the unknowns.
    pub(super) doubts: Vec<f64>,
    /// Spread of the tracks, px.
    pub(super) spread: f64,
    /// Tracks within three times the spread.
    pub(super) used: usize,
}

impl State {
    /// Pixels by which a track misses.
    pub(super) fn error(&self, track: &Track) -> [f64; 2] {
        let (a, b) = (&self.models[track.from.lens], &self.models[track.to.lens]);
        let mut ray = se3::mul_vec(&a.pano_from_lens, a.unproject(track.from.pixel));
        if track.from.frame != track.to.frame {
            let first = se3::transpose_mul_vec(&self.turns[track.from.frame], ray);
            ray = se3::mul_vec(&self.turns[track.to.frame], first);
        }
        let [u, v] = b.project(se3::transpose_mul_vec(&b.pano_from_lens, ray));
        [u - track.to.pixel[0], v - track.to.pixel[1]]
    }

    fn count(&self) -> usize {
        BOTH + 3 * self.turns.len().saturating_sub(1)
    }

    /// With unknown `k` changed by `by`.
    fn changed(&self, k: usize, by: f64) -> Self {
        let mut changed = self.clone();
        let about = |axis: usize| {
            let mut phi = [0.0; 3];
            phi[axis] = by;
            se3::so3_exp(phi)
        };
        match k {
            _ if k < 2 * LENS => {
                let model = &mut changed.models[k / LENS];
                match k % LENS {
                    at @ 0..2 => model.centre[at] += by,
                    at => model.polynomial[at - 2] += by,
                }
            }
            _ if k < BOTH => {
                let rotation = &mut changed.models[1].pano_from_lens;
                *rotation = se3::mul(rotation, &about(k - 2 * LENS));
            }
            _ => {
                let turn = &mut changed.turns[1 + (k - BOTH) / 3];
                *turn = se3::mul(&about((k - BOTH) % 3), turn);
            }
        }
        changed
    }

    fn moved(&self, step: &[f64]) -> Self {
        step.iter().enumerate().fold(self.clone(), |state, (k, &by)| state.changed(k, by))
    }

    /// The unknowns that a track depends on.
    fn unknowns(track: &Track) -> Vec<usize> {
        let mut list: Vec<usize> = Vec::with_capacity(BOTH + 6);
        for lens in 0..2 {
            if [track.from.lens, track.to.lens].contains(&lens) {
                list.extend(LENS * lens..LENS * (lens + 1));
            }
        }
        let frames = [track.from.frame, track.to.frame];
        if track.from.lens != track.to.lens || (frames[0] != frames[1] && track.from.lens == 1) {
            list.extend(2 * LENS..BOTH);
        }
        if frames[0] != frames[1] {
            for frame in frames.into_iter().filter(|&frame| frame > 0) {
                list.extend(BOTH + 3 * (frame - 1)..BOTH + 3 * frame);
            }
        }
        list
    }

    /// What is believed before.
    fn priors(&self, start: &Self) -> Vec<Prior> {
        let mut rows = Vec::new();
        let mut push = |row: Vec<(usize, f64)>, error, sigma| rows.push(Prior { row, error, sigma });
        for lens in 0..2 {
            let (now, then) = (&self.models[lens], &start.models[lens]);
            for k in 0..2 {
                let error = now.centre[k] - then.centre[k];
                push(vec![(LENS * lens + k, 1.0)], error, CENTRE * now.radius);
            }
            for k in 0..3 {
                let error = now.polynomial[k] - then.polynomial[k];
                push(vec![(LENS * lens + 2 + k, 1.0)], error, COEFFICIENTS[k]);
            }
        }
        for k in 0..3 {
            let [a, b] = [0, 1].map(|lens| self.models[lens].polynomial[k]);
            let before = start.models[0].polynomial[k] - start.models[1].polynomial[k];
            push(vec![(2 + k, 1.0), (LENS + 2 + k, -1.0)], a - b - before, ALIKE);
        }
        // The turn of a frame without tracks is held where it is.
        for k in BOTH..self.count() {
            push(vec![(k, 1.0)], 0.0, 10.0);
        }
        rows
    }

    fn cost(&self, start: &Self, tracks: &[Track], spread: f64) -> f64 {
        let squares = |e: [f64; 2]| (e[0] * e[0] + e[1] * e[1]) / (spread * spread);
        let tracks: f64 = tracks.iter().map(|t| CAUCHY * libm::log1p(squares(self.error(t)) / CAUCHY)).sum();
        let priors: f64 = self.priors(start).iter().map(|p| (p.error / p.sigma) * (p.error / p.sigma)).sum();
        tracks + priors
    }
}

/// Squares of the spread from which on errors count less.
const CAUCHY: f64 = 6.0;

/// Solves for both lenses and the turns from `start`.
pub(super) fn solve(start: &State, tracks: &[Track]) -> (State, Fit) {
    let n = start.count();
    let mut state = start.clone();
    let mut damping = 1e-4;
    let mut fit = Fit::default();
    for _ in 0..25 {
        let spread = spread(&state, tracks);
        let (a, b) = normal(&state, start, tracks, spread);
        fit = Fit { spread, ..fit };
        let cost = state.cost(start, tracks, spread);
        let mut gained = None;
        for _ in 0..8 {
            let mut damped = a.clone();
            (0..n).for_each(|k| damped[k * n + k] *= 1.0 + damping);
            if let Some(step) = solve_system(&damped, &b) {
                let next = state.moved(&step);
                let next_cost = next.cost(start, tracks, spread);
                if next_cost < cost {
                    gained = Some(cost - next_cost);
                    state = next;
                    damping = (damping * 0.2_f64).max(1e-9);
                    break;
                }
            }
            damping *= 8.0;
        }
        if gained.is_none_or(|gain| gain < 1e-6 * cost) {
            break;
        }
    }
    let spread = spread(&state, tracks);
    let (a, _) = normal(&state, start, tracks, spread);
    fit.doubts =
        inverse_diagonal(&a, n).unwrap_or_default().into_iter().map(|v| libm::sqrt(v.max(0.0))).collect();
    fit.spread = spread;
    fit.used = tracks.iter().filter(|t| length(state.error(t)) <= 3.0 * spread).count();
    (state, fit)
}

fn length(e: [f64; 2]) -> f64 {
    libm::hypot(e[0], e[1])
}

/// Standard deviation of a coordinate, from the median of the distances.
pub(super) fn spread(state: &State, tracks: &[Track]) -> f64 {
    // The median of a Rayleigh distribution is 1.1774 of its standard deviation.
    (median(tracks.iter().map(|t| length(state.error(t))).collect()) / 1.1774).max(0.02)
}

/// The normal equations of a step.
fn normal(state: &State, start: &State, tracks: &[Track], spread: f64) -> (Vec<f64>, Vec<f64>) {
    let n = state.count();
    let size = |k: usize| if k < 2 * LENS && k % LENS < 2 { 1e-3 } else { 1e-6 };
    let beside: Vec<[State; 2]> =
        (0..n).map(|k| [state.changed(k, size(k)), state.changed(k, -size(k))]).collect();
    let (mut a, mut b) = (vec![0.0; n * n], vec![0.0; n]);
    for track in tracks {
        let error = state.error(track);
        let squares = (error[0] * error[0] + error[1] * error[1]) / (spread * spread);
        let weight = 1.0 / ((1.0 + squares / CAUCHY) * spread * spread);
        let unknowns = State::unknowns(track);
        let slopes: Vec<[f64; 2]> = unknowns
            .iter()
            .map(|&k| {
                let [up, down] = [0, 1].map(|side| beside[k][side].error(track));
                [0, 1].map(|c| (up[c] - down[c]) / (2.0 * size(k)))
            })
            .collect();
        for (p, &k) in unknowns.iter().enumerate() {
            b[k] -= weight * (slopes[p][0] * error[0] + slopes[p][1] * error[1]);
            for (q, &l) in unknowns.iter().enumerate() {
                a[k * n + l] += weight * (slopes[p][0] * slopes[q][0] + slopes[p][1] * slopes[q][1]);
            }
        }
    }
    for Prior { row, error, sigma } in state.priors(start) {
        let weight = 1.0 / (sigma * sigma);
        for &(k, factor) in &row {
            b[k] -= weight * factor * error;
            for &(l, other) in &row {
                a[k * n + l] += weight * factor * other;
            }
        }
    }
    (a, b)
}
