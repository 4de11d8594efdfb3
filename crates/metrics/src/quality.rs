//! The numbers of an evaluation: PSNR, SSIM, colour-corrected PSNR.

use gausset_core::TargetImage;

/// Quality of one rendered picture.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quality {
    /// PSNR in dB; infinite for equal pictures.
    pub psnr: f64,
    /// Mean SSIM.
    pub ssim: f64,
    /// PSNR after a least-squares affine fit of the render's colours to the truth.
    pub color_corrected_psnr: f64,
    /// Valid pixels / all pixels.
    pub valid_share: f64,
}

/// The truth as the trainer sees it: interleaved RGB in 0..1, composited on `background`.
#[must_use]
pub fn truth_values(target: &TargetImage, background: [f32; 3]) -> Vec<f32> {
    let _ = (target, background);
    unimplemented!()
}
