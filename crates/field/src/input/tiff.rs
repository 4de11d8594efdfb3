//! Multi-page TIFF: pages of one channel are the slices of a volume.

use std::io::{Cursor, Read, Seek};

use tiff::decoder::{Decoder, DecodingResult, Limits};

use crate::error::ContentError;
use crate::input::checks::{ReadRequest, all_finite, voxels};
use crate::input::volume::Volume;

/// Reads a volume.
pub(crate) fn read(bytes: &[u8], wanted: &ReadRequest<'_>) -> Result<Volume, ContentError> {
    let mut limits = Limits::default();
    // With the supported codecs, a page cannot inflate to more than a thousand times the file, nor to more than this
    // limit.
    limits.decoding_buffer_size = bytes.len().saturating_mul(1100).clamp(1 << 20, 4 << 30);
    let open = || {
        let decoder = Decoder::new(wanted.stoppable(Cursor::new(bytes))).map_err(page_error(0));
        decoder.map(|decoder| decoder.with_limits(limits.clone()))
    };
    // All sizes are checked before any pixel is decoded.
    let dims = sizes(open()?)?;
    wanted.check_count(voxels(&dims)?)?;
    let [width, height, pages] = dims.map(|side| side as usize);
    let mut decoder = open()?;
    let mut values = Vec::new();
    for page in 0..pages {
        if page > 0 {
            decoder.next_image().map_err(page_error(page))?;
        }
        let before = values.len();
        macro_rules! append {
            ($pixels:expr) => {
                values.extend($pixels.into_iter().map(|v| v as f64))
            };
        }
        match decoder.read_image().map_err(page_error(page))? {
            DecodingResult::U8(pixels) => append!(pixels),
            DecodingResult::U16(pixels) => append!(pixels),
            DecodingResult::U32(pixels) => append!(pixels),
            DecodingResult::U64(pixels) => append!(pixels),
            DecodingResult::I8(pixels) => append!(pixels),
            DecodingResult::I16(pixels) => append!(pixels),
            DecodingResult::I32(pixels) => append!(pixels),
            DecodingResult::I64(pixels) => append!(pixels),
            DecodingResult::F32(pixels) => append!(pixels),
            DecodingResult::F64(pixels) => append!(pixels),
            _ => {
                let (place, expected) = (format_args!("page {page}"), "whole numbers or floats");
                return Err(ContentError::missing(place, "sample type is not read", expected));
            }
        }
        let found = values.len() - before;
        if found != width * height {
            let (place, expected) = (format_args!("page {page}"), format_args!("{} values", width * height));
            return Err(ContentError::unexpected(place, "more than one channel", expected, found));
        }
    }
    all_finite(&values)?;
    Ok(Volume::on_grid([width, height, pages], [1.0; 3], values))
}

/// Converts an error of the library for a page.
fn page_error(page: usize) -> impl Fn(tiff::TiffError) -> ContentError {
    move |error| ContentError::unread(format_args!("page {page}"), error)
}

/// Width and height, which all pages share, and the number of pages.
fn sizes(mut decoder: Decoder<impl Read + Seek>) -> Result<[u64; 3], ContentError> {
    let size = decoder.dimensions().map_err(page_error(0))?;
    let mut pages = 1;
    while decoder.more_images() {
        decoder.next_image().map_err(page_error(pages))?;
        let found = decoder.dimensions().map_err(page_error(pages))?;
        if found != size {
            let (place, expected) = (format_args!("page {pages}"), format_args!("{size:?}"));
            return Err(ContentError::unexpected(place, "another size", expected, format_args!("{found:?}")));
        }
        pages += 1;
    }
    Ok([size.0.into(), size.1.into(), pages as u64])
}
