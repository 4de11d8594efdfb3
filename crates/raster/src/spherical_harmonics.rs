//! Spherical harmonics on 16 lanes: the basis, colours, and gradients of coefficients and means from those of colours.
//!
//! Degrees are compile-time constants, so that a kernel for degree 0 does no work for the others. Basis and signs as in
//! [`gausset_core::sh`].

use fearless_simd::{f32x16, prelude::*};
use gausset_compute::simd::{array_from_fn, fma, inline_closure, load, map_array, splat};
use gausset_core::sh;

use crate::geometry::{ViewDirection, dot3};
use crate::layout::{AlignedRow, DC, GeometryBlock};

const C1: f32 = sh::C1 as f32;
const C2: [f32; 5] =
    [sh::C2[0] as f32, sh::C2[1] as f32, sh::C2[2] as f32, sh::C2[3] as f32, sh::C2[4] as f32];
const C3: [f32; 7] = [
    sh::C3[0] as f32,
    sh::C3[1] as f32,
    sh::C3[2] as f32,
    sh::C3[3] as f32,
    sh::C3[4] as f32,
    sh::C3[5] as f32,
    sh::C3[6] as f32,
];
/// `Y_0`.
pub(crate) const C0: f32 = sh::C0 as f32;

/// `at_level!` for a kernel with the SH degree as its second parameter: a separate function for each degree.
macro_rules! at_degree {
    ($level:expr, $degree:expr, $simd:ident => $kernel:ident($($argument:expr),*)) => {
        match $degree {
            0 => gausset_compute::at_level!($level, $simd => $kernel::<_, 0>($simd, $($argument),*)),
            1 => gausset_compute::at_level!($level, $simd => $kernel::<_, 1>($simd, $($argument),*)),
            2 => gausset_compute::at_level!($level, $simd => $kernel::<_, 2>($simd, $($argument),*)),
            _ => gausset_compute::at_level!($level, $simd => $kernel::<_, 3>($simd, $($argument),*)),
        }
    };
}
pub(crate) use at_degree;

/// Number of coefficients beyond the first that a degree uses.
pub(crate) const fn rest_coefficients(degree: u8) -> usize {
    sh::coefficients(degree) - 1
}

/// `Y_1 ..` for a unit direction; entries beyond the degree are zero.
#[inline(always)]
pub(crate) fn basis<S: Simd, const DEGREE: u8>(simd: S, [x, y, z]: [f32x16<S>; 3]) -> [f32x16<S>; 15] {
    let c = inline_closure(
        #[inline(always)]
        |v: f32| splat(simd, v),
    );
    let mut b = [c(0.0); 15];
    if DEGREE >= 1 {
        b[0] = c(-C1) * y;
        b[1] = c(C1) * z;
        b[2] = c(-C1) * x;
    }
    if DEGREE >= 2 {
        let (xx, yy, zz) = (x * x, y * y, z * z);
        b[3] = c(C2[0]) * (x * y);
        b[4] = c(C2[1]) * (y * z);
        b[5] = c(C2[2]) * (fma(c(3.0), zz, c(-1.0)));
        b[6] = c(C2[3]) * (x * z);
        b[7] = c(C2[4]) * (xx - yy);
        if DEGREE >= 3 {
            let five_zz = c(5.0) * zz;
            b[8] = c(C3[0]) * y * (fma(c(3.0), xx, -yy));
            b[9] = c(C3[1]) * (x * y) * z;
            b[10] = c(C3[2]) * y * (five_zz - c(1.0));
            b[11] = c(C3[3]) * z * (five_zz - c(3.0));
            b[12] = c(C3[4]) * x * (five_zz - c(1.0));
            b[13] = c(C3[5]) * z * (xx - yy);
            b[14] = c(C3[6]) * x * (fma(c(-3.0), yy, xx));
        }
    }
    b
}

/// `Σ_k weight_k ∂Y_k/∂(x, y, z)` over the coefficients beyond the first.
///
/// The basis is written as polynomials in the *unit* direction; the caller projects the result onto the sphere.
#[inline(always)]
fn basis_gradient<S: Simd, const DEGREE: u8>(
    simd: S,
    [x, y, z]: [f32x16<S>; 3],
    w: &[f32x16<S>; 15],
) -> [f32x16<S>; 3] {
    let c = inline_closure(
        #[inline(always)]
        |v: f32| splat(simd, v),
    );
    let mut g = [c(0.0); 3];
    if DEGREE >= 1 {
        g = [c(-C1) * w[2], c(-C1) * w[0], c(C1) * w[1]];
    }
    if DEGREE >= 2 {
        let [w4, w5, w6, w7, w8] =
            [c(C2[0]) * w[3], c(C2[1]) * w[4], c(6.0 * C2[2]) * w[5], c(C2[3]) * w[6], c(2.0 * C2[4]) * w[7]];
        g[0] += fma(w4, y, fma(w7, z, w8 * x));
        g[1] += fma(w4, x, fma(w5, z, -(w8 * y)));
        g[2] += fma(w5, y, fma(w6, z, w7 * x));
    }
    if DEGREE >= 3 {
        let (xx, yy, zz) = (x * x, y * y, z * z);
        let (xy, xz, yz) = (x * y, x * z, y * z);
        let v: [f32x16<S>; 7] = array_from_fn(
            #[inline(always)]
            |k| c(C3[k]) * w[8 + k],
        );
        let five_zz_less_one = fma(c(5.0), zz, c(-1.0));
        let xx_less_yy = xx - yy;
        let six = c(6.0);
        let ten = c(10.0);
        // Y_9 = y(3xx - yy), Y_10 = xyz, Y_11 = y(5zz - 1), Y_12 = z(5zz - 3), Y_13 = x(5zz - 1),
        // Y_14 = z(xx - yy), Y_15 = x(xx - 3yy).
        g[0] += v[0] * (six * xy)
            + v[1] * yz
            + v[4] * five_zz_less_one
            + v[5] * (c(2.0) * xz)
            + v[6] * (c(3.0) * xx_less_yy);
        g[1] += v[0] * (c(3.0) * xx_less_yy) + v[1] * xz + v[2] * five_zz_less_one
            - v[5] * (c(2.0) * yz)
            - v[6] * (six * xy);
        g[2] += v[1] * xy
            + v[2] * (ten * yz)
            + v[3] * fma(c(15.0), zz, c(-3.0))
            + v[4] * (ten * xz)
            + v[5] * xx_less_yy;
    }
    g
}

/// Colours before the clamp at zero: `0.5 + Σ_k Y_k sh[k]` per channel.
#[inline(always)]
pub(crate) fn colours<S: Simd, const DEGREE: u8>(
    simd: S,
    block: &GeometryBlock,
    rest: &[AlignedRow],
    basis: &[f32x16<S>; 15],
) -> [f32x16<S>; 3] {
    colours_above::<S, DEGREE>(simd, 0.5, block, rest, basis)
}

/// `offset + Σ_k Y_k sh[k]` per channel.
#[inline(always)]
pub(crate) fn colours_above<S: Simd, const DEGREE: u8>(
    simd: S,
    offset: f32,
    block: &GeometryBlock,
    rest: &[AlignedRow],
    basis: &[f32x16<S>; 15],
) -> [f32x16<S>; 3] {
    let offset = splat(simd, offset);
    let mut colour: [f32x16<S>; 3] = array_from_fn(
        #[inline(always)]
        |c| fma(splat(simd, C0), load(simd, &block[DC + c].0), offset),
    );
    for (k, rows) in rest.chunks_exact(3).take(rest_coefficients(DEGREE)).enumerate() {
        for (c, row) in rows.iter().enumerate() {
            colour[c] = fma(basis[k], load(simd, &row.0), colour[c]);
        }
    }
    colour
}

/// Gradients of a block's SH coefficients, and of its means through the viewing direction.
#[derive(Clone, Copy)]
pub(crate) struct ColourGradient<S: Simd> {
    /// `dL/d colour` before the clamp at zero; the gradient of coefficient k is `Y_k · colour`.
    pub colour: [f32x16<S>; 3],
    /// `Y_1 ..`.
    pub basis: [f32x16<S>; 15],
    /// `dL/d mean` through the viewing direction.
    pub mean: [f32x16<S>; 3],
}

impl<S: Simd> ColourGradient<S> {
    /// Gradient of coefficient 0.
    #[inline(always)]
    pub(crate) fn coefficient_0(&self, simd: S) -> [f32x16<S>; 3] {
        map_array(
            self.colour,
            #[inline(always)]
            |c| c * splat(simd, C0),
        )
    }

    /// Gradient of coefficient `k + 1` of a channel.
    #[inline(always)]
    pub(crate) fn rest(&self, k: usize, channel: usize) -> f32x16<S> {
        self.basis[k] * self.colour[channel]
    }

    /// Writes the gradients of the coefficients beyond the first that the degree uses.
    #[inline(always)]
    pub(crate) fn store_rest<const DEGREE: u8>(&self, rest: &mut [AlignedRow]) {
        for (k, rows) in rest.chunks_exact_mut(3).take(rest_coefficients(DEGREE)).enumerate() {
            for (c, row) in rows.iter_mut().enumerate() {
                self.rest(k, c).store_array(&mut row.0);
            }
        }
    }
}

/// Computes gradients of coefficients and means from gradients of the clamped colours.
#[inline(always)]
pub(crate) fn colour_gradient<S: Simd, const DEGREE: u8>(
    simd: S,
    block: &GeometryBlock,
    rest: &[AlignedRow],
    direction: &ViewDirection<S>,
    upstream: [f32x16<S>; 3],
) -> ColourGradient<S> {
    let zero = splat(simd, 0.0);
    let y = basis::<S, DEGREE>(simd, direction.unit);
    let value = colours::<S, DEGREE>(simd, block, rest, &y);
    let colour: [f32x16<S>; 3] = array_from_fn(
        #[inline(always)]
        |c| value[c].simd_gt(zero).select(upstream[c], zero),
    );
    coefficient_gradient::<S, DEGREE>(simd, y, rest, direction, colour)
}

/// Computes gradients of coefficients and means from gradients `colour` of the colours before the clamp.
#[inline(always)]
pub(crate) fn coefficient_gradient<S: Simd, const DEGREE: u8>(
    simd: S,
    y: [f32x16<S>; 15],
    rest: &[AlignedRow],
    direction: &ViewDirection<S>,
    colour: [f32x16<S>; 3],
) -> ColourGradient<S> {
    let zero = splat(simd, 0.0);
    let mut mean = [zero; 3];
    if DEGREE > 0 {
        let mut weights = [zero; 15];
        for (k, rows) in rest.chunks_exact(3).take(rest_coefficients(DEGREE)).enumerate() {
            weights[k] =
                dot3([load(simd, &rows[0].0), load(simd, &rows[1].0), load(simd, &rows[2].0)], colour);
        }
        let e = basis_gradient::<S, DEGREE>(simd, direction.unit, &weights);
        let along = dot3(e, direction.unit);
        mean = array_from_fn(
            #[inline(always)]
            |k| (e[k] - along * direction.unit[k]) * direction.inverse_length,
        );
    }
    ColourGradient { colour, basis: y, mean }
}
