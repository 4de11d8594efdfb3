//! Brightness and white balance made alike: of the frames of a walk, from what neighbours both show.
//!
//! ```text
//! a frame      a panorama of 1024 px, its strongest corners (Shi and Tomasi 1994), each with a patch of 11x11 samples
//!              of luma on the tangent plane, 0.7 degrees apart, of mean 0 and length 1: a gain hardly changes it
//! two frames   pairs of corners that are each other's best, the next best clearly worse → ratio of their linear light
//!              r = robust mean of log2, per channel
//! all frames   least squares of g_i - g_j = -r_ij over neighbours up to three frames apart, mean zero
//! ```
//! Nothing is assumed about poses; the up of the panoramas is taken as up.

use gausset_core::se3;

use crate::equalise::{light_of, robust_mean, rounded};
use crate::geometry::{direction_from_equirect, equirect_from_direction};
use crate::plane::Frame;

/// Width of the panoramas that are compared, px.
pub const WIDTH: u32 = 1024;
/// Corners of a frame, and how far around none is stronger, px.
const CORNERS: usize = 1500;
const APART: i32 = 3;
/// Samples along a side of a patch, and degrees between them.
const PATCH: i32 = 11;
const STEP_DEGREES: f64 = 0.7;
/// Samples from the middle of a patch whose light is compared.
const MIDDLE: i32 = 3;
/// Degrees of latitude beyond which no corner is taken: operator, tripod, stretched pixels.
const LATITUDE: f64 = 50.0;
/// Least correlation of two patches, and by how much the next best must be worse.
const ALIKE: f32 = 0.8;
const CLEARLY: f32 = 0.02;
/// Degrees by which the ways of two pairs may differ.
const AGREE_DEGREES: f64 = 15.0;
/// Fewest pairs of corners that say anything.
const FEWEST: usize = 16;
/// Frames that are compared with each.
const NEIGHBOURS: usize = 3;

/// A corner of a panorama.
#[derive(Clone, Debug)]
struct Corner {
    /// Where it is, degrees.
    longitude: f64,
    latitude: f64,
    /// Luma around it, of mean 0 and length 1.
    patch: Vec<f32>,
    /// Linear light in its middle.
    light: [f64; 3],
}

/// What is kept of a frame.
#[derive(Clone, Debug, Default)]
pub struct Shown {
    corners: Vec<Corner>,
}

impl Shown {
    /// Looks at a panorama of [`WIDTH`] px.
    #[must_use]
    pub fn of(panorama: &Frame) -> Self {
        let (width, height) = (WIDTH as usize, WIDTH as usize / 2);
        if panorama.planes.first().is_none_or(|p| p.width != width || p.height != height) {
            return Self::default();
        }
        let light: Vec<Option<[f64; 3]>> =
            (0..width * height).map(|at| light_of(panorama, at % width, at / width)).collect();
        let luma: Vec<f32> =
            (0..height).flat_map(|y| panorama.planes[0].row(y as i32)).map(|&v| f32::from(v)).collect();
        let margin = ((90.0 - LATITUDE) / 180.0 * height as f64) as usize;
        let mut strengths = vec![0.0f32; width * height];
        for y in margin..height - margin {
            for x in 0..width {
                strengths[y * width + x] = strength(&luma, x, y);
            }
        }
        let is_strongest = |x: usize, y: usize| {
            let own = strengths[y * width + x];
            let around = (-APART..=APART).flat_map(|dy| (-APART..=APART).map(move |dx| (dx, dy)));
            own > 0.0
                && around.filter(|&at| at != (0, 0)).all(|(dx, dy)| {
                    let column = (x as i32 + dx).rem_euclid(width as i32) as usize;
                    let other = strengths[(y as i32 + dy) as usize * width + column];
                    // Of equal ones the first.
                    other < own || (other == own && (dy, dx) > (0, 0))
                })
        };
        let pixels = (margin..height - margin).flat_map(|y| (0..width).map(move |x| (x, y)));
        let mut best: Vec<(usize, usize)> = pixels.filter(|&(x, y)| is_strongest(x, y)).collect();
        best.sort_by(|&(ax, ay), &(bx, by)| {
            strengths[by * width + bx].total_cmp(&strengths[ay * width + ax]).then((ay, ax).cmp(&(by, bx)))
        });
        let corners = best.into_iter().filter_map(|(x, y)| Corner::at(&luma, &light, x, y));
        let corners = corners.take(CORNERS).collect();
        Self { corners }
    }

    /// Binary logarithm of this frame's light over another's, per channel, and the number of places it comes from.
    fn ratio(&self, other: &Self) -> Option<([f64; 3], usize)> {
        let best_of = |from: &[Corner], to: &[Corner]| -> Vec<Option<usize>> {
            let alike =
                |a: &Corner, b: &Corner| -> f32 { a.patch.iter().zip(&b.patch).map(|(a, b)| a * b).sum() };
            from.iter()
                .map(|corner| {
                    let (mut best, mut next, mut at) = (-1.0, -1.0, 0);
                    for (index, candidate) in to.iter().enumerate() {
                        let value = alike(corner, candidate);
                        if value > best {
                            (next, best, at) = (best, value, index);
                        } else if value > next {
                            next = value;
                        }
                    }
                    (best > ALIKE && best - next > CLEARLY).then_some(at)
                })
                .collect()
        };
        let (there, back) = (best_of(&self.corners, &other.corners), best_of(&other.corners, &self.corners));
        let pairs: Vec<(&Corner, &Corner)> = there
            .iter()
            .enumerate()
            .filter_map(|(index, found)| {
                let found = found.filter(|&found| back[found] == Some(index))?;
                Some((&self.corners[index], &other.corners[found]))
            })
            .collect();
        // A turn of the camera moves all of them alike, its way only some degrees: what most agree on.
        let moved = |(a, b): &(&Corner, &Corner)| (b.longitude - a.longitude).rem_euclid(360.0);
        let apart = |a: f64, b: f64| {
            let difference = (a - b).rem_euclid(360.0);
            difference.min(360.0 - difference)
        };
        let agree = |turn: f64| pairs.iter().filter(move |pair| apart(moved(pair), turn) < AGREE_DEGREES);
        let turn = pairs.iter().map(moved).max_by_key(|&turn| agree(turn).count())?;
        let mut ratios: [Vec<f64>; 3] = Default::default();
        for (a, b) in agree(turn).filter(|(a, b)| (a.latitude - b.latitude).abs() < AGREE_DEGREES) {
            for (c, ratios) in ratios.iter_mut().enumerate() {
                ratios.push(libm::log2(a.light[c] / b.light[c]));
            }
        }
        let count = ratios[0].len();
        let mut found = [0.0; 3];
        for (found, ratios) in found.iter_mut().zip(&mut ratios) {
            *found = robust_mean(ratios, FEWEST)?;
        }
        Some((found, count))
    }
}

/// Smaller eigenvalue of the structure of luma around a pixel.
fn strength(luma: &[f32], x: usize, y: usize) -> f32 {
    let width = WIDTH as usize;
    let at = |dx: i32, dy: i32| {
        let column = (x as i32 + dx).rem_euclid(width as i32) as usize;
        luma[(y as i32 + dy) as usize * width + column]
    };
    let (mut xx, mut xy, mut yy) = (0.0f32, 0.0f32, 0.0f32);
    for dy in -3..=3 {
        for dx in -3..=3 {
            let (gx, gy) = (at(dx + 1, dy) - at(dx - 1, dy), at(dx, dy + 1) - at(dx, dy - 1));
            (xx, xy, yy) = (xx + gx * gx, xy + gx * gy, yy + gy * gy);
        }
    }
    let half = 0.5 * (xx + yy);
    half - (0.25 * (xx - yy) * (xx - yy) + xy * xy).sqrt()
}

impl Corner {
    fn at(luma: &[f32], light: &[Option<[f64; 3]>], x: usize, y: usize) -> Option<Self> {
        let (width, height) = (WIDTH as usize, WIDTH as usize / 2);
        let (w, h) = (width as f64, height as f64);
        let ahead = direction_from_equirect(x as f64 + 0.5, y as f64 + 0.5, w, h);
        let right = {
            let across = libm::sqrt(ahead[0] * ahead[0] + ahead[2] * ahead[2]);
            [ahead[2] / across, 0.0, -ahead[0] / across]
        };
        let down = se3::cross(ahead, right);
        let step = libm::tan(STEP_DEGREES.to_radians());
        let (mut patch, mut sum, mut count) = (Vec::with_capacity((PATCH * PATCH) as usize), [0.0; 3], 0.0);
        for j in -PATCH / 2..=PATCH / 2 {
            for i in -PATCH / 2..=PATCH / 2 {
                let (a, b) = (f64::from(i) * step, f64::from(j) * step);
                let d = [0, 1, 2].map(|k| ahead[k] + a * right[k] + b * down[k]);
                let [u, v] = equirect_from_direction(d, w, h);
                let (u, v) = (u - 0.5, v - 0.5);
                let (x0, y0) = (libm::floor(u), libm::floor(v).clamp(0.0, h - 2.0));
                let (fu, fv) = (u - x0, v - y0);
                let index = |dx: i64, dy: usize| {
                    (y0 as usize + dy) * width + (x0 as i64 + dx).rem_euclid(width as i64) as usize
                };
                let four = [index(0, 0), index(1, 0), index(0, 1), index(1, 1)];
                let weights = [(1.0 - fu) * (1.0 - fv), fu * (1.0 - fv), (1.0 - fu) * fv, fu * fv];
                let value: f64 =
                    four.iter().zip(weights).map(|(&k, weight)| f64::from(luma[k]) * weight).sum();
                patch.push(value as f32);
                if i.abs() <= MIDDLE && j.abs() <= MIDDLE {
                    for (&k, weight) in four.iter().zip(weights) {
                        let own = light[k]?;
                        for c in 0..3 {
                            sum[c] += weight * own[c];
                        }
                    }
                    count += 1.0;
                }
            }
        }
        let mean = patch.iter().sum::<f32>() / patch.len() as f32;
        patch.iter_mut().for_each(|v| *v -= mean);
        let length = patch.iter().map(|v| v * v).sum::<f32>().sqrt();
        // An even wall is like every other one.
        if length < 2.0 * PATCH as f32 {
            return None;
        }
        patch.iter_mut().for_each(|v| *v /= length);
        let longitude = (x as f64 + 0.5) / w * 360.0;
        let latitude = (y as f64 + 0.5) / h * 180.0;
        Some(Self { longitude, latitude, patch, light: sum.map(|v| v / count) })
    }
}

/// Factors of red, green and blue that make frames alike; 1 for those that share nothing with their neighbours.
#[must_use]
pub fn gains(frames: &[Shown]) -> Vec<[f64; 3]> {
    let mut edges: Vec<(usize, usize, [f64; 3], f64)> = Vec::new();
    for i in 0..frames.len() {
        for j in i + 1..frames.len().min(i + 1 + NEIGHBOURS) {
            if let Some((ratio, count)) = frames[i].ratio(&frames[j]) {
                edges.push((i, j, ratio, count as f64));
            }
        }
    }
    let mut gains = vec![[1.0; 3]; frames.len()];
    for c in 0..3 {
        let solved = solve(frames.len(), &edges, c);
        for (gain, log) in gains.iter_mut().zip(solved) {
            gain[c] = rounded(libm::exp2(log));
        }
    }
    gains
}

/// Least squares of `g_i - g_j = -r_ij` by conjugate gradients, from zero: mean zero in every group of frames that
/// hang together.
fn solve(count: usize, edges: &[(usize, usize, [f64; 3], f64)], channel: usize) -> Vec<f64> {
    let product = |g: &[f64]| {
        let mut out = vec![0.0; count];
        for &(i, j, _, weight) in edges {
            let difference = weight * (g[i] - g[j]);
            out[i] += difference;
            out[j] -= difference;
        }
        out
    };
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let mut rest = vec![0.0; count];
    for (i, j, ratio, weight) in edges {
        rest[*i] -= weight * ratio[channel];
        rest[*j] += weight * ratio[channel];
    }
    let (mut g, mut way, mut square) = (vec![0.0; count], rest.clone(), dot(&rest, &rest));
    for _ in 0..2 * count {
        if square < 1e-18 {
            break;
        }
        let ahead = product(&way);
        let step = square / dot(&way, &ahead).max(1e-300);
        for k in 0..count {
            g[k] += step * way[k];
            rest[k] -= step * ahead[k];
        }
        let next = dot(&rest, &rest);
        for k in 0..count {
            way[k] = rest[k] + next / square * way[k];
        }
        square = next;
    }
    g
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gains_that_agree_are_found_and_their_mean_is_zero() {
        let truth = [0.3, -0.9, 0.5, 0.1, 0.0, -0.7];
        let mut edges = Vec::new();
        for i in 0usize..6 {
            for j in i + 1..6.min(i + 3) {
                // A frame that is brighter by t needs -t.
                edges.push((i, j, [truth[i] - truth[j]; 3], 10.0 + i as f64));
            }
        }
        let mean = truth.iter().sum::<f64>() / 6.0;
        for (found, truth) in solve(6, &edges, 1).iter().zip(truth) {
            assert!((found + truth - mean).abs() < 1e-9, "{found} {truth}");
        }
        assert_eq!(solve(3, &[], 0), [0.0; 3]);
    }
}
