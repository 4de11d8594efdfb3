//! Reads the header of a TIFF (TIFF 6.0, BigTIFF): the first directory, by which the first image is decoded.
//!
//! A file begins with `II` or `MM`, 42 and the offset of a directory: a count, then entries of 12 bytes: tag, type, count,
//! and a value of at most four bytes or its offset. BigTIFF has 43 instead of 42, entries of 20 bytes and offsets of 8.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use std::io::{Read, Seek, SeekFrom};

use super::exif::{self, Exif, ExifField, MAX_GPS_BYTES, MAX_GPS_ENTRIES, kind, tag};
use super::header::io;
use super::{ImageFormat, ImageHeader, ImageProblem};

/// Largest number of entries of a directory that are read; files have about 20.
const MAX_ENTRIES: u64 = 1024;

/// Tags of TIFF images, by their names in the standard.
mod field {
    pub(super) const WIDTH: u16 = 256;
    pub(super) const HEIGHT: u16 = 257;
    pub(super) const BITS_PER_SAMPLE: u16 = 258;
    pub(super) const PHOTOMETRIC: u16 = 262;
    pub(super) const SAMPLES_PER_PIXEL: u16 = 277;
    pub(super) const EXTRA_SAMPLES: u16 = 338;
    pub(super) const SAMPLE_FORMAT: u16 = 339;
    pub(super) const CFA_PATTERN: u16 = 0x828E;
    pub(super) const DNG_VERSION: u16 = 0xC612;
}

/// Photometric interpretations of raw files: colour filter array, and linear raw.
const RAW_PHOTOMETRIC: [u64; 2] = [32803, 34892];

/// Photometric interpretations of grey, either way round, and of RGB.
const GREY: [u64; 2] = [0, 1];
const RGB: u64 = 2;

/// The extra sample that is an alpha by which the colours are multiplied.
const PREMULTIPLIED_ALPHA: u64 = 1;

/// Names of photometric interpretations that the decoder does not convert.
const UNREAD_PHOTOMETRIC: [(u64, &str); 6] = [
    (3, "a palette"),
    (4, "a transparency mask"),
    (6, "YCbCr colours"),
    (8, "CIELab colours"),
    (9, "ICCLab colours"),
    (10, "ITULab colours"),
];

/// Whether a file begins as TIFF or BigTIFF do.
pub(super) fn is_tiff(start: &[u8]) -> bool {
    matches!(start, [b'I', b'I', 42 | 43, 0, ..] | [b'M', b'M', 0, 42 | 43, ..])
}

/// A TIFF of either byte order and offset size.
struct TiffFile<R> {
    source: R,
    is_little: bool,
    is_big: bool,
}

/// An entry of a directory, with its four or eight bytes of value or offset.
struct Entry {
    tag: u16,
    kind: u16,
    count: u64,
    value: [u8; 8],
}

impl<R: Read + Seek> TiffFile<R> {
    fn number(&self, bytes: &[u8]) -> u64 {
        let join = |value: u64, byte: &u8| value << 8 | u64::from(*byte);
        if self.is_little { bytes.iter().rev().fold(0, join) } else { bytes.iter().fold(0, join) }
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N], ImageProblem> {
        let mut bytes = [0; N];
        self.source.read_exact(&mut bytes).map_err(|e| io(&e))?;
        Ok(bytes)
    }

    fn seek(&mut self, place: u64) -> Result<(), ImageProblem> {
        self.source.seek(SeekFrom::Start(place)).map(|_| ()).map_err(|e| io(&e))
    }

    fn directory(&mut self, place: u64) -> Result<Vec<Entry>, ImageProblem> {
        self.seek(place)?;
        let count = if self.is_big {
            self.take::<8>().map(|b| self.number(&b))
        } else {
            self.take::<2>().map(|b| self.number(&b))
        }?;
        let mut entries = Vec::new();
        for _ in 0..count.min(MAX_ENTRIES) {
            let [tag, kind] = [self.take::<2>()?, self.take::<2>()?].map(|b| self.number(&b) as u16);
            let mut value = [0; 8];
            let count = if self.is_big {
                let count = self.take::<8>()?;
                value = self.take()?;
                self.number(&count)
            } else {
                let count = self.take::<4>()?;
                let four: [u8; 4] = self.take()?;
                value.iter_mut().zip(four).for_each(|(out, byte)| *out = byte);
                self.number(&count)
            };
            entries.push(Entry { tag, kind, count, value });
        }
        Ok(entries)
    }

    /// The first value of an entry as an integer.
    fn first(&mut self, entry: &Entry) -> Result<Option<u64>, ImageProblem> {
        let width = match entry.kind {
            1 => 1,
            kind::SHORT => 2,
            kind::LONG | 13 => 4,
            16 | 18 => 8,
            _ => return Ok(None),
        };
        let Some(bytes) = self.values(entry, width, 1)? else { return Ok(None) };
        Ok(Some(self.number(&bytes)))
    }

    /// The bytes of the first `wanted` values of an entry, each `width` bytes long.
    fn values(
        &mut self,
        entry: &Entry,
        width: usize,
        wanted: usize,
    ) -> Result<Option<Vec<u8>>, ImageProblem> {
        if entry.count < wanted as u64 {
            return Ok(None);
        }
        let room = if self.is_big { 8 } else { 4 };
        let mut bytes = vec![0; width * wanted];
        if entry.count.saturating_mul(width as u64) <= room as u64 {
            bytes.iter_mut().zip(entry.value).for_each(|(out, byte)| *out = byte);
        } else {
            let place = self.number(entry.value.get(..room).unwrap_or_default());
            self.seek(place)?;
            self.source.read_exact(&mut bytes).map_err(|e| io(&e))?;
        }
        Ok(Some(bytes))
    }

    fn find(&mut self, entries: &[Entry], tag: u16) -> Result<Option<u64>, ImageProblem> {
        entries.iter().find(|entry| entry.tag == tag).map_or(Ok(None), |entry| self.first(entry))
    }

    /// What an Exif directory states of exposure and focal length; damaged fields are skipped.
    fn photo(&mut self, place: u64) -> Exif {
        let entries = self.directory(place).unwrap_or_default();
        Exif::of_photo_directory(&mut |tag| self.field(entries.iter().find(|entry| entry.tag == tag)?))
    }

    /// The fields of a GPS directory; damaged ones are skipped.
    fn gps(&mut self, place: u64) -> Vec<ExifField> {
        let mut entries = self.directory(place).unwrap_or_default();
        entries.retain(|entry| entry.tag <= tag::LAST_GPS);
        exif::by_tag(entries.iter().take(MAX_GPS_ENTRIES).filter_map(|entry| self.field(entry)).collect())
    }

    fn field(&mut self, entry: &Entry) -> Option<ExifField> {
        let &Entry { tag, kind, .. } = entry;
        let unit = exif::value_bytes(kind)?;
        let count = u32::try_from(entry.count).ok()?;
        unit.checked_mul(count as usize).filter(|&length| length <= MAX_GPS_BYTES)?;
        let mut bytes = self.values(entry, unit, count as usize).ok()??;
        if self.is_little {
            exif::to_big_endian(&mut bytes, unit);
        }
        Some(ExifField { tag, kind, count, bytes })
    }
}

/// Reads the header of a TIFF from its beginning, and of its EXIF metadata those that photographs are aligned by.
pub(super) fn read(source: impl Read + Seek) -> Result<(ImageHeader, Exif), ImageProblem> {
    let mut file = TiffFile { source, is_little: true, is_big: false };
    file.seek(0)?;
    let [order, _, a, b] = file.take()?;
    file.is_little = order == b'I';
    file.is_big = file.number(&[a, b]) == 43;
    let place = if file.is_big {
        // The size of offsets, always 8, and zero.
        file.take::<4>()?;
        file.take::<8>().map(|b| file.number(&b))?
    } else {
        file.take::<4>().map(|b| file.number(&b))?
    };
    let entries = file.directory(place)?;
    let has = |tag| entries.iter().any(|entry| entry.tag == tag);
    let photometric = file.find(&entries, field::PHOTOMETRIC)?;
    if has(field::DNG_VERSION)
        || has(field::CFA_PATTERN)
        || photometric.is_some_and(|p| RAW_PHOTOMETRIC.contains(&p))
    {
        return Err(ImageProblem::Format("a raw photograph"));
    }
    let size = |found: Option<u64>| found.map_or(0, |v| u32::try_from(v).unwrap_or(u32::MAX));
    let (width, height) =
        (size(file.find(&entries, field::WIDTH)?), size(file.find(&entries, field::HEIGHT)?));
    let bits = file.find(&entries, field::BITS_PER_SAMPLE)?.unwrap_or(1);
    let channels = file.find(&entries, field::SAMPLES_PER_PIXEL)?.unwrap_or(1);
    let refused = |what: String, expected| Err(ImageProblem::Variant(what, expected));
    if let Some((_, name)) = UNREAD_PHOTOMETRIC.iter().find(|(number, _)| photometric == Some(*number)) {
        return refused(format!("TIFF with {name}"), "RGB, grey or CMYK");
    }
    if !matches!(file.find(&entries, field::SAMPLE_FORMAT)?, None | Some(1 | 4)) {
        return refused("TIFF with signed or floating-point samples".to_owned(), "unsigned integers");
    }
    let bits = match bits {
        1..=16 => bits as u8,
        _ => return refused(format!("{bits}-bit TIFF"), "8 or 16 bits"),
    };
    let is_grey = photometric.is_some_and(|p| GREY.contains(&p));
    let channels = match channels {
        1 => 1,
        3 | 4 if !is_grey => channels as u8,
        _ => return refused(format!("TIFF with {channels} channels"), "1 of grey, 3 or 4 of colours"),
    };
    let has_premultiplied_alpha = (channels, photometric) == (4, Some(RGB))
        && file.find(&entries, field::EXTRA_SAMPLES)? == Some(PREMULTIPLIED_ALPHA);
    let orientation = file.find(&entries, tag::ORIENTATION).ok().flatten().and_then(|v| u8::try_from(v).ok());
    let mut directory = |tag| file.find(&entries, tag).ok().flatten();
    let (photo, gps) = (directory(tag::EXIF_DIRECTORY), directory(tag::GPS_DIRECTORY));
    let mut text = |tag| file.field(entries.iter().find(|entry| entry.tag == tag)?)?.text();
    let exif = Exif {
        orientation: orientation.filter(|v| (1..=8).contains(v)),
        make: text(tag::MAKE),
        model: text(tag::MODEL),
        gps: gps.map(|place| file.gps(place)).unwrap_or_default(),
        ..photo.map(|place| file.photo(place)).unwrap_or_default()
    };
    let header = ImageHeader {
        format: ImageFormat::Tiff,
        width,
        height,
        channels,
        bits,
        orientation: exif.orientation.unwrap_or(1),
        shot: exif.shot,
        focal_35mm: exif.focal_35mm,
        keeps_coefficients: false,
        has_premultiplied_alpha,
    };
    Ok((header, exif))
}
