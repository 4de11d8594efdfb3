//! Image buffers.

/// An 8-bit RGB image, row-major, channels interleaved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RgbImage8 {
    /// Width in px.
    pub width: u32,
    /// Height in px.
    pub height: u32,
    /// `height × width × 3` bytes.
    pub data: Vec<u8>,
}

impl RgbImage8 {
    /// A black image.
    #[must_use]
    pub fn new(width: u32, height: u32) -> Self {
        Self { width, height, data: vec![0; width as usize * height as usize * 3] }
    }

    /// Converts an f32 RGB buffer (`height × width × 3`): clamps to 0..1 and rounds to nearest.
    ///
    /// ```
    /// let image = gausset_core::RgbImage8::from_f32(2, 1, &[0.0, 0.5, 1.0, -3.0, 7.0, f32::NAN]);
    /// assert_eq!(image.data, [0, 128, 255, 0, 255, 0]);
    /// ```
    #[must_use]
    pub fn from_f32(width: u32, height: u32, rgb: &[f32]) -> Self {
        debug_assert_eq!(rgb.len(), width as usize * height as usize * 3);
        Self { width, height, data: rgb.iter().map(|&v| quantise(v)).collect() }
    }
}

/// Maps 0..1 to 0..255, rounded to nearest; NaN becomes 0.
#[must_use]
pub fn quantise(v: f32) -> u8 {
    (v.clamp(0.0, 1.0) * 255.0 + 0.5) as u8
}

/// The target image of a training or evaluation view, at the size that is rendered.
///
/// Stored as bytes: 3 to 5 bytes a pixel instead of 12 to 20.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetImage {
    /// Width in px.
    pub width: u32,
    /// Height in px.
    pub height: u32,
    /// `height × width × 3`; straight (not premultiplied) if there is `alpha`.
    pub rgb: Vec<u8>,
    /// `height × width` coverage for compositing over the background of the step; `None` = opaque.
    pub alpha: Option<Vec<u8>>,
    /// `height × width`, 0 = ignore this pixel, anything else = keep; `None` = keep all.
    pub mask: Option<Vec<u8>>,
}

impl TargetImage {
    /// Number of pixels that count in the loss.
    #[must_use]
    pub fn valid_pixels(&self) -> usize {
        match &self.mask {
            Some(mask) => mask.iter().filter(|&&m| m != 0).count(),
            None => self.width as usize * self.height as usize,
        }
    }

    /// Downscales the image to `1 / factor` of its size: each pixel is the mean of a block of `factor × factor`.
    ///
    /// Pixels are weighted by their coverage, and masked ones are left out; a pixel of which less than half is kept is
    /// masked. Columns and rows at the end that do not fill a block are cut off, as in
    /// [`Camera::downscaled`](crate::Camera::downscaled).
    ///
    /// ```
    /// let image = gausset_core::TargetImage {
    ///     width: 2,
    ///     height: 2,
    ///     rgb: [[10; 3], [20; 3], [30; 3], [255; 3]].concat(),
    ///     alpha: None,
    ///     // The last pixel does not count.
    ///     mask: Some(vec![255, 255, 255, 0]),
    /// };
    /// assert_eq!(image.downscaled(2).rgb, [20, 20, 20]);
    /// ```
    ///
    /// # Panics
    /// If a side is shorter than `factor`, or `factor` is 0.
    #[must_use]
    pub fn downscaled(&self, factor: u32) -> Self {
        let (width, height) = (self.width / factor, self.height / factor);
        assert!(
            width > 0 && height > 0,
            "an image of {}x{} px has no block of {factor} px",
            self.width,
            self.height
        );
        let pixels = width as usize * height as usize;
        let mut out = Self {
            width,
            height,
            rgb: Vec::with_capacity(3 * pixels),
            alpha: self.alpha.as_ref().map(|_| Vec::with_capacity(pixels)),
            mask: self.mask.as_ref().map(|_| Vec::with_capacity(pixels)),
        };
        let stride = self.width as usize;
        let side = factor as usize;
        for y in 0..height as usize {
            for x in 0..width as usize {
                let (mut sums, mut weight, mut kept) = ([0u64; 3], 0u64, 0u64);
                for row in y * side..(y + 1) * side {
                    for i in row * stride + x * side..row * stride + (x + 1) * side {
                        if self.mask.as_ref().is_some_and(|mask| mask[i] == 0) {
                            continue;
                        }
                        let coverage = self.alpha.as_ref().map_or(255, |alpha| u64::from(alpha[i]));
                        for (sum, &value) in sums.iter_mut().zip(&self.rgb[3 * i..3 * i + 3]) {
                            *sum += coverage * u64::from(value);
                        }
                        weight += coverage;
                        kept += 1;
                    }
                }
                let mean = |sum: u64, n: u64| (sum + n / 2).checked_div(n).unwrap_or(0) as u8;
                out.rgb.extend(sums.map(|sum| mean(sum, weight)));
                if let Some(alpha) = &mut out.alpha {
                    alpha.push(mean(weight, kept));
                }
                if let Some(mask) = &mut out.mask {
                    mask.push(if 2 * kept >= (side * side) as u64 { 255 } else { 0 });
                }
            }
        }
        out
    }

    /// Downscales interleaved RGB colours of a render of this image to `1 / factor`, each the mean of the pixels of its
    /// block that are not masked; black if there are none. Columns and rows that do not fill a block are cut off, as in
    /// [`Self::downscaled`].
    #[must_use]
    pub fn downscaled_colours(&self, colours: &[f32], factor: u32) -> Vec<f32> {
        let (stride, side) = (self.width as usize, factor as usize);
        let (columns, rows) = (stride / side, self.height as usize / side);
        let is_kept = |i: &usize| self.mask.as_ref().is_none_or(|mask| mask[*i] != 0);
        let block = |y: usize, x: usize, c: usize| {
            let rows = (y * side..(y + 1) * side).map(|row| row * stride + x * side);
            let pixels = rows.flat_map(|first| first..first + side).filter(is_kept);
            let (sum, kept) =
                pixels.fold((0.0, 0.0), |(sum, kept), i| (sum + f64::from(colours[3 * i + c]), kept + 1.0));
            if kept > 0.0 { (sum / kept) as f32 } else { 0.0 }
        };
        (0..3 * rows * columns).map(|i| block(i / 3 / columns, i / 3 % columns, i % 3)).collect()
    }

    /// Bytes of all buffers.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.rgb.len() + self.alpha.as_ref().map_or(0, Vec::len) + self.mask.as_ref().map_or(0, Vec::len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reduced_picture_is_the_mean_of_what_counts() {
        let grey = |values: [u8; 4]| values.iter().flat_map(|&v| [v; 3]).collect::<Vec<u8>>();
        let mut picture =
            TargetImage { width: 2, height: 2, rgb: grey([10, 20, 30, 41]), alpha: None, mask: None };
        assert_eq!(picture.downscaled(2).rgb, [25; 3], "25.25");
        picture.mask = Some(vec![255, 0, 1, 0]);
        let reduced = picture.downscaled(2);
        assert_eq!((reduced.rgb, reduced.mask), (vec![20; 3], Some(vec![255])));
        picture.mask = Some(vec![255, 0, 0, 0]);
        assert_eq!(picture.downscaled(2).mask, Some(vec![0]));
        picture.mask = None;
        // Straight alpha: transparent pixels contribute no colour.
        picture.alpha = Some(vec![255, 0, 255, 0]);
        let reduced = picture.downscaled(2);
        assert_eq!((reduced.rgb, reduced.alpha), (vec![20; 3], Some(vec![128])));
    }

    #[test]
    fn reduced_colours_are_means_of_the_same_blocks() {
        // 5x3 pixels: the last column and row fill no block.
        let rgb: Vec<u8> = (0..45).map(|i| (i * 37 % 251) as u8).collect();
        let colours: Vec<f32> = rgb.iter().map(|&v| f32::from(v)).collect();
        // The last mask keeps three pixels of the first block and none of the second.
        for mask in [None, Some([[1, 0, 0, 0, 1], [1, 1, 0, 0, 1], [1; 5]].concat())] {
            let whole = TargetImage { width: 5, height: 3, rgb: rgb.clone(), alpha: None, mask };
            let (picture, means) = (whole.downscaled(2), whole.downscaled_colours(&colours, 2));
            assert_eq!((picture.width, picture.height, means.len()), (2, 1, 6));
            assert!(
                picture.rgb.iter().zip(&means).all(|(&v, mean)| (f32::from(v) - mean).abs() <= 0.5),
                "{means:?}"
            );
        }
    }
}
