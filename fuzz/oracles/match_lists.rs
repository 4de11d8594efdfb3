//! Properties that must hold for keypoints and matches of third-party programs. The first byte selects which.

use gausset_io::text::is_valid_message;
use gausset_sfm::matches::{npz, text};

/// Keypoints that are accepted are finite; a refusal is one line.
pub(crate) fn check(bytes: &[u8]) {
    let Some((form, bytes)) = bytes.split_first() else { return };
    let line = |problem: &dyn std::fmt::Display| assert!(is_valid_message(&problem.to_string()), "{problem}");
    let words = || String::from_utf8_lossy(bytes).into_owned();
    match form {
        b'k' => match text::keypoints(&words()) {
            Ok(found) => assert!(found.iter().flatten().all(|v| v.is_finite())),
            Err(problem) => line(&problem),
        },
        b'm' => match text::pairs(&words()) {
            Ok(found) => assert!(found.iter().flat_map(|pair| &pair.names).all(|name| !name.contains(' '))),
            Err(problem) => line(&problem),
        },
        b'K' => match npz::keypoints(bytes) {
            Ok(found) => assert!(found.values().flatten().flatten().all(|v| v.is_finite())),
            Err(problem) => line(&problem),
        },
        _ => {
            if let Err(problem) = npz::pairs(bytes) {
                line(&problem);
            }
        }
    }
}
