//! Processes one band of pixel rows through both halves of SSIM, channel by channel, four rows at a time.
//!
//! ```text
//! x, y ──window down──▶ 4 moments ──window along──▶ S and its 3 derivatives ──▶ ring of 16 rows
//!                                    ring ──window down──▶ ──window along──▶ gradient (with x, y)
//! ```
//!
//! A gradient row needs the derivatives of 5 rows above and below it, so a band computes the statistics of 10 more rows
//! than it writes. The buffers of a worker (about 260 bytes per column) fit into its L2 cache.

use std::ops::Range;

use fearless_simd::Level;
use gausset_compute::simd::{LANES, Row};

use super::LatitudeWeights;
use super::lines::{self, DERIVATIVES, LineInputs, LossFactors, MOMENTS};
use super::window::{GROUP, GROUP_INPUTS, MARGIN, RADIUS};
use crate::planes::{AlignedBuffer, Planes};

/// Rows of derivatives that are buffered: those that a group of gradient rows needs, rounded up to whole groups.
const RING_ROWS: usize = GROUP_INPUTS.next_multiple_of(GROUP);
/// Number of groups by which the statistics are ahead of the gradient.
const LEAD_GROUPS: usize = RING_ROWS / GROUP - 1;

/// Sums over one line: one channel of one pixel row.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LineSums {
    /// Σ |x - y|.
    pub(super) absolute: f64,
    /// Σ S.
    pub(super) ssim: f64,
}

/// Output of a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PassOutput {
    /// d loss / d render.
    Gradient,
    /// S of each value.
    SsimMap,
}

/// Inputs of all bands.
pub(super) struct BandInputs<'a> {
    /// The render; masked pixels contain the ground truth.
    pub(super) x: &'a Planes,
    /// The ground truth.
    pub(super) y: &'a Planes,
    /// 1 for valid values, else 0; one line per pixel row, or one line for all rows.
    pub(super) weights: &'a [Row],
    /// Whether `weights` is one line for all rows.
    pub(super) one_weight_line: bool,
    /// A line of zeros.
    pub(super) zeros: &'a [Row],
    /// Weights of the rows of a panorama.
    pub(super) latitude: Option<LatitudeWeights>,
}

/// Outputs of one task.
pub(super) struct Band<'a> {
    /// Pixel rows of the band.
    pub(super) rows: Range<usize>,
    /// The output of these rows and the padding rows after them, laid out as [`Planes`].
    pub(super) out: &'a mut [f32],
    /// A sum for each line of `out`.
    pub(super) sums: &'a mut [LineSums],
}

/// Buffers of one worker.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    /// A group of rows of each moment, moment by moment; later of each derivative, filtered along the columns.
    filtered: Lines,
    /// The last [`RING_ROWS`] rows of the derivatives, row by row.
    ring: Lines,
}

impl Scratch {
    pub(super) fn resize(&mut self, stride: usize) {
        self.filtered.resize(stride / LANES, MOMENTS * GROUP);
        self.ring.resize(stride / LANES, RING_ROWS * DERIVATIVES);
    }

    pub(super) fn bytes(&self) -> usize {
        self.filtered.buffer.bytes() + self.ring.buffer.bytes()
    }
}

/// Computes the output of a band.
pub(super) fn run(
    level: Level,
    pictures: &BandInputs<'_>,
    output: PassOutput,
    factors: LossFactors,
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
            PassOutput::SsimMap => map_channel(level, pictures, channel, band, scratch),
            PassOutput::Gradient if factors.ssim == 0.0 => {
                l1_channel(level, pictures, channel, factors, band)
            }
            PassOutput::Gradient => gradient_channel(level, pictures, channel, factors, band, scratch),
        }
    }
}

/// Writes S of each value.
fn map_channel(
    level: Level,
    pictures: &BandInputs<'_>,
    channel: usize,
    band: &mut Band<'_>,
    scratch: &mut Scratch,
) {
    for first in band.rows.clone().step_by(GROUP) {
        filter_moments(level, pictures, channel, first as isize, &mut scratch.filtered);
        for (i, y) in (first..band.rows.end.min(first + GROUP)).enumerate() {
            let moments = scratch.filtered.quantities::<MOMENTS>(i);
            let (out, sums) = band.line(y, channel, pictures.x.stride());
            sums.ssim = lines::ssim(level, &moments, pictures.weights(y), out);
        }
    }
}

/// Writes the gradient of L1 alone.
fn l1_channel(
    level: Level,
    pictures: &BandInputs<'_>,
    channel: usize,
    factors: LossFactors,
    band: &mut Band<'_>,
) {
    for y in band.rows.clone() {
        let (out, sums) = band.line(y, channel, pictures.x.stride());
        let (weight, factors) = pictures.row_weight(y, factors);
        sums.absolute = weight * lines::l1_gradient(level, pictures.pixels(y, channel), factors, out);
    }
}

/// Writes the gradient of L1 and SSIM.
fn gradient_channel(
    level: Level,
    pictures: &BandInputs<'_>,
    channel: usize,
    factors: LossFactors,
    band: &mut Band<'_>,
    scratch: &mut Scratch,
) {
    for group in 0..band.rows.len().div_ceil(GROUP) + LEAD_GROUPS {
        derivative_group(level, pictures, channel, group, band, scratch);
        if group >= LEAD_GROUPS {
            gradient_group(level, pictures, channel, factors, group - LEAD_GROUPS, band, scratch);
        }
    }
}

/// Writes four rows of the derivatives of S to the ring; S itself is summed for the rows of the band.
///
/// Group 0 starts 5 rows above the band.
fn derivative_group(
    level: Level,
    pictures: &BandInputs<'_>,
    channel: usize,
    group: usize,
    band: &mut Band<'_>,
    scratch: &mut Scratch,
) {
    let first = (band.rows.start + group * GROUP) as isize - RADIUS as isize;
    let end = (band.rows.end + RADIUS) as isize;
    let is_needed = |y: isize| y < end && pictures.row(y).is_some();
    if (first..first + GROUP as isize).any(is_needed) {
        filter_moments(level, pictures, channel, first, &mut scratch.filtered);
    }
    for i in 0..GROUP {
        let slot = (group * GROUP + i) % RING_ROWS;
        match pictures.row(first + i as isize) {
            Some(y) if is_needed(y as isize) => {
                let moments = scratch.filtered.quantities::<MOMENTS>(i);
                let derivatives = scratch.ring.lines_mut::<DERIVATIVES>(slot * DERIVATIVES);
                let mut sum = lines::ssim_derivatives(level, &moments, pictures.weights(y), derivatives);
                if let Some(latitude) = pictures.latitude {
                    let weight = latitude.weight(y);
                    let derivatives = scratch.ring.lines_mut::<DERIVATIVES>(slot * DERIVATIVES);
                    derivatives
                        .into_iter()
                        .flat_map(|line| line.as_flattened_mut())
                        .for_each(|d| *d *= weight);
                    sum *= f64::from(weight);
                }
                if band.rows.contains(&y) {
                    band.line(y, channel, pictures.x.stride()).1.ssim = sum;
                }
            }
            // Rows after the last one needed are only read for gradient rows that are not written.
            Some(_) => {}
            None => {
                let derivatives = scratch.ring.lines_mut::<DERIVATIVES>(slot * DERIVATIVES);
                derivatives.into_iter().for_each(|line| line.as_flattened_mut().fill(0.0));
            }
        }
    }
}

/// Writes four rows of the gradient.
fn gradient_group(
    level: Level,
    pictures: &BandInputs<'_>,
    channel: usize,
    factors: LossFactors,
    group: usize,
    band: &mut Band<'_>,
    scratch: &mut Scratch,
) {
    for d in 0..DERIVATIVES {
        let slot = |i: usize| (group * GROUP + i) % RING_ROWS;
        let rows = std::array::from_fn(|i| scratch.ring.vectors(slot(i) * DERIVATIVES + d));
        lines::filter(level, &rows, scratch.filtered.lines_mut(d * GROUP));
    }
    let first = band.rows.start + group * GROUP;
    for (i, y) in (first..band.rows.end.min(first + GROUP)).enumerate() {
        let derivatives = scratch.filtered.quantities::<DERIVATIVES>(i);
        let (out, sums) = band.line(y, channel, pictures.x.stride());
        let (weight, factors) = pictures.row_weight(y, factors);
        sums.absolute =
            weight * lines::gradient(level, &derivatives, pictures.pixels(y, channel), factors, out);
    }
}

/// The moments of four rows, filtered along the columns.
fn filter_moments(
    level: Level,
    pictures: &BandInputs<'_>,
    channel: usize,
    first: isize,
    filtered: &mut Lines,
) {
    let rows = |picture| -> [&[Row]; GROUP_INPUTS] {
        std::array::from_fn(|i| {
            pictures.line_or_zeros(picture, channel, first - RADIUS as isize + i as isize)
        })
    };
    let [x, y, squares, products] = filtered.groups_mut();
    lines::filter_moments(level, &rows(pictures.x), &rows(pictures.y), [x, y, squares, products]);
    (0..MOMENTS * GROUP).for_each(|line| filtered.clear_padding(line, pictures.x.width() as usize));
}

impl Band<'_> {
    /// The vectors of a line of the output, and its sums.
    fn line(&mut self, y: usize, channel: usize, stride: usize) -> (&mut [Row], &mut LineSums) {
        let line = (y - self.rows.start) * Planes::CHANNELS + channel;
        (self.out[line * stride..][..stride].as_chunks_mut().0, &mut self.sums[line])
    }
}

impl BandInputs<'_> {
    /// `y` if it is a row of the images.
    fn row(&self, y: isize) -> Option<usize> {
        usize::try_from(y).ok().filter(|&y| y < self.x.height() as usize)
    }

    fn line_or_zeros<'a>(&'a self, picture: &'a Planes, channel: usize, y: isize) -> &'a [Row] {
        self.row(y).map_or(self.zeros, |y| picture.vectors(y, channel))
    }

    fn weights(&self, y: usize) -> &[Row] {
        let len = self.zeros.len();
        let first = if self.one_weight_line { 0 } else { y * len };
        &self.weights[first..first + len]
    }

    /// The weight of a row, and factors with that weight in the L1 factor; the derivatives of S already contain it.
    fn row_weight(&self, y: usize, factors: LossFactors) -> (f64, LossFactors) {
        let weight = self.latitude.map_or(1.0, |latitude| latitude.weight(y));
        (f64::from(weight), LossFactors { l1: factors.l1 * weight, ..factors })
    }

    fn pixels(&self, y: usize, channel: usize) -> LineInputs<'_> {
        LineInputs { x: self.x.vectors(y, channel), y: self.y.vectors(y, channel), weights: self.weights(y) }
    }
}

/// Lines of equal length, each with a margin of zeros on either side.
#[derive(Debug, Default)]
struct Lines {
    buffer: AlignedBuffer,
    /// Vectors in a line, without its margins.
    len: usize,
}

impl Lines {
    fn resize(&mut self, len: usize, count: usize) {
        if self.len != len {
            self.buffer.resize(count * (len + 2 * MARGIN) * LANES);
            // Margins are never written again; lines of another length have left other values there.
            self.buffer.as_mut_slice().fill(0.0);
            self.len = len;
        }
    }

    fn with_margins(&self, line: usize) -> &[Row] {
        let len = self.len + 2 * MARGIN;
        &self.buffer.vectors()[line * len..][..len]
    }

    fn vectors(&self, line: usize) -> &[Row] {
        &self.with_margins(line)[MARGIN..][..self.len]
    }

    /// Row `i` of the group of each quantity, with margins.
    fn quantities<const N: usize>(&self, i: usize) -> [&[Row]; N] {
        std::array::from_fn(|quantity| self.with_margins(quantity * GROUP + i))
    }

    /// `N` consecutive lines, without margins, mutable.
    fn lines_mut<const N: usize>(&mut self, first: usize) -> [&mut [Row]; N] {
        let len = self.len + 2 * MARGIN;
        let mut lines = self.buffer.vectors_mut()[first * len..][..N * len].chunks_exact_mut(len);
        std::array::from_fn(|_| lines.next().map_or(&mut [][..], |line| &mut line[MARGIN..len - MARGIN]))
    }

    /// The groups of all moments, mutable.
    fn groups_mut(&mut self) -> [[&mut [Row]; GROUP]; MOMENTS] {
        let mut lines = self.lines_mut::<{ MOMENTS * GROUP }>(0).into_iter();
        std::array::from_fn(|_| std::array::from_fn(|_| lines.next().unwrap_or_default()))
    }

    /// Sets the values after the end of the image row to zero.
    fn clear_padding(&mut self, line: usize, width: usize) {
        let [vectors] = self.lines_mut(line);
        vectors.as_flattened_mut()[width..].fill(0.0);
    }
}
