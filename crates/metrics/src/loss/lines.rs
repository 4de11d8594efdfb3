//! The SIMD kernels of the loss: each processes one line, or the four lines of a group.
//!
//! Lines are slices of vectors; a line *with margins* has one vector of zeros on either side. The kernels are
//! dispatched per line, which costs a jump per line and keeps each of them small enough for the compiler.

use std::ops::Range;

use fearless_simd::{Level, Simd, f32x16, prelude::*};
use gausset_compute::at_level;
use gausset_compute::simd::{LANES, Row, fma, fnma, load, splat, store};
use gausset_core::constants::{SSIM_C1, SSIM_C2};

use super::window::{GROUP, GROUP_INPUTS, Taps};
use crate::planes::sum_in_f64;

/// Filtered quantities of x and y: `x`, `y`, `x² + y²` (only the sum of the variances enters S) and `x y`.
pub(super) const MOMENTS: usize = 4;
/// Derivatives of S: by `K x`, `K (x²)` and `K (x y)`.
pub(super) const DERIVATIVES: usize = 3;

/// Vectors for which all moments are filtered at a time: 28 lines of input of this length fit into the L1 cache.
const CHUNK: usize = 8;

/// Factors from sums to the loss: the gradient is `l1 sign(x - y) + ssim dS/dx`.
#[derive(Clone, Copy)]
pub(super) struct LossFactors {
    pub(super) l1: f32,
    pub(super) ssim: f32,
}

/// One line of the images: render, ground truth, and 1 for valid values, else 0.
#[derive(Clone, Copy)]
pub(super) struct LineInputs<'a> {
    pub(super) x: &'a [Row],
    pub(super) y: &'a [Row],
    pub(super) weights: &'a [Row],
}

/// Filters four rows of the four moments along the columns, from 14 rows of the images.
pub(super) fn filter_moments(
    level: Level,
    x: &[&[Row]; GROUP_INPUTS],
    y: &[&[Row]; GROUP_INPUTS],
    out: [[&mut [Row]; GROUP]; MOMENTS],
) {
    #[inline(always)]
    fn run<S: Simd>(
        simd: S,
        x: &[&[Row]; GROUP_INPUTS],
        y: &[&[Row]; GROUP_INPUTS],
        mut out: [[&mut [Row]; GROUP]; MOMENTS],
    ) {
        let [out_x, out_y, out_squares, out_products] = &mut out;
        let len = out_x[0].len();
        for start in (0..len).step_by(CHUNK) {
            let chunk = start..len.min(start + CHUNK);
            filter_columns(simd, chunk.clone(), x, y, out_x, |x, _| x);
            filter_columns(simd, chunk.clone(), x, y, out_y, |_, y| y);
            filter_columns(simd, chunk.clone(), x, y, out_squares, |x, y| x.mul_add_precise(x, y * y));
            filter_columns(simd, chunk, x, y, out_products, |x, y| x * y);
        }
    }
    at_level!(level, simd => run(simd, x, y, out));
}

/// Filters four rows of one quantity along the columns, from 14 rows.
pub(super) fn filter(level: Level, rows: &[&[Row]; GROUP_INPUTS], mut out: [&mut [Row]; GROUP]) {
    let all = 0..out[0].len();
    at_level!(level, simd => filter_columns(simd, all, rows, rows, &mut out, |value, _| value));
}

/// Filters `of(x, y)` along the columns.
///
/// Lanes are independent here, so vectors may have the width of the CPU's registers: with 16 lanes in two registers the
/// 14 rows would not fit, which costs half of the speed on AVX2.
#[inline(always)]
fn filter_columns<S: Simd>(
    simd: S,
    vectors: Range<usize>,
    x: &[&[Row]; GROUP_INPUTS],
    y: &[&[Row]; GROUP_INPUTS],
    out: &mut [&mut [Row]; GROUP],
    of: impl Fn(S::f32s, S::f32s) -> S::f32s,
) {
    let taps = Taps::<S, S::f32s>::new(simd);
    // Slices of equal length, so that the loop needs no bounds checks.
    let len = vectors.len() * LANES;
    let (mut xs, mut ys) = ([&[][..]; GROUP_INPUTS], [&[][..]; GROUP_INPUTS]);
    for i in 0..GROUP_INPUTS {
        xs[i] = &x[i][vectors.clone()].as_flattened()[..len];
        ys[i] = &y[i][vectors.clone()].as_flattened()[..len];
    }
    let [out0, out1, out2, out3] = out;
    let out0 = &mut out0[vectors.clone()].as_flattened_mut()[..len];
    let out1 = &mut out1[vectors.clone()].as_flattened_mut()[..len];
    let out2 = &mut out2[vectors.clone()].as_flattened_mut()[..len];
    let out3 = &mut out3[vectors].as_flattened_mut()[..len];
    let step = S::f32s::LEN;
    let mut at = 0;
    while at + step <= len {
        let mut values = [S::f32s::splat(simd, 0.0); GROUP_INPUTS];
        for i in 0..GROUP_INPUTS {
            let x = S::f32s::from_slice(simd, &xs[i][at..at + step]);
            values[i] = of(x, S::f32s::from_slice(simd, &ys[i][at..at + step]));
        }
        let sums = taps.along_columns(&values);
        sums[0].store_slice(&mut out0[at..at + step]);
        sums[1].store_slice(&mut out1[at..at + step]);
        sums[2].store_slice(&mut out2[at..at + step]);
        sums[3].store_slice(&mut out3[at..at + step]);
        at += step;
    }
}

/// S of a line from its moments (with margins), 0 for invalid values; returns the sum of the line.
pub(super) fn ssim(level: Level, moments: &[&[Row]; MOMENTS], weights: &[Row], out: &mut [Row]) -> f64 {
    #[inline(always)]
    fn run<S: Simd>(simd: S, moments: &[&[Row]; MOMENTS], weights: &[Row], out: &mut [Row]) -> f64 {
        let taps = Taps::<S, f32x16<S>>::new(simd);
        let mut sum = splat(simd, 0.0);
        for (v, (weight, out)) in weights.iter().zip(out).enumerate() {
            let s = Similarity::at(simd, &taps, moments, v, load(simd, weight)).ssim;
            store(s, out);
            sum += s;
        }
        sum_in_f64(sum)
    }
    at_level!(level, simd => run(simd, moments, weights, out))
}

/// Half of the derivatives of S of a line from its moments (with margins), 0 for invalid values; returns the sum of S.
pub(super) fn ssim_derivatives(
    level: Level,
    moments: &[&[Row]; MOMENTS],
    weights: &[Row],
    out: [&mut [Row]; DERIVATIVES],
) -> f64 {
    #[inline(always)]
    fn run<S: Simd>(
        simd: S,
        moments: &[&[Row]; MOMENTS],
        weights: &[Row],
        out: [&mut [Row]; DERIVATIVES],
    ) -> f64 {
        let taps = Taps::<S, f32x16<S>>::new(simd);
        let len = weights.len();
        let [by_mean, by_square, by_product] = out.map(|line| &mut line[..len]);
        let mut sum = splat(simd, 0.0);
        for v in 0..len {
            let similarity = Similarity::at(simd, &taps, moments, v, load(simd, &weights[v]));
            let half = similarity.half_derivatives();
            sum += similarity.ssim;
            store(half[0], &mut by_mean[v]);
            store(half[1], &mut by_square[v]);
            store(half[2], &mut by_product[v]);
        }
        sum_in_f64(sum)
    }
    at_level!(level, simd => run(simd, moments, weights, out))
}

/// The gradient of a line from the half derivatives (filtered along the columns, with margins); returns the sum of |x -
/// y|.
pub(super) fn gradient(
    level: Level,
    derivatives: &[&[Row]; DERIVATIVES],
    pixels: LineInputs<'_>,
    factors: LossFactors,
    out: &mut [Row],
) -> f64 {
    #[inline(always)]
    fn run<S: Simd>(
        simd: S,
        derivatives: &[&[Row]; DERIVATIVES],
        pixels: LineInputs<'_>,
        factors: LossFactors,
        out: &mut [Row],
    ) -> f64 {
        let taps = Taps::<S, f32x16<S>>::new(simd);
        // The derivatives were halved.
        let ssim_factor = splat(simd, 2.0 * factors.ssim);
        let len = out.len();
        let (xs, ys, weights) = (&pixels.x[..len], &pixels.y[..len], &pixels.weights[..len]);
        let mut sum = splat(simd, 0.0);
        for v in 0..len {
            let (x, y, weight) = (load(simd, &xs[v]), load(simd, &ys[v]), load(simd, &weights[v]));
            let by_mean = taps.along_line(simd, derivatives[0], v);
            let by_square = taps.along_line(simd, derivatives[1], v);
            let by_product = taps.along_line(simd, derivatives[2], v);
            let ssim_gradient = fma(y, by_product, fma(x, by_square, by_mean));
            let (distance, l1_gradient) = l1_terms(simd, x, y, weight, factors);
            let gradient = fma(ssim_gradient, ssim_factor, l1_gradient);
            store(weight.simd_eq(splat(simd, 0.0)).select(weight, gradient), &mut out[v]);
            sum += distance;
        }
        sum_in_f64(sum)
    }
    at_level!(level, simd => run(simd, derivatives, pixels, factors, out))
}

/// The gradient of a line by L1 alone; returns the sum of |x - y|.
pub(super) fn l1_gradient(
    level: Level,
    pixels: LineInputs<'_>,
    factors: LossFactors,
    out: &mut [Row],
) -> f64 {
    #[inline(always)]
    fn run<S: Simd>(simd: S, pixels: LineInputs<'_>, factors: LossFactors, out: &mut [Row]) -> f64 {
        let mut sum = splat(simd, 0.0);
        for (((out, x), y), weight) in out.iter_mut().zip(pixels.x).zip(pixels.y).zip(pixels.weights) {
            let (x, y, weight) = (load(simd, x), load(simd, y), load(simd, weight));
            let (distance, gradient) = l1_terms(simd, x, y, weight, factors);
            store(gradient, out);
            sum += distance;
        }
        sum_in_f64(sum)
    }
    at_level!(level, simd => run(simd, pixels, factors, out))
}

/// `|x - y|` and the L1 gradient, both 0 where the weight is 0.
#[inline(always)]
fn l1_terms<S: Simd>(
    simd: S,
    x: f32x16<S>,
    y: f32x16<S>,
    weight: f32x16<S>,
    factors: LossFactors,
) -> (f32x16<S>, f32x16<S>) {
    let zero = splat(simd, 0.0);
    // Selected, not multiplied: values under a zero weight are arbitrary, even NaN.
    let difference = weight.simd_eq(zero).select(zero, x - y);
    let slope = splat(simd, factors.l1).copysign(difference);
    (difference.abs(), difference.simd_eq(zero).select(zero, slope))
}

/// S of 16 neighbouring values, and the terms of its derivatives; all 0 where the weight is 0.
struct Similarity<S: Simd> {
    mean_x: f32x16<S>,
    mean_y: f32x16<S>,
    a1: f32x16<S>,
    a2: f32x16<S>,
    b1: f32x16<S>,
    b2: f32x16<S>,
    /// `weight / (B1 B2)`; every result contains it as a factor, some twice, which does not matter for 0 and 1.
    reciprocal: f32x16<S>,
    ssim: f32x16<S>,
}

impl<S: Simd> Similarity<S> {
    /// Evaluates S at vector `v` of a line, from its moments.
    #[inline(always)]
    fn at(
        simd: S,
        taps: &Taps<S, f32x16<S>>,
        moments: &[&[Row]; MOMENTS],
        v: usize,
        weight: f32x16<S>,
    ) -> Self {
        let mean_x = taps.along_line(simd, moments[0], v);
        let mean_y = taps.along_line(simd, moments[1], v);
        let squares = taps.along_line(simd, moments[2], v);
        let product = taps.along_line(simd, moments[3], v);
        let (c1, c2, two) = (splat(simd, SSIM_C1 as f32), splat(simd, SSIM_C2 as f32), splat(simd, 2.0));
        let a1 = fma(mean_x * mean_y, two, c1);
        let a2 = fma(fnma(mean_x, mean_y, product), two, c2);
        let square_means = fma(mean_x, mean_x, mean_y * mean_y);
        let b1 = square_means + c1;
        // Rounding could make the variance of large equal values negative and B2 zero.
        let b2 = (squares - square_means).max(splat(simd, 0.0)) + c2;
        let reciprocal = weight / (b1 * b2);
        Self { mean_x, mean_y, a1, a2, b1, b2, reciprocal, ssim: a1 * a2 * reciprocal }
    }

    /// Half of dS by `K x`, `K (x²)` and `K (x y)`; the second must then be multiplied by `2 x`.
    #[inline(always)]
    fn half_derivatives(&self) -> [f32x16<S>; DERIVATIVES] {
        let by_means = fnma(self.mean_x * self.ssim, self.b2 - self.b1, self.mean_y * (self.a2 - self.a1));
        [by_means * self.reciprocal, -(self.ssim * self.b1 * self.reciprocal), self.a1 * self.reciprocal]
    }
}
