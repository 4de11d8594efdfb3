//! Dates and times as seconds since 1970, UTC, without leap seconds (POSIX time).

/// Parses `2026-11-23T10:20:30.5Z`, `2026-11-23 10:20:30+01:00` or EXIF's `2026:11:23 10:20:30` to seconds since 1970.
/// Without a time zone UTC is assumed.
#[must_use]
pub fn parse_datetime(text: &str) -> Option<f64> {
    let text = text.trim();
    let (date, time) = text.split_at_checked(10)?;
    let time = time.strip_prefix(['T', 't', ' '])?.trim_start();
    let mut parts = date.split(['-', ':', '/']).map(parse_digits);
    let (year, month, day) = (parts.next()??, parts.next()??, parts.next()??);
    if parts.next().is_some() {
        return None;
    }
    let zone_at = time.find(['Z', 'z', '+', '-']).unwrap_or(time.len());
    let (clock, zone) = time.split_at_checked(zone_at)?;
    let mut parts = clock.trim_end().split(':');
    let (hour, minute) = (parse_digits(parts.next()?)?, parse_digits(parts.next()?)?);
    let second = match parts.next() {
        Some(text) => parse_decimal(text)?,
        None => 0.0,
    };
    // 60 is a leap second.
    if parts.next().is_some() || hour > 24 || minute > 59 || !(0.0..61.0).contains(&second) {
        return None;
    }
    let offset = match zone.as_bytes() {
        [] | [b'Z' | b'z'] => 0.0,
        [sign @ (b'+' | b'-'), digits @ ..] => {
            let digits: Vec<u8> = digits.iter().copied().filter(|b| *b != b':').collect();
            let number = parse_digits(std::str::from_utf8(&digits).ok()?)?;
            let minutes = match digits.len() {
                2 => 60 * number,
                4 => 60 * (number / 100) + number % 100,
                _ => return None,
            };
            if *sign == b'-' { -60.0 * minutes as f64 } else { 60.0 * minutes as f64 }
        }
        _ => return None,
    };
    let days = days_since_1970(year, month, day)?;
    Some(86_400.0 * days as f64 + (3600 * hour + 60 * minute) as f64 + second - offset)
}

/// Days from 1970-01-01 to a date of the Gregorian calendar; `None` if the date does not exist.
///
/// Source: the era of 400 years has 146,097 days; the year begins in March, so that a leap day is its last.
#[must_use]
pub fn days_since_1970(year: i64, month: i64, day: i64) -> Option<i64> {
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let longest = match month {
        2 => 28 + i64::from(is_leap),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    };
    if !(1..=9999).contains(&year) || !(1..=12).contains(&month) || !(1..=longest).contains(&day) {
        return None;
    }
    let year = if month <= 2 { year - 1 } else { year };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    Some(era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468)
}

fn parse_digits(text: &str) -> Option<i64> {
    let is_number = (1..=4).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
    is_number.then(|| text.parse().ok()).flatten()
}

fn parse_decimal(text: &str) -> Option<f64> {
    let is_number = text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    is_number.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_those_of_date() {
        // `date -u -d '…' +%s`
        for (text, expected) in [
            ("1970-01-01T00:00:00Z", 0.0),
            ("2000-02-29T12:00:00Z", 951_825_600.0),
            ("2026-11-23T10:20:30.25Z", 1_795_429_230.25),
            ("2026-11-23T11:20:30+01:00", 1_795_429_230.0),
            ("2026-11-23 02:20:30-0800", 1_795_429_230.0),
            ("2026:11:23 10:20:30", 1_795_429_230.0),
            ("1969-12-31T23:59Z", -60.0),
        ] {
            assert_eq!(parse_datetime(text), Some(expected), "{text}");
        }
        for text in [
            "",
            "2026-11-23",
            "2026-13-01T00:00:00Z",
            "2026-11-23T25:00:00Z",
            "2026-11-23T1:2:x",
            "2026-02-29T10:00:00Z",
            "1900-02-29T10:00:00Z",
            "2026-04-31T10:00:00Z",
            "é6-11-23T10:20:30",
        ] {
            assert_eq!(parse_datetime(text), None, "{text}");
        }
    }
}
