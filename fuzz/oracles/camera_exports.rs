//! Properties that must hold for camera files of other programs. The first byte selects the program.

use gausset_io::dataset::exports::{
    Export, ExportFrame, bundler, inria, llff, metashape, openmvg, opensfm, polycam, realitycapture,
};
use gausset_io::file_problem::FileProblem;
use gausset_io::text::is_valid_message;

/// A pose that is accepted is rigid and a camera valid; an error is one line.
pub(crate) fn check(bytes: &[u8]) {
    let Some((program, bytes)) = bytes.split_first() else { return };
    let text = String::from_utf8_lossy(bytes);
    let names: Vec<String> = (0..3).map(|i| format!("{i}.jpg")).collect();
    let one = |frame: ExportFrame| Export { frames: vec![frame], ..Export::default() };
    let found: Result<Export, FileProblem> = match program {
        b'b' => bundler::parse(&text, &names),
        b'c' => realitycapture::parse_table(bytes),
        b'g' => openmvg::parse(bytes),
        b'i' => inria::parse(bytes),
        b'l' => llff::parse(bytes, &names),
        b'm' => metashape::parse(&text),
        b'p' => polycam::parse(bytes, "1").map(one),
        b's' => opensfm::parse(bytes),
        _ => realitycapture::parse_sidecar(&text).map(|found| {
            let frame = |found: realitycapture::Sidecar| ExportFrame {
                name: "1".to_owned(),
                pose: found.pose,
                lens: found.lens.into(),
            };
            found.map_or_else(Export::default, |found| one(frame(found)))
        }),
    };
    let export = match found {
        Ok(export) => export,
        Err(problem) => return assert!(is_valid_message(&problem.to_string()), "{problem}"),
    };
    for frame in export.frames {
        if let Ok(pose) = frame.pose {
            assert!(gausset_core::se3::orthonormality_error(&pose.rotation) < 1e-5);
            assert!(gausset_core::se3::determinant(&pose.rotation) > 0.0);
        }
        if let Ok(lens) = &*frame.lens
            && let Ok(camera) = lens.camera(0, [640, 480])
        {
            assert!(camera.params.iter().all(|v| v.is_finite()));
            let pixel = camera.lens().project([0.2, 0.1, 1.0]);
            assert!(pixel.is_none_or(|p| p.iter().all(|v| v.is_finite())));
        }
    }
    assert!(export.points.iter().all(|p| p.position.iter().all(|v| v.is_finite())));
}
