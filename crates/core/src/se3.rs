//! The exponential map of SE(3), its adjoint and gradients with respect to twists, in f64. Re-exports the matrices of
//! [`crate::matrix`].
//!
//! A twist is `(rho, phi)`, translation first, and acts from the left: `exp(xi^) · camera_from_world`, so that to
//! first order a camera-space point moves by `rho + phi × p` (fixtures, section 5).

pub use crate::matrix::*;
use crate::pose::Pose;

/// The matrix `[v]×` of the cross product: `[v]× w = v × w`.
#[must_use]
pub fn skew(v: [f64; 3]) -> Mat3 {
    [[0.0, -v[2], v[1]], [v[2], 0.0, -v[0]], [-v[1], v[0], 0.0]]
}

/// `(sin θ/θ, (1 - cos θ)/θ², (θ - sin θ)/θ³)` with series near zero.
fn exponential_coefficients(theta: f64) -> [f64; 3] {
    let t2 = theta * theta;
    if theta < 1e-3 {
        [1.0 - t2 / 6.0, 0.5 - t2 / 24.0, 1.0 / 6.0 - t2 / 120.0]
    } else {
        let (s, c) = (libm::sin(theta), libm::cos(theta));
        [s / theta, (1.0 - c) / t2, (theta - s) / (t2 * theta)]
    }
}

/// `I + a·[v]× + b·[v]×²`.
fn rodrigues(v: [f64; 3], a: f64, b: f64) -> Mat3 {
    let k = skew(v);
    let k2 = mul(&k, &k);
    std::array::from_fn(|i| std::array::from_fn(|j| IDENTITY3[i][j] + a * k[i][j] + b * k2[i][j]))
}

/// Rotation by the axis-angle vector `phi`.
#[must_use]
pub fn so3_exp(phi: [f64; 3]) -> Mat3 {
    let [a, b, _] = exponential_coefficients(norm(phi));
    rodrigues(phi, a, b)
}

/// Left Jacobian of SO(3).
#[must_use]
pub fn so3_left_jacobian(phi: [f64; 3]) -> Mat3 {
    let [_, b, c] = exponential_coefficients(norm(phi));
    rodrigues(phi, b, c)
}

/// `exp(xi^)` of a twist `(rho, phi)`.
///
/// ```
/// use gausset_core::se3;
///
/// // Without rotation, the twist is the translation.
/// assert_eq!(se3::exp([1.0, 2.0, 3.0, 0.0, 0.0, 0.0]).translation, [1.0, 2.0, 3.0]);
/// // A rotation by 90 degrees about z maps x to y.
/// let y = se3::exp([0.0, 0.0, 0.0, 0.0, 0.0, std::f64::consts::FRAC_PI_2]).apply([1.0, 0.0, 0.0]);
/// assert!(y[0].abs() < 1e-15 && (y[1] - 1.0).abs() < 1e-15);
/// ```
#[must_use]
pub fn exp(twist: [f64; 6]) -> Pose {
    let rho = [twist[0], twist[1], twist[2]];
    let phi = [twist[3], twist[4], twist[5]];
    Pose { rotation: so3_exp(phi), translation: mul_vec(&so3_left_jacobian(phi), rho) }
}

/// The twist on the left that equals `twist` on the right: `a_from_b exp(twist^) = exp(result^) a_from_b` (the adjoint,
/// Barfoot 2017, eq. 7.45).
#[must_use]
pub fn adjoint(a_from_b: &Pose, twist: [f64; 6]) -> [f64; 6] {
    let [rho, phi] = split_twist(twist).map(|half| mul_vec(&a_from_b.rotation, half));
    let moved = cross(a_from_b.translation, phi);
    [rho[0] + moved[0], rho[1] + moved[1], rho[2] + moved[2], phi[0], phi[1], phi[2]]
}

/// The transpose of [`adjoint`]: maps a gradient with respect to its result to one with respect to its twist.
#[must_use]
pub fn adjoint_transposed(a_from_b: &Pose, gradient: [f64; 6]) -> [f64; 6] {
    let [a, b] = split_twist(gradient);
    let moved = cross(a, a_from_b.translation);
    let b: [f64; 3] = std::array::from_fn(|k| b[k] + moved[k]);
    let [a, b] = [a, b].map(|half| transpose_mul_vec(&a_from_b.rotation, half));
    [a[0], a[1], a[2], b[0], b[1], b[2]]
}

/// Splits a twist into `(rho, phi)`.
fn split_twist(twist: [f64; 6]) -> [[f64; 3]; 2] {
    let [a, b, c, d, e, f] = twist;
    [[a, b, c], [d, e, f]]
}

/// Gradient of a loss with respect to the twist `xi`, given `left`, its gradient with respect to a further *left* twist
/// at `exp(xi^)`: `J_l(xi)ᵀ left`, with the left Jacobian of SE(3) (Barfoot 2017, eq. 7.85). Computed by the series
/// `Σ ad(xi)^n / (n + 1)!`, which converges fast for the small twists of pose refinement.
#[must_use]
pub fn twist_gradient(twist: [f64; 6], left: [f64; 6]) -> [f64; 6] {
    // ad(xi) = [[phi^, rho^], [0, phi^]], so ad(xi)ᵀ (a, b) = (-phi × a, -rho × a - phi × b).
    let rho = [twist[0], twist[1], twist[2]];
    let phi = [twist[3], twist[4], twist[5]];
    let mut term = left;
    let mut sum = left;
    for n in 1..20 {
        let a = [term[0], term[1], term[2]];
        let b = [term[3], term[4], term[5]];
        let (pa, ra, pb) = (cross(phi, a), cross(rho, a), cross(phi, b));
        let scale = 1.0 / f64::from(n + 1);
        term = [
            -pa[0] * scale,
            -pa[1] * scale,
            -pa[2] * scale,
            (-ra[0] - pb[0]) * scale,
            (-ra[1] - pb[1]) * scale,
            (-ra[2] - pb[2]) * scale,
        ];
        for (s, t) in sum.iter_mut().zip(term) {
            *s += t;
        }
        if term.iter().all(|t| t.abs() < 1e-300) {
            break;
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_twist_gradient_is_the_derivative_along_the_twist() {
        // f(xi) = w . exp(xi) p, checked by central differences.
        let (p, w) = ([0.4, -0.7, 1.3], [0.9, -0.2, 0.6]);
        for xi in [[0.0; 6], [0.3, -0.2, 0.5, 0.4, -0.6, 0.2]] {
            let f = |t: [f64; 6]| dot(w, exp(t).apply(p));
            let moved = exp(xi).apply(p);
            let torque = cross(moved, w);
            let analytic = twist_gradient(xi, [w[0], w[1], w[2], torque[0], torque[1], torque[2]]);
            for k in 0..6 {
                let h = 1e-6;
                let (mut a, mut b) = (xi, xi);
                a[k] += h;
                b[k] -= h;
                let numeric = (f(a) - f(b)) / (2.0 * h);
                assert!((numeric - analytic[k]).abs() < 1e-8, "{k}: {numeric} {}", analytic[k]);
            }
        }
    }

    #[test]
    fn the_adjoint_takes_a_twist_through_a_pose_and_its_transpose_takes_gradients_back() {
        let a_from_b = Pose { rotation: so3_exp([0.4, -0.9, 1.3]), translation: [0.5, -2.0, 0.7] };
        let twist = [0.3, -0.2, 0.5, 0.4, -0.6, 0.2];
        let before = a_from_b.compose(&exp(twist));
        let behind = exp(adjoint(&a_from_b, twist)).compose(&a_from_b);
        let point = [0.4, -0.7, 1.3];
        let (one, other) = (before.apply(point), behind.apply(point));
        assert!((0..3).all(|k| (one[k] - other[k]).abs() < 1e-14), "{one:?} {other:?}");
        let gradient = [0.9, -0.2, 0.6, 1.1, 0.3, -0.8];
        let inner = |a: [f64; 6], b: [f64; 6]| (0..6).map(|k| a[k] * b[k]).sum::<f64>();
        let difference = inner(gradient, adjoint(&a_from_b, twist))
            - inner(adjoint_transposed(&a_from_b, gradient), twist);
        assert!(difference.abs() < 1e-14, "{difference}");
    }
}
