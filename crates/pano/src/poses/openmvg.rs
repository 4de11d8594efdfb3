//! OpenMVG's `sfm_data.json`: reading is in [`gausset_io::dataset::exports::openmvg`].

use gausset_io::dataset::exports;

use super::{FileProblem, Trajectory};

/// Parses the views of a scene.
///
/// # Errors
/// Another format, or an invalid rotation.
pub fn parse(bytes: &[u8]) -> Result<Trajectory, FileProblem> {
    Trajectory::from_export("OpenMVG", exports::openmvg::parse(bytes)?)
}

#[cfg(test)]
mod tests {
    use super::super::NamedPose;
    use super::*;

    /// A `sfm_data.json` of version 0.3 with a spherical intrinsic.
    const SCENE: &str = r#"{ "sfm_data_version": "0.3", "root_path": "/data",
        "views": [
            {"key": 0, "value": {"polymorphic_id": 1073741824, "ptr_wrapper": {"id": 2147483649, "data":
                {"local_path": "", "filename": "P1.jpg", "width": 5760, "height": 2880, "id_view": 0, "id_intrinsic": 0, "id_pose": 0}}}},
            {"key": 1, "value": {"polymorphic_id": 1073741824, "ptr_wrapper": {"id": 2147483650, "data":
                {"local_path": "b", "filename": "P2.jpg", "width": 5760, "height": 2880, "id_view": 1, "id_intrinsic": 0, "id_pose": 7}}}}],
        "intrinsics": [{"key": 0, "value": {"polymorphic_id": 2147483649, "polymorphic_name": "spherical", "ptr_wrapper": {"id": 2147483651, "data": {"width": 5760, "height": 2880}}}}],
        "extrinsics": [{"key": 7, "value": {"rotation": [[0, 0, -1], [0, 1, 0], [1, 0, 0]], "center": [1, 2, 3]}}],
        "structure": [], "control_points": [] }"#;

    #[test]
    fn extrinsics_are_those_of_the_pose_that_a_view_names() {
        let found = parse(SCENE.as_bytes()).unwrap();
        assert_eq!(found.unregistered, ["P1.jpg"]);
        let NamedPose { name, pose, .. } = &found.poses[0];
        assert_eq!((name.as_str(), pose.rotation[2]), ("b/P2.jpg", [1.0, 0.0, 0.0]));
        assert!(pose.centre().iter().zip([1.0, 2.0, 3.0]).all(|(a, b)| (a - b).abs() < 1e-12));
        let mirrored = SCENE.replace("[0, 0, -1]", "[0, 0, 1]");
        let refused = parse(mirrored.as_bytes()).unwrap_err().to_string();
        assert!(refused.starts_with("\"b/P2.jpg\": rotation has determinant -1"), "{refused}");
        assert!(parse(b"{}").unwrap_err().to_string().contains("missing field `views`"));
    }
}
