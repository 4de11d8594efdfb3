//! Reads the metadata of an image.

use std::io::Cursor;

use gausset_io::image::exif::{EXIF, Exif, Field};
use gausset_io::image::segments::{Segments, marker};

use super::gpano::{self, GPano, NotEquirect, parse_gpano};
use crate::projection::Equirect;
use crate::track::clock;

/// GPS tag: viewing direction, degrees from north.
pub(super) const IMG_DIRECTION: u16 = 0x11;
/// GPS tags: time of day (UTC), and date.
const GPS_TIME: u16 = 7;
const GPS_DATE: u16 = 0x1D;
/// Prefix of XMP in an APP1 segment.
pub(super) const XMP: &[u8] = b"http://ns.adobe.com/xap/1.0/\0";

/// Prefix of a part of an ICC profile in an APP2 segment.
const ICC: &[u8] = b"ICC_PROFILE\0";

/// A GPS position.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Position {
    /// Degrees north.
    pub latitude: f64,
    /// Degrees east.
    pub longitude: f64,
    /// Metres above sea level; 0 if the file does not specify it.
    pub altitude: f64,
}

/// Metadata of an image file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Metadata {
    /// The EXIF fields.
    pub exif: Exif,
    /// The GPano packet, if there is one.
    pub gpano: Option<GPano>,
    /// Contents of the APP2 segments with the ICC profile.
    pub icc: Vec<Vec<u8>>,
}

impl Metadata {
    /// Reads the segments of a JPEG before its image data. Unreadable segments are ignored.
    #[must_use]
    pub fn of_jpeg(data: &[u8]) -> Self {
        let mut found = Self::default();
        let mut segments = Segments::new(Cursor::new(data.get(2..).unwrap_or_default()));
        while let Ok(marker) = segments.next_marker() {
            match marker {
                marker::SOS | marker::EOI => break,
                marker::APP1 | marker::APP2 => {}
                _ => continue,
            }
            let Ok(content) = segments.content() else { break };
            if marker == marker::APP2 {
                found.icc.extend(content.starts_with(ICC).then_some(content));
            } else if let Some(tiff) = content.strip_prefix(EXIF) {
                found.exif = Exif::read(tiff).or(found.exif);
            } else if let Some(xmp) = content.strip_prefix(XMP) {
                found.gpano = found.gpano.or_else(|| parse_gpano(&String::from_utf8_lossy(xmp)));
            }
        }
        found
    }

    /// EXIF orientation; 1 if the file does not specify it.
    #[must_use]
    pub fn orientation(&self) -> u8 {
        self.exif.orientation.unwrap_or(1)
    }

    /// The part of the sphere that an image of this size shows.
    ///
    /// # Errors
    /// Neither 2:1 nor described by GPano, or the GPano values are invalid.
    pub fn equirect(&self, width: u32, height: u32) -> Result<Equirect, NotEquirect> {
        gpano::equirect(self.gpano, width, height)
    }

    /// GPS position, if the file has one.
    #[must_use]
    pub fn position(&self) -> Option<Position> {
        let entry = |tag| self.exif.gps.iter().find(|e| e.tag == tag);
        let degrees = |tag, letter_tag, negative: u8| {
            let [d, m, s] = numbers(entry(tag)?)?;
            let sign = entry(letter_tag).and_then(|e| e.bytes.first().copied()) == Some(negative);
            let value = d + m / 60.0 + s / 3600.0;
            Some(if sign { -value } else { value }).filter(|v| v.is_finite())
        };
        let (latitude, longitude) = (degrees(2, 1, b'S')?, degrees(4, 3, b'W')?);
        let below = entry(5).and_then(|e| e.bytes.first().copied()) == Some(1);
        let altitude = entry(6).and_then(numbers).map_or(0.0, |[a]| a);
        let altitude = if below { -altitude } else { altitude };
        let in_range = latitude.abs() <= 90.0 && longitude.abs() <= 180.0 && altitude.is_finite();
        in_range.then_some(Position { latitude, longitude, altitude })
    }

    /// Time of capture in seconds since 1970: by GPS (UTC), else by the camera's clock, whose time zone is unknown.
    #[must_use]
    pub fn moment(&self) -> Option<f64> {
        let entry = |tag| self.exif.gps.iter().find(|e| e.tag == tag);
        let by_gps = || {
            let date = std::str::from_utf8(&entry(GPS_DATE)?.bytes).ok()?.trim_end_matches('\0');
            let [hour, minute, second] = numbers(entry(GPS_TIME)?)?;
            let day = clock::seconds(&format!("{date} 00:00:00"))?;
            Some(day + 3600.0 * hour + 60.0 * minute + second).filter(|t| t.is_finite())
        };
        by_gps().or_else(|| clock::seconds(self.exif.taken.as_deref()?))
    }

    /// Compass heading of the panorama's centre, degrees.
    #[must_use]
    pub fn heading(&self) -> Option<f64> {
        let gpano = self.gpano.and_then(|g| g.heading);
        let exif = || numbers(self.exif.gps.iter().find(|e| e.tag == IMG_DIRECTION)?).map(|[h]| h);
        gpano.or_else(exif).filter(|h| h.is_finite()).map(|h| h.rem_euclid(360.0))
    }
}

/// The first N rationals of a field; x/0 counts as 0.
fn numbers<const N: usize>(field: &Field) -> Option<[f64; N]> {
    let mut rationals = field.rationals();
    let mut out = [0.0; N];
    for value in &mut out {
        let [over, under] = rationals.next()?.map(f64::from);
        *value = if under == 0.0 { 0.0 } else { over / under };
    }
    Some(out)
}
