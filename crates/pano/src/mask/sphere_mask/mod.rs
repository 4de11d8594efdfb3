//! Masks on the sphere: an 8-bit panorama into which detections of views are projected and refined, and from which
//! masks for views of any layout are sampled.
//!
//! ```text
//! 255 = keep, 0 = remove, in between = soft; values below REMOVED count as removed
//! axes and pixels as in `geometry`: column W is column 0, row -1 is row 0 shifted by W/2 columns
//! views   view -> sphere -> view        dilate    dilation, soft edges
//! regions connected regions, holes      refine    edges aligned to the image
//! static_foreground  static foreground (operator, tripod)   over_time detections of a video
//! ```
//! Distances are in degrees on the sphere, so they are the same at the horizon and at the poles.

pub mod dilate;
mod reach;
pub mod refine;
pub mod regions;
mod runs;
pub mod static_foreground;
pub mod temporal;
pub mod views;

use std::f64::consts::PI;

/// Values below this count as removed.
pub const REMOVED: u8 = 128;

/// The kept and removed directions of the sphere: an equirectangular image, row by row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SphereMask {
    /// Columns; together 360 degrees.
    pub width: usize,
    /// Rows, from pole to pole.
    pub height: usize,
    /// 255 = keep, 0 = remove.
    pub data: Vec<u8>,
}

impl SphereMask {
    /// A mask that removes nothing.
    ///
    /// # Panics
    /// If it has no pixels.
    #[must_use]
    pub fn new(width: usize, height: usize) -> Self {
        Self::from_data(width, height, vec![255; width * height])
    }

    /// A mask with these values.
    ///
    /// # Panics
    /// If it has no pixels, or `data` has another length than `width · height`.
    #[must_use]
    pub fn from_data(width: usize, height: usize, data: Vec<u8>) -> Self {
        assert!(width > 0 && height > 0, "a mask of no pixels");
        assert_eq!(data.len(), width * height, "values of a mask");
        Self { width, height, data }
    }

    /// Whether nothing counts as removed.
    #[must_use]
    pub fn keeps_all(&self) -> bool {
        self.data.iter().all(|&keep| keep >= REMOVED)
    }

    /// Also removes what the other mask removes.
    ///
    /// # Panics
    /// If their sizes differ.
    pub fn union_with(&mut self, other: &Self) {
        self.merge(other, |own, other| own.min(other));
    }

    /// Keeps what the other mask removes.
    ///
    /// # Panics
    /// If their sizes differ.
    pub fn subtract(&mut self, other: &Self) {
        self.merge(other, |own, other| own.max(255 - other));
    }

    /// Removes only what both masks remove.
    ///
    /// # Panics
    /// If their sizes differ.
    pub fn intersect(&mut self, other: &Self) {
        self.merge(other, u8::max);
    }

    fn merge(&mut self, other: &Self, value: impl Fn(u8, u8) -> u8) {
        assert_eq!((self.width, self.height), (other.width, other.height), "masks of two sizes");
        for (own, &other) in self.data.iter_mut().zip(&other.data) {
            *own = value(*own, other);
        }
    }

    /// Swaps kept and removed.
    pub fn invert(&mut self) {
        self.data.iter_mut().for_each(|keep| *keep = 255 - *keep);
    }

    /// Removes everything within this many degrees of the nadir.
    pub fn crop_bottom(&mut self, degrees: f64) {
        let first =
            (self.height as f64 * (1.0 - degrees / 180.0) - 0.5).ceil().clamp(0.0, self.height as f64);
        self.data[first as usize * self.width..].fill(0);
    }

    /// Fraction of the sphere that counts as removed, 0 to 1.
    #[must_use]
    pub fn removed_fraction(&self) -> f64 {
        let rows = self.data.chunks_exact(self.width).enumerate();
        rows.map(|(y, row)| {
            let removed = row.iter().filter(|&&keep| keep < REMOVED).count();
            removed as f64 * self.pixel_fraction(y)
        })
        .sum()
    }

    /// Fraction of the sphere that a pixel of a row covers: (sin top - sin bottom) / 2W.
    #[must_use]
    pub fn pixel_fraction(&self, row: usize) -> f64 {
        let sine = |edge: usize| libm::cos(PI * edge as f64 / self.height as f64);
        (sine(row) - sine(row + 1)) / (2 * self.width) as f64
    }

    /// Latitude of the pixel centres of a row, rad.
    #[must_use]
    pub fn latitude(&self, row: usize) -> f64 {
        PI * (0.5 - (row as f64 + 0.5) / self.height as f64)
    }

    /// Longitude of the pixel centres of a column, rad.
    #[must_use]
    pub fn longitude(&self, column: usize) -> f64 {
        PI * (2.0 * (column as f64 + 0.5) / self.width as f64 - 1.0)
    }

    /// Samples a continuous point bilinearly, across the seam and the poles; pixel (i, j) has its centre at (i + ½, j +
    /// ½).
    #[must_use]
    #[inline]
    pub fn sample(&self, u: f32, v: f32) -> f32 {
        let (u, v) = (u - 0.5, v - 0.5);
        let (left, top) = (u.floor(), v.floor());
        let (fu, fv) = (u - left, v - top);
        let (left, top) = (left as isize, top as isize);
        let (w, h) = (self.width as isize, self.height as isize);
        let (right, bottom) = (left + 1, top + 1);
        let is_inside = left >= 0 && right < w && top >= 0 && bottom < h;
        let taps = if is_inside {
            let at = (top * w + left) as usize;
            let below = at + self.width;
            [self.data[at], self.data[at + 1], self.data[below], self.data[below + 1]]
        } else {
            [(left, top), (right, top), (left, bottom), (right, bottom)].map(|(x, y)| self.wrapped(x, y))
        };
        let [a, b, c, d] = taps.map(f32::from);
        let (upper, lower) = (a + (b - a) * fu, c + (d - c) * fu);
        upper + (lower - upper) * fv
    }

    /// The value of a pixel that may be beyond the seam or a pole.
    fn wrapped(&self, x: isize, y: isize) -> u8 {
        let (w, h) = (self.width as isize, self.height as isize);
        let inside = y.clamp(0, h - 1);
        let turned = if inside == y { x } else { x + w / 2 };
        self.data[(inside * w + turned.rem_euclid(w)) as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_of_the_sphere_are_areas() {
        let mut mask = SphereMask::new(360, 180);
        assert_eq!(mask.removed_fraction(), 0.0);
        // A cap of 60 degrees: (1 - cos 60) / 2.
        mask.crop_bottom(60.0);
        assert!((mask.removed_fraction() - 0.25).abs() < 1e-12, "{}", mask.removed_fraction());
        mask.invert();
        assert!((mask.removed_fraction() - 0.75).abs() < 1e-12);
        let whole: f64 = (0..180).map(|y| 360.0 * mask.pixel_fraction(y)).sum();
        assert!((whole - 1.0).abs() < 1e-12);
    }

    #[test]
    fn masks_are_united_subtracted_and_intersected() {
        let mask = |data: [u8; 4]| SphereMask::from_data(4, 1, data.to_vec());
        let (a, b) = (mask([0, 0, 255, 255]), mask([0, 255, 0, 255]));
        let after = |work: fn(&mut SphereMask, &SphereMask)| {
            let mut mask = a.clone();
            work(&mut mask, &b);
            mask.data
        };
        assert_eq!(after(SphereMask::union_with), [0, 0, 0, 255]);
        assert_eq!(after(SphereMask::subtract), [255, 0, 255, 255]);
        assert_eq!(after(SphereMask::intersect), [0, 255, 255, 255]);
    }

    #[test]
    fn samples_go_around_the_seam_and_over_the_poles() {
        let mut mask = SphereMask::new(8, 4);
        mask.data[7] = 55; // Row 0, last column.
        assert_eq!(mask.sample(0.0, 0.5), 155.0);
        assert_eq!(mask.sample(8.0, 0.5), 155.0);
        // Above row 0 is row 0 shifted by half its columns: column 3.
        assert_eq!(mask.sample(3.5, -0.5), 55.0);
        assert_eq!(mask.sample(3.5, 0.0), 155.0);
    }
}
