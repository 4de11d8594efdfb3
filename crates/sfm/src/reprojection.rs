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
        assert!(reprojection_errors(&ColmapModel { points: Vec::new(), ..model }).is_none());
    }
}
