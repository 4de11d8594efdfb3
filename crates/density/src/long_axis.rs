//! Long-axis split: a large splat becomes two halves along its longest axis instead of two coincident copies.
//!
//! Two halves of equal opacity are placed at `±δ` on the longest axis and have the scale `s'` along it; the other axes,
//! the rotation and the colours are unchanged. With weights of one half each, the second moment along the axis is
//! preserved if
//!
//! ```text
//! s'² + δ² = s²,  here δ = (√3/2) s and s' = s/2
//! ```
//!
//! and with `s' = s/2` the two halves together preserve the integral of the splat. The idea is from Improved-GS (arXiv
//! 2508.12313); the constants follow from the moments.

use gausset_core::Splats;
use gausset_core::se3::rotation_from_quaternion;

/// `δ / s`: √3/2.
const OFFSET: f64 = 0.866_025_403_784_438_6;
/// `ln(s' / s)`.
const SHRINK: f32 = -std::f32::consts::LN_2;

/// Whether each splat is split: it was drawn once, and its longest axis is in the `share` fraction of the longest.
pub(super) fn split_mask(splats: &Splats, draws: &[u32], share: f32) -> Vec<bool> {
    let n = splats.len();
    let kept_whole = ((1.0 - f64::from(share)) * n as f64) as usize;
    // Also handles an empty set.
    if share <= 0.0 || kept_whole >= n {
        return vec![false; n];
    }
    let mut sizes: Vec<f32> = splats.log_scales.iter().map(longest).collect();
    let limit = *sizes.select_nth_unstable_by(kept_whole, f32::total_cmp).1;
    let is_large = |scales: &[f32; 3]| longest(scales) >= limit;
    draws.iter().zip(&splats.log_scales).map(|(&drawn, scales)| drawn == 1 && is_large(scales)).collect()
}

/// Moves a splat and its copy apart, so that they become the two halves. If a half would not be finite, both stay.
pub(super) fn halve(splats: &mut Splats, source: usize, copy: usize) {
    let scales = splats.log_scales[source];
    // The first of equal axes.
    let axis = (0..3).find(|&k| scales[k] == longest(&scales)).unwrap_or(0);
    let rotation = rotation_from_quaternion(splats.quats[source].map(f64::from));
    let offset = OFFSET * libm::exp(f64::from(scales[axis]));
    let mean = splats.means[source];
    let at = |side: f64| -> [f32; 3] {
        std::array::from_fn(|k| (f64::from(mean[k]) + side * offset * rotation[k][axis]) as f32)
    };
    let (front, back) = (at(1.0), at(-1.0));
    if !front.iter().chain(&back).all(|value| value.is_finite()) {
        return;
    }
    for (half, mean) in [(source, front), (copy, back)] {
        splats.means[half] = mean;
        splats.log_scales[half][axis] = scales[axis] + SHRINK;
    }
}

fn longest(log_scales: &[f32; 3]) -> f32 {
    log_scales[0].max(log_scales[1]).max(log_scales[2])
}
