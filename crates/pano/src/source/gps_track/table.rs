//! CSV tables (also with `;` or tabs): one fix per line; columns are found by name, in any order and case.
//!
//! ```text
//! time      time, timestamp, datetime, date, utc: ISO 8601, or seconds; from 1e8 on they count from 1970
//!           time_ms, timestamp_ms: milliseconds
//! position  lat, lon, and alt or ele; or metres east, north, up (also e, n, u; x, y, z)
//! camera    heading or yaw (clockwise from north), pitch (up), roll (clockwise), degrees
//! ```

use gausset_io::text::excerpt;

use super::{
    GpsFix, GpsTrack, TimeOrigin, TrackCoordinates, UNKNOWN_HEIGHT, check_fix_count, datetime,
    geodetic_position,
};
use crate::source::problem::FileProblem;

/// Seconds from which on a time counts from 1970 (1973 and later).
const SINCE_1970: f64 = 1e8;

/// Indices of the columns.
struct TrackColumns {
    time: usize,
    /// Units of the time column per second.
    per_second: f64,
    coordinates: TrackCoordinates,
    position: [usize; 2],
    up: Option<usize>,
    heading: Option<usize>,
    pitch: Option<usize>,
    roll: Option<usize>,
}

impl TrackColumns {
    fn find(titles: &[String]) -> Result<Self, FileProblem> {
        let column = |names: &[&str]| titles.iter().position(|title| names.contains(&title.as_str()));
        let both = |a: &[&str], b: &[&str]| Some([column(a)?, column(b)?]);
        let seconds = column(&["time", "timestamp", "datetime", "date", "utc", "seconds", "t"]);
        let thousandths = column(&["time_ms", "timestamp_ms"]);
        let earth = both(&["lat", "latitude"], &["lon", "lng", "long", "longitude"]);
        let metres = both(&["east", "e", "x"], &["north", "n", "y"]);
        let missing = |what: &str| {
            let found: Vec<String> = titles.iter().take(12).map(|title| excerpt(title)).collect();
            FileProblem::new("line 1", format!("columns: {what}; found {}", found.join(", ")))
        };
        let (time, per_second) = match (seconds, thousandths) {
            (Some(time), _) => (time, 1.0),
            (None, Some(time)) => (time, 1000.0),
            (None, None) => return Err(missing("no time column (expected time, timestamp or time_ms)")),
        };
        let (places, place, up) = match (earth, metres) {
            (Some(place), _) => (
                TrackCoordinates::Geodetic,
                place,
                column(&["alt", "altitude", "ele", "elevation", "height"]),
            ),
            (None, Some(place)) => (TrackCoordinates::Local, place, column(&["up", "u", "z"])),
            (None, None) => return Err(missing("no position (expected lat and lon, or east and north)")),
        };
        Ok(Self {
            time,
            per_second,
            coordinates: places,
            position: place,
            up,
            heading: column(&["heading", "yaw"]),
            pitch: column(&["pitch"]),
            roll: column(&["roll"]),
        })
    }
}

/// Parses a table with a header line.
///
/// # Errors
/// Missing columns, cells that are not numbers, or invalid positions.
pub fn parse(bytes: &[u8]) -> Result<GpsTrack, FileProblem> {
    let header = bytes.split(|b| *b == b'\n').next().unwrap_or_default();
    let delimiter = [b',', b';', b'\t'].into_iter().find(|d| header.contains(d)).unwrap_or(b',');
    let mut reader =
        csv::ReaderBuilder::new().delimiter(delimiter).flexible(true).trim(csv::Trim::All).from_reader(bytes);
    let titles: Vec<String> = reader
        .byte_headers()
        .map_err(|e| FileProblem::new("line 1", e))?
        .iter()
        .map(|title| String::from_utf8_lossy(title).trim_start_matches(['#', ' ']).to_ascii_lowercase())
        .collect();
    let columns = TrackColumns::find(&titles)?;
    let mut fixes = Vec::new();
    let mut clock = None;
    let mut record = csv::ByteRecord::new();
    while reader.read_byte_record(&mut record).map_err(|e| FileProblem::new("table", e))? {
        check_fix_count(fixes.len())?;
        let line = record.position().map_or(0, csv::Position::line);
        let place = || format!("line {line}");
        let text =
            |at: usize| record.get(at).and_then(|cell| std::str::from_utf8(cell).ok()).unwrap_or_default();
        let bad = |at: usize, expected: &str| {
            let what = format!("{}: {:?} is {expected}", titles[at], excerpt(text(at)));
            FileProblem::new(place(), what)
        };
        let number = |at: usize| -> Result<f64, FileProblem> {
            text(at)
                .parse()
                .ok()
                .filter(|v: &f64| v.abs() < 1e15)
                .ok_or_else(|| bad(at, "not a finite number"))
        };
        // Optional cells may be empty.
        let known = |at: Option<usize>| at.filter(|&at| !text(at).is_empty()).map(number).transpose();
        let (time, of) = match datetime::parse_datetime(text(columns.time)) {
            Some(time) => (time, TimeOrigin::Utc),
            None => {
                let time = number(columns.time).map_err(|_| {
                    bad(columns.time, "not a time (expected seconds or 2026-11-23T10:20:30Z)")
                })? / columns.per_second;
                (time, if time >= SINCE_1970 { TimeOrigin::Utc } else { TimeOrigin::Relative })
            }
        };
        if *clock.get_or_insert(of) != of {
            return Err(bad(columns.time, "on another clock (expected all times since 1970, or none)"));
        }
        let [a, b] = columns.position;
        let (first, second, up) = (number(a)?, number(b)?, known(columns.up)?);
        let at = match columns.coordinates {
            TrackCoordinates::Geodetic => geodetic_position(first, second, up)
                .ok_or_else(|| bad(a, "not a position on the earth with its longitude and altitude (expected degrees and metres)"))?,
            TrackCoordinates::Local => [first, second, up.unwrap_or(UNKNOWN_HEIGHT)],
        };
        let (pitch, roll) = (known(columns.pitch)?, known(columns.roll)?);
        let tilt = (pitch.is_some() || roll.is_some()).then(|| [pitch.unwrap_or(0.0), roll.unwrap_or(0.0)]);
        fixes.push(GpsFix { time, position: at, heading: known(columns.heading)?, tilt });
    }
    let clock = clock.unwrap_or(TimeOrigin::Relative);
    Ok(GpsTrack { format: "CSV", time_origin: clock, coordinates: columns.coordinates, fixes, note: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_found_by_their_names() {
        let text = "Latitude;Longitude;Ele;Time;yaw;roll\n47.5;8.25;400;2026-11-23T10:20:30Z;90;\n47.6;8.25;;2026-11-23T10:20:31Z;;2\n";
        let found = parse(text.as_bytes()).unwrap();
        assert_eq!((found.time_origin, found.coordinates), (TimeOrigin::Utc, TrackCoordinates::Geodetic));
        assert_eq!(found.fixes[0].position, [47.5, 8.25, 400.0]);
        assert_eq!((found.fixes[0].heading, found.fixes[0].tilt), (Some(90.0), None));
        assert_eq!((found.fixes[1].heading, found.fixes[1].tilt), (None, Some([0.0, 2.0])));
        let found = parse(b"t,x,y,z\n0.5,1,2,3\n1.5,2,2,3\n").unwrap();
        assert_eq!((found.time_origin, found.coordinates), (TimeOrigin::Relative, TrackCoordinates::Local));
        assert_eq!((found.fixes[1].time, found.fixes[1].position), (1.5, [2.0, 2.0, 3.0]));
        let found = parse(b"timestamp_ms,lat,lon\n1795429230500,1,2\n").unwrap();
        assert_eq!((found.time_origin, found.fixes[0].time), (TimeOrigin::Utc, 1_795_429_230.5));
    }

    #[test]
    fn mistakes_are_named_with_their_place() {
        for (text, line) in [
            (
                "a,b\n1,2\n",
                "line 1: columns: no time column (expected time, timestamp or time_ms); found a, b",
            ),
            (
                "time,b\n1,2\n",
                "line 1: columns: no position (expected lat and lon, or east and north); found time, b",
            ),
            ("time,lat,lon\n1,2,3\nx,2,3\n", "line 3: time: \"x\" is not a time (expected seconds or"),
            (
                "time,lat,lon\n1,2,3\n2026-11-23T10:20:30Z,2,3\n",
                "line 3: time: \"2026-11-23T10:20:30Z\" is on another clock (expected all times since 1970",
            ),
            ("time,lat,lon\n1,2,\n", "line 2: lon: \"\" is not a finite number"),
            ("time,lat,lon\n1,200,3\n", "line 2: lat: \"200\" is not a position on the earth"),
        ] {
            let found = parse(text.as_bytes()).unwrap_err().to_string();
            assert!(found.starts_with(line), "{found}");
        }
    }
}
