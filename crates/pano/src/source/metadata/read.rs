//! Reads the metadata of an image.

use std::io::Cursor;

use gausset_io::image::exif::{EXIF, Exif, ExifField};
use gausset_io::image::segments::{Segments, marker};

use super::gpano::{self, EquirectError, GPano, parse_gpano};
use crate::source::gps_track::datetime;
use crate::sphere::projection::Equirect;

/// GPS tag: viewing direction, degrees from north.
pub(super) const IMG_DIRECTION_TAG: u16 = 0x11;
/// GPS tags: time of day (UTC), and date.
const GPS_TIME_TAG: u16 = 7;
const GPS_DATE_TAG: u16 = 0x1D;
/// Prefix of XMP in an APP1 segment.
pub(super) const XMP_PREFIX: &[u8] = b"http://ns.adobe.com/xap/1.0/\0";

/// Prefix of a part of an ICC profile in an APP2 segment.
const ICC_PREFIX: &[u8] = b"ICC_PROFILE\0";

/// A GPS position.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GpsPosition {
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
    pub fn from_jpeg(data: &[u8]) -> Self {
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
                found.icc.extend(content.starts_with(ICC_PREFIX).then_some(content));
            } else if let Some(tiff) = content.strip_prefix(EXIF) {
                found.exif = Exif::read(tiff).fill_from(found.exif);
            } else if let Some(xmp) = content.strip_prefix(XMP_PREFIX) {
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
    pub fn equirect(&self, width: u32, height: u32) -> Result<Equirect, EquirectError> {
        gpano::equirect(self.gpano, width, height)
    }

    /// GPS position, if the file has one.
    #[must_use]
    pub fn position(&self) -> Option<GpsPosition> {
        let entry = |tag| self.exif.gps.iter().find(|e| e.tag == tag);
        let degrees = |tag, letter_tag, negative: u8| {
            let [d, m, s] = rational_values(entry(tag)?)?;
            let sign = entry(letter_tag).and_then(|e| e.bytes.first().copied()) == Some(negative);
            let value = d + m / 60.0 + s / 3600.0;
            Some(if sign { -value } else { value }).filter(|v| v.is_finite())
        };
        let (latitude, longitude) = (degrees(2, 1, b'S')?, degrees(4, 3, b'W')?);
        let below = entry(5).and_then(|e| e.bytes.first().copied()) == Some(1);
        let altitude = entry(6).and_then(rational_values).map_or(0.0, |[a]| a);
        let altitude = if below { -altitude } else { altitude };
        let in_range = latitude.abs() <= 90.0 && longitude.abs() <= 180.0 && altitude.is_finite();
        in_range.then_some(GpsPosition { latitude, longitude, altitude })
    }

    /// Time of capture in seconds since 1970: by GPS (UTC), else by the camera's clock, whose time zone is unknown.
    #[must_use]
    pub fn capture_time(&self) -> Option<f64> {
        let entry = |tag| self.exif.gps.iter().find(|e| e.tag == tag);
        let by_gps = || {
            let date = std::str::from_utf8(&entry(GPS_DATE_TAG)?.bytes).ok()?.trim_end_matches('\0');
            let [hour, minute, second] = rational_values(entry(GPS_TIME_TAG)?)?;
            let day = datetime::parse_datetime(&format!("{date} 00:00:00"))?;
            Some(day + 3600.0 * hour + 60.0 * minute + second).filter(|t| t.is_finite())
        };
        by_gps().or_else(|| datetime::parse_datetime(self.exif.taken.as_deref()?))
    }

    /// Compass heading of the panorama's centre, degrees.
    #[must_use]
    pub fn heading(&self) -> Option<f64> {
        let gpano = self.gpano.and_then(|g| g.heading);
        let exif =
            || rational_values(self.exif.gps.iter().find(|e| e.tag == IMG_DIRECTION_TAG)?).map(|[h]| h);
        gpano.or_else(exif).filter(|h| h.is_finite()).map(|h| h.rem_euclid(360.0))
    }
}

/// The first N rationals of a field; x/0 counts as 0.
fn rational_values<const N: usize>(field: &ExifField) -> Option<[f64; N]> {
    let mut rationals = field.rationals();
    let mut out = [0.0; N];
    for value in &mut out {
        let [over, under] = rationals.next()?.map(f64::from);
        *value = if under == 0.0 { 0.0 } else { over / under };
    }
    Some(out)
}
