//! Bilinear sampling of a plane through a coordinate table, in integer arithmetic.
//!
//! ```text
//! stage 1  16 lanes  coordinates of a row → index of the upper left tap, two weights of 7 bits
//! stage 2  scalar    two 16-bit loads a pixel: the upper and the lower pair of taps
//! stage 3  16 lanes  out = (a(128-fu) + b fu)(128-fv) + (c(128-fu) + d fu) fv, rounded to nearest, / 2^14
//! ```
//! Gather instructions do not pay off, so stage 2 uses plain loads. The stages run row by row, so that stage 3 does
//! not wait for single stores. All arithmetic is on integers, except for the parabolas of stage 1, which use IEEE
//! products and sums in a fixed order: the bytes are the same at every SIMD level.

use gausset_compute::at_level;
use gausset_compute::fearless_simd::{Level, f32x16, i16x32, i32x16, prelude::*};
use gausset_jpeg::plane::Plane;

use crate::cut::fetch;
use crate::cut::table::{ExactCoordinate, SEGMENT, Segment, ShiftedTable};

/// Buffers between the stages, for one row.
#[derive(Clone, Debug, Default)]
pub(crate) struct RemapBuffers {
    /// Index of the upper left tap of each pixel.
    index: Vec<i32>,
    /// Per segment: 16 horizontal weights, then 16 vertical ones.
    weights: Vec<[i16; 2 * SEGMENT]>,
    upper: Vec<u16>,
    lower: Vec<u16>,
    /// Output pixels, rounded up to whole segments.
    out: Vec<u8>,
}

impl RemapBuffers {
    fn reserve(&mut self, segments: usize) {
        let pixels = segments * SEGMENT;
        if self.index.len() != pixels {
            self.index.resize(pixels, 0);
            self.weights.resize(segments, [0; 2 * SEGMENT]);
            self.upper.resize(pixels, 0);
            self.lower.resize(pixels, 0);
            self.out.resize(pixels, 0);
        }
    }
}

/// Samples row `y` of a view.
///
/// # Panics
/// If `out` is not as wide as the table, or the plane does not hold the rows that the table needs.
pub(crate) fn remap_row(
    level: Level,
    placed: &ShiftedTable,
    y: usize,
    plane: &Plane,
    staging: &mut RemapBuffers,
    out: &mut [u8],
) {
    let ShiftedTable { table, shift } = placed;
    let segments = table.row(y);
    staging.reserve(segments.len());
    compute_taps(level, placed, segments, plane, staging);
    let RemapBuffers { index, upper, lower, .. } = staging;
    fetch::load_pairs(&plane.data, plane.stride, index, upper, lower);
    at_level!(level, simd => { let _ = simd; blend(&staging.weights, &staging.upper, &staging.lower, &mut staging.out) });
    out.copy_from_slice(&staging.out[..out.len()]);
    for double in table.blended_pixels(y) {
        let second = sample_exact(plane, double.second, *shift, table.wrap);
        let share = u32::from(double.weight);
        let first = u32::from(out[double.x as usize]);
        out[double.x as usize] = ((first * (256 - share) + u32::from(second) * share + 128) >> 8) as u8;
    }
}

/// Stage 1: computes the index of the upper left tap and the weights of each pixel.
fn compute_taps(
    level: Level,
    ShiftedTable { table, shift }: &ShiftedTable,
    segments: &[Segment],
    plane: &Plane,
    staging: &mut RemapBuffers,
) {
    let wrap = table.wrap.map_or(i32::MAX, |w| w as i32);
    let geometry =
        PlaneGeometry { stride: plane.stride as i32, first_row: plane.first_row, shift: *shift as i32, wrap };
    at_level!(level, simd => compute_fitted_taps(simd, segments, geometry, &mut staging.index, &mut staging.weights));
    // Segments without a fit are rare; a separate pass keeps the one above free of branches.
    let per_segment = staging.index.chunks_exact_mut(SEGMENT).zip(&mut staging.weights);
    for (segment, (index, weights)) in segments.iter().zip(per_segment) {
        let Some(exact) = table.exact_coordinates(segment) else { continue };
        for (k, e) in exact.iter().enumerate() {
            index[k] = tap_index(e, geometry);
            weights[k] = i16::from(e.fu);
            weights[SEGMENT + k] = i16::from(e.fv);
        }
    }
}

#[derive(Clone, Copy)]
struct PlaneGeometry {
    stride: i32,
    first_row: i32,
    shift: i32,
    wrap: i32,
}

fn tap_index(e: &ExactCoordinate, geometry: PlaneGeometry) -> i32 {
    let mut col = i32::from(e.col) + geometry.shift;
    if col >= geometry.wrap {
        col -= geometry.wrap;
    }
    (i32::from(e.row_plus_1) - 1 - geometry.first_row) * geometry.stride + col
}

#[inline(always)]
fn compute_fitted_taps<S: Simd>(
    simd: S,
    segments: &[Segment],
    geometry: PlaneGeometry,
    index: &mut [i32],
    weights: &mut [[i16; 2 * SEGMENT]],
) {
    const RAMP: [f32; SEGMENT] =
        [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0, 12.0, 13.0, 14.0, 15.0];
    let k = f32x16::load_array_ref(simd, &RAMP);
    let stride = i32x16::splat(simd, geometry.stride);
    for ((segment, index), weights) in segments.iter().zip(index.chunks_exact_mut(SEGMENT)).zip(weights) {
        let mut col = segment.col + geometry.shift;
        if col >= geometry.wrap {
            col -= geometry.wrap;
        }
        let base = (segment.row - geometry.first_row) * geometry.stride + col;
        let [u0, u1, u2] = segment.u;
        let [v0, v1, v2] = segment.v;
        let u = f32x16::splat(simd, u0) + k * (f32x16::splat(simd, u1) + k * f32x16::splat(simd, u2));
        let v = f32x16::splat(simd, v0) + k * (f32x16::splat(simd, v1) + k * f32x16::splat(simd, v2));
        let u: i32x16<S> = u.to_int();
        let v: i32x16<S> = v.to_int();
        let at = (v >> 7) * stride + (u >> 7) + base;
        at.store_slice(index);
        let both: i16x32<S> = (u & 127).narrow(v & 127);
        both.store_slice(weights);
    }
}

/// Two neighbouring samples; zero outside the plane, where tables have no taps.
#[inline(always)]
fn sample_pair(data: &[u8], at: usize) -> u16 {
    match data.get(at..at + 2) {
        Some(two) => u16::from_le_bytes([two[0], two[1]]),
        None => 0,
    }
}

/// Stage 3: blends the four taps of each pixel.
#[inline(always)]
fn blend(weights: &[[i16; 2 * SEGMENT]], upper: &[u16], lower: &[u16], out: &mut [u8]) {
    let taps = upper.chunks_exact(SEGMENT).zip(lower.chunks_exact(SEGMENT));
    for ((weights, (upper, lower)), out) in weights.iter().zip(taps).zip(out.chunks_exact_mut(SEGMENT)) {
        for k in 0..SEGMENT {
            let (fu, fv) = (weights[k], weights[SEGMENT + k]);
            let across = |pair: u16| {
                let (a, b) = ((pair & 255) as i16, (pair >> 8) as i16);
                // At most 255 · 128.
                a * 128 + (b - a) * fu
            };
            let (top, bottom) = (across(upper[k]), across(lower[k]));
            // (bottom - top) fv / 128, rounded: the form of `pmulhrsw`.
            let step = ((i32::from(bottom - top) * i32::from(fv << 8) + 0x4000) >> 15) as i16;
            out[k] = ((top + step + 64) >> 7) as u8;
        }
    }
}

/// Samples one pixel, for pixels that blend two source positions.
fn sample_exact(plane: &Plane, e: ExactCoordinate, shift: usize, wrap: Option<usize>) -> u8 {
    let wrap = wrap.map_or(i32::MAX, |w| w as i32);
    let geometry =
        PlaneGeometry { stride: plane.stride as i32, first_row: plane.first_row, shift: shift as i32, wrap };
    let at = tap_index(&e, geometry) as usize;
    let across = |at: usize| {
        let pair = sample_pair(&plane.data, at);
        let (a, b) = (i32::from(pair & 255), i32::from(pair >> 8));
        a * 128 + (b - a) * i32::from(e.fu)
    };
    let (top, bottom) = (across(at), across(at + plane.stride));
    ((top * 128 + (bottom - top) * i32::from(e.fv) + 8192) >> 14) as u8
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::cut::table::{Table, TableSpec};
    use crate::sphere::geometry::View;
    use crate::sphere::layout::Layout;
    use crate::sphere::projection::{Equirect, Projection};
    use gausset_compute::{Pool, SimdLevel, dispatch_level};

    /// A plane of a whole panorama from a function of column and row.
    fn plane(width: usize, value: impl Fn(usize, usize) -> u8) -> Plane {
        let mut plane = Plane::default();
        plane.reshape(width, width / 2, [-1, width as i32 / 2]);
        for y in 0..width / 2 {
            let row = plane.row_mut(y as i32);
            for (x, out) in row.iter_mut().enumerate() {
                *out = value(x, y);
            }
        }
        plane.pad(true);
        plane
    }

    fn table(view: &View, width: u32) -> Arc<Table> {
        let projection = Projection::Equirect(Equirect::whole(width, width / 2));
        let spec = TableSpec { view, step: 1, projection: &projection, plane: [width, width / 2] };
        Arc::new(Table::build(spec, &Pool::new(1)))
    }

    fn cut(wanted: SimdLevel, table: &Arc<Table>, plane: &Plane, shift: usize) -> Option<Vec<u8>> {
        let level = dispatch_level(wanted)?;
        let placed = ShiftedTable { table: Arc::clone(table), shift };
        let mut staging = RemapBuffers::default();
        let mut out = vec![0; table.width * table.height];
        for (y, row) in out.chunks_mut(table.width).enumerate() {
            remap_row(level, &placed, y, plane, &mut staging, row);
        }
        Some(out)
    }

    fn noise(x: usize, y: usize) -> u8 {
        let mut n = (x as u32).wrapping_mul(0x8da6_b343) ^ (y as u32).wrapping_mul(0xd816_3841);
        n ^= n >> 16;
        n = n.wrapping_mul(0x7feb_352d);
        n ^= n >> 15;
        (n >> 24) as u8
    }

    /// Samples a plane of f32 values (rows of `width`, the whole panorama) at a pixel of a table.
    fn sample_f32(table: &Table, x: usize, y: usize, data: &[f32], width: usize, height: usize) -> f32 {
        let [u, v] = table.coordinates(x, y);
        let (u0, v0) = (libm::floor(u), libm::floor(v));
        let (fu, fv) = ((u - u0) as f32, (v - v0) as f32);
        let at = |du: i64, dv: i64| {
            let (mut col, mut row) = (u0 as i64 + du, v0 as i64 + dv);
            let last = height as i64 - 1;
            if row < 0 || row > last {
                row = row.clamp(0, last);
                col += width as i64 / 2;
            }
            data[row as usize * width + col.rem_euclid(width as i64) as usize]
        };
        let top = at(0, 0) + (at(1, 0) - at(0, 0)) * fu;
        let bottom = at(0, 1) + (at(1, 1) - at(0, 1)) * fu;
        top + (bottom - top) * fv
    }

    #[test]
    fn the_kernel_is_the_rounded_bilinear_formula_at_every_level() {
        let plane = plane(512, noise);
        for view in Layout::Cube6.views(100, 84, Some(95.0)) {
            let table = table(&view, 512);
            let best = cut(SimdLevel::Auto, &table, &plane, 0).unwrap();
            for other in SimdLevel::ALL {
                if let Some(same) = cut(other, &table, &plane, 0) {
                    assert!(same == best, "{} differs at {}", view.name, other.level_name());
                }
            }
            for y in 0..table.height {
                for x in 0..table.width {
                    let [u, v] = table.coordinates(x, y);
                    let (fu, fv) = (u - u.floor(), v - v.floor());
                    let (u, v) = (u.floor() as usize, v.floor() as i32);
                    let tap = |dx: usize, dy: i32| {
                        f64::from(plane.data[(v + dy + 1) as usize * plane.stride + u + dx])
                    };
                    let top = tap(0, 0) * (1.0 - fu) + tap(1, 0) * fu;
                    let bottom = tap(0, 1) * (1.0 - fu) + tap(1, 1) * fu;
                    let wanted = top * (1.0 - fv) + bottom * fv;
                    let got = f64::from(best[y * table.width + x]);
                    // Nearest, up to the second rounding of the vertical step (1/256).
                    assert!((got - wanted).abs() <= 0.505, "{x},{y}: {got} {wanted}");
                }
            }
        }
    }

    #[test]
    fn views_of_a_ring_are_view_0_of_the_rolled_panorama_to_the_byte() {
        let width = 720;
        let original = plane(width, noise);
        let views = Layout::Ring8.views(180, 180, None);
        let front = table(&views[0], width as u32);
        for (k, view) in views.iter().enumerate() {
            let columns = k * width / 8;
            let rolled = plane(width, |x, y| noise((x + columns) % width, y));
            let of_rolled = cut(SimdLevel::Auto, &front, &rolled, 0).unwrap();
            assert!(cut(SimdLevel::Auto, &front, &original, columns).unwrap() == of_rolled);
            // A table of the view's own differs by rounding only.
            let own = cut(SimdLevel::Auto, &table(view, width as u32), &original, 0).unwrap();
            let worst = own.iter().zip(&of_rolled).map(|(a, b)| a.abs_diff(*b)).max().unwrap();
            assert!(worst <= 3, "{worst}");
        }
    }

    #[test]
    fn panoramas_of_sines_and_cosines_give_back_the_angles() {
        // f32 panoramas that hold sin and cos of longitude and latitude: the angle decoded from a view's pixel is that
        // of its ray within 0.05 source pixels. (Bilinear sampling of a sine errs by (π/W)²/2, the table by 0.01.)
        let (width, height) = (1024usize, 512usize);
        let tau = std::f64::consts::TAU;
        let lon = |x: usize| (x as f64 + 0.5) / width as f64 * tau;
        let lat = |y: usize| (y as f64 + 0.5) / height as f64 * tau / 2.0;
        let field = |f: &dyn Fn(usize, usize) -> f64| -> Vec<f32> {
            (0..width * height).map(|i| f(i % width, i / width) as f32).collect()
        };
        let sin_lon = field(&|x, _| lon(x).sin());
        let cos_lon = field(&|x, _| lon(x).cos());
        let cos_lat = field(&|_, y| lat(y).cos());
        for view in [(0.0, 0.0, 0.0), (180.0, 20.0, 30.0), (90.0, 60.0, -50.0), (10.0, -90.0, 0.0)] {
            let view = View {
                name: "v".into(),
                yaw: view.0,
                pitch: view.1,
                roll: view.2,
                hfov: 80.0,
                width: 160,
                height: 120,
            };
            let table = table(&view, width as u32);
            let r = view.pano_from_camera();
            for y in 0..120 {
                for x in 0..160 {
                    let ray = view.ray_in_camera(x as f64 + 0.5, y as f64 + 0.5);
                    let d = gausset_core::se3::mul_vec(&r, ray);
                    let [u, v] =
                        crate::sphere::geometry::equirect_from_direction(d, width as f64, height as f64);
                    // Within one row of a pole the panorama folds; there only the latitude's fold is meaningful.
                    if v < 1.0 || v > height as f64 - 1.0 {
                        continue;
                    }
                    let get = |f: &[f32]| f64::from(sample_f32(&table, x, y, f, width, height));
                    let found_u = get(&sin_lon).atan2(get(&cos_lon)).rem_euclid(tau) / tau * width as f64;
                    let found_v = get(&cos_lat).clamp(-1.0, 1.0).acos() / tau * 2.0 * height as f64;
                    let du = (found_u - u + width as f64 / 2.0).rem_euclid(width as f64) - width as f64 / 2.0;
                    assert!(du.abs() < 0.05, "{x},{y}: {du}");
                    // The cosine is flat at the poles, where rounding of f32 and interpolation weigh more.
                    let sensitive = (v / height as f64 * tau / 2.0).sin() > 0.05;
                    assert!(!sensitive || (found_v - v).abs() < 0.05, "{x},{y}: {}", found_v - v);
                }
            }
        }
    }
}
