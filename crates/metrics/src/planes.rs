//! Images as rows of f32 planes: the format of the SIMD kernels.
//!
//! Layout: for each pixel row its red, green and blue line, one after the other (band interleaved by line); a line has
//! [`Planes::stride`] values, the width rounded up to 16. So a range of pixel rows is one contiguous slice with all its
//! channels, which is how work is divided between threads, and 16 neighbouring pixels of a channel are one vector.
//! There are as many rows as the height rounded up to 16, so that whole 16x16 tiles can be written without edge checks.
//! Kernels never read the padding (it may contain anything) and document whether they write it.
//!
//! Lines are aligned to cache lines: a 16-lane load never touches two.

use fearless_simd::{Simd, f32x16, prelude::*};
use gausset_compute::simd::{LANES, Row};

/// Bytes of a cache line, and of 16 lanes of f32.
const ALIGNMENT: usize = 64;

/// An RGB image in f32; its layout is described in the module.
#[derive(Debug, Default)]
pub struct Planes {
    width: u32,
    height: u32,
    buffer: AlignedBuffer,
}

impl Planes {
    /// Channels of an image.
    pub const CHANNELS: usize = 3;

    /// A black image.
    #[must_use]
    pub fn new(width: u32, height: u32) -> Self {
        let mut planes = Self::default();
        planes.resize(width, height);
        planes
    }

    /// Changes the size; values are unspecified afterwards. Allocates only if the image grows beyond all previous
    /// sizes.
    pub fn resize(&mut self, width: u32, height: u32) {
        (self.width, self.height) = (width, height);
        self.buffer.resize(self.rows() * self.row_len());
    }

    /// Planes from interleaved RGB values (`height × width × 3`); padding is 0.
    ///
    /// ```
    /// use gausset_metrics::Planes;
    ///
    /// let planes = Planes::from_interleaved(2, 1, &[0.1, 0.2, 0.3, 0.4, 0.5, 0.6]);
    /// assert_eq!((planes.line(0, 1)[..2].to_vec(), planes.stride()), (vec![0.2, 0.5], 16));
    /// assert_eq!(planes.to_interleaved(), [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]);
    /// ```
    ///
    /// # Panics
    /// If `rgb` has another length.
    #[must_use]
    pub fn from_interleaved(width: u32, height: u32, rgb: &[f32]) -> Self {
        assert_eq!(rgb.len(), width as usize * height as usize * Self::CHANNELS);
        let mut planes = Self::new(width, height);
        if width > 0 {
            for (y, row) in rgb.chunks_exact(width as usize * Self::CHANNELS).enumerate() {
                for channel in 0..Self::CHANNELS {
                    let values = row.iter().skip(channel).step_by(Self::CHANNELS);
                    planes.line_mut(y, channel).iter_mut().zip(values).for_each(|(to, &from)| *to = from);
                }
            }
        }
        planes
    }

    /// Interleaved RGB values (`height × width × 3`).
    #[must_use]
    pub fn to_interleaved(&self) -> Vec<f32> {
        let mut rgb = Vec::with_capacity(self.width as usize * self.height as usize * Self::CHANNELS);
        for y in 0..self.height as usize {
            for x in 0..self.width as usize {
                rgb.extend((0..Self::CHANNELS).map(|channel| self.line(y, channel)[x]));
            }
        }
        rgb
    }

    /// Width in px.
    #[must_use]
    pub fn width(&self) -> u32 {
        self.width
    }

    /// Height in px.
    #[must_use]
    pub fn height(&self) -> u32 {
        self.height
    }

    /// Values per line: the width rounded up to 16.
    #[must_use]
    pub fn stride(&self) -> usize {
        (self.width as usize).next_multiple_of(LANES)
    }

    /// Pixel rows in the buffer: the height rounded up to 16.
    #[must_use]
    pub fn rows(&self) -> usize {
        (self.height as usize).next_multiple_of(LANES)
    }

    /// Values per pixel row: three lines. `as_mut_slice().chunks_mut(16 * row_len())` are rows of tiles.
    #[must_use]
    pub fn row_len(&self) -> usize {
        Self::CHANNELS * self.stride()
    }

    /// One channel of pixel row `y`, padding included.
    ///
    /// # Panics
    /// If `y` is not in the buffer.
    #[must_use]
    pub fn line(&self, y: usize, channel: usize) -> &[f32] {
        let start = y * self.row_len() + channel * self.stride();
        &self.as_slice()[start..start + self.stride()]
    }

    /// One channel of pixel row `y`, padding included, mutable.
    ///
    /// # Panics
    /// If `y` is not in the buffer.
    #[must_use]
    pub fn line_mut(&mut self, y: usize, channel: usize) -> &mut [f32] {
        let (start, stride) = (y * self.row_len() + channel * self.stride(), self.stride());
        &mut self.as_mut_slice()[start..start + stride]
    }

    /// One channel of pixel row `y` as vectors.
    pub(crate) fn vectors(&self, y: usize, channel: usize) -> &[Row] {
        self.line(y, channel).as_chunks().0
    }

    /// All values: `rows() × 3 × stride()`.
    #[must_use]
    pub fn as_slice(&self) -> &[f32] {
        self.buffer.as_slice()
    }

    /// All values, mutable: `rows() × 3 × stride()`.
    #[must_use]
    pub fn as_mut_slice(&mut self) -> &mut [f32] {
        self.buffer.as_mut_slice()
    }

    /// Bytes of the buffer.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.buffer.bytes()
    }
}

impl Clone for Planes {
    fn clone(&self) -> Self {
        let mut copy = Self::new(self.width, self.height);
        copy.as_mut_slice().copy_from_slice(self.as_slice());
        copy
    }
}

/// The three lines of a pixel row, as vectors.
pub(crate) fn split(row: &[f32]) -> [&[Row]; 3] {
    let stride = row.len() / 3;
    let line = |channel: usize| row[channel * stride..][..stride].as_chunks().0;
    [line(0), line(1), line(2)]
}

/// The three lines of a pixel row, as mutable vectors.
pub(crate) fn split_mut(row: &mut [f32]) -> [&mut [Row]; 3] {
    let stride = row.len() / 3;
    let (red, rest) = row.split_at_mut(stride);
    let (green, blue) = rest.split_at_mut(stride);
    [red.as_chunks_mut().0, green.as_chunks_mut().0, blue.as_chunks_mut().0]
}

/// Sum of the lanes in f64, in lane order.
#[inline(always)]
pub(crate) fn sum_in_f64<S: Simd>(lanes: f32x16<S>) -> f64 {
    let lanes: [f32; LANES] = lanes.to_array();
    lanes.into_iter().map(f64::from).sum()
}

/// A slice of f32 that is aligned to a cache line: a vector with some unused space in front.
#[derive(Debug, Default)]
pub(crate) struct AlignedBuffer {
    values: Vec<f32>,
    start: usize,
    len: usize,
}

impl AlignedBuffer {
    /// Changes the length. Values are unspecified afterwards, but a buffer that was never written contains zeros.
    pub(crate) fn resize(&mut self, len: usize) {
        let padded = len + ALIGNMENT / size_of::<f32>();
        if self.values.len() < padded {
            self.values = vec![0.0; padded];
            // `align_offset` may fail (it does not for this kind of allocation); then loads are only slower.
            let offset = self.values.as_ptr().align_offset(ALIGNMENT);
            self.start = if offset < ALIGNMENT / size_of::<f32>() { offset } else { 0 };
        }
        self.len = len;
    }

    /// Bytes of the buffer.
    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&*self.values)
    }

    pub(crate) fn as_slice(&self) -> &[f32] {
        &self.values[self.start..self.start + self.len]
    }

    pub(crate) fn as_mut_slice(&mut self) -> &mut [f32] {
        &mut self.values[self.start..self.start + self.len]
    }

    /// As vectors; values after the last multiple of 16 are left out.
    pub(crate) fn vectors(&self) -> &[Row] {
        self.as_slice().as_chunks().0
    }

    /// As mutable vectors.
    pub(crate) fn vectors_mut(&mut self) -> &mut [Row] {
        self.as_mut_slice().as_chunks_mut().0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_survives_the_change_of_layout() {
        let rgb: Vec<f32> = (0..37 * 5 * 3).map(|i| i as f32).collect();
        let mut planes = Planes::from_interleaved(37, 5, &rgb);
        assert_eq!((planes.stride(), planes.rows(), planes.row_len()), (48, 16, 144));
        assert_eq!(planes.to_interleaved(), rgb);
        assert_eq!(planes.clone().to_interleaved(), rgb);
        planes.line_mut(4, 2)[36] = -1.0;
        assert_eq!(planes.to_interleaved().last(), Some(&-1.0));
    }

    #[test]
    fn lines_start_on_cache_lines_also_after_resizing_and_moving() {
        let mut planes = Planes::new(20, 3);
        for (width, height) in [(100, 40), (17, 2), (300, 100)] {
            planes.resize(width, height);
            let moved = planes;
            for (y, channel) in [(0, 0), (1, 2)] {
                assert_eq!(moved.line(y, channel).as_ptr() as usize % ALIGNMENT, 0);
            }
            planes = moved;
        }
    }
}
