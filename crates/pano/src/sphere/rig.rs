//! The views of a panorama as a camera rig: COLMAP's rig configuration and poses of views.
//!
//! All views of a frame share one centre. View 0 is the reference sensor: `rig_from_world = cam_from_world` of view 0,
//! `cam_from_rig = cam_from_pano · pano_from_cam0`, translation exactly zero.

use gausset_core::Pose;
use gausset_core::se3::{self, Mat3};
use serde_json::{Value, json};

use crate::sphere::geometry::View;

/// Rotation from the rig (camera axes of view 0) to a view.
#[must_use]
pub fn cam_from_rig(views: &[View], index: usize) -> Mat3 {
    let first = views[0].pano_from_camera();
    se3::mul(&se3::transpose(&views[index].pano_from_camera()), &first)
}

/// Pose of a view from the pose of its panorama (`pano_from_world`).
#[must_use]
pub fn cam_from_world(view: &View, pano_from_world: &Pose) -> Pose {
    let cam_from_pano = Pose { rotation: se3::transpose(&view.pano_from_camera()), translation: [0.0; 3] };
    cam_from_pano.compose(pano_from_world)
}

/// Pose of a panorama (`pano_from_world`) from the pose of one of its views.
#[must_use]
pub fn pano_from_world(view: &View, cam_from_world: &Pose) -> Pose {
    Pose { rotation: view.pano_from_camera(), translation: [0.0; 3] }.compose(cam_from_world)
}

/// `rig_config.json` for COLMAP 3.12 and later.
#[must_use]
pub fn rig_config(views: &[View]) -> String {
    let cameras: Vec<Value> = views
        .iter()
        .enumerate()
        .map(|(index, view)| {
            let f = view.focal();
            let mut camera = json!({
                "image_prefix": format!("{}/", view.name),
                "camera_model_name": "PINHOLE",
                "camera_params": [f, f, 0.5 * f64::from(view.width), 0.5 * f64::from(view.height)],
            });
            if index == 0 {
                camera["ref_sensor"] = json!(true);
            } else {
                camera["cam_from_rig_rotation"] =
                    json!(se3::quaternion_from_rotation(&cam_from_rig(views, index)));
                camera["cam_from_rig_translation"] = json!([0.0, 0.0, 0.0]);
            }
            camera
        })
        .collect();
    let mut text = serde_json::to_string_pretty(&json!([{ "cameras": cameras }])).unwrap_or_default();
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sphere::layout::Layout;

    #[test]
    fn the_second_view_of_a_ring_has_colmaps_quaternion() {
        let views = Layout::Ring8.views(64, 64, None);
        let q = se3::quaternion_from_rotation(&cam_from_rig(&views, 1));
        let wanted = [0.923_879_532_511, 0.0, -0.382_683_432_365, 0.0];
        assert!(q.iter().zip(wanted).all(|(a, b)| (a - b).abs() < 1e-9), "{q:?}");
    }

    #[test]
    fn poses_of_panoramas_and_views_undo_each_other() {
        let pose = Pose::from_quaternion([0.5, 0.5, -0.5, 0.5], [1.0, 2.0, 3.0]).unwrap();
        for view in Layout::Dome16.views(64, 64, None) {
            let back = pano_from_world(&view, &cam_from_world(&view, &pose));
            let c = cam_from_world(&view, &pose).centre();
            assert!(c.iter().zip(pose.centre()).all(|(a, b)| (a - b).abs() < 1e-12));
            assert!(
                (0..3).all(|i| (0..3).all(|j| (back.rotation[i][j] - pose.rotation[i][j]).abs() < 1e-12))
            );
        }
    }
}
