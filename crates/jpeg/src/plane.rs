//! Planes of 8-bit samples, padded for sampling, and frames made of them.
//!
//! ```text
//! columns 0..W, then copies of columns 0..64      rows first_row, first_row + 1, … (only those that are needed)
//! ```
//! Where needed, a whole panorama also stores row -1 above row 0 and row H below row H-1: the outermost row, shifted by
//! W/2 columns. The buffers are reused from frame to frame, so that the system does not have to clear fresh memory each
//! time.

/// Columns that planes repeat on the right.
pub const PAD_COLUMNS: usize = 64;

/// How 2x2 samples are combined when a plane is halved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Halving {
    /// Their mean, for images.
    Mean,
    /// Their minimum, for masks (0 = remove): a partly removed pixel counts as removed.
    Min,
}

/// A plane of 8-bit samples.
#[derive(Clone, Debug, Default)]
pub struct Plane {
    /// Samples of the stored rows, including padding.
    pub data: Vec<u8>,
    /// Distance between rows in samples.
    pub stride: usize,
    /// Columns without padding.
    pub width: usize,
    /// Rows of the whole plane, stored or not.
    pub height: usize,
    /// First stored row; -1 for the row beyond the upper pole.
    pub first_row: i32,
    /// Number of stored rows.
    pub rows: usize,
}

impl Plane {
    /// Resizes the plane to store rows `rows[0]..=rows[1]`, reusing the buffer. The content is undefined.
    pub fn reshape(&mut self, width: usize, height: usize, rows: [i32; 2]) {
        let padded = width + PAD_COLUMNS;
        let mut stride = padded.next_multiple_of(64);
        // Rows at a distance of a multiple of 4096 bytes compete for the same cache sets.
        if stride.is_multiple_of(4096) {
            stride += 64;
        }
        let [low, high] = [rows[0].max(-1), rows[1].min(height as i32)];
        (self.width, self.height, self.stride) = (width, height, stride);
        self.first_row = low;
        self.rows = (high - low + 1).max(0) as usize;
        // One more row, so that the lower tap of the last row is always inside.
        self.data.resize((self.rows + 1) * stride, 0);
    }

    /// The stored rows that are part of the image, without those beyond the poles.
    #[must_use]
    #[inline]
    pub fn image_rows(&self) -> std::ops::Range<usize> {
        let end = (self.first_row + self.rows as i32).clamp(0, self.height as i32);
        self.first_row.max(0) as usize..end as usize
    }

    /// A stored row without padding.
    #[must_use]
    #[inline]
    pub fn row(&self, row: i32) -> &[u8] {
        let start = (row - self.first_row) as usize * self.stride;
        &self.data[start..start + self.width]
    }

    /// A stored row without padding, mutable.
    #[inline]
    pub fn row_mut(&mut self, row: i32) -> &mut [u8] {
        let start = (row - self.first_row) as usize * self.stride;
        &mut self.data[start..start + self.width]
    }

    /// Fills the padding columns and the rows beyond the poles: wrapped around, or repeating the last column or row.
    pub fn pad(&mut self, wraps: bool) {
        let width = self.width;
        for row in self.data.chunks_exact_mut(self.stride).take(self.rows) {
            let (picture, rest) = row.split_at_mut(width);
            let pad = PAD_COLUMNS.min(rest.len());
            if wraps && width >= pad {
                rest[..pad].copy_from_slice(&picture[..pad]);
            } else if wraps {
                for (k, out) in rest[..pad].iter_mut().enumerate() {
                    *out = picture[k % width];
                }
            } else {
                rest[..pad].fill(picture[width - 1]);
            }
        }
        let last = self.height as i32 - 1;
        for (beyond, outermost) in [(-1, 0), (last + 1, last)] {
            let stored = self.first_row..self.first_row + self.rows as i32;
            if stored.contains(&beyond) && stored.contains(&outermost) {
                self.fill_polar_row(beyond, outermost, wraps);
            }
        }
    }

    fn fill_polar_row(&mut self, beyond: i32, outermost: i32, wraps: bool) {
        let from = (outermost - self.first_row) as usize * self.stride;
        let to = (beyond - self.first_row) as usize * self.stride;
        let padded = self.width + PAD_COLUMNS;
        let source: Vec<u8> = self.data[from..from + self.width].to_vec();
        let shift = if wraps { self.width / 2 } else { 0 };
        for (k, out) in self.data[to..to + padded].iter_mut().enumerate() {
            *out = source[(k + shift) % self.width];
        }
    }

    /// Becomes the vertical concatenation of planes of equal shape.
    fn stack<'a>(&mut self, parts: impl Iterator<Item = &'a Self> + Clone) {
        let Some(first) = parts.clone().next() else { return };
        let (width, height) = (first.width, first.height);
        let all = height * parts.clone().count();
        self.reshape(width, all, [0, all as i32]);
        for (k, part) in parts.enumerate() {
            for y in 0..height {
                self.row_mut((k * height + y) as i32).copy_from_slice(part.row(y as i32));
            }
        }
    }

    /// Becomes the planes of equal shape side by side.
    fn join<'a>(&mut self, parts: impl Iterator<Item = &'a Self> + Clone) {
        let Some(first) = parts.clone().next() else { return };
        let (width, height) = (first.width, first.height);
        self.reshape(width * parts.clone().count(), height, [0, height as i32]);
        for (k, part) in parts.enumerate() {
            for y in 0..height {
                self.row_mut(y as i32)[k * width..(k + 1) * width].copy_from_slice(part.row(y as i32));
            }
        }
    }

    /// Writes a plane of half the width and height, combining 2x2 samples.
    pub fn halve_into(&self, out: &mut Self, halving: Halving) {
        let picture = self.image_rows();
        let (width, height) = (self.width / 2, self.height / 2);
        let rows = [picture.start.div_ceil(2) as i32, (picture.end / 2) as i32 - 1];
        let rows = [
            if rows[0] == 0 { -1 } else { rows[0] },
            if picture.end == self.height { height as i32 } else { rows[1] },
        ];
        out.reshape(width, height, rows);
        for y in out.image_rows() {
            let (a, b) = (self.row(2 * y as i32), self.row(2 * y as i32 + 1));
            let out = out.row_mut(y as i32);
            let pairs = out.iter_mut().zip(a.chunks_exact(2).zip(b.chunks_exact(2)));
            match halving {
                Halving::Mean => pairs.for_each(|(o, (a, b))| {
                    let sum = u16::from(a[0]) + u16::from(a[1]) + u16::from(b[0]) + u16::from(b[1]);
                    *o = ((sum + 2) >> 2) as u8;
                }),
                Halving::Min => {
                    pairs.for_each(|(o, (a, b))| *o = a[0].min(a[1]).min(b[0]).min(b[1]));
                }
            }
        }
    }
}

/// The colour model of a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ColourModel {
    /// One plane: luma.
    #[default]
    Grey,
    /// Luma and two chroma planes, full-range BT.601 (JFIF).
    YCbCr,
}

/// A decoded frame of the source.
#[derive(Clone, Debug, Default)]
pub struct Frame {
    /// The colour model of the planes.
    pub colour: ColourModel,
    /// One or three planes; chroma may be subsampled.
    pub planes: Vec<Plane>,
    /// Opacity, at the size of plane 0, if the source has it.
    pub alpha: Option<Plane>,
}

impl Frame {
    /// Sizes of the planes.
    #[must_use]
    pub fn shape(&self) -> FrameShape {
        let sizes = self.planes.iter().map(|p| [p.width as u32, p.height as u32]).collect();
        FrameShape { colour: self.colour, sizes, has_alpha: self.alpha.is_some() }
    }

    /// Becomes the vertical concatenation of frames of equal shape; `None` if their shapes differ or there is none.
    pub fn stack(&mut self, parts: &[Self]) -> Option<()> {
        self.combine(parts, |plane, parts| plane.stack(parts.iter().copied()))
    }

    /// Becomes frames of equal shape side by side; `None` if their shapes differ or there is none.
    pub fn join(&mut self, parts: &[Self]) -> Option<()> {
        self.combine(parts, |plane, parts| plane.join(parts.iter().copied()))
    }

    fn combine(&mut self, parts: &[Self], combine: impl Fn(&mut Plane, &[&Plane])) -> Option<()> {
        let first = parts.first()?;
        if parts.iter().any(|p| p.shape() != first.shape()) {
            return None;
        }
        self.colour = first.colour;
        self.planes.resize_with(first.planes.len(), Plane::default);
        for (index, plane) in self.planes.iter_mut().enumerate() {
            let parts: Vec<&Plane> = parts.iter().map(|part| &part.planes[index]).collect();
            combine(plane, &parts);
        }
        self.alpha = first.alpha.is_some().then(|| {
            let mut plane = self.alpha.take().unwrap_or_default();
            // All shapes are equal, so every part has alpha.
            let parts: Vec<&Plane> = parts.iter().filter_map(|part| part.alpha.as_ref()).collect();
            combine(&mut plane, &parts);
            plane
        });
        Some(())
    }

    /// Drops the lower half of the rows, without moving samples.
    pub fn crop_to_upper_half(&mut self) {
        for plane in self.planes.iter_mut().chain(&mut self.alpha) {
            plane.height /= 2;
        }
    }

    /// Bytes allocated for the planes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.planes.iter().chain(&self.alpha).map(|p| p.data.capacity()).sum()
    }
}

/// Sizes and colour model of a frame's planes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FrameShape {
    /// The colour model of the planes.
    pub colour: ColourModel,
    /// Width and height of each plane, px.
    pub sizes: Vec<[u32; 2]>,
    /// Whether there is an alpha plane.
    pub has_alpha: bool,
}
