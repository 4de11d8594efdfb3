//! Gradients with respect to screen splats propagated back to raw parameters and the camera pose.
//!
//! Each function here is the transpose of one of [`mod@super::project`], in reverse order. With `P = dL/dcov` as a full
//! symmetric 2x2 matrix and `Q` the conic as a matrix:
//!
//! ```text
//! P   = -Q G Q,   G = [dA  dB/2; dB/2  dC]                  d(S⁻¹) = -S⁻¹ dS S⁻¹
//! dΣ  = Tᵀ P T,   dT = 2 P T Σ                              cov = T Σ Tᵀ
//! dM  = (dΣ + dΣᵀ) M,   dR_q = dM diag(s),   dlog s_k = s_k Σ_i Rq_ik dM_ik
//! dJ  = dT Rᵀ,   dR += Jᵀ dT                                T = J R
//! dp  from mean2d, J and z;   dm = Rᵀ dp,   dt = dp,   dR += dp mᵀ
//! ```
//!
//! and through the SH direction `v = m + Rᵀ t`: `dm += dv`, `dt += R dv`, `dR += t dvᵀ`.

use gausset_core::constants::{POLE_RATIO, QUATERNION_MIN_NORM};
use gausset_core::se3::{Mat3, mul, mul_vec, transpose, transpose_mul_vec};
use gausset_core::{Camera, Pose, Projection};

use super::blend::Rendering;
use super::blend_vjp::{ScreenGradient, Upstream, blend_vjp};
use super::constants::LOW_PASS_VARIANCE;
use super::project::{LinearisedProjection, ScreenSplat, covariance, from_camera_centre, linearise, sigmoid};
use super::scene::{Scene, SkyF64, SplatsF64};
use super::sh;

/// Gradients of a loss with respect to all inputs of a render.
#[derive(Clone, Debug, PartialEq)]
pub struct Gradients {
    /// Raw parameters.
    pub splats: SplatsF64,
    /// Background colour.
    pub background: [f64; 3],
    /// Coefficients of the sky; zero without one.
    pub sky: SkyF64,
    /// Camera pose, without the rotation of the sky.
    pub pose: PoseGradient,
    /// Gradients with respect to the screen splats, which include `mean2d` and `mean2d_abs`.
    pub screen: Vec<ScreenGradient>,
}

/// Gradient with respect to the 12 entries of `[R | t]`, each treated as independent.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PoseGradient {
    /// dL/dR.
    pub rotation: Mat3,
    /// dL/dt.
    pub translation: [f64; 3],
}

impl PoseGradient {
    /// The upper three rows of dL/dviewmat.
    #[must_use]
    pub fn viewmat(&self) -> [[f64; 4]; 3] {
        std::array::from_fn(|i| {
            let [a, b, c] = self.rotation[i];
            [a, b, c, self.translation[i]]
        })
    }

    /// Gradient with respect to a left twist `(rho, phi)` at zero: `exp(xi^) · pose` (README, section 5).
    #[must_use]
    pub fn twist(&self, pose: &Pose) -> [f64; 6] {
        let mut a = mul(&self.rotation, &transpose(&pose.rotation));
        for i in 0..3 {
            for j in 0..3 {
                a[i][j] += self.translation[i] * pose.translation[j];
            }
        }
        let [x, y, z] = self.translation;
        [x, y, z, a[2][1] - a[1][2], a[0][2] - a[2][0], a[1][0] - a[0][1]]
    }
}

/// Gradients of a loss on a render of the scene.
#[must_use]
pub fn vjp(scene: &Scene, rendering: &Rendering, upstream: &Upstream) -> Gradients {
    let (screen, background, sky) = blend_vjp(scene, rendering, upstream);
    let (splats, pose) = project_vjp(scene, &rendering.screen, &screen);
    Gradients { splats, background, sky, pose, screen }
}

/// Gradients with respect to raw parameters and pose; zero for splats that were dropped.
#[must_use]
pub fn project_vjp(
    scene: &Scene,
    screen: &[Option<ScreenSplat>],
    gradients: &[ScreenGradient],
) -> (SplatsF64, PoseGradient) {
    let mut d_splats = SplatsF64::zeros(scene.splats.len(), scene.splats.sh_stride);
    let mut d_pose = PoseGradient::default();
    for (index, (splat, gradient)) in screen.iter().zip(gradients).enumerate() {
        if let Some(splat) = splat {
            project_splat_vjp(scene, index, splat, gradient, &mut d_splats, &mut d_pose);
        }
    }
    (d_splats, d_pose)
}

fn project_splat_vjp(
    scene: &Scene,
    index: usize,
    splat: &ScreenSplat,
    gradient: &ScreenGradient,
    d_splats: &mut SplatsF64,
    d_pose: &mut PoseGradient,
) {
    let Scene { splats, camera, pose, .. } = scene;
    let (quat, log_scales, mean) = (splats.quats[index], splats.log_scales[index], splats.means[index]);

    // Opacity and, in antialiased mode, the screen covariance through the compensation.
    let logit = splats.opacity_logits[index];
    let mut d_sigmoid = gradient.opacity;
    let mut d_covariance2d = conic_vjp(splat.conic, gradient.conic);
    if scene.antialiased {
        d_sigmoid *= splat.compensation;
        let d_compensation = gradient.opacity * sigmoid(logit);
        let extra = compensation_vjp(splat.covariance2d, splat.compensation, d_compensation);
        for i in 0..2 {
            for j in 0..2 {
                d_covariance2d[i][j] += extra[i][j];
            }
        }
    }
    d_splats.opacity_logits[index] = d_sigmoid * sigmoid_derivative(logit);

    // Screen covariance: gradients of the world covariance and of T = J R.
    let world = covariance(quat, log_scales);
    let linearised = linearise(camera, pose, splat.mean_in_camera);
    let t = &linearised.screen_from_world;
    let mut d_sigma = Mat3::default();
    let mut d_t = [[0.0; 3]; 2];
    for i in 0..2 {
        for j in 0..2 {
            for k in 0..3 {
                for l in 0..3 {
                    d_sigma[k][l] += t[i][k] * d_covariance2d[i][j] * t[j][l];
                    d_t[i][k] += 2.0 * d_covariance2d[i][j] * t[j][l] * world.sigma[l][k];
                }
            }
        }
    }
    (d_splats.quats[index], d_splats.log_scales[index]) = covariance_vjp(quat, log_scales, &d_sigma);

    // T = J R.
    let r = &pose.rotation;
    let mut d_jacobian = [[0.0; 3]; 2];
    for i in 0..2 {
        for k in 0..3 {
            for j in 0..3 {
                d_jacobian[i][k] += d_t[i][j] * r[k][j];
                d_pose.rotation[k][j] += linearised.jacobian[i][k] * d_t[i][j];
            }
        }
    }

    // p = R m + t.
    let d_p = camera_point_vjp(camera, splat.mean_in_camera, &linearised, gradient, &d_jacobian);
    d_splats.means[index] = transpose_mul_vec(r, d_p);
    add_outer(&mut d_pose.rotation, d_p, mean);
    add(&mut d_pose.translation, d_p);

    // Colour and, through the viewing direction, v = m + Rᵀ t.
    let v = from_camera_centre(pose, mean);
    let (direction, _) = sh::direction(v);
    let d_sh = d_splats.sh_of_mut(index);
    let d_direction = sh::color_vjp(splats.sh_of(index), scene.sh_degree, direction, gradient.color, d_sh);
    let d_v = sh::direction_vjp(v, d_direction);
    add(&mut d_splats.means[index], d_v);
    add(&mut d_pose.translation, mul_vec(r, d_v));
    add_outer(&mut d_pose.rotation, pose.translation, d_v);
}

/// dL/dp from the projected mean, the depth and the Jacobian.
fn camera_point_vjp(
    camera: &Camera,
    point: [f64; 3],
    linearised: &LinearisedProjection,
    gradient: &ScreenGradient,
    d_jacobian: &[[f64; 3]; 2],
) -> [f64; 3] {
    let vjp = match camera.projection {
        Projection::Pinhole => pinhole_point_vjp,
        Projection::Equirectangular => equirectangular_point_vjp,
    };
    vjp(camera, point, linearised, gradient, d_jacobian)
}

fn pinhole_point_vjp(
    camera: &Camera,
    [x, y, z]: [f64; 3],
    linearised: &LinearisedProjection,
    gradient: &ScreenGradient,
    d_jacobian: &[[f64; 3]; 2],
) -> [f64; 3] {
    let mut d_p = [0.0, 0.0, gradient.depth];
    let axes = [(x, camera.fx), (y, camera.fy)];
    for (i, (coordinate, focal)) in axes.into_iter().enumerate() {
        // mean2d_i = focal · coordinate / z + principal
        d_p[i] += focal / z * gradient.mean2d[i];
        d_p[2] -= focal * coordinate / z / z * gradient.mean2d[i];
        // J_ii = focal / z,  J_i2 = -focal · ratio / z
        let ratio = linearised.bounded[i];
        d_p[2] += (-focal * d_jacobian[i][i] + focal * ratio * d_jacobian[i][2]) / z / z;
        // ratio = coordinate / z where it is not clamped
        if !linearised.clamped[i] {
            let d_ratio = -focal / z * d_jacobian[i][2];
            d_p[i] += d_ratio / z;
            d_p[2] -= d_ratio * coordinate / z / z;
        }
    }
    d_p
}

/// J is a function of the point, of ρ and of n, and its gradient is the sum over them. The gradient of the projected
/// mean is propagated through J itself, which is its derivative except for ρ; ρ is bounded at the poles in both.
fn equirectangular_point_vjp(
    camera: &Camera,
    point @ [x, y, z]: [f64; 3],
    linearised: &LinearisedProjection,
    gradient: &ScreenGradient,
    d_jacobian: &[[f64; 3]; 2],
) -> [f64; 3] {
    let ([rho, n], j) = (linearised.bounded, &linearised.jacobian);
    let [[d00, _, d02], [d10, d11, d12]] = *d_jacobian;
    let (across, down) = (camera.fx / (rho * rho), camera.fy / (rho * n * n));
    let mut d_p =
        [-across * d02 - down * y * d10, -down * (x * d10 + z * d12), across * d00 - down * y * d12];
    let of_latitude = j[1][0] * d10 + j[1][2] * d12;
    let d_rho = (j[1][1] * d11 - 2.0 * (j[0][0] * d00 + j[0][2] * d02) - of_latitude) / rho;
    let mut d_n = gradient.depth - 2.0 * (of_latitude + j[1][1] * d11) / n;
    if linearised.clamped[0] {
        d_n += f64::from(POLE_RATIO) * d_rho;
    } else {
        d_p[0] += d_rho * x / rho;
        d_p[2] += d_rho * z / rho;
    }
    for k in 0..3 {
        d_p[k] += d_n * point[k] / n + gradient.mean2d[0] * j[0][k] + gradient.mean2d[1] * j[1][k];
    }
    d_p
}

/// Gradients with respect to quaternion and log scales from a gradient of the world covariance, whose entries are
/// treated as independent: it need not be symmetric.
#[must_use]
pub fn covariance_vjp(quat: [f64; 4], log_scales: [f64; 3], d_sigma: &Mat3) -> ([f64; 4], [f64; 3]) {
    let world = covariance(quat, log_scales);
    let symmetric: Mat3 = std::array::from_fn(|i| std::array::from_fn(|j| d_sigma[i][j] + d_sigma[j][i]));
    let d_root = mul(&symmetric, &world.root);
    let d_log_scales = std::array::from_fn(|k| {
        world.scales[k] * (0..3).map(|i| world.rotation[i][k] * d_root[i][k]).sum::<f64>()
    });
    let d_rotation = std::array::from_fn(|i| std::array::from_fn(|k| d_root[i][k] * world.scales[k]));
    (quaternion_vjp(quat, &d_rotation), d_log_scales)
}

/// Gradient with respect to a quaternion of any length from a gradient of its rotation matrix.
#[must_use]
pub fn quaternion_vjp(quat: [f64; 4], r: &Mat3) -> [f64; 4] {
    let length = quat.iter().map(|v| v * v).sum::<f64>().sqrt();
    let divisor = length.max(QUATERNION_MIN_NORM);
    let unit @ [w, x, y, z] = quat.map(|v| v / divisor);
    let d_unit = [
        2.0 * (x * (r[2][1] - r[1][2]) + y * (r[0][2] - r[2][0]) + z * (r[1][0] - r[0][1])),
        2.0 * (w * (r[2][1] - r[1][2]) + y * (r[0][1] + r[1][0]) + z * (r[0][2] + r[2][0])
            - 2.0 * x * (r[1][1] + r[2][2])),
        2.0 * (w * (r[0][2] - r[2][0]) + x * (r[0][1] + r[1][0]) + z * (r[1][2] + r[2][1])
            - 2.0 * y * (r[0][0] + r[2][2])),
        2.0 * (w * (r[1][0] - r[0][1]) + x * (r[0][2] + r[2][0]) + y * (r[1][2] + r[2][1])
            - 2.0 * z * (r[0][0] + r[1][1])),
    ];
    // Below the smallest norm the divisor is constant, and there is no radial part to remove.
    let radial = if length > QUATERNION_MIN_NORM { (0..4).map(|k| unit[k] * d_unit[k]).sum() } else { 0.0 };
    std::array::from_fn(|k| (d_unit[k] - unit[k] * radial) / divisor)
}

/// dL/dcov as a symmetric matrix from dL/d(A, B, C): `-Q G Q`.
fn conic_vjp([a, b, c]: [f64; 3], [d_a, d_b, d_c]: [f64; 3]) -> [[f64; 2]; 2] {
    let q = [[a, b], [b, c]];
    let g = [[d_a, 0.5 * d_b], [0.5 * d_b, d_c]];
    let mut p = [[0.0; 2]; 2];
    for i in 0..2 {
        for j in 0..2 {
            for k in 0..2 {
                for l in 0..2 {
                    p[i][j] -= q[i][k] * g[k][l] * q[l][j];
                }
            }
        }
    }
    p
}

/// dL/dcov as a symmetric matrix through `rho = sqrt(n / d)`, `n = ac - b²`, `d = (a + eps)(c + eps) - b²`. Zero if rho
/// is 0, where the root has no derivative.
fn compensation_vjp([a, b, c]: [f64; 3], rho: f64, d_rho: f64) -> [[f64; 2]; 2] {
    if rho == 0.0 {
        return [[0.0; 2]; 2];
    }
    let (a_blurred, c_blurred) = (a + LOW_PASS_VARIANCE, c + LOW_PASS_VARIANCE);
    let d = a_blurred * c_blurred - b * b;
    let d_ratio = d_rho / (2.0 * rho);
    // n / d = rho²
    let (d_n, d_d) = (d_ratio / d, -d_ratio * rho * rho / d);
    // b occurs as two entries of the matrix; each gets half of -2b.
    let off_diagonal = -b * (d_n + d_d);
    [[d_n * c + d_d * c_blurred, off_diagonal], [off_diagonal, d_n * a + d_d * a_blurred]]
}

/// `s (1 - s)` of `s = sigmoid(x)`, without the cancellation of `1 - s` near 1.
#[must_use]
pub fn sigmoid_derivative(x: f64) -> f64 {
    let e = libm::exp(-x.abs());
    e / ((1.0 + e) * (1.0 + e))
}

fn add(to: &mut [f64; 3], v: [f64; 3]) {
    for i in 0..3 {
        to[i] += v[i];
    }
}

/// `to += a bᵀ`.
fn add_outer(to: &mut Mat3, a: [f64; 3], b: [f64; 3]) {
    for i in 0..3 {
        for j in 0..3 {
            to[i][j] += a[i] * b[j];
        }
    }
}
