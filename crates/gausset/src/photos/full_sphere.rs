//! Refuses panoramas and the circles of fisheye lenses among photographs: a pinhole camera fits neither.

use std::path::Path;

use gausset_compute::{SimdLevel, dispatch_level};
use gausset_io::dataset::CameraModel;
use gausset_io::text::shell_quote;
pub use gausset_pano::full_sphere::FullSphere;
use gausset_pano::full_sphere::{full_sphere_image, full_sphere_video};
use gausset_pano::load::ImageLimits;
use gausset_pano::video::Video;

use crate::{Failure, Host};

/// Number of photographs of a folder that are examined.
const MAX_EXAMINED: usize = 9;

/// How an image file shows the whole sphere; `None` for an ordinary photograph, or a file that cannot be read.
#[must_use]
pub fn full_sphere_of(file: &Path) -> Option<FullSphere> {
    let level = dispatch_level(SimdLevel::Auto)?;
    full_sphere_image(file, &ImageLimits::default(), level).ok().flatten()
}

/// How most photographs of a folder show the whole sphere, by a sample of them; `None` for ordinary photographs. Single
/// circles count if all of the sample are such.
#[must_use]
pub fn full_sphere_of_folder(folder: &Path, names: &[String]) -> Option<FullSphere> {
    let every = names.len().div_ceil(MAX_EXAMINED).max(1);
    let examined: Vec<&String> = names.iter().step_by(every).collect();
    let mut found: Vec<FullSphere> =
        examined.iter().filter_map(|name| full_sphere_of(&folder.join(name))).collect();
    if found.len() > 1
        && found.len() == examined.len()
        && found.iter().all(|kind| *kind == FullSphere::OneCircle)
    {
        return Some(FullSphere::OneCircle);
    }
    // One alone may be a round object.
    found.retain(|kind| *kind != FullSphere::OneCircle);
    let circles = found.iter().filter(|kind| **kind == FullSphere::TwoCircles).count();
    let is_most = 2 * found.len() > examined.len();
    is_most.then_some(if 2 * circles > found.len() { FullSphere::TwoCircles } else { FullSphere::Panorama })
}

/// Refuses a folder of panoramas, or of fisheye circles; single circles only if `camera` has no fisheye lens.
pub(super) fn refuse_folder(folder: &Path, names: &[String], camera: CameraModel) -> Result<(), Failure> {
    let what = match full_sphere_of_folder(folder, names) {
        None => return Ok(()),
        Some(FullSphere::OneCircle) if has_fisheye_lens(camera) => return Ok(()),
        Some(FullSphere::OneCircle) => {
            format!("show one fisheye circle each (expected ordinary photographs); {ONE_CIRCLE}")
        }
        Some(FullSphere::Panorama) => {
            format!(
                "are panoramas (expected ordinary photographs); use `gausset pano run {}`",
                shell_quote(folder)
            )
        }
        Some(FullSphere::TwoCircles) => {
            format!("show two fisheye circles each (expected ordinary photographs); {CIRCLES}")
        }
    };
    Err(Failure::new("frames", format!("{}: photographs: {what}", folder.display())))
}

/// What to do with two fisheye circles.
const CIRCLES: &str =
    "use `gausset pano run` with ⟨lens⟩, a file from `gausset pano calibrate`, or stitch first";
/// What to do with single ones.
const ONE_CIRCLE: &str = "pairs of two lenses: use `gausset pano run` with ⟨lens⟩, a file from `gausset pano calibrate`; one lens of less than 180 degrees: ⟨camera-model = OPENCV_FISHEYE⟩";

fn has_fisheye_lens(camera: CameraModel) -> bool {
    camera.name().contains("FISHEYE")
}

/// Refuses footage of the whole sphere, and of one fisheye circle unless `camera` has a fisheye lens.
pub(super) fn refuse_video(video: &Video, camera: CameraModel, host: &Host<'_>) -> Result<(), Failure> {
    let found = full_sphere_video(video, host.stop()).map_err(|e| Failure::new("video", e))?;
    let path = video.path.display();
    let line = match found {
        None => return Ok(()),
        Some(FullSphere::Panorama) => format!(
            "{path}: video: shows panoramas (expected ordinary footage); use `gausset pano run {}`",
            shell_quote(&video.path)
        ),
        Some(FullSphere::TwoCircles) => {
            format!("{path}: video: shows two fisheye circles (expected ordinary footage); {CIRCLES}")
        }
        Some(FullSphere::OneCircle) if has_fisheye_lens(camera) => return Ok(()),
        Some(FullSphere::OneCircle) => {
            format!("{path}: video: shows one fisheye circle (expected ordinary footage); {ONE_CIRCLE}")
        }
    };
    Err(Failure::new("video", line))
}

#[cfg(test)]
mod tests {
    use gausset_io::image::encode::{PngPixels, png};

    use super::*;

    #[test]
    fn a_folder_that_is_mostly_panoramas_or_two_circles_is_refused_with_the_command_for_it() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, value: &dyn Fn(f64, f64) -> f64| {
            let grey: Vec<u8> = (0..480 * 240)
                .map(|at| value((at % 480) as f64 / 480.0, (at / 480) as f64 / 240.0) as u8)
                .collect();
            let file = png(480, 240, PngPixels::Grey8(&grey), &[]).unwrap();
            std::fs::write(folder.path().join(name), file).unwrap();
        };
        let sine = |x: f64| libm::sin(std::f64::consts::TAU * x);
        let panorama = |x: f64, y: f64| 120.0 + 100.0 * sine(3.0 * x) * sine(0.5 * y);
        let photograph = |x: f64, y: f64| 120.0 + 100.0 * sine(2.6 * x) * sine(0.2 + 0.3 * y);
        let from_centre = |x: f64, y: f64| libm::hypot((4.0 * x) % 2.0 - 1.0, 2.0 * y - 1.0);
        let circles = |x: f64, y: f64| if from_centre(x, y) < 0.96 { 140.0 } else { 4.0 };
        let names: Vec<String> = (0..3).map(|k| format!("{k}.png")).collect();
        let with = |camera| refuse_folder(folder.path(), &names, camera).map_err(|e| e.to_string());
        let refusal = || with(CameraModel::SimpleRadial);
        names.iter().for_each(|name| write(name, &photograph));
        assert_eq!(refusal(), Ok(()));
        write("0.png", &panorama);
        assert_eq!(refusal(), Ok(()), "one of three");
        write("1.png", &panorama);
        let line = refusal().unwrap_err();
        assert!(line.contains("photographs: are panoramas") && line.contains("gausset pano run"), "{line}");
        names.iter().for_each(|name| write(name, &circles));
        let line = refusal().unwrap_err();
        assert!(line.contains("show two fisheye circles") && line.contains("pano calibrate"), "{line}");
        assert_eq!(full_sphere_of_folder(folder.path(), &[]), None);
        // The files of one lens each.
        let disc = |radius: f64| -> Vec<u8> {
            let distance = |at| libm::hypot((at % 240) as f64 - 119.5, (at / 240) as f64 - 119.5);
            (0..240 * 240).map(|at| if distance(at) < 240.0 * radius { 140 } else { 4 }).collect()
        };
        let write = |name: &str, radius: f64| {
            let file = png(240, 240, PngPixels::Grey8(&disc(radius)), &[]).unwrap();
            std::fs::write(folder.path().join(name), file).unwrap();
        };
        names.iter().for_each(|name| write(name, 0.48));
        let line = refusal().unwrap_err();
        assert!(line.contains("show one fisheye circle each") && line.contains("pano calibrate"), "{line}");
        assert_eq!(with(CameraModel::OpenCvFisheye), Ok(()));
        write("1.png", 0.3);
        assert_eq!(refusal(), Ok(()), "a round object");
    }
}
