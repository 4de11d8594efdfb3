//! The seam of a panorama: columns wrap around, so a splat at one edge is also visible at the other.
//!
//! A splat at `u` is equivalent to one a period to the left or right. Each tile sees the one that is nearer to its
//! centre: a splat at the seam is rendered on both sides, and one near a pole, as wide as the image or wider, once. The
//! second one is a *copy*: a separate record, rectangle, key and entries after those of the splats, so that no later
//! stage handles it specially except `project_vjp`, which adds its slots to those of its splat.

use fearless_simd::{f32x16, prelude::*};
use gausset_compute::simd::{Row, splat};
use gausset_core::constants::TILE_SIZE;

use crate::project::{TileRect, pixel_range, tile_range};
use crate::view::KernelView;

/// A splat that is also visible at the other edge.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SeamCopy {
    /// Index of the splat.
    pub splat: u32,
    /// From the mean of the splat to that of the copy, px.
    pub shift: f32,
    /// Tiles that see the copy.
    pub rect: TileRect,
}

/// The copies of a block.
pub(crate) struct SeamCopies {
    /// Lanes with a copy, one bit each.
    pub lanes: u64,
    /// From the mean to that of the copy, px.
    pub shift: Row,
    /// Half-open range of tile columns of the copies.
    pub tiles: [Row; 2],
}

/// The tile columns of a block and of its copies.
#[inline(always)]
pub(crate) fn split_at_seam<S: Simd>(
    simd: S,
    view: &KernelView,
    centre: f32x16<S>,
    extent: f32x16<S>,
    period: f32,
) -> ([f32x16<S>; 2], SeamCopies) {
    let zero = splat(simd, 0.0);
    let half = splat(simd, 0.5 * period);
    let tile = splat(simd, 1.0 / TILE_SIZE as f32);
    let middle = splat(simd, 0.5 * TILE_SIZE as f32);
    let is_left = centre.simd_lt(splat(simd, 0.5 * view.size[0] as f32));
    let shift = is_left.select(splat(simd, period), splat(simd, -period));
    // Tiles whose centre is nearer to the copy: from one index on if the splat is in the left half, up to one index
    // otherwise.
    let from = ((centre + half - middle) * tile).floor() + splat(simd, 1.0);
    let to = ((centre - half - middle) * tile).ceil().max(zero);
    let range = |centre: f32x16<S>| {
        let (columns, touches) = pixel_range(simd, centre, extent, view.size[0]);
        let [first, end] = tile_range(simd, columns);
        (first, touches.select(end, first))
    };
    let (first, end) = range(centre);
    let own = [is_left.select(first, first.max(to)), is_left.select(end.min(from), end)];
    let (first, end) = range(centre + shift);
    let copy = [is_left.select(first.max(from), first), is_left.select(end, end.min(to))];
    let lanes = copy[0].simd_lt(copy[1]).to_bitmask();
    (own, SeamCopies { lanes, shift: shift.to_array(), tiles: [copy[0].to_array(), copy[1].to_array()] })
}
