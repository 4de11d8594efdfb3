//! Corners of a panorama with patch descriptors.

use gausset_core::se3;
use gausset_jpeg::plane::Frame;

use crate::choose::motion::{GreyImage, corner_strengths};
use crate::cut::equalise::usable_rgb;
use crate::cut::look::linear_from_srgb;
use crate::sphere::geometry::{direction_from_equirect, equirect_from_direction};

use super::COMPARED_WIDTH;

/// Maximum corners per frame, and the radius of non-maximum suppression, px.
const MAX_CORNERS: usize = 1500;
const SUPPRESSION_RADIUS: i32 = 3;
/// Latitude beyond which no corners are detected, degrees: operator, tripod, stretched pixels.
const MAX_LATITUDE: f64 = 50.0;
/// Degrees between the samples of a patch, and samples on either side of its centre.
pub(super) const STEP_DEGREES: f64 = 0.7;
pub(super) const HALF_PATCH: i32 = 5;
/// Number of samples of a patch.
pub(super) const AREA: usize = ((2 * HALF_PATCH + 1) * (2 * HALF_PATCH + 1)) as usize;
/// Length of a stored patch: samples, padded with zeros to a multiple of the SIMD lanes.
const PADDED: usize = AREA.next_multiple_of(16);
/// Norm of a stored patch: inner products of two patches fit into 32 bits.
const PATCH_NORM: f32 = 16_384.0;

/// A corner of a panorama.
#[derive(Clone, Debug)]
pub(super) struct DescribedFeature {
    /// Position, degrees; latitude counts from the zenith.
    pub(super) longitude: f64,
    pub(super) latitude: f64,
    /// Unit vectors: ahead (towards the corner), right and down.
    axes: [[f64; 3]; 3],
    /// Luma patch, normalised to mean 0 and norm [`PATCH_NORM`].
    patch: [i16; PADDED],
}

/// Data of a frame that is needed for comparisons.
#[derive(Clone, Debug, Default)]
pub struct FrameFeatures {
    /// Luma.
    grey: GreyImage,
    /// Linear light of red, green and blue; NaN where too dark, overexposed or missing.
    light: Vec<[f32; 3]>,
    pub(super) corners: Vec<DescribedFeature>,
}

impl FrameFeatures {
    /// Extracts corners and linear light of a panorama that is 1024 px wide; empty for another size.
    #[must_use]
    pub fn from_panorama(panorama: &Frame) -> Self {
        let (width, height) = (COMPARED_WIDTH as usize, COMPARED_WIDTH as usize / 2);
        if panorama.planes.first().is_none_or(|p| p.width != width || p.height != height) {
            return Self::default();
        }
        let linear: [f32; 256] = std::array::from_fn(|v| linear_from_srgb(v as f64 / 255.0) as f32);
        let light_of = |rgb: [u8; 3]| rgb.map(|v| linear[usize::from(v)]);
        let light = (0..width * height)
            .map(|at| usable_rgb(panorama, at % width, at / width).map_or([f32::NAN; 3], light_of))
            .collect();
        let data =
            (0..height).flat_map(|y| panorama.planes[0].row(y as i32)[..width].iter().copied()).collect();
        let grey = GreyImage { width, height, data };
        let mut shown = Self { grey, light, corners: Vec::new() };
        let places = local_maxima(&shown.grey);
        shown.corners = places
            .into_iter()
            .filter_map(|place| DescribedFeature::new(&shown, place))
            .take(MAX_CORNERS)
            .collect();
        shown
    }

    /// Luma at an offset from a corner, in patch steps to the right and down.
    pub(super) fn luma(&self, corner: &DescribedFeature, at: [f32; 2]) -> f32 {
        let (four, weights) = self.taps(corner.point_at(at));
        four.iter().zip(weights).map(|(&k, weight)| f32::from(self.grey.data[k]) * weight).sum()
    }

    /// Linear light at an offset from a corner, in patch steps; NaN where it is invalid.
    pub(super) fn light(&self, corner: &DescribedFeature, at: [f32; 2]) -> [f32; 3] {
        let (four, weights) = self.taps(corner.point_at(at));
        let mut sum = [0.0; 3];
        for (&k, weight) in four.iter().zip(weights) {
            sum = [0, 1, 2].map(|c| sum[c] + weight * self.light[k][c]);
        }
        sum
    }

    /// The four pixels around a point of the panorama, with bilinear weights.
    fn taps(&self, [u, v]: [f64; 2]) -> ([usize; 4], [f32; 4]) {
        let (width, height) = (self.grey.width as i64, self.grey.height as i64);
        let (u, v) = (u - 0.5, v - 0.5);
        let (x, y) = (libm::floor(u), libm::floor(v).clamp(0.0, height as f64 - 2.0));
        let (fu, fv) = ((u - x) as f32, (v - y) as f32);
        let index = |dx: i64, dy: i64| ((y as i64 + dy) * width + (x as i64 + dx).rem_euclid(width)) as usize;
        let four = [index(0, 0), index(1, 0), index(0, 1), index(1, 1)];
        (four, [(1.0 - fu) * (1.0 - fv), fu * (1.0 - fv), (1.0 - fu) * fv, fu * fv])
    }
}

/// Local maxima of the corner strength, strongest first.
fn local_maxima(grey: &GreyImage) -> Vec<[usize; 2]> {
    let width = grey.width;
    let margin = ((90.0 - MAX_LATITUDE) / 180.0 * grey.height as f64) as usize;
    let rows = margin..grey.height - margin;
    let strengths = corner_strengths(grey, rows.clone(), true);
    let of = |x: i32, y: i32| match usize::try_from(y) {
        Ok(y) if y < rows.len() => strengths[y * width + x.rem_euclid(width as i32) as usize],
        _ => 0.0,
    };
    let is_strongest = |x: i32, y: i32| {
        let own = of(x, y);
        let around = (-SUPPRESSION_RADIUS..=SUPPRESSION_RADIUS)
            .flat_map(|dy| (-SUPPRESSION_RADIUS..=SUPPRESSION_RADIUS).map(move |dx| (dx, dy)));
        own > 0.0
            && around.filter(|&at| at != (0, 0)).all(|(dx, dy)| {
                let other = of(x + dx, y + dy);
                // The first of equal ones wins.
                other < own || (other == own && (dy, dx) > (0, 0))
            })
    };
    let pixels = (0..rows.len() as i32).flat_map(|y| (0..width as i32).map(move |x| (x, y)));
    let mut best: Vec<(i32, i32)> = pixels.filter(|&(x, y)| is_strongest(x, y)).collect();
    best.sort_by(|&(ax, ay), &(bx, by)| of(bx, by).total_cmp(&of(ax, ay)).then((ay, ax).cmp(&(by, bx))));
    best.into_iter().map(|(x, y)| [x as usize, y as usize + margin]).collect()
}

impl DescribedFeature {
    fn new(shown: &FrameFeatures, [x, y]: [usize; 2]) -> Option<Self> {
        let (w, h) = (f64::from(COMPARED_WIDTH), f64::from(COMPARED_WIDTH / 2));
        let ahead = direction_from_equirect(x as f64 + 0.5, y as f64 + 0.5, w, h);
        let right = {
            let across = libm::sqrt(ahead[0] * ahead[0] + ahead[2] * ahead[2]);
            [ahead[2] / across, 0.0, -ahead[0] / across]
        };
        let down = se3::cross(ahead, right);
        let longitude = (x as f64 + 0.5) / w * 360.0;
        let latitude = (y as f64 + 0.5) / h * 180.0;
        let mut corner = Self { longitude, latitude, axes: [ahead, right, down], patch: [0; PADDED] };
        let mut values = [0.0; AREA];
        for (value, at) in values.iter_mut().zip(patch_offsets()) {
            *value = shown.luma(&corner, at);
        }
        let length = normalise(&mut values);
        // A patch without contrast matches any other.
        if length < 2.0 * (2 * HALF_PATCH + 1) as f32 {
            return None;
        }
        for (out, value) in corner.patch.iter_mut().zip(values) {
            *out = (PATCH_NORM * value).round() as i16;
        }
        Some(corner)
    }

    /// Point of the panorama at an offset in patch steps to the right and down.
    fn point_at(&self, [right, down]: [f32; 2]) -> [f64; 2] {
        let step = STEP_DEGREES.to_radians();
        let (a, b) = (step * f64::from(right), step * f64::from(down));
        let d = [0, 1, 2].map(|k| self.axes[0][k] + a * self.axes[1][k] + b * self.axes[2][k]);
        equirect_from_direction(d, f64::from(COMPARED_WIDTH), f64::from(COMPARED_WIDTH / 2))
    }

    /// Correlation of two patches.
    pub(super) fn correlation(&self, other: &Self) -> f32 {
        let sum = self
            .patch
            .iter()
            .zip(&other.patch)
            .fold(0i32, |sum, (&a, &b)| sum.wrapping_add(i32::from(a) * i32::from(b)));
        sum as f32 / (PATCH_NORM * PATCH_NORM)
    }
}

/// Offsets of the samples of a patch, in steps.
pub(super) fn patch_offsets() -> impl Iterator<Item = [f32; 2]> {
    (-HALF_PATCH..=HALF_PATCH).flat_map(|y| (-HALF_PATCH..=HALF_PATCH).map(move |x| [x as f32, y as f32]))
}

/// Normalises samples to mean 0 and length 1; returns the length before.
pub(super) fn normalise(values: &mut [f32; AREA]) -> f32 {
    let mean = values.iter().sum::<f32>() / AREA as f32;
    values.iter_mut().for_each(|v| *v -= mean);
    let length = values.iter().map(|v| v * v).sum::<f32>().sqrt();
    let scale = 1.0 / length.max(1e-6);
    values.iter_mut().for_each(|v| *v *= scale);
    length
}
