//! Matching of corners between images of approximately known lenses.
//!
//! A corner is the centre of a patch on the tangent plane of its direction. The other image is sampled on the same
//! plane, transformed by the relative pose, so that only a shift is left: first the best correlation within reach, to
//! whole steps, then shift, gain and offset by Gauss-Newton, to some hundredths of a step; from another position also
//! an affine warp, for slanted surfaces. A match keeps the pixels of both images, which do not depend on the lens.

use std::f64::consts::TAU;

use gausset_core::se3::{self, Mat3};

use super::LumaImage;
use super::linear::solve_positive_definite;
use super::model::LensModel;
use super::state::RelativePose;

/// A pixel seen by one lens of a frame.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct LensObservation {
    pub(super) frame: usize,
    pub(super) lens: usize,
    /// Pixel of the frame.
    pub(super) pixel: [f64; 2],
}

/// Match: two observations of the same point.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct LensMatch {
    pub(super) from: LensObservation,
    pub(super) to: LensObservation,
    /// Landmark whose inverse depth is estimated; `None` if the point is treated as infinitely far away.
    pub(super) landmark: Option<usize>,
}

/// Image of one lens of a frame, with the lens model.
#[derive(Clone, Copy)]
pub(super) struct LensImage<'a> {
    pub(super) frame: usize,
    pub(super) lens: usize,
    pub(super) grey: &'a LumaImage,
    pub(super) model: &'a LensModel,
}

impl LensImage<'_> {
    pub(super) fn observation(&self, pixel: [f64; 2]) -> LensObservation {
        LensObservation { frame: self.frame, lens: self.lens, pixel }
    }
}

/// Geometric model of the alignment of a patch: a shift, or an affine warp. Gain and offset are always fitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PatchWarp {
    Shift,
    Affine,
}

/// Search window.
#[derive(Clone, Copy)]
pub(super) struct SearchWindow {
    /// Radians between samples.
    pub(super) sample_angle: f64,
    /// Steps to each side of the expected position.
    pub(super) reach: i32,
}

/// Fraction of the radius within which images are sampled; closer to the rim there is scattered light.
pub(super) const USABLE_RADIUS: f64 = 0.985;
/// Half side of a patch, in samples.
const HALF_PATCH: i32 = 6;
/// Minimum correlation, and its minimum margin over any candidate that is more than `DISTINCT_STEPS` steps away.
const MIN_CORRELATION: f64 = 0.8;
const MIN_MARGIN: f64 = 0.04;
const DISTINCT_STEPS: f64 = 3.0;

/// Region in which corners are detected: inner and outer radius as fractions of the circle's radius, bins (angular,
/// radial), and corners per bin.
#[derive(Clone, Copy)]
pub(super) struct CornerRegion {
    pub(super) radii: [f64; 2],
    pub(super) bins: [usize; 2],
    pub(super) per_bin: usize,
}

/// Detects corners (Shi and Tomasi 1994), the strongest of each bin of angle and radius, in order of bins.
pub(super) fn detect_corners(eye: LensImage<'_>, zone: CornerRegion) -> Vec<[f64; 2]> {
    let LensImage { grey, model, .. } = eye;
    let outer = zone.radii[1] * model.radius;
    let range = |middle: f64, most: usize| {
        let most = most.saturating_sub(5).max(5);
        ((middle - outer) as usize).clamp(4, most)..((middle + outer) as usize + 1).clamp(5, most)
    };
    let (columns, rows) = (range(model.centre[0], grey.width), range(model.centre[1], grey.height));
    let (width, height) = (columns.len(), rows.len());
    let value = |x: usize, y: usize| f32::from(grey.data[y * grey.width + x]);
    // Products of gradients, which `strength` sums over 5x5 pixels.
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
            // Below 50 (summed over 25 pixels) it is noise.
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
        found.extend(bin.into_iter().take(zone.per_bin).map(|(_, pixel)| pixel));
    }
    found
}

/// Tangent plane of the sphere at a direction, or that plane transformed to another camera.
#[derive(Clone, Copy)]
pub(super) struct TangentPlane {
    normal: [f64; 3],
    right: [f64; 3],
    down: [f64; 3],
    step: f64,
}

impl TangentPlane {
    fn new(ahead: [f64; 3], step: f64) -> Self {
        // The coordinate axis farthest from the direction.
        let least = (0..3).min_by(|&a, &b| ahead[a].abs().total_cmp(&ahead[b].abs())).unwrap_or(0);
        let mut axis = [0.0; 3];
        axis[least] = 1.0;
        let right = se3::unit(se3::cross(axis, ahead));
        Self { normal: ahead, right, down: se3::cross(ahead, right), step }
    }

    fn direction(&self, x: f64, y: f64) -> [f64; 3] {
        let (a, b) = (x * self.step, y * self.step);
        [0, 1, 2].map(|k| self.normal[k] + a * self.right[k] + b * self.down[k])
    }

    /// The plane in the axes of a lens.
    fn in_lens<'a>(&self, eye: LensImage<'a>) -> LensPlane<'a> {
        let in_lens = |v: [f64; 3]| se3::transpose_mul_vec(&eye.model.pano_from_lens, v);
        let plane = Self {
            normal: in_lens(self.normal),
            right: in_lens(self.right),
            down: in_lens(self.down),
            step: self.step,
        };
        LensPlane { plane, image: eye }
    }
}

/// A plane in the axes of a lens, for sampling its image.
#[derive(Clone, Copy)]
struct LensPlane<'a> {
    plane: TangentPlane,
    image: LensImage<'a>,
}

impl LensPlane<'_> {
    fn pixel(&self, x: f64, y: f64) -> Option<[f64; 2]> {
        self.image.model.project_in_lens_within(self.plane.direction(x, y), USABLE_RADIUS)
    }

    fn sample(&self, x: f64, y: f64) -> Option<f64> {
        let [u, v] = self.pixel(x, y)?;
        Some(self.image.grey.sample(u, v))
    }
}

/// Neighbourhood of a pixel, sampled on the tangent plane of its direction.
pub(super) struct Patch {
    plane: TangentPlane,
    values: Vec<f64>,
    gradients: Vec<[f64; 2]>,
    /// The values with mean 0 and length 1.
    template: Vec<f64>,
}

impl Patch {
    pub(super) fn new(from: LensImage<'_>, pixel: [f64; 2], step: f64) -> Option<Self> {
        let ahead = se3::mul_vec(&from.model.pano_from_lens, from.model.unproject(pixel));
        let plane = TangentPlane::new(ahead, step);
        let side = 2 * HALF_PATCH + 3;
        // One extra sample on each side for gradients.
        let shown = plane.in_lens(from);
        let patch: Option<Vec<f64>> =
            square_offsets(HALF_PATCH + 1).map(|(i, j)| shown.sample(i.into(), j.into())).collect();
        let patch = patch?;
        let at = |i: i32, j: i32| patch[((j + HALF_PATCH + 1) * side + i + HALF_PATCH + 1) as usize];
        let values: Vec<f64> = square_offsets(HALF_PATCH).map(|(i, j)| at(i, j)).collect();
        let template = normalised(&values)?;
        let gradients = square_offsets(HALF_PATCH)
            .map(|(i, j)| [0.5 * (at(i + 1, j) - at(i - 1, j)), 0.5 * (at(i, j + 1) - at(i, j - 1))])
            .collect();
        Some(Self { plane, values, gradients, template })
    }

    /// The patch's plane at the given inverse depth, fronto-parallel to the camera that it was sampled from,
    /// transformed to another camera.
    pub(super) fn transformed(&self, way: &RelativePose, nearness: f64) -> TangentPlane {
        let TangentPlane { normal: ahead, right, down, step } = self.plane;
        let [right, down] = [right, down].map(|v| se3::mul_vec(&way.rotation, v));
        TangentPlane { normal: way.transform(ahead, nearness), right, down, step }
    }

    /// Searches for the patch in another image within `reach` steps around each of `planes`. Returns the pixel and the
    /// index of the plane; `None` if the correlation is too low or ambiguous.
    pub(super) fn search(
        &self,
        to: LensImage<'_>,
        planes: &[TangentPlane],
        reach: i32,
        warp: PatchWarp,
    ) -> Option<([f64; 2], usize)> {
        let wide = HALF_PATCH + reach;
        let mut scores = Vec::new();
        for (index, plane) in planes.iter().enumerate() {
            let shown = plane.in_lens(to);
            if shown.pixel(0.0, 0.0).is_none() {
                continue;
            }
            let window: Vec<f64> = square_offsets(wide)
                .map(|(i, j)| shown.sample(i.into(), j.into()).unwrap_or(f64::NAN))
                .collect();
            correlate(&self.template, &window, reach, |score, at| scores.push((score, index, at)));
        }
        let &(score, index, start) = scores.iter().max_by(|a, b| a.0.total_cmp(&b.0))?;
        let plane = &planes[index];
        let place = plane.direction(start[0], start[1]);
        let is_elsewhere = |other: usize, at: [f64; 2]| {
            if other == index {
                return (at[0] - start[0]).abs().max((at[1] - start[1]).abs()) > DISTINCT_STEPS;
            }
            let there = planes[other].direction(at[0], at[1]);
            let far = se3::norm(se3::cross(place, there)) / (se3::norm(place) * se3::norm(there));
            far > (DISTINCT_STEPS + 0.5) * plane.step
        };
        let is_rival = |&(value, other, at): &(f64, usize, [f64; 2])| {
            value >= score - MIN_MARGIN && is_elsewhere(other, at)
        };
        if score <= MIN_CORRELATION || scores.iter().any(is_rival) {
            return None;
        }
        let shown = plane.in_lens(to);
        let [x, y] = self.refined(shown, start, warp)?;
        Some((shown.pixel(x, y)?, index))
    }

    /// Refines the shift to sub-step accuracy, with gain and offset.
    fn refined(&self, there: LensPlane<'_>, start: [f64; 2], warp: PatchWarp) -> Option<[f64; 2]> {
        let n = if warp == PatchWarp::Affine { 8 } else { 4 };
        // Shift, gain, offset, then the affine part.
        let mut by = [start[0], start[1], 1.0, 0.0, 0.0, 0.0, 0.0, 0.0];
        for _ in 0..12 {
            let (mut a, mut b) = (vec![0.0; n * n], vec![0.0; n]);
            for (k, (i, j)) in square_offsets(HALF_PATCH).enumerate() {
                let (i, j) = (f64::from(i), f64::from(j));
                let (x, y) = (i + by[0] + by[4] * i + by[5] * j, j + by[1] + by[6] * i + by[7] * j);
                let value = there.sample(x, y)?;
                // The gradient of the patch approximates that of the other image.
                let [gx, gy] = self.gradients[k];
                let row = [gx, gy, value, 1.0, gx * i, gx * j, gy * i, gy * j];
                let error = by[2] * value + by[3] - self.values[k];
                for p in 0..n {
                    b[p] -= row[p] * error;
                    // The solver reads the lower half.
                    for q in 0..=p {
                        a[n * p + q] += row[p] * row[q];
                    }
                }
            }
            let step = solve_positive_definite(&a, &b)?;
            by.iter_mut().zip(&step).for_each(|(by, step)| *by += step);
            let is_torn = by[4..].iter().any(|v| v.abs() > 0.5);
            if is_torn || (by[0] - start[0]).abs().max((by[1] - start[1]).abs()) > 2.0 {
                return None;
            }
            if step[0].abs().max(step[1].abs()) < 1e-3 {
                return Some([by[0], by[1]]);
            }
        }
        None
    }
}

/// Matches a pixel of one image in another, whose panorama axes are rotated by `turn` relative to the first.
pub(super) fn match_corner(
    from: LensImage<'_>,
    to: LensImage<'_>,
    turn: &Mat3,
    pixel: [f64; 2],
    search: SearchWindow,
) -> Option<LensMatch> {
    let patch = Patch::new(from, pixel, search.sample_angle)?;
    let plane = patch.transformed(&RelativePose::from_rotation(turn), 0.0);
    let (there, _) = patch.search(to, &[plane], search.reach, PatchWarp::Shift)?;
    Some(LensMatch { from: from.observation(pixel), to: to.observation(there), landmark: None })
}

/// Offsets of a square, row by row.
fn square_offsets(half: i32) -> impl Iterator<Item = (i32, i32)> {
    (-half..=half).flat_map(move |j| (-half..=half).map(move |i| (i, j)))
}

/// Normalises to mean 0 and length 1; `None` for a patch without contrast.
fn normalised(values: &[f64]) -> Option<Vec<f64>> {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let length = libm::sqrt(values.iter().map(|v| (v - mean) * (v - mean)).sum());
    // At least three grey levels of standard deviation.
    (length > 3.0 * libm::sqrt(values.len() as f64))
        .then(|| values.iter().map(|v| (v - mean) / length).collect())
}

/// Normalised correlations of a template with all squares of the window within reach, passed to `take` with their
/// shift.
fn correlate(template: &[f64], window: &[f64], reach: i32, mut take: impl FnMut(f64, [f64; 2])) {
    let (patch, wide) = ((2 * HALF_PATCH + 1) as usize, (2 * (HALF_PATCH + reach) + 1) as usize);
    // Sums, squares and products for a row of squares at once, so that the inner loop vectorises.
    let mut columns = [0, 1, 2].map(|_| vec![0.0f64; (2 * reach + 1) as usize]);
    for (top, j) in (-reach..=reach).enumerate() {
        columns.iter_mut().for_each(|of| of.fill(0.0));
        let [sums, squares, products] = &mut columns;
        for (line, row) in window.chunks_exact(wide).skip(top).zip(template.chunks_exact(patch)) {
            for (shifted, t) in line.windows(sums.len()).zip(row) {
                let all = shifted.iter().zip(&mut *sums).zip(&mut *squares).zip(&mut *products);
                for (((w, sum), square), product) in all {
                    *sum += w;
                    *square += w * w;
                    *product += t * w;
                }
            }
        }
        for (at, i) in (-reach..=reach).enumerate() {
            let variance = squares[at] - sums[at] * sums[at] / template.len() as f64;
            // Samples outside the image are NaN, which fails this comparison.
            if variance > 1.0 {
                take(products[at] / libm::sqrt(variance), [i.into(), j.into()]);
            }
        }
    }
}
