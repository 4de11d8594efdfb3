//! Estimates the fall-off of two fisheye lenses from frames that both took.
//!
//! ```text
//! overlap   log2(a/b) = e_f - F_a(ρ_a) + F_b(ρ_b)    5x5 px of a direction that both lenses see; e_f: exposure ratio
//!                                                    of the frame, F = c1 ρ² + c2 ρ⁴ + c3 ρ⁶ stops, c ≥ 0
//! rings     mean of log2(next ring/ring) = F - F'    along 180 rays, of a lens by itself
//! lenses    F_a = F_b at the same angle              they are of one make
//! ```
//! The overlap determines how F falls in it, not how far it has fallen before: any F that is symmetric about its middle
//! leaves no trace. The rings determine that, because the radial gradients of a natural image are as often positive as
//! negative (Zheng et al. 2008, "Single-image vignetting correction using radial gradient symmetry"); they are less
//! exact and weigh less. Each channel is a least-squares problem of six unknowns with Cauchy weights for the overlap.

use std::f64::consts::{PI, TAU};

use gausset_core::se3;
use gausset_core::statistics::median;
use gausset_jpeg::plane::Frame;

use crate::choose::motion::solve_linear;
use crate::cut::equalise::{MAX_RATIO_STOPS, colour_at, robust_mean, spiral_direction};
use crate::sphere::fisheye::{DualFisheye, MAX_VIGNETTING_STOPS, fall_off};

/// Number of directions on the sphere, and of rays of the rings.
const DIRECTIONS: usize = 30_000;
const RAYS: usize = 180;
/// Angle of the first ring and between rings, radians. Nearer to the axis, rays see the same few objects.
const FIRST_RING: f64 = 20.0 * PI / 180.0;
const RING_STEP: f64 = 4.0 * PI / 180.0;
/// Largest ρ: circles end in a fringe of stray light.
const MAX_RADII: f64 = 0.98;
/// Minimum number of values of the overlap, and of each step between rings.
const MIN_OVERLAP_VALUES: usize = 500;
const MIN_RING_VALUES: usize = 60;
/// Number of independent values that the overlap counts as. Neighbouring directions are not independent.
const OVERLAP_WEIGHT: f64 = 600.0;
/// Standard deviation of the gradient of a scene from one ring to the next, stops: in a film of sky and desert, rings
/// and overlap agree within it.
const RING_SIGMA: f64 = 0.03;
/// Standard deviation of the difference between the lenses at these angles, stops.
const LENS_SIGMA: f64 = 0.1;
const LENS_ANGLES: [f64; 3] = [80.0 * PI / 180.0, 90.0 * PI / 180.0, 98.0 * PI / 180.0];
/// Rounds of reweighting; scale of the Cauchy weights in standard deviations (95 % efficiency); least spread, stops.
const ROUNDS: usize = 10;
const CAUCHY_SCALE: f64 = 2.385;
const MIN_SPREAD: f64 = 1e-3;

/// Coefficients of both lenses, three each.
const UNKNOWNS: usize = 6;

/// A direction that both lenses see.
#[derive(Clone, Copy, Debug)]
struct OverlapValue {
    frame: usize,
    /// ρ² in both lenses.
    square_radii: [f64; 2],
    /// log2(a/b) of red, green and blue.
    ratio: [f64; 3],
}

/// Changes of light from one ring of a lens to the next, over frames and rays.
#[derive(Clone, Debug)]
struct RingStep {
    lens: usize,
    /// ρ² of the two rings.
    square_radii: [f64; 2],
    /// log2 of the ratio, per channel.
    ratios: [Vec<f64>; 3],
}

/// What frames tell about the fall-off.
#[derive(Clone, Debug)]
pub struct VignettingEstimator {
    lenses: DualFisheye,
    frames: usize,
    overlap: Vec<OverlapValue>,
    rings: Vec<RingStep>,
}

/// Estimated fall-off.
#[derive(Clone, Debug, PartialEq)]
pub struct VignettingEstimate {
    /// Coefficients as in [`crate::fisheye::Lens::vignetting`], per lens.
    pub vignetting: [[[f64; 3]; 3]; 2],
    /// How much brighter the first lens shows each frame, stops per channel.
    pub exposure_stops: Vec<[f64; 3]>,
}

impl VignettingEstimator {
    /// For frames of these lenses.
    #[must_use]
    pub fn new(lenses: DualFisheye) -> Self {
        let mut rings = Vec::new();
        for (index, lens) in lenses.lenses.iter().enumerate() {
            let square = |ring: usize| {
                let radii = lens.distance_at(FIRST_RING + RING_STEP * ring as f64) / lens.radius;
                radii * radii
            };
            let fits = |ring: usize| FIRST_RING + RING_STEP * (ring + 1) as f64 <= lens.half_angle;
            rings.extend((0..).take_while(|&ring| fits(ring)).map(|ring| RingStep {
                lens: index,
                square_radii: [square(ring), square(ring + 1)],
                ratios: Default::default(),
            }));
        }
        Self { lenses, frames: 0, overlap: Vec::new(), rings }
    }

    /// Adds a frame as it was decoded.
    pub fn add(&mut self, frame: &Frame) {
        self.add_overlap(frame);
        self.add_rings(frame);
        self.frames += 1;
    }

    /// Light of a lens in a direction, and ρ²; `None` where it sees nothing usable.
    fn light(&self, frame: &Frame, lens: usize, direction: [f64; 3]) -> Option<([f64; 3], f64)> {
        let lens = &self.lenses.lenses[lens];
        let (u, v, weight) = self.lenses.project_in_lens(lens, direction);
        let square = lens.square_radii([u, v]);
        if weight <= 0.0 || square > MAX_RADII * MAX_RADII {
            return None;
        }
        Some((colour_at(frame, [u, v])?, square))
    }

    fn add_overlap(&mut self, frame: &Frame) {
        for k in 0..DIRECTIONS {
            let direction = spiral_direction(k, DIRECTIONS);
            let Some((a, square_a)) = self.light(frame, 0, direction) else { continue };
            let Some((b, square_b)) = self.light(frame, 1, direction) else { continue };
            self.overlap.push(OverlapValue {
                frame: self.frames,
                square_radii: [square_a, square_b],
                ratio: [0, 1, 2].map(|c| libm::log2(a[c] / b[c])),
            });
        }
    }

    fn add_rings(&mut self, frame: &Frame) {
        for ray in 0..RAYS {
            let around = TAU * ray as f64 / RAYS as f64;
            let (sin, cos) = (libm::sin(around), libm::cos(around));
            let mut before = None;
            let mut last = None;
            for at in 0..self.rings.len() {
                let lens = self.rings[at].lens;
                let seen = |ring: usize| {
                    let angle = FIRST_RING + RING_STEP * ring as f64;
                    let across = libm::sin(angle);
                    let ray = [across * cos, across * sin, libm::cos(angle)];
                    let of_lens = &self.lenses.lenses[lens].pano_from_lens;
                    self.light(frame, lens, se3::mul_vec(of_lens, ray)).map(|(light, _)| light)
                };
                let ring = match last {
                    Some((of, ring)) if of == lens => ring + 1,
                    _ => {
                        before = seen(0);
                        0
                    }
                };
                last = Some((lens, ring));
                let next = seen(ring + 1);
                if let (Some(a), Some(b)) = (before, next) {
                    for (c, ratios) in self.rings[at].ratios.iter_mut().enumerate() {
                        ratios.push(libm::log2(b[c] / a[c]));
                    }
                }
                before = next;
            }
        }
    }

    /// Estimates the fall-off; `None` if both lenses see too little, or the result is implausible.
    #[must_use]
    pub fn estimate(&self) -> Option<VignettingEstimate> {
        if self.overlap.len() < MIN_OVERLAP_VALUES {
            return None;
        }
        let mut found = VignettingEstimate {
            vignetting: [[[0.0; 3]; 3]; 2],
            exposure_stops: vec![[0.0; 3]; self.frames],
        };
        for channel in 0..3 {
            let (coefficients, exposures) = self.solve_channel(channel)?;
            for (lens, of_lens) in found.vignetting.iter_mut().enumerate() {
                of_lens[channel] = [0, 1, 2].map(|k| coefficients[3 * lens + k]);
                if of_lens[channel].iter().sum::<f64>() > MAX_VIGNETTING_STOPS {
                    return None;
                }
            }
            for (of_frame, exposure) in found.exposure_stops.iter_mut().zip(exposures) {
                if exposure.abs() > MAX_RATIO_STOPS {
                    return None;
                }
                of_frame[channel] = exposure;
            }
        }
        Some(found)
    }

    /// Coefficients of a channel, and the exposure ratio of each frame.
    fn solve_channel(&self, channel: usize) -> Option<([f64; UNKNOWNS], Vec<f64>)> {
        let priors = self.prior_equations(channel);
        let mut weights = vec![1.0; self.overlap.len()];
        let mut spread = 0.2;
        let mut found = ([0.0; UNKNOWNS], Vec::new());
        for _ in 0..ROUNDS {
            let total: f64 = weights.iter().sum();
            let scale = OVERLAP_WEIGHT / (total * spread * spread);
            let sums = self.frame_sums(channel, &weights);
            let mut equations = priors.clone();
            for own in &sums {
                equations.add_frame(own, scale);
            }
            let coefficients = equations.solve_non_negative()?;
            let exposures: Vec<f64> = sums.iter().map(|own| own.exposure(&coefficients)).collect();
            let residuals: Vec<f64> = self
                .overlap
                .iter()
                .map(|value| value.ratio[channel] - exposures[value.frame] - dot(&row(value), &coefficients))
                .collect();
            spread = (1.4826 * median(residuals.iter().map(|v| v.abs()).collect())?).max(MIN_SPREAD);
            for (weight, residual) in weights.iter_mut().zip(&residuals) {
                let relative = residual / (CAUCHY_SCALE * spread);
                *weight = 1.0 / (1.0 + relative * relative);
            }
            found = (coefficients, exposures);
        }
        Some(found)
    }

    /// Equations of the rings, and of the similarity of the lenses.
    fn prior_equations(&self, channel: usize) -> NormalEquations {
        let mut equations = NormalEquations::default();
        for step in &self.rings {
            let mut ratios = step.ratios[channel].clone();
            let Some(ratio) = robust_mean(&mut ratios, MIN_RING_VALUES) else { continue };
            let [from, to] = step.square_radii.map(powers);
            let mut row = [0.0; UNKNOWNS];
            (0..3).for_each(|k| row[3 * step.lens + k] = from[k] - to[k]);
            equations.add(&row, ratio, 1.0 / (RING_SIGMA * RING_SIGMA));
        }
        for angle in LENS_ANGLES {
            let mut row = [0.0; UNKNOWNS];
            for (lens, sign) in [(0, 1.0), (1, -1.0)] {
                let lens_at = &self.lenses.lenses[lens];
                let radii = lens_at.distance_at(angle.min(lens_at.half_angle)) / lens_at.radius;
                let powers = powers(radii * radii);
                (0..3).for_each(|k| row[3 * lens + k] = sign * powers[k]);
            }
            equations.add(&row, 0.0, 1.0 / (LENS_SIGMA * LENS_SIGMA));
        }
        equations
    }

    /// Weighted sums of the overlap, frame by frame.
    fn frame_sums(&self, channel: usize, weights: &[f64]) -> Vec<FrameSums> {
        let mut sums = vec![FrameSums::default(); self.frames];
        for (value, &weight) in self.overlap.iter().zip(weights) {
            let own = &mut sums[value.frame];
            let (row, ratio) = (row(value), value.ratio[channel]);
            own.equations.add(&row, ratio, weight);
            own.weight += weight;
            own.ratio += weight * ratio;
            (0..UNKNOWNS).for_each(|k| own.row[k] += weight * row[k]);
        }
        sums
    }
}

/// ρ², ρ⁴ and ρ⁶.
fn powers(square: f64) -> [f64; 3] {
    [square, square * square, square * square * square]
}

/// Derivatives of log2(a/b) by the coefficients.
fn row(value: &OverlapValue) -> [f64; UNKNOWNS] {
    let [a, b] = value.square_radii.map(powers);
    [-a[0], -a[1], -a[2], b[0], b[1], b[2]]
}

fn dot(a: &[f64; UNKNOWNS], b: &[f64; UNKNOWNS]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Sums over the overlap of a frame, with its exposure ratio still unknown.
#[derive(Clone, Debug, Default)]
struct FrameSums {
    equations: NormalEquations,
    weight: f64,
    row: [f64; UNKNOWNS],
    ratio: f64,
}

impl FrameSums {
    /// Exposure ratio of the frame for given coefficients, stops.
    fn exposure(&self, coefficients: &[f64; UNKNOWNS]) -> f64 {
        (self.ratio - dot(&self.row, coefficients)) / self.weight.max(1e-12)
    }
}

/// Normal equations of least squares.
#[derive(Clone, Debug, Default)]
struct NormalEquations {
    matrix: [[f64; UNKNOWNS]; UNKNOWNS],
    right: [f64; UNKNOWNS],
}

impl NormalEquations {
    fn add(&mut self, row: &[f64; UNKNOWNS], value: f64, weight: f64) {
        for i in 0..UNKNOWNS {
            self.right[i] += weight * row[i] * value;
            (0..UNKNOWNS).for_each(|j| self.matrix[i][j] += weight * row[i] * row[j]);
        }
    }

    /// Adds a frame, its exposure ratio eliminated (Schur complement).
    fn add_frame(&mut self, own: &FrameSums, scale: f64) {
        let each = 1.0 / own.weight.max(1e-12);
        for i in 0..UNKNOWNS {
            self.right[i] += scale * (own.equations.right[i] - own.row[i] * own.ratio * each);
            (0..UNKNOWNS).for_each(|j| {
                self.matrix[i][j] += scale * (own.equations.matrix[i][j] - own.row[i] * own.row[j] * each);
            });
        }
    }

    /// The solution with no negative unknown: the best of all choices of unknowns that are 0.
    fn solve_non_negative(&self) -> Option<[f64; UNKNOWNS]> {
        let mut best: Option<(f64, [f64; UNKNOWNS])> = None;
        for free in 0..1u32 << UNKNOWNS {
            let is_free = |k: usize| free >> k & 1 == 1;
            let (mut matrix, mut right) = (self.matrix, self.right);
            for i in 0..UNKNOWNS {
                for j in 0..UNKNOWNS {
                    if !(is_free(i) && is_free(j)) {
                        matrix[i][j] = f64::from(u8::from(i == j));
                    }
                }
                // Against unknowns without any trace.
                matrix[i][i] += 1e-9;
                if !is_free(i) {
                    right[i] = 0.0;
                }
            }
            let Some(x) = solve_linear(matrix, right) else { continue };
            if !x.iter().all(|v| v.is_finite() && *v >= 0.0) {
                continue;
            }
            let quadratic: f64 = (0..UNKNOWNS).map(|i| x[i] * dot(&self.matrix[i], &x)).sum();
            let cost = 0.5 * quadratic - dot(&self.right, &x);
            if best.is_none_or(|(least, _)| cost < least) {
                best = Some((cost, x));
            }
        }
        best.map(|(_, x)| x)
    }
}

impl VignettingEstimate {
    /// Fall-off of a lens at a distance from its centre in radii, stops per channel.
    #[must_use]
    pub fn fall_off(&self, lens: usize, radii: f64) -> [f64; 3] {
        self.vignetting[lens].map(|c| fall_off(c, radii * radii))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_solution_without_negative_unknowns_is_found() {
        let mut equations = NormalEquations::default();
        // The unconstrained solution is (1, 2, -3, 4, 5, 6) with unit weights, and unknowns 1 and 2 are coupled.
        for (k, value) in [1.0, 2.0, -3.0, 4.0, 5.0, 6.0].into_iter().enumerate() {
            let mut row = [0.0; UNKNOWNS];
            row[k] = 1.0;
            equations.add(&row, value, 1.0);
        }
        equations.add(&[0.0, 1.0, 1.0, 0.0, 0.0, 0.0], -1.0, 1.0);
        let found = equations.solve_non_negative().unwrap();
        // With the third at 0, the second minimises (x - 2)² + (x + 1)².
        for (found, expected) in found.iter().zip([1.0, 0.5, 0.0, 4.0, 5.0, 6.0]) {
            assert!((found - expected).abs() < 1e-6, "{found} {expected}");
        }
    }
}
