//! Checks of image files without decoding them: whether the decoder takes the variant, and whether the file is complete.
//!
//! JPEG: all segments up to the end marker. PNG: all chunks up to IEND, with the checksums of those that the decoder
//! checks. WebP: the length in the RIFF header. TIFF: the first strip or tile, and the one that ends last, are decoded.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use std::io::Cursor;
use std::path::Path;

use tiff::TiffError;
use tiff::decoder::{Decoder, Limits};
use tiff::tags::Tag;

use super::decode::{decode_guarded, open_decoder, read, reason_of};
use super::header::{self, ImageFormat, ImageHeader, parse_header};
use super::{ImageError, ImageProblem, MAX_DECODED_BYTES};

/// Checks an image file without decoding it: its header, that the decoder takes it, and that it is complete.
///
/// # Errors
/// As [`super::read_header`], or the decoder does not take this variant, or the file is truncated.
pub fn check_file(path: &Path) -> Result<ImageHeader, ImageError> {
    read(path).and_then(|bytes| check(&bytes)).map_err(|problem| ImageError::new(path, problem))
}

/// Checks an image as [`check_file`] does.
///
/// # Errors
/// As [`check_file`].
pub fn check(bytes: &[u8]) -> Result<ImageHeader, ImageProblem> {
    let header = parse_header(Cursor::new(bytes))?;
    match header.format {
        ImageFormat::Jpeg => header::check_jpeg(bytes)?,
        ImageFormat::Png => check_png(bytes)?,
        ImageFormat::WebP => check_webp(bytes)?,
        ImageFormat::Tiff => {}
    }
    decode_guarded(|| {
        open_decoder(bytes, &header)?;
        if header.format == ImageFormat::Tiff { check_tiff(bytes) } else { Ok(()) }
    })?;
    Ok(header)
}

/// A chunk of a PNG, and what follows it.
struct Chunk<'a> {
    name: [u8; 4],
    /// The name and the content, which the checksum covers.
    checked: &'a [u8],
    checksum: u32,
    rest: &'a [u8],
}

impl<'a> Chunk<'a> {
    /// The first chunk of these bytes; `None` if they end within it.
    fn first(bytes: &'a [u8]) -> Option<Self> {
        let (length, rest) = bytes.split_first_chunk::<4>()?;
        let (name, _) = rest.split_first_chunk::<4>()?;
        let (checked, rest) = rest.split_at_checked(u32::from_be_bytes(*length) as usize + 4)?;
        let (checksum, rest) = rest.split_first_chunk::<4>()?;
        Some(Self { name: *name, checked, checksum: u32::from_be_bytes(*checksum), rest })
    }
}

/// Checks all chunks of a PNG up to IEND.
fn check_png(bytes: &[u8]) -> Result<(), ImageProblem> {
    let mut rest = bytes.get(8..).unwrap_or_default();
    loop {
        let chunk = Chunk::first(rest).ok_or(ImageProblem::Truncated)?;
        rest = chunk.rest;
        // The decoder ignores the checksums of other chunks, as of text.
        if chunk.name.first().is_some_and(u8::is_ascii_uppercase) {
            let mut crc = flate2::Crc::new();
            crc.update(chunk.checked);
            if crc.sum() != chunk.checksum {
                let line = "the checksum of the image data is wrong; copy it again";
                return Err(ImageProblem::Decode(line.to_owned()));
            }
        }
        if &chunk.name == b"IEND" {
            return Ok(());
        }
    }
}

/// Checks that a WebP has the length in its header.
fn check_webp(bytes: &[u8]) -> Result<(), ImageProblem> {
    let length = bytes.get(4..).and_then(<[u8]>::first_chunk).map(|length| u32::from_le_bytes(*length));
    let is_whole = length.is_some_and(|length| bytes.len() as u64 >= u64::from(length) + 8);
    if is_whole { Ok(()) } else { Err(ImageProblem::Truncated) }
}

/// Decodes the first chunk (strip or tile) of a TIFF, which shows whether its compression is read, and the one that ends
/// last, which a truncated file lacks.
fn check_tiff(bytes: &[u8]) -> Result<(), ImageProblem> {
    let failed = |e: TiffError| ImageProblem::Decode(reason_of(&e.to_string()));
    let mut limits = Limits::default();
    limits.decoding_buffer_size = MAX_DECODED_BYTES as usize;
    limits.intermediate_buffer_size = MAX_DECODED_BYTES as usize;
    let mut file = Decoder::new(Cursor::new(bytes)).map_err(failed)?.with_limits(limits);
    let mut numbers = |tags: [Tag; 2]| {
        tags.into_iter()
            .find_map(|tag| file.find_tag_unsigned_vec::<u64>(tag).ok().flatten())
            .unwrap_or_default()
    };
    let offsets = numbers([Tag::StripOffsets, Tag::TileOffsets]);
    let lengths = numbers([Tag::StripByteCounts, Tag::TileByteCounts]);
    let ends = offsets.iter().zip(&lengths).map(|(offset, length)| offset.saturating_add(*length));
    let last = ends.enumerate().max_by_key(|(_, end)| *end).map_or(0, |(chunk, _)| chunk as u32);
    file.read_chunk(0).map_err(failed)?;
    if last > 0 {
        file.read_chunk(last).map_err(failed)?;
    }
    Ok(())
}
