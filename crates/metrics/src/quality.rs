//! Evaluation metrics: PSNR and SSIM, both of the render itself and after a colour fit.
//!
//! Images are interleaved RGB in f32 (`height × width × 3`). The render is clamped to 0..1 and not rounded to bytes;
//! the ground truth is the one of training. Only valid pixels count. Sums are in f64, in pixel order.

use gausset_compute::Pool;
use gausset_core::TargetImage;

use crate::loss::LossKernel;
use crate::size::SizeMismatch;
use crate::ssim::{SsimDefinition, ssim};

/// Channels of an image.
const CHANNELS: usize = 3;

/// Quality of one render; NaN if no pixel is valid.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ImageQuality {
    /// PSNR in dB; infinite for identical images.
    pub psnr: f64,
    /// Mean SSIM over pixels and channels.
    pub ssim: f64,
    /// PSNR after a least-squares affine fit of the render's colours to the ground truth.
    pub color_corrected_psnr: f64,
    /// SSIM after the same fit.
    pub color_corrected_ssim: f64,
    /// Valid pixels / all pixels.
    pub valid_fraction: f64,
}

/// A render and its ground truth, with values in 0..1.
///
/// ```
/// use gausset_compute::{Exec, Pool};
/// use gausset_core::TargetImage;
/// use gausset_metrics::quality::RenderComparison;
/// use gausset_metrics::{LossKernel, SsimDefinition};
///
/// // A grey image, and a render of it that is 1/255 brighter everywhere.
/// let target = TargetImage { width: 16, height: 16, rgb: vec![100; 3 * 256], alpha: None, mask: None };
/// let render = vec![101.0 / 255.0; 3 * 256];
///
/// let pool = Pool::new(1);
/// let mut kernel = LossKernel::new(Exec::best(&pool).level);
/// let comparison = RenderComparison::new((16, 16), &render, &target, [0.0; 3])?;
/// let quality = comparison.quality(&mut kernel, &pool, SsimDefinition::default())?;
/// assert!((quality.psnr - 48.13).abs() < 0.01, "20 log10(255) dB");
/// assert!(quality.ssim > 0.999);
/// # Ok::<(), gausset_metrics::SizeMismatch>(())
/// ```
#[derive(Clone, Debug)]
pub struct RenderComparison<'a> {
    /// The target image of the render.
    pub target: &'a TargetImage,
    /// Background colour under its transparent pixels.
    pub background: [f32; 3],
    /// The render, clamped.
    pub render: Vec<f32>,
    /// The ground truth.
    pub truth: Vec<f32>,
    /// The render with its colours fitted to the ground truth.
    pub corrected: Vec<f32>,
}

impl<'a> RenderComparison<'a> {
    /// Pairs a render (interleaved, not clamped) with its ground truth.
    ///
    /// # Errors
    /// The size of `render` is not that of the target.
    pub fn new(
        (width, height): (u32, u32),
        render: &[f32],
        target: &'a TargetImage,
        background: [f32; 3],
    ) -> Result<Self, SizeMismatch> {
        let (found_width, found_height) = (target.width, target.height);
        if (found_width, found_height) != (width, height) {
            return Err(SizeMismatch { what: "the truth", width, height, found_width, found_height });
        }
        let render: Vec<f32> = render.iter().map(|v| v.clamp(0.0, 1.0)).collect();
        let truth = composited_truth(target, background);
        let corrected = color_corrected(&render, &truth, target.mask.as_deref());
        Ok(Self { target, background, render, truth, corrected })
    }

    /// Computes all metrics of the render.
    ///
    /// # Errors
    /// Errors of [`ssim`]; the sizes were checked before.
    pub fn quality(
        &self,
        kernel: &mut LossKernel,
        pool: &Pool,
        definition: SsimDefinition,
    ) -> Result<ImageQuality, SizeMismatch> {
        let mask = self.target.mask.as_deref();
        let mut ssim_of = |picture: &[f32]| {
            ssim(definition, (&mut *kernel, pool), picture, (self.target, &self.truth), self.background)
        };
        Ok(ImageQuality {
            psnr: psnr(&self.render, &self.truth, mask),
            ssim: ssim_of(&self.render)?,
            color_corrected_psnr: psnr(&self.corrected, &self.truth, mask),
            color_corrected_ssim: ssim_of(&self.corrected)?,
            valid_fraction: self.target.valid_pixels() as f64 / (self.truth.len() / CHANNELS) as f64,
        })
    }

    /// PSNR over the valid pixels that `counts` keeps (one value per pixel, 0 = left out), and their number; NaN if
    /// there are none.
    #[must_use]
    pub fn psnr_where(&self, counts: &[u8]) -> (f64, usize) {
        let is_valid = |i: usize| self.target.mask.as_ref().is_none_or(|mask| mask[i] != 0);
        let kept: Vec<u8> =
            counts.iter().enumerate().map(|(i, &c)| u8::from(c != 0 && is_valid(i))).collect();
        let pixels = kept.iter().filter(|&&c| c != 0).count();
        (psnr(&self.render, &self.truth, Some(&kept)), pixels)
    }
}

/// The ground truth of training: interleaved RGB in 0..1, composited on `background` if it has alpha.
///
/// ```
/// use gausset_core::TargetImage;
/// use gausset_metrics::quality::composited_truth;
///
/// // Transparent pixels show the background.
/// let target = TargetImage { width: 1, height: 1, rgb: vec![255; 3], alpha: Some(vec![0]), mask: None };
/// assert_eq!(composited_truth(&target, [0.25; 3]), [0.25; 3]);
/// ```
#[must_use]
pub fn composited_truth(target: &TargetImage, background: [f32; 3]) -> Vec<f32> {
    let unit = |byte: u8| f32::from(byte) / 255.0;
    let mut values: Vec<f32> = target.rgb.iter().map(|&byte| unit(byte)).collect();
    if let Some(alpha) = &target.alpha {
        for (pixel, &coverage) in values.chunks_exact_mut(CHANNELS).zip(alpha) {
            let coverage = unit(coverage);
            for (value, behind) in pixel.iter_mut().zip(background) {
                // The same rounding as in the loss.
                *value = value.mul_add(coverage, behind * (1.0 - coverage));
            }
        }
    }
    values
}

/// Mean squared difference over valid pixels and channels; NaN if there are none.
///
/// ```
/// let (render, truth) = ([0.5, 0.5, 0.5, 1.0, 1.0, 1.0], [0.0; 6]);
/// let mse = |mask| gausset_metrics::quality::mse(&render, &truth, mask);
/// assert_eq!((mse(None), mse(Some(&[1, 0]))), (0.625, 0.25));
/// ```
///
/// # Panics
/// If the images differ in size.
#[must_use]
pub fn mse(render: &[f32], truth: &[f32], mask: Option<&[u8]>) -> f64 {
    assert_eq!(render.len(), truth.len(), "image sizes differ");
    let (mut sum, mut count) = (0.0, 0usize);
    for (x, y) in valid_pixels(render, truth, mask) {
        for (x, y) in x.iter().zip(y) {
            let difference = f64::from(*x) - f64::from(*y);
            sum += difference * difference;
        }
        count += CHANNELS;
    }
    sum / count as f64
}

/// Peak signal-to-noise ratio in dB over valid pixels and channels, for a peak of 1; infinite for identical images, NaN
/// if there is no valid pixel.
///
/// # Panics
/// If the images differ in size.
#[must_use]
pub fn psnr(render: &[f32], truth: &[f32], mask: Option<&[u8]>) -> f64 {
    -10.0 * libm::log10(mse(render, truth, mask))
}

/// The render after the 3x4 affine transform of its colours that fits the ground truth best over the valid pixels
/// (least squares), clamped to 0..1.
///
/// # Panics
/// If the images differ in size.
#[must_use]
pub fn color_corrected(render: &[f32], truth: &[f32], mask: Option<&[u8]>) -> Vec<f32> {
    assert_eq!(render.len(), truth.len(), "image sizes differ");
    let affine = fit_affine(render, truth, mask);
    let mut out = Vec::with_capacity(render.len());
    for pixel in render.chunks_exact(CHANNELS) {
        let features = features(pixel);
        for row in &affine {
            let value: f64 = row.iter().zip(features).map(|(m, f)| m * f).sum();
            out.push(value.clamp(0.0, 1.0) as f32);
        }
    }
    out
}

/// Homogeneous colour, to which the affine transform is applied.
fn features(pixel: &[f32]) -> [f64; 4] {
    [f64::from(pixel[0]), f64::from(pixel[1]), f64::from(pixel[2]), 1.0]
}

/// Least squares with a weak regularisation towards the identity, which decides where the colours do not (grey or
/// constant renders): `(A + λ n I) D = Σ f (t - x)ᵀ` with `A = Σ f fᵀ`, λ = 1e-9; the result is `identity + Dᵀ`. The
/// squared error is never larger than without correction.
fn fit_affine(render: &[f32], truth: &[f32], mask: Option<&[u8]>) -> [[f64; 4]; CHANNELS] {
    let mut normal = [[0.0; 4]; 4];
    let mut right = [[0.0; CHANNELS]; 4];
    for (x, y) in valid_pixels(render, truth, mask) {
        let f = features(x);
        for i in 0..4 {
            for j in 0..4 {
                normal[i][j] += f[i] * f[j];
            }
            for c in 0..CHANNELS {
                right[i][c] += f[i] * (f64::from(y[c]) - f[c]);
            }
        }
    }
    // The last diagonal entry is the number of pixels.
    let pull = 1e-9 * normal[3][3].max(1.0);
    for i in 0..4 {
        normal[i][i] += pull;
    }
    let change = solve_positive_definite(normal, right);
    std::array::from_fn(|c| std::array::from_fn(|j| change[j][c] + if c == j { 1.0 } else { 0.0 }))
}

/// Solves `a x = b` for a symmetric positive definite `a` by Cholesky decomposition.
fn solve_positive_definite<const N: usize, const M: usize>(
    mut a: [[f64; N]; N],
    mut b: [[f64; M]; N],
) -> [[f64; M]; N] {
    for j in 0..N {
        for k in 0..j {
            for i in j..N {
                a[i][j] -= a[i][k] * a[j][k];
            }
        }
        let pivot = a[j][j].sqrt();
        for i in j..N {
            a[i][j] /= pivot;
        }
    }
    for c in 0..M {
        for i in 0..N {
            for k in 0..i {
                b[i][c] -= a[i][k] * b[k][c];
            }
            b[i][c] /= a[i][i];
        }
        for i in (0..N).rev() {
            for k in i + 1..N {
                b[i][c] -= a[k][i] * b[k][c];
            }
            b[i][c] /= a[i][i];
        }
    }
    b
}

/// Pairs of valid pixels.
fn valid_pixels<'a>(
    render: &'a [f32],
    truth: &'a [f32],
    mask: Option<&'a [u8]>,
) -> impl Iterator<Item = (&'a [f32], &'a [f32])> {
    let is_valid = move |i: usize| mask.is_none_or(|mask| mask[i] != 0);
    let pixels = render.chunks_exact(CHANNELS).zip(truth.chunks_exact(CHANNELS));
    pixels.enumerate().filter(move |(i, _)| is_valid(*i)).map(|(_, pixels)| pixels)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{GroundTruth, Planes};
    use gausset_compute::SimdLevel;
    use gausset_compute::rng::{philox, stream, uniform};

    fn noise(pixels: usize, low: f32, high: f32, step: u64) -> Vec<f32> {
        let value = |i: usize| low + (high - low) * uniform(philox(5, stream::TEST, step, i as u32)[0]);
        (0..3 * pixels).map(value).collect()
    }

    #[test]
    fn a_tenth_off_everywhere_is_twenty_decibels_and_masked_pixels_do_not_count() {
        let truth = vec![0.5; 12];
        let mut render = vec![0.6; 12];
        // 0.6 - 0.5 is off by one unit in the last place of f32.
        assert!((psnr(&render, &truth, None) - 20.0).abs() < 1e-5);
        render[3..6].fill(f32::NAN);
        assert!((psnr(&render, &truth, Some(&[1, 0, 9, 1])) - 20.0).abs() < 1e-5);
        assert_eq!(psnr(&truth, &truth, None), f64::INFINITY);
        assert!(psnr(&truth, &truth, Some(&[0; 4])).is_nan());
    }

    #[test]
    fn an_affine_change_of_colours_is_undone_by_the_correction() {
        let render = noise(500, 0.2, 0.8, 0);
        let m = [[0.8, 0.1, -0.05, 0.02], [0.05, 0.7, 0.1, 0.05], [0.0, -0.1, 0.9, 0.1]];
        let truth: Vec<f32> = render
            .chunks_exact(3)
            .flat_map(|p| m.map(|r| r[0] * p[0] + r[1] * p[1] + r[2] * p[2] + r[3]))
            .collect();
        assert!(psnr(&render, &truth, None) < 30.0);
        // The remaining error is the rounding of f32 and the regularisation of 1e-9.
        assert!(psnr(&color_corrected(&render, &truth, None), &truth, None) > 120.0);
    }

    #[test]
    fn the_correction_never_makes_a_picture_worse_not_even_a_flat_or_a_masked_one() {
        let truth = noise(300, 0.0, 1.0, 1);
        let mask: Vec<u8> = (0..300).map(|i| u8::from(i % 3 != 0)).collect();
        for render in [noise(300, 0.0, 1.0, 2), vec![0.25; 900], vec![0.0; 900], truth.clone()] {
            for mask in [None, Some(&*mask)] {
                let corrected = color_corrected(&render, &truth, mask);
                assert!(corrected.iter().all(|v| (0.0..=1.0).contains(v)));
                // Rounding of the corrected values to f32.
                assert!(mse(&corrected, &truth, mask) <= mse(&render, &truth, mask) + 1e-14);
            }
        }
    }

    #[test]
    fn the_truth_of_the_evaluation_is_the_truth_of_the_loss() {
        let (width, height) = (21, 6);
        let bytes = |word: usize, n: usize| -> Vec<u8> {
            (0..n).map(|i| philox(6, stream::TEST, 0, i as u32)[word] as u8).collect()
        };
        let alpha: Vec<u8> =
            bytes(1, 126).iter().map(|&a| if a < 60 { 0 } else { a.saturating_add(60) }).collect();
        let target = TargetImage { width, height, rgb: bytes(0, 378), alpha: Some(alpha), mask: None };
        let background = [0.3, 1.0, 0.0];
        let truth = composited_truth(&target, background);
        for level in SimdLevel::ALL.into_iter().filter_map(gausset_compute::dispatch_level) {
            let options = crate::LossOptions { dssim_weight: 0.0, background, latitude: None };
            let mut gradient = Planes::default();
            let render = Planes::from_interleaved(width, height, &truth);
            let loss = LossKernel::new(level)
                .run(&Pool::new(1), &render, GroundTruth::Bytes(&target), &options, &mut gradient)
                .unwrap();
            // Equal bits: no difference at all.
            assert_eq!(loss.l1, 0.0);
        }
    }

    #[test]
    fn an_evaluation_clamps_the_render_and_counts_valid_pixels() {
        let level = gausset_compute::dispatch_level(SimdLevel::Auto).unwrap();
        let (mut kernel, pool) = (LossKernel::new(level), Pool::new(1));
        let mut quality = |target: &TargetImage| {
            let bright = vec![3.0; 240];
            let comparison = RenderComparison::new((20, 4), &bright, target, [0.0; 3]).unwrap();
            comparison.quality(&mut kernel, &pool, SsimDefinition::default()).unwrap()
        };
        let mut target =
            TargetImage { width: 20, height: 4, rgb: vec![255; 240], alpha: None, mask: Some(vec![1; 80]) };
        let equal = quality(&target);
        assert_eq!((equal.psnr, equal.valid_fraction), (f64::INFINITY, 1.0));
        assert!((equal.ssim - 1.0).abs() < 1e-6 && (equal.color_corrected_ssim - 1.0).abs() < 1e-6);
        target.mask = Some((0..80).map(|i| u8::from(i < 20)).collect());
        assert_eq!(quality(&target).valid_fraction, 0.25);
        target.mask = Some(vec![0; 80]);
        let none = quality(&target);
        assert!(none.psnr.is_nan() && none.ssim.is_nan());
        assert!(none.color_corrected_psnr.is_nan() && none.color_corrected_ssim.is_nan());
        let wrong = RenderComparison::new((4, 20), &[0.0; 240], &target, [0.0; 3]).unwrap_err();
        assert_eq!(wrong.to_string(), "the truth is 20x4 px (expected 4x20, the size of the render)");
    }

    #[test]
    fn a_colour_cast_costs_psnr_and_ssim_and_the_correction_gives_them_back() {
        let truth = noise(40 * 30, 0.2, 0.8, 3);
        let rgb: Vec<u8> = truth.iter().map(|v| (v * 255.0) as u8).collect();
        let target = TargetImage { width: 40, height: 30, rgb, alpha: None, mask: None };
        let dark: Vec<f32> = composited_truth(&target, [0.0; 3]).iter().map(|v| 0.6 * v).collect();
        let level = gausset_compute::dispatch_level(SimdLevel::Auto).unwrap();
        let comparison = RenderComparison::new((40, 30), &dark, &target, [0.0; 3]).unwrap();
        let q = comparison
            .quality(&mut LossKernel::new(level), &Pool::new(1), SsimDefinition::default())
            .unwrap();
        assert!(q.psnr < 15.0 && q.color_corrected_psnr > 100.0, "{q:?}");
        assert!(q.ssim < 0.95 && q.color_corrected_ssim > 0.9999, "{q:?}");
    }

    #[test]
    fn a_part_of_the_pixels_is_scored_by_itself_and_masked_ones_are_never_in_it() {
        let mut target = TargetImage { width: 4, height: 1, rgb: vec![0; 12], alpha: None, mask: None };
        let render = [0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9];
        let comparison = RenderComparison::new((4, 1), &render, &target, [0.0; 3]).unwrap();
        let (psnr, pixels) = comparison.psnr_where(&[1, 7, 0, 0]);
        assert!((psnr - 20.0).abs() < 1e-5 && pixels == 2);
        let (none, pixels) = comparison.psnr_where(&[0; 4]);
        assert!(none.is_nan() && pixels == 0);
        target.mask = Some(vec![1, 1, 0, 0]);
        let comparison = RenderComparison::new((4, 1), &render, &target, [0.0; 3]).unwrap();
        let (psnr, pixels) = comparison.psnr_where(&[1; 4]);
        assert!((psnr - 20.0).abs() < 1e-5 && pixels == 2);
    }
}
