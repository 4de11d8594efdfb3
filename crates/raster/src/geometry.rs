//! The projection of a block of splats: the chain from parameters to the screen, lane by lane.
//!
//! Shared by the forward projection and its VJP, which recomputes it instead of storing it. Formulas: EWA splatting
//! (Zwicker et al. 2001) as in Kerbl et al. 2023, with the conventions of the fixtures, section 2:
//!
//! ```text
//! p = R m + t,  M = R(q) diag(e^s),  T = J R,  U = T M,  cov = U Uᵀ,  det = (a + ε)(c + ε) - b²
//! ```
//!
//! `a c - b²` is computed as `|U_0 × U_1|²` (Lagrange's identity), which does not cancel for thin splats; then
//! `det = |U_0 × U_1|² + ε (a + c) + ε²`.

use fearless_simd::{f32x16, mask32x16, prelude::*};
use gausset_compute::simd::{array_from_fn, fma, inline_closure, load, map_array, splat};

use crate::form::Form;
use crate::layout::{GeometryBlock, LOGIT, MEAN};
use crate::projected_block::ProjectedBlock;
use crate::shape::Shape;
use crate::view::KernelView;

/// Everything between parameters and screen splats that forward and VJP use.
#[derive(Clone, Copy)]
pub(crate) struct Geometry<S: Simd> {
    /// Mean in the world.
    pub mean: [f32x16<S>; 3],
    /// Standard deviations and rotation.
    pub shape: Shape<S>,
    /// Mean in camera axes.
    pub point: [f32x16<S>; 3],
    /// The point projected by the camera.
    pub projected: ProjectedBlock<S>,
    /// `V = T R(q)`, 2x3: the splat's axes on the screen before scaling.
    pub v: [[f32x16<S>; 3]; 2],
    /// Screen covariance `(a, b, c)` with the low-pass variance in `a` and `c`.
    pub cov: [f32x16<S>; 3],
    /// `a c - b²` before the low-pass variance.
    pub det_raw: f32x16<S>,
    /// `1 / det`.
    pub inverse_det: f32x16<S>,
    /// Opacity before compensation.
    pub opacity_raw: f32x16<S>,
    /// `sqrt(det_raw / det)`, at least that of the view, in antialiased mode; else 1.
    pub compensation: f32x16<S>,
}

/// `aᵀ b` of 3-vectors.
#[inline(always)]
pub(crate) fn dot3<S: Simd>(a: [f32x16<S>; 3], b: [f32x16<S>; 3]) -> f32x16<S> {
    fma(a[2], b[2], fma(a[1], b[1], a[0] * b[0]))
}

/// `s · v` for a constant 3-vector `s`.
#[inline(always)]
pub(crate) fn dot3s<S: Simd>(simd: S, s: [f32; 3], v: [f32x16<S>; 3]) -> f32x16<S> {
    fma(splat(simd, s[2]), v[2], fma(splat(simd, s[1]), v[1], splat(simd, s[0]) * v[0]))
}

impl<S: Simd> Geometry<S> {
    /// Computes the chain for a block.
    #[inline(always)]
    pub(crate) fn new(
        simd: S,
        form: impl Form,
        block: &GeometryBlock,
        view: &KernelView,
        antialiased: bool,
    ) -> Self {
        let row = inline_closure(
            #[inline(always)]
            |r: usize| load(simd, &block[r].0),
        );
        let one = splat(simd, 1.0);

        let mean = [row(MEAN), row(MEAN + 1), row(MEAN + 2)];
        let r = &view.rotation;
        let point: [f32x16<S>; 3] = array_from_fn(
            #[inline(always)]
            |i| dot3s(simd, r[i], mean) + splat(simd, view.translation[i]),
        );
        let shape = Shape::new(simd, form, block);
        let rotation = &shape.rotation;

        let lens = ProjectedBlock::new(simd, view, point);
        let t = lens.screen_from_world(simd, view);
        let column = inline_closure(
            #[inline(always)]
            |k: usize| [rotation[0][k], rotation[1][k], rotation[2][k]],
        );
        let v: [[f32x16<S>; 3]; 2] = map_array(
            t,
            #[inline(always)]
            |row: [f32x16<S>; 3]| {
                array_from_fn(
                    #[inline(always)]
                    |k| dot3(row, column(k)),
                )
            },
        );
        let u: [[f32x16<S>; 3]; 2] = map_array(
            v,
            #[inline(always)]
            |row: [f32x16<S>; 3]| {
                array_from_fn(
                    #[inline(always)]
                    |k| row[k] * shape.scale[k],
                )
            },
        );

        let (a, b, c) = (dot3(u[0], u[0]), dot3(u[0], u[1]), dot3(u[1], u[1]));
        let cross = [
            fma(u[0][1], u[1][2], -(u[0][2] * u[1][1])),
            fma(u[0][2], u[1][0], -(u[0][0] * u[1][2])),
            fma(u[0][0], u[1][1], -(u[0][1] * u[1][0])),
        ];
        let det_raw = dot3(cross, cross);
        let eps = splat(simd, view.low_pass);
        let det = fma(eps, a + c + eps, det_raw);
        let inverse_det = one / det;

        let opacity_raw = form.opacity(simd, row(LOGIT));
        let compensation = if antialiased {
            compensation(det_raw, inverse_det).max(splat(simd, view.min_compensation))
        } else {
            one
        };
        Self {
            mean,
            shape,
            point,
            projected: lens,
            v,
            cov: [a + eps, b, c + eps],
            det_raw,
            inverse_det,
            opacity_raw,
            compensation,
        }
    }

    /// Which splats are between the near and the far plane of the view.
    #[inline(always)]
    pub(crate) fn in_front(&self, simd: S, view: &KernelView) -> mask32x16<S> {
        let depth = self.projected.depth;
        depth.simd_gt(splat(simd, view.near_plane)) & depth.simd_lt(splat(simd, view.far_plane))
    }

    /// Opacity after compensation.
    #[inline(always)]
    pub(crate) fn opacity(&self) -> f32x16<S> {
        self.opacity_raw * self.compensation
    }

    /// Inverse screen covariance `(A, B, C)` = `(c, -b, a) / det`.
    #[inline(always)]
    pub(crate) fn conic(&self) -> [f32x16<S>; 3] {
        [self.cov[2] * self.inverse_det, -(self.cov[1] * self.inverse_det), self.cov[0] * self.inverse_det]
    }
}

/// The factor on the opacity in antialiased mode, which compensates for the low-pass filter: `sqrt(det_raw / det)`.
#[inline(always)]
pub(crate) fn compensation<S: Simd>(det_raw: f32x16<S>, inverse_det: f32x16<S>) -> f32x16<S> {
    (det_raw * inverse_det).sqrt()
}

/// The viewing direction from the camera to a splat.
#[derive(Clone, Copy)]
pub(crate) struct ViewDirection<S: Simd> {
    /// Unit vector.
    pub unit: [f32x16<S>; 3],
    /// One over its length before normalisation.
    pub inverse_length: f32x16<S>,
}

impl<S: Simd> ViewDirection<S> {
    /// From the camera centre to the means.
    #[inline(always)]
    pub(crate) fn new(simd: S, mean: [f32x16<S>; 3], origin: [f32; 3]) -> Self {
        let d: [f32x16<S>; 3] = array_from_fn(
            #[inline(always)]
            |k| mean[k] - splat(simd, origin[k]),
        );
        // A splat on the camera centre is behind the near plane; the guard only keeps its lane finite.
        let inverse_length = splat(simd, 1.0) / dot3(d, d).max(splat(simd, 1e-30)).sqrt();
        Self {
            unit: map_array(
                d,
                #[inline(always)]
                |v| v * inverse_length,
            ),
            inverse_length,
        }
    }
}
