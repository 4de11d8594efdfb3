//! Undistortion to a pinhole and downscaling, in one resampling pass.
//!
//! Each output pixel looks along its ray, asks the lens where that ray lands in the stored picture and averages there.
//! Let w be the width, in source px along one source axis, of what the output pixel covers (from the differences of
//! neighbouring positions). The filter along that axis is
//!
//! | w | filter |
//! |---|---|
//! | ≤ 1 (same size or magnified) | cubic interpolation (Catmull-Rom: Keys 1981, a = -1/2) |
//! | ≥ 2 (downscaled) | area: the mean over w |
//! | between | (2 - w) · cubic stretched by w + (w - 1) · area, so that sharpness changes smoothly |
//!
//! Weights are normalised to sum 1; source pixels beyond the rim repeat the rim. Pixels whose ray does not land in the
//! stored picture have no source. Colours are averaged weighted with alpha. The stages are f64 for positions and f32 in a
//! fixed order for sums, so bytes depend on nothing but the input.

use gausset_core::Camera;

use super::area::{premultiplied, round, straight};
use super::{Mask, Picture};
use crate::dataset::lens::Lens;

/// Below this width a footprint counts as one pixel: differences of f64 positions are not exact.
const ONE_PIXEL: f64 = 1.0 + 1e-6;

/// Widest footprint in multiples of the mean one; lenses with a sane field of view stay far below.
const WIDEST_FOOTPRINT: f64 = 8.0;

/// A warped picture and which of its pixels have a source (and pass the mask).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warped {
    /// The picture; pixels without source are black and transparent.
    pub picture: Picture,
    /// `height × width`, 0 = no source or ignored by the mask; `None` = every pixel counts.
    pub keep: Option<Vec<u8>>,
}

/// The pinhole camera for pictures of a lens, `width × height` px large at the same field of view of the whole frame.
///
/// Its focal length is the one at which the centre keeps its magnification: as sharp as the stored picture, nothing
/// enlarged, whatever falls outside is cut off. The principal point scales with the size.
///
/// # Errors
/// Intrinsics that are not a camera.
pub fn pinhole_for(
    lens: &Lens,
    stored: [u32; 2],
    width: u32,
    height: u32,
) -> Result<Camera, gausset_core::camera::CameraError> {
    let ([fx, fy], [cx, cy]) = (lens.focal(), lens.principal_point());
    let magnification = lens.central_magnification();
    let full = Camera::new(stored[0], stored[1], fx * magnification, fy * magnification, cx, cy)?;
    let out = full.resized(width, height);
    Camera::new(width, height, out.fx, out.fy, out.cx, out.cy)
}

/// Warps a stored picture (of the size that `lens` is for) to a pinhole camera.
#[must_use]
pub fn warp(picture: &Picture, mask: Option<&Mask>, lens: &Lens, camera: &Camera) -> Warped {
    let _span = gausset_prof::span("undistort");
    let (width, pixels) = (camera.width as usize, camera.pixels());
    let (source_width, source_height) = (f64::from(picture.width), f64::from(picture.height));
    let mut rgb = vec![0; pixels * 3];
    let mut alpha = picture.alpha.as_ref().map(|_| vec![0; pixels]);
    let mut keep = vec![0; pixels];

    let mut above = vec![OUTSIDE; width];
    let mut here = vec![OUTSIDE; width];
    positions(lens, camera, 0, &mut here);
    let mut below = vec![OUTSIDE; width];
    let mut sampler = Sampler::new(picture);
    let widest = [source_width / f64::from(camera.width), source_height / f64::from(camera.height)]
        .map(|mean| WIDEST_FOOTPRINT * mean.max(1.0));
    for y in 0..camera.height {
        positions(lens, camera, y + 1, &mut below);
        for x in 0..width {
            let [sx, sy] = here[x];
            // False for positions that are not a number, too.
            if !(sx >= 0.0 && sx < source_width && sy >= 0.0 && sy < source_height) {
                continue;
            }
            let kept = mask.map_or(255, |m| m.at_share(sx / source_width, sy / source_height));
            let along = difference(here[x], x.checked_sub(1).map(|l| here[l]), here.get(x + 1).copied());
            let down = difference(here[x], (y > 0).then(|| above[x]), Some(below[x]));
            let extent = |k: usize| (along[k] * along[k] + down[k] * down[k]).sqrt().min(widest[k]);
            let at = y as usize * width + x;
            keep[at] = kept;
            let (colour, a) = sampler.sample([sx, sy], [extent(0), extent(1)]);
            rgb[at * 3..at * 3 + 3].copy_from_slice(&colour);
            if let Some(alpha) = &mut alpha {
                alpha[at] = a;
            }
        }
        std::mem::swap(&mut above, &mut here);
        std::mem::swap(&mut here, &mut below);
    }
    let picture = Picture { width: camera.width, height: camera.height, rgb, alpha };
    let keep = keep.contains(&0).then_some(keep);
    Warped { picture, keep }
}

/// A position that is not in any picture.
const OUTSIDE: [f64; 2] = [f64::NAN; 2];

/// Source positions of the pixel centres of a row.
fn positions(lens: &Lens, camera: &Camera, row: u32, out: &mut [[f64; 2]]) {
    let y = (f64::from(row) + 0.5 - camera.cy) / camera.fy;
    for (column, position) in out.iter_mut().enumerate() {
        let x = (column as f64 + 0.5 - camera.cx) / camera.fx;
        *position = lens.project([x, y, 1.0]).unwrap_or(OUTSIDE);
    }
}

/// Change of position per output pixel along one direction; one source pixel where no neighbour has a position.
fn difference(here: [f64; 2], before: Option<[f64; 2]>, after: Option<[f64; 2]>) -> [f64; 2] {
    let between = |a: [f64; 2], b: [f64; 2]| [b[0] - a[0], b[1] - a[1]];
    let known = |d: &[f64; 2]| d[0].is_finite() && d[1].is_finite();
    after
        .map(|after| between(here, after))
        .filter(known)
        .or_else(|| before.map(|before| between(before, here)).filter(known))
        .unwrap_or([0.0; 2])
}

/// Averages source pixels around a position.
struct Sampler<'a> {
    picture: &'a Picture,
    columns: Vec<f32>,
    rows: Vec<f32>,
}

impl<'a> Sampler<'a> {
    fn new(picture: &'a Picture) -> Self {
        Self { picture, columns: Vec::new(), rows: Vec::new() }
    }

    /// Colour and alpha of a footprint: position and extent in source px.
    fn sample(&mut self, position: [f64; 2], extent: [f64; 2]) -> ([u8; 3], u8) {
        let first_column = weights(position[0], extent[0], &mut self.columns);
        let first_row = weights(position[1], extent[1], &mut self.rows);
        let (width, height) = (self.picture.width as usize, self.picture.height as usize);
        let inside = first_column >= 0
            && first_row >= 0
            && first_column as usize + self.columns.len() <= width
            && first_row as usize + self.rows.len() <= height;
        if let (None, true) = (&self.picture.alpha, inside) {
            // The common case: opaque, away from the rim.
            let mut sum = [0.0f32; 3];
            for (j, &row_weight) in self.rows.iter().enumerate() {
                let start = ((first_row as usize + j) * width + first_column as usize) * 3;
                let row = &self.picture.rgb[start..start + self.columns.len() * 3];
                let mut line = [0.0f32; 3];
                for (p, &weight) in row.chunks_exact(3).zip(&self.columns) {
                    for c in 0..3 {
                        line[c] += weight * f32::from(p[c]);
                    }
                }
                for c in 0..3 {
                    sum[c] += row_weight * line[c];
                }
            }
            return (sum.map(round), 255);
        }
        let clamp = |i: isize, size: usize| i.clamp(0, size as isize - 1) as usize;
        let mut sum = [0.0f32; 4];
        for (j, &row_weight) in self.rows.iter().enumerate() {
            let row = clamp(first_row + j as isize, height) * width;
            let mut line = [0.0f32; 4];
            for (i, &weight) in self.columns.iter().enumerate() {
                let at = row + clamp(first_column + i as isize, width);
                let alpha = self.picture.alpha.as_ref().map_or(255, |alpha| alpha[at]);
                let pixel = premultiplied(&self.picture.rgb[at * 3..at * 3 + 3], alpha);
                for c in 0..4 {
                    line[c] += weight * pixel[c];
                }
            }
            for c in 0..4 {
                sum[c] += row_weight * line[c];
            }
        }
        if self.picture.alpha.is_none() {
            return ([round(sum[0]), round(sum[1]), round(sum[2])], 255);
        }
        straight(sum)
    }
}

/// Weights of the source pixels around `centre` for a footprint of the given extent; returns the first pixel's index.
fn weights(centre: f64, extent: f64, out: &mut Vec<f32>) -> isize {
    out.clear();
    if extent <= ONE_PIXEL {
        // Pixel i has its centre at i + 1/2; t is the way from pixel `first + 1` to `first + 2`.
        let from = centre - 0.5;
        let left = from.floor();
        let t = (from - left) as f32;
        out.extend([cubic(1.0 + t), cubic(t), cubic(1.0 - t), cubic(2.0 - t)]);
        return left as isize - 1;
    }
    let area_share = (extent - 1.0).min(1.0);
    let reach = if area_share < 1.0 { 2.0 * extent } else { 0.5 * extent };
    let first = (centre - reach).floor();
    let last = (centre + reach).ceil();
    let mut sum = 0.0;
    let mut pixel = first;
    while pixel < last {
        let covered = ((pixel + 1.0).min(centre + 0.5 * extent) - pixel.max(centre - 0.5 * extent)).max(0.0);
        let mut weight = area_share * covered / extent;
        if area_share < 1.0 {
            let distance = ((pixel + 0.5 - centre) / extent).abs();
            weight += (1.0 - area_share) * f64::from(cubic(distance as f32)) / extent;
        }
        sum += weight;
        out.push(weight as f32);
        pixel += 1.0;
    }
    let normal = (1.0 / sum) as f32;
    out.iter_mut().for_each(|w| *w *= normal);
    first as isize
}

/// Keys' cubic with a = -1/2 at a distance ≥ 0.
#[inline]
fn cubic(d: f32) -> f32 {
    if d < 1.0 {
        (1.5 * d - 2.5) * d * d + 1.0
    } else if d < 2.0 {
        ((-0.5 * d + 2.5) * d - 4.0) * d + 2.0
    } else {
        0.0
    }
}
