//! Image buffers.

/// An 8-bit RGB picture, rows first, channels interleaved.
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
    /// A black picture.
    #[must_use]
    pub fn new(width: u32, height: u32) -> Self {
        Self { width, height, data: vec![0; width as usize * height as usize * 3] }
    }

    /// The picture of an f32 RGB buffer (`height × width × 3`), clamped to 0..1 and rounded to nearest.
    #[must_use]
    pub fn from_f32(width: u32, height: u32, rgb: &[f32]) -> Self {
        debug_assert_eq!(rgb.len(), width as usize * height as usize * 3);
        Self { width, height, data: rgb.iter().map(|&v| quantise(v)).collect() }
    }
}

/// 0..1 to 0..255, rounded to nearest; NaN becomes 0.
#[must_use]
pub fn quantise(v: f32) -> u8 {
    (v.clamp(0.0, 1.0) * 255.0 + 0.5) as u8
}

/// What one training or evaluation view should look like, at the size that is rendered.
///
/// Held as bytes: 3 to 5 bytes a pixel instead of 12 to 20.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetImage {
    /// Width in px.
    pub width: u32,
    /// Height in px.
    pub height: u32,
    /// `height × width × 3`; straight (not premultiplied) where there is `alpha`.
    pub rgb: Vec<u8>,
    /// `height × width` coverage to composite with on the step's background; `None` = opaque.
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

    /// Bytes held.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.rgb.len() + self.alpha.as_ref().map_or(0, Vec::len) + self.mask.as_ref().map_or(0, Vec::len)
    }
}
