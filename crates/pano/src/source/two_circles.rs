//! Recognises unstitched images of two fisheye lenses: two discs in black corners.
//!
//! Such an image is twice as wide as high, as a panorama is. Night panoramas with a black sky, a black patch below or both
//! have dark corners, too, but then the rims of the discs are dark as well.
//!
//! Cameras with a file per lens write a single disc into a nearly square image. Objects on black and vignetted photographs
//! look similar: the disc must reach all four sides, and end there within a few pixels, in corners without light.

use std::path::Path;

use gausset_compute::fearless_simd::Level;
use gausset_jpeg::Decoder;
use gausset_jpeg::plane::{Frame, Plane};

use crate::source::load::{self, ImageLimits, LoadError};
use crate::sphere::projection::is_panorama_size;

/// Largest brightness of a black corner, and smallest step from it to the image within a circle, grey levels.
const BLACK_CORNER: u8 = 40;
const CIRCLE_CONTRAST: f64 = 24.0;
/// Distances from the centre of a half, in its sides: beyond the first are its corners, between the others lies the rim
/// of the image within a circle.
const CORNER_DISTANCE: f64 = 0.56;
const RIM_DISTANCES: [f64; 2] = [0.36, 0.46];
/// Sectors of a rim, and how many of them may be dark.
const SECTORS: usize = 16;
const MAX_DARK_SECTORS: usize = 3;
/// A single disc: largest mean brightness of its corners, grey levels.
const EMPTY_CORNER: f64 = 20.0;
/// Its radius, in sides of the image: the last ring that is not black.
const EDGE_DISTANCES: std::ops::RangeInclusive<f64> = 0.45..=0.55;
/// Width of a ring in sides.
const RING: f64 = 1.0 / 120.0;
/// Distances from the edge inwards, in sides, between which the disc is bright, and outwards, from where it is black.
const WITHIN_EDGE: [f64; 2] = [0.045, 0.02];
const BEYOND_EDGE: f64 = 0.025;
/// Smallest brightness within the edge, in that further inside; and largest beyond it, grey levels.
const EDGE_SHARE: f64 = 0.5;
const MAX_GLOW: f64 = 8.0;

/// Whether a grey image of 2:1 shows two discs in black corners: the unstitched circles of two fisheye lenses. In a
/// panorama with a black sky and a black patch below, the rims of the discs are dark as well.
#[must_use]
pub(crate) fn shows_two_circles(grey: &[u8], width: usize) -> bool {
    let height = grey.len() / width.max(1);
    height >= 32 && is_panorama_size([width as u32, height as u32]) && {
        let half = |k: usize| is_disc_in_black(grey, width, k * (width - height));
        half(0) && half(1)
    }
}

/// Whether an image of this size may show a single disc.
pub(crate) fn is_nearly_square([width, height]: [u32; 2]) -> bool {
    width.abs_diff(height) * 8 <= width
}

/// Whether a grey image shows a single disc in black corners: the circle of one fisheye lens.
#[must_use]
pub(crate) fn shows_one_circle(grey: &[u8], width: usize) -> bool {
    let height = grey.len() / width.max(1);
    let side = width.min(height);
    if side < 32 || !is_nearly_square([width as u32, height as u32]) {
        return false;
    }
    let rows = grey.chunks_exact(width).skip((height - side) / 2).take(side);
    let square: Vec<u8> =
        rows.flat_map(|row| row.iter().skip((width - side) / 2).take(side).copied()).collect();
    is_disc_in_black(&square, side, 0) && fills_the_frame(&square, side)
}

/// Whether a disc in a square reaches all four sides and has a sharp edge, in corners without light.
fn fills_the_frame(grey: &[u8], side: usize) -> bool {
    let from_centre = |at: usize| [at % side, at / side].map(|at| (at as f64 + 0.5) / side as f64 - 0.5);
    let add = |sum: &mut [f64; 2], value: u8| *sum = [sum[0] + f64::from(value), sum[1] + 1.0];
    let mean = |[sum, count]: [f64; 2]| sum / f64::max(count, 1.0);
    let mut corners = [0.0; 2];
    let mut rings = vec![[0.0; 2]; (0.75 / RING) as usize];
    for (at, &value) in grey.iter().enumerate() {
        let [u, v] = from_centre(at);
        let distance = libm::hypot(u, v);
        if distance > CORNER_DISTANCE {
            add(&mut corners, value);
        }
        if let Some(ring) = rings.get_mut((distance / RING) as usize) {
            add(ring, value);
        }
    }
    let black = mean(corners);
    let light = |distance: f64| mean(rings[(distance / RING) as usize]) - black;
    let edge = rings.iter().rposition(|ring| mean(*ring) > black + CIRCLE_CONTRAST);
    let edge = edge.map_or(0.0, |ring| (ring as f64 + 0.5) * RING);
    if black > EMPTY_CORNER || !EDGE_DISTANCES.contains(&edge) {
        return false;
    }
    let inside = [0.28, 0.32, 0.36].map(light).iter().sum::<f64>() / 3.0;
    let within = WITHIN_EDGE.map(|inwards| edge - inwards);
    if light(within[0]) < EDGE_SHARE * inside || light(edge + BEYOND_EDGE) > MAX_GLOW {
        return false;
    }
    // Left, top, right, bottom: within 22.5 degrees of the axis.
    let mut sides = [[0.0; 2]; 4];
    for (at, &value) in grey.iter().enumerate() {
        let [u, v] = from_centre(at);
        let turn = 4.0 * (0.5 + libm::atan2(v, u) / std::f64::consts::TAU);
        if (within[0]..within[1]).contains(&libm::hypot(u, v)) && (turn - turn.round()).abs() < 0.25 {
            add(&mut sides[turn.round() as usize % 4], value);
        }
    }
    sides.iter().all(|side| mean(*side) > black + CIRCLE_CONTRAST)
}

/// Whether the square half from column `left` on is a disc in black corners.
fn is_disc_in_black(grey: &[u8], width: usize, left: usize) -> bool {
    let side = grey.len() / width;
    let (mut corners, mut bright, mut sum) = (0u64, 0u64, 0u64);
    let mut rim = [[0.0; 2]; SECTORS];
    for y in 0..side {
        for x in 0..side {
            let value = grey[y * width + left + x];
            let [u, v] = [x, y].map(|at| (at as f64 + 0.5) / side as f64 - 0.5);
            let distance = libm::hypot(u, v);
            if distance > CORNER_DISTANCE {
                (corners, sum) = (corners + 1, sum + u64::from(value));
                bright += u64::from(value > BLACK_CORNER);
            } else if (RIM_DISTANCES[0]..RIM_DISTANCES[1]).contains(&distance) {
                let turn = 0.5 + libm::atan2(v, u) / std::f64::consts::TAU;
                let sector = &mut rim[((turn * SECTORS as f64) as usize).min(SECTORS - 1)];
                *sector = [sector[0] + f64::from(value), sector[1] + 1.0];
            }
        }
    }
    let black = sum as f64 / corners.max(1) as f64;
    let is_dark = |[sum, count]: &[f64; 2]| sum / count.max(1.0) < black + CIRCLE_CONTRAST;
    // Reflections of lamps may lie outside the circle.
    20 * bright <= corners && rim.iter().filter(|sector| is_dark(sector)).count() <= MAX_DARK_SECTORS
}

/// Height of the grey images in which circles are looked for, px.
pub(crate) const SMALL_HEIGHT: usize = 240;

/// Whether an image file of 2:1 without GPano data shows two fisheye circles, or is an `.insp` file, which stores them.
/// Usually the upper eighth is enough: in a panorama neighbouring columns look alike there.
///
/// # Errors
/// The file cannot be read.
pub fn is_two_circles_file(file: &Path, limits: &ImageLimits, level: Level) -> Result<bool, LoadError> {
    let mut opened = load::load(file, limits, Vec::new())?;
    let [width, height] = opened.upright_size();
    if opened.metadata.gpano.is_some_and(|gpano| !gpano.is_other_projection) {
        return Ok(false);
    }
    if file.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("insp")) {
        return Ok(true);
    }
    if !is_panorama_size([width, height]) || height < 32 {
        return Ok(false);
    }
    let (mut frame, mut decoder) = (Frame::default(), Decoder::default());
    let above = (height / 8) as i32;
    opened.decode(level, &mut decoder, &[[0, above], [0, above], [0, above]], &mut frame)?;
    if !frame.planes.first().is_some_and(|luma| is_dark_between_discs(luma, above as usize)) {
        return Ok(false);
    }
    let mut opened = load::load(file, limits, opened.data)?;
    opened.decode(level, &mut decoder, &[[0, i32::MAX / 2]; 3], &mut frame)?;
    let Some(luma) = frame.planes.first() else { return Ok(false) };
    let (small, width) = reduced(luma);
    Ok(shows_two_circles(&small, width))
}

/// Whether the rows above are black at the sides and in the middle, and not in the middle of each half.
fn is_dark_between_discs(luma: &Plane, rows: usize) -> bool {
    let mean = |[from, to]: [f64; 2]| {
        let columns = [from, to].map(|at| (at * luma.width as f64) as usize);
        let (mut sum, mut count) = (0u64, 0u64);
        for y in (rows / 6..rows).step_by((rows / 16).max(1)) {
            let row = &luma.row(y as i32)[columns[0]..columns[1].max(columns[0] + 1).min(luma.width)];
            (sum, count) = (sum + row.iter().map(|&v| u64::from(v)).sum::<u64>(), count + row.len() as u64);
        }
        sum as f64 / count.max(1) as f64
    };
    let between = [[0.0, 0.05], [0.475, 0.525], [0.95, 1.0]].map(mean);
    let discs = [[0.225, 0.275], [0.725, 0.775]].map(mean);
    let darkest = between.into_iter().fold(0.0, f64::max);
    darkest <= f64::from(BLACK_CORNER) && discs.iter().all(|disc| *disc > darkest + CIRCLE_CONTRAST)
}

/// Every n-th pixel of every n-th row, about [`SMALL_HEIGHT`] rows; and the width.
pub(super) fn reduced(luma: &Plane) -> (Vec<u8>, usize) {
    let step = (luma.height / SMALL_HEIGHT).max(1);
    let (width, height) = (luma.width / step, luma.height / step);
    let rows = (0..height).map(|y| luma.row((y * step) as i32));
    (rows.flat_map(|row| row.iter().step_by(step).take(width).copied()).collect(), width)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A grey image of 480x240 px.
    fn grey(value: impl Fn(f64, f64) -> f64) -> Vec<u8> {
        (0..480 * 240)
            .map(|at| value((at % 480) as f64 / 240.0, (at / 480) as f64 / 240.0).clamp(0.0, 255.0) as u8)
            .collect()
    }

    #[test]
    fn two_discs_in_black_are_circles_and_dark_panoramas_are_not() {
        let of = |value: &dyn Fn(f64, f64) -> f64| shows_two_circles(&grey(value), 480);
        let texture = |x: f64, y: f64| 90.0 + 50.0 * libm::sin(23.0 * x) * libm::cos(17.0 * y);
        let from_centre = |x: f64, y: f64| libm::hypot(x - if x < 1.0 { 0.5 } else { 1.5 }, y - 0.5);
        for radius in [0.44, 0.47, 0.5, 0.53] {
            assert!(of(&|x, y| if from_centre(x, y) < radius { texture(x, y) } else { 6.0 }), "{radius}");
        }
        // Darker towards the rim, as lenses draw.
        assert!(of(&|x, y| if from_centre(x, y) < 0.48 {
            texture(x, y) * (1.3 - 1.6 * from_centre(x, y))
        } else {
            2.0
        }));
        assert!(!of(&texture));
        // Night: a black sky over a lit street, a black patch below as well, all of it dark, stars and lamps.
        assert!(!of(&|x, y| if y < 0.5 { 3.0 } else { texture(x, y) }));
        for patch in [0.05, 0.12, 0.2, 0.25, 0.3, 0.4] {
            assert!(!of(&|x, y| if y < patch || y > 1.0 - patch { 0.0 } else { texture(x, y) }), "{patch}");
        }
        assert!(
            !of(&|_, _| 4.0)
                && !of(&|x, y| if (37.0 * x).fract() < 0.04 && (29.0 * y).fract() < 0.04 {
                    250.0
                } else {
                    5.0
                })
        );
        // Black walls in front of and behind the camera.
        assert!(!of(&|x, y| if (x - 1.0).abs() < 0.25 || !(0.25..=1.75).contains(&x) {
            5.0
        } else {
            texture(x, y)
        }));
        // One disc only.
        assert!(!of(&|x, y| if from_centre(x, y) < 0.48 && x < 1.0 { texture(x, y) } else { 4.0 }));
    }

    #[test]
    fn a_disc_that_fills_the_frame_is_the_circle_of_a_lens_and_other_pictures_in_black_are_not() {
        let of = |[width, height]: [usize; 2], value: &dyn Fn(f64, f64) -> f64| {
            let side = width.min(height) as f64;
            let [left, top] = [width, height].map(|size| size as f64 / 2.0);
            let grey: Vec<u8> = (0..width * height)
                .map(|at| {
                    let [x, y] = [(at % width) as f64 - left, (at / width) as f64 - top];
                    value(x / side, y / side).clamp(0.0, 255.0) as u8
                })
                .collect();
            shows_one_circle(&grey, width)
        };
        let square = [240, 240];
        let texture = |x: f64, y: f64| 90.0 + 50.0 * libm::sin(23.0 * x) * libm::cos(17.0 * y);
        let disc =
            |radius: f64| move |x: f64, y: f64| if libm::hypot(x, y) < radius { texture(x, y) } else { 4.0 };
        for radius in [0.46, 0.48, 0.5, 0.53] {
            assert!(of(square, &disc(radius)), "{radius}");
        }
        // A sensor that is slightly wider; off centre; darker towards the rim.
        assert!(of([248, 240], &disc(0.49)) && of([240, 248], &disc(0.49)));
        assert!(of(square, &|x, y| disc(0.48)(x - 0.015, y + 0.01)));
        assert!(of(square, &|x, y| disc(0.48)(x, y) * (1.3 - 1.6 * libm::hypot(x, y))));
        // Full frames, and other shapes.
        assert!(!of(square, &texture) && !of([320, 240], &disc(0.48)));
        // A ball on black, a coin that the frame cuts below, a scan on dark grey.
        assert!(!of(square, &disc(0.4)) && !of(square, &disc(0.43)));
        assert!(!of(square, &|x, y| disc(0.48)(x, y - 0.15)));
        assert!(!of(square, &|x, y| if libm::hypot(x, y) < 0.48 { 140.0 } else { 32.0 }));
        // A square object, and a lamp in the night.
        assert!(!of(square, &|x, y| if x.abs().max(y.abs()) < 0.4 { 140.0 } else { 4.0 }));
        assert!(!of(square, &|x, y| 255.0 * libm::exp(-9.0 * (x * x + y * y))));
        // Vignetting, even to black in the corners.
        for strength in [1.0, 1.5, 2.0, 2.3] {
            let light = |x: f64, y: f64| (1.0 - strength * (x * x + y * y)).max(0.0);
            assert!(!of(square, &|x, y| texture(x, y) * light(x, y)), "{strength}");
            assert!(!of(square, &|x, y| texture(x, y) * light(x, y) * light(x, y)), "{strength}");
        }
        assert!(!of(square, &|x, y| 200.0 * (1.0 - 2.0 * libm::hypot(x, y))));
    }

    #[test]
    fn files_of_two_circles_are_known_and_real_panoramas_are_not_taken_for_them() {
        use gausset_compute::{SimdLevel, dispatch_level};
        use gausset_io::image::encode::{PngPixels, png};
        let level = dispatch_level(SimdLevel::Auto).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let limits = ImageLimits::default();
        let write = |name: &str, value: &dyn Fn(f64, f64) -> f64| {
            let path = folder.path().join(name);
            std::fs::write(&path, png(480, 240, PngPixels::Grey8(&grey(value)), &[]).unwrap()).unwrap();
            path
        };
        let is_circles = |path: &Path| is_two_circles_file(path, &limits, level).unwrap();
        let from_centre = |x: f64, y: f64| libm::hypot(x - if x < 1.0 { 0.5 } else { 1.5 }, y - 0.5);
        assert!(is_circles(&write("a.png", &|x, y| if from_centre(x, y) < 0.48 { 140.0 } else { 4.0 })));
        assert!(!is_circles(&write("b.png", &|_, y| if (0.1..0.8).contains(&y) { 140.0 } else { 4.0 })));
        // A raw still of a camera, whatever it shows.
        assert!(is_circles(&write("c.insp", &|_, y| 200.0 * y)));
        const TEST: &str = "files_of_two_circles_are_known_and_real_panoramas_are_not_taken_for_them";
        for name in [
            "walk/pano_01.jpg",
            "walk/pano_05.jpg",
            "garden/a1.jpg",
            "garden/b4.jpg",
            "gopro_max_5760.jpg",
            "photosphere_1024_progressive.jpg",
        ] {
            let Some(file) = gausset_testkit::data_file(TEST, &format!("pano/{name}")) else { return };
            assert!(!is_circles(&file), "{name}");
        }
    }
}
