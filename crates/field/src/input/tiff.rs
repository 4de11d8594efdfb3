//! Multi-page TIFF: pages of one channel are the slices of a volume.

use std::io::Cursor;

use tiff::decoder::{Decoder, DecodingResult, Limits};

use crate::input::{Volume, Wrong, all_finite, voxels};

/// Reads a volume.
pub(crate) fn read(bytes: &[u8]) -> Result<Volume, Wrong> {
    let mut limits = Limits::default();
    // A page cannot unpack to more than a thousandfold of the file by the codecs that are read, nor to more than this.
    limits.decoding_buffer_size = bytes.len().saturating_mul(1100).clamp(1 << 20, 4 << 30);
    let wrong = |page: usize| move |error: tiff::TiffError| format!("page {page}: {error}");
    let mut decoder = Decoder::new(Cursor::new(bytes)).map_err(wrong(0))?.with_limits(limits);
    let mut values = Vec::new();
    let mut size: Option<(u32, u32)> = None;
    let mut pages = 0;
    loop {
        let found = decoder.dimensions().map_err(wrong(pages))?;
        if *size.get_or_insert(found) != found {
            return Err(format!("page {pages}: another size (expected {size:?}, found {found:?})"));
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
                return Err(format!(
                    "page {pages}: sample type is not read (expected whole numbers or floats)"
                ));
            }
        }
        let found = (values.len() - before) as u64;
        if found != wanted {
            return Err(format!(
                "page {pages}: more than one channel (expected {wanted} values, found {found})"
            ));
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
