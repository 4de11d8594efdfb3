//! Tells calibrations that cannot be those of the images.
//!
//! | doubt | limit |
//! |---|---|
//! | focal length, principal point | those of COLMAP: a tenth to ten times the longer side, inside the image |
//! | focal lengths of both axes | one at most twice the other |
//! | principal point in the corner (0, 0) | never: a program left it unset |
//! | principal point within 1 px of the corner | never: it is in fractions of the image |
//! | distortion folds back inside the image | perspective models: anywhere; fisheye models, whose images are often circles: within 60 degrees from the axis |
//! | strong distortion in a narrow view | a point within 30 degrees from the axis moves by a quarter of its distance from the centre |
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use gausset_core::se3;

use super::camera_model::{CameraModel, SourceCamera};
use super::lens::Lens;
use crate::text::short_numbers;

/// Focal length in longer sides of the image (COLMAP, `min_focal_length_ratio`, `max_focal_length_ratio`).
const FOCAL_RATIO: std::ops::RangeInclusive<f64> = 0.1..=10.0;
/// Largest ratio of the focal lengths of both axes: pixels of anamorphic lenses reach 2.
const FOCAL_AXES_RATIO: f64 = 2.0;
/// Angle from the axis in radians within which fisheye lenses do not fold.
const FISHEYE_ANGLE: f64 = 60.0 * std::f64::consts::PI / 180.0;
/// Angle from the axis in radians within which lenses hardly distort.
const NARROW_ANGLE: f64 = 30.0 * std::f64::consts::PI / 180.0;
/// Largest displacement within that angle, as a fraction of the distance from the centre.
const NARROW_DISTORTION: f64 = 0.25;

/// What is wrong with a calibration, if anything.
pub(super) fn doubt(camera: &SourceCamera) -> Option<String> {
    if camera.model == CameraModel::Equirectangular {
        return None;
    }
    let lens = camera.lens();
    let size = [f64::from(camera.width), f64::from(camera.height)];
    let side = size[0].max(size[1]);
    let (focal, centre) = (lens.focal(), lens.principal_point());
    let px = |v: f64| short_numbers(&((10.0 * v).round() / 10.0).to_string());
    if let Some(focal) = focal.into_iter().find(|focal| !FOCAL_RATIO.contains(&(focal / side))) {
        return Some(format!(
            "focal length is {} px for pictures of {}x{} px (expected {} to {} px)",
            px(focal),
            camera.width,
            camera.height,
            px(FOCAL_RATIO.start() * side),
            px(FOCAL_RATIO.end() * side)
        ));
    }
    if focal[0].max(focal[1]) > FOCAL_AXES_RATIO * focal[0].min(focal[1]) {
        let [x, y] = focal.map(px);
        return Some(format!("focal lengths are {x} and {y} px (expected about the same for both axes)"));
    }
    if centre == [0.0; 2] {
        return Some(format!(
            "principal point is (0, 0) px, as if it was unset (expected near the middle of the pictures of {}x{} px)",
            camera.width, camera.height
        ));
    }
    if centre.iter().all(|place| (0.0..=1.0).contains(place)) {
        return Some(format!(
            "principal point is ({}, {}) px, as if it was a fraction of the size (expected px, near the middle of the \
             pictures of {}x{} px)",
            short_numbers(&centre[0].to_string()),
            short_numbers(&centre[1].to_string()),
            camera.width,
            camera.height
        ));
    }
    if centre.iter().zip(size).any(|(place, size)| !(0.0..=size).contains(place)) {
        let [x, y] = centre.map(px);
        return Some(format!(
            "principal point is ({x}, {y}) px (expected inside the pictures of {}x{} px)",
            camera.width, camera.height
        ));
    }
    if lens.is_pinhole() { None } else { doubt_of_distortion(&lens, size) }
}

/// What is wrong with the distortion of a lens in an image of this size.
fn doubt_of_distortion(lens: &Lens, size: [f64; 2]) -> Option<String> {
    let (focal, centre) = (lens.focal(), lens.principal_point());
    let px = |v: f64| short_numbers(&((10.0 * v).round() / 10.0).to_string());
    // Corners and middles of the sides, in from the border by half a pixel.
    let places = |size: f64| [0.5, 0.5 * size, size - 0.5];
    let border = places(size[0]).into_iter().flat_map(|x| places(size[1]).map(|y| [x, y]));
    let from_centre =
        |pixel: [f64; 2]| [(pixel[0] - centre[0]) / focal[0], (pixel[1] - centre[1]) / focal[1]];
    let is_wide = |radius: f64| lens.is_fisheye() && radius > FISHEYE_ANGLE;
    for pixel in border {
        let [x, y] = from_centre(pixel);
        let distorted = libm::hypot(x, y);
        match lens.unproject(pixel) {
            None if lens.max_radius().is_finite() && !is_wide(lens.max_radius()) => {
                return Some(format!(
                    "the distortion folds back inside the picture: no ray reaches pixel ({}, {})",
                    px(pixel[0]),
                    px(pixel[1])
                ));
            }
            Some(ray) if distorted > 1e-6 => {
                let angle = libm::atan2(libm::hypot(ray[0], ray[1]), ray[2]);
                let plain = if lens.is_fisheye() { angle } else { libm::tan(angle) };
                let moved = (distorted / plain - lens.central_magnification()).abs();
                if angle < NARROW_ANGLE && moved > NARROW_DISTORTION {
                    return Some(format!(
                        "the distortion moves points at {:.0} degrees from the axis by {:.0} % of their distance from the \
                         centre (expected at most {:.0} %)",
                        angle.to_degrees(),
                        100.0 * moved,
                        100.0 * NARROW_DISTORTION
                    ));
                }
            }
            _ => {}
        }
    }
    None
}

/// Whether cameras stand around an object at the origin, as those of the NeRF-synthetic scenes do: a few units away,
/// with the origin in front of them.
pub(super) fn surround_the_origin(poses: &[gausset_core::Pose]) -> bool {
    let looks = |pose: &&gausset_core::Pose| {
        let distance = se3::norm(pose.centre());
        (0.5..=10.0).contains(&distance) && pose.translation[2] > 0.5 * distance
    };
    poses.iter().filter(looks).count() * 10 >= poses.len() * 9
}

#[cfg(test)]
#[allow(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, reason = "a test may panic")]
mod tests {
    use super::*;

    fn doubt_of(model: CameraModel, size: [u64; 2], params: &[f64]) -> String {
        doubt(&SourceCamera::new(1, model, size[0], size[1], params.to_vec()).unwrap()).unwrap_or_default()
    }

    #[test]
    fn real_lenses_are_not_doubted() {
        use CameraModel as M;
        // A phone, an action camera at 120 degrees, a circular fisheye of 200 degrees, a telephoto lens.
        assert_eq!(doubt_of(M::SimpleRadial, [4032, 3024], &[3100.0, 2016.0, 1512.0, 0.05]), "");
        assert_eq!(
            doubt_of(M::OpenCv, [1920, 1440], &[870.0, 870.0, 960.0, 720.0, -0.26, 0.06, 0.0, 0.0]),
            ""
        );
        assert_eq!(
            doubt_of(
                M::OpenCvFisheye,
                [2000, 2000],
                &[560.0, 560.0, 1000.0, 1000.0, 0.03, -0.01, 0.001, 0.0]
            ),
            ""
        );
        assert_eq!(doubt_of(M::SimpleRadial, [6000, 4000], &[40_000.0, 3000.0, 2000.0, 3.0]), "");
        // Anamorphic, not rescaled.
        assert_eq!(doubt_of(M::Pinhole, [1920, 1080], &[900.0, 1800.0, 960.0, 540.0]), "");
        assert_eq!(doubt_of(M::Fov, [640, 480], &[300.0, 300.0, 320.0, 240.0, 0.9]), "");
    }

    #[test]
    fn calibrations_that_cannot_be_are_told() {
        use CameraModel as M;
        let doubts = |model, size, params: &[f64], word: &str| {
            let doubt = doubt_of(model, size, params);
            assert!(doubt.contains(word), "{doubt:?} has no {word}");
        };
        doubts(M::Pinhole, [640, 480], &[20.0, 20.0, 320.0, 240.0], "focal length is 20 px");
        doubts(M::Pinhole, [640, 480], &[20_000.0, 20_000.0, 320.0, 240.0], "focal length is 20000 px");
        doubts(M::Pinhole, [640, 480], &[500.0, 500.0, 320.0, 700.0], "principal point is (320, 700) px");
        doubts(
            M::Pinhole,
            [640, 480],
            &[500.0, 500.0, 0.0, 0.0],
            "principal point is (0, 0) px, as if it was unset",
        );
        doubts(
            M::Pinhole,
            [160, 90],
            &[93.0, 93.0, 0.5, 0.5],
            "principal point is (0.5, 0.5) px, as if it was a fraction of the size",
        );
        doubts(M::Pinhole, [640, 480], &[500.0, 210.0, 320.0, 240.0], "focal lengths are 500 and 210 px");
        doubts(M::SimpleRadial, [640, 480], &[400.0, 320.0, 240.0, -0.5], "folds back");
        doubts(
            M::OpenCvFisheye,
            [640, 480],
            &[400.0, 400.0, 320.0, 240.0, -0.6, 0.0, 0.0, 0.0],
            "folds back",
        );
        // nerfstudio#3057.
        let wild = [2605.0, 2605.0, 320.0, 240.0, -44.9, 1017.0, 0.0, 0.0];
        doubts(M::OpenCv, [640, 480], &wild, "the distortion moves points");
    }
}
