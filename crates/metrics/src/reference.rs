//! Reference implementation: L1, SSIM, their gradients and PSNR in f64, plain loops.
//!
//! Images are interleaved RGB in f64 (`height × width × 3`), `x` the render (not clamped), `y` the ground truth in
//! 0..1. With the separable 11-tap Gaussian `K` (sigma 1.5, zero padding, not renormalised at the border; Wang et al.
//! 2004)
//!
//! ```text
//! μx = K x   μy = K y   vx = K(x²) - μx²   vy = K(y²) - μy²   vxy = K(x y) - μx μy
//! A1 = 2 μx μy + C1   A2 = 2 vxy + C2   B1 = μx² + μy² + C1   B2 = vx + vy + C2   S = A1 A2 / (B1 B2)
//! loss = (1 - w) mean |x - y| + w (1 - mean S)
//! ```
//!
//! Masks: where `mask` is 0 the render is replaced by the ground truth *before* anything else; both means are then
//! taken over the valid pixels only (and all channels), and the gradient is 0 at the others. So S near a masked pixel
//! compares only valid pixels, and S *at* a masked pixel, which the render affects only through its neighbours, does
//! not count.
//!
//! Rows of a panorama are weighted: each mean is then `Σ weight value / Σ weight`.

use gausset_core::constants::{SSIM_C1, SSIM_C2, SSIM_TAPS};

/// Channels of an image.
const CHANNELS: usize = 3;
/// Taps on either side of the centre.
const RADIUS: usize = SSIM_TAPS / 2;

/// Taps of the window: `exp(-(k - 5)² / (2 · 1.5²))`, normalised to sum 1.
pub const WINDOW: [f64; SSIM_TAPS] = [
    0.001_028_380_084_479_11,
    0.007_598_758_135_239_185,
    0.036_000_772_128_430_83,
    0.109_360_689_509_700_02,
    0.213_005_537_711_253_7,
    0.266_011_724_861_794_36,
    0.213_005_537_711_253_7,
    0.109_360_689_509_700_02,
    0.036_000_772_128_430_83,
    0.007_598_758_135_239_185,
    0.001_028_380_084_479_11,
];

/// Two images to compare, and the pixels that count.
#[derive(Clone, Copy, Debug)]
pub struct ReferencePair<'a> {
    /// Width in px.
    pub width: usize,
    /// Height in px.
    pub height: usize,
    /// The render, interleaved RGB in 0..1.
    pub x: &'a [f64],
    /// The ground truth.
    pub y: &'a [f64],
    /// One value per pixel, 0 = ignore; `None` = all pixels are valid.
    pub mask: Option<&'a [u8]>,
}

/// Loss of an image with its gradient.
#[derive(Clone, Debug, PartialEq)]
pub struct ReferenceLoss {
    /// `(1 - w) L1 + w (1 - SSIM)`; 0 if no pixel is valid.
    pub loss: f64,
    /// Mean absolute difference.
    pub l1: f64,
    /// Mean SSIM over valid pixels and channels.
    pub ssim: f64,
    /// d loss / d x.
    pub gradient: Vec<f64>,
}

impl ReferencePair<'_> {
    fn is_valid(&self, pixel: usize) -> bool {
        self.mask.is_none_or(|mask| mask[pixel] != 0)
    }

    /// Number of valid pixels.
    #[must_use]
    pub fn valid_pixels(&self) -> usize {
        (0..self.width * self.height).filter(|&pixel| self.is_valid(pixel)).count()
    }

    /// The render with the ground truth in masked pixels.
    #[must_use]
    pub fn masked_render(&self) -> Vec<f64> {
        (0..self.x.len()).map(|i| if self.is_valid(i / CHANNELS) { self.x[i] } else { self.y[i] }).collect()
    }

    /// Mean over valid pixels and channels; NaN if there are none.
    fn mean(&self, value: impl Fn(usize) -> f64) -> f64 {
        self.weighted_mean(|_| 1.0, value)
    }

    /// Sum over valid values of the weights of their rows.
    fn total_weight(&self, rows: impl Fn(usize) -> f64) -> f64 {
        let valid = (0..self.x.len()).filter(|i| self.is_valid(i / CHANNELS));
        valid.map(|i| rows(i / CHANNELS / self.width)).sum()
    }

    fn weighted_mean(&self, rows: impl Fn(usize) -> f64, value: impl Fn(usize) -> f64) -> f64 {
        let valid = (0..self.x.len()).filter(|i| self.is_valid(i / CHANNELS));
        let sum: f64 = valid.map(|i| rows(i / CHANNELS / self.width) * value(i)).sum();
        sum / self.total_weight(rows)
    }

    /// Mean absolute difference.
    #[must_use]
    pub fn l1(&self) -> f64 {
        self.mean(|i| (self.x[i] - self.y[i]).abs())
    }

    /// Mean squared difference.
    #[must_use]
    pub fn mse(&self) -> f64 {
        self.mean(|i| (self.x[i] - self.y[i]).powi(2))
    }

    /// Peak signal-to-noise ratio in dB for a peak of 1; infinite for identical images.
    #[must_use]
    pub fn psnr(&self) -> f64 {
        psnr_of_mse(self.mse())
    }

    /// S of each value (valid or not).
    #[must_use]
    pub fn ssim_map(&self) -> Vec<f64> {
        self.statistics().iter().map(Statistics::ssim).collect()
    }

    /// Mean SSIM over valid pixels and channels.
    #[must_use]
    pub fn ssim(&self) -> f64 {
        let map = self.ssim_map();
        self.mean(|i| map[i])
    }

    /// d (mean SSIM) / d x.
    ///
    /// With upstream weight γ per value (1/(3n) where valid, else 0):
    /// `K(γ dS/dμx) + 2 x K(γ dS/dK(x²)) + y K(γ dS/dK(xy))`.
    #[must_use]
    pub fn ssim_gradient(&self) -> Vec<f64> {
        self.weighted_ssim_gradient(|_| 1.0)
    }

    fn weighted_ssim_gradient(&self, rows: impl Fn(usize) -> f64) -> Vec<f64> {
        let total = self.total_weight(&rows);
        let upstream = |i: usize| {
            if self.is_valid(i / CHANNELS) { rows(i / CHANNELS / self.width) / total } else { 0.0 }
        };
        let statistics = self.statistics();
        let filtered = |derivative: fn(&Statistics) -> f64| {
            let values: Vec<f64> =
                statistics.iter().enumerate().map(|(i, s)| upstream(i) * derivative(s)).collect();
            self.filter(|i| values[i])
        };
        let d_mean = filtered(Statistics::d_mean);
        let d_square = filtered(Statistics::d_square);
        let d_product = filtered(Statistics::d_product);
        let gradient = |i: usize| d_mean[i] + 2.0 * self.x[i] * d_square[i] + self.y[i] * d_product[i];
        (0..self.x.len()).map(|i| if self.is_valid(i / CHANNELS) { gradient(i) } else { 0.0 }).collect()
    }

    /// Loss with D-SSIM weight `w`, and its gradient. The derivative of `|x - y|` at 0 is taken as 0.
    #[must_use]
    pub fn loss(&self, w: f64) -> ReferenceLoss {
        self.weighted_loss(w, |_| 1.0)
    }

    /// [`Self::loss`] with row weights.
    #[must_use]
    pub fn weighted_loss(&self, w: f64, rows: impl Fn(usize) -> f64) -> ReferenceLoss {
        if self.valid_pixels() == 0 {
            return ReferenceLoss { loss: 0.0, l1: 0.0, ssim: 1.0, gradient: vec![0.0; self.x.len()] };
        }
        let (total, map) = (self.total_weight(&rows), self.ssim_map());
        let l1 = self.weighted_mean(&rows, |i| (self.x[i] - self.y[i]).abs());
        let ssim = self.weighted_mean(&rows, |i| map[i]);
        let mut gradient = self.weighted_ssim_gradient(&rows);
        for (i, g) in gradient.iter_mut().enumerate() {
            let difference = self.x[i] - self.y[i];
            let sign =
                if difference == 0.0 || !self.is_valid(i / CHANNELS) { 0.0 } else { difference.signum() };
            *g = (1.0 - w) * sign * rows(i / CHANNELS / self.width) / total - w * *g;
        }
        ReferenceLoss { loss: (1.0 - w) * l1 + w * (1.0 - ssim), l1, ssim, gradient }
    }

    fn statistics(&self) -> Vec<Statistics> {
        let x = self.masked_render();
        let y = self.y;
        let mean_x = self.filter(|i| x[i]);
        let mean_y = self.filter(|i| y[i]);
        let square_x = self.filter(|i| x[i] * x[i]);
        let square_y = self.filter(|i| y[i] * y[i]);
        let product = self.filter(|i| x[i] * y[i]);
        (0..x.len())
            .map(|i| Statistics {
                mean_x: mean_x[i],
                mean_y: mean_y[i],
                squares: square_x[i] + square_y[i],
                product: product[i],
            })
            .collect()
    }

    /// Applies the window to an image: rows first, then columns; zero-padded.
    fn filter(&self, value: impl Fn(usize) -> f64) -> Vec<f64> {
        let (width, height) = (self.width, self.height);
        let index = |x: usize, y: usize, channel: usize| (y * width + x) * CHANNELS + channel;
        let pass = |value: &dyn Fn(usize, usize, usize) -> f64, along_x: bool| {
            let mut out = vec![0.0; width * height * CHANNELS];
            for y in 0..height {
                for x in 0..width {
                    for channel in 0..CHANNELS {
                        let (at, len) = if along_x { (x, width) } else { (y, height) };
                        let taps = at.saturating_sub(RADIUS)..(at + RADIUS + 1).min(len);
                        out[index(x, y, channel)] = taps
                            .map(|i| {
                                let tap = WINDOW[i + RADIUS - at];
                                tap * if along_x { value(i, y, channel) } else { value(x, i, channel) }
                            })
                            .sum();
                    }
                }
            }
            out
        };
        let rows = pass(&|x, y, channel| value(index(x, y, channel)), true);
        pass(&|x, y, channel| rows[index(x, y, channel)], false)
    }
}

/// Peak signal-to-noise ratio in dB of a mean squared error, for a peak of 1.
#[must_use]
pub fn psnr_of_mse(mse: f64) -> f64 {
    -10.0 * libm::log10(mse)
}

/// Filtered moments at one value. `squares` is `K(x²) + K(y²)`: only the sum of the variances is needed.
struct Statistics {
    mean_x: f64,
    mean_y: f64,
    squares: f64,
    product: f64,
}

impl Statistics {
    fn a1(&self) -> f64 {
        2.0 * self.mean_x * self.mean_y + SSIM_C1
    }

    fn a2(&self) -> f64 {
        2.0 * (self.product - self.mean_x * self.mean_y) + SSIM_C2
    }

    fn b1(&self) -> f64 {
        self.mean_x.powi(2) + self.mean_y.powi(2) + SSIM_C1
    }

    fn b2(&self) -> f64 {
        self.squares - self.mean_x.powi(2) - self.mean_y.powi(2) + SSIM_C2
    }

    fn ssim(&self) -> f64 {
        self.a1() * self.a2() / (self.b1() * self.b2())
    }

    /// dS/dμx, including the means in the variances.
    fn d_mean(&self) -> f64 {
        2.0 * (self.mean_y * (self.a2() - self.a1()) - self.mean_x * self.ssim() * (self.b2() - self.b1()))
            / (self.b1() * self.b2())
    }

    /// dS/dK(x²).
    fn d_square(&self) -> f64 {
        -self.ssim() / self.b2()
    }

    /// dS/dK(xy).
    fn d_product(&self) -> f64 {
        2.0 * self.a1() / (self.b1() * self.b2())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gausset_compute::rng::{philox, stream, uniform};
    use gausset_core::constants::SSIM_SIGMA;

    #[test]
    fn the_window_is_a_normalised_gaussian() {
        let bell: Vec<f64> = (0..SSIM_TAPS)
            .map(|k| (-(k as f64 - 5.0).powi(2) / (2.0 * SSIM_SIGMA * SSIM_SIGMA)).exp())
            .collect();
        let sum: f64 = bell.iter().sum();
        for (tap, value) in WINDOW.iter().zip(bell) {
            assert!((tap - value / sum).abs() < 1e-16);
        }
    }

    /// Random images that differ everywhere (so that |x - y| is smooth within a small step), and a mask with holes.
    fn noise(width: usize, height: usize) -> (Vec<f64>, Vec<f64>, Vec<u8>) {
        let draw = |i: usize| philox(3, stream::TEST, 0, i as u32).map(|w| f64::from(uniform(w)));
        let n = width * height * CHANNELS;
        let y: Vec<f64> = (0..n).map(|i| draw(i)[0]).collect();
        let x = (0..n)
            .map(|i| {
                let [_, side, distance, _] = draw(i);
                y[i] + if side < 0.5 { -1.0 } else { 1.0 } * (0.05 + 0.3 * distance)
            })
            .collect();
        let mask = (0..width * height).map(|i| u8::from(draw(i)[3] > 0.3)).collect();
        (x, y, mask)
    }

    #[test]
    fn the_gradient_is_the_slope_of_the_loss_with_and_without_a_mask() {
        let (width, height) = (12, 7);
        let (x, y, mask) = noise(width, height);
        for mask in [None, Some(&*mask)] {
            for w in [0.0, 0.2, 1.0] {
                let pair = ReferencePair { width, height, x: &x, y: &y, mask };
                let loss = pair.loss(w);
                let scale = loss.gradient.iter().map(|g| g.abs()).fold(0.0, f64::max);
                for i in 0..x.len() {
                    let at = |step: f64| {
                        let mut moved = x.clone();
                        moved[i] += step;
                        ReferencePair { x: &moved, ..pair }.loss(w).loss
                    };
                    let h = 1e-5;
                    let slope = (at(h) - at(-h)) / (2.0 * h);
                    // Central differences: h² times a third derivative of the order 1e3 C2-scaled, rounding 1e-16/h.
                    assert!((slope - loss.gradient[i]).abs() < 2e-6 * scale, "value {i}, weight {w}");
                }
            }
        }
    }

    #[test]
    fn the_gradient_of_a_panorama_is_the_slope_of_its_loss() {
        let (width, height) = (12, 7);
        let (x, y, mask) = noise(width, height);
        let pair = ReferencePair { width, height, x: &x, y: &y, mask: Some(&mask) };
        let rows = |row: usize| libm::cos((row as f64 + 0.5 - 3.5) / 2.3);
        let loss = pair.weighted_loss(0.2, rows);
        let scale = loss.gradient.iter().map(|g| g.abs()).fold(0.0, f64::max);
        for i in 0..x.len() {
            let at = |step: f64| {
                let mut moved = x.clone();
                moved[i] += step;
                ReferencePair { x: &moved, ..pair }.weighted_loss(0.2, rows).loss
            };
            let slope = (at(1e-5) - at(-1e-5)) / 2e-5;
            assert!((slope - loss.gradient[i]).abs() < 2e-6 * scale, "value {i}");
        }
    }

    #[test]
    fn a_masked_pixel_has_no_influence_and_no_gradient() {
        let (width, height) = (12, 12);
        let (mut x, y, mask) = noise(width, height);
        let before = ReferencePair { width, height, x: &x, y: &y, mask: Some(&mask) }.loss(0.2);
        for (i, value) in x.iter_mut().enumerate() {
            if mask[i / CHANNELS] == 0 {
                *value = 1e6;
                assert_eq!(before.gradient[i], 0.0);
            }
        }
        let after = ReferencePair { width, height, x: &x, y: &y, mask: Some(&mask) }.loss(0.2);
        assert_eq!(before, after);
    }

    #[test]
    fn a_mask_that_keeps_everything_changes_nothing_and_an_empty_one_gives_no_loss() {
        let (width, height) = (9, 7);
        let (x, y, _) = noise(width, height);
        let pair = ReferencePair { width, height, x: &x, y: &y, mask: None };
        let all = ReferencePair { mask: Some(&[7; 63]), ..pair };
        assert_eq!(pair.loss(0.2), all.loss(0.2));
        let none = ReferencePair { mask: Some(&[0; 63]), ..pair }.loss(0.2);
        assert_eq!(none.loss, 0.0);
        assert!(none.gradient.iter().all(|&g| g == 0.0));
    }

    #[test]
    fn equal_pictures_have_no_loss_no_gradient_and_infinite_psnr() {
        let (_, y, _) = noise(16, 11);
        let pair = ReferencePair { width: 16, height: 11, x: &y, y: &y, mask: None };
        let loss = pair.loss(0.2);
        assert!(loss.loss.abs() < 1e-15 && loss.gradient.iter().all(|g| g.abs() < 1e-15));
        assert_eq!(pair.psnr(), f64::INFINITY);
    }
}
