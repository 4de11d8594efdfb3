//! The sky: a colour behind all splats that depends on the viewing direction only.
//!
//! With the spherical harmonics `Y_k` up to degree 2 and the unit direction d of a pixel's centre in the world, its
//! colour is `b(d) = max(0, 0.5 + Σ_k c_k Y_k(d))`, as for splats. A render is `C + T_end b(d)`, and with the gradient
//! g of a pixel, `dL/dc_k = Σ_pixels T_end Y_k(d) g` where `b(d) > 0`.
//!
//! It is part of `blend` and `blend_vjp`. The walk of `blend_vjp` starts with `g · colour of the pixel`, which already
//! includes the sky, and so counts the sky as light behind each splat: gradients of splats need nothing else. The
//! derivative of the sky with respect to the pose is left out: a sky is too smooth for it to matter.
//!
//! A task is a tile; the sums of tiles are added in tile order.

use fearless_simd::{f32x16, prelude::*};
use gausset_compute::simd::{array_from_fn, fma, load, map_array, sin_cos_turns, splat, sum_lanes};
use gausset_compute::{Exec, at_level};
use gausset_core::Projection;
use gausset_core::engine::SKY_VALUES;

use crate::blend::{Blended, TilePixels};
use crate::blend_vjp::PlanarImage;
use crate::geometry::dot3;
use crate::pixel::{CELLS, cell_origin, cell_pixels, inside_image, tile_origin};
use crate::spherical_harmonics::{C0, basis};
use crate::view::KernelView;

/// Coefficients of the sky, coefficient-major, RGB fastest.
pub type SkyCoefficients = [f32; SKY_VALUES];

/// Number of basis functions.
const BASIS_FUNCTIONS: usize = SKY_VALUES / 3;

/// The basis for the directions of the pixels of a cell.
#[inline(always)]
fn basis_at<S: Simd>(simd: S, view: &KernelView, x: f32x16<S>, y: f32x16<S>) -> [f32x16<S>; BASIS_FUNCTIONS] {
    let u = (x - splat(simd, view.centre[0])) / splat(simd, view.focal[0]);
    let v = (y - splat(simd, view.centre[1])) / splat(simd, view.focal[1]);
    let r = &view.rotation;
    let way: [f32x16<S>; 3] = match view.projection {
        Projection::Pinhole => array_from_fn(
            #[inline(always)]
            |k| fma(splat(simd, r[0][k]), u, fma(splat(simd, r[1][k]), v, splat(simd, r[2][k]))),
        ),
        Projection::Equirectangular => {
            let turn = splat(simd, 1.0 / std::f32::consts::TAU);
            let (sin_u, cos_u) = sin_cos_turns(simd, u * turn);
            let (sin_v, cos_v) = sin_cos_turns(simd, v * turn);
            let [a, b, c] = [cos_v * sin_u, sin_v, cos_v * cos_u];
            array_from_fn(
                #[inline(always)]
                |k| fma(splat(simd, r[0][k]), a, fma(splat(simd, r[1][k]), b, splat(simd, r[2][k]) * c)),
            )
        }
    };
    let inverse_length = splat(simd, 1.0) / dot3(way, way).sqrt();
    let unit = map_array(
        way,
        #[inline(always)]
        |w| w * inverse_length,
    );
    let rest = basis::<S, 2>(simd, unit);
    array_from_fn(
        #[inline(always)]
        |k| if k == 0 { splat(simd, C0) } else { rest[k - 1] },
    )
}

/// The colour before clamping.
#[inline(always)]
fn colour<S: Simd>(
    simd: S,
    sky: &SkyCoefficients,
    basis: &[f32x16<S>; BASIS_FUNCTIONS],
    channel: usize,
) -> f32x16<S> {
    let mut value = splat(simd, 0.5);
    for k in 0..BASIS_FUNCTIONS {
        value = fma(splat(simd, sky[3 * k + channel]), basis[k], value);
    }
    value
}

/// Adds the sky behind the splats of a render.
pub fn add_sky(exec: Exec<'_>, view: &KernelView, sky: &SkyCoefficients, blended: &mut Blended) {
    let mut parts: Vec<&mut TilePixels> = blended.tiles.iter_mut().collect();
    exec.pool.run_parts(&mut parts, |tile, pixels| {
        at_level!(exec.level, simd => add_tile(simd, view, sky, tile, pixels));
    });
}

#[inline(always)]
fn add_tile<S: Simd>(
    simd: S,
    view: &KernelView,
    sky: &SkyCoefficients,
    tile: usize,
    pixels: &mut TilePixels,
) {
    let zero = splat(simd, 0.0);
    for c in 0..CELLS {
        let last = load(simd, &pixels.transmittance[c].0);
        let (x, y) = cell_pixels(simd, tile_origin(view, tile), c);
        let basis = basis_at(simd, view, x, y);
        for k in 0..3 {
            let behind = colour(simd, sky, &basis, k).max(zero);
            let over = fma(last, behind, load(simd, &pixels.color[c][k].0));
            over.store_array(&mut pixels.color[c][k].0);
        }
    }
}

/// `dL/d sky` from the final transmittances of a render and the gradient of its colours.
#[must_use]
pub fn sky_gradient(
    exec: Exec<'_>,
    view: &KernelView,
    sky: &SkyCoefficients,
    blended: &Blended,
    color: PlanarImage<'_>,
) -> SkyCoefficients {
    let mut sums = vec![[0.0f32; SKY_VALUES]; blended.tiles.len()];
    exec.pool.run_parts(&mut sums, |tile, sums| {
        let pixels = &blended.tiles[tile];
        at_level!(exec.level, simd => tile_gradient(simd, view, sky, tile, pixels, color, sums));
    });
    let mut total = [0.0f64; SKY_VALUES];
    for tile in &sums {
        total.iter_mut().zip(tile).for_each(|(total, &sum)| *total += f64::from(sum));
    }
    total.map(|sum| sum as f32)
}

#[inline(always)]
fn tile_gradient<S: Simd>(
    simd: S,
    view: &KernelView,
    sky: &SkyCoefficients,
    tile: usize,
    pixels: &TilePixels,
    color: PlanarImage<'_>,
    sums: &mut SkyCoefficients,
) {
    let zero = splat(simd, 0.0);
    let mut totals = [zero; SKY_VALUES];
    let origin = tile_origin(view, tile);
    for c in 0..CELLS {
        let last = load(simd, &pixels.transmittance[c].0);
        let (x, y) = cell_pixels(simd, origin, c);
        let last = inside_image(simd, view, x, y).select(last, zero);
        if !last.simd_gt(zero).any_true() {
            continue;
        }
        let basis = basis_at(simd, view, x, y);
        let corner = cell_origin(origin, c);
        for k in 0..3 {
            let shines = colour(simd, sky, &basis, k).simd_gt(zero) & last.simd_gt(zero);
            let g = shines.select(load(simd, &color.cell(k, corner)) * last, zero);
            for n in 0..BASIS_FUNCTIONS {
                totals[3 * n + k] = fma(g, basis[n], totals[3 * n + k]);
            }
        }
    }
    for (sum, total) in sums.iter_mut().zip(totals) {
        *sum = sum_lanes(total);
    }
}
