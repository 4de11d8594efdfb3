//! Comparison of images.

/// Peak signal-to-noise ratio of two buffers with values in 0..1, in dB: `-10 log10(mean (a - b)²)`; infinite if they
/// are equal.
///
/// # Panics
/// If the buffers are empty or of different lengths.
#[must_use]
pub fn psnr(a: &[f32], b: &[f32]) -> f64 {
    assert_eq!(a.len(), b.len(), "buffers of different lengths");
    assert!(!a.is_empty(), "empty buffers have no PSNR");
    let sum: f64 = a.iter().zip(b).map(|(&a, &b)| (f64::from(a) - f64::from(b)).powi(2)).sum();
    -10.0 * (sum / a.len() as f64).log10()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenth_off_everywhere_is_twenty_decibels() {
        // 0.6 - 0.5 is off by one unit in the last place of f32.
        assert!((psnr(&[0.5; 6], &[0.6; 6]) - 20.0).abs() < 1e-5);
        assert_eq!(psnr(&[0.5; 6], &[0.5; 6]), f64::INFINITY);
    }
}
