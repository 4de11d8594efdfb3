//! Sharpness of a frame, for selecting the sharpest of several.

/// Variance of the Laplacian of the luma at a quarter of the resolution; low under motion blur.
pub(super) fn laplacian_variance(raw: &[u8], [w, h]: [u32; 2]) -> f64 {
    let (w, h) = (w as usize, h as usize);
    let at = |x: usize, y: usize| f64::from(raw[4 * y * w + 4 * x]);
    let (mut sum, mut squares, mut count) = (0.0, 0.0, 0.0);
    // Only the middle half of the height, because panoramas are stretched at the poles.
    for y in (h / 16).max(1)..(3 * h / 16).max(2) {
        for x in 1..w / 4 - 1 {
            let l = at(x - 1, y) + at(x + 1, y) + at(x, y - 1) + at(x, y + 1) - 4.0 * at(x, y);
            sum += l;
            squares += l * l;
            count += 1.0;
        }
    }
    let mean: f64 = sum / f64::max(count, 1.0);
    squares / f64::max(count, 1.0) - mean * mean
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sharpness of an image of 64x32 px, of which only every fourth sample and row is used.
    fn of(value: impl Fn(usize, usize) -> u8) -> f64 {
        let raw: Vec<u8> = (0..64 * 32).map(|i| value(i % 64 / 4, i / 64 / 4)).collect();
        laplacian_variance(&raw, [64, 32])
    }

    #[test]
    fn sharpness_is_the_variance_of_the_laplacian() {
        assert_eq!(of(|_, _| 90), 0.0);
        assert_eq!(of(|x, y| (10 * x + 7 * y) as u8), 0.0);
        // A chequerboard of 0 and 100: the Laplacian is 400 and -400.
        let checker = |high: u8| move |x: usize, y: usize| if (x + y).is_multiple_of(2) { 0 } else { high };
        assert_eq!(of(checker(100)), 160_000.0);
        // Half the contrast gives a quarter of the variance.
        assert_eq!(of(checker(50)), 40_000.0);
        // One column of 100 in 14: Laplacians of -200 there and 100 next to it.
        let column = of(|x, _| if x == 5 { 100 } else { 0 });
        assert!((column - 60_000.0 / 14.0).abs() < 1e-9, "{column}");
    }
}
