//! Properties that must hold for pose files of third-party programs. The first byte selects which.

use gausset_io::text::is_valid_message;
use gausset_pano::poses::{FileProblem, Trajectory, metashape, openmvg, opensfm, sidecar, table, tum};

/// A pose that is accepted is a rotation and a position; our own table reproduces it.
pub(crate) fn check(bytes: &[u8]) {
    let Some((form, bytes)) = bytes.split_first() else { return };
    let text = || String::from_utf8_lossy(bytes).into_owned();
    let found: Result<Trajectory, FileProblem> = match form {
        b't' => tum::parse(&text()),
        b'c' => table::parse(bytes),
        b'm' => metashape::parse(&text()),
        b'g' => openmvg::parse(bytes),
        b's' => opensfm::parse(bytes),
        _ => {
            match sidecar::parse(&text()) {
                Ok(Some(pose)) => {
                    assert!(pose.rotation.iter().flatten().all(|v| v.abs() < 1.001), "{pose:?}")
                }
                Ok(None) => {}
                Err(problem) => assert!(is_valid_message(&problem.to_string()), "{problem}"),
            }
            return;
        }
    };
    let found = match found {
        Ok(found) => found,
        Err(problem) => return assert!(is_valid_message(&problem.to_string()), "{problem}"),
    };
    for pose in &found.poses {
        let r = &pose.pose.rotation;
        assert!(gausset_core::matrix::orthonormality_error(r) < 1e-5, "{pose:?}");
        assert!(gausset_core::matrix::determinant(r) > 0.0, "{pose:?}");
    }
    let is_valid_message = |p: &gausset_pano::poses::NamedPose| {
        !p.name.trim().is_empty() && p.pose.centre().iter().all(|v| v.abs() < 1e100)
    };
    if found.poses.iter().all(is_valid_message) && !found.poses.is_empty() {
        let back = table::parse(table::write(&found.poses).as_bytes()).expect("our own table");
        assert_eq!(back.poses.len(), found.poses.len());
    }
}
