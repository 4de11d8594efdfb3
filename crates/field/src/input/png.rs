//! A slice as PNG: whole numbers of 1 to 16 bits.

use std::io::{BufReader, Cursor};

use ::png::{BitDepth, ColorType, Decoder, Limits, Transformations};

use crate::error::ContentError;
use crate::input::checks::{ReadRequest, voxels};
use crate::input::scalar::{Scalar, unpack_bits};
use crate::input::volume::Volume;

/// Reads one slice.
pub(crate) fn read(bytes: &[u8], wanted: &ReadRequest<'_>) -> Result<Volume, ContentError> {
    let unread = |error: ::png::DecodingError| ContentError::unread("picture", error);
    // Deflate packs at most 1032 bytes into one.
    let limit = bytes.len().saturating_mul(1100).clamp(1 << 20, 4 << 30);
    let stream = BufReader::new(wanted.stoppable(Cursor::new(bytes)));
    let mut decoder = Decoder::new_with_limits(stream, Limits { bytes: limit });
    decoder.set_transformations(Transformations::IDENTITY);
    let mut reader = decoder.read_info().map_err(unread)?;
    let info = reader.info();
    let (width, height) = (info.width as usize, info.height as usize);
    wanted.frame_of(1)?;
    wanted.check_count(voxels(&[info.width.into(), info.height.into()])?)?;
    let channels = match info.color_type {
        // The numbers of a palette's colours are labels.
        ColorType::Grayscale | ColorType::Indexed => 1,
        ColorType::GrayscaleAlpha => 2,
        ColorType::Rgb => 3,
        ColorType::Rgba => 4,
    };
    let depth = info.bit_depth;
    let channel = wanted.channel_of(channels, &[])?;
    let size = reader.output_buffer_size().filter(|size| *size <= limit);
    let size = size.ok_or_else(|| ContentError::unread("picture", "larger than its bytes can be"))?;
    let mut pixels = vec![0; size];
    reader.next_frame(&mut pixels).map_err(unread)?;
    let numbers = match depth {
        BitDepth::Sixteen => Scalar::U16.decode(&pixels, true),
        BitDepth::Eight => Scalar::U8.decode(&pixels, true),
        narrow => unpack_bits(&pixels, narrow as u8, width),
    };
    let values: Vec<f64> = numbers.into_iter().skip(channel).step_by(channels).collect();
    if values.len() != width * height {
        return Err(ContentError::unexpected("picture", "cut off", width * height, values.len()));
    }
    Ok(Volume::on_grid([width, height, 1], [1.0; 3], values))
}
