//! The projection of a block of splats by a camera: projected means, the Jacobian J there, and their gradients.
//!
//! | | depth | mean2d | J |
//! |---|---|---|---|
//! | pinhole | z | `(fx x/z + cx, fy y/z + cy)` | `[fx/z  0  -fx tx/z ;  0  fy/z  -fy ty/z]`, tx and ty clamped near the image |
//! | panorama | n | `(fx atan2(x, z) + cx, fy atan2(y, ρ) + cy)` | `[fx z/ρ²  0  -fx x/ρ² ;  -fy xy/(ρn²)  fy ρ/n²  -fy yz/(ρn²)]` |
//!
//! with `ρ² = x² + z²`, `n² = ρ² + y²`, and ρ in J at least 1e-3 n. The formulas are defined in `project` of
//! `gausset-reference`.
//!
//! A block takes one branch. The panorama is computed in a separate function, so that the code of the pinhole compiles
//! as if it were alone.

use fearless_simd::{f32x16, mask32x16, prelude::*};
use gausset_compute::simd::{array_from_fn, atan2, fma, fnma, inline_closure, splat};
use gausset_core::Projection;
use gausset_core::constants::POLE_RATIO;

use crate::geometry::{dot3, dot3s};
use crate::view::KernelView;

/// The entries of J that are not 0 in every projection.
#[derive(Clone, Copy)]
pub(crate) struct Jacobian<S: Simd> {
    pub j00: f32x16<S>,
    pub j02: f32x16<S>,
    /// 0 for a pinhole.
    pub j10: f32x16<S>,
    pub j11: f32x16<S>,
    pub j12: f32x16<S>,
}

/// A block of projected points.
#[derive(Clone, Copy)]
pub(crate) struct ProjectedBlock<S: Simd> {
    /// Projected mean in px; for a panorama within one period around its principal point.
    pub mean2d: [f32x16<S>; 2],
    /// Depth, which orders the splats.
    pub depth: f32x16<S>,
    /// J: derivative of the screen position with respect to the camera-space point.
    pub jacobian: Jacobian<S>,
    /// `1 / depth`.
    inverse_depth: f32x16<S>,
    /// `x/z`, `y/z` as clamped for J; for a panorama, ρ as bounded for J, and the true ρ.
    bounded: [f32x16<S>; 2],
    /// Lanes in which the bound is not active.
    is_unbounded: [mask32x16<S>; 2],
}

/// Gradients of a loss with respect to the projected block.
pub(crate) struct ProjectedGradient<'a, S: Simd> {
    pub mean2d: [f32x16<S>; 2],
    pub depth: f32x16<S>,
    /// With respect to `T = J R`.
    pub t: &'a [[f32x16<S>; 3]; 2],
}

impl<S: Simd> ProjectedBlock<S> {
    /// Projects points in camera axes.
    #[inline(always)]
    pub(crate) fn new(simd: S, view: &KernelView, point: [f32x16<S>; 3]) -> Self {
        match view.projection {
            Projection::Pinhole => Self::pinhole(simd, view, point),
            Projection::Equirectangular => simd.vectorize(
                #[inline(always)]
                || Self::panorama(simd, view, point),
            ),
        }
    }

    #[inline(always)]
    fn pinhole(simd: S, view: &KernelView, point: [f32x16<S>; 3]) -> Self {
        let inverse_z = splat(simd, 1.0) / point[2];
        let free = [point[0] * inverse_z, point[1] * inverse_z];
        let clamp = inline_closure(
            #[inline(always)]
            |v: f32x16<S>, [low, high]: [f32; 2]| {
                let (low, high) = (splat(simd, low), splat(simd, high));
                (v.max(low).min(high), v.simd_ge(low) & v.simd_le(high))
            },
        );
        let (rx, free_x) = clamp(free[0], view.jacobian_range_x);
        let (ry, free_y) = clamp(free[1], view.jacobian_range_y);
        let j00 = splat(simd, view.focal[0]) * inverse_z;
        let j11 = splat(simd, view.focal[1]) * inverse_z;
        Self {
            mean2d: [
                fma(splat(simd, view.focal[0]), free[0], splat(simd, view.centre[0])),
                fma(splat(simd, view.focal[1]), free[1], splat(simd, view.centre[1])),
            ],
            depth: point[2],
            jacobian: Jacobian { j00, j02: -(j00 * rx), j10: splat(simd, 0.0), j11, j12: -(j11 * ry) },
            inverse_depth: inverse_z,
            bounded: [rx, ry],
            is_unbounded: [free_x, free_y],
        }
    }

    #[inline(always)]
    fn panorama(simd: S, view: &KernelView, [x, y, z]: [f32x16<S>; 3]) -> Self {
        let one = splat(simd, 1.0);
        let [fx, fy] = view.focal.map(|f| splat(simd, f));
        let true_rho2 = fma(x, x, z * z);
        let n2 = fma(y, y, true_rho2);
        let (true_rho, n) = (true_rho2.sqrt(), n2.sqrt());
        let least = n * splat(simd, POLE_RATIO);
        let rho = true_rho.max(least);
        let (across, down) = (fx / (rho * rho), fy / n2);
        let over = down / rho;
        let jacobian = Jacobian {
            j00: across * z,
            j02: -(across * x),
            j10: -(over * x * y),
            j11: down * rho,
            j12: -(over * y * z),
        };
        Self {
            mean2d: [
                fma(fx, atan2(simd, x, z), splat(simd, view.centre[0])),
                fma(fy, atan2(simd, y, true_rho), splat(simd, view.centre[1])),
            ],
            depth: n,
            jacobian,
            inverse_depth: one / n,
            bounded: [rho, true_rho],
            is_unbounded: [true_rho.simd_ge(least); 2],
        }
    }

    /// `T = J R`.
    #[inline(always)]
    pub(crate) fn screen_from_world(&self, simd: S, view: &KernelView) -> [[f32x16<S>; 3]; 2] {
        let (j, r) = (&self.jacobian, &view.rotation);
        let across = array_from_fn(
            #[inline(always)]
            |k| fma(j.j02, splat(simd, r[2][k]), j.j00 * splat(simd, r[0][k])),
        );
        let mut down = array_from_fn(
            #[inline(always)]
            |k| fma(j.j12, splat(simd, r[2][k]), j.j11 * splat(simd, r[1][k])),
        );
        if view.projection == Projection::Equirectangular {
            down = array_from_fn(
                #[inline(always)]
                |k| fma(j.j10, splat(simd, r[0][k]), down[k]),
            );
        }
        [across, down]
    }

    /// Gradient with respect to the points.
    #[inline(always)]
    pub(crate) fn point_gradient(
        &self,
        simd: S,
        view: &KernelView,
        point: [f32x16<S>; 3],
        gradient: &ProjectedGradient<'_, S>,
    ) -> [f32x16<S>; 3] {
        match view.projection {
            Projection::Pinhole => self.pinhole_gradient(simd, view, point, gradient),
            Projection::Equirectangular => simd.vectorize(
                #[inline(always)]
                || self.panorama_gradient(simd, view, point, gradient),
            ),
        }
    }

    #[inline(always)]
    fn pinhole_gradient(
        &self,
        simd: S,
        view: &KernelView,
        point: [f32x16<S>; 3],
        gradient: &ProjectedGradient<'_, S>,
    ) -> [f32x16<S>; 3] {
        let zero = splat(simd, 0.0);
        let (w, d_t, mean2d) = (&view.rotation, gradient.t, gradient.mean2d);
        let (d_j00, d_j02) = (dot3s(simd, w[0], d_t[0]), dot3s(simd, w[2], d_t[0]));
        let (d_j11, d_j12) = (dot3s(simd, w[1], d_t[1]), dot3s(simd, w[2], d_t[1]));
        let Jacobian { j00, j11, .. } = self.jacobian;
        let inverse_z = self.inverse_depth;
        let [rx, ry] = self.bounded;
        let mut d_z = -(inverse_z * (j00 * fma(-rx, d_j02, d_j00) + j11 * fma(-ry, d_j12, d_j11)));
        let d_rx = self.is_unbounded[0].select(-(j00 * d_j02), zero);
        let d_ry = self.is_unbounded[1].select(-(j11 * d_j12), zero);
        let d_x = fma(d_rx, inverse_z, mean2d[0] * j00);
        let d_y = fma(d_ry, inverse_z, mean2d[1] * j11);
        d_z -= inverse_z * fma(d_rx, rx, d_ry * ry);
        let free = [point[0] * inverse_z, point[1] * inverse_z];
        d_z -= fma(mean2d[0] * j00, free[0], mean2d[1] * j11 * free[1]);
        d_z += gradient.depth;
        [d_x, d_y, d_z]
    }

    /// Differentiates J as a function of the point, ρ and n; the gradient of the mean is propagated through J itself.
    #[inline(always)]
    fn panorama_gradient(
        &self,
        simd: S,
        view: &KernelView,
        point @ [x, y, z]: [f32x16<S>; 3],
        gradient: &ProjectedGradient<'_, S>,
    ) -> [f32x16<S>; 3] {
        let (zero, two) = (splat(simd, 0.0), splat(simd, 2.0));
        let (w, d_t) = (&view.rotation, gradient.t);
        let (d00, d02) = (dot3s(simd, w[0], d_t[0]), dot3s(simd, w[2], d_t[0]));
        let d1: [f32x16<S>; 3] = array_from_fn(
            #[inline(always)]
            |k| dot3s(simd, w[k], d_t[1]),
        );
        let Jacobian { j00, j02, j10, j11, j12 } = self.jacobian;
        let ([rho, true_rho], inverse_n) = (self.bounded, self.inverse_depth);
        let inverse_rho = splat(simd, 1.0) / rho;
        let across = splat(simd, view.focal[0]) * (inverse_rho * inverse_rho);
        let down = splat(simd, view.focal[1]) * (inverse_rho * inverse_n * inverse_n);

        let of_latitude = fma(j10, d1[0], j12 * d1[2]);
        let of_longitude = fma(j00, d00, j02 * d02);
        let d_rho = inverse_rho * (fnma(two, of_longitude, j11 * d1[1]) - of_latitude);
        let d_n = fnma(two * inverse_n, fma(j11, d1[1], of_latitude), gradient.depth);
        let is_free = self.is_unbounded[0];
        let d_n = is_free.select(d_n, fma(splat(simd, POLE_RATIO), d_rho, d_n));
        let by_rho = is_free.select(d_rho / true_rho, zero);
        let by_n = d_n * inverse_n;
        let by_axis = by_rho + by_n;
        let [du, dv] = gradient.mean2d;
        let direct = [
            -fma(across, d02, down * y * d1[0]),
            -(down * dot3([x, z, zero], [d1[0], d1[2], zero])),
            fnma(down * y, d1[2], across * d00),
        ];
        [
            fma(point[0], by_axis, direct[0]) + fma(du, j00, dv * j10),
            fma(point[1], by_n, direct[1]) + dv * j11,
            fma(point[2], by_axis, direct[2]) + fma(du, j02, dv * j12),
        ]
    }
}
