//! NMEA 0183 sentences of a GNSS receiver, `$GPRMC,…*6A`.
//!
//! ```text
//! RMC  time, A (valid), ddmm.mm, N, dddmm.mm, E, speed, course, ddmmyy      position and date
//! GGA  time, ddmm.mm, N, dddmm.mm, E, quality, satellites, hdop, altitude   position with altitude
//! HDT  heading, T                                                           viewing direction of the camera
//! ```
//! Sentences of any system are read (GP, GN, GL, GA …). Sentences with a wrong checksum or without a fix are skipped.
//! `course` is the direction of motion of the receiver and is not used. Source: manuals of receivers.

use super::{
    GpsFix, GpsTrack, TimeOrigin, TrackCoordinates, UNKNOWN_HEIGHT, check_fix_count, datetime,
    geodetic_position,
};
use crate::source::problem::FileProblem;

const DAY: f64 = 86_400.0;

/// Position at a time of day.
struct NmeaFix {
    of_day: f64,
    position: [f64; 2],
    altitude: Option<f64>,
    heading: Option<f64>,
    /// Start of the day, seconds since 1970, if a sentence gave the date.
    day: Option<f64>,
}

/// Parses all sentences of a file.
///
/// # Errors
/// No sentence has a position.
pub fn parse(bytes: &[u8]) -> Result<GpsTrack, FileProblem> {
    let mut seen: Vec<NmeaFix> = Vec::new();
    let (mut sentences, mut damaged) = (0u64, 0u64);
    for line in bytes.split(|b| *b == b'\n') {
        let Some(at) = line.iter().position(|b| *b == b'$') else { continue };
        let Ok(line) = std::str::from_utf8(&line[at + 1..]) else { continue };
        sentences += 1;
        let Some(body) = verify_checksum(line.trim_end()) else {
            damaged += 1;
            continue;
        };
        let fields: Vec<&str> = body.split(',').take(16).collect();
        let field = |k: usize| fields.get(k).copied().unwrap_or_default();
        let kind = field(0);
        let sighting = match kind.get(kind.len().saturating_sub(3)..).unwrap_or_default() {
            "RMC" if field(2) == "A" => parse_position(field(1), &[field(3), field(4), field(5), field(6)])
                .map(|found| NmeaFix { day: parse_date(field(9)), ..found }),
            "GGA" if !matches!(field(6), "" | "0") => {
                parse_position(field(1), &[field(2), field(3), field(4), field(5)])
                    .map(|found| NmeaFix { altitude: parse_number(field(9)), ..found })
            }
            "HDT" => {
                if let Some(last) = seen.last_mut() {
                    last.heading = parse_number(field(1)).or(last.heading);
                }
                None
            }
            _ => None,
        };
        let Some(found) = sighting else { continue };
        match seen.last_mut() {
            // Sentences with the same time complete each other.
            Some(last) if last.of_day == found.of_day => {
                last.altitude = last.altitude.or(found.altitude);
                last.day = last.day.or(found.day);
            }
            _ => {
                check_fix_count(seen.len())?;
                seen.push(found);
            }
        }
    }
    if seen.is_empty() {
        let what = format!(
            "no position (expected $--RMC or $--GGA with a fix; found {sentences} sentences, {damaged} of them damaged)"
        );
        return Err(FileProblem::new("NMEA", what));
    }
    let note =
        (damaged > 0).then(|| format!("{damaged} of {sentences} sentences are damaged and were skipped"));
    Ok(with_dates(&seen, note))
}

/// Converts times of day to times, with the date of the last sentence that gave one (or the first one in the file). The
/// day advances past midnight.
fn with_dates(seen: &[NmeaFix], note: Option<String>) -> GpsTrack {
    let first_day = seen.iter().find_map(|s| s.day);
    let mut day = first_day.unwrap_or(0.0);
    let mut last = f64::NEG_INFINITY;
    let mut fixes = Vec::with_capacity(seen.len());
    for s in seen {
        match s.day {
            Some(own) => day = own,
            // Half a day back is midnight; less is a sentence out of order.
            None if day + s.of_day < last - 0.5 * DAY => day += DAY,
            None => {}
        }
        last = day + s.of_day;
        let [north, east] = s.position;
        let place = [north, east, s.altitude.unwrap_or(UNKNOWN_HEIGHT)];
        fixes.push(GpsFix { time: last, position: place, heading: s.heading, tilt: None });
    }
    let clock = if first_day.is_some() { TimeOrigin::Utc } else { TimeOrigin::Relative };
    let without_date = "no sentence gives the date (RMC): times are times of day".to_owned();
    let note = note.or((clock == TimeOrigin::Relative).then_some(without_date));
    GpsTrack { format: "NMEA", time_origin: clock, coordinates: TrackCoordinates::Geodetic, fixes, note }
}

/// The text before `*`, if the checksum after it (exclusive or of all bytes) is correct or missing.
fn verify_checksum(line: &str) -> Option<&str> {
    let Some((body, sum)) = line.split_once('*') else { return Some(line) };
    let sum = u8::from_str_radix(sum.get(..2)?, 16).ok()?;
    (body.bytes().fold(0, |sum, b| sum ^ b) == sum).then_some(body)
}

fn parse_number(text: &str) -> Option<f64> {
    text.parse().ok().filter(|v: &f64| v.is_finite() && v.abs() < 1e6)
}

fn parse_position(time: &str, [north, n, east, e]: &[&str; 4]) -> Option<NmeaFix> {
    let (hours, rest) = time.split_at_checked(2)?;
    let (minutes, seconds) = rest.split_at_checked(2)?;
    let of_day = 3600.0 * parse_number(hours)? + 60.0 * parse_number(minutes)? + parse_number(seconds)?;
    // The last two digits before the point are minutes, those before them degrees.
    let angle = |text: &str, negative: bool| {
        let at = text.find('.').unwrap_or(text.len()).checked_sub(2)?;
        let (degrees, minutes) = text.split_at_checked(at)?;
        let value = parse_number(degrees)? + parse_number(minutes)? / 60.0;
        Some(if negative { -value } else { value })
    };
    let [north, east, _] = geodetic_position(angle(north, *n == "S")?, angle(east, *e == "W")?, None)?;
    (0.0..=DAY).contains(&of_day).then_some(NmeaFix {
        of_day,
        position: [north, east],
        altitude: None,
        heading: None,
        day: None,
    })
}

/// Start of the day `ddmmyy`, seconds since 1970.
fn parse_date(text: &str) -> Option<f64> {
    if text.len() != 6 || !text.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let part = |k: usize| text.get(k..k + 2)?.parse::<i64>().ok();
    // GPS began in 1980: years from 80 on are in the 1900s.
    let year = part(4)?;
    let century = if year < 80 { 2000 } else { 1900 };
    let days = datetime::days_since_1970(century + year, part(2)?, part(0)?)?;
    Some(DAY * days as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_of_one_moment_complete_each_other() {
        // The widely published examples with their checksums; then past midnight and south-west.
        let text = "$GPGGA,123519,4807.038,N,01131.000,E,1,08,0.9,545.4,M,46.9,M,,*47\r\n\
                    $GPRMC,123519,A,4807.038,N,01131.000,E,022.4,084.4,230394,003.1,W*6A\r\n\
                    $GPHDT,274.07,T*03\r\n\
                    $GNGGA,000001.50,3330.000,S,07045.600,W,2,10,1.0,12.5,M,,M,,\r\n";
        let found = parse(text.as_bytes()).unwrap();
        assert_eq!((found.time_origin, found.fixes.len()), (TimeOrigin::Utc, 2));
        let first = found.fixes[0];
        let noon = datetime::parse_datetime("1994-03-23T12:35:19Z").unwrap();
        assert_eq!((first.time, first.heading), (noon, Some(274.07)));
        assert!(
            (first.position[0] - 48.1173).abs() < 1e-9 && (first.position[1] - 11.516_666_667).abs() < 1e-9
        );
        assert_eq!(first.position[2], 545.4);
        let second = found.fixes[1];
        assert_eq!(second.time, noon - 45_319.0 + DAY + 1.5);
        assert!((second.position[0] + 33.5).abs() < 1e-9 && (second.position[1] + 70.76).abs() < 1e-9);
    }

    #[test]
    fn damaged_sentences_are_passed_over_and_none_is_refused() {
        let good = "$GPGGA,123519,4807.038,N,01131.000,E,1,08,0.9,545.4,M,46.9,M,,*47\n";
        let found = parse(format!("{good}{}", good.replace("4807", "4907")).as_bytes()).unwrap();
        assert_eq!((found.fixes.len(), found.time_origin), (1, TimeOrigin::Relative));
        assert_eq!(found.note.as_deref(), Some("1 of 2 sentences are damaged and were skipped"));
        let refused = parse(b"$GPRMC,123519,V,,,,,,,230394,,\n").unwrap_err().to_string();
        assert!(
            refused.starts_with("NMEA: no position (expected $--RMC or $--GGA with a fix; found 1"),
            "{refused}"
        );
    }
}
