//! Intermediate results of the kernels, splat by splat and without culling: for tests and tools.
//!
//! An image shows the arithmetic of `project` and `project_vjp` only through culling and blending. The functions here
//! run the same code as these stages on all splats, one block after the other, and return the results; nothing is
//! computed by a second formula, except results that exist nowhere in the engine (Σ itself).

use fearless_simd::{Level, f32x16, prelude::*};
use gausset_compute::simd::{LANES, Row, array_from_fn, load, map_array, splat};
use gausset_compute::{Exec, Pool, at_level};
use gausset_core::engine::RenderOptions;

use crate::blend_vjp::{GradientSlot, GradientSlots, slot};
use crate::form::Raw;
use crate::geometry::{Geometry, ViewDirection, compensation, dot3};
use crate::layout::{Blocks, DC, LOG_SCALE, MEAN, QUAT};
use crate::project::{Projected, SPLATS_PER_CHUNK, TileRect};
use crate::project_vjp::Gradients;
use crate::screen_gradients::lane_rows;
use crate::shape::Shape;
use crate::spherical_harmonics::{C0, at_degree, basis, colour_gradient, colours};
use crate::view::KernelView;

/// A splat on the screen; all zero if it is not in front of the near plane.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ScreenSplat {
    /// Projected mean, px.
    pub mean2d: [f32; 2],
    /// Screen covariance `(a, b, c)` without the low-pass variance, px².
    pub cov2d: [f32; 3],
    /// Inverse of the screen covariance with the low-pass variance, `(A, B, C)`, 1/px².
    pub conic: [f32; 3],
    /// Depth in camera space, scene units.
    pub z: f32,
    /// Opacity; in antialiased mode after compensation.
    pub opacity: f32,
    /// The factor that antialiased mode applies to the opacity; computed in both modes.
    pub compensation: f32,
    /// Red, green, blue, clamped at 0.
    pub color: [f32; 3],
    /// Whether the splat is in front of the near plane.
    pub in_front: bool,
}

/// Gradients of a loss with respect to a [`ScreenSplat`].
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ScreenGradient {
    /// With respect to the projected mean.
    pub mean2d: [f32; 2],
    /// With respect to `(A, B, C)`, where B stands for both off-diagonal entries.
    pub conic: [f32; 3],
    /// With respect to the camera depth.
    pub z: f32,
    /// With respect to the opacity; in antialiased mode after compensation.
    pub opacity: f32,
    /// With respect to the clamped colour.
    pub color: [f32; 3],
}

/// The colour of a splat and the SH basis from which it is computed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ShColor {
    /// SH basis functions of the viewing direction; zero beyond the degree.
    pub basis: [f32; 16],
    /// Red, green, blue, clamped at 0.
    pub color: [f32; 3],
}

/// The shape of a splat in the world; matrices are row-major.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct WorldShape {
    /// `R(q / |q|)`.
    pub rotation: [f32; 9],
    /// `Σ = R diag(s²) Rᵀ`.
    pub covariance: [f32; 9],
}

/// Projects all splats of a view. Of the options, only SH degree and antialiasing are used.
#[must_use]
pub fn screen_splats(
    level: Level,
    splats: &Blocks,
    view: &KernelView,
    options: &RenderOptions,
) -> Vec<ScreenSplat> {
    let degree = options.sh_degree.min(splats.sh_degree());
    let mut out = Vec::with_capacity(splats.geometry.len() * LANES);
    for block in 0..splats.geometry.len() {
        out.extend(at_degree!(level, degree, simd => screen_block(splats, block, view, options.antialiased)));
    }
    out.truncate(splats.len());
    out
}

#[inline(always)]
fn screen_block<S: Simd, const DEGREE: u8>(
    simd: S,
    splats: &Blocks,
    block: usize,
    view: &KernelView,
    antialiased: bool,
) -> [ScreenSplat; LANES] {
    let g = Geometry::new(simd, Raw, &splats.geometry[block], view, antialiased);
    let shaded = color_block::<S, DEGREE>(simd, splats, block, view.origin);
    let low_pass = splat(simd, view.low_pass);
    let mean2d = lanes(g.projected.mean2d);
    let cov2d = lanes([g.cov[0] - low_pass, g.cov[1], g.cov[2] - low_pass]);
    let conic = lanes(g.conic());
    let scalars = lanes([g.projected.depth, g.opacity(), compensation(g.det_raw, g.inverse_det)]);
    let in_front = g.in_front(simd, view).to_bitmask();
    array_from_fn(
        #[inline(always)]
        |lane| {
            if in_front >> lane & 1 == 0 {
                return ScreenSplat::default();
            }
            let [z, opacity, compensation] = scalars[lane];
            ScreenSplat {
                mean2d: mean2d[lane],
                cov2d: cov2d[lane],
                conic: conic[lane],
                z,
                opacity,
                compensation,
                color: shaded[lane].color,
                in_front: true,
            }
        },
    )
}

/// Computes gradients of raw parameters and pose from gradients of the screen splats that are in front, by the stage
/// `project_vjp`.
///
/// The stage reads sums over pixels, so each splat gets the sums that correspond to these gradients: with `Σ` the
/// screen covariance, `Σ v d = Σ g_mean2d`, `Σ v d dᵀ = -2 g_conic` (half of it off the diagonal), `Σ v = o g_opacity`.
/// The detour through `Σ` rounds the gradient of the mean by about 1e-7 times the condition number of `Σ`.
///
/// # Panics
/// If the number of gradients is not the number of splats.
#[must_use]
pub fn screen_vjp(
    level: Level,
    splats: &Blocks,
    view: &KernelView,
    options: &RenderOptions,
    upstream: &[ScreenGradient],
) -> Gradients {
    assert_eq!(upstream.len(), splats.len(), "one gradient per splat");
    // Entry i belongs to splat i; for a splat that is not in front it holds zeros.
    let entries = splats.geometry.len() * LANES;
    let mut projected = Projected::default();
    projected.rects.resize(entries, TileRect { x0: 0, x1: 1, y0: 0, y1: 1 });
    projected.entry_offset.extend((0..entries).map(|i| (i % SPLATS_PER_CHUNK) as u32));
    projected.chunk_entry_base.extend((0..entries).step_by(SPLATS_PER_CHUNK).map(|i| i as u32));
    let mut sums =
        GradientSlots { slots: vec![GradientSlot::default(); entries], ..GradientSlots::default() };
    for (i, (s, g)) in screen_splats(level, splats, view, options).iter().zip(upstream).enumerate() {
        if s.in_front {
            sums.slots[i] = slot_of(view, s, g);
        }
    }
    let stages = (&projected, &sums);
    Gradients::compute(
        Exec { pool: &Pool::new(1), level },
        splats,
        options.sh_degree,
        options.antialiased,
        stages,
        view,
    )
}

fn slot_of(view: &KernelView, s: &ScreenSplat, g: &ScreenGradient) -> GradientSlot {
    let [a, b, c] = s.cov2d;
    let (a, c) = (a + view.low_pass, c + view.low_pass);
    let mut sums = GradientSlot::default();
    sums.0[slot::V] = s.opacity * g.opacity;
    sums.0[slot::VX] = a * g.mean2d[0] + b * g.mean2d[1];
    sums.0[slot::VY] = b * g.mean2d[0] + c * g.mean2d[1];
    sums.0[slot::VXX] = -2.0 * g.conic[0];
    sums.0[slot::VXY] = -g.conic[1];
    sums.0[slot::VYY] = -2.0 * g.conic[2];
    sums.0[slot::RED..slot::RED + 3].copy_from_slice(&g.color);
    sums.0[slot::DEPTH] = g.z;
    sums
}

/// Colours of all splats seen from a point, whether or not they are in front of a camera.
#[must_use]
pub fn sh_colors(level: Level, splats: &Blocks, origin: [f32; 3], sh_degree: u8) -> Vec<ShColor> {
    let degree = sh_degree.min(splats.sh_degree());
    let mut out = Vec::with_capacity(splats.geometry.len() * LANES);
    for block in 0..splats.geometry.len() {
        out.extend(at_degree!(level, degree, simd => color_block(splats, block, origin)));
    }
    out.truncate(splats.len());
    out
}

#[inline(always)]
fn color_block<S: Simd, const DEGREE: u8>(
    simd: S,
    splats: &Blocks,
    block: usize,
    origin: [f32; 3],
) -> [ShColor; LANES] {
    let direction = viewing_direction(simd, splats, block, origin);
    let beyond = basis::<S, DEGREE>(simd, direction.unit);
    let zero = splat(simd, 0.0);
    let color = colours::<S, DEGREE>(simd, &splats.geometry[block], splats.rest_rows_of(block), &beyond);
    let color = lanes(map_array(
        color,
        #[inline(always)]
        |c: f32x16<S>| c.max(zero),
    ));
    let beyond = lanes(beyond);
    array_from_fn(
        #[inline(always)]
        |lane| {
            let mut basis = [C0; 16];
            basis[1..].copy_from_slice(&beyond[lane]);
            ShColor { basis, color: color[lane] }
        },
    )
}

/// Computes gradients of SH coefficients and, through the viewing direction, of means from gradients of the colours of
/// [`sh_colors`]. Other parameters have none.
///
/// # Panics
/// If the number of gradients is not the number of splats.
#[must_use]
pub fn sh_vjp(
    level: Level,
    splats: &Blocks,
    origin: [f32; 3],
    sh_degree: u8,
    upstream: &[[f32; 3]],
) -> Blocks {
    assert_eq!(upstream.len(), splats.len(), "one gradient per splat");
    let degree = sh_degree.min(splats.sh_degree());
    let mut out = Blocks::zeros(splats.sh_degree(), splats.len());
    for block in 0..splats.geometry.len() {
        at_degree!(level, degree, simd => color_block_vjp(splats, block, origin, upstream, &mut out));
    }
    out
}

#[inline(always)]
fn color_block_vjp<S: Simd, const DEGREE: u8>(
    simd: S,
    splats: &Blocks,
    block: usize,
    origin: [f32; 3],
    upstream: &[[f32; 3]],
    out: &mut Blocks,
) {
    let direction = viewing_direction(simd, splats, block, origin);
    let geometry = &splats.geometry[block];
    let upstream = lane_rows(simd, upstream, block);
    let g = colour_gradient::<S, DEGREE>(simd, geometry, splats.rest_rows_of(block), &direction, upstream);
    for (k, (mean, dc)) in g.mean.into_iter().zip(g.coefficient_0(simd)).enumerate() {
        mean.store_array(&mut out.geometry[block][MEAN + k].0);
        dc.store_array(&mut out.geometry[block][DC + k].0);
    }
    g.store_rest::<DEGREE>(out.rest_rows_of_mut(block));
}

#[inline(always)]
fn viewing_direction<S: Simd>(simd: S, splats: &Blocks, block: usize, origin: [f32; 3]) -> ViewDirection<S> {
    let mean = array_from_fn(
        #[inline(always)]
        |k| load(simd, &splats.geometry[block][MEAN + k].0),
    );
    ViewDirection::new(simd, mean, origin)
}

/// Rotations and covariances of all splats in the world.
#[must_use]
pub fn world_shapes(level: Level, splats: &Blocks) -> Vec<WorldShape> {
    let mut out = Vec::with_capacity(splats.geometry.len() * LANES);
    for block in 0..splats.geometry.len() {
        out.extend(at_level!(level, simd => shape_block(simd, splats, block)));
    }
    out.truncate(splats.len());
    out
}

#[inline(always)]
fn shape_block<S: Simd>(simd: S, splats: &Blocks, block: usize) -> [WorldShape; LANES] {
    let shape = Shape::new(simd, Raw, &splats.geometry[block]);
    let variance = shape.variance();
    let r = &shape.rotation;
    let rotation = lanes::<S, 9>(array_from_fn(
        #[inline(always)]
        |i| r[i / 3][i % 3],
    ));
    let covariance = lanes::<S, 9>(array_from_fn(
        #[inline(always)]
        |i| {
            let scaled = array_from_fn(
                #[inline(always)]
                |k| r[i / 3][k] * variance[k],
            );
            dot3(scaled, r[i % 3])
        },
    ));
    array_from_fn(
        #[inline(always)]
        |lane| WorldShape { rotation: rotation[lane], covariance: covariance[lane] },
    )
}

/// Computes gradients of quaternions and log scales from gradients of the covariances of [`world_shapes`] (row-major,
/// not necessarily symmetric). Other parameters have none.
///
/// # Panics
/// If the number of gradients is not the number of splats.
#[must_use]
pub fn covariance_vjp(level: Level, splats: &Blocks, upstream: &[[f32; 9]]) -> Blocks {
    assert_eq!(upstream.len(), splats.len(), "one gradient per splat");
    let mut out = Blocks::zeros(splats.sh_degree(), splats.len());
    for block in 0..splats.geometry.len() {
        at_level!(level, simd => shape_block_vjp(simd, splats, block, upstream, &mut out));
    }
    out
}

#[inline(always)]
fn shape_block_vjp<S: Simd>(simd: S, splats: &Blocks, block: usize, upstream: &[[f32; 9]], out: &mut Blocks) {
    let shape = Shape::new(simd, Raw, &splats.geometry[block]);
    let w: [f32x16<S>; 9] = lane_rows(simd, upstream, block);
    let axes: [[f32x16<S>; 3]; 3] = array_from_fn(
        #[inline(always)]
        |k| [shape.rotation[0][k], shape.rotation[1][k], shape.rotation[2][k]],
    );
    // Columns of (W + Wᵀ) R; W + Wᵀ is twice the symmetric part, the 2 dL/dΣ of module `shape`.
    let turned: [[f32x16<S>; 3]; 3] = array_from_fn(
        #[inline(always)]
        |k| {
            array_from_fn(
                #[inline(always)]
                |i| dot3([w[3 * i] + w[i], w[3 * i + 1] + w[3 + i], w[3 * i + 2] + w[6 + i]], axes[k]),
            )
        },
    );
    let g = shape.gradient(
        simd,
        Raw,
        #[inline(always)]
        |i, j| dot3(axes[i], turned[j]),
    );
    for (k, value) in g.scale.into_iter().enumerate() {
        value.store_array(&mut out.geometry[block][LOG_SCALE + k].0);
    }
    for (k, value) in g.quat.into_iter().enumerate() {
        value.store_array(&mut out.geometry[block][QUAT + k].0);
    }
}

/// Values by lane.
#[inline(always)]
fn lanes<S: Simd, const N: usize>(rows: [f32x16<S>; N]) -> [[f32; N]; LANES] {
    let rows: [Row; N] = map_array(
        rows,
        #[inline(always)]
        |row: f32x16<S>| row.to_array(),
    );
    array_from_fn(
        #[inline(always)]
        |lane| {
            array_from_fn(
                #[inline(always)]
                |i| rows[i][lane],
            )
        },
    )
}
