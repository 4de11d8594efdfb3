//! Converts an image to a model's input, and maps coordinates between them.
//!
//! Coordinates are continuous and pixel i has its centre at i + ½, along both axes, in images, inputs and outputs. A
//! point p of the image is at `p · scale + offset` in the input. Corners are never aligned with pixel centres, so
//! resizing causes no shift by half a pixel.

use serde::Deserialize;

use crate::description::{ChannelOrder, InputSpec, Layout};
use crate::engine::Tensor;

/// How an image is resized to the input's size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ResizeMode {
    /// Width and height are scaled independently; the aspect ratio changes.
    #[default]
    Stretch,
    /// The aspect ratio is kept; padding on both sides.
    Letterbox,
    /// The aspect ratio is kept; padding on the right and at the bottom.
    Pad,
}

/// An 8-bit RGB image, by rows.
#[derive(Clone, Copy, Debug)]
pub struct RgbImage<'a> {
    /// Width of the image, px.
    pub width: usize,
    /// Height of the image, px.
    pub height: usize,
    /// 3 bytes per pixel.
    pub rgb: &'a [u8],
}

/// Position of an image in an input.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Placement {
    /// Width and height of the input, px.
    pub input: [usize; 2],
    /// First column and row of the image in the input.
    pub offset: [usize; 2],
    /// Width and height of the image in the input, px.
    pub inside: [usize; 2],
    /// Width and height of the image, px.
    pub image: [usize; 2],
}

impl Placement {
    /// Placement of an image of this size.
    ///
    /// ```
    /// use gausset_segment::{Placement, ResizeMode};
    ///
    /// // A 2:1 image in the middle of a square input.
    /// let placement = Placement::new(ResizeMode::Letterbox, [2000, 1000], [640, 640]);
    /// assert_eq!((placement.inside, placement.offset), ([640, 320], [0, 160]));
    /// ```
    #[must_use]
    pub fn new(fit: ResizeMode, picture: [usize; 2], input: [usize; 2]) -> Self {
        if fit == ResizeMode::Stretch {
            return Self { input, offset: [0, 0], inside: input, image: picture };
        }
        let scale = (0..2).map(|k| input[k] as f64 / picture[k] as f64).fold(f64::INFINITY, f64::min);
        let inside = [0, 1].map(|k| ((picture[k] as f64 * scale).round() as usize).clamp(1, input[k]));
        let offset = match fit {
            ResizeMode::Letterbox => [0, 1].map(|k| (input[k] - inside[k]) / 2),
            ResizeMode::Stretch | ResizeMode::Pad => [0, 0],
        };
        Self { input, offset, inside, image: picture }
    }

    /// Maps a coordinate of the image to the input, along one axis (0 = x, 1 = y).
    #[must_use]
    pub fn to_input(&self, axis: usize, at: f64) -> f64 {
        at * self.inside[axis] as f64 / self.image[axis] as f64 + self.offset[axis] as f64
    }

    /// Maps a coordinate of the input to the image, along one axis.
    #[must_use]
    pub fn to_image(&self, axis: usize, at: f64) -> f64 {
        (at - self.offset[axis] as f64) * self.image[axis] as f64 / self.inside[axis] as f64
    }
}

/// The input tensor of an image.
pub(crate) fn tensor(picture: &RgbImage<'_>, placement: &Placement, spec: &InputSpec) -> Tensor {
    let [width, height] = placement.input;
    let [across, down] = placement.inside;
    let scaled = resample(picture, placement.inside);
    let value = |channel: usize, byte: f32| {
        (byte / 255.0 * spec.range - spec.mean[channel]) / spec.deviation[channel]
    };
    // Channel k of the tensor is this channel of the image.
    let source = |k: usize| if spec.colour == ChannelOrder::Bgr { 2 - k } else { k };
    let mut data = vec![0.0; 3 * width * height];
    let at = |k: usize, x: usize, y: usize| match spec.layout {
        Layout::Nchw => (k * height + y) * width + x,
        Layout::Nhwc => (y * width + x) * 3 + k,
    };
    for k in 0..3 {
        let empty = value(k, spec.pad);
        for y in 0..height {
            for x in 0..width {
                let (column, row) =
                    (x.wrapping_sub(placement.offset[0]), y.wrapping_sub(placement.offset[1]));
                data[at(k, x, y)] = if column < across && row < down {
                    value(k, scaled[(row * across + column) * 3 + source(k)])
                } else {
                    empty
                };
            }
        }
    }
    let shape = match spec.layout {
        Layout::Nchw => vec![1, 3, height, width],
        Layout::Nhwc => vec![1, height, width, 3],
    };
    Tensor { shape, data }
}

/// Resizes an image: bilinear, and when downscaling with a triangle filter as wide as an output pixel (the antialiasing
/// of Pillow and torchvision). Values are not rounded.
fn resample(picture: &RgbImage<'_>, [width, height]: [usize; 2]) -> Vec<f32> {
    let columns = Taps::new(picture.width, width);
    let rows = Taps::new(picture.height, height);
    // Horizontal pass first, over the rows of the source.
    let mut wide = vec![0.0; 3 * width * picture.height];
    for (from, to) in picture.rgb.chunks_exact(3 * picture.width).zip(wide.chunks_exact_mut(3 * width)) {
        for (x, to) in to.chunks_exact_mut(3).enumerate() {
            let (first, weights) = columns.get(x);
            for (k, weight) in weights.iter().enumerate() {
                for (to, &from) in to.iter_mut().zip(&from[3 * (first + k)..]) {
                    *to += weight * f32::from(from);
                }
            }
        }
    }
    let mut out = vec![0.0; 3 * width * height];
    for (y, to) in out.chunks_exact_mut(3 * width).enumerate() {
        let (first, weights) = rows.get(y);
        for (k, weight) in weights.iter().enumerate() {
            let from = &wide[3 * width * (first + k)..3 * width * (first + k + 1)];
            for (to, from) in to.iter_mut().zip(from) {
                *to += weight * from;
            }
        }
    }
    out
}

/// Filter taps: for each output sample, the input samples and their weights.
struct Taps {
    ranges: Vec<(usize, usize, usize)>,
    weights: Vec<f32>,
}

impl Taps {
    fn new(from: usize, to: usize) -> Self {
        let step = from as f64 / to as f64;
        let reach = step.max(1.0);
        let mut taps = Self { ranges: Vec::with_capacity(to), weights: Vec::new() };
        for k in 0..to {
            let centre = (k as f64 + 0.5) * step;
            let first = ((centre - reach).round().max(0.0) as usize).min(from - 1);
            let last = ((centre + reach).round() as usize).clamp(first + 1, from);
            let weight = |i: usize| (1.0 - ((i as f64 + 0.5 - centre) / reach).abs()).max(0.0);
            let sum: f64 = (first..last).map(weight).sum();
            taps.ranges.push((first, taps.weights.len(), last - first));
            taps.weights.extend((first..last).map(|i| (weight(i) / sum) as f32));
        }
        taps
    }

    fn get(&self, k: usize) -> (usize, &[f32]) {
        let (first, start, count) = self.ranges[k];
        (first, &self.weights[start..start + count])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Centroid of the brightness of a tensor's first channel.
    fn centre(tensor: &Tensor) -> [f64; 2] {
        let [height, width] = [tensor.shape[2], tensor.shape[3]];
        let (mut sum, mut at) = (0.0, [0.0; 2]);
        for y in 0..height {
            for x in 0..width {
                let v = f64::from(tensor.data[y * width + x]);
                sum += v;
                at = [at[0] + v * (x as f64 + 0.5), at[1] + v * (y as f64 + 0.5)];
            }
        }
        at.map(|sum_of| sum_of / sum)
    }

    #[test]
    fn marks_near_all_corners_stay_in_place_however_a_picture_is_fitted() {
        let (w, h) = (120, 60);
        let input = [64, 64];
        for fit in [ResizeMode::Stretch, ResizeMode::Letterbox, ResizeMode::Pad] {
            let placement = Placement::new(fit, [w, h], input);
            for corner in [[4, 4], [w - 12, 4], [4, h - 12], [w - 12, h - 12]] {
                let mut rgb = vec![0; 3 * w * h];
                for y in corner[1]..corner[1] + 8 {
                    rgb[3 * (y * w + corner[0])..3 * (y * w + corner[0] + 8)].fill(255);
                }
                let spec = InputSpec { pad: 0.0, ..InputSpec::default() };
                let found = centre(&tensor(&RgbImage { width: w, height: h, rgb: &rgb }, &placement, &spec));
                for axis in 0..2 {
                    let at = corner[axis] as f64 + 4.0;
                    let expected = placement.to_input(axis, at);
                    assert!((found[axis] - expected).abs() < 0.02, "{fit:?} {corner:?} {found:?} {expected}");
                    assert!((placement.to_image(axis, expected) - at).abs() < 1e-9);
                }
            }
        }
    }

    #[test]
    fn letterboxes_keep_the_shape_and_stretching_does_not() {
        let inside = |fit| Placement::new(fit, [1920, 960], [640, 640]);
        assert_eq!(inside(ResizeMode::Stretch).inside, [640, 640]);
        assert_eq!(
            (inside(ResizeMode::Letterbox).inside, inside(ResizeMode::Letterbox).offset),
            ([640, 320], [0, 160])
        );
        assert_eq!((inside(ResizeMode::Pad).inside, inside(ResizeMode::Pad).offset), ([640, 320], [0, 0]));
    }

    #[test]
    fn values_layouts_and_padding_are_what_the_description_says() {
        let picture = RgbImage { width: 1, height: 1, rgb: &[255, 51, 0] };
        let placement = Placement::new(ResizeMode::Pad, [1, 1], [2, 1]);
        let spec = InputSpec { mean: [0.5; 3], deviation: [0.25; 3], pad: 255.0, ..InputSpec::default() };
        let made = tensor(&picture, &placement, &spec);
        assert_eq!(made.shape, [1, 3, 1, 2]);
        let expected = [2.0, 2.0, -1.2, 2.0, -2.0, 2.0];
        assert!(made.data.iter().zip(expected).all(|(a, b): (&f32, f32)| (a - b).abs() < 1e-6), "{made:?}");
        let spec = InputSpec {
            layout: Layout::Nhwc,
            colour: ChannelOrder::Bgr,
            range: 255.0,
            ..InputSpec::default()
        };
        let made = tensor(&picture, &Placement::new(ResizeMode::Stretch, [1, 1], [1, 1]), &spec);
        assert_eq!((made.shape, made.data), (vec![1, 1, 1, 3], vec![0.0, 51.0, 255.0]));
    }

    #[test]
    fn a_picture_of_the_right_size_is_taken_as_it_is_and_a_smaller_one_is_averaged() {
        let rgb: Vec<u8> = (0..3 * 16).collect();
        let picture = RgbImage { width: 4, height: 4, rgb: &rgb };
        let same: Vec<f32> = rgb.iter().copied().map(f32::from).collect();
        assert_eq!(resample(&picture, [4, 4]), same);
        // A chequerboard becomes grey, not black or white.
        let board: Vec<u8> = (0..3 * 64).map(|i| if (i / 3 + i / 24) % 2 == 0 { 0 } else { 254 }).collect();
        let small = resample(&RgbImage { width: 8, height: 8, rgb: &board }, [2, 2]);
        assert!(small.iter().all(|v| (v - 127.0).abs() < 8.0), "{small:?}");
    }
}
