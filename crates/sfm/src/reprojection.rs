//! Reprojection errors of a model: in px, and as angles.

use std::collections::BTreeMap;

use gausset_core::{Pose, se3};
use gausset_io::dataset::SourceCamera;
use gausset_io::dataset::colmap::{ColmapImage, ColmapModel};
use gausset_io::dataset::lens::Lens;
use serde::Serialize;

use crate::compare::ErrorStats;

/// Reprojection errors of all observations of a model.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ReprojectionErrors {
    /// Observations whose point is in front of the camera.
    pub observations: usize,
    /// Observations whose point the camera cannot see: behind it, or beyond the valid range of its distortion.
    pub unseen: usize,
    /// Distances in the image, px.
    pub px: ErrorStats,
    /// Angles between the ray of the pixel and the direction of the point, degrees.
    pub degrees: ErrorStats,
}

/// Reprojection errors of a model that was read with its observations; `None` if it has none.
#[must_use]
pub fn reprojection_errors(model: &ColmapModel) -> Option<ReprojectionErrors> {
    let lenses: BTreeMap<u32, Lens> = model.cameras.iter().map(|c: &SourceCamera| (c.id, c.lens())).collect();
    let points: BTreeMap<u64, [f64; 3]> = model.points.iter().map(|p| (p.id, p.position)).collect();
    let (mut px, mut degrees, mut unseen) = (Vec::new(), Vec::new(), 0);
    for image in &model.images {
        let (Some(lens), Ok(pose)) = (lenses.get(&image.camera_id), pose_of(image)) else { continue };
        for (pixel, id) in &image.points {
            let Some(&position) = points.get(id) else { continue };
            match reprojection_error(lens, &pose, *pixel, position) {
                Some((distance, angle)) => {
                    px.push(distance);
                    degrees.push(angle.to_degrees());
                }
                None => unseen += 1,
            }
        }
    }
    (!px.is_empty()).then(|| ReprojectionErrors {
        observations: px.len(),
        unseen,
        px: ErrorStats::new(px.into_iter()),
        degrees: ErrorStats::new(degrees.into_iter()),
    })
}

/// Mean reprojection error in px near the centre of the images, and near their corners: it grows where a lens distorts
/// otherwise than its camera model can. `None` if a part has few observations.
#[must_use]
pub fn errors_at_centre_and_corners(model: &ColmapModel) -> Option<[f64; 2]> {
    /// The middle ends at the first, corners begin at the second: distances from the centre, relative to that of a corner.
    const PARTS: [f64; 2] = [0.4, 0.8];
    const MIN_OBSERVATIONS: u32 = 100;
    let cameras: BTreeMap<u32, (&SourceCamera, Lens)> =
        model.cameras.iter().map(|c| (c.id, (c, c.lens()))).collect();
    let points: BTreeMap<u64, [f64; 3]> = model.points.iter().map(|p| (p.id, p.position)).collect();
    let (mut sums, mut counts) = ([0.0; 2], [0u32; 2]);
    for image in &model.images {
        let (Some((camera, lens)), Ok(pose)) = (cameras.get(&image.camera_id), pose_of(image)) else {
            continue;
        };
        let centre = [camera.width, camera.height].map(|side| 0.5 * f64::from(side));
        for (pixel, id) in &image.points {
            let away =
                libm::hypot(pixel[0] - centre[0], pixel[1] - centre[1]) / libm::hypot(centre[0], centre[1]);
            let part = usize::from(away > PARTS[1]);
            if away > PARTS[0] && part == 0 {
                continue;
            }
            let Some(&position) = points.get(id) else { continue };
            if let Some((distance, _)) = reprojection_error(lens, &pose, *pixel, position) {
                sums[part] += distance;
                counts[part] += 1;
            }
        }
    }
    let is_enough = counts.iter().all(|&count| count >= MIN_OBSERVATIONS);
    is_enough.then(|| std::array::from_fn(|part| sums[part] / f64::from(counts[part])))
}

fn pose_of(image: &ColmapImage) -> Result<Pose, gausset_core::pose::PoseError> {
    Pose::from_quaternion(image.quaternion, image.translation)
}

/// Distance in px, and angle in radians, between a projected point and its observation.
fn reprojection_error(lens: &Lens, pose: &Pose, pixel: [f64; 2], position: [f64; 3]) -> Option<(f64, f64)> {
    let ray = pose.apply(position);
    let [u, v] = lens.project(ray)?;
    let mut across = (u - pixel[0]).abs();
    // Panoramas wrap around horizontally.
    across = across.min((lens.period() - across).abs());
    let seen = lens.unproject(pixel)?;
    let angle = libm::atan2(se3::norm(se3::cross(seen, ray)), se3::dot(seen, ray));
    let distance = libm::sqrt(across * across + (v - pixel[1]) * (v - pixel[1]));
    (distance.is_finite() && angle.is_finite()).then_some((distance, angle))
}

#[cfg(test)]
mod tests {
    use gausset_io::dataset::CameraModel;
    use gausset_io::dataset::colmap::ColmapPoint;

    use super::*;

    #[test]
    fn errors_are_distances_and_angles() {
        let camera =
            |id, model, params: &[f64]| SourceCamera::new(id, model, 200, 100, params.to_vec()).unwrap();
        let point = |id, position| ColmapPoint {
            id,
            position,
            colour: [0; 3],
            error: 0.0,
            track_length: 2,
            track: Vec::new(),
        };
        let image = |id, camera, points| ColmapImage {
            points,
            ..ColmapImage::new(id, String::new(), camera, &Pose::IDENTITY)
        };
        let model = ColmapModel {
            cameras: vec![
                camera(1, CameraModel::Pinhole, &[100.0, 100.0, 100.0, 50.0]),
                camera(2, CameraModel::Equirectangular, &[200.0, 100.0]),
            ],
            images: vec![
                // In front, 3 and 4 px off; one point behind the camera.
                image(1, 1, vec![([103.0, 54.0], 1), ([100.0, 50.0], 2), ([0.0, 0.0], u64::MAX)]),
                // The point is behind, at the seam: half a px on the other side of it.
                image(2, 2, vec![([199.75, 50.0], 2)]),
            ],
            points: vec![point(1, [0.0, 0.0, 5.0]), point(2, [-1e-9, 0.0, -5.0])],
        };
        let found = reprojection_errors(&model).unwrap();
        assert_eq!((found.observations, found.unseen), (2, 1));
        assert!((found.px.worst - 5.0).abs() < 1e-12 && (found.px.mean - 2.625).abs() < 1e-6, "{found:?}");
        assert!((found.degrees.worst - 0.05f64.atan().to_degrees()).abs() < 1e-9, "{found:?}");
        assert!((2.0 * found.degrees.mean - found.degrees.worst - 0.45).abs() < 1e-6, "{found:?}");
        assert_eq!(errors_at_centre_and_corners(&model), None, "too few");
        assert!(reprojection_errors(&ColmapModel { points: Vec::new(), ..model }).is_none());
    }

    #[test]
    fn errors_that_grow_towards_the_corners_are_seen() {
        // 200 points at the centre with an error of half a pixel, 200 in a corner with one of two.
        let camera =
            SourceCamera::new(1, CameraModel::Pinhole, 200, 100, vec![100.0, 100.0, 100.0, 50.0]).unwrap();
        let sight = |k: u64| if k < 200 { ([100.5, 50.0], k) } else { ([198.0, 96.0], k) };
        let position = |k: u64| if k < 200 { [0.0, 0.0, 5.0] } else { [0.98, 0.48, 1.0] };
        let point = |k: u64| ColmapPoint {
            id: k,
            position: position(k),
            colour: [0; 3],
            error: 0.0,
            track_length: 2,
            track: Vec::new(),
        };
        let points = (0..400).map(sight).collect();
        let image = ColmapImage { points, ..ColmapImage::new(1, String::new(), 1, &Pose::IDENTITY) };
        let model =
            ColmapModel { cameras: vec![camera], images: vec![image], points: (0..400).map(point).collect() };
        let [centre, corners] = errors_at_centre_and_corners(&model).unwrap();
        assert!((centre - 0.5).abs() < 1e-9 && (corners - 2.0).abs() < 1e-9, "{centre} {corners}");
    }
}
