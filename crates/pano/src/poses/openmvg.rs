//! OpenMVG's `sfm_data.json`: views, and extrinsics by the id of their pose.
//!
//! ```text
//! extrinsics[].value.rotation   camera_from_world, rows; x right, y down, z forward, also of spherical intrinsics
//! extrinsics[].value.center     centre of the camera
//! ```
//! Source: `openMVG/sfm/sfm_data_io_cereal.cpp`, `openMVG/geometry/pose3_io.hpp`, `openMVG/cameras/Camera_Spherical.hpp`.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::{FileProblem, NamedPose, Trajectory, json_problem, pose_from_centre};

#[derive(Deserialize)]
struct File {
    views: Vec<Keyed<ViewValue>>,
    extrinsics: Vec<Keyed<Extrinsic>>,
}

#[derive(Deserialize)]
#[serde(expecting = "an object with key and value")]
struct Keyed<T> {
    #[serde(default)]
    key: u64,
    value: T,
}

#[derive(Deserialize)]
#[serde(expecting = "an object with ptr_wrapper")]
struct ViewValue {
    ptr_wrapper: Wrapper,
}

#[derive(Deserialize)]
#[serde(expecting = "an object with data")]
struct Wrapper {
    data: View,
}

#[derive(Deserialize)]
#[serde(expecting = "a view")]
struct View {
    #[serde(default)]
    local_path: String,
    filename: String,
    id_pose: u64,
}

#[derive(Deserialize)]
#[serde(expecting = "an object with rotation and center")]
struct Extrinsic {
    rotation: [[f64; 3]; 3],
    center: [f64; 3],
}

/// Parses the views of a scene.
///
/// # Errors
/// Another format, or an invalid rotation.
pub fn parse(bytes: &[u8]) -> Result<Trajectory, FileProblem> {
    let file: File = serde_json::from_slice(bytes).map_err(|e| json_problem(bytes, &e))?;
    let extrinsics: BTreeMap<u64, Extrinsic> =
        file.extrinsics.into_iter().map(|e| (e.key, e.value)).collect();
    let mut found = Trajectory::new("OpenMVG", Vec::new());
    for View { local_path, filename, id_pose } in file.views.into_iter().map(|v| v.value.ptr_wrapper.data) {
        let name = if local_path.is_empty() { filename } else { format!("{local_path}/{filename}") };
        match extrinsics.get(&id_pose) {
            Some(Extrinsic { rotation, center }) => {
                let pose =
                    pose_from_centre(*rotation, *center).map_err(|e| FileProblem::invalid_pose(&name, &e))?;
                found.poses.push(NamedPose { name, pose, frame: found.poses.len() as u32 });
            }
            None => found.unregistered.push(name),
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
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
