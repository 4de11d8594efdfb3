//! Recognises unstitched images of two fisheye lenses: two discs in black corners.
//!
//! Such an image is twice as wide as high, as a panorama is. Night panoramas with a black sky, a black patch below or both
//! have dark corners, too, but then the rims of the discs are dark as well.

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
