//! The loss of a training step and its gradient: `(1 - w) L1 + w (1 - SSIM)`.

use fearless_simd::Level;
use gausset_compute::Pool;
use gausset_core::TargetImage;

use crate::{Planes, SizeMismatch};

/// What the loss is made of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LossOptions {
    /// Share `w` of D-SSIM; 0 leaves SSIM out.
    pub dssim_weight: f32,
    /// Colour under the transparent parts of the truth.
    pub background: [f32; 3],
}

/// What a picture should look like.
#[derive(Clone, Copy, Debug)]
pub enum Truth<'a> {
    /// Bytes, with optional coverage and mask.
    Bytes(&'a TargetImage),
    /// Values, all valid.
    Planes(&'a Planes),
}

/// Loss of a picture.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LossValue {
    /// `(1 - w) L1 + w (1 - SSIM)`; 0 when no pixel is valid.
    pub loss: f64,
    /// Mean absolute difference over valid pixels and channels.
    pub l1: f64,
    /// Mean SSIM over valid pixels and channels; `None` when its weight is 0.
    pub ssim: Option<f64>,
    /// Pixels that counted.
    pub valid_pixels: usize,
}

/// The loss with the buffers it needs, which grow to the largest picture seen and are then reused.
#[derive(Debug)]
pub struct LossKernel {
    level: Level,
}

impl LossKernel {
    /// A kernel for a vector level, without buffers yet.
    #[must_use]
    pub fn new(level: Level) -> Self {
        Self { level }
    }

    /// Loss of `render` against `truth`; `gradient` becomes d loss / d render (its padding columns 0).
    ///
    /// # Errors
    /// Pictures of different sizes.
    pub fn run(
        &mut self,
        pool: &Pool,
        render: &Planes,
        truth: Truth<'_>,
        options: &LossOptions,
        gradient: &mut Planes,
    ) -> Result<LossValue, SizeMismatch> {
        let _ = (self.level, pool, render, truth, options, gradient);
        unimplemented!()
    }
}
