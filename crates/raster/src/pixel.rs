//! The arithmetic of one splat at the 16 pixels of a cell.
//!
//! A tile of 16x16 px is 4x4 *cells* of 4x4 px; a vector holds one cell, lane `4 row + column`. Small cells waste few
//! lanes on small splats, and most splats are small. All code that evaluates alpha uses [`exponent`] and [`raw_alpha`],
//! so that forward pass, backward pass and the list cap agree bit for bit.

use fearless_simd::{f32x16, mask32x16, prelude::*};
use gausset_compute::simd::{Row, exp2_in_range, fma, splat};
use gausset_core::constants::TILE_SIZE;

use crate::project::{LOG2_255, Record, record};
use crate::view::KernelView;

/// Cells per tile.
pub(crate) const CELLS: usize = 16;
/// Cells per row of a tile.
pub(crate) const CELLS_PER_ROW: usize = 4;
/// Pixels per row of a cell.
pub(crate) const PIXELS_PER_CELL_ROW: usize = 4;

/// Pixel centres of the lanes of a cell relative to its corner.
const LANE_X: Row = [0.5, 1.5, 2.5, 3.5, 0.5, 1.5, 2.5, 3.5, 0.5, 1.5, 2.5, 3.5, 0.5, 1.5, 2.5, 3.5];
const LANE_Y: Row = [0.5, 0.5, 0.5, 0.5, 1.5, 1.5, 1.5, 1.5, 2.5, 2.5, 2.5, 2.5, 3.5, 3.5, 3.5, 3.5];

/// Top-left pixel of a tile.
#[inline(always)]
pub(crate) fn tile_origin(view: &KernelView, tile: usize) -> [usize; 2] {
    let columns = view.tiles[0] as usize;
    let side = TILE_SIZE as usize;
    [tile % columns * side, tile / columns * side]
}

/// Top-left pixel of a cell.
#[inline(always)]
pub(crate) fn cell_origin(tile: [usize; 2], cell: usize) -> [usize; 2] {
    [
        tile[0] + cell % CELLS_PER_ROW * PIXELS_PER_CELL_ROW,
        tile[1] + cell / CELLS_PER_ROW * PIXELS_PER_CELL_ROW,
    ]
}

/// Pixel centres of a cell.
#[inline(always)]
pub(crate) fn cell_pixels<S: Simd>(simd: S, tile: [usize; 2], cell: usize) -> (f32x16<S>, f32x16<S>) {
    let [x, y] = cell_origin(tile, cell);
    (
        f32x16::load_array(simd, LANE_X) + splat(simd, x as f32),
        f32x16::load_array(simd, LANE_Y) + splat(simd, y as f32),
    )
}

/// Which pixels of a cell are inside the image.
#[inline(always)]
pub(crate) fn inside_image<S: Simd>(simd: S, view: &KernelView, x: f32x16<S>, y: f32x16<S>) -> mask32x16<S> {
    x.simd_lt(splat(simd, view.size[0] as f32)) & y.simd_lt(splat(simd, view.size[1] as f32))
}

/// The offset of the pixel centres of a cell from the mean of a splat, px.
#[inline(always)]
pub(crate) fn offset<S: Simd>(
    simd: S,
    splat_record: &Record,
    x: f32x16<S>,
    y: f32x16<S>,
) -> (f32x16<S>, f32x16<S>) {
    let r = &splat_record.0;
    (x - splat(simd, r[record::X]), y - splat(simd, r[record::Y]))
}

/// The base-2 logarithm of alpha before its thresholds: `(A dx + B dy) dx + C dy² + L`.
#[inline(always)]
pub(crate) fn exponent<S: Simd>(simd: S, splat_record: &Record, x: f32x16<S>, y: f32x16<S>) -> f32x16<S> {
    let r = &splat_record.0;
    let (dx, dy) = offset(simd, splat_record, x, y);
    let along_x = fma(splat(simd, r[record::B]), dy, splat(simd, r[record::A]) * dx);
    let along_y = fma(splat(simd, r[record::C]) * dy, dy, splat(simd, r[record::L]));
    fma(along_x, dx, along_y)
}

/// `o e^-σ` from its base-2 logarithm, not clamped; 0 below 1/255.
///
/// The threshold is applied to the logarithm, so that the comparison does not wait for the power and nothing has to be
/// clamped; the exponent is at most log2 of the opacity, up to rounding.
#[inline(always)]
pub(crate) fn raw_alpha<S: Simd>(simd: S, exponent: f32x16<S>) -> f32x16<S> {
    let drawn = exponent.simd_ge(splat(simd, -LOG2_255));
    drawn.select(exp2_in_range(simd, exponent), splat(simd, 0.0))
}

/// `min(alpha_max, o e^-σ)`; 0 below 1/255.
#[inline(always)]
pub(crate) fn clamped_alpha<S: Simd>(simd: S, exponent: f32x16<S>, alpha_max: f32x16<S>) -> f32x16<S> {
    raw_alpha(simd, exponent).min(alpha_max)
}
