//! CSV tables (also with `;` or tabs): one fix per line; columns are found by name, in any order and case.
//!
//! ```text
//! time      time, timestamp, datetime, date, utc: ISO 8601, or seconds; from 1e8 on they count from 1970
//!           time_ms, timestamp_ms: milliseconds
//! position  lat, lon, and alt or ele; or metres east, north, up (also e, n, u; x, y, z)
//! camera    heading or yaw (clockwise from north), pitch (up), roll (clockwise), degrees
//! ```

use gausset_io::units::excerpt;

use super::{Clock, Fix, Places, Track, clock, on_earth, room_for_another};
use crate::poses::Malformed;

/// Seconds from which on a time counts from 1970 (1973 and later).
const SINCE_1970: f64 = 1e8;

/// Indices of the columns.
struct Columns {
    time: usize,
    /// Units of the time column per second.
    per_second: f64,
    places: Places,
    place: [usize; 2],
    up: Option<usize>,
    heading: Option<usize>,
    pitch: Option<usize>,
    roll: Option<usize>,
}

impl Columns {
    fn find(titles: &[String]) -> Result<Self, Malformed> {
        let column = |names: &[&str]| titles.iter().position(|title| names.contains(&title.as_str()));
        let both = |a: &[&str], b: &[&str]| Some([column(a)?, column(b)?]);
        let seconds = column(&["time", "timestamp", "datetime", "date", "utc", "seconds", "t"]);
        let thousandths = column(&["time_ms", "timestamp_ms"]);
        let earth = both(&["lat", "latitude"], &["lon", "lng", "long", "longitude"]);
        let metres = both(&["east", "e", "x"], &["north", "n", "y"]);
        let missing = |what: &str| {
            let found: Vec<String> = titles.iter().take(12).map(|title| excerpt(title)).collect();
            Malformed::new("line 1", format!("columns: {what}; found {}", found.join(", ")))
        };
        let (time, per_second) = match (seconds, thousandths) {
            (Some(time), _) => (time, 1.0),
            (None, Some(time)) => (time, 1000.0),
            (None, None) => return Err(missing("no time column (expected time, timestamp or time_ms)")),
        };
        let (places, place, up) = match (earth, metres) {
            (Some(place), _) => {
                (Places::Earth, place, column(&["alt", "altitude", "ele", "elevation", "height"]))
            }
            (None, Some(place)) => (Places::Metres, place, column(&["up", "u", "z"])),
            (None, None) => return Err(missing("no position (expected lat and lon, or east and north)")),
        };
        Ok(Self {
            time,
            per_second,
            places,
            place,
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
pub fn parse(bytes: &[u8]) -> Result<Track, Malformed> {
    let header = bytes.split(|b| *b == b'\n').next().unwrap_or_default();
    let delimiter = [b',', b';', b'\t'].into_iter().find(|d| header.contains(d)).unwrap_or(b',');
    let mut reader =
        csv::ReaderBuilder::new().delimiter(delimiter).flexible(true).trim(csv::Trim::All).from_reader(bytes);
    let titles: Vec<String> = reader
        .byte_headers()
        .map_err(|e| Malformed::new("line 1", e))?
        .iter()
        .map(|title| String::from_utf8_lossy(title).trim_start_matches(['#', ' ']).to_ascii_lowercase())
        .collect();
    let columns = Columns::find(&titles)?;
    let mut fixes = Vec::new();
    let mut clock = None;
    let mut record = csv::ByteRecord::new();
    while reader.read_byte_record(&mut record).map_err(|e| Malformed::new("table", e))? {
        room_for_another(fixes.len())?;
        let line = record.position().map_or(0, csv::Position::line);
        let place = || format!("line {line}");
        let text =
            |at: usize| record.get(at).and_then(|cell| std::str::from_utf8(cell).ok()).unwrap_or_default();
        let bad = |at: usize, expected: &str| {
            let what = format!("{}: {:?} is {expected}", titles[at], excerpt(text(at)));
            Malformed::new(place(), what)
        };
        let number = |at: usize| -> Result<f64, Malformed> {
            text(at)
                .parse()
                .ok()
                .filter(|v: &f64| v.abs() < 1e15)
                .ok_or_else(|| bad(at, "not a finite number"))
        };
        // Optional cells may be empty.
        let known = |at: Option<usize>| at.filter(|&at| !text(at).is_empty()).map(number).transpose();
        let (time, of) = match clock::seconds(text(columns.time)) {
            Some(time) => (time, Clock::Utc),
            None => {
                let time = number(columns.time).map_err(|_| {
                    bad(columns.time, "not a time (expected seconds or 2026-11-23T10:20:30Z)")
                })? / columns.per_second;
                (time, if time >= SINCE_1970 { Clock::Utc } else { Clock::Own })
            }
        };
        if *clock.get_or_insert(of) != of {
            return Err(bad(columns.time, "on another clock (expected all times since 1970, or none)"));
        }
        let [a, b] = columns.place;
        let (first, second, up) = (number(a)?, number(b)?, known(columns.up)?.unwrap_or(0.0));
        let at = match columns.places {
            Places::Earth => on_earth(first, second, up)
                .ok_or_else(|| bad(a, "not a position on the earth with its longitude and altitude (expected degrees and metres)"))?,
            Places::Metres => [first, second, up],
        };
        let (pitch, roll) = (known(columns.pitch)?, known(columns.roll)?);
        let tilt = (pitch.is_some() || roll.is_some()).then(|| [pitch.unwrap_or(0.0), roll.unwrap_or(0.0)]);
        fixes.push(Fix { time, place: at, heading: known(columns.heading)?, tilt });
    }
    let clock = clock.unwrap_or(Clock::Own);
    Ok(Track { form: "CSV", clock, places: columns.places, fixes, note: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_found_by_their_names() {
        let text = "Latitude;Longitude;Ele;Time;yaw;roll\n47.5;8.25;400;2026-11-23T10:20:30Z;90;\n47.6;8.25;;2026-11-23T10:20:31Z;;2\n";
        let found = parse(text.as_bytes()).unwrap();
        assert_eq!((found.clock, found.places), (Clock::Utc, Places::Earth));
        assert_eq!(found.fixes[0].place, [47.5, 8.25, 400.0]);
        assert_eq!((found.fixes[0].heading, found.fixes[0].tilt), (Some(90.0), None));
        assert_eq!((found.fixes[1].heading, found.fixes[1].tilt), (None, Some([0.0, 2.0])));
        let found = parse(b"t,x,y,z\n0.5,1,2,3\n1.5,2,2,3\n").unwrap();
        assert_eq!((found.clock, found.places), (Clock::Own, Places::Metres));
        assert_eq!((found.fixes[1].time, found.fixes[1].place), (1.5, [2.0, 2.0, 3.0]));
        let found = parse(b"timestamp_ms,lat,lon\n1795429230500,1,2\n").unwrap();
        assert_eq!((found.clock, found.fixes[0].time), (Clock::Utc, 1_795_429_230.5));
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
