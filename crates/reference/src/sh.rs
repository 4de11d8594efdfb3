//! Colour from spherical harmonics: `max(0.5 + Σ_k sh[k] Y_k(direction), 0)` per channel (README, section 2).

use gausset_core::se3::{dot, norm};
use gausset_core::sh::{C1, C2, C3, basis, coefficients};

/// Colour seen along a *unit* direction; only the coefficients `k < (degree + 1)²` are used.
#[must_use]
pub fn color(sh: &[[f64; 3]], degree: u8, direction: [f64; 3]) -> [f64; 3] {
    unclamped_color(sh, degree, direction).map(|v| v.max(0.0))
}

/// The colour before the clamp at 0.
#[must_use]
pub fn unclamped_color(sh: &[[f64; 3]], degree: u8, direction: [f64; 3]) -> [f64; 3] {
    let y = basis(direction);
    let mut color = [0.5; 3];
    for k in 0..coefficients(degree) {
        for channel in 0..3 {
            color[channel] += sh[k][channel] * y[k];
        }
    }
    color
}

/// Gradient of [`color`]: adds to `d_sh` and returns the gradient with respect to the *unit* direction, with its three
/// components treated as independent. A clamped channel has no gradient.
#[must_use]
pub fn color_vjp(
    sh: &[[f64; 3]],
    degree: u8,
    direction: [f64; 3],
    d_color: [f64; 3],
    d_sh: &mut [[f64; 3]],
) -> [f64; 3] {
    let unclamped = unclamped_color(sh, degree, direction);
    let g: [f64; 3] = std::array::from_fn(|c| if unclamped[c] > 0.0 { d_color[c] } else { 0.0 });
    let y = basis(direction);
    let dy = basis_gradient(direction);
    let mut d_direction = [0.0; 3];
    for k in 0..coefficients(degree) {
        let d_basis = dot(sh[k], g);
        for axis in 0..3 {
            d_sh[k][axis] += y[k] * g[axis];
            d_direction[axis] += dy[k][axis] * d_basis;
        }
    }
    d_direction
}

/// The unit direction of `v`, and its length.
#[must_use]
pub fn direction(v: [f64; 3]) -> ([f64; 3], f64) {
    let length = norm(v);
    (v.map(|x| x / length), length)
}

/// Gradient of [`direction`] with respect to `v`: `(g - d (d·g)) / |v|`.
#[must_use]
pub fn direction_vjp(v: [f64; 3], d_direction: [f64; 3]) -> [f64; 3] {
    let (d, length) = direction(v);
    let radial = dot(d, d_direction);
    std::array::from_fn(|axis| (d_direction[axis] - d[axis] * radial) / length)
}

/// `∂Y_k/∂(x, y, z)` of the polynomials that `core::sh::basis` evaluates.
#[must_use]
pub fn basis_gradient([x, y, z]: [f64; 3]) -> [[f64; 3]; 16] {
    let (xx, yy, zz) = (x * x, y * y, z * z);
    [
        [0.0, 0.0, 0.0],
        [0.0, -C1, 0.0],
        [0.0, 0.0, C1],
        [-C1, 0.0, 0.0],
        [C2[0] * y, C2[0] * x, 0.0],
        [0.0, C2[1] * z, C2[1] * y],
        [0.0, 0.0, C2[2] * 6.0 * z],
        [C2[3] * z, 0.0, C2[3] * x],
        [C2[4] * 2.0 * x, C2[4] * -2.0 * y, 0.0],
        [C3[0] * 6.0 * x * y, C3[0] * 3.0 * (xx - yy), 0.0],
        [C3[1] * y * z, C3[1] * x * z, C3[1] * x * y],
        [0.0, C3[2] * (5.0 * zz - 1.0), C3[2] * 10.0 * y * z],
        [0.0, 0.0, C3[3] * (15.0 * zz - 3.0)],
        [C3[4] * (5.0 * zz - 1.0), 0.0, C3[4] * 10.0 * x * z],
        [C3[5] * 2.0 * x * z, C3[5] * -2.0 * y * z, C3[5] * (xx - yy)],
        [C3[6] * 3.0 * (xx - yy), C3[6] * -6.0 * x * y, 0.0],
    ]
}
