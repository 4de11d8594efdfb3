//! Multi-page TIFF: pages of one channel are the slices of a volume.

use std::io::Cursor;

use tiff::decoder::{Decoder, DecodingResult, Limits};

use crate::error::ContentError;
use crate::input::checks::{all_finite, voxels};
use crate::input::volume::Volume;

/// Reads a volume.
pub(crate) fn read(bytes: &[u8]) -> Result<Volume, ContentError> {
    let mut limits = Limits::default();
    // A page cannot unpack to more than a thousandfold of the file by the codecs that are read, nor to more than this.
    limits.decoding_buffer_size = bytes.len().saturating_mul(1100).clamp(1 << 20, 4 << 30);
    let wrong =
        |page: usize| move |error: tiff::TiffError| ContentError::unread(format_args!("page {page}"), error);
    let mut decoder = Decoder::new(Cursor::new(bytes)).map_err(wrong(0))?.with_limits(limits);
    let mut values = Vec::new();
    let mut size: Option<(u32, u32)> = None;
    let mut pages = 0;
    loop {
        let found = decoder.dimensions().map_err(wrong(pages))?;
        if *size.get_or_insert(found) != found {
            let (expected, found) = (format_args!("{size:?}"), format_args!("{found:?}"));
            return Err(ContentError::unexpected(
                format_args!("page {pages}"),
                "another size",
                expected,
                found,
            ));
        }
        let wanted = u64::from(found.0) * u64::from(found.1);
        voxels(&[u64::from(found.0), u64::from(found.1), pages as u64 + 1])?;
        let before = values.len();
        macro_rules! append {
            ($page:expr) => {
                values.extend($page.into_iter().map(|v| v as f64))
            };
        }
        match decoder.read_image().map_err(wrong(pages))? {
            DecodingResult::U8(page) => append!(page),
            DecodingResult::U16(page) => append!(page),
            DecodingResult::U32(page) => append!(page),
            DecodingResult::U64(page) => append!(page),
            DecodingResult::I8(page) => append!(page),
            DecodingResult::I16(page) => append!(page),
            DecodingResult::I32(page) => append!(page),
            DecodingResult::I64(page) => append!(page),
            DecodingResult::F32(page) => append!(page),
            DecodingResult::F64(page) => append!(page),
            _ => {
                let (place, expected) = (format_args!("page {pages}"), "whole numbers or floats");
                return Err(ContentError::missing(place, "sample type is not read", expected));
            }
        }
        let found = (values.len() - before) as u64;
        if found != wanted {
            let (place, expected) = (format_args!("page {pages}"), format_args!("{wanted} values"));
            return Err(ContentError::unexpected(place, "more than one channel", expected, found));
        }
        pages += 1;
        if !decoder.more_images() {
            break;
        }
        decoder.next_image().map_err(wrong(pages))?;
    }
    all_finite(&values)?;
    let (width, height) = size.unwrap_or_default();
    Ok(Volume::on_grid([width as usize, height as usize, pages], [1.0; 3], values))
}
