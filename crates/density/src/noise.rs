//! Langevin noise on the means: the exploration of MCMC (Kheradmand et al. 2024, eq. 12), as a scalar reference.
//!
//! ```text
//! mean += Σ z · sigmoid(-100 (opacity - fade)) · scale,    z ~ N(0, I),    Σ = R diag(s²) Rᵀ
//! ```
//!
//! Almost transparent splats move within their own shape; opaque ones stay. The engine adds the noise in the same
//! vectorised pass as the parameter update; this is the reference for it. The formula is plain f32 with `libm`.

use gausset_compute::rng;
use gausset_core::constants::QUATERNION_MIN_NORM;
use gausset_core::engine::PositionNoise;

/// Steepness of the fade with opacity (Kheradmand et al. 2024, released code).
pub const FADE_STEEPNESS: f32 = 100.0;

/// Noise to add to the mean of the splat `id` after step `step`, scene units.
///
/// The normal numbers are the first three of stream `NOISE` at (seed, step, id), so they do not depend on where the
/// splat is stored. The result is not finite if a parameter is not finite.
#[must_use]
pub fn noise_of_splat(
    log_scale: [f32; 3],
    quat: [f32; 4],
    opacity_logit: f32,
    noise: &PositionNoise,
    seed: u64,
    step: u64,
    id: u32,
) -> [f32; 3] {
    let [x, y, z, _] = rng::normals(seed, rng::stream::NOISE, step, id);
    noise_from_normals(log_scale, quat, opacity_logit, noise, [x, y, z])
}

/// The same for given normal numbers.
#[must_use]
pub fn noise_from_normals(
    log_scale: [f32; 3],
    quat: [f32; 4],
    opacity_logit: f32,
    noise: &PositionNoise,
    normal: [f32; 3],
) -> [f32; 3] {
    let opacity = sigmoid(opacity_logit);
    let strength = sigmoid(-FADE_STEEPNESS * (opacity - noise.fade_opacity)) * noise.scale;
    let r = rotation(quat);
    // Σ z = R (s² ∘ (Rᵀ z)).
    let local: [f32; 3] = std::array::from_fn(|k| {
        let along = r[0][k] * normal[0] + r[1][k] * normal[1] + r[2][k] * normal[2];
        let scale = libm::expf(log_scale[k]);
        along * (scale * scale) * strength
    });
    std::array::from_fn(|k| r[k][0] * local[0] + r[k][1] * local[1] + r[k][2] * local[2])
}

fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + libm::expf(-x))
}

/// Rotation matrix of a `wxyz` quaternion of any length (fixtures, section 2).
fn rotation(quat: [f32; 4]) -> [[f32; 3]; 3] {
    let length = quat.iter().map(|v| v * v).sum::<f32>().sqrt().max(QUATERNION_MIN_NORM as f32);
    let [w, x, y, z] = quat.map(|v| v / length);
    [
        [1.0 - 2.0 * (y * y + z * z), 2.0 * (x * y - w * z), 2.0 * (x * z + w * y)],
        [2.0 * (x * y + w * z), 1.0 - 2.0 * (x * x + z * z), 2.0 * (y * z - w * x)],
        [2.0 * (x * z - w * y), 2.0 * (y * z + w * x), 1.0 - 2.0 * (x * x + y * y)],
    ]
}
