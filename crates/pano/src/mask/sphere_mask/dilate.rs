//! Dilation of removed parts: by degrees on the sphere, or by pixels in a photograph.
//!
//! A pixel is removed if the centre of a removed pixel is within the radius. For each pair of rows, the circle has a
//! half width (`longitude_half_width`), by which the runs of one row are widened into the other. The result is exact across
//! the seam and the poles, and the cost is proportional to the number of runs.

use super::reach::longitude_half_width;
use super::runs::{Run, join, runs};
use super::{REMOVED, SphereMask};

/// Largest number of steps of a feathered edge.
const MAX_FEATHER_STEPS: usize = 32;

impl SphereMask {
    /// Removes everything within this many degrees of a removed pixel.
    pub fn dilate(&mut self, degrees: f64) {
        let rows: Vec<Vec<Run>> = self.removed_runs();
        for (row, grown) in
            self.data.chunks_exact_mut(self.width).zip(dilated_runs(&rows, self.width, degrees))
        {
            for run in grown {
                row[run.start..run.end].fill(0);
            }
        }
    }

    /// Softens the edges: values rise from 0 at removed pixels to 255 at this many degrees from them.
    pub fn feather(&mut self, degrees: f64) {
        let rows: Vec<Vec<Run>> = self.removed_runs();
        // Two steps per row resolve the distances between pixels.
        let rows_of_edge = degrees / 180.0 * self.height as f64;
        let steps = (2.0 * rows_of_edge).ceil().clamp(1.0, MAX_FEATHER_STEPS as f64) as usize;
        for step in (1..steps).rev() {
            let radius = degrees * step as f64 / steps as f64;
            let value = (255 * step / steps) as u8;
            for (row, grown) in
                self.data.chunks_exact_mut(self.width).zip(dilated_runs(&rows, self.width, radius))
            {
                for run in grown {
                    row[run.start..run.end].iter_mut().for_each(|keep| *keep = value.min(*keep));
                }
            }
        }
    }

    fn removed_runs(&self) -> Vec<Vec<Run>> {
        self.data.chunks_exact(self.width).map(|row| runs(row, |keep| keep < REMOVED)).collect()
    }
}

/// Removes all pixels of a photograph's mask within `radius` px of a removed pixel; `width` is the row length.
///
/// # Panics
/// If the length is not a multiple of `width`.
pub fn dilate_pixels(mask: &mut [u8], width: usize, radius: f64) {
    if width == 0 || mask.is_empty() {
        return;
    }
    assert!(mask.len().is_multiple_of(width), "values of a mask");
    let height = mask.len() / width;
    let rows: Vec<Vec<Run>> = mask.chunks_exact(width).map(|row| runs(row, |keep| keep < REMOVED)).collect();
    let far = radius.clamp(0.0, height as f64) as usize;
    for (y, row) in mask.chunks_exact_mut(width).enumerate() {
        for (from, runs) in
            rows.iter().enumerate().take((y + far + 1).min(height)).skip(y.saturating_sub(far))
        {
            let down = y.abs_diff(from) as f64;
            let half = (radius * radius - down * down).max(0.0).sqrt().min(width as f64) as usize;
            for run in runs {
                row[run.start.saturating_sub(half)..(run.end + half).min(width)].fill(0);
            }
        }
    }
}

/// For each row, the runs within this many degrees of the given runs.
fn dilated_runs(rows: &[Vec<Run>], width: usize, degrees: f64) -> impl Iterator<Item = Vec<Run>> {
    let height = rows.len();
    let radius = degrees.to_radians();
    let latitude = move |row: usize| std::f64::consts::PI * (0.5 - (row as f64 + 0.5) / height as f64);
    let far = (degrees / 180.0 * height as f64).clamp(0.0, height as f64) as usize;
    (0..height).map(move |y| {
        let mut grown = Vec::new();
        for (from, runs) in
            rows.iter().enumerate().take((y + far + 1).min(height)).skip(y.saturating_sub(far))
        {
            if runs.is_empty() {
                continue;
            }
            let Some(reach) = longitude_half_width(latitude(from), latitude(y), radius) else { continue };
            // Rounding must not lose the pixel that a circle just touches.
            let half = (reach / std::f64::consts::TAU * width as f64 + 1e-9) as usize;
            for run in runs {
                push_widened(*run, half, width, &mut grown);
            }
        }
        grown.sort_unstable_by_key(|run| run.start);
        join(&mut grown);
        grown
    })
}

/// Appends a run widened by `half` on both sides, as one or two parts of a row that wraps around.
fn push_widened(run: Run, half: usize, width: usize, out: &mut Vec<Run>) {
    let length = run.end - run.start + 2 * half;
    if length >= width {
        out.push(Run { start: 0, end: width });
        return;
    }
    let start = (run.start + width - half % width) % width;
    let end = start + length;
    if end <= width {
        out.push(Run { start, end });
    } else {
        out.push(Run { start, end: width });
        out.push(Run { start: 0, end: end - width });
    }
}

#[cfg(test)]
mod tests {
    use gausset_core::se3;

    use super::*;
    use crate::sphere::geometry::direction_from_equirect;

    /// Angle from each pixel to the nearest removed one in degrees, by exhaustive search.
    fn angles_to(mask: &SphereMask, removed: &[(usize, usize)]) -> Vec<f64> {
        let (w, h) = (mask.width as f64, mask.height as f64);
        let direction = |x: usize, y: usize| direction_from_equirect(x as f64 + 0.5, y as f64 + 0.5, w, h);
        let from: Vec<[f64; 3]> = removed.iter().map(|&(x, y)| direction(x, y)).collect();
        (0..mask.data.len())
            .map(|at| {
                let d = direction(at % mask.width, at / mask.width);
                // The nearest has the largest cosine; its angle is then computed without cancellation.
                let nearest = from.iter().copied().max_by(|a, b| se3::dot(*a, d).total_cmp(&se3::dot(*b, d)));
                nearest.map_or(180.0, |n| crate::sphere::projection::angle_between(n, d).to_degrees())
            })
            .collect()
    }

    #[test]
    fn growth_is_that_of_brute_force_over_seam_and_poles() {
        // The ground, both poles, the seam, and a few random positions.
        let removed = [
            (700, 360),
            (0, 200),
            (1439, 201),
            (300, 0),
            (10, 2),
            (900, 719),
            (720, 640),
            (60, 715),
            (1438, 90),
        ];
        let mut mask = SphereMask::new(1440, 720);
        for (x, y) in removed {
            mask.data[y * 1440 + x] = 0;
        }
        let angles = angles_to(&mask, &removed);
        for degrees in [0.3, 0.6, 1.0, 2.7, 10.0] {
            let mut grown = mask.clone();
            grown.dilate(degrees);
            // For pixels that a circle just touches, both results are accepted.
            let wrong = grown.data.iter().zip(&angles).filter(|(keep, angle)| {
                (**keep == 0) != (**angle <= degrees) && (**angle - degrees).abs() > 1e-6
            });
            assert_eq!(wrong.count(), 0, "{degrees} degrees");
            assert!(grown.data.iter().filter(|&&keep| keep == 0).count() > removed.len());
        }
    }

    #[test]
    fn growing_all_of_the_sphere_or_nothing_of_it_works() {
        let mut mask = SphereMask::new(64, 32);
        mask.dilate(5.0);
        assert!(mask.keeps_all());
        mask.data[0] = 0;
        mask.dilate(0.0);
        assert_eq!(mask.data.iter().filter(|&&keep| keep == 0).count(), 1);
        mask.dilate(180.0);
        assert!(mask.data.iter().all(|&keep| keep == 0));
    }

    #[test]
    fn a_feather_rises_with_the_distance() {
        let mut mask = SphereMask::new(720, 360);
        let removed = [(3, 100), (500, 355)];
        for (x, y) in removed {
            mask.data[y * 720 + x] = 0;
        }
        let angles = angles_to(&mask, &removed);
        mask.feather(6.0);
        for (keep, angle) in mask.data.iter().zip(angles) {
            let wanted = (255.0 * angle / 6.0).min(255.0);
            // 24 steps, rounded up.
            assert!((f64::from(*keep) - wanted).abs() <= 255.0 / 24.0 + 1.0, "{angle}: {keep} {wanted}");
        }
    }

    #[test]
    fn pixels_of_a_photograph_grow_in_a_circle() {
        let (w, h) = (40, 30);
        let removed = [(0usize, 0usize), (20, 15), (39, 12)];
        for radius in [0.0, 1.0, 2.5, 7.0, 100.0] {
            let mut mask = vec![255; w * h];
            for (x, y) in removed {
                mask[y * w + x] = 0;
            }
            dilate_pixels(&mut mask, w, radius);
            for (at, keep) in mask.iter().enumerate() {
                let near = removed.iter().any(|&(x, y)| {
                    let (dx, dy) = (x.abs_diff(at % w) as f64, y.abs_diff(at / w) as f64);
                    dx * dx + dy * dy <= radius * radius
                });
                assert_eq!(*keep == 0, near, "{radius} {at}");
            }
        }
    }
}
