//! One band of pixel rows through both halves of SSIM, channel by channel, four rows at a time.
//!
//! ```text
//! x, y ──window down──▶ 4 moments ──window along──▶ S and its 3 derivatives ──▶ ring of 16 rows
//!                                    ring ──window down──▶ ──window along──▶ gradient (with x, y)
//! ```
//!
//! The four moments are `K x`, `K y`, `K (x² + y²)` (only the sum of the variances enters S) and `K (x y)`; the
//! derivatives are those by `K x`, `K (x²)` and `K (x y)`. A gradient row needs the derivatives of 5 rows above and
//! below it, so a band computes the statistics of 10 rows more than it writes. The buffers of a worker (about 300
//! bytes per column) stay in its second-level cache.

use std::ops::Range;

use fearless_simd::{Simd, f32x16, prelude::*};
use gausset_compute::simd::{LANES, Row, fma, fnma, load, splat, store};
use gausset_core::constants::{SSIM_C1, SSIM_C2};

use super::window::{GROUP, GROUP_INPUTS, MARGIN, RADIUS, Taps, column};
use super::{LineSums, Output, vectors};
use crate::Planes;
use crate::planes::AlignedBuffer;

/// Filtered quantities of x and y.
const MOMENTS: usize = 4;
/// Derivatives of S.
const DERIVATIVES: usize = 3;
/// Rows of derivatives that are kept: those that a group of gradient rows needs, rounded up to whole groups.
const RING_ROWS: usize = GROUP_INPUTS.next_multiple_of(GROUP);

/// What all bands read.
pub(super) struct Pictures<'a> {
    /// The render; masked pixels hold the truth.
    pub(super) x: &'a Planes,
    /// The truth.
    pub(super) y: &'a Planes,
    /// 1 where a value counts, else 0; one line per pixel row, or ...
    pub(super) weights: &'a [Row],
    /// ... one line for all rows.
    pub(super) one_weight_line: bool,
    /// A line of zeros.
    pub(super) zeros: &'a [Row],
}

/// What one task writes.
pub(super) struct Band<'a> {
    /// Pixel rows of the band.
    pub(super) rows: Range<usize>,
    /// The output of these rows and of padding rows behind them, laid out as [`Planes`].
    pub(super) out: &'a mut [f32],
    /// A sum for each line of `out`.
    pub(super) sums: &'a mut [LineSums],
}

/// By what sums turn into the loss: the gradient is `l1 sign(x - y) + ssim dS/dx`.
#[derive(Clone, Copy)]
pub(super) struct Factors {
    pub(super) l1: f32,
    pub(super) ssim: f32,
}

/// Buffers of one worker.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    /// A group of rows for each moment; later for each derivative, filtered down the columns.
    group: Lines,
    /// The last [`RING_ROWS`] rows of each derivative.
    ring: Lines,
}

/// Lines of one length, each with [`MARGIN`] zeros on either side.
#[derive(Debug, Default)]
struct Lines {
    buffer: AlignedBuffer,
    stride: usize,
}

impl Lines {
    fn resize(&mut self, stride: usize, count: usize) {
        if self.stride != stride {
            self.buffer.resize(count * (stride + 2 * MARGIN));
            // Margins are never written again; lines of another length left something else in their place.
            self.buffer.as_mut_slice().fill(0.0);
            self.stride = stride;
        }
    }

    #[inline(always)]
    fn with_margins(&self, line: usize) -> &[f32] {
        let len = self.stride + 2 * MARGIN;
        &self.buffer.as_slice()[line * len..][..len]
    }

    #[inline(always)]
    fn vectors(&self, line: usize) -> &[Row] {
        self.with_margins(line)[MARGIN..][..self.stride].as_chunks().0
    }

    #[inline(always)]
    fn vectors_mut(&mut self, line: usize) -> &mut [Row] {
        let len = self.stride + 2 * MARGIN;
        self.buffer.as_mut_slice()[line * len + MARGIN..][..self.stride].as_chunks_mut().0
    }

    /// Makes the values behind the picture zero.
    fn clear_padding(&mut self, line: usize, width: usize) {
        self.vectors_mut(line).as_flattened_mut()[width..].fill(0.0);
    }
}

impl Scratch {
    pub(super) fn resize(&mut self, stride: usize) {
        self.group.resize(stride, MOMENTS * GROUP);
        self.ring.resize(stride, DERIVATIVES * RING_ROWS);
    }

    pub(super) fn bytes(&self) -> usize {
        self.group.buffer.bytes() + self.ring.buffer.bytes()
    }
}

impl Pictures<'_> {
    fn width(&self) -> usize {
        self.x.width() as usize
    }

    fn height(&self) -> usize {
        self.x.height() as usize
    }

    fn contains_row(&self, y: isize) -> bool {
        usize::try_from(y).is_ok_and(|y| y < self.height())
    }

    #[inline(always)]
    fn weights(&self, y: usize) -> &[Row] {
        let len = self.zeros.len();
        let first = if self.one_weight_line { 0 } else { y * len };
        &self.weights[first..first + len]
    }

    /// The lines of 14 rows of a picture, zeros outside.
    fn lines<'a>(&'a self, picture: &'a Planes, channel: usize, first: isize) -> [&'a [Row]; GROUP_INPUTS] {
        std::array::from_fn(|i| {
            let y = first + i as isize;
            if self.contains_row(y) { picture.vectors(y as usize, channel) } else { self.zeros }
        })
    }
}

/// Computes a band.
#[inline(always)]
pub(super) fn run<S: Simd>(
    simd: S,
    pictures: &Pictures<'_>,
    output: Output,
    factors: Factors,
    band: &mut Band<'_>,
    scratch: &mut Scratch,
) {
    band.out[band.rows.len() * pictures.x.row_len()..].fill(0.0);
    band.sums.fill(LineSums::default());
    if band.rows.is_empty() {
        return;
    }
    for channel in 0..Planes::CHANNELS {
        match output {
            Output::SsimMap => map_channel(simd, pictures, channel, band, scratch),
            Output::Gradient if factors.ssim == 0.0 => l1_channel(simd, pictures, channel, factors, band),
            Output::Gradient => gradient_channel(simd, pictures, channel, factors, band, scratch),
        }
    }
}

impl Band<'_> {
    /// The vectors of a line of the output, and its sums.
    #[inline(always)]
    fn line(&mut self, y: usize, channel: usize, stride: usize) -> (&mut [Row], &mut LineSums) {
        let line = (y - self.rows.start) * Planes::CHANNELS + channel;
        (self.out[line * stride..][..stride].as_chunks_mut().0, &mut self.sums[line])
    }
}

/// S of each value.
#[inline(always)]
fn map_channel<S: Simd>(
    simd: S,
    pictures: &Pictures<'_>,
    channel: usize,
    band: &mut Band<'_>,
    scratch: &mut Scratch,
) {
    let taps = Taps::new(simd);
    for first in band.rows.clone().step_by(GROUP) {
        moments(simd, &taps, pictures, channel, first as isize, &mut scratch.group);
        for (i, y) in (first..band.rows.end.min(first + GROUP)).enumerate() {
            let (out, sums) = band.line(y, channel, pictures.x.stride());
            let mut sum = splat(simd, 0.0);
            for (v, (out, weight)) in out.iter_mut().zip(pictures.weights(y)).enumerate() {
                let s = Similarity::at(simd, &taps, &scratch.group, i, v).ssim * load(simd, weight);
                store(s, out);
                sum = sum + s;
            }
            sums.ssim = sum_in_f64(sum);
        }
    }
}

/// The gradient of L1 alone.
#[inline(always)]
fn l1_channel<S: Simd>(
    simd: S,
    pictures: &Pictures<'_>,
    channel: usize,
    factors: Factors,
    band: &mut Band<'_>,
) {
    for y in band.rows.clone() {
        let (out, sums) = band.line(y, channel, pictures.x.stride());
        let (xs, ys) = (pictures.x.vectors(y, channel), pictures.y.vectors(y, channel));
        let mut sum = splat(simd, 0.0);
        for (((out, x), y), weight) in out.iter_mut().zip(xs).zip(ys).zip(pictures.weights(y)) {
            let (x, y, weight) = (load(simd, x), load(simd, y), load(simd, weight));
            let (distance, gradient) = l1(simd, x, y, weight, factors);
            store(gradient, out);
            sum = sum + distance;
        }
        sums.absolute = sum_in_f64(sum);
    }
}

/// The gradient of L1 and SSIM.
#[inline(always)]
fn gradient_channel<S: Simd>(
    simd: S,
    pictures: &Pictures<'_>,
    channel: usize,
    factors: Factors,
    band: &mut Band<'_>,
    scratch: &mut Scratch,
) {
    let taps = Taps::new(simd);
    // Statistics run ahead of the gradient by this many groups.
    let lead = RING_ROWS / GROUP - 1;
    let first_statistic = band.rows.start as isize - RADIUS as isize;
    for group in 0..band.rows.len().div_ceil(GROUP) + lead {
        let first = first_statistic + (group * GROUP) as isize;
        derivatives(simd, &taps, pictures, channel, first, band, scratch);
        if group >= lead {
            gradient_group(simd, &taps, pictures, channel, factors, group - lead, band, scratch);
        }
    }
}

/// Four rows of the derivatives of S into the ring; S itself is summed where it belongs to the band.
#[inline(always)]
fn derivatives<S: Simd>(
    simd: S,
    taps: &Taps<S>,
    pictures: &Pictures<'_>,
    channel: usize,
    first: isize,
    band: &mut Band<'_>,
    scratch: &mut Scratch,
) {
    let end = (band.rows.end + RADIUS) as isize;
    let needed = |y: isize| pictures.contains_row(y) && y < end;
    if (first..first + GROUP as isize).any(needed) {
        moments(simd, taps, pictures, channel, first, &mut scratch.group);
    }
    let group_start = (first + RADIUS as isize) as usize - band.rows.start;
    for i in 0..GROUP {
        let y = first + i as isize;
        let slot = (group_start + i) % RING_ROWS;
        let Scratch { group, ring } = scratch;
        if !pictures.contains_row(y) {
            (0..DERIVATIVES)
                .for_each(|d| ring.vectors_mut(d * RING_ROWS + slot).as_flattened_mut().fill(0.0));
            continue;
        }
        if !needed(y) {
            continue;
        }
        let mut sum = splat(simd, 0.0);
        for (v, weight) in pictures.weights(y as usize).iter().enumerate() {
            let weight = load(simd, weight);
            let similarity = Similarity::at(simd, taps, group, i, v);
            sum = fma(similarity.ssim, weight, sum);
            for (d, derivative) in similarity.half_derivatives().into_iter().enumerate() {
                store(derivative * weight, &mut ring.vectors_mut(d * RING_ROWS + slot)[v]);
            }
        }
        if band.rows.contains(&(y as usize)) {
            band.line(y as usize, channel, pictures.x.stride()).1.ssim = sum_in_f64(sum);
        }
    }
}

/// Four rows of the gradient.
#[inline(always)]
fn gradient_group<S: Simd>(
    simd: S,
    taps: &Taps<S>,
    pictures: &Pictures<'_>,
    channel: usize,
    factors: Factors,
    index: usize,
    band: &mut Band<'_>,
    scratch: &mut Scratch,
) {
    let Scratch { group, ring } = scratch;
    for d in 0..DERIVATIVES {
        let rows: [&[Row]; GROUP_INPUTS] =
            std::array::from_fn(|i| ring.vectors(d * RING_ROWS + (index * GROUP + i) % RING_ROWS));
        for v in 0..vectors(pictures.x.stride()) {
            for (i, filtered) in taps.down(&column(simd, &rows, v)).into_iter().enumerate() {
                store(filtered, &mut group.vectors_mut(d * GROUP + i)[v]);
            }
        }
    }
    let first = band.rows.start + index * GROUP;
    // Derivatives are halved, see `Similarity::half_derivatives`.
    let ssim_factor = splat(simd, 2.0 * factors.ssim);
    for (i, y) in (first..band.rows.end.min(first + GROUP)).enumerate() {
        let (out, sums) = band.line(y, channel, pictures.x.stride());
        let (xs, ys) = (pictures.x.vectors(y, channel), pictures.y.vectors(y, channel));
        let by: [&[f32]; DERIVATIVES] = std::array::from_fn(|d| group.with_margins(d * GROUP + i));
        let mut sum = splat(simd, 0.0);
        for (v, (((out, x), y), weight)) in
            out.iter_mut().zip(xs).zip(ys).zip(pictures.weights(y)).enumerate()
        {
            let (x, y, weight) = (load(simd, x), load(simd, y), load(simd, weight));
            let [by_mean, by_square, by_product] = by.map(|line| taps.along(simd, line, v));
            let ssim_gradient = fma(y, by_product, fma(x, by_square, by_mean));
            let (distance, l1_gradient) = l1(simd, x, y, weight, factors);
            let gradient = fma(ssim_gradient, ssim_factor, l1_gradient);
            store(weight.simd_eq(splat(simd, 0.0)).select(weight, gradient), out);
            sum = sum + distance;
        }
        sums.absolute = sum_in_f64(sum);
    }
}

/// The moments of four rows, filtered down the columns.
#[inline(always)]
fn moments<S: Simd>(
    simd: S,
    taps: &Taps<S>,
    pictures: &Pictures<'_>,
    channel: usize,
    first: isize,
    group: &mut Lines,
) {
    let first_input = first - RADIUS as isize;
    let xs = pictures.lines(pictures.x, channel, first_input);
    let ys = pictures.lines(pictures.y, channel, first_input);
    for v in 0..vectors(pictures.x.stride()) {
        let (x, y) = (column(simd, &xs, v), column(simd, &ys, v));
        let filtered = [
            taps.down(&x),
            taps.down(&y),
            taps.down(&std::array::from_fn(|i| fma(x[i], x[i], y[i] * y[i]))),
            taps.down(&std::array::from_fn(|i| x[i] * y[i])),
        ];
        for (moment, rows) in filtered.into_iter().enumerate() {
            for (i, row) in rows.into_iter().enumerate() {
                store(row, &mut group.vectors_mut(moment * GROUP + i)[v]);
            }
        }
    }
    (0..MOMENTS * GROUP).for_each(|line| group.clear_padding(line, pictures.width()));
}

/// S of 16 neighbouring values with what its derivatives are made of.
struct Similarity<S: Simd> {
    mean_x: f32x16<S>,
    mean_y: f32x16<S>,
    a1: f32x16<S>,
    a2: f32x16<S>,
    b1: f32x16<S>,
    b2: f32x16<S>,
    /// `1 / (B1 B2)`.
    reciprocal: f32x16<S>,
    ssim: f32x16<S>,
}

impl<S: Simd> Similarity<S> {
    /// Row `i` of the group, vector `v`.
    #[inline(always)]
    fn at(simd: S, taps: &Taps<S>, moments: &Lines, i: usize, v: usize) -> Self {
        let [mean_x, mean_y, squares, product] =
            std::array::from_fn(|moment| taps.along(simd, moments.with_margins(moment * GROUP + i), v));
        let (c1, c2, two) = (splat(simd, SSIM_C1 as f32), splat(simd, SSIM_C2 as f32), splat(simd, 2.0));
        let a1 = fma(mean_x * mean_y, two, c1);
        let a2 = fma(fnma(mean_x, mean_y, product), two, c2);
        let square_means = fma(mean_x, mean_x, mean_y * mean_y);
        let b1 = square_means + c1;
        // Rounding could make the variance of large equal values negative and B2 zero.
        let b2 = (squares - square_means).max(splat(simd, 0.0)) + c2;
        let reciprocal = splat(simd, 1.0) / (b1 * b2);
        Self { mean_x, mean_y, a1, a2, b1, b2, reciprocal, ssim: a1 * a2 * reciprocal }
    }

    /// Half of dS by `K x`, `K (x²)` and `K (x y)`, the middle one for a factor `2 x` that is then `x`.
    #[inline(always)]
    fn half_derivatives(&self) -> [f32x16<S>; DERIVATIVES] {
        let by_means = fnma(self.mean_x * self.ssim, self.b2 - self.b1, self.mean_y * (self.a2 - self.a1));
        [by_means * self.reciprocal, -(self.ssim * self.b1 * self.reciprocal), self.a1 * self.reciprocal]
    }
}

/// `|x - y|` and the L1 gradient, both 0 where the weight is.
#[inline(always)]
fn l1<S: Simd>(
    simd: S,
    x: f32x16<S>,
    y: f32x16<S>,
    weight: f32x16<S>,
    factors: Factors,
) -> (f32x16<S>, f32x16<S>) {
    let zero = splat(simd, 0.0);
    let difference = weight.simd_eq(zero).select(zero, x - y);
    let slope = splat(simd, factors.l1).copysign(difference);
    (difference.abs(), difference.simd_eq(zero).select(zero, slope))
}

/// Sum of the lanes in their order.
#[inline(always)]
fn sum_in_f64<S: Simd>(lanes: f32x16<S>) -> f64 {
    let lanes: [f32; LANES] = lanes.to_array();
    lanes.into_iter().map(f64::from).sum()
}
