//! OpenSfM's `reconstruction.json`: reading is in [`gausset_io::dataset::exports::opensfm`].

use gausset_io::dataset::exports;

use super::{FileProblem, Trajectory};

/// Parses the largest reconstruction, shots sorted by name; shots of the others count as unregistered.
///
/// # Errors
/// Another format, or an invalid rotation.
pub fn parse(bytes: &[u8]) -> Result<Trajectory, FileProblem> {
    let export = exports::opensfm::parse(bytes)?;
    let note = export.chosen.map(|(count, _)| {
        format!("read the largest of {count} reconstructions, which have unrelated coordinate systems")
    });
    Ok(Trajectory { note, ..Trajectory::from_export("OpenSfM", export)? })
}

#[cfg(test)]
mod tests {
    use gausset_core::se3;

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
