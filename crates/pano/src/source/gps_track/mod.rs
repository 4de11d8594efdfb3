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
    /// Position in the coordinates of [`GpsTrack::coordinates`].
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
    /// Sorts by time, keeps the first of fixes at the same time, and requires two fixes.
    fn validated(mut self) -> Result<Self, FileProblem> {
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
        Ok(self)
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
fn geodetic_position(latitude: f64, longitude: f64, altitude: f64) -> Option<[f64; 3]> {
    let is_place = latitude.abs() <= 90.0 && longitude.abs() <= 180.0 && altitude.abs() < 1e6;
    is_place.then_some([latitude, longitude, altitude])
}
