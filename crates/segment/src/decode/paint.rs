//! Converts a coarse mask to the pixels of the image.

use super::{Detection, sigmoid};
use crate::description::Activation;
use crate::input_image::Placement;

/// Probability below which a pixel is not part of a detection.
const NOTHING: f32 = 1.0 / 64.0;

/// A grid of values over a part of the input.
pub(super) struct Lattice<'a> {
    /// Values, by rows.
    pub values: &'a [f32],
    /// Width and height.
    pub size: [usize; 2],
    /// Left, top, right and bottom edge of the part that it covers, px of the input.
    pub span: [f32; 4],
    /// Conversion of values to probabilities.
    pub activation: Activation,
    /// Pixels of the input outside of this box are not part of the detection.
    pub within: Option<[f32; 4]>,
}

impl Lattice<'_> {
    /// The detection, if it has at least one pixel.
    ///
    /// Values are interpolated bilinearly between the centres of grid cells and then converted to probabilities, as in
    /// the training of the models.
    pub(super) fn find(&self, class: usize, score: f32, placement: &Placement) -> Option<Detection> {
        let [left, top, right, bottom] = self.extent(placement)?;
        let (width, height) = (right - left, bottom - top);
        let mut soft = vec![0; width * height];
        let columns: Vec<Option<(usize, usize, f32)>> =
            (left..right).map(|x| self.taps(0, placement.to_input(0, x as f64 + 0.5))).collect();
        for (y, row) in (top..bottom).zip(soft.chunks_exact_mut(width)) {
            let Some((upper, lower, down)) = self.taps(1, placement.to_input(1, y as f64 + 0.5)) else {
                continue;
            };
            let at = |x: usize, y: usize| self.values[y * self.size[0] + x];
            for (out, column) in row.iter_mut().zip(&columns) {
                let Some((a, b, across)) = *column else { continue };
                let mix = |y: usize| at(a, y) + (at(b, y) - at(a, y)) * across;
                let value = mix(upper) + (mix(lower) - mix(upper)) * down;
                *out = (self.share(value) * 255.0 + 0.5) as u8;
            }
        }
        soft.iter().any(|&s| s >= 128).then_some(Detection {
            class,
            confidence: score,
            corner: [left, top],
            size: [width, height],
            soft_mask: soft,
        })
    }

    fn share(&self, value: f32) -> f32 {
        match self.activation {
            Activation::None => value.clamp(0.0, 1.0),
            Activation::Sigmoid | Activation::Softmax => sigmoid(value),
        }
    }

    /// The two cells around a coordinate of the input along an axis, and the weight of the second.
    fn taps(&self, axis: usize, at: f64) -> Option<(usize, usize, f32)> {
        if let Some(within) = self.within
            && !(f64::from(within[axis])..f64::from(within[axis + 2])).contains(&at)
        {
            return None;
        }
        let (from, to) = (f64::from(self.span[axis]), f64::from(self.span[axis + 2]));
        let last = self.size[axis] - 1;
        let place = ((at - from) / (to - from) * self.size[axis] as f64 - 0.5).clamp(0.0, last as f64);
        let first = place.floor() as usize;
        Some((first, (first + 1).min(last), (place - first as f64) as f32))
    }

    /// Left, top, right and bottom of the image pixels that may be part of the detection.
    fn extent(&self, placement: &Placement) -> Option<[usize; 4]> {
        let [width, height] = self.size;
        let (mut low, mut high) = ([usize::MAX; 2], [0; 2]);
        for (y, row) in self.values.chunks_exact(width).take(height).enumerate() {
            for (x, &value) in row.iter().enumerate() {
                if self.share(value) > NOTHING {
                    for (axis, at) in [x, y].into_iter().enumerate() {
                        low[axis] = low[axis].min(at);
                        high[axis] = high[axis].max(at + 1);
                    }
                }
            }
        }
        if low[0] == usize::MAX {
            return None;
        }
        let mut edges = [0; 4];
        for axis in 0..2 {
            // One more cell on each side, because the interpolation extends into it.
            let cell = f64::from(self.span[axis + 2] - self.span[axis]) / self.size[axis] as f64;
            let edge = |cells: f64| f64::from(self.span[axis]) + cell * cells;
            let mut ends = [edge(low[axis] as f64 - 1.0), edge(high[axis] as f64 + 1.0)];
            if let Some(within) = self.within {
                ends = [ends[0].max(f64::from(within[axis])), ends[1].min(f64::from(within[axis + 2]))];
            }
            let picture = placement.image[axis];
            let inside = |at: f64| placement.to_image(axis, at).clamp(0.0, picture as f64);
            edges[axis] = inside(ends[0]).floor() as usize;
            edges[axis + 2] = inside(ends[1]).ceil() as usize;
        }
        (edges[0] < edges[2] && edges[1] < edges[3]).then_some(edges)
    }
}
