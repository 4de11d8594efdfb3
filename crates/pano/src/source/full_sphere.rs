//! Recognises panoramas and unstitched images of two fisheye lenses among ordinary photographs and footage.
//!
//! A panorama has GPano metadata, or is twice as wide as high and closes: its first and its last column show neighbouring
//! directions, and its first row a single one, the zenith. In the photographs of `data_file("scenes/…")` the outer
//! columns differ by 0.5 to 2.9 of the difference of columns a quarter of the width apart, in panoramas by 0.12 to 0.32;
//! the first row deviates by 12 to 92 grey levels (fisheye photographs: 0.6), in panoramas by at most 7.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use gausset_compute::fearless_simd::Level;
use gausset_jpeg::Decoder;
use gausset_jpeg::plane::Frame;

use crate::source::load::{self, ImageLimits, LoadError};
use crate::source::sphere_video::first_bright_frame;
use crate::source::two_circles::{
    SMALL_HEIGHT, is_nearly_square, is_two_circles_file, reduced, shows_one_circle, shows_two_circles,
};
use crate::source::video::{Video, VideoError};
use crate::sphere::projection::is_panorama_size;

/// Largest difference of the outer columns, in differences of columns a quarter of the width apart.
const MAX_SEAM: f64 = 0.4;
/// Largest standard deviation of the first row, grey levels.
const MAX_ZENITH_DEVIATION: f64 = 10.0;

/// How an image shows the whole sphere, or half of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FullSphere {
    /// An equirectangular panorama, or a part of one by its metadata.
    Panorama,
    /// The circles of two fisheye lenses.
    TwoCircles,
    /// The circle of one fisheye lens, as cameras with a file per lens write it.
    OneCircle,
}

/// How an image file shows the whole sphere; `None` for an ordinary photograph.
///
/// # Errors
/// The file cannot be read.
pub fn full_sphere_image(
    file: &Path,
    limits: &ImageLimits,
    level: Level,
) -> Result<Option<FullSphere>, LoadError> {
    let mut opened = load::load(file, limits, Vec::new())?;
    if opened.metadata.gpano.is_some_and(|gpano| !gpano.is_other_projection) && opened.equirect(false).is_ok()
    {
        return Ok(Some(FullSphere::Panorama));
    }
    if is_two_circles_file(file, limits, level)? {
        return Ok(Some(FullSphere::TwoCircles));
    }
    let is_square = is_nearly_square(opened.upright_size());
    if !is_square && !is_panorama_size(opened.upright_size()) {
        return Ok(None);
    }
    let mut frame = Frame::default();
    opened.decode(level, &mut Decoder::default(), &[[0, i32::MAX / 2]; 3], &mut frame)?;
    Ok(frame.planes.first().and_then(|luma| {
        let (grey, width) = reduced(luma);
        if is_square {
            return shows_one_circle(&grey, width).then_some(FullSphere::OneCircle);
        }
        is_closed(&grey, width).then_some(FullSphere::Panorama)
    }))
}

/// How the frames of a video show the whole sphere, by the first that is not dark; `None` for ordinary footage.
///
/// # Errors
/// ffmpeg fails.
pub fn full_sphere_video(video: &Video, stop: &AtomicBool) -> Result<Option<FullSphere>, VideoError> {
    // GoPro MAX: its first stream shows three faces of a cube.
    if video.path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("360")) {
        return Ok(Some(FullSphere::Panorama));
    }
    if is_nearly_square(video.size) {
        let grey = first_bright_frame(video, [SMALL_HEIGHT; 2], stop)?;
        let is_circle = grey.is_some_and(|grey| shows_one_circle(&grey, SMALL_HEIGHT));
        return Ok(is_circle.then_some(FullSphere::OneCircle));
    }
    if !is_panorama_size(video.size) {
        return Ok(None);
    }
    let width = 2 * SMALL_HEIGHT;
    let Some(grey) = first_bright_frame(video, [width, SMALL_HEIGHT], stop)? else { return Ok(None) };
    Ok(if shows_two_circles(&grey, width) {
        Some(FullSphere::TwoCircles)
    } else {
        is_closed(&grey, width).then_some(FullSphere::Panorama)
    })
}

/// Whether a grey image closes to a sphere.
fn is_closed(grey: &[u8], width: usize) -> bool {
    if width < 64 || grey.len() < 32 * width {
        return false;
    }
    let rows = || grey.chunks_exact(width);
    let difference = |a: u8, b: u8| f64::from(a.abs_diff(b));
    let seam: f64 = rows().map(|row| difference(row[0], row[width - 1])).sum();
    let quarter: f64 = rows()
        .flat_map(|row| row.iter().zip(&row[width / 4..]).map(|(&a, &b)| difference(a, b)))
        .sum::<f64>()
        / (width - width / 4) as f64;
    let zenith = &grey[..width];
    let mean = zenith.iter().map(|&v| f64::from(v)).sum::<f64>() / width as f64;
    let variance =
        zenith.iter().map(|&v| (f64::from(v) - mean) * (f64::from(v) - mean)).sum::<f64>() / width as f64;
    seam < MAX_SEAM * quarter && variance.sqrt() < MAX_ZENITH_DEVIATION
}

#[cfg(test)]
mod tests {
    use gausset_compute::{SimdLevel, dispatch_level};
    use gausset_io::image::encode::{PngPixels, png};

    use super::*;

    #[test]
    fn an_image_that_closes_is_a_panorama_and_a_photograph_of_that_shape_is_not() {
        let level = dispatch_level(SimdLevel::Auto).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let of = |name: &str, value: &dyn Fn(f64, f64) -> f64| {
            let grey: Vec<u8> = (0..480 * 240)
                .map(|at| value((at % 480) as f64 / 480.0, (at / 480) as f64 / 240.0).clamp(0.0, 255.0) as u8)
                .collect();
            let path = folder.path().join(name);
            std::fs::write(&path, png(480, 240, PngPixels::Grey8(&grey), &[]).unwrap()).unwrap();
            full_sphere_image(&path, &ImageLimits::default(), level).unwrap()
        };
        // Brightness around the horizon, less towards the poles.
        let turns = |turns: f64, x: f64, y: f64| {
            120.0 + 100.0 * libm::sin(std::f64::consts::TAU * turns * x) * libm::sin(std::f64::consts::PI * y)
        };
        assert_eq!(of("a.png", &|x, y| turns(3.0, x, y)), Some(FullSphere::Panorama));
        assert_eq!(of("b.png", &|x, y| turns(2.7, x, y)), None, "its sides differ");
        assert_eq!(of("c.png", &|x, y| turns(3.0, x, 0.2 + 0.6 * y)), None, "it has no zenith");
        assert_eq!(of("d.png", &|_, _| 128.0), None, "nothing can be said of a single colour");
        let from_centre = |x: f64, y: f64| libm::hypot((4.0 * x) % 2.0 - 1.0, 2.0 * y - 1.0);
        let discs = |x: f64, y: f64| if from_centre(x, y) < 0.96 { 140.0 } else { 4.0 };
        assert_eq!(of("e.png", &discs), Some(FullSphere::TwoCircles));
        let disc: Vec<u8> = (0..240 * 240)
            .map(|at| libm::hypot((at % 240) as f64 - 119.5, (at / 240) as f64 - 119.5) < 115.0)
            .map(|is_inside| if is_inside { 140 } else { 4 })
            .collect();
        let path = folder.path().join("f.png");
        std::fs::write(&path, png(240, 240, PngPixels::Grey8(&disc), &[]).unwrap()).unwrap();
        let found = full_sphere_image(&path, &ImageLimits::default(), level).unwrap();
        assert_eq!(found, Some(FullSphere::OneCircle));
    }

    #[test]
    fn real_panoramas_are_known() {
        let level = dispatch_level(SimdLevel::Auto).unwrap();
        for name in ["walk/pano_01.jpg", "walk/pano_02.jpg", "garden/a4.jpg", "gopro_max_5760.jpg"] {
            let file = gausset_testkit::data_file("real_panoramas_are_known", &format!("pano/{name}"));
            let Some(file) = file else { return };
            let found = full_sphere_image(&file, &ImageLimits::default(), level).unwrap();
            assert_eq!(found, Some(FullSphere::Panorama), "{name}");
        }
    }
}
