//! The sky of a scene as an equirectangular image, for programs that draw splats in front of a background of their own.
//!
//! The splats of a sky stand on a sphere. A pixel is the mean of their colours, with Gaussian weights of the angle to each
//! of the `n` splats and a standard deviation of their spacing, `sqrt(4π / n)`: the time does not depend on what a file
//! states as sizes.

use std::f64::consts::{PI, TAU};

use gausset_core::sh::C0;
use gausset_core::splats_transform::Similarity;
use gausset_core::{RgbImage8, se3};

use super::SplatFile;

/// Largest angle between a splat and a pixel that it colours, in standard deviations.
const REACH: f64 = 3.0;

/// The sky of a document after the transform `moves`, `width` pixels wide and half as high. The centre of the image looks
/// along +z of the transformed splats, its right half towards +x, its top towards -y. `None` if no splats are marked as a
/// sky.
#[must_use]
pub fn sky_image(document: &SplatFile, moves: &Similarity, width: u32) -> Option<RgbImage8> {
    let sky = document.scene_len()..document.splats.len();
    let count = sky.len() as f64;
    let places: Vec<[f64; 3]> =
        sky.clone().map(|i| moves.apply(document.splats.means[i].map(f64::from))).collect();
    if places.is_empty() || width < 2 {
        return None;
    }
    let centre = [0, 1, 2].map(|k| places.iter().map(|place| place[k]).sum::<f64>() / count);
    let colour_of = |i: usize| [0, 1, 2].map(|k| 0.5 + C0 * f64::from(document.splats.sh_coefficients(i)[k]));
    let mut sums = Sums::new(width, width / 2);
    for (place, splat) in places.iter().zip(sky.clone()) {
        let away = se3::sub(*place, centre);
        let distance = se3::norm(away);
        if distance > 0.0 && distance.is_finite() {
            sums.add(away.map(|v| v / distance), colour_of(splat), (2.0 * TAU / count).sqrt());
        }
    }
    let total = sky.map(colour_of).fold([0.0; 3], |sum, c| [0, 1, 2].map(|k| sum[k] + c[k]));
    Some(sums.into_image(total.map(|sum| sum / count)))
}

/// Weighted colours and weights of the pixels of an equirectangular image.
struct Sums {
    width: u32,
    height: u32,
    pixels: Vec<[f64; 4]>,
}

impl Sums {
    fn new(width: u32, height: u32) -> Self {
        Self { width, height, pixels: vec![[0.0; 4]; width as usize * height as usize] }
    }

    /// Adds a splat in a direction. `spread` is the standard deviation of its weights, in radians.
    fn add(&mut self, direction: [f64; 3], colour: [f64; 3], spread: f64) {
        let [width, height] = [self.width, self.height].map(f64::from);
        let (latitude, longitude) =
            (libm::asin((-direction[1]).clamp(-1.0, 1.0)), libm::atan2(direction[0], direction[2]));
        let reach = (REACH * spread).min(PI);
        let row_at = |latitude: f64| (0.5 - latitude / PI) * height;
        let rows = row_at(latitude + reach).floor().max(0.0) as u32
            ..(row_at(latitude - reach).ceil().max(0.0) as u32).min(self.height);
        for row in rows {
            let of_row = (0.5 - (f64::from(row) + 0.5) / height) * PI;
            let (level, up) =
                (libm::cos(of_row) * libm::cos(latitude), libm::sin(of_row) * libm::sin(latitude));
            // The cosine of the angle between the splat and a pixel of this row is `up + level cos(longitudes apart)`.
            let apart = libm::acos(((libm::cos(reach) - up) / level.max(1e-12)).clamp(-1.0, 1.0));
            let half = (apart / TAU * width).ceil().min(0.5 * width) as i64;
            let middle = ((longitude / TAU + 0.5) * width).floor() as i64;
            for column in middle - half..(middle + half + 1).min(middle - half + i64::from(self.width)) {
                let column = column.rem_euclid(i64::from(self.width)) as u32;
                let of_column = ((f64::from(column) + 0.5) / width - 0.5) * TAU;
                let cosine = up + level * libm::cos(of_column - longitude);
                let weight = libm::exp((cosine - 1.0) / (spread * spread));
                let pixel = &mut self.pixels[(row * self.width + column) as usize];
                for (sum, value) in pixel.iter_mut().zip([colour[0], colour[1], colour[2], 1.0]) {
                    *sum += weight * value;
                }
            }
        }
    }

    /// The image; pixels that no splat reaches have the colour `rest`.
    fn into_image(self, rest: [f64; 3]) -> RgbImage8 {
        let colour = |[red, green, blue, weight]: [f64; 4]| match weight {
            0.0 => rest,
            weight => [red / weight, green / weight, blue / weight],
        };
        let rgb: Vec<f32> =
            self.pixels.into_iter().flat_map(|pixel| colour(pixel).map(|v| v as f32)).collect();
        RgbImage8::from_f32(self.width, self.height, &rgb)
    }
}

#[cfg(test)]
mod tests {
    use gausset_core::Splats;

    use super::*;

    /// A scene of one black splat in a sky of `count` splats around `centre`, with a colour for each direction.
    fn scene(count: usize, centre: [f64; 3], colour: impl Fn([f64; 3]) -> [f64; 3]) -> SplatFile {
        let mut splats = Splats::with_capacity(1, count + 1);
        let stride = splats.sh_stride();
        splats.push([0.0; 3], [0.0; 3], [1.0, 0.0, 0.0, 0.0], 9.0, &vec![-9.0; stride]);
        for i in 0..count {
            let (z, angle) = (1.0 - (2.0 * i as f64 + 1.0) / count as f64, 2.4 * i as f64);
            let level = (1.0 - z * z).sqrt();
            let direction = [level * angle.cos(), level * angle.sin(), z];
            let mut sh = vec![0.0; stride];
            for (value, channel) in sh.iter_mut().zip(colour(direction)) {
                *value = ((channel - 0.5) / C0) as f32;
            }
            let mean = [0, 1, 2].map(|k| (centre[k] + 300.0 * direction[k]) as f32);
            splats.push(mean, [2.0; 3], [1.0, 0.0, 0.0, 0.0], 2.0, &sh);
        }
        SplatFile { sky: count, ..SplatFile::new(splats) }
    }

    fn pixel(image: &RgbImage8, x: f64, y: f64) -> [i32; 3] {
        let at = |share: f64, size: u32| ((share * f64::from(size)) as u32).min(size - 1);
        let index = (at(y, image.height) * image.width + at(x, image.width)) as usize;
        [0, 1, 2].map(|k| i32::from(image.data[3 * index + k]))
    }

    #[test]
    fn each_direction_has_the_colour_of_the_sky_there() {
        let colour = |d: [f64; 3]| d.map(|v| 0.5 + 0.4 * v);
        let document = scene(4000, [40.0, -7.0, 90.0], colour);
        let image = sky_image(&document, &Similarity::IDENTITY, 256).unwrap();
        assert_eq!((image.width, image.height), (256, 128));
        let directions = [
            (0.5, 0.5, [0.0, 0.0, 1.0]),
            (0.75, 0.5, [1.0, 0.0, 0.0]),
            (0.25, 0.5, [-1.0, 0.0, 0.0]),
            (0.0, 0.5, [0.0, 0.0, -1.0]),
            (1.0, 0.5, [0.0, 0.0, -1.0]),
            (0.5, 0.0, [0.0, -1.0, 0.0]),
            (0.1, 1.0, [0.0, 1.0, 0.0]),
        ];
        for (x, y, direction) in directions {
            let (found, expected) = (pixel(&image, x, y), colour(direction).map(|v| (255.0 * v) as i32));
            // A pixel is 1.4 degrees wide, and the mean over the spread of the weights is less saturated.
            assert!(
                (0..3).all(|k| (found[k] - expected[k]).abs() <= 4),
                "{direction:?}: {found:?} {expected:?}"
            );
        }
    }

    #[test]
    fn the_image_follows_the_transform() {
        let document = scene(1000, [0.0; 3], |d| [if d[0] > 0.0 { 1.0 } else { 0.0 }; 3]);
        // A rotation by 90 degrees about y that maps +x to +z.
        let quarter = Similarity::from_rotation([[0.0, 0.0, -1.0], [0.0, 1.0, 0.0], [1.0, 0.0, 0.0]]);
        let image = sky_image(&document, &quarter, 128).unwrap();
        assert!(pixel(&image, 0.5, 0.5)[0] > 250 && pixel(&image, 0.0, 0.5)[0] < 5);
    }

    #[test]
    fn a_scene_without_a_sky_has_no_image_and_a_degenerate_sky_has_one_colour() {
        assert!(sky_image(&scene(0, [0.0; 3], |_| [0.5; 3]), &Similarity::IDENTITY, 64).is_none());
        let mut document = scene(3, [0.0; 3], |_| [0.2; 3]);
        document.splats.means.fill([5.0; 3]);
        let image = sky_image(&document, &Similarity::IDENTITY, 64).unwrap();
        assert!(image.data.iter().all(|&value| value == 51));
    }
}
