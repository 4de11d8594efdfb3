//! Properties that must hold for any bytes read as a `transforms.json`.

use gausset_io::dataset::transforms::parse;
use gausset_io::text::is_valid_message;

/// Accepted poses are rigid and accepted cameras valid; an error is one line with the place.
pub(crate) fn check(bytes: &[u8]) {
    let file = match parse(bytes) {
        Ok(file) => file,
        Err((place, problem)) => {
            let line = format!("{place}: {problem}");
            assert!(!place.is_empty() && is_valid_message(&line), "{line:?}");
            return;
        }
    };
    assert!(!file.frames.is_empty());
    for frame in &file.frames {
        if let Ok(pose) = frame.pose() {
            assert!(gausset_core::se3::orthonormality_error(&pose.rotation) < 1e-5);
            assert!(gausset_core::se3::determinant(&pose.rotation) > 0.0);
        }
        let intrinsics = match &frame.intrinsics {
            Some(own) => own.with_defaults(&file.intrinsics),
            None => file.intrinsics.clone(),
        };
        if let Ok(camera) = intrinsics.camera(0, [640, 480]) {
            assert!(camera.params.iter().all(|v| v.is_finite()));
            let pixel = camera.lens().project([0.2, 0.1, 1.0]);
            assert!(pixel.is_none_or(|p| p.iter().all(|v| v.is_finite())));
        }
    }
}
