//! Counter-based random numbers: Philox4x32-10 (Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3").
//!
//! A number is a function of (seed, stream, step, index), so it does not depend on the caller, the time or the device.
//! It only needs 32-bit multiplications.

/// The purposes of random numbers. Streams never overlap.
pub mod stream {
    /// Order of the views.
    pub const VIEWS: u32 = 1;
    /// Background colours.
    pub const BACKGROUND: u32 = 2;
    /// Initial splats.
    pub const INIT: u32 = 3;
    /// Noise on the means.
    pub const NOISE: u32 = 4;
    /// Positions of split halves.
    pub const SPLIT: u32 = 5;
    /// Targets of relocation.
    pub const RELOCATE: u32 = 6;
    /// Sources of growth.
    pub const ADD: u32 = 7;
    /// Procedural scenes.
    pub const SCENE: u32 = 8;
    /// Random numbers of tests.
    pub const TEST: u32 = 9;
    /// Gaussian fields.
    pub const FIELD: u32 = 10;
    /// Splats left out of a step.
    pub const DROPOUT: u32 = 11;
    /// Views in which free space is searched.
    pub const FREE_SPACE: u32 = 12;
    /// Dense points from depth maps.
    pub const STEREO: u32 = 13;
}

const MULTIPLIERS: [u32; 2] = [0xD251_1F53, 0xCD9E_8D57];
const KEY_STEPS: [u32; 2] = [0x9E37_79B9, 0xBB67_AE85];
const ROUNDS: u32 = 10;

/// The raw generator: ten rounds on a 128-bit counter under a 64-bit key.
#[must_use]
#[inline]
pub fn philox4x32(mut counter: [u32; 4], mut key: [u32; 2]) -> [u32; 4] {
    for _ in 0..ROUNDS {
        let a = u64::from(MULTIPLIERS[0]) * u64::from(counter[0]);
        let b = u64::from(MULTIPLIERS[1]) * u64::from(counter[2]);
        counter = [
            (b >> 32) as u32 ^ counter[1] ^ key[0],
            b as u32,
            (a >> 32) as u32 ^ counter[3] ^ key[1],
            a as u32,
        ];
        key = [key[0].wrapping_add(KEY_STEPS[0]), key[1].wrapping_add(KEY_STEPS[1])];
    }
    counter
}

/// Four random words for (seed, stream, step, index).
///
/// ```
/// use gausset_compute::rng::{philox, stream};
///
/// assert_eq!(philox(1, stream::NOISE, 30, 5), philox(1, stream::NOISE, 30, 5));
/// assert_ne!(philox(1, stream::NOISE, 30, 5), philox(1, stream::SPLIT, 30, 5));
/// ```
#[must_use]
#[inline]
pub fn philox(seed: u64, stream: u32, step: u64, index: u32) -> [u32; 4] {
    // Steps stay below 2^48 in any run, which leaves the top 16 bits for the stream.
    let high = (step >> 32) as u32 & 0xFFFF | stream << 16;
    philox4x32([index, step as u32, high, 0], [seed as u32, (seed >> 32) as u32])
}

/// Converts a word to a number in [0, 1) with 24 bits.
///
/// ```
/// use gausset_compute::rng::uniform;
///
/// assert_eq!([uniform(0), uniform(1 << 31)], [0.0, 0.5]);
/// assert!(uniform(u32::MAX) < 1.0);
/// ```
#[must_use]
#[inline]
pub fn uniform(word: u32) -> f32 {
    (word >> 8) as f32 * (1.0 / 16_777_216.0)
}

/// Converts two words to a number in [0, 1) with 53 bits.
#[must_use]
#[inline]
pub fn uniform_f64(high: u32, low: u32) -> f64 {
    let bits = (u64::from(high) << 32 | u64::from(low)) >> 11;
    bits as f64 * (1.0 / 9_007_199_254_740_992.0)
}

/// Four independent standard normals (Box-Muller) for (seed, stream, step, index).
#[must_use]
pub fn normals(seed: u64, stream: u32, step: u64, index: u32) -> [f32; 4] {
    let w = philox(seed, stream, step, index);
    let pair = |a: u32, b: u32| {
        // (0, 1], so that the logarithm is finite.
        let u = 1.0 - uniform(a);
        let radius = (-2.0 * libm::logf(u)).sqrt();
        let angle = std::f32::consts::TAU * uniform(b);
        [radius * libm::cosf(angle), radius * libm::sinf(angle)]
    };
    let ([a, b], [c, d]) = (pair(w[0], w[1]), pair(w[2], w[3]));
    [a, b, c, d]
}

/// An integer in `0..n` (`n > 0`) without noticeable bias: the high half of a 64-bit product.
///
/// ```
/// assert_eq!(gausset_compute::rng::below([1 << 31, 0], 10), 5);
/// ```
#[must_use]
#[inline]
pub fn below(words: [u32; 2], n: u64) -> u64 {
    let x = u64::from(words[0]) << 32 | u64::from(words[1]);
    ((u128::from(x) * u128::from(n)) >> 64) as u64
}

/// Shuffles (Fisher-Yates) with the random numbers of (seed, stream, step, 0..).
///
/// ```
/// let mut views: Vec<u32> = (0..10).collect();
/// gausset_compute::rng::shuffle(&mut views, 1, gausset_compute::rng::stream::VIEWS, 0);
/// views.sort_unstable();
/// assert_eq!(views, (0..10).collect::<Vec<u32>>());
/// ```
pub fn shuffle<T>(items: &mut [T], seed: u64, stream: u32, step: u64) {
    for i in (1..items.len()).rev() {
        let w = philox(seed, stream, step, i as u32);
        items.swap(i, below([w[0], w[1]], i as u64 + 1) as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn philox_gives_the_published_known_answers() {
        // Random123 kat_vectors, philox4x32-10.
        assert_eq!(philox4x32([0; 4], [0; 2]), [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
        assert_eq!(
            philox4x32([0xffff_ffff; 4], [0xffff_ffff; 2]),
            [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]
        );
        assert_eq!(
            philox4x32([0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344], [0xa409_3822, 0x299f_31d0]),
            [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1]
        );
    }

    #[test]
    fn normals_have_the_moments_of_a_normal() {
        let n = 40_000;
        let values: Vec<f64> =
            (0..n / 4).flat_map(|i| normals(7, stream::TEST, 3, i)).map(f64::from).collect();
        let mean = values.iter().sum::<f64>() / f64::from(n);
        let variance = values.iter().map(|v| v * v).sum::<f64>() / f64::from(n);
        let fourth = values.iter().map(|v| v.powi(4)).sum::<f64>() / f64::from(n);
        // Five standard errors: 1/sqrt(n), sqrt(2/n), sqrt(96/n).
        assert!(mean.abs() < 0.025 && (variance - 1.0).abs() < 0.036 && (fourth - 3.0).abs() < 0.25);
    }

    #[test]
    fn a_shuffle_is_a_permutation_that_depends_on_the_step() {
        let shuffled = |step| {
            let mut items: Vec<u32> = (0..100).collect();
            shuffle(&mut items, 1, stream::VIEWS, step);
            items
        };
        let (a, b) = (shuffled(0), shuffled(1));
        assert_ne!(a, b);
        assert_eq!(a, shuffled(0));
        let mut sorted = a;
        sorted.sort_unstable();
        assert_eq!(sorted, (0..100).collect::<Vec<_>>());
    }
}
