//! The shape of a splat: standard deviations along its axes and their rotation, forward and backward.
//!
//! ```text
//! q̂ = q / |q|,  s = e^log_scale,  Σ = R(q̂) diag(s²) R(q̂)ᵀ
//! ```
//!
//! For a loss that depends on a splat's shape through Σ alone, let `H = Rᵀ (2 dL/dΣ) R` with `dL/dΣ` symmetric: the
//! gradient in the splat's own axes. The gradient of a scale is on the diagonal of `H`. That of a rotation about axis k
//! is the off-diagonal entry times the difference of the other two variances, which is exactly zero for a sphere:
//!
//! ```text
//! d log_scale_k = s_k² H_kk,  torque_k = H_ij (s_i² - s_j²) with k, i, j cyclic
//! ```

use fearless_simd::{f32x16, prelude::*};
use gausset_compute::simd::{array_from_fn, fma, inline_closure, load, map_array, splat};

use crate::form::Form;
use crate::layout::{GeometryBlock, LOG_SCALE, QUAT};

/// The shapes of a block.
#[derive(Clone, Copy)]
pub(crate) struct Shape<S: Simd> {
    /// Standard deviations.
    pub scale: [f32x16<S>; 3],
    /// Unit quaternion `wxyz`.
    pub unit_quat: [f32x16<S>; 4],
    /// `1 / |q|`.
    pub inverse_norm: f32x16<S>,
    /// Rotation of the splat, rows first.
    pub rotation: [[f32x16<S>; 3]; 3],
}

/// Gradients with respect to the stored parameters of a shape.
#[derive(Clone, Copy)]
pub(crate) struct ShapeGradient<S: Simd> {
    /// With respect to the log scales, or the scales if those are stored.
    pub scale: [f32x16<S>; 3],
    /// With respect to the stored quaternion.
    pub quat: [f32x16<S>; 4],
}

impl<S: Simd> Shape<S> {
    /// Computes the shapes from the parameters of a block.
    #[inline(always)]
    pub(crate) fn new(simd: S, form: impl Form, block: &GeometryBlock) -> Self {
        let row = inline_closure(
            #[inline(always)]
            |r: usize| load(simd, &block[r].0),
        );
        let q = [row(QUAT), row(QUAT + 1), row(QUAT + 2), row(QUAT + 3)];
        let norm2 = fma(q[3], q[3], fma(q[2], q[2], fma(q[1], q[1], q[0] * q[0])));
        let inverse_norm = splat(simd, 1.0) / norm2.sqrt().max(splat(simd, 1e-12));
        let unit_quat = map_array(
            q,
            #[inline(always)]
            |v| v * inverse_norm,
        );
        let scale = array_from_fn(
            #[inline(always)]
            |k| form.scale(simd, row(LOG_SCALE + k)),
        );
        Self { scale, unit_quat, inverse_norm, rotation: rotation_matrix(simd, unit_quat) }
    }

    /// `s²`.
    #[inline(always)]
    pub(crate) fn variance(&self) -> [f32x16<S>; 3] {
        map_array(
            self.scale,
            #[inline(always)]
            |s: f32x16<S>| s * s,
        )
    }

    /// Computes the gradients of the stored parameters from the entries `h(i, j)` of the symmetric matrix `H`.
    #[inline(always)]
    pub(crate) fn gradient(
        &self,
        simd: S,
        form: impl Form,
        h: impl Fn(usize, usize) -> f32x16<S>,
    ) -> ShapeGradient<S> {
        let variance = self.variance();
        let scale = array_from_fn(
            #[inline(always)]
            |k| form.scale_gradient(self.scale[k], h(k, k)),
        );
        let torque = [
            h(1, 2) * (variance[1] - variance[2]),
            h(0, 2) * (variance[2] - variance[0]),
            h(0, 1) * (variance[0] - variance[1]),
        ];
        let quat = quaternion_gradient(torque, self.unit_quat, splat(simd, 2.0) * self.inverse_norm);
        ShapeGradient { scale, quat }
    }
}

/// Rotation matrix of a unit quaternion `wxyz`.
#[inline(always)]
fn rotation_matrix<S: Simd>(simd: S, [w, x, y, z]: [f32x16<S>; 4]) -> [[f32x16<S>; 3]; 3] {
    let (one, two) = (splat(simd, 1.0), splat(simd, 2.0));
    let diagonal = inline_closure(
        #[inline(always)]
        |a: f32x16<S>, b: f32x16<S>| one - two * fma(a, a, b * b),
    );
    let (xy, xz, yz) = (x * y, x * z, y * z);
    let (wx, wy, wz) = (w * x, w * y, w * z);
    [
        [diagonal(y, z), two * (xy - wz), two * (xz + wy)],
        [two * (xy + wz), diagonal(x, z), two * (yz - wx)],
        [two * (xz - wy), two * (yz + wx), diagonal(x, y)],
    ]
}

/// Gradient with respect to a quaternion of any length from the torque in the splat's own axes: `2/|q| · q̂ ⊗ (0, τ)`.
///
/// A rotation by `ω` in the splat's axes maps `q̂` to `q̂ ⊗ (1, ω/2)`, so `ω = 2 vec(q̂* ⊗ dq̂)`; the gradient is
/// orthogonal to `q̂` by construction.
#[inline(always)]
fn quaternion_gradient<S: Simd>(
    [a, b, c]: [f32x16<S>; 3],
    [w, x, y, z]: [f32x16<S>; 4],
    factor: f32x16<S>,
) -> [f32x16<S>; 4] {
    [
        -(factor * fma(x, a, fma(y, b, z * c))),
        factor * fma(w, a, fma(y, c, -(z * b))),
        factor * fma(w, b, fma(z, a, -(x * c))),
        factor * fma(w, c, fma(x, b, -(y * a))),
    ]
}
