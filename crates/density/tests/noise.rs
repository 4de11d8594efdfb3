//! Tests Langevin noise against its definition in f64.

use gausset_compute::rng::{self, stream};
use gausset_core::engine::PositionNoise;
use gausset_core::se3;
use gausset_density::{noise_from_normals, noise_of_splat};

const NOISE: PositionNoise = PositionNoise { scale: 80.0, fade_opacity: 0.005 };

/// `Σ z sigmoid(-100 (o - fade)) scale` with an explicit covariance.
fn in_f64(
    log_scale: [f32; 3],
    quat: [f32; 4],
    logit: f32,
    noise: &PositionNoise,
    z: [f32; 3],
) -> ([f64; 3], f64) {
    let r = se3::rotation_from_quaternion(quat.map(f64::from));
    let variance = log_scale.map(|s| (2.0 * f64::from(s)).exp());
    let covariance: se3::Mat3 = std::array::from_fn(|i| {
        std::array::from_fn(|j| (0..3).map(|k| r[i][k] * variance[k] * r[j][k]).sum())
    });
    let opacity = 1.0 / (1.0 + (-f64::from(logit)).exp());
    let strength = f64::from(noise.scale) / (1.0 + (100.0 * (opacity - f64::from(noise.fade_opacity))).exp());
    let displacement = se3::mul_vec(&covariance, z.map(f64::from)).map(|v| v * strength);
    // Upper bound of the effect of an error of one part in 1: the largest variance times the normals.
    let largest = variance.iter().fold(0.0, |a: f64, &b| a.max(b));
    (displacement, largest * strength * se3::norm(z.map(f64::from)))
}

#[test]
fn noise_agrees_with_its_definition_in_f64() {
    for i in 0..2000u32 {
        let u = |what: u64| rng::philox(3, stream::TEST, what, i).map(rng::uniform);
        let (a, b, c) = (u(0), u(1), u(2));
        let log_scale = [a[0] * 8.0 - 6.0, a[1] * 8.0 - 6.0, a[2] * 8.0 - 6.0];
        let quat = b.map(|v| 4.0 * v - 2.0);
        let logit = c[0] * 12.0 - 9.0;
        let z = [c[1] * 6.0 - 3.0, c[2] * 6.0 - 3.0, c[3] * 6.0 - 3.0];
        let found = noise_from_normals(log_scale, quat, logit, &NOISE, z);
        let (expected, size) = in_f64(log_scale, quat, logit, &NOISE, z);
        for k in 0..3 {
            // 1e-5 of the largest effect of Σ on z: the exponent of the fade reaches 70, which multiplies the relative
            // rounding error by 70 (4e-6). Where e^x overflows f32 the strength is 0 instead of 1e-37.
            let error = (f64::from(found[k]) - expected[k]).abs();
            assert!(error <= 1e-5 * size + 1e-34, "{i}: {found:?} {expected:?}");
        }
    }
}

#[test]
fn noise_follows_the_identity_of_a_splat_and_the_step() {
    let at = |seed, step, id| noise_of_splat([-1.0; 3], [1.0, 0.0, 0.0, 0.0], -6.0, &NOISE, seed, step, id);
    assert_eq!(at(1, 2, 3), at(1, 2, 3));
    assert_ne!(at(1, 2, 3), at(1, 2, 4));
    assert_ne!(at(1, 2, 3), at(1, 3, 3));
    assert_ne!(at(1, 2, 3), at(2, 2, 3));
    let z = rng::normals(1, stream::NOISE, 2, 3);
    let by_hand = noise_from_normals([-1.0; 3], [1.0, 0.0, 0.0, 0.0], -6.0, &NOISE, [z[0], z[1], z[2]]);
    assert_eq!(at(1, 2, 3), by_hand);
}

#[test]
fn opaque_splats_stay_and_transparent_ones_wander_within_their_shape() {
    let moved = |logit| noise_of_splat([-2.0, -2.0, -9.0], [1.0, 0.0, 0.0, 0.0], logit, &NOISE, 1, 2, 3);
    let size = |d: [f32; 3]| d.iter().map(|v| v.abs()).fold(0.0, f32::max);
    assert!(size(moved(5.0)) < 1e-30);
    let wandering = moved(-7.0);
    assert!(size(wandering) > 1e-2);
    // A flat splat moves in its plane: variance of e^-18 perpendicular to it, e^-4 along it.
    assert!(wandering[2].abs() < 1e-4 * size(wandering));
}

#[test]
fn at_the_fade_opacity_noise_has_half_its_strength() {
    let fade = sigmoid(-1.0);
    let noise = PositionNoise { scale: 2.0, fade_opacity: fade };
    let found = noise_from_normals([0.0; 3], [0.0, 0.0, 2.0, 0.0], -1.0, &noise, [1.0, -2.0, 3.0]);
    for (found, expected) in found.iter().zip([1.0, -2.0, 3.0]) {
        assert!((found - expected).abs() < 1e-4, "{found} {expected}");
    }
}

fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + libm::expf(-x))
}
