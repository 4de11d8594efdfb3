//! Statistics of a small image (gradients and exposure), and the change between two images.

use super::image::GreyImage;
use super::projection::SmallProjection;

/// Bands of latitude (of rows, for a pinhole); the sharpness of a band is compared with the same band of nearby frames.
pub(super) const BANDS: usize = 8;
/// Side of a tile of the change detection, px.
const TILE: usize = 16;

/// Statistics of an image.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct ImageStatistics {
    /// Mean square of the differences of neighbouring pixels over the square of the mean brightness, per band.
    pub(super) gradients: [f64; BANDS],
    /// Exposure: mean linear light in stops above middle grey (0.18).
    pub(super) exposure: f64,
}

/// Linear light of the 256 values in units of 2^-16. The sRGB curve is close enough to BT.709's for this.
fn linear_light_table() -> [u32; 256] {
    std::array::from_fn(|v| {
        let v = v as f64 / 255.0;
        let linear = if v <= 0.04045 { v / 12.92 } else { libm::pow((v + 0.055) / 1.055, 2.4) };
        (linear * 65_536.0).round() as u32
    })
}

/// Computes [`ImageStatistics`]; holds the table of linear light.
pub(super) struct StatisticsMeter {
    light: [u32; 256],
}

impl StatisticsMeter {
    pub(super) fn new() -> Self {
        Self { light: linear_light_table() }
    }

    pub(super) fn measure(&self, picture: &GreyImage, optics: &SmallProjection) -> ImageStatistics {
        let rows = optics.rows();
        let (first, count) = (rows.start, rows.len().max(1));
        let mut squares = [0.0; BANDS];
        let mut brightness = [0.0; BANDS];
        let mut weights = [0.0; BANDS];
        let (mut light, mut light_weight) = (0.0, 0.0);
        for y in rows {
            if y + 1 >= picture.height {
                break;
            }
            let band = (y - first) * BANDS / count;
            let (row, next) = (picture.row(y), picture.row(y + 1));
            let stretch = optics.stretch(y);
            let (across, down, sum) = differences(row, next);
            let weight = 1.0 / stretch;
            // Pixels are narrower on the sphere towards the poles: a step of one is a steeper slope there.
            squares[band] += weight * (across as f64 * stretch * stretch + down as f64);
            brightness[band] += weight * sum as f64;
            weights[band] += weight * row.len() as f64;
            // Every fourth row is enough for the exposure.
            if y % 4 == 0 {
                let sum: u64 = row.iter().map(|&v| u64::from(self.light[usize::from(v)])).sum();
                light += weight * sum as f64;
                light_weight += weight * row.len() as f64;
            }
        }
        let mut gradients = [0.0; BANDS];
        for band in 0..BANDS {
            if weights[band] > 0.0 {
                let mean = brightness[band] / weights[band] + 8.0;
                gradients[band] = squares[band] / weights[band] / (mean * mean);
            }
        }
        let mean = light / f64::max(light_weight, 1.0) / 65_536.0;
        let exposure = libm::log2(mean.max(1.0 / 65_536.0) / 0.18);
        ImageStatistics { gradients, exposure }
    }
}

/// Sums of the squared differences to the right and lower neighbours, and of the pixels.
fn differences(row: &[u8], next: &[u8]) -> (u64, u64, u64) {
    // 16-bit products vectorise on every CPU. At most 32,768 pixels of 255² fit into 31 bits, and rows are narrower.
    // Wrapping, because an overflow check per sum prevents vectorisation.
    let squares = |a: &[u8], b: &[u8]| {
        a.iter().zip(b).fold(0i32, |sum, (&a, &b)| {
            let d = i16::from(a) - i16::from(b);
            sum.wrapping_add(i32::from(d) * i32::from(d))
        })
    };
    let sum = row.iter().fold(0u32, |sum, &v| sum.wrapping_add(u32::from(v)));
    (squares(row, &row[1..]) as u64, squares(row, next) as u64, u64::from(sum))
}

/// Sum of absolute differences.
#[inline]
fn absolute_difference(a: &[u8], b: &[u8]) -> u32 {
    a.iter().zip(b).fold(0, |sum, (&a, &b)| sum.wrapping_add(u32::from(a.abs_diff(b))))
}

/// Mean absolute difference of two images in grey levels: of the whole image, and of the tile that differs most.
pub(super) fn change(a: &GreyImage, b: &GreyImage) -> [f64; 2] {
    if a.width != b.width || a.height != b.height || a.data.is_empty() {
        return [255.0; 2];
    }
    let columns = a.width.div_ceil(TILE);
    let (mut sum, mut most) = (0u64, 0u32);
    let mut tiles = vec![0u32; columns];
    for first in (0..a.height).step_by(TILE) {
        tiles.fill(0);
        for y in first..(first + TILE).min(a.height) {
            let (a, b) = (a.row(y).as_chunks::<TILE>(), b.row(y).as_chunks::<TILE>());
            for ((tile, a), b) in tiles.iter_mut().zip(a.0).zip(b.0) {
                *tile += absolute_difference(a, b);
            }
            if let Some(last) = tiles.get_mut(a.0.len()) {
                *last += absolute_difference(a.1, b.1);
            }
        }
        sum += tiles.iter().map(|&t| u64::from(t)).sum::<u64>();
        most = most.max(tiles.iter().copied().max().unwrap_or(0));
    }
    [sum as f64 / a.data.len() as f64, f64::from(most) / (TILE * TILE) as f64]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picture(value: impl Fn(usize, usize) -> f64) -> GreyImage {
        let data = (0..64 * 32).map(|i| value(i % 64, i / 64) as u8).collect();
        GreyImage { width: 64, height: 32, data }
    }

    #[test]
    fn blur_lowers_gradients_and_light_does_not() {
        let optics = SmallProjection::pinhole(64, 32);
        let texture = |x: usize, y: usize| f64::from((x * 37 + y * 53) as u32 % 90);
        let look = |gain: f64, blur: usize| {
            let value = |x: usize, y: usize| {
                let sum: f64 = (0..=blur).map(|k| texture(x + k, y)).sum();
                gain * (100.0 + sum / (blur + 1) as f64) + 8.0 * (gain - 1.0)
            };
            StatisticsMeter::new().measure(&picture(value), &optics)
        };
        let [sharp, blurred, dark] = [look(1.0, 0), look(1.0, 4), look(0.6, 0)];
        for band in 0..BANDS {
            assert!(blurred.gradients[band] < 0.7 * sharp.gradients[band]);
            assert!((dark.gradients[band] / sharp.gradients[band] - 1.0).abs() < 0.08);
        }
        // Middle grey of 0.18 is 117.5 of 255; a uniform image has no gradients.
        let grey = StatisticsMeter::new().measure(&picture(|_, _| 118.0), &optics);
        assert!(grey.exposure.abs() < 0.02 && grey.gradients == [0.0; BANDS], "{grey:?}");
    }

    #[test]
    fn a_change_is_seen_in_the_mean_and_in_its_tile() {
        let a = picture(|_, _| 50.0);
        let b = picture(|x, y| if x < 16 && y < 16 { 60.0 } else { 50.0 });
        assert_eq!(change(&a, &a), [0.0, 0.0]);
        assert_eq!(change(&a, &b), [10.0 / 8.0, 10.0]);
    }
}
