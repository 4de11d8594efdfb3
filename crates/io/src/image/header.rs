//! Size and kind of a picture from its first bytes, without a decoder.
//!
//! JPEG (ITU T.81, annex B): segments `FF marker length …` up to the frame header SOFn, which has precision,
//! height, width and the number of components; APP1 may hold EXIF. PNG (W3C, 3rd edition): chunk IHDR first, eXIf
//! before IDAT.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use std::io::{BufReader, ErrorKind, Read, Seek};
use std::path::Path;

use super::{ImageError, ImageProblem, MAX_DECODED_BYTES, MAX_FILE_BYTES, MAX_PIXELS, MAX_SIDE};
use crate::input;

/// A format that is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PictureFormat {
    /// JPEG.
    Jpeg,
    /// PNG.
    Png,
}

/// What the header of a picture says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Format, from the content.
    pub format: PictureFormat,
    /// Width of the stored pixels.
    pub width: u32,
    /// Height of the stored pixels.
    pub height: u32,
    /// Channels as stored: 1 (grey or palette), 2, 3 or 4.
    pub channels: u8,
    /// Bits a channel.
    pub bits: u8,
    /// EXIF orientation, 1..8; 1 when there is none.
    pub orientation: u8,
    /// How it was exposed, if EXIF says it.
    pub shot: Option<Shot>,
    /// Whether the decoder has to keep the coefficients of the whole picture: a JPEG that is progressive, or that has
    /// its colours one after the other.
    pub keeps_coefficients: bool,
}

/// How a photograph was exposed (EXIF: ExposureTime, FNumber, PhotographicSensitivity).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shot {
    /// Seconds, as numerator and denominator.
    pub time: [u32; 2],
    /// Focal length in diameters of the aperture, as numerator and denominator.
    pub f_number: [u32; 2],
    /// ISO speed.
    pub iso: u32,
}

impl Shot {
    /// How bright the picture shows a scene, in stops: `log2(t ISO / (100 N²))`, the negative of the scene's EV.
    #[must_use]
    pub fn stops(&self) -> f64 {
        let of = |[numerator, denominator]: [u32; 2]| f64::from(numerator) / f64::from(denominator);
        libm::log2(of(self.time) * f64::from(self.iso) / 100.0 / of(self.f_number).powi(2))
    }
}

impl Header {
    /// Pixels.
    #[must_use]
    pub fn pixels(&self) -> u64 {
        u64::from(self.width) * u64::from(self.height)
    }

    /// Bytes a pixel at the height of decoding to a [`super::Picture`]: what the decoder gives, beside what is made of
    /// it where that is something else.
    #[must_use]
    pub fn decoding_bytes_per_pixel(&self) -> u64 {
        match (self.format, self.channels) {
            // Grey, then three times grey beside it; the coefficients (16 bits) are gone by then.
            (PictureFormat::Jpeg, 1) => 4,
            (PictureFormat::Jpeg, channels) if self.keeps_coefficients => 3 + 2 * u64::from(channels),
            (PictureFormat::Jpeg, _) => 3,
            // A chunk `tRNS` adds a channel of alpha. A palette needs less than grey with alpha.
            (PictureFormat::Png, 1 | 2) => self.sample_bytes() * 2 + 4,
            // Four channels become three in place, beside the fourth.
            (PictureFormat::Png, _) if self.sample_bytes() == 1 => 5,
            (PictureFormat::Png, _) => 8 + 4,
        }
    }

    /// Bytes a pixel at the height of decoding to a [`super::Mask`].
    #[must_use]
    pub fn mask_bytes_per_pixel(&self) -> u64 {
        match (self.format, self.channels, self.sample_bytes()) {
            (PictureFormat::Jpeg, 1, _) => 3,
            (PictureFormat::Jpeg, ..) => self.decoding_bytes_per_pixel() + 1,
            (PictureFormat::Png, channels, bytes) => bytes * if channels < 3 { 2 } else { 4 } + 1,
        }
    }

    fn sample_bytes(&self) -> u64 {
        u64::from(self.bits.div_ceil(8))
    }
}

/// Reads the header of a picture file.
///
/// # Errors
/// Not a regular file, not JPEG or PNG, damaged, or beyond the limits.
pub fn read_header(path: &Path) -> Result<Header, ImageError> {
    let error = |problem| ImageError::new(path, problem);
    let file = input::open(path, MAX_FILE_BYTES).map_err(|e| error(io(&e)))?;
    parse_header(file).map_err(error)
}

pub(super) fn io(error: &std::io::Error) -> ImageProblem {
    match error.kind() {
        ErrorKind::UnexpectedEof => ImageProblem::Truncated,
        _ => ImageProblem::Io(crate::atomic::plain_reason(error)),
    }
}

/// Reads the header of a picture.
///
/// # Errors
/// As [`read_header`].
pub fn parse_header(source: impl Read + Seek) -> Result<Header, ImageProblem> {
    let mut reader = BufReader::with_capacity(4096, source);
    let mut start = Vec::new();
    (&mut reader).take(16).read_to_end(&mut start).map_err(|e| io(&e))?;
    let header = match start.as_slice() {
        [] => return Err(ImageProblem::Empty),
        [0xFF, 0xD8, ..] => {
            reader.seek_relative(2 - start.len() as i64).map_err(|e| io(&e))?;
            jpeg_header(&mut reader)?
        }
        [0x89, b'P', b'N', b'G', 0x0D, 0x0A, 0x1A, 0x0A, ..] => {
            reader.seek_relative(8 - start.len() as i64).map_err(|e| io(&e))?;
            png_header(&mut reader)?
        }
        other => return Err(ImageProblem::Format(name_of(other))),
    };
    check_size(&header)?;
    Ok(header)
}

fn check_size(header: &Header) -> Result<(), ImageProblem> {
    let Header { width, height, channels, bits, .. } = *header;
    if width == 0 || height == 0 {
        return Err(ImageProblem::Header(format!("size is {width}x{height} px")));
    }
    let pixels = u64::from(width) * u64::from(height);
    // A palette becomes up to four channels; everything else stays what it is.
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

/// What a file that is neither JPEG nor PNG seems to be.
fn name_of(start: &[u8]) -> &'static str {
    match start {
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => "WebP",
        [b'G', b'I', b'F', b'8', ..] => "GIF",
        [b'B', b'M', ..] => "BMP",
        [b'I', b'I', 42, 0, ..] | [b'M', b'M', 0, 42, ..] => "TIFF or a raw format",
        [_, _, _, _, b'f', b't', b'y', b'p', b'a', b'v', b'i', b'f', ..] => "AVIF",
        [_, _, _, _, b'f', b't', b'y', b'p', b'h' | b'm', ..] => "HEIC",
        [_, _, _, _, b'f', b't', b'y', b'p', ..] => "a video",
        [0xFF, 0x0A, ..] | [0, 0, 0, 0x0C, b'J', b'X', b'L', ..] => "JPEG XL",
        [0x76, 0x2F, 0x31, 0x01, ..] => "OpenEXR",
        [b'%', b'P', b'D', b'F', ..] => "PDF",
        [b'v', b'e', b'r', b's', b'i', b'o', b'n', b' ', ..] => "a Git LFS pointer (run `git lfs pull`)",
        _ => "of an unknown format",
    }
}

fn take<const N: usize>(reader: &mut impl Read) -> Result<[u8; N], ImageProblem> {
    let mut bytes = [0; N];
    reader.read_exact(&mut bytes).map_err(|e| io(&e))?;
    Ok(bytes)
}

/// Reads segments after the start marker up to the frame header.
fn jpeg_header<R: Read + Seek>(reader: &mut BufReader<R>) -> Result<Header, ImageProblem> {
    let mut exif = Exif::default();
    loop {
        let [mut byte] = take::<1>(reader)?;
        if byte != 0xFF {
            return Err(ImageProblem::Header("a JPEG marker is missing".to_owned()));
        }
        while byte == 0xFF {
            [byte] = take(reader)?;
        }
        let marker = byte;
        // TEM, RSTn: no length.
        if marker == 0x01 || (0xD0..=0xD7).contains(&marker) {
            continue;
        }
        if marker == 0xD9 || marker == 0xDA {
            return Err(ImageProblem::Header("no JPEG frame header before the picture data".to_owned()));
        }
        let length = u16::from_be_bytes(take(reader)?);
        let Some(length) = length.checked_sub(2) else {
            return Err(ImageProblem::Header("a JPEG segment has a length below 2".to_owned()));
        };
        match marker {
            // SOFn without DHT (C4), JPG (C8) and DAC (CC).
            0xC0..=0xCF if !matches!(marker, 0xC4 | 0xC8 | 0xCC) => {
                let [bits] = take(reader)?;
                let height = u16::from_be_bytes(take(reader)?);
                let width = u16::from_be_bytes(take(reader)?);
                let [channels] = take(reader)?;
                let mut header = jpeg_frame(marker, bits, width, height, channels, exif)?;
                // Precision, height, width and the number of channels are read.
                let in_first_scan = length.checked_sub(6).and_then(|rest| first_scan(reader, rest));
                header.keeps_coefficients |= in_first_scan.is_none_or(|in_scan| in_scan < channels);
                return Ok(header);
            }
            0xE1 => {
                let mut data = vec![0; usize::from(length)];
                reader.read_exact(&mut data).map_err(|e| io(&e))?;
                if let Some(tiff) = data.strip_prefix(b"Exif\0\0") {
                    exif = Exif::read(tiff).or(exif);
                }
            }
            _ => reader.seek_relative(i64::from(length)).map_err(|e| io(&e))?,
        }
    }
}

fn jpeg_frame(
    marker: u8,
    bits: u8,
    width: u16,
    height: u16,
    channels: u8,
    exif: Exif,
) -> Result<Header, ImageProblem> {
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
    Ok(Header {
        format: PictureFormat::Jpeg,
        width: u32::from(width),
        height: u32::from(height),
        channels,
        bits,
        orientation: exif.orientation.unwrap_or(1),
        shot: exif.shot,
        keeps_coefficients: marker == 0xC2,
    })
}

/// Channels in the first scan, behind a frame header of which `rest` bytes are left; `None` if the file does not get that
/// far.
fn first_scan<R: Read + Seek>(reader: &mut BufReader<R>, rest: u16) -> Option<u8> {
    reader.seek_relative(i64::from(rest)).ok()?;
    loop {
        let [mut byte] = take::<1>(reader).ok().filter(|&[byte]| byte == 0xFF)?;
        while byte == 0xFF {
            [byte] = take(reader).ok()?;
        }
        let rest = u16::from_be_bytes(take(reader).ok()?).checked_sub(2)?;
        if byte == 0xDA {
            return take(reader).ok().map(|[channels]| channels);
        }
        reader.seek_relative(i64::from(rest)).ok()?;
    }
}

/// Reads the chunks after the signature up to the first with picture data.
fn png_header<R: Read + Seek>(reader: &mut BufReader<R>) -> Result<Header, ImageProblem> {
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
                // EXIF is bounded by 64 KiB in JPEG; more of it is not ours.
                let mut data = vec![0; length.min(1 << 16) as usize];
                reader.read_exact(&mut data).map_err(|e| io(&e))?;
                exif = Exif::read(&data);
                break;
            }
            _ => reader.seek_relative(i64::from(length) + 4).map_err(|e| io(&e))?,
        }
    }
    Ok(Header {
        format: PictureFormat::Png,
        width,
        height,
        channels,
        bits,
        orientation: exif.orientation.unwrap_or(1),
        shot: exif.shot,
        keeps_coefficients: false,
    })
}

/// What EXIF says that is used here.
#[derive(Clone, Copy, Debug, Default)]
struct Exif {
    orientation: Option<u8>,
    shot: Option<Shot>,
}

impl Exif {
    /// Of a TIFF structure; what is damaged is not there.
    fn read(tiff: &[u8]) -> Self {
        let Some((tiff, first)) = Tiff::new(tiff) else { return Self::default() };
        let orientation = tiff.short(first, 0x0112).and_then(|o| u8::try_from(o).ok());
        let shot = tiff.long(first, 0x8769).and_then(|exif| {
            Some(Shot {
                time: tiff.rational(exif as usize, 0x829A)?,
                f_number: tiff.rational(exif as usize, 0x829D)?,
                iso: u32::from(tiff.short(exif as usize, 0x8827).filter(|&iso| iso > 0)?),
            })
        });
        Self { orientation: orientation.filter(|o| (1..=8).contains(o)), shot }
    }

    fn or(self, other: Self) -> Self {
        Self { orientation: self.orientation.or(other.orientation), shot: self.shot.or(other.shot) }
    }
}

/// A TIFF structure: directories of entries of 12 bytes, each with a tag, a type, a count, and a value or its place.
struct Tiff<'a> {
    bytes: &'a [u8],
    little: bool,
}

impl<'a> Tiff<'a> {
    /// The structure with the place of its first directory.
    fn new(bytes: &'a [u8]) -> Option<(Self, usize)> {
        let little = match bytes.get(..4)? {
            [b'I', b'I', 42, 0] => true,
            [b'M', b'M', 0, 42] => false,
            _ => return None,
        };
        let tiff = Self { bytes, little };
        let first = tiff.u32_at(4)? as usize;
        Some((tiff, first))
    }

    fn u16_at(&self, at: usize) -> Option<u16> {
        let bytes: [u8; 2] = self.bytes.get(at..at.checked_add(2)?)?.try_into().ok()?;
        Some(if self.little { u16::from_le_bytes(bytes) } else { u16::from_be_bytes(bytes) })
    }

    fn u32_at(&self, at: usize) -> Option<u32> {
        let bytes: [u8; 4] = self.bytes.get(at..at.checked_add(4)?)?.try_into().ok()?;
        Some(if self.little { u32::from_le_bytes(bytes) } else { u32::from_be_bytes(bytes) })
    }

    /// Where the value of a tag stands, or its place.
    fn value(&self, directory: usize, tag: u16) -> Option<usize> {
        let entries = usize::from(self.u16_at(directory)?);
        let mut places = (0..entries).map_while(|i| directory.checked_add(2 + 12 * i));
        places.find(|&entry| self.u16_at(entry) == Some(tag))?.checked_add(8)
    }

    fn short(&self, directory: usize, tag: u16) -> Option<u16> {
        self.u16_at(self.value(directory, tag)?)
    }

    fn long(&self, directory: usize, tag: u16) -> Option<u32> {
        self.u32_at(self.value(directory, tag)?)
    }

    /// Numerator and denominator, neither of them 0.
    fn rational(&self, directory: usize, tag: u16) -> Option<[u32; 2]> {
        let at = self.long(directory, tag)? as usize;
        let parts = [self.u32_at(at)?, self.u32_at(at.checked_add(4)?)?];
        (!parts.contains(&0)).then_some(parts)
    }
}

/// Walks through all segments of a JPEG up to its end marker.
///
/// Decoders fill what is missing with grey and say nothing; a picture that is half grey must not be trained on. And
/// they trust a second frame header, which then contradicts what the first one let them prepare.
///
/// # Errors
/// The end marker or a segment is missing; a second frame header or start marker.
pub(super) fn check_jpeg(bytes: &[u8]) -> Result<(), ImageProblem> {
    let damaged = |what: &str| Err(ImageProblem::Header(what.to_owned()));
    let mut at = 2;
    let mut frames = 0;
    loop {
        // At a marker: FF, fill bytes, code.
        match bytes.get(at) {
            Some(0xFF) => {}
            Some(_) => return damaged("a JPEG marker is missing"),
            None => return Err(ImageProblem::Truncated),
        }
        while bytes.get(at) == Some(&0xFF) {
            at += 1;
        }
        let marker = *bytes.get(at).ok_or(ImageProblem::Truncated)?;
        at += 1;
        match marker {
            0xD9 => return Ok(()),
            0xD8 => return damaged("a second JPEG begins inside the first"),
            0x01 | 0xD0..=0xD7 => continue,
            0xC0..=0xCF if !matches!(marker, 0xC4 | 0xC8 | 0xCC) => frames += 1,
            _ => {}
        }
        if frames > 1 {
            return damaged("a second JPEG frame header");
        }
        let Some([high, low]) = bytes.get(at..at + 2) else { return Err(ImageProblem::Truncated) };
        at += usize::from(u16::from_be_bytes([*high, *low])).max(2);
        if marker == 0xDA {
            at = end_of_scan(bytes, at).ok_or(ImageProblem::Truncated)?;
        }
    }
}

/// End of entropy-coded data: the next FF that is neither stuffed (00) nor a restart marker.
fn end_of_scan(bytes: &[u8], mut at: usize) -> Option<usize> {
    loop {
        let rest = bytes.get(at..)?;
        let next = rest.iter().position(|&b| b == 0xFF)?;
        match rest.get(next + 1)? {
            0x00 | 0xD0..=0xD7 => at += next + 2,
            _ => return Some(at + next),
        }
    }
}
