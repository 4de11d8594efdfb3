//! OpenSfM's `reconstruction.json`: a list of reconstructions with their shots.
//!
//! ```text
//! shots.NAME.rotation      axis times angle of camera_from_world; x right, y down, z forward, also where the camera's
//!                          projection_type is spherical
//! shots.NAME.translation   of camera_from_world
//! ```
//! Source: OpenSfM's documentation, "Reconstruction file format" and "Camera coordinate system".

use std::collections::BTreeMap;

use gausset_core::{Pose, se3};
use serde::Deserialize;

use super::{FileProblem, NamedPose, Trajectory, json_problem};

#[derive(Deserialize)]
#[serde(expecting = "a reconstruction with its shots")]
struct Reconstruction {
    shots: BTreeMap<String, Shot>,
}

#[derive(Deserialize)]
#[serde(expecting = "a shot with rotation and translation")]
struct Shot {
    rotation: [f64; 3],
    translation: [f64; 3],
}

/// Parses the largest reconstruction, shots sorted by name; shots of the others count as unregistered.
///
/// # Errors
/// Another format, or an invalid rotation.
pub fn parse(bytes: &[u8]) -> Result<Trajectory, FileProblem> {
    let mut all: Vec<Reconstruction> = serde_json::from_slice(bytes).map_err(|e| json_problem(bytes, &e))?;
    let count = all.len();
    let largest = (0..count).rev().max_by_key(|&k| all[k].shots.len());
    let Some(largest) = largest else { return Err(FileProblem::new("reconstructions", "none")) };
    let best = all.swap_remove(largest);
    let mut found = Trajectory::new("OpenSfM", Vec::new());
    for (name, Shot { rotation, translation }) in best.shots {
        let turn = se3::so3_exp(rotation);
        let pose = Pose::from_matrix(turn, translation).map_err(|e| FileProblem::invalid_pose(&name, &e))?;
        found.poses.push(NamedPose { name, pose, frame: found.poses.len() as u32 });
    }
    found.unregistered = all.into_iter().flat_map(|r| r.shots.into_keys()).collect();
    found.unregistered.sort();
    if count > 1 {
        found.note = Some(format!(
            "read the largest of {count} reconstructions, which have unrelated coordinate systems"
        ));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCENE: &str = r#"[ { "cameras": {}, "shots": { "x.jpg": { "rotation": [0, 0, 0], "translation": [0, 0, 0], "camera": "c" } } },
        { "cameras": { "c": { "projection_type": "spherical", "width": 5760, "height": 2880 } },
          "shots": { "b.jpg": { "rotation": [0, 1.5707963267948966, 0], "translation": [0, 0, 2], "camera": "c", "orientation": 1, "gps_dop": 5.0 },
                     "a.jpg": { "rotation": [0, 0, 0], "translation": [-1, -2, -3], "camera": "c" } },
          "points": {} } ]"#;

    #[test]
    fn shots_of_the_largest_reconstruction_are_read() {
        let found = parse(SCENE.as_bytes()).unwrap();
        assert_eq!((found.poses.len(), &found.unregistered[..]), (2, &["x.jpg".to_owned()][..]));
        assert!(found.note.is_some());
        assert_eq!((found.poses[0].name.as_str(), found.poses[0].pose.centre()), ("a.jpg", [1.0, 2.0, 3.0]));
        // A quarter turn about y takes the world's z axis to the camera's x axis: it looks along -x, from +x.
        let pose = &found.poses[1].pose;
        let near = |a: [f64; 3], b: [f64; 3]| (0..3).all(|k| (a[k] - b[k]).abs() < 1e-12);
        assert!(near(se3::mul_vec(&pose.rotation, [0.0, 0.0, 1.0]), [1.0, 0.0, 0.0]));
        assert!(near(pose.centre(), [2.0, 0.0, 0.0]), "{:?}", pose.centre());
        assert!(parse(b"[]").is_err() && parse(b"{}").is_err());
        assert!(parse(br#"[{"shots":{"a":{"rotation":[1e400,0,0],"translation":[0,0,0]}}}]"#).is_err());
    }
}
