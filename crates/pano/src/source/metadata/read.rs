//! Reads the metadata of an image.

use std::io::{BufRead, BufReader, Cursor, Read, Seek};
use std::path::Path;

use gausset_io::image::exif::{EXIF, Exif, ExifField};
use gausset_io::image::segments::{Segments, marker};
use gausset_io::image::{MAX_FILE_BYTES, read_exif};
use gausset_io::input;

use serde::{Deserialize, Serialize};

use super::dji;
use super::gpano::{self, EquirectError, GPano, parse_gpano};
use crate::source::gps_track::datetime;
use crate::sphere::projection::Equirect;

/// GPS tag: viewing direction, degrees from north.
pub(super) const IMG_DIRECTION_TAG: u16 = 0x11;
/// GPS tag: `A` with a fix, `V` without one.
const GPS_STATUS_TAG: u16 = 9;
/// GPS tags: time of day (UTC), and date.
const GPS_TIME_TAG: u16 = 7;
const GPS_DATE_TAG: u16 = 0x1D;
/// Prefix of XMP in an APP1 segment.
pub(super) const XMP_PREFIX: &[u8] = b"http://ns.adobe.com/xap/1.0/\0";

/// Prefix of a part of an ICC profile in an APP2 segment.
const ICC_PREFIX: &[u8] = b"ICC_PROFILE\0";

/// A GPS position; in JSON a list of two or three numbers.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Vec<f64>", into = "Vec<f64>")]
pub struct GpsPosition {
    /// Degrees north.
    pub latitude: f64,
    /// Degrees east.
    pub longitude: f64,
    /// Metres above sea level, if the file specifies it.
    pub altitude: Option<f64>,
}

impl TryFrom<Vec<f64>> for GpsPosition {
    type Error = &'static str;

    fn try_from(numbers: Vec<f64>) -> Result<Self, Self::Error> {
        match *numbers {
            [latitude, longitude] => Ok(Self { latitude, longitude, altitude: None }),
            [latitude, longitude, altitude] => Ok(Self { latitude, longitude, altitude: Some(altitude) }),
            _ => Err("a position has two or three numbers"),
        }
    }
}

impl From<GpsPosition> for Vec<f64> {
    fn from(position: GpsPosition) -> Self {
        [position.latitude, position.longitude].into_iter().chain(position.altitude).collect()
    }
}

impl GpsPosition {
    /// The position, if it is one: within range, and not exactly 0 N 0 E. An altitude out of range is none.
    pub(super) fn valid(self) -> Option<Self> {
        let Self { latitude, longitude, altitude } = self;
        let is_in_range = latitude.abs() <= 90.0 && longitude.abs() <= 180.0;
        let altitude = altitude.filter(|altitude| altitude.abs() <= 1e6);
        (is_in_range && (latitude, longitude) != (0.0, 0.0)).then_some(Self { latitude, longitude, altitude })
    }
}

/// Metadata of an image file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Metadata {
    /// The EXIF fields.
    pub exif: Exif,
    /// The GPano packet, if there is one.
    pub gpano: Option<GPano>,
    /// GPS position in the XMP packet of a DJI drone, more precise than that in EXIF.
    pub dji_position: Option<GpsPosition>,
    /// Contents of the APP2 segments with the ICC profile.
    pub icc: Vec<Vec<u8>>,
}

impl Metadata {
    /// Reads the metadata of an image file: of a JPEG, or the EXIF of a PNG, TIFF or WebP. A file that cannot be read has
    /// none.
    #[must_use]
    pub fn of_file(path: &Path) -> Self {
        let Ok(file) = input::open(path, MAX_FILE_BYTES) else { return Self::default() };
        let (mut file, mut start) = (BufReader::new(file), [0; 2]);
        match file.read_exact(&mut start) {
            Ok(()) if start == [0xFF, marker::SOI] => Self::from_segments(file),
            _ => Self { exif: read_exif(path).unwrap_or_default(), ..Self::default() },
        }
    }

    /// Reads the segments of a JPEG before its image data. Unreadable segments are ignored.
    #[must_use]
    pub fn from_jpeg(data: &[u8]) -> Self {
        Self::from_segments(Cursor::new(data.get(2..).unwrap_or_default()))
    }

    /// Reads the segments after the start marker.
    fn from_segments(source: impl BufRead + Seek) -> Self {
        let mut found = Self::default();
        let mut segments = Segments::new(source);
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
                let xmp = String::from_utf8_lossy(xmp);
                found.gpano = found.gpano.or_else(|| parse_gpano(&xmp));
                found.dji_position = found.dji_position.or_else(|| dji::parse_position(&xmp));
            }
        }
        found
    }

    /// Pitch and roll of the camera by the GPano data, degrees, if one of them is not 0.
    #[must_use]
    pub fn tilt(&self) -> Option<[f64; 2]> {
        let GPano { pitch, roll, .. } = self.gpano?;
        Some([pitch, roll]).filter(|tilt| *tilt != [0.0; 2])
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

    /// GPS position, if the file has one: that of DJI's XMP packet, else that of EXIF.
    ///
    /// No position: GPSStatus `V` (the receiver had no fix), values of 0/0, and exactly 0 N 0 E, which receivers without
    /// a fix write. A missing altitude is `None`.
    #[must_use]
    pub fn position(&self) -> Option<GpsPosition> {
        self.dji_position.or_else(|| self.exif_position())
    }

    fn exif_position(&self) -> Option<GpsPosition> {
        let entry = |tag| self.exif.gps.iter().find(|e| e.tag == tag);
        let first_byte = |tag| entry(tag).and_then(|e| e.bytes.first().copied());
        if first_byte(GPS_STATUS_TAG).is_some_and(|status| status.eq_ignore_ascii_case(&b'V')) {
            return None;
        }
        let degrees = |tag, letter_tag, negative: u8| {
            let [d, m, s] = rational_values(entry(tag)?)?;
            let value = d + m / 60.0 + s / 3600.0;
            let is_negative = first_byte(letter_tag).is_some_and(|l| l.eq_ignore_ascii_case(&negative));
            Some(if is_negative { -value } else { value })
        };
        let (latitude, longitude) = (degrees(2, 1, b'S')?, degrees(4, 3, b'W')?);
        // 0 and 2: above sea level or the ellipsoid; 1 and 3: below it.
        let is_below = matches!(first_byte(5), Some(1 | 3));
        let altitude = entry(6).and_then(rational_values).map(|[a]| if is_below { -a } else { a });
        GpsPosition { latitude, longitude, altitude }.valid()
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

/// The first N rationals of a field; `None` if there are fewer, or a denominator is 0.
fn rational_values<const N: usize>(field: &ExifField) -> Option<[f64; N]> {
    let mut rationals = field.rationals();
    let mut out = [0.0; N];
    for value in &mut out {
        let [over, under] = rationals.next()?.map(f64::from);
        if under == 0.0 {
            return None;
        }
        *value = over / under;
    }
    Some(out)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// EXIF GPS: reference, degrees, reference, degrees, status, and altitude with its reference.
    fn gps(latitude: [[u32; 2]; 3], status: u8, altitude: Option<[u32; 2]>) -> Metadata {
        let rationals = |values: &[[u32; 2]]| -> Vec<u8> {
            values.iter().flatten().flat_map(|value| value.to_be_bytes()).collect()
        };
        let field = |tag, kind, bytes: Vec<u8>| ExifField { tag, kind, count: 1, bytes };
        let mut all = vec![
            field(1, 2, b"N\0".to_vec()),
            field(2, 5, rationals(&latitude)),
            field(3, 2, b"W\0".to_vec()),
            field(4, 5, rationals(&latitude)),
            field(9, 2, vec![status, 0]),
        ];
        all.extend(altitude.map(|altitude| field(6, 5, rationals(&[altitude]))));
        Metadata { exif: Exif { gps: all, ..Exif::default() }, ..Metadata::default() }
    }

    #[test]
    fn what_a_receiver_without_a_fix_writes_is_no_position() {
        let place = [[48, 1], [30, 1], [0, 1]];
        let found = gps(place, b'A', Some([1234, 10])).position().unwrap();
        assert_eq!((found.latitude, found.longitude, found.altitude), (48.5, -48.5, Some(123.4)));
        assert_eq!(gps(place, b'V', None).position(), None);
        assert_eq!(gps([[0, 1]; 3], b'A', Some([5, 1])).position(), None, "0 N 0 E");
        assert_eq!(gps([[0, 0]; 3], b'A', None).position(), None);
        assert_eq!(gps([[48, 1], [0, 0], [0, 0]], b'A', None).position(), None);
    }

    #[test]
    fn a_missing_altitude_is_none() {
        let place = [[48, 1], [30, 1], [0, 1]];
        for altitude in [None, Some([0, 0])] {
            assert_eq!(gps(place, b'A', altitude).position().unwrap().altitude, None);
        }
        let (with, without) = (gps(place, b'A', Some([5, 1])), gps(place, b'A', None));
        for (metadata, text) in [(with, "[48.5,-48.5,5.0]"), (without, "[48.5,-48.5]")] {
            let position = metadata.position().unwrap();
            assert_eq!(serde_json::to_string(&position).unwrap(), text);
            assert_eq!(serde_json::from_str::<GpsPosition>(text).unwrap(), position);
        }
    }

    #[test]
    fn the_position_of_a_drone_is_preferred() {
        let drone = GpsPosition { latitude: 48.500_001, longitude: -48.5, altitude: Some(7.0) };
        let exif = gps([[48, 1], [30, 1], [0, 1]], b'A', None);
        assert_eq!(Metadata { dji_position: Some(drone), ..exif }.position(), Some(drone));
    }
}
