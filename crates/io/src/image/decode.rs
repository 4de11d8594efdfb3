//! Decoding to 8-bit RGB with optional alpha.
//!
//! All variants are converted to one form: grey and palettes are expanded, 16 bits are rounded to 8, alpha is straight,
//! CMYK is converted by the decoder. An alpha channel that is opaque everywhere is dropped.
//!
//! The result does not depend on the CPU: the JPEG decoder (zune-jpeg 0.5) gave equal pixels with and without SIMD on
//! 60 photographs, 73 million values.

use std::io::Cursor;
use std::path::Path;

use image::{DynamicImage, ImageDecoder, ImageReader, Limits};

use super::header::{self, ImageFormat, ImageHeader, parse_header};
use super::{DecodedImage, ImageError, ImageProblem, MAX_DECODED_BYTES, MAX_FILE_BYTES, MAX_SIDE, Mask};
use crate::catch_panic;

/// Reads and decodes an image file.
///
/// # Errors
/// As [`super::read_header`], or the decoder fails, or the file is truncated.
pub fn decode_file(path: &Path) -> Result<DecodedImage, ImageError> {
    read(path).and_then(|bytes| decode(&bytes)).map_err(|problem| ImageError::new(path, problem))
}

/// Reads and decodes a mask file from its colour channels; of an image of one colour, from its alpha.
///
/// # Errors
/// As [`decode_file`].
pub fn decode_mask_file(path: &Path) -> Result<Mask, ImageError> {
    read(path).and_then(|bytes| decode_mask(&bytes)).map_err(|problem| ImageError::new(path, problem))
}

/// Decodes a mask.
///
/// # Errors
/// As [`decode_file`].
pub fn decode_mask(bytes: &[u8]) -> Result<Mask, ImageProblem> {
    decode_pixels(bytes).map(to_mask)
}

/// Reads a whole image file within the limits.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, ImageProblem> {
    crate::input::read(path, MAX_FILE_BYTES).map_err(|e| header::io(&e))
}

/// Decodes an image.
///
/// ```
/// use gausset_core::RgbImage8;
/// use gausset_io::image::{decode, encode::png_rgb8};
///
/// let image = RgbImage8 { width: 2, height: 1, data: vec![255, 0, 0, 0, 0, 255] };
/// let decoded = decode(&png_rgb8(&image)?)?;
/// assert_eq!((decoded.width, decoded.rgb, decoded.alpha), (2, image.data, None));
/// assert!(decode(b"not an image").is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// As [`decode_file`].
pub fn decode(bytes: &[u8]) -> Result<DecodedImage, ImageProblem> {
    decode_pixels(bytes).map(to_picture)
}

/// Decodes the pixels in their stored format.
fn decode_pixels(bytes: &[u8]) -> Result<DynamicImage, ImageProblem> {
    let head = parse_header(Cursor::new(bytes))?;
    if head.format == ImageFormat::Jpeg {
        header::check_jpeg(bytes)?;
    }
    decode_guarded(|| {
        let decoder = open_decoder(bytes, &head)?;
        let mut image =
            DynamicImage::from_decoder(decoder).map_err(|e| ImageProblem::Decode(decoder_reason(&e)))?;
        if head.has_premultiplied_alpha {
            divide_by_alpha(&mut image);
        }
        Ok(image)
    })
}

/// Divides the colours of an image by its alpha, where that is not 0.
fn divide_by_alpha(image: &mut DynamicImage) {
    fn divide<T: Copy + Into<u32> + TryFrom<u32>>(pixels: &mut [T], most: T) {
        for [colour @ .., alpha] in pixels.as_chunks_mut::<4>().0 {
            let (alpha, most_wide): (u32, u32) = ((*alpha).into(), most.into());
            if alpha > 0 {
                // At most 65535², plus half of 65535: it fits into 32 bits.
                colour.iter_mut().for_each(|v| {
                    *v = T::try_from(((*v).into() * most_wide + alpha / 2) / alpha).unwrap_or(most);
                });
            }
        }
    }
    match image {
        DynamicImage::ImageRgba8(pixels) => divide(pixels, u8::MAX),
        DynamicImage::ImageRgba16(pixels) => divide(pixels, u16::MAX),
        _ => {}
    }
}

/// The decoder of an image, within the limits. It has read the header and checked whether it can decode the variant.
pub(super) fn open_decoder<'a>(
    bytes: &'a [u8],
    head: &ImageHeader,
) -> Result<impl ImageDecoder + 'a, ImageProblem> {
    let format = match head.format {
        ImageFormat::Jpeg => image::ImageFormat::Jpeg,
        ImageFormat::Png => image::ImageFormat::Png,
        ImageFormat::Tiff => image::ImageFormat::Tiff,
        ImageFormat::WebP => image::ImageFormat::WebP,
    };
    let mut reader = ImageReader::with_format(Cursor::new(bytes), format);
    let mut limits = Limits::default();
    limits.max_image_width = Some(MAX_SIDE);
    limits.max_image_height = Some(MAX_SIDE);
    limits.max_alloc = Some(MAX_DECODED_BYTES);
    reader.limits(limits);
    let decoder = reader.into_decoder().map_err(|e| ImageProblem::Decode(decoder_reason(&e)))?;
    if decoder.dimensions() != (head.width, head.height) || decoder.total_bytes() > MAX_DECODED_BYTES {
        let (width, height) = decoder.dimensions();
        return Err(ImageProblem::Size { width, height });
    }
    Ok(decoder)
}

/// Whether this thread is inside a third-party decoder or other guarded work, whose panics become errors of the image.
///
/// A panic hook that prints or exits should check this and do nothing if it is true.
#[must_use]
pub fn decoder_is_running() -> bool {
    catch_panic::is_active()
}

/// Runs an image decoder and turns a panic into an error.
pub(super) fn decode_guarded<T>(
    decoder: impl FnOnce() -> Result<T, ImageProblem>,
) -> Result<T, ImageProblem> {
    catch_decoder_panic(decoder)
        .unwrap_or_else(|| Err(ImageProblem::Decode("the decoder broke down; convert it".to_owned())))
}

/// Runs a third-party decoder on untrusted bytes; `None` if it panicked.
///
/// Fuzzing found such panics (zune-jpeg 0.5.15 panics on chroma sampled more finely than luma,
/// `fuzz/corpus/image_decode/chroma_finer_than_luma.jpg`). They are treated as faults of the file, not of the run.
pub fn catch_decoder_panic<T>(decoder: impl FnOnce() -> T) -> Option<T> {
    // The decoder works on its own values, which are not used after a panic.
    catch_panic::catch(decoder).ok()
}

/// The reason of a decoder error, for one line.
fn decoder_reason(error: &image::ImageError) -> String {
    reason_of(&error.to_string())
}

/// The text of a decoder error as a reason, for one line.
pub(super) fn reason_of(text: &str) -> String {
    if text.to_lowercase().contains("unexpected end") {
        return "the file ends too early; copy it again".to_owned();
    }
    // "Format error decoding Png: CRC error: …" repeats the format.
    let reason = text.split_once(" decoding ").and_then(|(_, rest)| rest.split_once(": ")).map(|(_, r)| r);
    crate::text::excerpt(reason.unwrap_or(text).trim_end_matches('.'))
}

/// Rounds 16 bits to 8.
fn to_8_bit(v: u16) -> u8 {
    ((u32::from(v) + 128) / 257) as u8
}

/// Converts decoded pixels of any format to 8-bit RGB with optional alpha.
#[must_use]
pub fn to_picture(image: DynamicImage) -> DecodedImage {
    let (width, height) = (image.width(), image.height());
    let grey = |v: u8| [v, v, v];
    let (rgb, alpha): (Vec<u8>, Option<Vec<u8>>) = match image {
        DynamicImage::ImageRgb8(b) => (b.into_raw(), None),
        DynamicImage::ImageLuma8(b) => (colours(b.iter().map(|&v| grey(v))), None),
        DynamicImage::ImageLuma16(b) => (colours(b.iter().map(|&v| grey(to_8_bit(v)))), None),
        DynamicImage::ImageRgb16(b) => (b.iter().map(|&v| to_8_bit(v)).collect(), None),
        DynamicImage::ImageLumaA8(b) => split(b.chunks_exact(2).map(|p| ([p[0]; 3], p[1]))),
        DynamicImage::ImageLumaA16(b) => {
            split(b.chunks_exact(2).map(|p| (grey(to_8_bit(p[0])), to_8_bit(p[1]))))
        }
        DynamicImage::ImageRgba16(b) => split(
            b.chunks_exact(4).map(|p| ([to_8_bit(p[0]), to_8_bit(p[1]), to_8_bit(p[2])], to_8_bit(p[3]))),
        ),
        other => split_in_place(other.into_rgba8().into_raw()),
    };
    let alpha = alpha.filter(|alpha| alpha.iter().any(|&a| a != 255));
    DecodedImage { width, height, rgb, alpha }
}

fn colours(pixels: impl ExactSizeIterator<Item = [u8; 3]>) -> Vec<u8> {
    let mut rgb = Vec::with_capacity(pixels.len() * 3);
    pixels.for_each(|colour| rgb.extend(colour));
    rgb
}

fn split(pixels: impl ExactSizeIterator<Item = ([u8; 3], u8)>) -> (Vec<u8>, Option<Vec<u8>>) {
    let mut rgb = Vec::with_capacity(pixels.len() * 3);
    let mut alpha = Vec::with_capacity(pixels.len());
    for (colour, a) in pixels {
        rgb.extend(colour);
        alpha.push(a);
    }
    (rgb, Some(alpha))
}

/// Splits RGBA pixels into colours and alpha; the colours are compacted in place.
fn split_in_place(mut rgba: Vec<u8>) -> (Vec<u8>, Option<Vec<u8>>) {
    let alpha: Vec<u8> = rgba.chunks_exact(4).map(|p| p[3]).collect();
    for i in 0..alpha.len() {
        rgba.copy_within(4 * i..4 * i + 3, 3 * i);
    }
    rgba.truncate(3 * alpha.len());
    rgba.shrink_to_fit();
    (rgba, Some(alpha))
}

/// Converts an image to a mask with one byte per pixel. The largest colour channel decides: 255 from 128 on, else 0. If
/// all values are below 128, for example in a mask of 0 and 1, every value above 0 becomes 255. An image of one colour
/// whose alpha has a shape is a mask by its alpha.
fn to_mask(image: DynamicImage) -> Mask {
    fn keep<T: Copy>(pixels: &[T], channels: usize, byte: impl Fn(T) -> u8) -> Vec<u8> {
        let colours = if channels < 3 { 1 } else { 3 };
        let brightest = |pixel: &[T]| pixel[..colours].iter().map(|&v| byte(v)).max().unwrap_or(0);
        pixels.chunks_exact(channels).map(brightest).collect()
    }
    let (width, height) = (image.width(), image.height());
    let alpha = alpha_of_one_colour(&image);
    let mut keep = match image {
        _ if alpha.is_some() => alpha.unwrap_or_default(),
        DynamicImage::ImageLuma8(b) => b.into_raw(),
        DynamicImage::ImageLumaA8(b) => keep(&b, 2, |v| v),
        DynamicImage::ImageRgb8(b) => keep(&b, 3, |v| v),
        DynamicImage::ImageLuma16(b) => keep(&b, 1, to_8_bit),
        DynamicImage::ImageLumaA16(b) => keep(&b, 2, to_8_bit),
        DynamicImage::ImageRgb16(b) => keep(&b, 3, to_8_bit),
        DynamicImage::ImageRgba16(b) => keep(&b, 4, to_8_bit),
        other => keep(&other.into_rgba8(), 4, |v| v),
    };
    let least = if keep.iter().all(|v| *v < 128) { 1 } else { 128 };
    keep.iter_mut().for_each(|v| *v = if *v < least { 0 } else { 255 });
    Mask { width, height, values: keep }
}

/// The alpha of an image that has one colour everywhere, if it differs between pixels; of a white one, if it is not opaque
/// everywhere.
fn alpha_of_one_colour(image: &DynamicImage) -> Option<Vec<u8>> {
    fn alpha<T: Copy + PartialEq>(
        pixels: &[T],
        channels: usize,
        white: T,
        byte: impl Fn(T) -> u8,
    ) -> Option<Vec<u8>> {
        let (colour, of_first) = pixels.get(..channels)?.split_at(channels - 1);
        let has_one_colour = pixels.chunks_exact(channels).all(|pixel| pixel[..channels - 1] == *colour);
        let is_white = colour.iter().all(|v| *v == white);
        let alpha = || pixels.iter().skip(channels - 1).step_by(channels);
        let has_shape = alpha().any(|v| *v != of_first[0] || is_white && *v != white);
        (has_one_colour && has_shape).then(|| alpha().map(|&v| byte(v)).collect())
    }
    match image {
        DynamicImage::ImageLumaA8(b) => alpha(b, 2, 255, |v| v),
        DynamicImage::ImageRgba8(b) => alpha(b, 4, 255, |v| v),
        DynamicImage::ImageLumaA16(b) => alpha(b, 2, 65535, to_8_bit),
        DynamicImage::ImageRgba16(b) => alpha(b, 4, 65535, to_8_bit),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use image::RgbaImage;

    use super::*;

    #[test]
    fn an_image_of_one_colour_is_a_mask_by_its_alpha() {
        let mask = |pixels: [[u8; 4]; 3]| {
            let image = RgbaImage::from_raw(3, 1, pixels.concat()).unwrap();
            to_mask(DynamicImage::ImageRgba8(image)).values
        };
        for colour in [0, 90, 255] {
            let pixel = |alpha| [colour, 0, colour, alpha];
            assert_eq!(mask([0, 255, 200].map(pixel)), [0, 255, 255], "{colour}");
        }
        // Without a shape, the colours decide; a white one that is transparent keeps nothing.
        assert_eq!(mask([[0, 0, 0, 255]; 3]), [0; 3]);
        assert_eq!(mask([[0, 0, 0, 100]; 3]), [0; 3]);
        assert_eq!(mask([[255, 255, 255, 0]; 3]), [0; 3]);
        assert_eq!(mask([[255, 255, 255, 255], [0, 0, 0, 0], [255, 255, 255, 100]]), [255, 0, 255]);
    }

    #[test]
    fn a_decoder_that_panics_gives_no_value_and_others_may_be_running_around_it() {
        let outer = catch_decoder_panic(|| {
            assert_eq!(catch_decoder_panic(|| -> u8 { panic!("a fault of the file") }), None);
            // The panic hook must still know that a decoder is running.
            decoder_is_running()
        });
        assert_eq!(outer, Some(true));
        assert!(!decoder_is_running());
    }
}
