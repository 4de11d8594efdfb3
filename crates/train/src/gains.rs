//! Measures how much brighter or darker each image is than the others, from points that several images see.
//!
//! A camera with automatic exposure multiplies an image by an unknown factor. Structure from motion knows which images
//! see the same point, and the observed colours of the point determine the factors: with `L = log colour` of point p in
//! image i, for each channel
//!
//! ```text
//! minimise  Σ w (L_ip - m_p - g_i)²      w = 1 / (1 + (e / 0.15)²), e the mean of |L - m - g| over channels
//! ```
//! by alternating means: `m_p` of a point, then `g_i` of an image, with weights that suppress highlights and wrong
//! matches. A factor common to all images belongs to the scene, so the mean of the gains is 0. Colours are means over a
//! small square around the projected point; colours near black or white do not constrain a factor and are left out.

use std::sync::atomic::{AtomicBool, Ordering};

use gausset_core::TargetImage;
use gausset_io::dataset::{Loader, Tracks};

/// Range of usable colour values; channels outside are left out.
const USABLE_RANGE: [f64; 2] = [0.05, 0.95];
/// Minimum number of images that must have seen a point.
const MIN_TRACK_LENGTH: u32 = 3;
/// Residual (of log colours) at which an observation has half its weight.
const RESIDUAL_SCALE: f64 = 0.15;
/// Minimum number of observations for a known gain.
const MIN_OBSERVATIONS: u32 = 30;
/// Maximum number of observations; with more, points are left out evenly.
const MAX_OBSERVATIONS: usize = 300_000;
/// Half the side of the square around a point, as a fraction of the longer side of an image: seven by seven pixels at
/// 800 px.
const SQUARE_FRACTION: f64 = 1.0 / 320.0;
/// Minimum longer side of an image in px: in smaller images a square of three pixels would be a large part of them.
const MIN_IMAGE_SIDE: u32 = 96;
/// The alternation stops when no gain changes by more than this.
const CONVERGENCE: f64 = 1e-6;
/// Maximum number of passes of the alternation.
const MAX_PASSES: u32 = 500;
/// Images announced to the loader in advance.
const LOOKAHEAD: usize = 8;

/// Standard deviation of the log gains from which correcting them is worthwhile.
pub const NOTABLE_DEVIATION: f64 = 0.03;

/// Log gains of images, or of groups of images that share one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Gains {
    /// Natural logarithm of the gain of each row on each channel; `None` if too few points were observed.
    pub rows: Vec<Option<[f64; 3]>>,
    /// Number of observations that were used.
    pub observations: usize,
    /// PSNR in dB of the observed colours against the mean of their point.
    pub psnr: f64,
    /// The same PSNR after division by the gains.
    pub psnr_after: f64,
}

impl Gains {
    /// Whether enough rows are known to represent all.
    #[must_use]
    pub fn are_known(&self) -> bool {
        let known = self.known().count();
        known >= 3 && 2 * known >= self.rows.len()
    }

    /// Whether the images differ by more than the measurement error.
    #[must_use]
    pub fn are_notable(&self) -> bool {
        self.are_known() && self.standard_deviation() > NOTABLE_DEVIATION
    }

    /// Standard deviation of the log gains over rows and channels.
    #[must_use]
    pub fn standard_deviation(&self) -> f64 {
        let count = 3 * self.known().count();
        let squares: f64 = self.known().flat_map(|(_, gain)| gain).map(|g| g * g).sum();
        (squares / count.max(1) as f64).sqrt()
    }

    /// Standard deviation of the channels of a row around its brightness.
    #[must_use]
    pub fn white_balance_deviation(&self) -> f64 {
        let count = 3 * self.known().count();
        let squares: f64 = self.known().flat_map(|(_, gain)| gain.map(|g| (g - mean(gain)).powi(2))).sum();
        (squares / count.max(1) as f64).sqrt()
    }

    /// Brightness of a row in EV: the base-2 logarithm of its gain, mean over the channels.
    #[must_use]
    pub fn ev(&self, row: usize) -> Option<f64> {
        Some(mean((*self.rows.get(row)?)?) / std::f64::consts::LN_2)
    }

    /// The darkest and the brightest row, in EV.
    #[must_use]
    pub fn range_ev(&self) -> Option<[f64; 2]> {
        let ev = || (0..self.rows.len()).filter_map(|row| self.ev(row));
        Some([ev().reduce(f64::min)?, ev().reduce(f64::max)?])
    }

    /// The row that is farthest from the mean, with its EV.
    #[must_use]
    pub fn worst(&self) -> Option<(usize, f64)> {
        let rows = (0..self.rows.len()).filter_map(|row| Some((row, self.ev(row)?)));
        rows.reduce(|worst, next| if next.1.abs() > worst.1.abs() { next } else { worst })
    }

    fn known(&self) -> impl Iterator<Item = (usize, [f64; 3])> {
        self.rows.iter().enumerate().filter_map(|(row, gain)| Some((row, (*gain)?)))
    }
}

fn mean(gain: [f64; 3]) -> f64 {
    gain.iter().sum::<f64>() / 3.0
}

/// The colour of a point in an image.
#[derive(Clone, Copy, Debug, PartialEq)]
struct ColourObservation {
    point: u32,
    row: u32,
    /// Natural logarithm of the colour.
    log_colour: [f32; 3],
}

/// Measures the gains of images, given as (index in the dataset, row): images of one row share a gain. Unreadable
/// images are left out. `None` if `stop` is set meanwhile.
///
/// # Panics
/// If an image or row is out of range.
#[must_use]
pub fn measure(
    loader: &Loader,
    tracks: &Tracks,
    pictures: &[(usize, u32)],
    rows: usize,
    stop: &AtomicBool,
) -> Option<Gains> {
    let _span = gausset_prof::span("gains");
    let dataset = loader.dataset();
    let wanted = usable_points(tracks, pictures, dataset.points.len());
    let mut observations = Vec::new();
    for (at, &(index, row)) in pictures.iter().enumerate() {
        if stop.load(Ordering::Relaxed) {
            return None;
        }
        let ahead = pictures[at..].iter().take(LOOKAHEAD).map(|&(index, _)| index);
        loader.prefetch(&ahead.collect::<Vec<_>>());
        let camera = &dataset.images[index].camera;
        let is_seen = tracks.points_of(index).iter().any(|&point| wanted[point as usize]);
        if !is_seen || camera.width.max(camera.height) < MIN_IMAGE_SIDE {
            continue;
        }
        let Ok(target) = loader.get(index) else { continue };
        let image = &dataset.images[index];
        for &point in tracks.points_of(index).iter().filter(|&&point| wanted[point as usize]) {
            let in_camera = image.pose.apply(dataset.points[point as usize].position);
            if image.camera.depth(in_camera) <= 0.0 {
                continue;
            }
            if let Some(colour) = colour_at(&target, image.camera.project(in_camera)) {
                let log_colour = colour.map(|c| libm::log(c) as f32);
                observations.push(ColourObservation { point, row, log_colour });
            }
        }
    }
    observations.sort_by_key(|seen| seen.point);
    observations = observations
        .chunk_by(|a, b| a.point == b.point)
        .filter(|seen| seen.len() >= MIN_TRACK_LENGTH as usize)
        .flatten()
        .copied()
        .collect();
    Some(solve(&observations, rows))
}

/// Which points are seen by enough of the images, limited to the number of observations that can be used.
fn usable_points(tracks: &Tracks, pictures: &[(usize, u32)], points: usize) -> Vec<bool> {
    let mut seen = vec![0u32; points];
    for &(index, _) in pictures {
        tracks.points_of(index).iter().for_each(|&point| seen[point as usize] += 1);
    }
    let long = |seen: u32| seen >= MIN_TRACK_LENGTH;
    let all: usize = seen.iter().filter(|&&seen| long(seen)).map(|&seen| seen as usize).sum();
    let stride = all.div_ceil(MAX_OBSERVATIONS).max(1);
    let mut found = 0;
    let mut choose = |seen| {
        found += usize::from(long(seen));
        long(seen) && found.is_multiple_of(stride)
    };
    seen.into_iter().map(&mut choose).collect()
}

/// Mean colour of a square around a position in px, in 0..1; `None` at the image border, if a pixel is masked, or if a
/// channel is near black or white.
fn colour_at(picture: &TargetImage, [x, y]: [f64; 2]) -> Option<[f64; 3]> {
    let (width, height) = (picture.width as usize, picture.height as usize);
    let reach = ((width.max(height) as f64 * SQUARE_FRACTION).round() as usize).max(1);
    let inside = |v: f64, side: usize| {
        let fits = v >= reach as f64 && v < side.checked_sub(reach)? as f64;
        fits.then_some(v as usize)
    };
    let (x, y) = (inside(x, width)?, inside(y, height)?);
    let mut sums = [0u32; 3];
    for row in y - reach..=y + reach {
        let columns = row * width + x - reach..=row * width + x + reach;
        let counts = |values: &Option<Vec<u8>>, least: u8| {
            values.as_ref().is_none_or(|values| values[columns.clone()].iter().all(|&v| v >= least))
        };
        if !counts(&picture.mask, 1) || !counts(&picture.alpha, 255) {
            return None;
        }
        for pixel in picture.rgb[3 * columns.start()..3 * (columns.end() + 1)].chunks_exact(3) {
            sums.iter_mut().zip(pixel).for_each(|(sum, &v)| *sum += u32::from(v));
        }
    }
    let side = (2 * reach + 1) as f64;
    let colour = sums.map(|sum| f64::from(sum) / (255.0 * side * side));
    colour.iter().all(|v| (USABLE_RANGE[0]..=USABLE_RANGE[1]).contains(v)).then_some(colour)
}

/// Alternating means over observations that are sorted by point.
fn solve(observations: &[ColourObservation], rows: usize) -> Gains {
    let mut counts = vec![0u32; rows];
    observations.iter().for_each(|seen| counts[seen.row as usize] += 1);
    let is_known = |row: usize| counts[row] >= MIN_OBSERVATIONS;
    let mut gains = vec![[0.0f64; 3]; rows];
    let mut weights = vec![1.0f64; observations.len()];
    for _ in 0..MAX_PASSES {
        let mut sums = vec![[0.0f64; 4]; rows];
        let mut first = 0;
        for seen in observations.chunk_by(|a, b| a.point == b.point) {
            let weights = &mut weights[first..first + seen.len()];
            first += seen.len();
            let mean = mean_colour(seen, weights, &gains);
            for (seen, weight) in seen.iter().zip(weights) {
                let gain = &gains[seen.row as usize];
                let left: [f64; 3] = std::array::from_fn(|c| f64::from(seen.log_colour[c]) - mean[c]);
                let residual = (0..3).map(|c| (left[c] - gain[c]).abs()).sum::<f64>() / 3.0;
                *weight = 1.0 / (1.0 + (residual / RESIDUAL_SCALE).powi(2));
                let sums = &mut sums[seen.row as usize];
                (0..3).for_each(|c| sums[c] += *weight * left[c]);
                sums[3] += *weight;
            }
        }
        let mut next: Vec<[f64; 3]> =
            sums.iter().map(|s| [s[0], s[1], s[2]].map(|v| v / s[3].max(1e-300))).collect();
        let known = (0..rows).filter(|&row| is_known(row));
        let count = known.clone().count().max(1) as f64;
        let centre: [f64; 3] =
            std::array::from_fn(|c| known.clone().map(|row| next[row][c]).sum::<f64>() / count);
        next.iter_mut().flat_map(|gain| gain.iter_mut().zip(centre)).for_each(|(g, centre)| *g -= centre);
        let moved = known.flat_map(|row| (0..3).map(move |c| (row, c)));
        let moved = moved.map(|(row, c)| (next[row][c] - gains[row][c]).abs()).fold(0.0, f64::max);
        gains = next;
        if moved < CONVERGENCE {
            break;
        }
    }
    let [psnr, psnr_after] = [false, true].map(|divided| colour_psnr(observations, &gains, divided));
    let rows = gains.into_iter().enumerate().map(|(row, gain)| is_known(row).then_some(gain)).collect();
    Gains { rows, observations: observations.len(), psnr, psnr_after }
}

/// Weighted mean of the observations of a point, with their gains removed.
fn mean_colour(seen: &[ColourObservation], weights: &[f64], gains: &[[f64; 3]]) -> [f64; 3] {
    let total: f64 = weights.iter().sum();
    std::array::from_fn(|c| {
        let terms = seen.iter().zip(weights);
        let sum: f64 = terms.map(|(s, w)| w * (f64::from(s.log_colour[c]) - gains[s.row as usize][c])).sum();
        sum / total
    })
}

/// PSNR of the observations against the mean colour of their point, as observed or divided by their gains.
fn colour_psnr(observations: &[ColourObservation], gains: &[[f64; 3]], divided: bool) -> f64 {
    let colour = |seen: &ColourObservation, c: usize| {
        let gain = if divided { gains[seen.row as usize][c] } else { 0.0 };
        libm::exp(f64::from(seen.log_colour[c]) - gain)
    };
    let mut squares = 0.0;
    for seen in observations.chunk_by(|a, b| a.point == b.point) {
        for c in 0..3 {
            let mean = seen.iter().map(|s| colour(s, c)).sum::<f64>() / seen.len() as f64;
            squares += seen.iter().map(|s| (colour(s, c) - mean).powi(2)).sum::<f64>();
        }
    }
    -10.0 * libm::log10(squares / (3 * observations.len()).max(1) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gausset_compute::rng::{normals, philox, stream, uniform};

    /// Points with random colours, seen by some of the images under their gains with noise; one in ten observations is
    /// a highlight that is unrelated to the point.
    fn observed(gains: &[[f64; 3]], points: u32, noise: f64) -> Vec<ColourObservation> {
        let mut seen = Vec::new();
        for point in 0..points {
            let colour = philox(1, stream::TEST, 0, point).map(|w| -0.5 - f64::from(uniform(w)));
            for (row, gain) in (0u32..).zip(gains) {
                let [chance, outlier, ..] = philox(2, stream::TEST, u64::from(row), point).map(uniform);
                if chance < 0.5 {
                    continue;
                }
                let jitter = normals(3, stream::TEST, u64::from(row), point);
                let high = if outlier < 0.1 { 0.8 } else { 0.0 };
                let log_colour = std::array::from_fn(|c| {
                    (colour[c] + gain[c] + noise * f64::from(jitter[c]) + high) as f32
                });
                seen.push(ColourObservation { point, row, log_colour });
            }
        }
        seen
    }

    #[test]
    fn gains_are_found_in_spite_of_highlights() {
        let true_gains: Vec<[f64; 3]> = (0..12)
            .map(|i| {
                let brightness = 0.05 * f64::from(i) - 0.275;
                [brightness + 0.02, brightness, brightness - 0.02].map(|g| if i % 2 == 0 { g } else { -g })
            })
            .collect();
        let found = solve(&observed(&true_gains, 600, 0.05), 12);
        let mean: [f64; 3] = std::array::from_fn(|c| true_gains.iter().map(|g| g[c]).sum::<f64>() / 12.0);
        for (found, expected) in found.rows.iter().zip(&true_gains) {
            for c in 0..3 {
                // 300 observations with a noise of 0.05, and highlights with the weight of 1/29: 0.8 / 290.
                assert!(
                    (found.unwrap()[c] - (expected[c] - mean[c])).abs() < 0.012,
                    "{found:?} {expected:?}"
                );
            }
        }
        assert!(found.are_notable() && found.psnr_after > found.psnr);
        // Four images are 0.25 from the mean.
        let (_, worst_ev) = found.worst().unwrap();
        assert!((worst_ev.abs() * std::f64::consts::LN_2 - 0.25).abs() < 0.012, "{worst_ev}");
    }

    #[test]
    fn equal_pictures_are_not_notable_and_unseen_ones_not_known() {
        let even = solve(&observed(&[[0.0; 3]; 12], 600, 0.05), 12);
        assert!(even.are_known() && !even.are_notable(), "{}", even.standard_deviation());
        let mut few = observed(&[[0.0; 3]; 4], 200, 0.05);
        few.retain(|seen| seen.row != 2 || seen.point < 20);
        let few = solve(&few, 5);
        assert_eq!(
            few.rows.iter().map(Option::is_some).collect::<Vec<_>>(),
            [true, true, false, true, false]
        );
        assert!(!solve(&[], 3).are_known());
    }

    #[test]
    fn a_colour_is_the_mean_of_a_square_that_counts() {
        let mut picture =
            TargetImage { width: 9, height: 9, rgb: vec![100; 9 * 9 * 3], alpha: None, mask: None };
        picture.rgb[3 * (4 * 9 + 4)..3 * (4 * 9 + 5)].copy_from_slice(&[190, 100, 10]);
        let close = |found: [f64; 3], expected: [f64; 3]| {
            found.iter().zip(expected).all(|(f, e)| (f - e / 255.0).abs() < 1e-12)
        };
        assert!(close(colour_at(&picture, [4.9, 4.0]).unwrap(), [110.0, 100.0, 90.0]));
        assert!(close(colour_at(&picture, [1.5, 1.5]).unwrap(), [100.0; 3]));
        for outside in [[0.9, 4.0], [4.0, 8.1], [f64::NAN, 4.0], [-3.0, 4.0], [1e300, 4.0]] {
            assert_eq!(colour_at(&picture, outside), None, "{outside:?}");
        }
        let mut mask = vec![255; 81];
        mask[4 * 9 + 4] = 0;
        let masked = TargetImage { mask: Some(mask), ..picture.clone() };
        assert_eq!((colour_at(&masked, [4.5, 4.5]), colour_at(&masked, [1.5, 1.5]).is_some()), (None, true));
        picture.rgb.fill(250);
        assert_eq!(colour_at(&picture, [4.5, 4.5]), None);
    }
}
