//! The 11-tap window of SSIM on 16 lanes: along columns four rows at a time, and along a line.
//!
//! Taps are symmetric: opposite values are added first, then multiplied once, from the outermost pair inwards.

use std::marker::PhantomData;

use fearless_simd::{Simd, f32x16, prelude::*};
use gausset_compute::simd::{LANES, Row, fma};
use gausset_core::constants::SSIM_TAPS;

use crate::reference::WINDOW;

/// Taps on either side of the centre.
pub(super) const RADIUS: usize = SSIM_TAPS / 2;
/// Rows that are filtered at once: 14 loads instead of 44.
pub(super) const GROUP: usize = 4;
/// Input rows of a group.
pub(super) const GROUP_INPUTS: usize = GROUP + 2 * RADIUS;
/// Vectors of margin before and after a line that [`Taps::along_line`] may read.
pub(super) const MARGIN: usize = 1;

/// The taps from the outermost to the centre, in all lanes of a vector.
#[derive(Clone, Copy)]
pub(super) struct Taps<S: Simd, V: SimdFloat<S, Element = f32>>([V; RADIUS + 1], PhantomData<S>);

impl<S: Simd, V: SimdFloat<S, Element = f32>> Taps<S, V> {
    #[inline(always)]
    pub(super) fn new(simd: S) -> Self {
        let mut taps = [V::splat(simd, 0.0); RADIUS + 1];
        for k in 0..=RADIUS {
            taps[k] = V::splat(simd, WINDOW[k] as f32);
        }
        Self(taps, PhantomData)
    }

    /// Filters along the columns: the window centred on rows 5, 6, 7 and 8 of 14.
    #[inline(always)]
    pub(super) fn along_columns(&self, rows: &[V; GROUP_INPUTS]) -> [V; GROUP] {
        let mut sums = [rows[0]; GROUP];
        for i in 0..GROUP {
            let mut sum = (rows[i] + rows[i + 2 * RADIUS]) * self.0[0];
            for k in 1..RADIUS {
                sum = (rows[i + k] + rows[i + 2 * RADIUS - k]).mul_add_precise(self.0[k], sum);
            }
            sums[i] = rows[i + RADIUS].mul_add_precise(self.0[RADIUS], sum);
        }
        sums
    }
}

impl<S: Simd> Taps<S, f32x16<S>> {
    /// Filters along a line that has [`MARGIN`] vectors on either side: the window centred on the 16 values of vector
    /// `v`.
    #[inline(always)]
    pub(super) fn along_line(&self, simd: S, line: &[Row], v: usize) -> f32x16<S> {
        // The vector and its neighbours as an array: constant offsets need no bounds checks.
        let near = line[v..].first_chunk::<3>().expect("a margin on either side").as_flattened();
        let at = |k: usize| f32x16::from_slice(simd, &near[LANES - RADIUS + k..][..LANES]);
        let mut sum = (at(0) + at(2 * RADIUS)) * self.0[0];
        for k in 1..RADIUS {
            sum = fma(at(k) + at(2 * RADIUS - k), self.0[k], sum);
        }
        fma(at(RADIUS), self.0[RADIUS], sum)
    }
}
