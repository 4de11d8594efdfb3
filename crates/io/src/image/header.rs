//! Reads size and format of an image from its first bytes, without a decoder.
//!
//! JPEG: segments ([`super::segments`]) up to the frame header SOFn, which contains precision, height, width and the
//! number of components; APP1 may contain EXIF ([`super::exif`]). PNG (W3C, 3rd edition): chunk IHDR first, eXIf before
//! IDAT. TIFF and WebP: `tiff_header.rs`, `webp_header.rs`.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use std::io::{BufRead, BufReader, Cursor, ErrorKind, Read, Seek};
use std::path::Path;

use super::exif::{EXIF, Exif, Exposure};
use super::segments::{SegmentError, Segments, marker};
use super::{ImageError, ImageProblem, MAX_DECODED_BYTES, MAX_FILE_BYTES, MAX_PIXELS, MAX_SIDE};
use super::{tiff_header, webp_header};
use crate::input;

/// A supported image format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImageFormat {
    /// JPEG, 8 bits per channel.
    Jpeg,
    /// PNG, up to 16 bits per channel.
    Png,
    /// TIFF, up to 16 bits per channel; the first image of the file.
    Tiff,
    /// WebP, 8 bits per channel.
    WebP,
}

/// The header of an image.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ImageHeader {
    /// Format, detected from the content.
    pub format: ImageFormat,
    /// Width of the stored pixels.
    pub width: u32,
    /// Height of the stored pixels.
    pub height: u32,
    /// Channels as stored: 1 (grey or palette), 2, 3 or 4.
    pub channels: u8,
    /// Bits per channel.
    pub bits: u8,
    /// EXIF orientation, 1..8; 1 if missing.
    pub orientation: u8,
    /// Exposure, if EXIF contains it.
    pub shot: Option<Exposure>,
    /// Focal length for a film of 36 x 24 mm that gives the same angle, mm, if EXIF tells it.
    pub focal_35mm: Option<f64>,
    /// Whether the decoder has to keep the coefficients of the whole image: a JPEG that is progressive or stores its
    /// components in separate scans.
    pub keeps_coefficients: bool,
    /// Whether the stored colours are multiplied by alpha.
    pub has_premultiplied_alpha: bool,
}

impl ImageHeader {
    /// Width and height after applying the EXIF orientation, px.
    #[must_use]
    pub fn upright_size(&self) -> [u32; 2] {
        if self.orientation >= 5 { [self.height, self.width] } else { [self.width, self.height] }
    }

    /// Number of pixels.
    #[must_use]
    pub fn pixels(&self) -> u64 {
        u64::from(self.width) * u64::from(self.height)
    }

    /// Peak bytes per pixel while decoding to a [`super::DecodedImage`]: the decoder's output, and the converted image if
    /// that is separate.
    #[must_use]
    pub fn decoding_bytes_per_pixel(&self) -> u64 {
        match (self.format, self.channels) {
            // Grey, then RGB in addition; the coefficients (16 bits) are freed by then.
            (ImageFormat::Jpeg, 1) => 4,
            (ImageFormat::Jpeg, channels) if self.keeps_coefficients => 3 + 2 * u64::from(channels),
            (ImageFormat::Jpeg, _) => 3,
            // A `tRNS` chunk adds an alpha channel. A palette needs less than grey with alpha.
            (ImageFormat::Png, 1 | 2) => self.sample_bytes() * 2 + 4,
            // Four channels become three in place, and alpha is a separate copy.
            (ImageFormat::Png, _) if self.sample_bytes() == 1 => 5,
            (ImageFormat::Png, _) => 8 + 4,
            // The decoder's own samples and their copy; then the copy and what it is converted to.
            (ImageFormat::Tiff, channels) => 2 * u64::from(channels.max(3)) * self.sample_bytes() + 4,
            // Colours of the decoder (YCbCr or RGBA), its output, and the separate alpha.
            (ImageFormat::WebP, _) => 4 + 4 + 1,
        }
    }

    /// Peak bytes per pixel while decoding to a [`super::Mask`].
    #[must_use]
    pub fn mask_bytes_per_pixel(&self) -> u64 {
        match (self.format, self.channels, self.sample_bytes()) {
            (ImageFormat::Jpeg, 1, _) => 3,
            (ImageFormat::Jpeg, ..) => self.decoding_bytes_per_pixel() + 1,
            (ImageFormat::Png, channels, bytes) => bytes * if channels < 3 { 2 } else { 4 } + 1,
            (ImageFormat::Tiff | ImageFormat::WebP, ..) => self.decoding_bytes_per_pixel() + 1,
        }
    }

    /// Whether images of this format may have an alpha channel.
    #[must_use]
    pub fn may_have_alpha(&self) -> bool {
        self.format != ImageFormat::Jpeg
    }

    /// Whether the image stores an alpha channel: neither a transparent entry of a palette nor a transparent colour.
    #[must_use]
    pub fn has_alpha_channel(&self) -> bool {
        self.may_have_alpha() && matches!(self.channels, 2 | 4)
    }

    fn sample_bytes(&self) -> u64 {
        u64::from(self.bits.div_ceil(8))
    }
}

/// Reads the header of an image file.
///
/// # Errors
/// The file is not a regular file, not JPEG, PNG, TIFF or WebP, damaged, or beyond the limits.
pub fn read_header(path: &Path) -> Result<ImageHeader, ImageError> {
    let error = |problem| ImageError::new(path, problem);
    let file = input::open(path, MAX_FILE_BYTES).map_err(|e| error(io(&e)))?;
    parse_header(file).map_err(error)
}

/// Reads the EXIF metadata of an image file; `None` if its header cannot be read.
#[must_use]
pub fn read_exif(path: &Path) -> Option<Exif> {
    let file = input::open(path, MAX_FILE_BYTES).ok()?;
    parse(file).ok().map(|(_, exif)| exif)
}

pub(super) fn io(error: &std::io::Error) -> ImageProblem {
    match error.kind() {
        ErrorKind::UnexpectedEof => ImageProblem::Truncated,
        _ => ImageProblem::Io(crate::atomic::plain_reason(error)),
    }
}

/// Reads the header of an image.
///
/// # Errors
/// As [`read_header`].
pub fn parse_header(source: impl Read + Seek) -> Result<ImageHeader, ImageProblem> {
    parse(source).map(|(header, _)| header)
}

fn parse(source: impl Read + Seek) -> Result<(ImageHeader, Exif), ImageProblem> {
    let mut reader = BufReader::with_capacity(4096, source);
    let mut start = Vec::new();
    (&mut reader).take(16).read_to_end(&mut start).map_err(|e| io(&e))?;
    let (header, exif) = match start.as_slice() {
        [] => return Err(ImageProblem::Empty),
        [0xFF, 0xD8, ..] => {
            reader.seek_relative(2 - start.len() as i64).map_err(|e| io(&e))?;
            jpeg_header(&mut reader)?
        }
        [0x89, b'P', b'N', b'G', 0x0D, 0x0A, 0x1A, 0x0A, ..] => {
            reader.seek_relative(8 - start.len() as i64).map_err(|e| io(&e))?;
            png_header(&mut reader)?
        }
        start if tiff_header::is_tiff(start) => tiff_header::read(&mut reader)?,
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => {
            reader.seek_relative(12 - start.len() as i64).map_err(|e| io(&e))?;
            webp_header::read(&mut reader)?
        }
        other => return Err(ImageProblem::Format(format_name(other))),
    };
    check_size(&header)?;
    Ok((header, exif))
}

fn check_size(header: &ImageHeader) -> Result<(), ImageProblem> {
    let ImageHeader { width, height, channels, bits, .. } = *header;
    if width == 0 || height == 0 {
        return Err(ImageProblem::Header(format!("size is {width}x{height} px")));
    }
    let pixels = u64::from(width) * u64::from(height);
    // A palette expands to up to four channels; everything else keeps its channels.
    let bytes_per_pixel = u64::from(channels.max(3)) * u64::from(bits.div_ceil(8));
    if width > MAX_SIDE
        || height > MAX_SIDE
        || pixels > MAX_PIXELS
        || pixels * bytes_per_pixel > MAX_DECODED_BYTES
    {
        return Err(ImageProblem::Size { width, height });
    }
    Ok(())
}

/// Name of the format of a file that is not supported.
fn format_name(start: &[u8]) -> &'static str {
    match start {
        [b'G', b'I', b'F', b'8', ..] => "GIF",
        [b'B', b'M', ..] => "BMP",
        [_, _, _, _, b'f', b't', b'y', b'p', b'a', b'v', b'i', b'f', ..] => "AVIF",
        // Brands of HEIF: heic, heix, hevc, mif1, msf1; `mp41` and `mp42` are videos.
        [_, _, _, _, b'f', b't', b'y', b'p', b'h', b'e', ..]
        | [_, _, _, _, b'f', b't', b'y', b'p', b'm', b'i' | b's', ..] => "HEIC",
        [_, _, _, _, b'f', b't', b'y', b'p', b'c', b'r', b'x', ..]
        | [b'F', b'U', b'J', b'I', b'F', b'I', b'L', b'M', ..] => "a raw photograph",
        [b'I', b'I', b'R' | b'U', ..] | [b'M', b'M', b'O', b'R', ..] => "a raw photograph",
        [_, _, _, _, b'f', b't', b'y', b'p', ..] => "a video",
        [0xFF, 0x0A, ..] | [0, 0, 0, 0x0C, b'J', b'X', b'L', ..] => "JPEG XL",
        [0x76, 0x2F, 0x31, 0x01, ..] => "OpenEXR",
        [b'%', b'P', b'D', b'F', ..] => "PDF",
        [b'v', b'e', b'r', b's', b'i', b'o', b'n', b' ', ..] => "a Git LFS pointer (run `git lfs pull`)",
        _ => "of an unknown format",
    }
}

impl From<SegmentError> for ImageProblem {
    fn from(error: SegmentError) -> Self {
        match error {
            SegmentError::Io(error) => io(&error),
            other => Self::Header(other.to_string()),
        }
    }
}

pub(super) fn take<const N: usize>(reader: &mut impl Read) -> Result<[u8; N], ImageProblem> {
    let mut bytes = [0; N];
    reader.read_exact(&mut bytes).map_err(|e| io(&e))?;
    Ok(bytes)
}

/// Reads segments after the start marker up to the frame header.
fn jpeg_header(source: impl BufRead + Seek) -> Result<(ImageHeader, Exif), ImageProblem> {
    let mut segments = Segments::new(source);
    let mut exif = Exif::default();
    loop {
        match segments.next_marker()? {
            marker::EOI | marker::SOS => {
                return Err(ImageProblem::Header("no JPEG frame header before the image data".to_owned()));
            }
            frame if marker::is_frame(frame) => {
                let [bits, h1, h0, w1, w0, channels] = segments.take()?;
                let (height, width) = (u16::from_be_bytes([h1, h0]), u16::from_be_bytes([w1, w0]));
                let mut header = jpeg_frame(frame, bits, width, height, channels, &exif)?;
                header.keeps_coefficients |=
                    first_scan(&mut segments).is_none_or(|in_scan| in_scan < channels);
                return Ok((header, exif));
            }
            marker::APP1 => {
                if let Some(tiff) = segments.content()?.strip_prefix(EXIF) {
                    exif = Exif::read(tiff).fill_from(exif);
                }
            }
            _ => {}
        }
    }
}

fn jpeg_frame(
    marker: u8,
    bits: u8,
    width: u16,
    height: u16,
    channels: u8,
    exif: &Exif,
) -> Result<ImageHeader, ImageProblem> {
    let kind = match marker {
        0xC0..=0xC2 => None,
        0xC3 | 0xC7 | 0xCB | 0xCF => Some("lossless JPEG"),
        0xC9 | 0xCA => Some("JPEG with arithmetic coding"),
        _ => Some("hierarchical JPEG"),
    };
    if let Some(kind) = kind {
        return Err(ImageProblem::Variant(kind.to_owned(), "baseline or progressive"));
    }
    if bits != 8 {
        return Err(ImageProblem::Variant(format!("{bits}-bit JPEG"), "8 bits"));
    }
    if !matches!(channels, 1 | 3 | 4) {
        return Err(ImageProblem::Variant(format!("JPEG with {channels} channels"), "1, 3 or 4"));
    }
    Ok(ImageHeader {
        format: ImageFormat::Jpeg,
        width: u32::from(width),
        height: u32::from(height),
        channels,
        bits,
        orientation: exif.orientation.unwrap_or(1),
        shot: exif.shot,
        focal_35mm: exif.focal_35mm,
        keeps_coefficients: marker == 0xC2,
        has_premultiplied_alpha: false,
    })
}

/// Number of channels in the first scan after a frame header; `None` if the file ends earlier.
fn first_scan(segments: &mut Segments<impl BufRead + Seek>) -> Option<u8> {
    loop {
        match segments.next_marker().ok()? {
            marker::SOS => return segments.take().ok().map(|[channels]| channels),
            marker::EOI => return None,
            _ => {}
        }
    }
}

/// Reads the chunks after the signature up to the first with image data.
fn png_header<R: Read + Seek>(reader: &mut BufReader<R>) -> Result<(ImageHeader, Exif), ImageProblem> {
    let length = u32::from_be_bytes(take(reader)?);
    if (length, &take::<4>(reader)?) != (13, b"IHDR") {
        return Err(ImageProblem::Header("PNG does not begin with IHDR".to_owned()));
    }
    let width = u32::from_be_bytes(take(reader)?);
    let height = u32::from_be_bytes(take(reader)?);
    let [bits, colour, _, _, _] = take(reader)?;
    // Checksum.
    take::<4>(reader)?;
    let channels = match colour {
        0 | 3 => 1,
        2 => 3,
        4 => 2,
        6 => 4,
        _ => return Err(ImageProblem::Header(format!("PNG colour type is {colour}"))),
    };
    if !matches!(bits, 1 | 2 | 4 | 8 | 16) {
        return Err(ImageProblem::Header(format!("PNG bit depth is {bits}")));
    }
    let mut exif = Exif::default();
    loop {
        let length = u32::from_be_bytes(take(reader)?);
        match &take::<4>(reader)? {
            b"IDAT" | b"IEND" => break,
            b"eXIf" => {
                // EXIF is limited to 64 KiB in JPEG; the same limit is used here.
                let mut data = vec![0; length.min(1 << 16) as usize];
                reader.read_exact(&mut data).map_err(|e| io(&e))?;
                exif = Exif::read(&data);
                break;
            }
            _ => reader.seek_relative(i64::from(length) + 4).map_err(|e| io(&e))?,
        }
    }
    let header = ImageHeader {
        format: ImageFormat::Png,
        width,
        height,
        channels,
        bits,
        orientation: exif.orientation.unwrap_or(1),
        shot: exif.shot,
        focal_35mm: exif.focal_35mm,
        keeps_coefficients: false,
        has_premultiplied_alpha: false,
    };
    Ok((header, exif))
}

/// Checks all segments of a JPEG up to its end marker.
///
/// Decoders silently fill missing parts with grey, and a half-grey image must not be trained on. They also accept a
/// second frame header, which contradicts what they allocated for the first.
///
/// # Errors
/// The end marker or a segment is missing, or there is a second frame header or start marker.
pub(super) fn check_jpeg(bytes: &[u8]) -> Result<(), ImageProblem> {
    let damaged = |what: &str| Err(ImageProblem::Header(what.to_owned()));
    let mut segments = Segments::new(Cursor::new(bytes.get(2..).unwrap_or_default()));
    let mut frames = 0;
    loop {
        match segments.next_marker()? {
            marker::EOI => return Ok(()),
            marker::SOI => return damaged("a second JPEG begins inside the first"),
            marker::SOS => segments.skip_scan()?,
            frame if marker::is_frame(frame) => frames += 1,
            _ => {}
        }
        if frames > 1 {
            return damaged("a second JPEG frame header");
        }
    }
}
