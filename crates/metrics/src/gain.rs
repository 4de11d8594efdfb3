//! Exposure compensation by gains: a factor per channel on the rendered colour, vignetting, and their VJP.
//!
//! ```text
//! corrected_c = min(1, exp(g_c) v(r²) colour_c)        v(r²) = max(0.05, 1 + a1 r² + a2 r⁴ + a3 r⁶)
//! ```
//! r is the distance from the principal point in half diagonals of the picture. A photograph holds nothing above 1, so
//! a sky that is 1 in it says nothing about a render above 1: where the correction is clamped, what would make it
//! brighter (`u < 0`) has the derivative 0. What would make it darker has the derivative without the clamp: with 0
//! there, too, a splat that is too bright in front of something dark would never change again. With upstream gradient
//! `u`, where it counts: `∂colour_c = u_c exp(g_c) v`, `∂g_c = Σ u_c corrected_c` and
//! `∂a_k = Σ_c Σ u_c corrected_c r^2k / v`. Both directions need the corrected picture only, which takes the render's
//! place. Sums are taken in f32 along a row of pixels, lane by
//! lane, then in f64: lanes, rows and bands of 16 rows in order.

use fearless_simd::{Simd, f32x16, prelude::*};
use gausset_compute::simd::{LANES, Row, fma, load, splat, store};
use gausset_compute::{Exec, at_level};

use crate::planes::{Planes, split, split_mut, sum_in_f64};

/// Pixel rows per task.
const BAND_ROWS: usize = 16;
/// Minimum vignetting factor: a factor of 0 would not constrain the scene.
const MIN_VIGNETTING: f32 = 0.05;

/// Exposure compensation of an image: factors on its colours.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Gain {
    /// Natural logarithm of the factor on each channel.
    pub log_gains: [f32; 3],
    /// Vignetting of the camera, if it is modelled.
    pub vignetting: Option<Vignetting>,
}

/// A polynomial that darkens an image towards its corners.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Vignetting {
    /// `a1 a2 a3`.
    pub coefficients: [f32; 3],
    /// Principal point in px from the top-left corner.
    pub centre: [f32; 2],
}

/// d loss / d [`Gain`].
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct GainGradient {
    /// By the log gains, per channel.
    pub log_gains: [f32; 3],
    /// By the coefficients of the vignetting; zeros without vignetting.
    pub vignetting: [f32; 3],
}

/// A gain with precomputed values for a row of pixels.
#[derive(Clone, Copy)]
struct GainFactors {
    gains: [f32; 3],
    vignetting: Option<Vignetting>,
    /// Reciprocal of the squared half diagonal, 1/px².
    scale: f32,
}

impl Gain {
    /// The background colour under transparent pixels of a photograph, as its corrected render shows it; without
    /// vignetting, which is no constant.
    #[must_use]
    pub fn background(&self, colour: [f32; 3]) -> [f32; 3] {
        std::array::from_fn(|c| (colour[c] * libm::expf(self.log_gains[c])).min(1.0))
    }

    fn factors(&self, picture: &Planes) -> GainFactors {
        let [w, h] = [picture.width() as f32, picture.height() as f32];
        let scale = 4.0 / (w * w + h * h).max(1.0);
        GainFactors { gains: self.log_gains.map(libm::expf), vignetting: self.vignetting, scale }
    }
}

/// Applies a gain to a rendered image in place; its padding is undefined afterwards.
///
/// ```
/// use gausset_compute::{Exec, Pool};
/// use gausset_metrics::{Gain, Planes, apply_gain};
///
/// let mut render = Planes::from_interleaved(1, 1, &[0.25, 0.25, 0.75]);
/// let twice = Gain { log_gains: [2f32.ln(); 3], vignetting: None };
/// apply_gain(Exec::best(&Pool::new(1)), &twice, &mut render);
/// // The last channel is clamped.
/// let found = render.to_interleaved();
/// assert!((found[0] - 0.5).abs() < 1e-6 && found[2] == 1.0);
/// ```
pub fn apply_gain(exec: Exec<'_>, gain: &Gain, picture: &mut Planes) {
    let factors = gain.factors(picture);
    let row_len = picture.row_len().max(1);
    exec.pool.run_chunks(picture.as_mut_slice(), BAND_ROWS * row_len, |band, rows| {
        for (y, row) in rows.chunks_exact_mut(row_len).enumerate() {
            at_level!(exec.level, simd => apply_row(simd, &factors, band * BAND_ROWS + y, split_mut(row)));
        }
    });
}

/// The VJP of [`apply_gain`]: converts `gradient` from d loss / d corrected to d loss / d render, in place, and returns
/// d loss / d gain. Padding is ignored; in the gradient it becomes 0.
///
/// # Panics
/// If the images differ in size.
#[must_use]
pub fn gain_vjp(exec: Exec<'_>, gain: &Gain, corrected: &Planes, gradient: &mut Planes) -> GainGradient {
    let size = |picture: &Planes| (picture.width(), picture.height());
    assert_eq!(size(corrected), size(gradient), "image sizes differ");
    let factors = gain.factors(corrected);
    let (width, height) = (corrected.width() as usize, corrected.height() as usize);
    let row_len = corrected.row_len().max(1);
    let corrected = corrected.as_slice();
    let parts = gradient.as_mut_slice().chunks_mut(BAND_ROWS * row_len);
    let mut parts: Vec<(&mut [f32], [f64; 6])> = parts.map(|rows| (rows, [0.0; 6])).collect();
    exec.pool.run_parts(&mut parts, |band, (gradient, sums)| {
        let first = band * BAND_ROWS;
        let rows = &corrected[first * row_len..][..gradient.len()];
        let inside = height.saturating_sub(first).min(BAND_ROWS) * row_len;
        gradient[inside..].fill(0.0);
        let rows = rows[..inside].chunks_exact(row_len).zip(gradient.chunks_exact_mut(row_len));
        for (y, (row, gradient)) in rows.enumerate() {
            let (row, gradient) = (split(row), split_mut(gradient));
            at_level!(exec.level, simd => vjp_row(simd, &factors, first + y, width, row, gradient, sums));
        }
    });
    let mut total = [0.0; 6];
    for (_, sums) in &parts {
        total.iter_mut().zip(sums).for_each(|(total, sum)| *total += sum);
    }
    let [r, g, b, a1, a2, a3] = total.map(|sum| sum as f32);
    GainGradient { log_gains: [r, g, b], vignetting: [a1, a2, a3] }
}

/// r² and the polynomial at 16 pixels, before clamping to the minimum.
#[inline(always)]
fn polynomial<S: Simd>(
    simd: S,
    vignetting: &Vignetting,
    scale: f32,
    v: usize,
    y: usize,
) -> (f32x16<S>, f32x16<S>) {
    let columns: Row = std::array::from_fn(|lane| (v * LANES + lane) as f32 + 0.5);
    let dx = load(simd, &columns) - splat(simd, vignetting.centre[0]);
    let dy = splat(simd, y as f32 + 0.5 - vignetting.centre[1]);
    let square = fma(dx, dx, dy * dy) * splat(simd, scale);
    let [a1, a2, a3] = vignetting.coefficients.map(|a| splat(simd, a));
    let inner = fma(square, fma(square, a3, a2), a1);
    (square, fma(square, inner, splat(simd, 1.0)))
}

#[inline(always)]
fn apply_row<S: Simd>(simd: S, factors: &GainFactors, y: usize, colour: [&mut [Row]; 3]) {
    let one = splat(simd, 1.0);
    let [red, green, blue] = colour;
    for v in 0..red.len() {
        let vignetting = match &factors.vignetting {
            Some(vignetting) => {
                let (_, value) = polynomial(simd, vignetting, factors.scale, v, y);
                let darkest = splat(simd, MIN_VIGNETTING);
                value.simd_gt(darkest).select(value, darkest)
            }
            None => one,
        };
        for (c, line) in [&mut red[v], &mut green[v], &mut blue[v]].into_iter().enumerate() {
            let value = load(simd, line) * (splat(simd, factors.gains[c]) * vignetting);
            // A NaN is kept, so that it shows in the loss.
            store(value.simd_gt(one).select(one, value), line);
        }
    }
}

#[allow(clippy::manual_map, reason = "a closure would be a call outside the vector function")]
#[inline(always)]
fn vjp_row<S: Simd>(
    simd: S,
    factors: &GainFactors,
    y: usize,
    width: usize,
    corrected: [&[Row]; 3],
    gradient: [&mut [Row]; 3],
    sums: &mut [f64; 6],
) {
    let [gradient_r, gradient_g, gradient_b] = gradient;
    let (zero, one) = (splat(simd, 0.0), splat(simd, 1.0));
    let last = gradient_r.len() - 1;
    let tail: Row = std::array::from_fn(|lane| if last * LANES + lane < width { 1.0 } else { 0.0 });
    let mut lanes = [zero; 6];
    for v in 0..=last {
        let polynomial = match &factors.vignetting {
            Some(vignetting) => Some(polynomial(simd, vignetting, factors.scale, v, y)),
            None => None,
        };
        let darkest = splat(simd, MIN_VIGNETTING);
        let vignetting = match polynomial {
            Some((_, value)) => value.simd_gt(darkest).select(value, darkest),
            None => one,
        };
        // Σ_c u_c corrected_c.
        let mut share = zero;
        let lines = [&mut gradient_r[v], &mut gradient_g[v], &mut gradient_b[v]];
        for (c, line) in lines.into_iter().enumerate() {
            let value = load(simd, &corrected[c][v]);
            let upstream = load(simd, line);
            let counts = value.simd_lt(one) | upstream.simd_gt(zero);
            let mut upstream = counts.select(upstream, zero);
            let mut product = upstream * value;
            if v == last {
                let padding = load(simd, &tail).simd_eq(zero);
                upstream = padding.select(zero, upstream);
                product = padding.select(zero, product);
            }
            lanes[c] += product;
            share += product;
            store(upstream * (splat(simd, factors.gains[c]) * vignetting), line);
        }
        if let Some((square, value)) = polynomial {
            // A clamped factor does not depend on the coefficients.
            let per_factor = value.simd_gt(darkest).select(share / vignetting, zero);
            let mut power = square;
            for sum in &mut lanes[3..] {
                *sum = fma(per_factor, power, *sum);
                power *= square;
            }
        }
    }
    for (sum, lanes) in sums.iter_mut().zip(lanes) {
        *sum += sum_in_f64(lanes);
    }
}
