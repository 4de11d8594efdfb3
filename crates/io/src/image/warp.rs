//! Undistortion to a pinhole and downscaling, in one resampling pass.
//!
//! Each output pixel casts its ray, projects it with the lens into the stored image and averages there. Let w be the
//! width, in source px along one source axis, of the footprint of the output pixel (from the differences of
//! neighbouring positions). The filter along that axis is
//!
//! | w | filter |
//! |---|---|
//! | ≤ 1.2 (same size or magnified) | cubic interpolation (Catmull-Rom: Keys 1981, a = -1/2) |
//! | ≥ 2 (downscaled) | area: the mean over w |
//! | between | a mixture of both, the cubic stretched by w / 1.2, so that sharpness changes smoothly |
//!
//! Weights are normalised to sum 1; beyond the border, the border pixels are repeated. Pixels whose ray does not hit
//! the stored image have no source. Colours are averaged with alpha weights. Positions are f64, sums f32 in a fixed
//! order, so the bytes depend only on the input.

use gausset_compute::at_level;
use gausset_compute::fearless_simd::{Level, f32x4, i32x4, prelude::*, u8x16};
use gausset_core::Camera;

use super::area_filter::{premultiplied, round, unpremultiplied};
use super::{DecodedImage, Mask};
use crate::dataset::lens::Lens;

/// Widest footprint, in source px, for pure cubic interpolation. Undistortion at full size stays below it nearly
/// everywhere (stretched kernels take four times as long), and detail that a factor of 1.2 could alias is rare there.
const CUBIC_UP_TO: f64 = 1.2;
/// Pixels of a row from which [`four_by_four`] reads bytes: 16 bytes reach into the sixth.
const ROW_PIXELS: usize = 6;
/// Narrowest footprint for the pure area filter.
const AREA_FROM: f64 = 2.0;

/// Widest footprint in multiples of the mean; lenses with a plausible field of view stay far below.
const WIDEST_FOOTPRINT: f64 = 8.0;

/// A warped image, and which of its pixels have a source (and are kept by the mask).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warped {
    /// The image; pixels without source are black and transparent.
    pub picture: DecodedImage,
    /// `height × width`, 0 = no source or ignored by the mask; `None` = all pixels are kept.
    pub keep: Option<Vec<u8>>,
}

/// The pinhole camera to which images of a lens with size `stored` are warped to become `width × height`.
///
/// Its focal length keeps the magnification at the centre: as sharp as the stored image and not enlarged. What falls
/// outside is cut off. The principal point scales with the size.
///
/// # Errors
/// The intrinsics are invalid.
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

/// Warps a stored image (of the size that `lens` is for) to a pinhole camera.
#[must_use]
pub fn warp(picture: &DecodedImage, mask: Option<&Mask>, lens: &Lens, camera: &Camera) -> Warped {
    warp_at(Level::new(), picture, mask, lens, camera)
}

/// [`warp`] at a given SIMD level.
fn warp_at(
    level: Level,
    picture: &DecodedImage,
    mask: Option<&Mask>,
    lens: &Lens,
    camera: &Camera,
) -> Warped {
    let _span = gausset_prof::span("undistort");
    let (width, pixels) = (camera.width as usize, camera.pixels());
    let mut rgb = vec![0; pixels * 3];
    let mut alpha = picture.alpha.as_ref().map(|_| vec![0; pixels]);
    let mut keep = vec![0; pixels];

    let mut above = vec![OUTSIDE; width];
    let mut here = vec![OUTSIDE; width];
    positions(lens, camera, 0, &mut here);
    let mut below = vec![OUTSIDE; width];
    let mut sampler = Sampler::new(picture, lens, camera);
    for y in 0..camera.height {
        positions(lens, camera, y + 1, &mut below);
        let start = y as usize * width;
        let out = OutputRow {
            rgb: &mut rgb[start * 3..(start + width) * 3],
            alpha: alpha.as_mut().map(|alpha| &mut alpha[start..start + width]),
            keep: &mut keep[start..start + width],
        };
        let neighbours = Neighbours { above: (y > 0).then_some(&above), here: &here, below: &below };
        // Scalar code, compiled for each SIMD level: the bits are the same, because nothing is fused or reordered.
        at_level!(level, simd => simd.vectorize(
            #[inline(always)]
            || sampler.fill(simd, neighbours, mask, out),
        ));
        std::mem::swap(&mut above, &mut here);
        std::mem::swap(&mut here, &mut below);
    }
    let picture = DecodedImage { width: camera.width, height: camera.height, rgb, alpha };
    let keep = keep.contains(&0).then_some(keep);
    Warped { picture, keep }
}

/// A row of the output image.
struct OutputRow<'a> {
    rgb: &'a mut [u8],
    alpha: Option<&'a mut [u8]>,
    keep: &'a mut [u8],
}

/// Source positions of a row and of its neighbours.
#[derive(Clone, Copy)]
struct Neighbours<'a> {
    above: Option<&'a Vec<[f64; 2]>>,
    here: &'a [[f64; 2]],
    below: &'a [[f64; 2]],
}

/// Position of a pixel without source.
const OUTSIDE: [f64; 2] = [f64::NAN; 2];

/// Source positions of the pixel centres of a row.
fn positions(lens: &Lens, camera: &Camera, row: u32, out: &mut [[f64; 2]]) {
    let y = (f64::from(row) + 0.5 - camera.cy) / camera.fy;
    for (column, position) in out.iter_mut().enumerate() {
        let x = (column as f64 + 0.5 - camera.cx) / camera.fx;
        *position = lens.project([x, y, 1.0]).unwrap_or(OUTSIDE);
    }
}

/// Change of position per output pixel along one direction, in an image that repeats after `period` columns; 0 if no
/// neighbour has a position.
#[inline(always)]
fn difference(here: [f64; 2], before: Option<[f64; 2]>, after: Option<[f64; 2]>, period: f64) -> [f64; 2] {
    let between = |a: [f64; 2], b: [f64; 2]| {
        let across = b[0] - a[0];
        // The difference across the seam is shorter.
        [if across.abs() > 0.5 * period { across - period.copysign(across) } else { across }, b[1] - a[1]]
    };
    let known = |d: &[f64; 2]| d[0].is_finite() && d[1].is_finite();
    after
        .map(|after| between(here, after))
        .filter(known)
        .or_else(|| before.map(|before| between(before, here)).filter(known))
        .unwrap_or([0.0; 2])
}

/// Averages source pixels around a position.
struct Sampler<'a> {
    picture: &'a DecodedImage,
    /// Widest footprint per axis in source px.
    widest: [f64; 2],
    /// Columns after which the image repeats.
    period: f64,
    columns: Vec<f32>,
    rows: Vec<f32>,
}

impl<'a> Sampler<'a> {
    fn new(picture: &'a DecodedImage, lens: &Lens, camera: &Camera) -> Self {
        let mean = |source: u32, out: u32| (f64::from(source) / f64::from(out)).max(1.0);
        let means = [mean(picture.width, camera.width), mean(picture.height, camera.height)];
        let widest = means.map(|mean| WIDEST_FOOTPRINT * mean);
        Self { picture, widest, period: lens.period(), columns: Vec::new(), rows: Vec::new() }
    }

    /// Fills a row whose bytes are all 0.
    #[inline(always)]
    fn fill<S: Simd>(&mut self, simd: S, rows: Neighbours<'_>, mask: Option<&Mask>, mut out: OutputRow<'_>) {
        let (width, height) = (self.picture.width as usize, self.picture.height as usize);
        let (source_width, source_height) = (width as f64, height as f64);
        let is_opaque = self.picture.alpha.is_none();
        for (x, pixel) in out.rgb.chunks_exact_mut(3).enumerate() {
            let position = rows.here[x];
            let [sx, sy] = position;
            // Also false for NaN.
            if !(sx >= 0.0 && sx < source_width && sy >= 0.0 && sy < source_height) {
                continue;
            }
            out.keep[x] = mask.map_or(255, |m| m.at_fraction(sx / source_width, sy / source_height));
            let left = x.checked_sub(1).map(|left| rows.here[left]);
            let along = difference(position, left, rows.here.get(x + 1).copied(), self.period);
            let down =
                difference(position, rows.above.map(|above| above[x]), Some(rows.below[x]), self.period);
            let squared = [along[0] * along[0] + down[0] * down[0], along[1] * along[1] + down[1] * down[1]];
            let is_cubic = squared[0].max(squared[1]) <= CUBIC_UP_TO * CUBIC_UP_TO;
            if is_cubic && is_opaque {
                // The common case: opaque, at full size, away from the border.
                let ((i, columns), (j, rows)) = (cubic_weights(sx), cubic_weights(sy));
                if i >= 0 && j >= 0 && i as usize + ROW_PIXELS <= width && j as usize + 4 <= height {
                    let start = (j as usize * width + i as usize) * 3;
                    let colour = four_by_four(simd, &self.picture.rgb[start..], width * 3, columns, rows);
                    pixel.copy_from_slice(&[round(colour[0]), round(colour[1]), round(colour[2])]);
                    continue;
                }
            }
            let (colour, a) = self.sample(position, squared);
            pixel.copy_from_slice(&colour);
            if let Some(alpha) = &mut out.alpha {
                alpha[x] = a;
            }
        }
    }

    /// Colour and alpha of a footprint: position and squared extent in source px.
    #[inline(never)]
    fn sample(&mut self, position: [f64; 2], squared_extent: [f64; 2]) -> ([u8; 3], u8) {
        let (width, height) = (self.picture.width as usize, self.picture.height as usize);
        let inside = |first: isize, taps: usize, size: usize| first >= 0 && first as usize + taps <= size;
        let extent = |k: usize| squared_extent[k].sqrt().min(self.widest[k]);
        let (x_extent, y_extent) = (extent(0), extent(1));
        let first_column = weights(position[0], x_extent, &mut self.columns);
        let first_row = weights(position[1], y_extent, &mut self.rows);
        let is_inside =
            inside(first_column, self.columns.len(), width) && inside(first_row, self.rows.len(), height);
        if let (None, true) = (&self.picture.alpha, is_inside) {
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
        unpremultiplied(sum)
    }
}

/// Sum of 4x4 source pixels from the first byte on: first over the columns in parallel, then along the row.
#[inline(always)]
fn four_by_four<S: Simd>(
    simd: S,
    source: &[u8],
    stride: usize,
    columns: [f32; 4],
    rows: [f32; 4],
) -> [f32; 3] {
    // 12 of the 16 bytes are used: R0 G0 B0 R1 | G1 B1 R2 G2 | B2 R3 G3 B3.
    let mut sums = [f32x4::splat(simd, 0.0); 3];
    for j in 0..4 {
        let (low, high) = u8x16::from_slice(simd, &source[j * stride..][..16]).widen();
        let ((a, b), (c, _)) = (low.widen(), high.widen());
        let weight = f32x4::splat(simd, rows[j]);
        // Values below 256 are equal as signed integers; conversion from unsigned is slow without AVX-512.
        sums[0] += weight * f32x4::float_from(a.bitcast::<i32x4<S>>());
        sums[1] += weight * f32x4::float_from(b.bitcast::<i32x4<S>>());
        sums[2] += weight * f32x4::float_from(c.bitcast::<i32x4<S>>());
    }
    let [c0, c1, c2, c3] = columns;
    let a: [f32; 4] = (sums[0] * f32x4::load_array(simd, [c0, c0, c0, c1])).into();
    let b: [f32; 4] = (sums[1] * f32x4::load_array(simd, [c1, c1, c2, c2])).into();
    let c: [f32; 4] = (sums[2] * f32x4::load_array(simd, [c2, c3, c3, c3])).into();
    [a[0] + a[3] + b[2] + c[1], a[1] + b[0] + b[3] + c[2], a[2] + b[1] + c[0] + c[3]]
}

/// Weights of the source pixels around `centre` for a footprint of the given extent. Returns the index of the first
/// pixel.
fn weights(centre: f64, extent: f64, out: &mut Vec<f32>) -> isize {
    out.clear();
    if extent <= CUBIC_UP_TO {
        let (first, cubic) = cubic_weights(centre);
        out.extend(cubic);
        return first;
    }
    let area_share = ((extent - CUBIC_UP_TO) / (AREA_FROM - CUBIC_UP_TO)).min(1.0);
    let stretch = extent / CUBIC_UP_TO;
    let reach = if area_share < 1.0 { 2.0 * stretch } else { 0.5 * extent };
    let first = (centre - reach).floor();
    let last = (centre + reach).ceil();
    let mut sum = 0.0;
    let mut pixel = first;
    while pixel < last {
        let covered = ((pixel + 1.0).min(centre + 0.5 * extent) - pixel.max(centre - 0.5 * extent)).max(0.0);
        let mut weight = area_share * covered / extent;
        if area_share < 1.0 {
            let distance = ((pixel + 0.5 - centre) / stretch).abs();
            weight += (1.0 - area_share) * cubic(distance) / stretch;
        }
        sum += weight;
        out.push(weight as f32);
        pixel += 1.0;
    }
    let normal = (1.0 / sum) as f32;
    out.iter_mut().for_each(|w| *w *= normal);
    first as isize
}

/// Index of the first of the four pixels around `centre` ≥ 0, and their weights.
#[inline(always)]
fn cubic_weights(centre: f64) -> (isize, [f32; 4]) {
    // Pixel i has its centre at i + 1/2; t is the distance from pixel `first + 1` towards `first + 2`. The sum is
    // positive, so the cast rounds down.
    let second = (centre + 0.5) as isize - 1;
    let t = (centre - 0.5 - second as f64) as f32;
    let near = |d: f32| (1.5 * d - 2.5) * d * d + 1.0;
    let far = |d: f32| ((2.5 - 0.5 * d) * d - 4.0) * d + 2.0;
    (second - 1, [far(1.0 + t), near(t), near(1.0 - t), far(2.0 - t)])
}

/// Keys' cubic with a = -1/2 at a distance ≥ 0.
fn cubic(d: f64) -> f64 {
    if d < 1.0 {
        (1.5 * d - 2.5) * d * d + 1.0
    } else if d < 2.0 {
        ((2.5 - 0.5 * d) * d - 4.0) * d + 2.0
    } else {
        0.0
    }
}

#[cfg(test)]
mod tests {
    use gausset_compute::SimdLevel;

    use super::*;
    use crate::dataset::CameraModel;

    fn picture(width: u32, height: u32, value: impl Fn(u32, u32) -> [u8; 3]) -> DecodedImage {
        let rgb = (0..height)
            .flat_map(|y| (0..width).map(move |x| (x, y)))
            .flat_map(|(x, y)| value(x, y))
            .collect();
        DecodedImage { width, height, rgb, alpha: None }
    }

    #[test]
    fn weights_sum_to_one_at_any_place_and_width() {
        let mut out = Vec::new();
        for extent in [0.2, 1.0, 1.2, 1.3, 1.7, 2.0, 2.5, 4.0, 31.4] {
            for centre in [0.5, 10.0, 10.25, 10.5, 10.99] {
                weights(centre, extent, &mut out);
                // Tolerance for rounding of the f32 weights.
                assert!((out.iter().sum::<f32>() - 1.0).abs() < 1e-5, "{extent} {centre} {out:?}");
            }
        }
    }

    #[test]
    fn filters_meet_where_the_rules_change() {
        let at = |extent: f64, pixel: isize| {
            let mut out = Vec::new();
            let first = weights(10.3, extent, &mut out);
            usize::try_from(pixel - first).ok().and_then(|i| out.get(i).copied()).unwrap_or(0.0)
        };
        for limit in [CUBIC_UP_TO, AREA_FROM] {
            for pixel in 6..15 {
                let (below, above) = (at(limit - 1e-4, pixel), at(limit + 1e-4, pixel));
                assert!((below - above).abs() < 1e-3, "{limit} {pixel}: {below} {above}");
            }
        }
    }

    #[test]
    fn a_pinhole_at_its_own_size_gives_the_picture_back() {
        let source = picture(23, 17, |x, y| [(x * 11) as u8, (y * 13) as u8, (x * y) as u8]);
        let lens = Lens::new(CameraModel::Pinhole, &[20.0, 21.0, 11.0, 9.0]);
        let camera = pinhole_for(&lens, [23, 17], 23, 17).unwrap();
        let warped = warp(&source, None, &lens, &camera);
        assert_eq!(warped, Warped { picture: source, keep: None });
    }

    #[test]
    fn a_pinhole_at_a_quarter_of_its_size_gives_area_means() {
        let source = picture(32, 16, |x, y| [(x * 7) as u8, (y * 13) as u8, (x * y) as u8]);
        let lens = Lens::new(CameraModel::Pinhole, &[20.0, 21.0, 16.0, 8.0]);
        let camera = pinhole_for(&lens, [32, 16], 8, 4).unwrap();
        let warped = warp(&source, None, &lens, &camera).picture;
        let means = super::super::area_filter::downscale(source, 8, 4);
        // Means may be halfway between two values and round either way.
        assert!(warped.rgb.iter().zip(&means.rgb).all(|(a, b)| a.abs_diff(*b) <= 1));
    }

    #[test]
    fn a_point_of_the_scene_lands_where_the_pinhole_says() {
        // A bright dot at the pixel of a ray in the lens must appear at the pixel of the same ray in the pinhole
        // camera.
        let params = [60.0, 60.0, 50.0, 40.0, 0.08, -0.03, 0.01, -0.004];
        let lens = Lens::new(CameraModel::OpenCvFisheye, &params);
        let camera = pinhole_for(&lens, [100, 80], 100, 80).unwrap();
        for ray in [[0.0, 0.0, 1.0], [0.5, 0.3, 1.0], [-0.6, 0.2, 1.0], [0.1, -0.55, 1.0]] {
            let [sx, sy] = lens.project(ray).unwrap();
            let dot = |x: u32, y: u32| {
                let d2 = (f64::from(x) + 0.5 - sx).powi(2) + (f64::from(y) + 0.5 - sy).powi(2);
                [(250.0 * libm::exp(-d2 / 8.0)) as u8; 3]
            };
            let warped = warp(&picture(100, 80, dot), None, &lens, &camera).picture;
            let (mut sum, mut x_sum, mut y_sum) = (0.0, 0.0, 0.0);
            for (i, p) in warped.rgb.chunks_exact(3).enumerate() {
                let v = f64::from(p[0]);
                sum += v;
                x_sum += v * ((i % 100) as f64 + 0.5);
                y_sum += v * ((i / 100) as f64 + 0.5);
            }
            let [ex, ey] = camera.project(ray);
            // The stretch across the dot moves its centroid by a fraction of a pixel.
            let (dx, dy) = (x_sum / sum - ex, y_sum / sum - ey);
            assert!(dx.abs() < 0.3 && dy.abs() < 0.3, "{ray:?}: off by {dx} {dy}");
        }
    }

    #[test]
    fn pixels_without_source_and_masked_ones_do_not_count() {
        let source = picture(40, 40, |_, _| [200; 3]);
        // Pincushion: the pinhole looks beyond the stored corners.
        let lens = Lens::new(CameraModel::SimpleRadial, &[30.0, 20.0, 20.0, 0.3]);
        let camera = pinhole_for(&lens, [40, 40], 40, 40).unwrap();
        let warped = warp(&source, None, &lens, &camera);
        let keep = warped.keep.unwrap();
        assert_eq!((keep[0], keep[20 * 40 + 20]), (0, 255));
        // Constant images stay constant wherever there is a source.
        for (k, p) in keep.iter().zip(warped.picture.rgb.chunks_exact(3)) {
            assert_eq!(p, if *k == 0 { [0; 3] } else { [200; 3] });
        }
        let mask = Mask { width: 2, height: 1, values: vec![0, 9] };
        let keep = warp(&source, Some(&mask), &lens, &camera).keep.unwrap();
        assert_eq!((keep[20 * 40 + 15], keep[20 * 40 + 25]), (0, 9));
    }

    #[test]
    fn the_bytes_are_the_same_at_every_vector_level() {
        let source = picture(61, 47, |x, y| {
            let v = x.wrapping_mul(2_654_435_761).wrapping_add(y * 40_503) >> 3;
            [v as u8, (v >> 8) as u8, (v >> 16) as u8]
        });
        let lens = Lens::new(CameraModel::OpenCv, &[50.0, 51.0, 30.0, 24.0, 0.2, -0.1, 0.002, -0.001]);
        for [width, height] in [[61, 47], [30, 23], [44, 40], [7, 5]] {
            let camera = pinhole_for(&lens, [61, 47], width, height).unwrap();
            let expected = warp(&source, None, &lens, &camera);
            for wanted in SimdLevel::ALL {
                if let Some(level) = gausset_compute::dispatch_level(wanted) {
                    assert_eq!(warp_at(level, &source, None, &lens, &camera), expected, "{wanted:?}");
                }
            }
        }
    }

    #[test]
    fn the_centre_keeps_its_magnification() {
        let lens = Lens::new(CameraModel::Fov, &[100.0, 110.0, 50.0, 40.0, 0.9]);
        let camera = pinhole_for(&lens, [100, 80], 50, 40).unwrap();
        let h = 1e-3;
        let ([x, y], [x0, y0]) = (lens.project([h, h, 1.0]).unwrap(), lens.project([0.0, 0.0, 1.0]).unwrap());
        // Focal length per unit of angle at the centre, at half the size.
        assert!((camera.fx - 0.5 * (x - x0) / h).abs() < 1e-3);
        assert!((camera.fy - 0.5 * (y - y0) / h).abs() < 1e-3);
        assert_eq!((camera.cx, camera.cy), (25.0, 20.0));
    }
}
