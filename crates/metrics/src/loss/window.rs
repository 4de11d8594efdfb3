//! The 11-tap window of SSIM on 16 lanes: down columns four rows at a time, and along a line.
//!
//! Taps are symmetric: opposite values are added first, then multiplied once; from the outermost pair inwards.

use fearless_simd::{Simd, f32x16, prelude::*};
use gausset_compute::simd::{LANES, Row, fma, load, splat};
use gausset_core::constants::SSIM_TAPS;

use crate::reference::WINDOW;

/// Taps on either side of the centre.
pub(super) const RADIUS: usize = SSIM_TAPS / 2;
/// Rows that are filtered at once: 14 loads instead of 44.
pub(super) const GROUP: usize = 4;
/// Rows that a group looks at.
pub(super) const GROUP_INPUTS: usize = GROUP + 2 * RADIUS;
/// Values in front of a line that [`along`] may look at, and behind it: one vector, to keep lines aligned.
pub(super) const MARGIN: usize = LANES;

/// The taps from the outermost to the centre.
#[derive(Clone, Copy)]
pub(super) struct Taps<S: Simd>([f32x16<S>; RADIUS + 1]);

impl<S: Simd> Taps<S> {
    #[inline(always)]
    pub(super) fn new(simd: S) -> Self {
        Self(std::array::from_fn(|k| splat(simd, WINDOW[k] as f32)))
    }

    /// The window over `values(0), ..., values(10)`.
    #[inline(always)]
    fn apply(&self, values: impl Fn(usize) -> f32x16<S>) -> f32x16<S> {
        let mut sum = (values(0) + values(2 * RADIUS)) * self.0[0];
        for k in 1..RADIUS {
            sum = fma(values(k) + values(2 * RADIUS - k), self.0[k], sum);
        }
        fma(values(RADIUS), self.0[RADIUS], sum)
    }

    /// Down the columns: the window centred on rows 5, 6, 7 and 8 of 14.
    #[inline(always)]
    pub(super) fn down(&self, rows: &[f32x16<S>; GROUP_INPUTS]) -> [f32x16<S>; GROUP] {
        std::array::from_fn(|i| self.apply(|k| rows[i + k]))
    }

    /// Along a line with [`MARGIN`] values on either side: the window centred on the 16 values of vector `v`.
    #[inline(always)]
    pub(super) fn along(&self, simd: S, line: &[f32], v: usize) -> f32x16<S> {
        // The 32 values from 8 before the vector to 8 after it, as an array: constant offsets need no checks.
        let first = MARGIN + v * LANES - 8;
        let Some(near) = line[first..].first_chunk::<{ 2 * LANES }>() else { return splat(simd, 0.0) };
        self.apply(|k| f32x16::from_slice(simd, &near[8 - RADIUS + k..][..LANES]))
    }
}

/// The vectors at `v` of 14 lines.
#[inline(always)]
pub(super) fn column<S: Simd>(
    simd: S,
    lines: &[&[Row]; GROUP_INPUTS],
    v: usize,
) -> [f32x16<S>; GROUP_INPUTS] {
    std::array::from_fn(|i| load(simd, &lines[i][v]))
}
