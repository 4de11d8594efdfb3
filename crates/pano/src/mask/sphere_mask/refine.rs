//! Aligns mask edges to image edges: the guided filter (He, Sun and Tang 2013) on luma.
//!
//! ```text
//! a = cov(I, p) / (var(I) + ε),  b = mean(p) - a mean(I),  q = mean(a) I + mean(b)      means over a window
//! ```
//! The window wraps around the seam and has the same width on the sphere in every row: a row at latitude φ has 1/cos φ
//! times the columns. Only rows near removed pixels are processed.

use std::ops::Range;

use super::SphereMask;

/// Luma noise of a uniform surface, relative to white: the square root of ε.
const EPSILON_ROOT: f32 = 0.02;

impl SphereMask {
    /// Aligns soft and rough edges to those of an image of the mask's size, within this many degrees.
    ///
    /// # Panics
    /// If the image has another size.
    pub fn refine_edges(&mut self, luma: &[u8], degrees: f64) {
        assert_eq!(luma.len(), self.data.len(), "values of a picture");
        let radius = (degrees / 180.0 * self.height as f64).round() as usize;
        let is_edge = |row: &[u8]| row.iter().any(|&keep| keep != row[0]);
        let rows: Vec<bool> = self.data.chunks_exact(self.width).map(is_edge).collect();
        let steps =
            self.data.windows(self.width + 1).step_by(self.width).map(|pair| pair[0] != pair[self.width]);
        let touched: Vec<usize> = rows
            .iter()
            .enumerate()
            .filter(|(_, edge)| **edge)
            .map(|(y, _)| y)
            .chain(steps.enumerate().filter(|(_, step)| *step).map(|(y, _)| y))
            .collect();
        let (Some(&first), Some(&last)) = (touched.iter().min(), touched.iter().max()) else { return };
        if radius == 0 {
            return;
        }
        // The rows that means of means reach.
        let band = first.saturating_sub(2 * radius)..(last + 2 * radius + 2).min(self.height);
        self.filter(luma, band, radius);
    }

    fn filter(&mut self, luma: &[u8], band: Range<usize>, radius: usize) {
        let width = self.width;
        let span = band.start * width..band.end * width;
        let halves: Vec<usize> = band
            .clone()
            .map(|y| {
                let columns =
                    radius as f64 * width as f64 / (2 * self.height) as f64 / libm::cos(self.latitude(y));
                (columns.round() as usize).clamp(1, (width - 1) / 2)
            })
            .collect();
        let window = BoxWindow { width, half_widths: &halves, radius };
        let share = |value: &u8| f32::from(*value) / 255.0;
        let picture: Vec<f32> = luma[span.clone()].iter().map(share).collect();
        let keep: Vec<f32> = self.data[span.clone()].iter().map(share).collect();
        let product = |a: &[f32], b: &[f32]| -> Vec<f32> { a.iter().zip(b).map(|(a, b)| a * b).collect() };
        let mut covariance = window.mean(&product(&picture, &keep));
        let mut variance = window.mean(&product(&picture, &picture));
        let (mean_picture, mean_keep) = (window.mean(&picture), window.mean(&keep));
        for (at, (cov, var)) in covariance.iter_mut().zip(&mut variance).enumerate() {
            let (i, p) = (mean_picture[at], mean_keep[at]);
            let a = (*cov - i * p) / ((*var - i * i).max(0.0) + EPSILON_ROOT * EPSILON_ROOT);
            (*cov, *var) = (a, p - a * i);
        }
        let (a, b) = (window.mean(&covariance), window.mean(&variance));
        for (at, out) in self.data[span].iter_mut().enumerate() {
            *out = (255.0 * (a[at] * picture[at] + b[at])).round().clamp(0.0, 255.0) as u8;
        }
    }
}

/// A window around each pixel of a band of rows.
struct BoxWindow<'a> {
    width: usize,
    /// Columns on each side, by row.
    half_widths: &'a [usize],
    /// Rows on each side.
    radius: usize,
}

impl BoxWindow<'_> {
    /// Means over the windows: along rows that wrap around, then down the rows of the band.
    fn mean(&self, values: &[f32]) -> Vec<f32> {
        let w = self.width;
        let mut across = vec![0.0f32; values.len()];
        // The row, extended on both sides by as many wrapped pixels as the window needs.
        let mut padded: Vec<f32> = Vec::new();
        for ((row, out), &half) in
            values.chunks_exact(w).zip(across.chunks_exact_mut(w)).zip(self.half_widths)
        {
            padded.clear();
            padded.extend(row[w - half..].iter().chain(row).chain(&row[..half]));
            // In f64, so that adding and subtracting a value leaves no remainder.
            let count = (2 * half + 1) as f64;
            let mut sum: f64 = padded[..2 * half].iter().map(|value| f64::from(*value)).sum();
            for ((out, first), last) in out.iter_mut().zip(&padded).zip(&padded[2 * half..]) {
                sum += f64::from(*last);
                *out = (sum / count) as f32;
                sum -= f64::from(*first);
            }
        }
        let height = self.half_widths.len();
        let mut out = vec![0.0f32; values.len()];
        let mut sums = vec![0.0f64; w];
        let row = |y: usize| across[y * w..(y + 1) * w].iter();
        for y in 0..self.radius.min(height) {
            sums.iter_mut().zip(row(y)).for_each(|(sum, value)| *sum += f64::from(*value));
        }
        for (y, out) in out.chunks_exact_mut(w).enumerate() {
            if y + self.radius < height {
                sums.iter_mut().zip(row(y + self.radius)).for_each(|(sum, value)| *sum += f64::from(*value));
            }
            let rows = y.saturating_sub(self.radius)..(y + self.radius + 1).min(height);
            let count = rows.len() as f64;
            out.iter_mut().zip(&sums).for_each(|(out, sum)| *out = (sum / count) as f32);
            if y >= self.radius {
                sums.iter_mut().zip(row(y - self.radius)).for_each(|(sum, value)| *sum -= f64::from(*value));
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::super::REMOVED;
    use super::*;

    #[test]
    fn means_are_those_of_brute_force() {
        let (w, halves, radius) = (12usize, [1usize, 2, 5, 3, 1], 2usize);
        let values: Vec<f32> = (0..w * 5).map(|at| ((at * 37) % 23) as f32).collect();
        let got = BoxWindow { width: w, half_widths: &halves, radius }.mean(&values);
        for y in 0..5usize {
            for x in 0..w {
                let rows = y.saturating_sub(radius)..(y + radius + 1).min(5);
                let mean: f32 = rows
                    .clone()
                    .map(|row| {
                        let half = halves[row];
                        let across = (0..2 * half + 1).map(|k| values[row * w + (x + w + k - half) % w]);
                        across.sum::<f32>() / (2 * half + 1) as f32
                    })
                    .sum::<f32>()
                    / rows.len() as f32;
                assert!((got[y * w + x] - mean).abs() < 1e-4, "{x},{y}");
            }
        }
    }

    #[test]
    fn a_rough_edge_becomes_that_of_the_picture_across_the_seam() {
        let (w, h) = (720usize, 360usize);
        // A dark disc of 20 degrees behind the camera, whose mask is 3 degrees too large or too small.
        let wide = SphereMask::new(w, h);
        let angle = |at: usize| {
            let (lon, lat) = (wide.longitude(at % w), wide.latitude(at / w));
            (-lat.cos() * lon.cos()).acos().to_degrees()
        };
        let luma: Vec<u8> = (0..w * h).map(|at| if angle(at) < 20.0 { 60 } else { 180 }).collect();
        for off in [-3.0, 3.0] {
            let data = (0..w * h).map(|at| if angle(at) < 20.0 + off { 0 } else { 255 }).collect();
            let mut mask = SphereMask::from_data(w, h, data);
            mask.refine_edges(&luma, 8.0);
            let wrong = (0..w * h).filter(|&at| (mask.data[at] < REMOVED) != (angle(at) < 20.0)).count();
            let before = (0..w * h).filter(|&at| (angle(at) < 20.0 + off) != (angle(at) < 20.0)).count();
            // Near the edge, some windows contain more of the wrong mask than of the image.
            assert!(3 * wrong < before, "{wrong} of {before}");
        }
    }

    #[test]
    fn what_is_far_from_an_edge_stays() {
        let mut mask = SphereMask::new(360, 180);
        mask.crop_bottom(40.0);
        let luma: Vec<u8> = (0..360 * 180).map(|at| ((at * 7919) % 251) as u8).collect();
        let before = mask.clone();
        mask.refine_edges(&luma, 3.0);
        let changed =
            mask.data.iter().zip(&before.data).enumerate().filter(|(_, (a, b))| a.abs_diff(**b) > 1);
        // Two windows around row 140.
        let rows: Vec<usize> = changed.map(|(at, _)| at / 360).collect();
        assert!(!rows.is_empty() && rows.iter().all(|y| (133..147).contains(y)), "{rows:?}");
    }
}
