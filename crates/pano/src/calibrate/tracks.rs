//! Corners of one picture found again in another, through lenses that are roughly known.
//!
//! A corner is the middle of a patch on the tangent plane of its direction. The other picture is sampled on the same
//! plane, turned as the pictures are against each other, so that only a shift is left: first the best correlation
//! within reach (to whole steps), then shift, gain and offset by Gauss-Newton, to some hundredths of a step. What is
//! kept are pixels of both pictures, in which no lens takes part.

use std::f64::consts::TAU;

use gausset_core::se3::{self, Mat3};

use super::Grey;
use super::linear::solve;
use super::model::Model;

/// A place of a picture.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Seen {
    pub(super) frame: usize,
    pub(super) lens: usize,
    /// px of the frame.
    pub(super) pixel: [f64; 2],
}

/// One thing, seen twice.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Track {
    pub(super) from: Seen,
    pub(super) to: Seen,
}

/// A lens of a frame.
#[derive(Clone, Copy)]
pub(super) struct Eye<'a> {
    pub(super) frame: usize,
    pub(super) lens: usize,
    pub(super) grey: &'a Grey,
    pub(super) model: &'a Model,
}

/// How far is looked, and how finely.
#[derive(Clone, Copy)]
pub(super) struct Search {
    /// Radians between samples.
    pub(super) step: f64,
    /// Steps to each side.
    pub(super) reach: i32,
}

/// Part of the radius within which pictures are sampled: at the rim light is scattered.
pub(super) const RIM: f64 = 0.985;
/// Samples from the middle of a patch to its side.
const HALF: i32 = 6;
/// Least correlation, and by how much one elsewhere must be worse.
const ALIKE: f64 = 0.8;
const CLEARLY: f64 = 0.04;

/// Where corners are looked for: radii from and to, in parts of the circle's, and how many a bin.
#[derive(Clone, Copy)]
pub(super) struct Zone {
    pub(super) radii: [f64; 2],
    pub(super) bins: [usize; 2],
    pub(super) each: usize,
}

/// Corners (Shi and Tomasi 1994) of a lens, spread over bins of angle and radius; in order.
pub(super) fn corners(eye: Eye<'_>, zone: Zone) -> Vec<[f64; 2]> {
    let Eye { grey, model, .. } = eye;
    let outer = zone.radii[1] * model.radius;
    let range = |middle: f64, most: usize| {
        let most = most.saturating_sub(5).max(5);
        ((middle - outer) as usize).clamp(4, most)..((middle + outer) as usize + 1).clamp(5, most)
    };
    let (columns, rows) = (range(model.centre[0], grey.width), range(model.centre[1], grey.height));
    let (width, height) = (columns.len(), rows.len());
    let value = |x: usize, y: usize| f32::from(grey.data[y * grey.width + x]);
    // Products of gradients, then their sums over 5x5.
    let mut products = vec![[0.0f32; 3]; width * height];
    for y in 0..height {
        for x in 0..width {
            let (column, row) = (columns.start + x, rows.start + y);
            let gx = value(column + 1, row) - value(column - 1, row);
            let gy = value(column, row + 1) - value(column, row - 1);
            products[y * width + x] = [gx * gx, gx * gy, gy * gy];
        }
    }
    let strength = |x: usize, y: usize| {
        let mut sums = [0.0f32; 3];
        for row in products.chunks_exact(width).skip(y - 2).take(5) {
            for product in &row[x - 2..=x + 2] {
                sums = [0, 1, 2].map(|k| sums[k] + product[k]);
            }
        }
        let [xx, xy, yy] = sums;
        0.5 * (xx + yy) - (0.25 * (xx - yy) * (xx - yy) + xy * xy).sqrt()
    };
    let place = |x: usize, y: usize| {
        let (dx, dy) = (
            (columns.start + x) as f64 + 0.5 - model.centre[0],
            (rows.start + y) as f64 + 0.5 - model.centre[1],
        );
        (libm::hypot(dx, dy) / model.radius, libm::atan2(dy, dx).rem_euclid(TAU))
    };
    let mut strengths = vec![0.0f32; width * height];
    for y in 2..height.saturating_sub(2) {
        for x in 2..width.saturating_sub(2) {
            let (far, _) = place(x, y);
            if (zone.radii[0]..=zone.radii[1]).contains(&far) {
                strengths[y * width + x] = strength(x, y);
            }
        }
    }
    let [around, across] = zone.bins;
    let mut bins: Vec<Vec<(f32, [f64; 2])>> = vec![Vec::new(); around * across];
    for y in 3..height.saturating_sub(3) {
        for x in 3..width.saturating_sub(3) {
            let own = strengths[y * width + x];
            // A tenth of a grey level a pixel is noise.
            if own < 50.0 {
                continue;
            }
            let neighbours = (y - 3..=y + 3).flat_map(|j| (x - 3..=x + 3).map(move |i| j * width + i));
            let here = y * width + x;
            if neighbours.filter(|&at| at != here).any(|at| (strengths[at], here) > (own, at)) {
                continue;
            }
            let (far, angle) = place(x, y);
            let radial = (far - zone.radii[0]) / (zone.radii[1] - zone.radii[0]);
            let bin = ((angle / TAU * around as f64) as usize).min(around - 1) * across
                + ((radial * across as f64) as usize).min(across - 1);
            let pixel = [(columns.start + x) as f64 + 0.5, (rows.start + y) as f64 + 0.5];
            bins[bin].push((own, pixel));
        }
    }
    let mut found = Vec::new();
    for mut bin in bins {
        bin.sort_by(|a, b| {
            b.0.total_cmp(&a.0).then(a.1[1].total_cmp(&b.1[1])).then(a.1[0].total_cmp(&b.1[0]))
        });
        found.extend(bin.into_iter().take(zone.each).map(|(_, pixel)| pixel));
    }
    found
}

/// A plane that touches the sphere in a direction.
struct Tangent {
    ahead: [f64; 3],
    right: [f64; 3],
    down: [f64; 3],
    step: f64,
}

impl Tangent {
    fn new(ahead: [f64; 3], step: f64) -> Self {
        // The axis that is furthest from the direction.
        let least = (0..3).min_by(|&a, &b| ahead[a].abs().total_cmp(&ahead[b].abs())).unwrap_or(0);
        let mut axis = [0.0; 3];
        axis[least] = 1.0;
        let right = se3::cross(axis, ahead);
        let length = se3::norm(right);
        let right = right.map(|v| v / length);
        Self { ahead, right, down: se3::cross(ahead, right), step }
    }

    fn turned(&self, turn: &Mat3) -> Self {
        let [ahead, right, down] = [self.ahead, self.right, self.down].map(|v| se3::mul_vec(turn, v));
        Self { ahead, right, down, step: self.step }
    }

    fn direction(&self, x: f64, y: f64) -> [f64; 3] {
        let (a, b) = (x * self.step, y * self.step);
        [0, 1, 2].map(|k| self.ahead[k] + a * self.right[k] + b * self.down[k])
    }

    fn sample(&self, eye: Eye<'_>, x: f64, y: f64) -> Option<f64> {
        let [u, v] = eye.model.seen(self.direction(x, y), RIM)?;
        Some(eye.grey.at(u, v))
    }
}

/// Finds what is at a pixel of one picture in another, whose panorama axes are turned by `turn` against those of the
/// first.
pub(super) fn find(
    from: Eye<'_>,
    to: Eye<'_>,
    turn: &Mat3,
    pixel: [f64; 2],
    search: Search,
) -> Option<Track> {
    let ahead = se3::mul_vec(&from.model.pano_from_lens, from.model.unproject(pixel));
    let here = Tangent::new(ahead, search.step);
    let there = here.turned(turn);
    to.model.seen(there.ahead, RIM)?;
    let side = 2 * HALF + 3;
    // One sample more to each side, for gradients.
    let patch: Option<Vec<f64>> =
        square(HALF + 1).map(|(i, j)| here.sample(from, i.into(), j.into())).collect();
    let patch = patch?;
    let at = |i: i32, j: i32| patch[((j + HALF + 1) * side + i + HALF + 1) as usize];
    let inner: Vec<f64> = square(HALF).map(|(i, j)| at(i, j)).collect();
    let template = normalised(&inner)?;
    let wide = HALF + search.reach;
    let window: Vec<f64> =
        square(wide).map(|(i, j)| there.sample(to, i.into(), j.into()).unwrap_or(f64::NAN)).collect();
    let (x, y) = best_place(&template, &window, search.reach)?;
    let gradients: Vec<[f64; 2]> = square(HALF)
        .map(|(i, j)| [0.5 * (at(i + 1, j) - at(i - 1, j)), 0.5 * (at(i, j + 1) - at(i, j - 1))])
        .collect();
    let [x, y] = refined(&inner, &gradients, &there, to, [x, y])?;
    let pixel_there = to.model.seen(there.direction(x, y), RIM)?;
    let seen = |eye: Eye<'_>, pixel| Seen { frame: eye.frame, lens: eye.lens, pixel };
    Some(Track { from: seen(from, pixel), to: seen(to, pixel_there) })
}

/// Offsets of a square, row by row.
fn square(half: i32) -> impl Iterator<Item = (i32, i32)> {
    (-half..=half).flat_map(move |j| (-half..=half).map(move |i| (i, j)))
}

/// Mean 0 and length 1; `None` of an even patch.
fn normalised(values: &[f64]) -> Option<Vec<f64>> {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let length = libm::sqrt(values.iter().map(|v| (v - mean) * (v - mean)).sum());
    // Three grey levels on average.
    (length > 3.0 * libm::sqrt(values.len() as f64))
        .then(|| values.iter().map(|v| (v - mean) / length).collect())
}

/// The shift of the best correlation, if no other is nearly as good.
fn best_place(template: &[f64], window: &[f64], reach: i32) -> Option<(f64, f64)> {
    let (patch, wide) = ((2 * HALF + 1) as usize, (2 * (HALF + reach) + 1) as usize);
    let mut values = Vec::new();
    for (i, j) in square(reach) {
        let (left, top) = ((i + reach) as usize, (j + reach) as usize);
        let (mut sum, mut squares, mut product) = (0.0, 0.0, 0.0);
        for (k, row) in template.chunks_exact(patch).enumerate() {
            let from = (top + k) * wide + left;
            for (t, w) in row.iter().zip(&window[from..from + patch]) {
                sum += w;
                squares += w * w;
                product += t * w;
            }
        }
        let variance: f64 = squares - sum * sum / template.len() as f64;
        // What was not sampled is NaN, and no candidate.
        if variance > 1.0 {
            values.push((product / libm::sqrt(variance), i, j));
        }
    }
    let best = values.iter().copied().max_by(|a, b| a.0.total_cmp(&b.0))?;
    let is_elsewhere = |v: &&(f64, i32, i32)| (v.1 - best.1).abs().max((v.2 - best.2).abs()) > 3;
    let next = values.iter().filter(is_elsewhere).map(|v| v.0).fold(-1.0, f64::max);
    (best.0 > ALIKE && best.0 - next > CLEARLY).then(|| (f64::from(best.1), f64::from(best.2)))
}

/// The shift to a part of a step, with gain and offset.
fn refined(
    inner: &[f64],
    gradients: &[[f64; 2]],
    there: &Tangent,
    to: Eye<'_>,
    start: [f64; 2],
) -> Option<[f64; 2]> {
    let [mut x, mut y] = start;
    let (mut gain, mut offset) = (1.0, 0.0);
    for _ in 0..12 {
        let (mut a, mut b) = ([0.0; 16], [0.0; 4]);
        for (k, (i, j)) in square(HALF).enumerate() {
            let value = there.sample(to, f64::from(i) + x, f64::from(j) + y)?;
            // The gradient of the patch stands for that of what it is compared with.
            let row = [gradients[k][0], gradients[k][1], -value, -1.0];
            let error = gain * value + offset - inner[k];
            for p in 0..4 {
                b[p] -= row[p] * error;
                for q in 0..4 {
                    a[4 * p + q] += row[p] * row[q];
                }
            }
        }
        let step = solve(&a, &b)?;
        x += step[0];
        y += step[1];
        gain -= step[2];
        offset -= step[3];
        if (x - start[0]).abs().max((y - start[1]).abs()) > 2.0 {
            return None;
        }
        if step[0].abs().max(step[1].abs()) < 1e-3 {
            return Some([x, y]);
        }
    }
    None
}
