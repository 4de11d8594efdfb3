//! The form of scales and opacities in a block, as a type: kernels are compiled for one, and the code of training has no
//! branch on it.
//!
//! | form | scale s | opacity o | gradient of the scale | gradient of the opacity |
//! |---|---|---|---|---|
//! | [`Raw`] | `e^stored` | `logistic(stored)` | `s² H_kk` | `(1 - o) v` |
//! | [`Activated`] | stored | stored | `s H_kk` | `v / o` |
//!
//! with `H` of module `shape` and `v = o dL/do`. Through a logarithm, the gradients of an activated scale 0 or opacity 1
//! would not be finite.

use fearless_simd::{f32x16, prelude::*};
use gausset_compute::simd::{exp, sigmoid, splat};

/// What the scale and opacity rows of a block contain.
pub(crate) trait Form: Copy {
    /// Standard deviation.
    fn scale<S: Simd>(self, simd: S, stored: f32x16<S>) -> f32x16<S>;
    /// Opacity before compensation.
    fn opacity<S: Simd>(self, simd: S, stored: f32x16<S>) -> f32x16<S>;
    /// Gradient of the stored scale from `H_kk`.
    fn scale_gradient<S: Simd>(self, scale: f32x16<S>, h: f32x16<S>) -> f32x16<S>;
    /// Gradient of the stored opacity from `v`.
    fn opacity_gradient<S: Simd>(self, simd: S, opacity: f32x16<S>, v: f32x16<S>) -> f32x16<S>;
}

/// Log scales and opacity logits.
#[derive(Clone, Copy)]
pub(crate) struct Raw;

/// Scales and opacities.
#[derive(Clone, Copy)]
pub(crate) struct Activated;

impl Form for Raw {
    #[inline(always)]
    fn scale<S: Simd>(self, simd: S, stored: f32x16<S>) -> f32x16<S> {
        exp(simd, stored)
    }

    #[inline(always)]
    fn opacity<S: Simd>(self, simd: S, stored: f32x16<S>) -> f32x16<S> {
        sigmoid(simd, stored)
    }

    #[inline(always)]
    fn scale_gradient<S: Simd>(self, scale: f32x16<S>, h: f32x16<S>) -> f32x16<S> {
        scale * scale * h
    }

    #[inline(always)]
    fn opacity_gradient<S: Simd>(self, simd: S, opacity: f32x16<S>, v: f32x16<S>) -> f32x16<S> {
        v * (splat(simd, 1.0) - opacity)
    }
}

impl Form for Activated {
    #[inline(always)]
    fn scale<S: Simd>(self, _simd: S, stored: f32x16<S>) -> f32x16<S> {
        stored
    }

    #[inline(always)]
    fn opacity<S: Simd>(self, _simd: S, stored: f32x16<S>) -> f32x16<S> {
        stored
    }

    #[inline(always)]
    fn scale_gradient<S: Simd>(self, scale: f32x16<S>, h: f32x16<S>) -> f32x16<S> {
        scale * h
    }

    #[inline(always)]
    fn opacity_gradient<S: Simd>(self, _simd: S, opacity: f32x16<S>, v: f32x16<S>) -> f32x16<S> {
        v / opacity
    }
}
