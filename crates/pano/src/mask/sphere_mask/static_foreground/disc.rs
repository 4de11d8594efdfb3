//! The lower part of a panorama as a disc around the nadir: azimuthal equidistant, without seam or pole.
//!
//! ```text
//! pixel (x, y) from the centre: angle from the nadir = r · PIXEL degrees, longitude = atan2(x, -y)
//! ```
//! "Up" in the disc is forward, and a rotation about the vertical is a rotation of the disc.

use std::f64::consts::PI;

use gausset_core::RgbImage8;
use gausset_jpeg::colour::ycbcr_from_rgb;

/// Side of the disc, px.
pub(super) const SIDE: usize = 257;
/// Pixels of the square around the disc, corners included.
pub(super) const AREA: usize = SIDE * SIDE;
/// Angle from the nadir at the rim, degrees. The horizon and everything above are excluded, because the sky does not
/// move either.
pub(super) const RIM_DEGREES: f64 = 84.0;
/// Degrees per pixel along a radius.
pub(super) const DEGREES_PER_PIXEL: f64 = 2.0 * RIM_DEGREES / SIDE as f64;

/// Luma and two chroma values of each pixel.
pub(super) type Disc = Vec<[u8; 3]>;

/// Position of a pixel: degrees from the nadir, and longitude in rad.
pub(super) fn polar_position(at: usize) -> (f64, f64) {
    let middle = 0.5 * (SIDE - 1) as f64;
    let (x, y) = ((at % SIDE) as f64 - middle, (at / SIDE) as f64 - middle);
    (libm::hypot(x, y) * DEGREES_PER_PIXEL, libm::atan2(x, -y))
}

/// Continuous index coordinates of a direction.
fn index_position(degrees: f64, longitude: f64) -> [f64; 2] {
    let (middle, r) = (0.5 * (SIDE - 1) as f64, degrees / DEGREES_PER_PIXEL);
    [middle + r * libm::sin(longitude), middle - r * libm::cos(longitude)]
}

/// The disc of a whole-sphere panorama, rotated so that longitude `turn` (rad) is forward.
pub(super) fn disc_from_panorama(panorama: &RgbImage8, turn: f64) -> Disc {
    let (w, h) = (panorama.width as usize, panorama.height as usize);
    (0..AREA)
        .map(|at| {
            let (degrees, longitude) = polar_position(at);
            let u = (((longitude + turn) / PI + 1.0) * 0.5 * w as f64 - 0.5).rem_euclid(w as f64);
            let v = ((1.0 - degrees / 180.0) * h as f64 - 0.5).clamp(0.0, (h - 1) as f64);
            let (left, top) = (u as usize % w, v as usize);
            let (fu, fv) = (u - u.floor(), v - v.floor());
            let (right, bottom) = ((left + 1) % w, (top + 1).min(h - 1));
            let rgb = [0, 1, 2].map(|c| {
                let tap = |x: usize, y: usize| f64::from(panorama.data[3 * (y * w + x) + c]);
                let upper = tap(left, top) * (1.0 - fu) + tap(right, top) * fu;
                let lower = tap(left, bottom) * (1.0 - fu) + tap(right, bottom) * fu;
                (upper * (1.0 - fv) + lower * fv).round() as u8
            });
            ycbcr_from_rgb(rgb)
        })
        .collect()
}

/// Coverage of a direction by a set of disc pixels, 0 to 1; `turn` as in [`disc_from_panorama`].
pub(super) fn coverage_at(set: &[bool], degrees: f64, longitude: f64, turn: f64) -> f64 {
    if degrees >= RIM_DEGREES {
        return 0.0;
    }
    let [x, y] = index_position(degrees, longitude - turn);
    let (left, top) = ((x.max(0.0) as usize).min(SIDE - 2), (y.max(0.0) as usize).min(SIDE - 2));
    let (fx, fy) = (x - left as f64, y - top as f64);
    let tap = |x: usize, y: usize| f64::from(u8::from(set[y * SIDE + x]));
    let upper = tap(left, top) * (1.0 - fx) + tap(left + 1, top) * fx;
    let lower = tap(left, top + 1) * (1.0 - fx) + tap(left + 1, top + 1) * fx;
    upper * (1.0 - fy) + lower * fy
}

/// Means over squares of `2 reach + 1` pixels, clipped at the edges.
pub(super) fn box_blurred(disc: &Disc, reach: usize) -> Disc {
    let along = |values: &Disc, step: usize| -> Disc {
        (0..AREA)
            .map(|at| {
                let k = at / step % SIDE;
                let around = k.saturating_sub(reach)..=(k + reach).min(SIDE - 1);
                let count = around.clone().count();
                let mut sums = [count / 2; 3];
                for other in around {
                    let value = values[at + other * step - k * step];
                    sums.iter_mut().zip(value).for_each(|(sum, value)| *sum += usize::from(value));
                }
                sums.map(|sum| (sum / count) as u8)
            })
            .collect()
    };
    along(&along(disc, 1), SIDE)
}
