//! Converts the best planes of the sweep to a surface from which the refinement starts.
//!
//! Pixels that another view confirms are kept, median-filtered over their confirmed neighbourhood; the others take the
//! median of confirmed pixels nearby, or of all pixels around if there are none. The refinement samples each pixel of a
//! patch at its own depth, so the patch follows the surface at any slant, and edges do not smear.

use crate::grey::{Grey, PATCH_RADIUS};

/// Radius from which an unconfirmed pixel takes its depth.
const FILL_RADIUS: usize = 3;
/// Maximum ratio of neighbouring coarse depths on one surface, between which depths are interpolated.
const SAME_SURFACE_RATIO: f32 = 1.08;

/// Inverse depths of a level, row-major.
#[derive(Clone, Debug, Default)]
pub(crate) struct Surface {
    pub(crate) width: usize,
    pub(crate) height: usize,
    pub(crate) inverse_depth: Vec<f32>,
    /// Matching score, 0 = none.
    pub(crate) score: Vec<f32>,
}

impl Surface {
    pub(crate) fn new(grey: &Grey) -> Self {
        let pixels = grey.width * grey.height;
        let (width, height) = (grey.width, grey.height);
        Self { width, height, inverse_depth: vec![0.0; pixels], score: vec![0.0; pixels] }
    }

    /// The surface with unconfirmed pixels replaced; `agrees` returns whether a pixel is confirmed.
    pub(crate) fn with_filled_pixels(&self, agrees: impl Fn(usize) -> bool) -> Vec<f32> {
        let mut values = Vec::with_capacity((2 * FILL_RADIUS + 1).pow(2));
        let good: Vec<bool> = (0..self.score.len()).map(agrees).collect();
        let mut out = Vec::with_capacity(self.score.len());
        for y in 0..self.height {
            for x in 0..self.width {
                let radius = if good[y * self.width + x] { 1 } else { FILL_RADIUS };
                self.collect_square(x, y, radius, |i| good[i], &mut values);
                if values.len() < 2 {
                    self.collect_square(x, y, radius, |i| self.score[i] > 0.0, &mut values);
                }
                out.push(median(&mut values).unwrap_or(self.inverse_depth[y * self.width + x]));
            }
        }
        out
    }

    /// The inverse depths of the pixels of a square that `keep` accepts.
    fn collect_square(
        &self,
        x: usize,
        y: usize,
        radius: usize,
        keep: impl Fn(usize) -> bool,
        out: &mut Vec<f32>,
    ) {
        out.clear();
        for row in y.saturating_sub(radius)..(y + radius + 1).min(self.height) {
            let line = row * self.width;
            let columns = line + x.saturating_sub(radius)..line + (x + radius + 1).min(self.width);
            out.extend(columns.filter(|&i| keep(i)).map(|i| self.inverse_depth[i]));
        }
    }
}

/// Replaces each pixel by the farthest depth in its 5x5 neighbourhood, if that is another surface.
pub(crate) fn far_surface(inverse_depth: &[f32], width: usize) -> Vec<f32> {
    let height = inverse_depth.len().checked_div(width).unwrap_or(0);
    let around = |i: usize, n: usize| i.saturating_sub(PATCH_RADIUS)..(i + PATCH_RADIUS + 1).min(n);
    let mut rows = vec![0.0; inverse_depth.len()];
    for y in 0..height {
        let line = &inverse_depth[y * width..(y + 1) * width];
        for x in 0..width {
            rows[y * width + x] = line[around(x, width)].iter().copied().fold(f32::MAX, f32::min);
        }
    }
    let mut out = Vec::with_capacity(rows.len());
    for y in 0..height {
        for x in 0..width {
            let farthest = around(y, height).map(|y| rows[y * width + x]).fold(f32::MAX, f32::min);
            let own = inverse_depth[y * width + x];
            out.push(if farthest * SAME_SURFACE_RATIO < own { farthest } else { own });
        }
    }
    out
}

/// The median; `None` of an empty slice.
fn median(values: &mut [f32]) -> Option<f32> {
    let middle = values.len() / 2;
    (!values.is_empty()).then(|| *values.select_nth_unstable_by(middle, f32::total_cmp).1)
}

/// Row `y` of an image twice as large, from inverse depths of `width` columns: bilinear on one surface, nearest
/// otherwise.
pub(crate) fn upsample_row(coarse: &[f32], width: usize, y: usize, out: &mut [f32]) {
    let height = coarse.len() / width;
    // Pixel centres: fine pixel i is at (i + 0.5) / 2 - 0.5 of the coarse image.
    let taps = |i: usize, n: usize| {
        let near = (i / 2).min(n - 1);
        let other = if i.is_multiple_of(2) { near.saturating_sub(1) } else { (near + 1).min(n - 1) };
        (near, other)
    };
    let (row, other_row) = taps(y, height);
    for (x, out) in out.iter_mut().enumerate() {
        let (column, other_column) = taps(x, width);
        let at = |row: usize, column: usize| coarse[row * width + column];
        let near = at(row, column);
        let others = [at(row, other_column), at(other_row, column), at(other_row, other_column)];
        let is_one = others.iter().all(|&o| o < near * SAME_SURFACE_RATIO && near < o * SAME_SURFACE_RATIO);
        *out =
            if is_one { near * 0.5625 + (others[0] + others[1]) * 0.1875 + others[2] * 0.0625 } else { near };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plane_stays_a_plane_when_it_is_made_larger_and_a_step_stays_a_step() {
        let plane: Vec<f32> =
            (0..8 * 6).map(|i| 1.0 + 0.01 * (i % 8) as f32 + 0.02 * (i / 8) as f32).collect();
        let mut row = [0.0; 16];
        upsample_row(&plane, 8, 5, &mut row);
        for (x, &value) in row.iter().enumerate().take(15).skip(1) {
            let expected = 1.0 + 0.01 * (0.5 * x as f32 - 0.25) + 0.02 * (0.5 * 5.0 - 0.25);
            assert!((value - expected).abs() < 1e-6);
        }
        let step: Vec<f32> = (0..8 * 6).map(|i| if i % 8 < 4 { 1.0 } else { 2.0 }).collect();
        upsample_row(&step, 8, 5, &mut row);
        assert!(row[..8].iter().all(|&v| v == 1.0) && row[8..].iter().all(|&v| v == 2.0));
    }

    #[test]
    fn lone_pixels_take_the_median_of_those_that_agree() {
        let mut surface = Surface { width: 9, height: 9, inverse_depth: vec![1.0; 81], score: vec![0.8; 81] };
        surface.inverse_depth[40] = 7.0;
        assert_eq!(surface.with_filled_pixels(|i| i != 40)[40], 1.0);
        assert_eq!(surface.with_filled_pixels(|_| false)[40], 1.0);
    }
}
