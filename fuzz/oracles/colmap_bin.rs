//! Properties that must hold for any bytes read as a binary COLMAP model.

use gausset_io::text::is_valid_message;
use std::io::Cursor;
use std::path::Path;

use gausset_core::Pose;
use gausset_io::dataset::DatasetError;
use gausset_io::dataset::colmap::{ColmapModel, ModelFormat, Observations, binary, frames, text};

/// Three files in one: the lengths of the first two (u32 each), then the files.
pub(crate) fn check(bytes: &[u8]) {
    let length =
        |at: usize| bytes.get(at..at + 4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]) as usize);
    let (Some(first), Some(second)) = (length(0), length(4)) else { return };
    let rest = &bytes[8..];
    let (cameras, rest) = rest.split_at(first.min(rest.len()));
    let (images, points) = rest.split_at(second.min(rest.len()));
    for observations in [Observations::Skip, Observations::Keep] {
        match parse([cameras, images, points], ModelFormat::Binary, observations) {
            Ok(model) if observations == Observations::Keep => check_model(&model),
            Ok(model) => assert!(model.images.iter().all(|i| i.points.is_empty())),
            Err(error) => check_line(&error),
        }
    }
    // Frames of rigs are in a separate file; any of the three will do.
    if let Err(error) = frames::read_binary(Path::new("images.bin"), Cursor::new(cameras)) {
        check_line(&error);
    }
}

/// Parses the three files of a model.
pub(crate) fn parse(
    files: [&[u8]; 3],
    format: ModelFormat,
    observations: Observations,
) -> Result<ColmapModel, DatasetError> {
    let [c, i, p] = format.file_names().map(Path::new);
    let [cameras, images, points] = files.map(Cursor::new);
    match format {
        ModelFormat::Binary => {
            let cameras = binary::read_cameras(c, cameras)?;
            let images = binary::read_images(i, images, &cameras, observations)?;
            Ok(ColmapModel { points: binary::read_points(p, points, observations)?, cameras, images })
        }
        ModelFormat::Text => {
            let cameras = text::read_cameras(c, cameras)?;
            let images = text::read_images(i, images, &cameras, observations)?;
            Ok(ColmapModel { points: text::read_points(p, points, observations)?, cameras, images })
        }
    }
}

/// A model that could be read is valid, and both encodings reproduce it.
pub(crate) fn check_model(model: &ColmapModel) {
    for camera in &model.cameras {
        assert_eq!(camera.params.len(), camera.model.parameters().len());
        assert!(camera.params.iter().all(|v| v.is_finite()) && camera.width > 0 && camera.height > 0);
        let lens = camera.lens();
        for ray in [[0.0, 0.0, 1.0], [0.3, -0.2, 1.0], [-2.0, 1.0, 0.1], [0.1, 0.0, -1.0]] {
            let pixel = lens.project(ray);
            assert!(pixel.is_none_or(|p| p.iter().all(|v| v.is_finite())));
        }
    }
    assert!(model.cameras.is_sorted_by(|a, b| a.id < b.id) && model.images.is_sorted_by(|a, b| a.id < b.id));
    for image in &model.images {
        assert!(model.cameras.iter().any(|c| c.id == image.camera_id));
        if let Ok(pose) = Pose::from_quaternion(image.quaternion, image.translation) {
            assert!(gausset_core::se3::orthonormality_error(&pose.rotation) < 1e-9);
        }
    }
    let binary = rewrite(model, ModelFormat::Binary);
    assert_eq!(contents(&binary, ModelFormat::Binary), contents(model, ModelFormat::Binary));
    // Some names do not fit into a line of text.
    let fits_a_line = |name: &str| name.trim() == name && !name.contains(['\n', '\r']);
    if model.images.iter().all(|i| fits_a_line(&i.name)) {
        let text = rewrite(model, ModelFormat::Text);
        assert_eq!(contents(&text, ModelFormat::Text), contents(model, ModelFormat::Text));
    }
}

fn contents(model: &ColmapModel, format: ModelFormat) -> [Vec<u8>; 3] {
    model.to_files(format).map(|(_, content)| content)
}

fn rewrite(model: &ColmapModel, format: ModelFormat) -> ColmapModel {
    let [a, b, c] = contents(model, format);
    parse([&a, &b, &c], format, Observations::Keep).expect("our own model is read")
}

/// An error is one line that starts with a file.
pub(crate) fn check_line(error: &DatasetError) {
    let line = error.to_string();
    assert!(is_valid_message(&line), "{line:?}");
    let starts = ["cameras.", "images.", "points3D."];
    assert!(starts.iter().any(|start| line.starts_with(start)), "{line}");
}
