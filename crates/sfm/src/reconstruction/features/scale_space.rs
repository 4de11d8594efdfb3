//! Gaussian scale space: octaves of increasingly blurred images, each half the size of the one before.

use gausset_compute::at_level;
use gausset_compute::fearless_simd::Level;

/// Scale steps in an octave.
pub(super) const STEPS: usize = 3;
/// Blur of the first level of an octave, px of the octave.
pub(super) const FIRST_SIGMA: f64 = 1.6;
/// Assumed blur of an input image, px.
const INPUT_SIGMA: f64 = 0.5;
/// Least side of an octave, px.
const MIN_SIDE: usize = 24;

/// A grey image, values from 0 to 1.
#[derive(Clone, Debug)]
pub(super) struct GreyImage {
    pub(super) width: usize,
    pub(super) height: usize,
    pub(super) data: Vec<f32>,
}

impl GreyImage {
    /// Luma (BT.601) of the crop `[left, top, right, bottom]` of an image.
    pub(super) fn from_rgb(rgb: &[u8], width: usize, [left, top, right, bottom]: [usize; 4]) -> Self {
        let luma = |p: &[u8]| {
            (0.299 / 255.0) * f32::from(p[0])
                + (0.587 / 255.0) * f32::from(p[1])
                + (0.114 / 255.0) * f32::from(p[2])
        };
        let row = |y: usize| rgb[3 * (y * width + left)..3 * (y * width + right)].chunks_exact(3).map(luma);
        Self { width: right - left, height: bottom - top, data: (top..bottom).flat_map(row).collect() }
    }

    pub(super) fn row(&self, y: usize) -> &[f32] {
        &self.data[y * self.width..(y + 1) * self.width]
    }

    /// Upscales by two: pixel 2k is pixel k, the ones between are means.
    fn doubled(&self) -> Self {
        let (width, height) = (2 * self.width, 2 * self.height);
        let mut data = vec![0.0; width * height];
        for y in 0..height {
            let (above, below) = (self.row(y / 2), self.row((y.div_ceil(2)).min(self.height - 1)));
            let out = &mut data[y * width..(y + 1) * width];
            for x in 0..self.width {
                let next = (x + 1).min(self.width - 1);
                let here = 0.5 * (above[x] + below[x]);
                out[2 * x] = here;
                out[2 * x + 1] = 0.5 * (here + 0.5 * (above[next] + below[next]));
            }
        }
        Self { width, height, data }
    }

    /// Every second pixel of every second row.
    fn halved(&self) -> Self {
        let (width, height) = (self.width.div_ceil(2), self.height.div_ceil(2));
        let data = (0..height).flat_map(|y| self.row(2 * y).iter().step_by(2).copied()).collect();
        Self { width, height, data }
    }

    /// Convolves with a Gaussian; border pixels are repeated.
    fn blurred(&self, sigma: f64, level: Level) -> Self {
        let kernel = kernel(sigma);
        let reach = kernel.len() - 1;
        let (width, height) = (self.width, self.height);
        let mut across = vec![0.0f32; width * height];
        let mut padded = vec![0.0f32; width + 2 * reach];
        for y in 0..height {
            let row = self.row(y);
            padded[..reach].fill(row[0]);
            padded[reach..reach + width].copy_from_slice(row);
            padded[reach + width..].fill(row[width - 1]);
            let out = &mut across[y * width..(y + 1) * width];
            at_level!(level, _simd => {
                scale_into(out, &padded[reach..], kernel[0]);
                for (k, &weight) in kernel.iter().enumerate().skip(1) {
                    add(out, &padded[reach - k..], &padded[reach + k..], weight);
                }
            });
        }
        let mut data = vec![0.0f32; width * height];
        let row = |y: isize| {
            let y = y.clamp(0, height as isize - 1) as usize;
            &across[y * width..(y + 1) * width]
        };
        for y in 0..height {
            let out = &mut data[y * width..(y + 1) * width];
            let at = y as isize;
            at_level!(level, _simd => {
                scale_into(out, row(at), kernel[0]);
                for (k, &weight) in kernel.iter().enumerate().skip(1) {
                    add(out, row(at - k as isize), row(at + k as isize), weight);
                }
            });
        }
        Self { width, height, data }
    }
}

/// Half of a Gaussian kernel: weights at 0, 1, 2, ..; the weights of the whole kernel sum to 1.
fn kernel(sigma: f64) -> Vec<f32> {
    let reach = (4.0 * sigma).ceil().max(1.0) as usize;
    let half: Vec<f64> = (0..=reach).map(|k| libm::exp(-0.5 * (k as f64 / sigma).powi(2))).collect();
    let sum = 2.0 * half.iter().sum::<f64>() - half[0];
    half.iter().map(|weight| (weight / sum) as f32).collect()
}

#[inline(always)]
fn scale_into(out: &mut [f32], row: &[f32], weight: f32) {
    for (out, value) in out.iter_mut().zip(row) {
        *out = weight * value;
    }
}

#[inline(always)]
fn add(out: &mut [f32], one: &[f32], other: &[f32], weight: f32) {
    for ((out, a), b) in out.iter_mut().zip(one).zip(other) {
        *out += weight * (a + b);
    }
}

/// Octaves of `STEPS + 3` levels; the first has twice the size of the image.
#[derive(Clone, Debug)]
pub(super) struct ScaleSpace {
    pub(super) octaves: Vec<Vec<GreyImage>>,
}

impl ScaleSpace {
    pub(super) fn new(grey: &GreyImage, level: Level) -> Self {
        let between = |from: f64, to: f64| libm::sqrt((to * to - from * from).max(0.01));
        // Upscaling by two doubles the blur.
        let mut first = grey.doubled().blurred(between(2.0 * INPUT_SIGMA, FIRST_SIGMA), level);
        let mut octaves = Vec::new();
        while first.width.min(first.height) >= MIN_SIDE {
            let mut levels = vec![first];
            for step in 1..STEPS + 3 {
                let increment = between(sigma(step as f64 - 1.0), sigma(step as f64));
                levels.push(levels[step - 1].blurred(increment, level));
            }
            first = levels[STEPS].halved();
            octaves.push(levels);
        }
        Self { octaves }
    }

    /// Pixels of the image per pixel of an octave.
    pub(super) fn spacing(octave: usize) -> f64 {
        0.5 * (1u64 << octave) as f64
    }
}

/// Blur of a level, px of the octave.
pub(super) fn sigma(step: f64) -> f64 {
    FIRST_SIGMA * libm::exp2(step / STEPS as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gausset_compute::{SimdLevel, dispatch_level};

    #[test]
    fn blurring_a_point_gives_a_gaussian_at_every_level() {
        let mut point = GreyImage { width: 41, height: 41, data: vec![0.0; 41 * 41] };
        point.data[20 * 41 + 20] = 1.0;
        let mut seen: Option<Vec<f32>> = None;
        for wanted in SimdLevel::ALL {
            let Some(level) = dispatch_level(wanted) else { continue };
            let blurred = point.blurred(2.0, level);
            for (y, x) in [(20usize, 20usize), (18, 23), (26, 20)] {
                let d = (x as f64 - 20.0).powi(2) + (y as f64 - 20.0).powi(2);
                let wanted = libm::exp(-d / 8.0) / (8.0 * std::f64::consts::PI);
                assert!((f64::from(blurred.data[y * 41 + x]) - wanted).abs() < 2e-5);
            }
            assert!(seen.replace(blurred.data.clone()).is_none_or(|before| before == blurred.data));
        }
    }

    #[test]
    fn twice_and_half_the_size_keep_places() {
        let ramp = GreyImage { width: 5, height: 4, data: (0..20).map(|k| (k % 5) as f32).collect() };
        let twice = ramp.doubled();
        assert_eq!(&twice.row(3)[..5], [0.0, 0.5, 1.0, 1.5, 2.0]);
        assert_eq!(twice.halved().data, ramp.data);
    }
}
