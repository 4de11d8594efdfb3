//! RGB and the colours of JPEG files: full-range BT.601 (JFIF), in integers.

/// Converts RGB to full-range BT.601 YCbCr (JFIF): 16-bit fixed point, rounded to nearest.
#[must_use]
#[inline]
pub fn ycbcr_from_rgb([r, g, b]: [u8; 3]) -> [u8; 3] {
    let (r, g, b) = (i32::from(r), i32::from(g), i32::from(b));
    let y = (19_595 * r + 38_470 * g + 7_471 * b + 32_768) >> 16;
    let cb = (-11_059 * r - 21_709 * g + 32_768 * b + (128 << 16) + 32_767) >> 16;
    let cr = (32_768 * r - 27_439 * g - 5_329 * b + (128 << 16) + 32_767) >> 16;
    [y, cb, cr].map(|v| v.clamp(0, 255) as u8)
}

/// The inverse of [`ycbcr_from_rgb`].
#[must_use]
#[inline]
pub fn rgb_from_ycbcr([y, cb, cr]: [u8; 3]) -> [u8; 3] {
    let (y, cb, cr) = (i32::from(y) << 16, i32::from(cb) - 128, i32::from(cr) - 128);
    let r = (y + 91_881 * cr + 32_768) >> 16;
    let g = (y - 22_554 * cb - 46_802 * cr + 32_768) >> 16;
    let b = (y + 116_130 * cb + 32_768) >> 16;
    [r, g, b].map(|v| v.clamp(0, 255) as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_survive_the_way_there_and_back() {
        for r in (0..=255).step_by(15) {
            for g in (0..=255).step_by(15) {
                for b in (0..=255).step_by(15) {
                    let back = rgb_from_ycbcr(ycbcr_from_rgb([r, g, b]));
                    assert!([r, g, b].iter().zip(back).all(|(a, b)| a.abs_diff(b) <= 2));
                }
            }
        }
        assert_eq!(ycbcr_from_rgb([255, 255, 255]), [255, 128, 128]);
    }
}
