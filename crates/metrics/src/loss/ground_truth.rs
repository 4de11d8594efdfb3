//! Prepares the ground truth for the SIMD kernels: bytes to f32 planes, composited; masked pixels of the render filled
//! in.
//!
//! A byte `v` is `v / 255`, rounded once. With alpha `a` (straight) the ground truth is `rgb · a + background · (1 -
//! a)`: exact where `a` is 0 or 1.

use std::ops::Range;

use fearless_simd::{Simd, f32x16, prelude::*};
use gausset_compute::simd::{LANES, fma, fnma, splat};
use gausset_core::TargetImage;

use crate::planes::{AlignedBuffer, Planes};

/// One line of weights for an image without a mask: 1 for pixels, 0 for padding.
pub(super) fn one_weight_line(weights: &mut AlignedBuffer, width: usize, stride: usize) {
    weights.resize(stride);
    let line = weights.as_mut_slice();
    line[..width].fill(1.0);
    line[width..].fill(0.0);
}

/// The rows of a band of a masked image.
pub(super) struct MaskedPart<'a> {
    /// Output: the ground truth.
    pub(super) truth: &'a mut [f32],
    /// Output: the render, with the ground truth in masked pixels.
    pub(super) filled_render: &'a mut [f32],
    /// Output: 1 for valid pixels, else 0.
    pub(super) weights: &'a mut [f32],
}

/// Writes the pixel `rows` of the ground truth as planes.
#[inline(always)]
pub(super) fn unpack_rows<S: Simd>(
    simd: S,
    image: &TargetImage,
    background: [f32; 3],
    rows: Range<usize>,
    planes: &mut [f32],
) {
    let width = image.width as usize;
    let row_len = Planes::CHANNELS * width.next_multiple_of(LANES);
    for (y, planes) in rows.zip(planes.chunks_exact_mut(row_len)) {
        let pixels = y * width..(y + 1) * width;
        let alpha = image.alpha.as_ref().map(|alpha| &alpha[pixels.clone()]);
        unpack_row(simd, &image.rgb[3 * pixels.start..3 * pixels.end], alpha, background, planes);
    }
}

/// Writes the pixel `rows` of ground truth, weights and filled render.
#[inline(always)]
pub(super) fn unpack_masked_rows<S: Simd>(
    simd: S,
    image: &TargetImage,
    background: [f32; 3],
    render: &Planes,
    rows: Range<usize>,
    part: &mut MaskedPart<'_>,
) {
    let (width, stride) = (render.width() as usize, render.stride());
    unpack_rows(simd, image, background, rows.clone(), part.truth);
    let Some(mask) = &image.mask else { return };
    for (line, y) in rows.enumerate() {
        let weights = &mut part.weights[line * stride..][..stride];
        for (weight, &keep) in weights.iter_mut().zip(&mask[y * width..(y + 1) * width]) {
            *weight = if keep == 0 { 0.0 } else { 1.0 };
        }
        weights[width..].fill(0.0);
        for channel in 0..Planes::CHANNELS {
            let at = (line * Planes::CHANNELS + channel) * stride;
            let (x, y) = (render.line(y, channel), &part.truth[at..at + stride]);
            let filled = &mut part.filled_render[at..at + stride];
            for (((filled, &weight), &x), &y) in filled.iter_mut().zip(&*weights).zip(x).zip(y) {
                *filled = if weight == 0.0 { y } else { x };
            }
        }
    }
}

#[inline(always)]
fn unpack_row<S: Simd>(simd: S, rgb: &[u8], alpha: Option<&[u8]>, background: [f32; 3], planes: &mut [f32]) {
    let stride = planes.len() / Planes::CHANNELS;
    let (red, rest) = planes.split_at_mut(stride);
    let (green, blue) = rest.split_at_mut(stride);
    let mut lines = [red, green, blue];
    let mut coverages = alpha.map(vectors_of::<LANES>);
    for (v, pixels) in vectors_of::<{ 3 * LANES }>(rgb).enumerate() {
        let coverage = coverages.as_mut().and_then(Iterator::next).map(|bytes| unit(simd, bytes));
        for (channel, line) in lines.iter_mut().enumerate() {
            let mut value = unit(simd, std::array::from_fn(|i| pixels[3 * i + channel]));
            if let Some(coverage) = coverage {
                let behind = splat(simd, background[channel]) * (splat(simd, 1.0) - coverage);
                value = fma(value, coverage, behind);
            }
            value.store_slice(&mut line[v * LANES..][..LANES]);
        }
    }
}

/// Chunks of N bytes, the last padded with zeros.
#[inline(always)]
fn vectors_of<const N: usize>(bytes: &[u8]) -> impl Iterator<Item = [u8; N]> {
    let (whole, rest) = bytes.as_chunks::<N>();
    let mut last = [0; N];
    last[..rest.len()].copy_from_slice(rest);
    whole.iter().copied().chain((!rest.is_empty()).then_some(last))
}

/// Bytes times 1/255, each rounded once: the product with 1/255, corrected by its remainder.
#[inline(always)]
fn unit<S: Simd>(simd: S, bytes: [u8; LANES]) -> f32x16<S> {
    let (v, reciprocal) = (f32x16::load_array(simd, bytes.map(f32::from)), splat(simd, 1.0 / 255.0));
    let near = v * reciprocal;
    let remainder = fnma(near, splat(simd, 255.0), v);
    fma(remainder, reciprocal, near)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gausset_compute::at_level;
    use gausset_compute::{SimdLevel, dispatch_level};

    #[test]
    fn a_byte_is_its_exact_share_of_255_at_every_level() {
        for level in SimdLevel::ALL.into_iter().filter_map(dispatch_level) {
            for start in (0..=255u8).step_by(LANES) {
                let bytes: [u8; LANES] = std::array::from_fn(|i| start + i as u8);
                let values: [f32; LANES] = at_level!(level, simd => unit(simd, bytes).to_array());
                assert_eq!(values, bytes.map(|b| f32::from(b) / 255.0));
            }
        }
    }
}
