//! Writes EXIF metadata (CIPA DC-008) for a JPEG file: the counterpart of [`super::exif`].
//!
//! ```text
//! Exif 00 00  MM 00 2A  IFD0  Exif directory  GPS directory; values longer than four bytes follow their directory
//! ```
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use super::exif::{EXIF, ExifField, kind, tag};

/// An ASCII field; removes control and non-ASCII characters, which other programs may not handle.
#[must_use]
pub fn text_field(tag: u16, text: &str) -> ExifField {
    let mut bytes: Vec<u8> = text.bytes().filter(|b| (0x20..0x7F).contains(b)).take(200).collect();
    bytes.push(0);
    ExifField { tag, kind: kind::ASCII, count: bytes.len() as u32, bytes }
}

/// The pointer to another directory, filled in later.
fn directory_pointer(tag: u16) -> ExifField {
    ExifField { tag, kind: kind::LONG, count: 1, bytes: vec![0; 4] }
}

/// The content of an EXIF segment with these fields of IFD0, the Exif and the GPS directory; the fields of a directory
/// are in the order of their tags.
#[must_use]
pub fn exif_content(mut main: Vec<ExifField>, photo: Vec<ExifField>, gps: Vec<ExifField>) -> Vec<u8> {
    let mut out = [EXIF, b"MM\0\x2A\0\0\0\x08"].concat();
    let size = |fields: &[ExifField]| {
        let values: usize = fields
            .iter()
            .map(|f| if f.bytes.len() > 4 { f.bytes.len().next_multiple_of(2) } else { 0 })
            .sum();
        2 + 12 * fields.len() + 4 + values
    };
    main.push(directory_pointer(tag::EXIF_DIRECTORY));
    if !gps.is_empty() {
        main.push(directory_pointer(tag::GPS_DIRECTORY));
    }
    main.sort_by_key(|f| f.tag);
    let photo_at = 8 + size(&main);
    let gps_at = photo_at + size(&photo);
    for field in &mut main {
        let at = match field.tag {
            tag::EXIF_DIRECTORY => photo_at,
            tag::GPS_DIRECTORY => gps_at,
            _ => continue,
        };
        field.bytes = (at as u32).to_be_bytes().to_vec();
    }
    write_directory(&main, 8, &mut out);
    write_directory(&photo, photo_at, &mut out);
    if !gps.is_empty() {
        write_directory(&gps, gps_at, &mut out);
    }
    out
}

fn write_directory(fields: &[ExifField], at: usize, out: &mut Vec<u8>) {
    let mut values_at = at + 2 + 12 * fields.len() + 4;
    let mut values = Vec::new();
    out.extend((fields.len() as u16).to_be_bytes());
    for field in fields {
        out.extend(field.tag.to_be_bytes());
        out.extend(field.kind.to_be_bytes());
        out.extend(field.count.to_be_bytes());
        if field.bytes.len() > 4 {
            out.extend((values_at as u32).to_be_bytes());
            values.extend_from_slice(&field.bytes);
            if field.bytes.len() % 2 == 1 {
                values.push(0);
            }
            values_at += field.bytes.len().next_multiple_of(2);
        } else {
            let mut four = field.bytes.clone();
            four.resize(4, 0);
            out.extend(four);
        }
    }
    out.extend([0; 4]);
    out.extend(values);
}

/// A marker segment; empty if the content is too long.
#[must_use]
pub fn marker_segment(marker: u8, content: &[u8]) -> Vec<u8> {
    let Ok(length) = u16::try_from(content.len() + 2) else { return Vec::new() };
    [&[0xFF, marker], &length.to_be_bytes()[..], content].concat()
}
