//! Lossless encoding: PNG with text chunks, and WebP.

use image_webp::{ColorType as WebpColour, WebPEncoder};
pub use png::EncodingError;
use png::{BitDepth, ColorType, Compression, Encoder};

/// Kind of pixels to encode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PngPixels<'a> {
    /// One byte per pixel.
    Grey8(&'a [u8]),
    /// One value per pixel.
    Grey16(&'a [u16]),
    /// Three bytes per pixel.
    Rgb8(&'a [u8]),
    /// Four bytes per pixel, straight alpha last.
    Rgba8(&'a [u8]),
}

/// Encodes a PNG file; `texts` are Latin-1 keyword and text pairs (for example the unit of a depth image).
///
/// ```
/// use gausset_io::image::encode::{PngPixels, png};
///
/// // A depth map in millimetres.
/// let bytes = png(2, 1, PngPixels::Grey16(&[1500, 0]), &[("unit", "mm")])?;
/// assert!(bytes.starts_with(b"\x89PNG"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// The pixels do not fill `width × height`, the size is 0, or a text is not Latin-1.
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

/// Encodes an 8-bit RGB image as PNG.
///
/// # Errors
/// As [`png()`].
pub fn png_rgb8(picture: &gausset_core::RgbImage8) -> Result<Vec<u8>, EncodingError> {
    png(picture.width, picture.height, PngPixels::Rgb8(&picture.data), &[])
}

/// Encodes a lossless WebP file with straight alpha, four bytes per pixel.
///
/// # Errors
/// The pixels do not fill `width × height`, or a side is 0 or above 16,384 px.
pub fn webp_rgba8(width: u32, height: u32, rgba: &[u8]) -> Result<Vec<u8>, image_webp::EncodingError> {
    let mut out = Vec::new();
    WebPEncoder::new(&mut out).encode(rgba, width, height, WebpColour::Rgba8)?;
    Ok(out)
}
