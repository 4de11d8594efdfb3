//! Reads the header of a WebP (RFC 9649): `RIFF size WEBP`, then chunks, each a name, a size and content of even length.
//!
//! `VP8 ` and `VP8L` hold an image; `VP8X` precedes them if there is more: size, alpha, EXIF after the image.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use std::io::{BufRead, ErrorKind, Read, Seek};

use super::exif::{EXIF, Exif};
use super::header::{io, take};
use super::{ImageFormat, ImageHeader, ImageProblem};

/// Largest number of chunks that are searched for EXIF.
const MAX_CHUNKS: usize = 64;
/// Longest EXIF chunk that is read, bytes: the limit of JPEG.
const MAX_EXIF_BYTES: u32 = 1 << 16;

fn number24([a, b, c]: [u8; 3]) -> u32 {
    u32::from_le_bytes([a, b, c, 0])
}

/// Reads the chunks after `WEBP`.
pub(super) fn read(reader: &mut (impl BufRead + Seek)) -> Result<(ImageHeader, Exif), ImageProblem> {
    let mut name: [u8; 4] = take(reader)?;
    let size = u32::from_le_bytes(take(reader)?);
    let (width, height);
    let (mut has_alpha, mut exif) = (false, Exif::default());
    match &name {
        b"VP8X" => {
            let [flags, _, _, _] = take(reader)?;
            if flags & 0b10 != 0 {
                return Err(ImageProblem::Variant("animated WebP".to_owned(), "a single picture"));
            }
            has_alpha = flags & 0b1_0000 != 0;
            (width, height) = (number24(take(reader)?) + 1, number24(take(reader)?) + 1);
            skip(reader, i64::from(size) - 10 + i64::from(size & 1))?;
            if flags & 0b1000 != 0 {
                exif = find_exif(reader, &mut name)?;
            }
        }
        b"VP8L" => {
            let [_, a, b, c, d] = take(reader)?;
            let bits = u32::from_le_bytes([a, b, c, d]);
            (width, height) = ((bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1);
            has_alpha = bits >> 28 & 1 == 1;
        }
        b"VP8 " => {
            // Frame tag and start code, then 14 bits each.
            take::<6>(reader)?;
            [width, height] =
                [take::<2>(reader)?, take(reader)?].map(|side| u32::from(u16::from_le_bytes(side) & 0x3FFF));
        }
        _ => return Err(ImageProblem::Header("WebP does not begin with an image".to_owned())),
    }
    let header = ImageHeader {
        format: ImageFormat::WebP,
        width,
        height,
        channels: if has_alpha { 4 } else { 3 },
        bits: 8,
        orientation: exif.orientation.unwrap_or(1),
        shot: exif.shot,
        focal_35mm: exif.focal_35mm,
        keeps_coefficients: false,
        has_premultiplied_alpha: false,
    };
    Ok((header, exif))
}

fn skip(reader: &mut (impl BufRead + Seek), bytes: i64) -> Result<(), ImageProblem> {
    reader.seek_relative(bytes).map_err(|e| io(&e))
}

/// Searches the chunks for EXIF, which stands after the image. A file that ends before has none.
fn find_exif(reader: &mut (impl BufRead + Seek), name: &mut [u8; 4]) -> Result<Exif, ImageProblem> {
    for _ in 0..MAX_CHUNKS {
        let mut head = [0; 8];
        match reader.read_exact(&mut head) {
            Ok(()) => {}
            Err(e) if e.kind() == ErrorKind::UnexpectedEof => break,
            Err(e) => return Err(io(&e)),
        }
        let [a, b, c, d, size @ ..] = head;
        *name = [a, b, c, d];
        let size = u32::from_le_bytes(size);
        if name == b"EXIF" {
            let mut data = Vec::new();
            reader.take(u64::from(size.min(MAX_EXIF_BYTES))).read_to_end(&mut data).map_err(|e| io(&e))?;
            // Some programs write the header of JPEG's segment, too.
            return Ok(Exif::read(data.strip_prefix(EXIF).unwrap_or(&data)));
        }
        skip(reader, i64::from(size) + i64::from(size & 1))?;
    }
    Ok(Exif::default())
}
