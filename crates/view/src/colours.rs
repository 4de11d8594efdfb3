//! False colours: depths, counts and differences as images.

use gausset_core::engine::Rendering;
use gausset_core::image::quantise;
use gausset_core::se3::{cross, norm};
use gausset_core::{Camera, RgbImage8, TargetImage};
use gausset_train::Confidence;

/// Equally spaced colours from the lowest to the highest value: dark blue, green, light yellow. Brightness increases
/// evenly, so the map is also readable in grey.
const RAMP: [[f32; 3]; 6] = [
    [16.0, 12.0, 60.0],
    [38.0, 68.0, 128.0],
    [28.0, 122.0, 134.0],
    [60.0, 170.0, 106.0],
    [170.0, 208.0, 64.0],
    [252.0, 236.0, 120.0],
];
/// Pixels with less alpha have no depth.
const MIN_DEPTH_ALPHA: f32 = 0.01;
/// Fraction of the values at either end that is clipped from the range.
const CLIPPED_FRACTION: f64 = 0.01;

/// The colour of a value from 0 to 1.
fn colour(value: f32) -> [u8; 3] {
    let at = value.clamp(0.0, 1.0) * (RAMP.len() - 1) as f32;
    let low = (at as usize).min(RAMP.len() - 2);
    let share = at - low as f32;
    std::array::from_fn(|k| (RAMP[low][k] * (1.0 - share) + RAMP[low + 1][k] * share + 0.5) as u8)
}

/// Mapping of values to colours.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ColourScale {
    Linear,
    /// By ratio, so that near objects keep contrast when there is a distant sky.
    Logarithmic,
}

/// A false-colour image, black where there are no values, and the range of the colours.
fn map(width: u32, height: u32, values: &[Option<f32>], scale: ColourScale) -> (RgbImage8, [f32; 2]) {
    let mut known: Vec<f32> = values.iter().flatten().copied().filter(|value| value.is_finite()).collect();
    let mut range = [0.0, 1.0];
    if !known.is_empty() {
        let tail = (CLIPPED_FRACTION * known.len() as f64) as usize;
        let last = known.len() - 1;
        let low = *known.select_nth_unstable_by(tail, f32::total_cmp).1;
        let high = *known.select_nth_unstable_by(last - tail, f32::total_cmp).1;
        range = [low, high];
    }
    let place = |value: f32| match scale {
        ColourScale::Linear => value,
        // For display only: results need not be bit-identical.
        ColourScale::Logarithmic => value.max(f32::MIN_POSITIVE).ln(),
    };
    let (low, high) = (place(range[0]), place(range[1]));
    let span = (high - low).max(f32::MIN_POSITIVE);
    let shade = |value: f32| colour((place(value) - low) / span);
    let data = values.iter().flat_map(|value| value.map_or([0; 3], shade));
    (RgbImage8 { width, height, data: data.collect() }, range)
}

/// The expected depth of each pixel; `None` where alpha is too low.
pub(crate) fn depths(rendering: &Rendering) -> Vec<Option<f32>> {
    let pixels = rendering.depth.iter().zip(&rendering.alpha);
    pixels.map(|(&depth, &alpha)| (alpha >= MIN_DEPTH_ALPHA).then(|| depth / alpha)).collect()
}

/// Depths in false colours, and the range in scene units.
#[must_use]
pub fn depth_image(rendering: &Rendering) -> (RgbImage8, [f32; 2]) {
    map(rendering.width, rendering.height, &depths(rendering), ColourScale::Logarithmic)
}

/// The picture in grey, green where training views confirm the depth, yellow where they only see it, and red where it is
/// invented; grey where there is no surface.
pub(crate) fn confidence_image(rendering: &Rendering, confidence: &[Option<Confidence>]) -> RgbImage8 {
    let tint = |confidence: Confidence| match confidence {
        Confidence::Confirmed => [0.16, 0.66, 0.30],
        Confidence::Seen => [0.95, 0.76, 0.15],
        Confidence::Invented => [0.86, 0.20, 0.18],
    };
    let pixels = rendering.color.chunks_exact(3).zip(confidence);
    let colours = pixels.flat_map(|(colour, confidence)| {
        let grey = (0.299 * colour[0] + 0.587 * colour[1] + 0.114 * colour[2]).clamp(0.0, 1.0);
        // Half of the tint alone, so that black surfaces show it, too.
        confidence.map_or([grey; 3], |known| tint(known).map(|t| t * (0.35 + 0.65 * grey)))
    });
    RgbImage8::from_f32(rendering.width, rendering.height, &colours.collect::<Vec<f32>>())
}

/// Fraction of the pixels with a surface of which this is known; 0 without any.
pub(crate) fn fraction(confidence: &[Option<Confidence>], wanted: Confidence) -> f32 {
    let (mut count, mut all) = (0, 0);
    for known in confidence.iter().flatten() {
        all += 1;
        count += usize::from(*known == wanted);
    }
    if all > 0 { count as f32 / all as f32 } else { 0.0 }
}

/// Surface normals of the depth map as colours, in the axes of the image: red to the right, green up, blue towards the
/// camera, each from -1 to 1; black where there is no depth.
///
/// `P(x, y)` are the points at their depths on the rays through the pixel centres. The normal is `∂P/∂x × ∂P/∂y`, from
/// central differences, or one-sided ones where only one neighbour has a depth.
#[must_use]
pub fn normal_image(rendering: &Rendering, camera: &Camera) -> RgbImage8 {
    let (width, height) = (rendering.width as usize, rendering.height as usize);
    let depths = depths(rendering);
    let point = |x: usize, y: usize| {
        let z = f64::from(depths[y * width + x]?);
        Some(camera.ray([x as f64 + 0.5, y as f64 + 0.5]).map(|v| z * v))
    };
    let along = |before: Option<[f64; 3]>, here: [f64; 3], after: Option<[f64; 3]>| {
        let (from, to) = (before.unwrap_or(here), after.unwrap_or(here));
        [to[0] - from[0], to[1] - from[1], to[2] - from[2]]
    };
    let colour = |x: usize, y: usize| {
        let here = point(x, y)?;
        let left = x.checked_sub(1).and_then(|x| point(x, y));
        let above = y.checked_sub(1).and_then(|y| point(x, y));
        let right = (x + 1 < width).then(|| point(x + 1, y)).flatten();
        let below = (y + 1 < height).then(|| point(x, y + 1)).flatten();
        let normal = cross(along(left, here, right), along(above, here, below));
        let length = norm(normal);
        // With x right and y down, the product points away from the camera, so the normal is its negative.
        (length > 0.0).then(|| normal.map(|v| quantise((0.5 + 0.5 * v / length) as f32)))
    };
    let pixels = (0..height).flat_map(|y| (0..width).map(move |x| (x, y)));
    let data = pixels.flat_map(|(x, y)| colour(x, y).map_or([0; 3], |[r, g, b]| [255 - r, g, b]));
    RgbImage8 { width: rendering.width, height: rendering.height, data: data.collect() }
}

/// Splats per pixel in false colours, and the range.
#[must_use]
pub fn count_image(rendering: &Rendering) -> (RgbImage8, [f32; 2]) {
    let counts: Vec<Option<f32>> = rendering.count.iter().map(|&count| Some(count as f32)).collect();
    map(rendering.width, rendering.height, &counts, ColourScale::Linear)
}

/// Alpha as a grey image.
#[must_use]
pub fn alpha_image(rendering: &Rendering) -> RgbImage8 {
    let data = rendering.alpha.iter().flat_map(|&alpha| [quantise(alpha); 3]).collect();
    RgbImage8 { width: rendering.width, height: rendering.height, data }
}

/// A photograph composited over a background.
#[must_use]
pub fn composite_photo(photo: &TargetImage, background: [f32; 3]) -> RgbImage8 {
    let mut data = photo.rgb.clone();
    if let Some(alpha) = &photo.alpha {
        for (pixel, &alpha) in data.chunks_exact_mut(3).zip(alpha) {
            let alpha = f32::from(alpha) / 255.0;
            for (value, behind) in pixel.iter_mut().zip(background) {
                *value = quantise(f32::from(*value) / 255.0 * alpha + behind * (1.0 - alpha));
            }
        }
    }
    RgbImage8 { width: photo.width, height: photo.height, data }
}

/// The absolute difference between a render and a photograph of the same size, times `gain`, in false colours, and its
/// PSNR in dB. Pixels that the mask excludes are black and do not count.
#[must_use]
pub fn error_image(
    render: &RgbImage8,
    photo: &RgbImage8,
    mask: Option<&[u8]>,
    gain: f32,
) -> (RgbImage8, f32) {
    let (mut sum, mut count) = (0.0f64, 0u64);
    let pairs = render.data.chunks_exact(3).zip(photo.data.chunks_exact(3)).enumerate();
    let data = pairs.flat_map(|(i, (a, b))| {
        if mask.is_some_and(|mask| mask[i] == 0) {
            return [0; 3];
        }
        let differences: [f32; 3] = std::array::from_fn(|k| f32::from(a[k].abs_diff(b[k])) / 255.0);
        sum += differences.iter().map(|&d| f64::from(d * d)).sum::<f64>();
        count += 3;
        colour(gain * differences.iter().sum::<f32>() / 3.0)
    });
    let picture = RgbImage8 { width: render.width, height: render.height, data: data.collect() };
    let mse = sum / count.max(1) as f64;
    // Equal images have an infinite PSNR; the display is limited to 99 dB.
    let psnr = if mse > 0.0 { (-10.0 * mse.log10()) as f32 } else { 99.0 };
    (picture, psnr)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_begin_and_end_with_those_of_the_ramp() {
        assert_eq!((colour(-1.0), colour(0.0), colour(2.0)), ([16, 12, 60], [16, 12, 60], [252, 236, 120]));
    }

    #[test]
    fn confidence_tints_the_grey_picture_and_its_fractions_leave_out_pixels_without_surface() {
        let rendering = Rendering { width: 2, height: 2, color: vec![1.0; 12], ..Rendering::default() };
        let known =
            [Some(Confidence::Confirmed), Some(Confidence::Invented), None, Some(Confidence::Confirmed)];
        let picture = confidence_image(&rendering, &known);
        let pixel = |i: usize| &picture.data[3 * i..3 * i + 3];
        assert!(pixel(0)[1] > 2 * pixel(0)[0] && pixel(1)[0] > 2 * pixel(1)[1], "{:?}", picture.data);
        assert_eq!(pixel(2), [255; 3]);
        assert_eq!(fraction(&known, Confidence::Confirmed), 2.0 / 3.0);
        assert_eq!(fraction(&[None], Confidence::Seen), 0.0);
    }

    #[test]
    fn a_depth_map_spans_its_range_and_is_black_where_nothing_is() {
        let mut rendering = Rendering { width: 200, height: 1, ..Rendering::default() };
        rendering.alpha = (0..200).map(|k| if k < 100 { 0.5 } else { 0.0 }).collect();
        rendering.depth = (0..200).map(|k| 0.5 * (1.0 + k as f32)).collect();
        let (picture, range) = depth_image(&rendering);
        assert_eq!(range, [2.0, 99.0]);
        assert_eq!(picture.data[3 * 150..3 * 151], [0; 3]);
        assert_eq!(picture.data[..3], colour(0.0));
        assert_eq!(picture.data[3 * 99..3 * 100], colour(1.0));
    }

    #[test]
    fn a_plane_has_its_normal_everywhere_and_nothing_has_none() {
        let camera = Camera::new(40, 30, 25.0, 20.0, 20.0, 15.0).unwrap();
        // Points with n · P = -3 for a normal n towards the camera.
        let n = [0.36, -0.48, -0.8];
        let mut rendering = Rendering { width: 40, height: 30, ..Rendering::default() };
        for y in 0..30 {
            for x in 0..40 {
                let ray = [(f64::from(x) + 0.5 - 20.0) / 25.0, (f64::from(y) + 0.5 - 15.0) / 20.0];
                let depth = -3.0 / (n[0] * ray[0] + n[1] * ray[1] + n[2]);
                rendering.alpha.push(if x == 7 { 0.0 } else { 0.5 });
                rendering.depth.push(0.5 * depth as f32);
            }
        }
        let picture = normal_image(&rendering, &camera);
        let expected = [0.5 + 0.5 * n[0], 0.5 - 0.5 * n[1], 0.5 - 0.5 * n[2]].map(|v| 255.0 * v);
        for (i, pixel) in picture.data.chunks_exact(3).enumerate() {
            if i % 40 == 7 {
                assert_eq!(pixel, [0; 3]);
            } else {
                let off = (0..3).map(|k| (f64::from(pixel[k]) - expected[k]).abs()).fold(0.0, f64::max);
                assert!(off < 1.5, "{i}: {pixel:?}, expected {expected:?}");
            }
        }
    }

    #[test]
    fn an_error_map_tells_the_psnr_of_what_counts() {
        let grey = |value| RgbImage8 { width: 2, height: 1, data: vec![value; 6] };
        let (picture, psnr) = error_image(&grey(100), &grey(151), None, 1.0);
        // 51 of 255 is a fifth: 20 log10(5) dB.
        assert!((psnr - 13.979).abs() < 1e-3, "{psnr}");
        assert_eq!(picture.data[..3], colour(0.2));
        let mut other = grey(100);
        other.data[3..].fill(255);
        assert_eq!(error_image(&grey(100), &other, Some(&[1, 0]), 1.0).1, 99.0);
    }
}
