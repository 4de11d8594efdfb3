//! Projection of one splat to the screen (README, section 2): EWA splatting (Zwicker et al. 2001) with the released
//! constants of Kerbl et al. 2023 and, in antialiased mode, the opacity compensation of Yu et al. 2024.
//!
//! ```text
//! p      = R m + t = (x, y, z)                               dropped unless z > near
//! mean2d = (fx x/z + cx, fy y/z + cy)
//! J      = [fx/z  0  -fx tx/z ;  0  fy/z  -fy ty/z]          tx, ty = x/z, y/z clamped near the image
//! cov    = J R Σ Rᵀ Jᵀ = [a b; b c],   det = (a + eps)(c + eps) - b²
//! conic  = (c + eps, -b, a + eps) / det
//! o      = sigmoid(logit) · sqrt(max((ac - b²) / det, 0))    the root in antialiased mode only
//! color  = max(0.5 + Σ sh Y((m - origin)/|m - origin|), 0),  origin = -Rᵀ t
//! ```
//!
//! A panorama ([`Projection::Equirectangular`]) sees all directions; with `ρ² = x² + z²`, `n² = ρ² + y²`:
//!
//! ```text
//! depth  = n                                                 dropped unless n > near
//! mean2d = (fx atan2(x, z) + cx, fy atan2(y, ρ) + cy)
//! J      = [fx z/ρ²  0  -fx x/ρ² ;  -fy xy/(ρ n²)  fy ρ/n²  -fy yz/(ρ n²)]     ρ at least 1e-3 n
//! ```
//!
//! At the poles the first row of J is unbounded, which is why ρ is bounded there: a splat so near to a pole spans all
//! columns anyway. Columns wrap around after `2π fx`; [`mod@super::alpha`] defines which copy a tile sees.

use gausset_core::constants::POLE_RATIO;
use gausset_core::se3::{Mat3, mul, norm, rotation_from_quaternion, transpose, transpose_mul_vec};
use gausset_core::{Camera, Pose, Projection};

use super::constants::{JACOBIAN_CLAMP_MARGIN, LOW_PASS_VARIANCE};
use super::scene::Scene;
use super::sh;

/// A 2x3 matrix, row-major.
pub type Mat2x3 = [[f64; 3]; 2];

/// A splat on the screen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ScreenSplat {
    /// Mean in camera axes.
    pub mean_in_camera: [f64; 3],
    /// Depth, which orders splats: z for a pinhole, the distance for a panorama.
    pub depth: f64,
    /// Projected mean in px.
    pub mean2d: [f64; 2],
    /// Columns after which the screen wraps around, px; infinite for a pinhole.
    pub period: f64,
    /// Screen covariance (a, b, c) in px², before the low-pass filter.
    pub covariance2d: [f64; 3],
    /// Inverse (A, B, C) of the screen covariance after the low-pass filter, in 1/px².
    pub conic: [f64; 3],
    /// `sqrt(max((ac - b²)/det, 0))`: a factor on the opacity in antialiased mode, unused in classic mode.
    pub compensation: f64,
    /// Opacity after compensation.
    pub opacity: f64,
    /// Colour, at least 0.
    pub color: [f64; 3],
}

/// Projects a splat of a scene.
///
/// `None` if it is not in front of the near plane. The README does not define the result for degenerate numbers; here a
/// splat is also dropped if a parameter is not finite, if a projected quantity overflows, or if its screen covariance
/// is so elongated that rounding leaves no positive determinant.
#[must_use]
pub fn project(scene: &Scene, splat: usize) -> Option<ScreenSplat> {
    let splats = &scene.splats;
    if !splats.is_finite(splat) {
        return None;
    }
    let mean = splats.means[splat];
    let mean_in_camera = scene.pose.apply(mean);
    let depth = scene.camera.depth(mean_in_camera);
    if depth <= scene.near_plane {
        return None;
    }

    let world = covariance(splats.quats[splat], splats.log_scales[splat]);
    let LinearisedProjection { screen_from_world, .. } =
        linearise(&scene.camera, &scene.pose, mean_in_camera);
    let covariance2d @ [a, b, c] = screen_covariance(&screen_from_world, &world.sigma);
    let (a_blurred, c_blurred) = (a + LOW_PASS_VARIANCE, c + LOW_PASS_VARIANCE);
    let determinant = a_blurred * c_blurred - b * b;

    let compensation = compensation(covariance2d);
    let (direction, _) = sh::direction(from_camera_centre(&scene.pose, mean));
    let projected = ScreenSplat {
        mean_in_camera,
        depth,
        mean2d: scene.camera.project(mean_in_camera),
        period: scene.camera.period(),
        covariance2d,
        conic: [c_blurred / determinant, -b / determinant, a_blurred / determinant],
        compensation,
        opacity: sigmoid(splats.opacity_logits[splat]) * if scene.antialiased { compensation } else { 1.0 },
        color: sh::color(splats.sh_of(splat), scene.sh_degree, direction),
    };
    (determinant > 0.0 && is_finite(&projected)).then_some(projected)
}

/// A world covariance with its factors.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Covariance {
    /// Rotation of the quaternion.
    pub rotation: Mat3,
    /// Standard deviations.
    pub scales: [f64; 3],
    /// `M = rotation · diag(scales)`.
    pub root: Mat3,
    /// `Σ = M Mᵀ`.
    pub sigma: Mat3,
}

/// World covariance of a quaternion `wxyz` of any length and log scales.
#[must_use]
pub fn covariance(quat: [f64; 4], log_scales: [f64; 3]) -> Covariance {
    let rotation = rotation_from_quaternion(quat);
    let scales = log_scales.map(libm::exp);
    let root: Mat3 = std::array::from_fn(|i| std::array::from_fn(|k| rotation[i][k] * scales[k]));
    Covariance { rotation, scales, root, sigma: mul(&root, &transpose(&root)) }
}

/// The projection linearised at a point.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinearisedProjection {
    /// The values from which J is computed in addition to the point: for a pinhole `(x/z, y/z)` clamped to a margin
    /// around the image, for a panorama `(ρ, n)` with ρ bounded at the poles.
    pub bounded: [f64; 2],
    /// Whether the bound is active for each of them.
    pub clamped: [bool; 2],
    /// `J`: screen from camera.
    pub jacobian: Mat2x3,
    /// `T = J R`: screen from world.
    pub screen_from_world: Mat2x3,
}

/// Linearises the projection at a visible camera-space point.
#[must_use]
pub fn linearise(camera: &Camera, pose: &Pose, point: [f64; 3]) -> LinearisedProjection {
    let (guarded, clamped, jacobian) = match camera.projection {
        Projection::Pinhole => pinhole_jacobian(camera, point),
        Projection::Equirectangular => equirectangular_jacobian(camera, point),
    };
    let r = &pose.rotation;
    let screen_from_world =
        std::array::from_fn(|i| std::array::from_fn(|j| (0..3).map(|k| jacobian[i][k] * r[k][j]).sum()));
    LinearisedProjection { bounded: guarded, clamped, jacobian, screen_from_world }
}

/// Far outside the image the true Jacobian is unbounded, so `x/z` and `y/z` are clamped to the image plus a margin of
/// 0.3 half sizes; for a centred principal point that is the usual ±1.3 tan(fov/2).
fn pinhole_jacobian(camera: &Camera, [x, y, z]: [f64; 3]) -> ([f64; 2], [bool; 2], Mat2x3) {
    let clamp = |ratio: f64, size: u32, focal: f64, principal: f64| {
        let size = f64::from(size);
        let margin = JACOBIAN_CLAMP_MARGIN * 0.5 * size / focal;
        let (low, high) = (-(principal / focal + margin), (size - principal) / focal + margin);
        // Not `f64::clamp`: with a principal point far outside the image the lower bound may exceed the upper one.
        (ratio.max(low).min(high), ratio < low || ratio > high)
    };
    let (tx, x_clamped) = clamp(x / z, camera.width, camera.fx, camera.cx);
    let (ty, y_clamped) = clamp(y / z, camera.height, camera.fy, camera.cy);
    let jacobian = [[camera.fx / z, 0.0, -camera.fx * tx / z], [0.0, camera.fy / z, -camera.fy * ty / z]];
    ([tx, ty], [x_clamped, y_clamped], jacobian)
}

/// See the module documentation.
fn equirectangular_jacobian(camera: &Camera, [x, y, z]: [f64; 3]) -> ([f64; 2], [bool; 2], Mat2x3) {
    let n = norm([x, y, z]);
    let (true_rho, least) = (libm::hypot(x, z), f64::from(POLE_RATIO) * n);
    let rho = true_rho.max(least);
    let (across, down) = (camera.fx / (rho * rho), camera.fy / (n * n));
    let jacobian = [[across * z, 0.0, -across * x], [-down * x * y / rho, down * rho, -down * y * z / rho]];
    ([rho, n], [true_rho < least, false], jacobian)
}

/// (a, b, c) of `T Σ Tᵀ`.
fn screen_covariance(t: &Mat2x3, sigma: &Mat3) -> [f64; 3] {
    let entry = |row: usize, column: usize| {
        let mut sum = 0.0;
        for j in 0..3 {
            for k in 0..3 {
                sum += t[row][j] * sigma[j][k] * t[column][k];
            }
        }
        sum
    };
    [entry(0, 0), entry(0, 1), entry(1, 1)]
}

/// `sqrt(max((ac - b²)/det, 0))`: the ratio of the splat's areas before and after the low-pass filter.
#[must_use]
pub fn compensation([a, b, c]: [f64; 3]) -> f64 {
    let blurred = (a + LOW_PASS_VARIANCE) * (c + LOW_PASS_VARIANCE) - b * b;
    ((a * c - b * b) / blurred).max(0.0).sqrt()
}

/// `m - origin` with the camera centre `origin = -Rᵀ t`.
#[must_use]
pub fn from_camera_centre(pose: &Pose, mean: [f64; 3]) -> [f64; 3] {
    let back = transpose_mul_vec(&pose.rotation, pose.translation);
    std::array::from_fn(|i| mean[i] + back[i])
}

/// `1 / (1 + e^-x)`.
#[must_use]
pub fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + libm::exp(-x))
}

fn is_finite(splat: &ScreenSplat) -> bool {
    let ScreenSplat {
        mean_in_camera, depth, mean2d, covariance2d, conic, compensation, opacity, color, ..
    } = splat;
    [&mean_in_camera[..], mean2d, covariance2d, conic, &[*depth, *compensation, *opacity], color]
        .iter()
        .all(|values| values.iter().all(|v| v.is_finite()))
}
