//! Decodes the files of a frame of a 360-degree source.

use std::path::{Path, PathBuf};

use gausset_compute::fearless_simd::Level;
use gausset_jpeg::Decoder;
use gausset_jpeg::plane::Frame;

use crate::source::load::{self, ImageLimits, LoadError, LoadedImage};
use crate::source::metadata::Metadata;
use crate::source::vignetting;
use crate::sphere::projection::Projection;

/// A decoded frame of a source; a cube is folded already, and the known fall-off of lenses is divided out.
#[derive(Debug)]
pub struct DecodedFrame {
    /// Decoded planes.
    pub frame: Frame,
    /// How the planes show the sphere.
    pub projection: Projection,
    /// Metadata of the first file.
    pub metadata: Metadata,
    /// Bits per sample in the file.
    pub bits: u8,
}

/// Decodes all rows of the files of a frame. Without a projection, the frame is a panorama, or two stacked ones of
/// which the upper is used.
///
/// # Errors
/// A file cannot be used, or its size differs from that of the projection or of the other files.
pub fn decode_frame(
    files: &[PathBuf],
    projection: Option<&Projection>,
    is_stereo: bool,
    limits: &ImageLimits,
    level: Level,
) -> Result<DecodedFrame, LoadError> {
    decode_frame_with_progress(files, projection, is_stereo, limits, level, &mut |_| {})
}

/// What is happening to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodeStep {
    /// The file is being read.
    Read,
    /// The file is being decoded.
    Decode,
}

/// Like [`decode_frame`], and calls `begins` before each step.
///
/// # Errors
/// As [`decode_frame`].
pub fn decode_frame_with_progress(
    files: &[PathBuf],
    projection: Option<&Projection>,
    is_stereo: bool,
    limits: &ImageLimits,
    level: Level,
    on_step: &mut dyn FnMut(DecodeStep),
) -> Result<DecodedFrame, LoadError> {
    let failed = |path: &Path, what: String| LoadError { path: path.to_owned(), problem: what };
    let mut parts = Vec::new();
    let mut first: Option<LoadedImage> = None;
    for file in files {
        on_step(DecodeStep::Read);
        let mut opened = load::load(file, limits, Vec::new())?;
        on_step(DecodeStep::Decode);
        if let Some(projection) = projection {
            let expected = projection.part_size(files.len());
            let found = opened.upright_size();
            if found != expected {
                let what = size_mismatch(found, expected);
                return Err(failed(file, what));
            }
        }
        let mut part = Frame::default();
        opened.decode(level, &mut Decoder::default(), &[[0, i32::MAX / 2]; 3], &mut part)?;
        parts.push(part);
        first.get_or_insert(opened);
    }
    let (Some(opened), Some(file)) = (first, files.first()) else {
        return Err(failed(Path::new(""), "frame: has no picture".to_owned()));
    };
    let mut frame = Frame::default();
    if parts.len() == 1 {
        frame = parts.remove(0);
    } else if match projection {
        Some(projection) => projection.combine(&parts, &mut frame),
        None => frame.stack(&parts),
    }
    .is_none()
    {
        return Err(failed(file, "frame: its pictures are of different kinds".to_owned()));
    }
    let projection = match projection {
        Some(projection) => projection.clone(),
        None => {
            let equirect = opened.equirect(is_stereo).map_err(|e| failed(file, e.to_string()))?;
            if is_stereo {
                frame.crop_to_upper_half();
            }
            Projection::Equirect(equirect)
        }
    };
    if let Projection::Cube(cube) = &projection {
        let mut folded = Frame::default();
        cube.fold(&frame, &mut folded);
        frame = folded;
    }
    vignetting::correct(&projection, &mut frame);
    Ok(DecodedFrame { frame, projection, bits: opened.bits(), metadata: opened.metadata })
}

/// The message for an image whose size differs from the others of its source.
pub(crate) fn size_mismatch([w, h]: [u32; 2], [ew, eh]: [u32; 2]) -> String {
    format!("picture: {w}x{h} px (expected {ew}x{eh}, as the others have)")
}

#[cfg(test)]
mod tests {
    use gausset_compute::{SimdLevel, dispatch_level};
    use gausset_io::image::encode::{PngPixels, png};

    use super::*;
    use crate::sphere::fisheye::DualFisheye;

    #[test]
    fn the_files_of_two_lenses_are_one_frame_side_by_side() {
        let folder = tempfile::tempdir().unwrap();
        let value = |x: usize, y: usize| [(3 * x) as u8, (5 * y) as u8, (x * y) as u8];
        let write = |name: &str, columns: std::ops::Range<usize>| {
            let pixels: Vec<u8> =
                (0..32).flat_map(|y| columns.clone().flat_map(move |x| value(x, y))).collect();
            let path = folder.path().join(name);
            let bytes = png(columns.len() as u32, 32, PngPixels::Rgb8(&pixels), &[]).unwrap();
            std::fs::write(&path, bytes).unwrap();
            path
        };
        let files = [write("GPFR0001.png", 0..32), write("GPBK0001.png", 32..64)];
        let whole = write("whole.png", 0..64);
        let lens = r#"{ "cx": 16, "cy": 16, "radius": 15, "half_angle": 100 }, { "cx": 48, "cy": 16, "radius": 15, "half_angle": 100, "yaw": 180 }"#;
        let text = format!(r#"{{ "width": 64, "height": 32, "lenses": [ {lens} ] }}"#);
        let projection = Projection::Fisheye(DualFisheye::parse(text.as_bytes()).unwrap());
        let level = dispatch_level(SimdLevel::Auto).unwrap();
        let read =
            |files: &[PathBuf]| decode_frame(files, Some(&projection), false, &ImageLimits::default(), level);
        let rows = |frame: &Frame| -> Vec<Vec<u8>> {
            frame.planes.iter().flat_map(|plane| (0..32).map(|y| plane.row(y).to_vec())).collect()
        };
        assert_eq!(rows(&read(&files).unwrap().frame), rows(&read(&[whole]).unwrap().frame));
        // Another size on one side.
        let small = write("GPBK0002.png", 0..30);
        let message = read(&[files[0].clone(), small]).unwrap_err().to_string();
        assert!(message.contains("GPBK0002.png: picture: 30x32 px (expected 32x32"), "{message}");
    }
}
