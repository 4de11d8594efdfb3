//! Encoding without losses: to PNG, with text chunks, and to WebP.

use image_webp::{ColorType as WebpColour, WebPEncoder};
use png::{BitDepth, ColorType, Compression, Encoder, EncodingError};

/// Kind of pixels to encode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PngPixels<'a> {
    /// One byte a pixel.
    Grey8(&'a [u8]),
    /// One value a pixel.
    Grey16(&'a [u16]),
    /// Three bytes a pixel.
    Rgb8(&'a [u8]),
    /// Four bytes a pixel, straight alpha last.
    Rgba8(&'a [u8]),
}

/// A PNG file; `texts` are Latin-1 keyword and text pairs (for example the unit of a depth picture).
///
/// # Errors
/// Pixels that do not fill `width × height`, a size of 0, or a text that is not Latin-1.
pub fn png(
    width: u32,
    height: u32,
    pixels: PngPixels<'_>,
    texts: &[(&str, &str)],
) -> Result<Vec<u8>, EncodingError> {
    let mut out = Vec::new();
    let mut encoder = Encoder::new(&mut out, width, height);
    let (colour, depth) = match pixels {
        PngPixels::Grey8(_) => (ColorType::Grayscale, BitDepth::Eight),
        PngPixels::Grey16(_) => (ColorType::Grayscale, BitDepth::Sixteen),
        PngPixels::Rgb8(_) => (ColorType::Rgb, BitDepth::Eight),
        PngPixels::Rgba8(_) => (ColorType::Rgba, BitDepth::Eight),
    };
    encoder.set_color(colour);
    encoder.set_depth(depth);
    encoder.set_compression(Compression::Fast);
    for (keyword, text) in texts {
        encoder.add_text_chunk((*keyword).to_owned(), (*text).to_owned())?;
    }
    let mut writer = encoder.write_header()?;
    match pixels {
        PngPixels::Grey8(data) | PngPixels::Rgb8(data) | PngPixels::Rgba8(data) => {
            writer.write_image_data(data)?;
        }
        PngPixels::Grey16(data) => {
            let bytes: Vec<u8> = data.iter().flat_map(|v| v.to_be_bytes()).collect();
            writer.write_image_data(&bytes)?;
        }
    }
    writer.finish()?;
    Ok(out)
}

/// An 8-bit RGB picture as PNG.
///
/// # Errors
/// As [`png()`].
pub fn png_rgb8(picture: &gausset_core::RgbImage8) -> Result<Vec<u8>, EncodingError> {
    png(picture.width, picture.height, PngPixels::Rgb8(&picture.data), &[])
}

/// A lossless WebP file of pixels with straight alpha, four bytes each.
///
/// # Errors
/// Pixels that do not fill `width × height`, a side of 0 or above 16,384 px.
pub fn webp_rgba8(width: u32, height: u32, rgba: &[u8]) -> Result<Vec<u8>, image_webp::EncodingError> {
    let mut out = Vec::new();
    WebPEncoder::new(&mut out).encode(rgba, width, height, WebpColour::Rgba8)?;
    Ok(out)
}
