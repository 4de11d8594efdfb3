//! Detection of the image circle of a lens: brightness falls to black at its rim.
//!
//! ```text
//! mean      of all frames: reduces noise, and parts that are dark in one frame are bright in another
//! coarse    over centres and radii, the mean over angles of log((inside + n)/(outside + n)) at ±1.5 px of an image of
//!           96 px a side (integro-differential operator, Daugman 1993, of logarithms, so that lamps do not outweigh
//!           dark walls)
//! fine      sub-pixel position of the steepest fall along 720 rays (derivative of a Gaussian); a circle through these
//!           points by Gauss-Newton with Tukey weights, within ±6 %, then ±2 %, then twice ±4 px of the previous circle
//! ```

use std::f64::consts::TAU;

use super::LumaImage;
use super::linear::{inverse_diagonal, median, solve_positive_definite};

/// An image circle, in px of the frame.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ImageCircle {
    /// Centre, px.
    pub centre: [f64; 2],
    /// Radius, px.
    pub radius: f64,
    /// Standard deviation of a coordinate of the centre, px.
    pub centre_sigma: f64,
    /// Standard deviation of the radius, px.
    pub radius_sigma: f64,
}

/// Why no circle was found. The first value is the lens, from 0.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum CircleError {
    /// All frames are black.
    #[error("lens {0}: all frames are black (expected images; is the lens cap on?)")]
    Dark(usize),
    /// Brightness does not fall along any circle.
    #[error("lens {0}: no circle found (expected a bright disc on black); set ⟨circle-radius⟩")]
    NotFound(usize),
    /// Pixels outside the circle are bright: their percentage.
    #[error(
        "lens {0}: {1:.0} % of the pixels outside its circle are not black (expected one circle per lens, two in total)"
    )]
    BrightOutside(usize, f64),
}

/// Side of the image of the coarse search, px.
const COARSE_SIDE: usize = 96;
/// Noise level, grey levels.
const NOISE_LEVEL: f64 = 2.0;
/// Minimum mean logarithm of the brightness ratio at the rim of a circle.
const MIN_FALL: f64 = 0.35;
/// Number of rays of the fine search.
const RAYS: usize = 720;
/// Grey levels below which a frame counts as black.
const BLACK_LEVEL: f64 = 6.0;
/// Lower bound of reported standard deviations, px: the best accuracy of an edge.
const MIN_SIGMA: f64 = 0.03;

/// Mean of all frames within one cell.
struct MeanImage {
    side: [usize; 2],
    data: Vec<f32>,
}

impl MeanImage {
    fn from_frames(frames: &[LumaImage], [left, top, width, height]: [usize; 4]) -> Self {
        let mut data = vec![0.0f32; width * height];
        for frame in frames {
            for (y, row) in data.chunks_exact_mut(width).enumerate() {
                let from = (top + y) * frame.width + left;
                for (sum, &value) in row.iter_mut().zip(&frame.data[from..from + width]) {
                    *sum += f32::from(value);
                }
            }
        }
        let scale = 1.0 / frames.len().max(1) as f32;
        data.iter_mut().for_each(|v| *v *= scale);
        Self { side: [width, height], data }
    }

    /// Bilinear sample; `None` outside.
    fn sample(&self, u: f64, v: f64) -> Option<f64> {
        let (u, v) = (u - 0.5, v - 0.5);
        let [w, h] = self.side;
        if !(u >= 0.0 && v >= 0.0 && u <= (w - 1) as f64 && v <= (h - 1) as f64) {
            return None;
        }
        let (x, y) = ((u as usize).min(w - 2), (v as usize).min(h - 2));
        let (a, b) = (u - x as f64, v - y as f64);
        let get = |x: usize, y: usize| f64::from(self.data[y * w + x]);
        let top = get(x, y) * (1.0 - a) + get(x + 1, y) * a;
        let bottom = get(x, y + 1) * (1.0 - a) + get(x + 1, y + 1) * a;
        Some(top * (1.0 - b) + bottom * b)
    }

    /// Downsamples by means of `step` x `step` px.
    fn downsampled(&self, step: usize) -> Self {
        let side = self.side.map(|v| (v / step).max(2));
        let data = (0..side[0] * side[1]).map(|at| {
            let (x, y) = (at % side[0] * step, at / side[0] * step);
            let mut sum = 0.0;
            let mut count = 0.0;
            for row in y..(y + step).min(self.side[1]) {
                for column in x..(x + step).min(self.side[0]) {
                    sum += self.data[row * self.side[0] + column];
                    count += 1.0;
                }
            }
            sum / f32::max(count, 1.0)
        });
        Self { side, data: data.collect() }
    }

    /// Quantile of the pixels for a fraction from 0 to 1.
    fn quantile(&self, share: f64) -> f64 {
        let mut values: Vec<f32> =
            self.data.iter().step_by(self.data.len().div_ceil(100_000)).copied().collect();
        values.sort_by(f32::total_cmp);
        f64::from(values[((values.len() - 1) as f64 * share) as usize])
    }
}

/// Finds the image circle of lens `lens` in `cell` (left, top, width, height), its half of the frames.
///
/// # Errors
/// [`CircleError::Dark`], [`CircleError::NotFound`] or [`CircleError::BrightOutside`].
pub fn find_circle(frames: &[LumaImage], cell: [usize; 4], lens: usize) -> Result<ImageCircle, CircleError> {
    let mean = MeanImage::from_frames(frames, cell);
    if mean.quantile(0.98) < BLACK_LEVEL {
        return Err(CircleError::Dark(lens));
    }
    let black = mean.quantile(0.01);
    let step = (mean.side[0].min(mean.side[1]) / COARSE_SIDE).max(1);
    let small = mean.downsampled(step);
    let (mut centre, mut radius, fall) = coarse_circle(&small, black);
    if fall < MIN_FALL {
        return Err(CircleError::NotFound(lens));
    }
    let scale = step as f64;
    (centre, radius) = (centre.map(|c| c * scale), radius * scale);
    let mut doubt = [0.0; 2];
    for reach in [0.06 * radius, 0.02 * radius, 4.0, 4.0] {
        let edge = edge_points(&mean, centre, radius, reach.max(4.0));
        let fitted = fit_circle(&edge, centre, radius).ok_or(CircleError::NotFound(lens))?;
        (centre, radius, doubt) = fitted;
    }
    let outside = bright_outside(&small, centre.map(|c| c / scale), radius / scale, black);
    if outside > 0.08 {
        return Err(CircleError::BrightOutside(lens, 100.0 * outside));
    }
    Ok(ImageCircle {
        centre: [centre[0] + cell[0] as f64, centre[1] + cell[1] as f64],
        radius,
        centre_sigma: doubt[0].max(MIN_SIGMA),
        radius_sigma: doubt[1].max(MIN_SIGMA),
    })
}

/// Grid search: centre, radius and mean logarithm of the best circle.
fn coarse_circle(small: &MeanImage, black: f64) -> ([f64; 2], f64, f64) {
    let [w, h] = small.side.map(|v| v as f64);
    let side = w.min(h);
    let angles: Vec<[f64; 2]> =
        (0..96).map(|k| TAU * f64::from(k) / 96.0).map(|a| [libm::cos(a), libm::sin(a)]).collect();
    let level = |u: f64, v: f64| small.sample(u, v).map(|value| (value - black).max(0.0) + NOISE_LEVEL);
    let fall = |[cx, cy]: [f64; 2], r: f64| {
        let (mut sum, mut seen) = (0.0, 0.0);
        for [c, s] in &angles {
            let inside = level(cx + (r - 1.5) * c, cy + (r - 1.5) * s);
            let outside = level(cx + (r + 1.5) * c, cy + (r + 1.5) * s);
            if let (Some(inside), Some(outside)) = (inside, outside) {
                sum += libm::log(inside / outside).clamp(-1.0, 2.0);
                seen += 1.0;
            }
        }
        // Part of a circle may be outside the frame, but not most of it.
        if seen < 32.0 { f64::NEG_INFINITY } else { sum / seen * libm::sqrt(seen / 96.0) }
    };
    let mut best = ([0.5 * w, 0.5 * h], 0.45 * side, f64::NEG_INFINITY);
    let mut look = |middle: [f64; 2], reach: f64, radii: [f64; 2], step: f64| {
        let steps = (reach / step) as i32;
        for j in -steps..=steps {
            for i in -steps..=steps {
                let centre = [middle[0] + f64::from(i) * step, middle[1] + f64::from(j) * step];
                let mut r = radii[0];
                while r <= radii[1] {
                    let value = fall(centre, r);
                    if value > best.2 {
                        best = (centre, r, value);
                    }
                    r += step;
                }
            }
        }
        best
    };
    let (centre, radius, _) = look([0.5 * w, 0.5 * h], 0.16 * side, [0.25 * side, 0.62 * side], 1.5);
    look(centre, 2.0, [radius - 2.0, radius + 2.0], 0.5)
}

/// Sub-pixel position of the steepest fall on each ray, with its steepness.
fn edge_points(mean: &MeanImage, centre: [f64; 2], radius: f64, reach: f64) -> Vec<([f64; 2], f64)> {
    const STEP: f64 = 0.5;
    const SIGMA: f64 = 1.5;
    let half = (4.0 * SIGMA / STEP) as usize;
    let kernel: Vec<f64> = (0..=2 * half)
        .map(|k| (k as f64 - half as f64) * STEP)
        .map(|x| x * libm::exp(-0.5 * x * x / (SIGMA * SIGMA)))
        .collect();
    let count = (2.0 * reach / STEP) as usize + 1;
    let mut points = Vec::with_capacity(RAYS);
    for ray in 0..RAYS {
        let angle = TAU * ray as f64 / RAYS as f64;
        // Averages five rays, spread over 40 % of the spacing of rays.
        let sides = [-0.2, -0.1, 0.0, 0.1, 0.2].map(|part| angle + part * TAU / RAYS as f64);
        let sides = sides.map(|a| [libm::cos(a), libm::sin(a)]);
        let profile: Option<Vec<f64>> = (0..count + 2 * half)
            .map(|k| radius - reach + (k as f64 - half as f64) * STEP)
            .map(|r| {
                let values = sides.map(|[c, s]| mean.sample(centre[0] + r * c, centre[1] + r * s));
                values.into_iter().sum::<Option<f64>>().map(|sum| 0.2 * sum)
            })
            .collect();
        let Some(profile) = profile else { continue };
        let fall: Vec<f64> = profile
            .windows(kernel.len())
            .map(|w| -w.iter().zip(&kernel).map(|(a, b)| a * b).sum::<f64>())
            .collect();
        let Some(at) = (1..fall.len() - 1).max_by(|&a, &b| fall[a].total_cmp(&fall[b])) else { continue };
        let (before, here, after) = (fall[at - 1], fall[at], fall[at + 1]);
        let bend = before - 2.0 * here + after;
        if here <= 0.0 || bend >= 0.0 {
            continue;
        }
        let part = (0.5 * (before - after) / bend).clamp(-1.0, 1.0);
        let r = radius - reach + (at as f64 + part) * STEP;
        points.push(([centre[0] + r * libm::cos(angle), centre[1] + r * libm::sin(angle)], here));
    }
    points
}

/// Robust circle through points: centre, radius, and standard deviations of centre and radius.
fn fit_circle(
    points: &[([f64; 2], f64)],
    centre: [f64; 2],
    radius: f64,
) -> Option<([f64; 2], f64, [f64; 2])> {
    // The position of a very weak edge is noise.
    let usual = median(points.iter().map(|p| p.1).collect());
    let points: Vec<[f64; 2]> = points.iter().filter(|p| p.1 > 0.1 * usual).map(|p| p.0).collect();
    if points.len() < RAYS / 8 {
        return None;
    }
    let (mut c, mut r) = (centre, radius);
    let mut doubt = [0.0; 2];
    for _ in 0..30 {
        let residuals: Vec<f64> = points.iter().map(|p| libm::hypot(p[0] - c[0], p[1] - c[1]) - r).collect();
        let scale = (1.4826 * median(residuals.iter().map(|e| e.abs()).collect())).max(0.05);
        let (mut a, mut b) = ([0.0; 9], [0.0; 3]);
        let (mut squares, mut weights) = (0.0, 0.0);
        for (p, &e) in points.iter().zip(&residuals) {
            let ratio = e / (4.685 * scale);
            let weight = if ratio.abs() < 1.0 { (1.0 - ratio * ratio) * (1.0 - ratio * ratio) } else { 0.0 };
            let far = libm::hypot(p[0] - c[0], p[1] - c[1]).max(1e-9);
            let j = [(p[0] - c[0]) / far, (p[1] - c[1]) / far, 1.0];
            for i in 0..3 {
                b[i] += weight * j[i] * e;
                for k in 0..3 {
                    a[3 * i + k] += weight * j[i] * j[k];
                }
            }
            squares += weight * e * e;
            weights += weight;
        }
        let step = solve_positive_definite(&a, &b)?;
        c = [c[0] + step[0], c[1] + step[1]];
        r += step[2];
        let variance = squares / (weights - 3.0).max(1.0);
        let inverse = inverse_diagonal(&a, 3)?;
        doubt = [libm::sqrt(variance * inverse[0].max(inverse[1])), libm::sqrt(variance * inverse[2])];
    }
    (r > 2.0).then_some((c, r, doubt))
}

/// Fraction of the pixels well outside the circle that are at least half as bright as those inside.
fn bright_outside(small: &MeanImage, centre: [f64; 2], radius: f64, black: f64) -> f64 {
    let [w, _] = small.side;
    let far = |at: usize| {
        libm::hypot((at % w) as f64 + 0.5 - centre[0], (at / w) as f64 + 0.5 - centre[1]) / radius
    };
    let (mut inside, mut outside) = (Vec::new(), Vec::new());
    for (at, &value) in small.data.iter().enumerate() {
        match far(at) {
            f if f < 0.9 => inside.push(f64::from(value)),
            f if f > 1.06 => outside.push(f64::from(value)),
            _ => {}
        }
    }
    let bright = black + (0.5 * (median(inside) - black)).max(NOISE_LEVEL);
    let count = outside.iter().filter(|&&v| v > bright).count();
    count as f64 / outside.len().max(1) as f64
}
