//! GPS tracks: positions of a receiver over time, from GPX, NMEA or CSV files.
//!
//! ```text
//! gpx, nmea, table   one file format each            datetime  dates and times as seconds
//! ```
//! Positions of a camera are interpolated between fixes once the offset of the camera's clock is known
//! (`gausset_sfm::track`).

pub mod datetime;
pub mod gpx;
pub mod nmea;
pub mod table;

use std::path::{Path, PathBuf};

use gausset_io::atomic::plain_reason;
use gausset_io::input;
use gausset_io::text::counted;

use crate::source::json::with_expected;
use crate::source::problem::FileProblem;

/// Maximum size of a file, bytes.
const MAX_BYTES: u64 = 256 << 20;
/// Maximum number of fixes: a week at ten per second.
const MAX_FIXES: usize = 6_048_000;

/// Origin of the times of a track.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeOrigin {
    /// 1970-01-01, UTC.
    Utc,
    /// An unknown origin: times are only relative.
    Relative,
}

/// Coordinates of the positions of a track.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrackCoordinates {
    /// Geodetic: degrees north, degrees east, metres up.
    Geodetic,
    /// Local: metres east, north and up of an unknown origin.
    Local,
}

/// Position of the receiver at a time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GpsFix {
    /// Seconds; [`GpsTrack::time_origin`] gives the origin.
    pub time: f64,
    /// Position in the coordinates of [`GpsTrack::coordinates`]. A height that the file lacks is interpolated.
    pub position: [f64; 3],
    /// Viewing direction of the camera, degrees clockwise from north.
    pub heading: Option<f64>,
    /// Pitch (up) and roll (clockwise) of the camera, degrees.
    pub tilt: Option<[f64; 2]>,
}

/// A recorded track.
#[derive(Clone, Debug, PartialEq)]
pub struct GpsTrack {
    /// File format: `GPX`, `NMEA` or `CSV`.
    pub format: &'static str,
    /// Origin of the times.
    pub time_origin: TimeOrigin,
    /// Coordinates of the positions.
    pub coordinates: TrackCoordinates,
    /// Fixes sorted by time, at least two, no two at the same time.
    pub fixes: Vec<GpsFix>,
    /// Warning about the content, for the log.
    pub note: Option<String>,
}

/// Why a GPS track cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum TrackError {
    /// The file cannot be opened or read.
    #[error("{}: {reason}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's error, and what was expected.
        reason: String,
    },
    /// The file format is not recognised.
    #[error("{}: format: unknown (expected GPX, NMEA or CSV with a header)", .0.display())]
    Unknown(PathBuf),
    /// The content is malformed.
    #[error("{}: {problem}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// Location in the file and problem.
        problem: FileProblem,
    },
}

/// Reads a GPS track; the format is detected from the content.
///
/// # Errors
/// The file is missing or of unknown format, positions have no times, or there are fewer than two fixes.
pub fn read(path: &Path) -> Result<GpsTrack, TrackError> {
    let bytes = input::read(path, MAX_BYTES).map_err(|e| {
        let reason = with_expected(plain_reason(&e), "a track: .gpx, .nmea or .csv");
        TrackError::Read { path: path.to_owned(), reason }
    })?;
    match parse(&bytes) {
        Some(found) => found.map_err(|problem| TrackError::Malformed { path: path.to_owned(), problem }),
        None => Err(TrackError::Unknown(path.to_owned())),
    }
}

/// Parses a track of any format; `None` if the format is unknown.
#[must_use]
pub fn parse(bytes: &[u8]) -> Option<Result<GpsTrack, FileProblem>> {
    let bytes = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes);
    let first = bytes.iter().find(|b| !b.is_ascii_whitespace())?;
    let found = match first {
        b'<' => match std::str::from_utf8(bytes) {
            Ok(text) => gpx::parse(text),
            Err(_) => Err(FileProblem::new("XML", "is not UTF-8")),
        },
        b'$' | b'!' => nmea::parse(bytes),
        // A CSV header begins with a letter, a quote or a comment character.
        b if b.is_ascii_alphabetic() || matches!(b, b'"' | b'#' | b'_') => table::parse(bytes),
        _ => return None,
    };
    Some(found.and_then(GpsTrack::validated))
}

impl GpsTrack {
    /// Drops fixes at 0, 0, which receivers write without a position, sorts by time, keeps the first of fixes at the same
    /// time, requires two fixes, and fills in missing heights.
    fn validated(mut self) -> Result<Self, FileProblem> {
        if self.coordinates == TrackCoordinates::Geodetic {
            let all = self.fixes.len();
            self.fixes.retain(|fix| fix.position[..2] != [0.0; 2]);
            if self.fixes.len() < all {
                let dropped =
                    format!("{} at 0, 0 left out", counted((all - self.fixes.len()) as u64, "position"));
                self.note = Some(self.note.map_or(dropped.clone(), |note| format!("{note}; {dropped}")));
            }
        }
        self.fixes.sort_by(|a, b| a.time.total_cmp(&b.time));
        self.fixes.dedup_by(|later, first| later.time <= first.time);
        if self.fixes.len() < 2 {
            let place = format!("{} track", self.format);
            let what = match self.fixes.len() {
                0 => "no fix (expected 2 or more)",
                _ => "1 fix (expected 2 or more)",
            };
            return Err(FileProblem::new(place, what));
        }
        fill_heights(&mut self.fixes);
        Ok(self)
    }
}

/// Height of a fix without one, until [`fill_heights`].
const UNKNOWN_HEIGHT: f64 = f64::NAN;

/// Interpolates missing heights in time. Before the first and after the last known one they are constant; if none is known,
/// all are 0.
fn fill_heights(fixes: &mut [GpsFix]) {
    let known = fixes.iter().map(|fix| [fix.time, fix.position[2]]).filter(|[_, height]| !height.is_nan());
    let known: Vec<[f64; 2]> = known.collect();
    let mut after = 0usize;
    for fix in fixes {
        if !fix.position[2].is_nan() {
            after += 1;
            continue;
        }
        let before = after.checked_sub(1).and_then(|index| known.get(index));
        fix.position[2] = match (before, known.get(after)) {
            (Some([from, low]), Some([to, high])) => low + (high - low) * (fix.time - from) / (to - from),
            (Some([_, height]), None) | (None, Some([_, height])) => *height,
            (None, None) => 0.0,
        };
    }
}

/// Fails if a track already has the maximum number of fixes.
fn check_fix_count(fixes: usize) -> Result<(), FileProblem> {
    match fixes < MAX_FIXES {
        true => Ok(()),
        false => Err(FileProblem::new("fixes", format!("more than {MAX_FIXES}"))),
    }
}

/// Latitude, longitude and altitude, if they are valid.
fn geodetic_position(latitude: f64, longitude: f64, altitude: Option<f64>) -> Option<[f64; 3]> {
    let is_height = altitude.is_none_or(|altitude| altitude.abs() < 1e6);
    let is_place = latitude.abs() <= 90.0 && longitude.abs() <= 180.0 && is_height;
    is_place.then_some([latitude, longitude, altitude.unwrap_or(UNKNOWN_HEIGHT)])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heights(text: &str) -> Vec<f64> {
        parse(text.as_bytes()).unwrap().unwrap().fixes.iter().map(|fix| fix.position[2]).collect()
    }

    #[test]
    fn positions_at_0_0_are_left_out_with_a_note() {
        let text = "time,lat,lon,alt\n0,0,0,0\n1,47,8,400\n2,0,0,\n3,47,9,400\n4,0,8,400\n";
        let found = parse(text.as_bytes()).unwrap().unwrap();
        assert_eq!(found.fixes.iter().map(|fix| fix.time).collect::<Vec<_>>(), [1.0, 3.0, 4.0]);
        assert_eq!(found.note.as_deref(), Some("2 positions at 0, 0 left out"));
        // Local coordinates have an origin.
        let found = parse(b"time,x,y\n0,0,0\n1,1,0\n").unwrap().unwrap();
        assert_eq!((found.fixes.len(), found.note), (2, None));
    }

    #[test]
    fn missing_heights_are_interpolated_in_time() {
        let text = "time,lat,lon,alt\n0,47,8,\n1,47,8,400\n2,47,8,\n5,47,8,408\n6,47,8,\n";
        assert_eq!(heights(text), [400.0, 400.0, 402.0, 408.0, 408.0]);
        assert_eq!(heights("time,lat,lon\n0,47,8\n1,47,8\n"), [0.0, 0.0]);
        assert_eq!(heights("time,x,y,z\n0,1,2,\n1,1,2,5\n"), [5.0, 5.0]);
        let point = |second: u32, height: &str| {
            format!("<trkpt lat=\"47\" lon=\"8\">{height}<time>2026-11-23T10:20:0{second}Z</time></trkpt>")
        };
        let track = [point(0, "<ele>3</ele>"), point(1, ""), point(2, "<ele>5</ele>")].concat();
        assert_eq!(heights(&format!("<gpx>{track}</gpx>")), [3.0, 4.0, 5.0]);
        let sentence = |second: u32, height: &str| {
            format!("$GPGGA,10000{second},4700.0,N,00800.0,E,1,08,0.9,{height},M,,M,,\n")
        };
        assert_eq!(heights(&[sentence(0, "7"), sentence(1, ""), sentence(2, "9")].concat()), [7.0, 8.0, 9.0]);
    }
}
