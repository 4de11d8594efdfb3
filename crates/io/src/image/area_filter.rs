//! Downscaling with an exact area filter.
//!
//! An output pixel is the mean of the source over the rectangle that it covers; source pixels at the border are
//! weighted by the covered fraction. The filter is separable: rows first, then columns. Weights are computed from
//! integers and sums run in source order in f32, so the bytes depend only on the input. Colours are averaged with alpha
//! weights.

use super::DecodedImage;

/// Per output position of an axis: its first source position and the weights from there.
struct FilterWeights {
    first: Vec<usize>,
    /// Start of each position's weights, and the end of the last.
    start: Vec<usize>,
    weights: Vec<f32>,
}

impl FilterWeights {
    /// `source ≥ output`: in units of 1/output px, output x covers `x source .. (x + 1) source` and source pixel i
    /// covers `i output .. (i + 1) output`.
    fn new(source: u32, output: u32) -> Self {
        let (source, output) = (u64::from(source), u64::from(output));
        let mut taps = Self { first: Vec::new(), start: vec![0], weights: Vec::new() };
        for x in 0..output {
            let (low, high) = (x * source, (x + 1) * source);
            let first = low / output;
            taps.first.push(first as usize);
            for i in first..high.div_ceil(output) {
                let covered = high.min((i + 1) * output) - low.max(i * output);
                taps.weights.push((covered as f64 / source as f64) as f32);
            }
            taps.start.push(taps.weights.len());
        }
        taps
    }

    fn weights_at(&self, x: usize) -> (usize, &[f32]) {
        (self.first[x], &self.weights[self.start[x]..self.start[x + 1]])
    }
}

/// Downscales an image to a size that is not larger on either axis. The same size returns the same bytes.
///
/// # Panics
/// If the size is 0 or larger than the image on an axis.
#[must_use]
pub fn downscale(picture: DecodedImage, width: u32, height: u32) -> DecodedImage {
    assert!(width > 0 && height > 0 && width <= picture.width && height <= picture.height);
    if (width, height) == (picture.width, picture.height) {
        return picture;
    }
    let _span = gausset_prof::span("downscale");
    let (columns, rows) =
        (FilterWeights::new(picture.width, width), FilterWeights::new(picture.height, height));
    let pixels = width as usize * height as usize;
    let mut rgb = Vec::with_capacity(pixels * 3);
    match &picture.alpha {
        None => {
            let stride = picture.width as usize * 3;
            let load = |y: usize, line: &mut [f32]| {
                let row = &picture.rgb[y * stride..(y + 1) * stride];
                line.iter_mut().zip(row).for_each(|(out, &v)| *out = f32::from(v));
            };
            filter::<3>(picture.width, &columns, &rows, load, |line| {
                rgb.extend(line.iter().map(|&v| round(v)));
            });
            DecodedImage { width, height, rgb, alpha: None }
        }
        Some(source_alpha) => {
            let stride = picture.width as usize;
            let load = |y: usize, line: &mut [f32]| {
                let colours = picture.rgb[y * stride * 3..(y + 1) * stride * 3].chunks_exact(3);
                let alphas = &source_alpha[y * stride..(y + 1) * stride];
                for ((out, colour), &alpha) in line.chunks_exact_mut(4).zip(colours).zip(alphas) {
                    out.copy_from_slice(&premultiplied(colour, alpha));
                }
            };
            let mut alpha = Vec::with_capacity(pixels);
            filter::<4>(picture.width, &columns, &rows, load, |line| {
                for p in line.chunks_exact(4) {
                    let (colour, a) = unpremultiplied([p[0], p[1], p[2], p[3]]);
                    rgb.extend(colour);
                    alpha.push(a);
                }
            });
            DecodedImage { width, height, rgb, alpha: Some(alpha) }
        }
    }
}

/// Filters the rows that `load` provides (f32, `C` channels) and passes finished rows to `emit`.
fn filter<const C: usize>(
    source_width: u32,
    columns: &FilterWeights,
    rows: &FilterWeights,
    load: impl Fn(usize, &mut [f32]),
    mut emit: impl FnMut(&[f32]),
) {
    let (width, height) = (columns.first.len(), rows.first.len());
    let mut source = vec![0.0; source_width as usize * C];
    let mut narrow = vec![0.0; width * C];
    let mut sum = vec![0.0; width * C];
    // Neighbouring output rows share at most one source row: `narrow` keeps the last one.
    let mut held = usize::MAX;
    for y in 0..height {
        sum.fill(0.0);
        let (first, weights) = rows.weights_at(y);
        for (i, &weight) in weights.iter().enumerate() {
            if held != first + i {
                held = first + i;
                load(held, &mut source);
                filter_row::<C>(&source, columns, &mut narrow);
            }
            sum.iter_mut().zip(&narrow).for_each(|(s, &v)| *s += weight * v);
        }
        emit(&sum);
    }
}

fn filter_row<const C: usize>(source: &[f32], columns: &FilterWeights, out: &mut [f32]) {
    for (x, pixel) in out.chunks_exact_mut(C).enumerate() {
        let (first, weights) = columns.weights_at(x);
        let mut sum = [0.0f32; C];
        for (p, &weight) in source[first * C..].chunks_exact(C).zip(weights) {
            for c in 0..C {
                sum[c] += weight * p[c];
            }
        }
        pixel.copy_from_slice(&sum);
    }
}

/// Rounds 0..255 to the nearest byte.
#[inline(always)]
pub(super) fn round(v: f32) -> u8 {
    // The cast saturates.
    (v + 0.5) as u8
}

/// Colour times alpha, and alpha (all 0..255).
#[inline]
pub(super) fn premultiplied(colour: &[u8], alpha: u8) -> [f32; 4] {
    let a = f32::from(alpha);
    let share = a * (1.0 / 255.0);
    [f32::from(colour[0]) * share, f32::from(colour[1]) * share, f32::from(colour[2]) * share, a]
}

/// Straight colour and alpha from a premultiplied pixel.
#[inline]
pub(super) fn unpremultiplied([r, g, b, a]: [f32; 4]) -> ([u8; 3], u8) {
    match round(a) {
        0 => ([0; 3], 0),
        alpha => {
            let back = 255.0 / a;
            ([round(r * back), round(g * back), round(b * back)], alpha)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grey(width: u32, height: u32, value: impl Fn(u32, u32) -> u8) -> DecodedImage {
        let pixels = (0..height).flat_map(|y| (0..width).map(move |x| (x, y)));
        let rgb = pixels.flat_map(|(x, y)| [value(x, y); 3]).collect();
        DecodedImage { width, height, rgb, alpha: None }
    }

    #[test]
    fn a_quarter_is_the_mean_of_sixteen() {
        let value = |x: u32, y: u32| (x * 7 + y * 13 + x * y) as u8;
        let small = downscale(grey(32, 16, value), 8, 4);
        for (y, x) in (0..4).flat_map(|y| (0..8).map(move |x| (y, x))) {
            let sum: u32 =
                (0..4).flat_map(|j| (0..4).map(move |i| u32::from(value(4 * x + i, 4 * y + j)))).sum();
            let expected = ((f64::from(sum) / 16.0) + 0.5) as u8;
            assert_eq!(small.rgb[(y * 8 + x) as usize * 3], expected);
        }
    }

    #[test]
    fn partly_covered_pixels_count_by_their_share() {
        // 3 -> 2: weights 2/3 and 1/3.
        let small = downscale(grey(3, 1, |x, _| [30, 90, 240][x as usize]), 2, 1);
        assert_eq!([small.rgb[0], small.rgb[3]], [50, 190]);
    }

    #[test]
    fn the_mean_is_kept_at_any_ratio() {
        let value = |x: u32, y: u32| ((x * 37 + y * 91) % 251) as u8;
        let source = grey(101, 67, value);
        let mean = |p: &DecodedImage| p.rgb.iter().map(|&v| f64::from(v)).sum::<f64>() / p.rgb.len() as f64;
        let before = mean(&source);
        for (w, h) in [(100, 66), (50, 33), (33, 67), (7, 5), (1, 1)] {
            // Rounding changes the mean by at most half a level.
            assert!((mean(&downscale(source.clone(), w, h)) - before).abs() <= 0.5);
        }
    }

    #[test]
    fn colours_of_transparent_pixels_do_not_bleed() {
        let picture = DecodedImage {
            width: 2,
            height: 1,
            rgb: vec![200, 100, 50, 0, 255, 0],
            alpha: Some(vec![255, 0]),
        };
        let small = downscale(picture, 1, 1);
        assert_eq!((small.rgb, small.alpha), (vec![200, 100, 50], Some(vec![128])));
    }

    #[test]
    fn the_same_size_keeps_the_bytes() {
        let picture = grey(5, 4, |x, y| (x * y) as u8);
        assert_eq!(downscale(picture.clone(), 5, 4), picture);
    }
}
