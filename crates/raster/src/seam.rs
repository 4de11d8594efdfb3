//! The seam of a panorama: columns go around, so a splat at one rim is seen at the other, too.
//!
//! A splat at `u` also stands one period to the left or right, and each tile sees the one of the two that is nearer to its
//! middle: a splat at the seam is drawn on both sides, and one near a pole, as wide as the picture or wider, once. The
//! second one is a *copy*: a record, rectangle, key and entries of its own behind those of the splats, so that no later
//! stage knows of it but `project_vjp`, which adds its slots to those of its splat.

use fearless_simd::{f32x16, prelude::*};
use gausset_compute::simd::{Row, splat};
use gausset_core::constants::TILE_SIZE;

use crate::project::{TileRect, pixel_range, tile_range};
use crate::view::KernelView;

/// A splat that is seen at the other rim.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SeamCopy {
    /// Number of the splat.
    pub splat: u32,
    /// From the mean of the splat to that of the copy, px.
    pub shift: f32,
    /// Tiles that see the copy.
    pub rect: TileRect,
}

/// The copies of a block.
pub(crate) struct Seam {
    /// Lanes with a copy, one bit each.
    pub lanes: u64,
    /// From the mean to that of the copy, px.
    pub shift: Row,
    /// Half-open range of tile columns of the copies.
    pub tiles: [Row; 2],
}

/// The tile columns of a block and of its copies.
#[inline(always)]
pub(crate) fn split<S: Simd>(
    simd: S,
    view: &KernelView,
    centre: f32x16<S>,
    extent: f32x16<S>,
    period: f32,
) -> ([f32x16<S>; 2], Seam) {
    let zero = splat(simd, 0.0);
    let half = splat(simd, 0.5 * period);
    let tile = splat(simd, 1.0 / TILE_SIZE as f32);
    let middle = splat(simd, 0.5 * TILE_SIZE as f32);
    let is_left = centre.simd_lt(splat(simd, 0.5 * view.size[0] as f32));
    let shift = is_left.select(splat(simd, period), splat(simd, -period));
    // Tiles whose middle is nearer to the copy: from one on where the splat stands left, up to one else.
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
    (own, Seam { lanes, shift: shift.to_array(), tiles: [copy[0].to_array(), copy[1].to_array()] })
}
