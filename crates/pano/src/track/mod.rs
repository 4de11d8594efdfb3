//! Tracks: where a receiver was, moment by moment, as GPX, NMEA or CSV.
//!
//! ```text
//! gpx, nmea, table   one form each            clock   moments of calendars as seconds
//! ```
//! A track says where a camera was between its fixes once it is known by how much the clock of the
//! camera is off (`gausset_sfm::track`).

pub mod clock;
pub mod gpx;
pub mod nmea;
pub mod table;

use std::path::{Path, PathBuf};

use gausset_io::atomic::plain_reason;
use gausset_io::input;

use crate::json::expecting;
use crate::poses::Malformed;

/// Longest file that is read.
const MAX_BYTES: u64 = 256 << 20;
/// Most fixes: a week at ten a second.
const MAX_FIXES: usize = 6_048_000;

/// What the times of a track count from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// 1970, UTC.
    Utc,
    /// A beginning of their own.
    Own,
}

/// What the places of a track are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Places {
    /// Degrees north, degrees east, metres up.
    Earth,
    /// Metres east, north and up of a place of their own.
    Metres,
}

/// Where the receiver was at a moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fix {
    /// Seconds.
    pub time: f64,
    /// As [`Track::places`] says.
    pub place: [f64; 3],
    /// Where the camera looked, degrees clockwise from north.
    pub heading: Option<f64>,
    /// How the camera was held: pitch (up) and roll (clockwise), degrees.
    pub tilt: Option<[f64; 2]>,
}

/// A recorded way.
#[derive(Clone, Debug, PartialEq)]
pub struct Track {
    /// `GPX`, `NMEA`, `CSV`.
    pub form: &'static str,
    /// What the times count from.
    pub clock: Clock,
    /// What the places are.
    pub places: Places,
    /// In the order of their times, no two of one time.
    pub fixes: Vec<Fix>,
    /// What a person should know about how it was read.
    pub note: Option<String>,
}

/// Why a track cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum TrackError {
    /// The file cannot be read.
    #[error("{}: {reason}", path.display())]
    Read {
        /// What was to be read.
        path: PathBuf,
        /// The system's answer, and what was expected.
        reason: String,
    },
    /// It is none of the forms.
    #[error("{}: form: not known (expected GPX, NMEA or CSV with a header)", .0.display())]
    Unknown(PathBuf),
    /// Something in it is wrong.
    #[error("{}: {problem}", path.display())]
    Malformed {
        /// What was read.
        path: PathBuf,
        /// Place and problem.
        problem: Malformed,
    },
}

/// Reads a track; its content says which form it has.
///
/// # Errors
/// No such file, none of the forms, places without times, fewer than two fixes.
pub fn read(path: &Path) -> Result<Track, TrackError> {
    let bytes = input::read(path, MAX_BYTES).map_err(|e| {
        let reason = expecting(plain_reason(&e), "a track: .gpx, .nmea or .csv");
        TrackError::Read { path: path.to_owned(), reason }
    })?;
    match parse(&bytes) {
        Some(found) => found.map_err(|problem| TrackError::Malformed { path: path.to_owned(), problem }),
        None => Err(TrackError::Unknown(path.to_owned())),
    }
}

/// A track of any form; `None` where it has none of them.
#[must_use]
pub fn parse(bytes: &[u8]) -> Option<Result<Track, Malformed>> {
    let bytes = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes);
    let first = bytes.iter().find(|b| !b.is_ascii_whitespace())?;
    let found = match first {
        b'<' => match std::str::from_utf8(bytes) {
            Ok(text) => gpx::parse(text),
            Err(_) => Err(Malformed::new("XML", "is not UTF-8")),
        },
        b'$' | b'!' => nmea::parse(bytes),
        // A header has words, of which letters, quotes or a sign of comments come first.
        b if b.is_ascii_alphabetic() || matches!(b, b'"' | b'#' | b'_') => table::parse(bytes),
        _ => return None,
    };
    Some(found.and_then(Track::checked))
}

impl Track {
    /// In the order of times; of two fixes of one time the first.
    fn checked(mut self) -> Result<Self, Malformed> {
        self.fixes.sort_by(|a, b| a.time.total_cmp(&b.time));
        self.fixes.dedup_by(|later, first| later.time <= first.time);
        if self.fixes.len() < 2 {
            let place = format!("{} track", self.form);
            let what = match self.fixes.len() {
                0 => "no fix (expected 2 or more)",
                _ => "1 fix (expected 2 or more)",
            };
            return Err(Malformed::new(place, what));
        }
        Ok(self)
    }
}

/// Refuses more fixes than a track may have.
fn room_for_another(fixes: usize) -> Result<(), Malformed> {
    match fixes < MAX_FIXES {
        true => Ok(()),
        false => Err(Malformed::new("fixes", format!("more than {MAX_FIXES}"))),
    }
}

/// A place on the earth, if it is one.
fn on_earth(latitude: f64, longitude: f64, altitude: f64) -> Option<[f64; 3]> {
    let is_place = latitude.abs() <= 90.0 && longitude.abs() <= 180.0 && altitude.abs() < 1e6;
    is_place.then_some([latitude, longitude, altitude])
}
