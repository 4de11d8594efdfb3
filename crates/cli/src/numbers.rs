//! Formatting of numbers and durations for people.

pub(crate) use gausset_io::text::{counted, grouped};

/// Formats a duration: `7 s`, `2:05 min`, `3:02:01 h`.
pub(crate) fn duration(seconds: f64) -> String {
    // Float to integer conversions saturate, and NaN becomes 0.
    let whole = seconds.round() as u64;
    let (hours, minutes, rest) = (whole / 3600, whole / 60 % 60, whole % 60);
    match (hours, minutes) {
        (0, 0) => format!("{rest} s"),
        (0, _) => format!("{minutes}:{rest:02} min"),
        _ => format!("{hours}:{minutes:02}:{rest:02} h"),
    }
}

/// Formats a number with three significant digits: `0.0213`, `3.45`, `123`.
pub(crate) fn three_digits(value: f64) -> String {
    if !value.is_finite() {
        return value.to_string();
    }
    let magnitude = value.abs();
    if magnitude >= 1e9 {
        return format!("{value:.2e}");
    }
    let decimals = match magnitude {
        m if m >= 100.0 => 0,
        m if m >= 10.0 => 1,
        m if m >= 1.0 => 2,
        m if m >= 0.1 => 3,
        m if m >= 0.01 => 4,
        0.0 => 0,
        _ => 5,
    };
    format!("{value:.decimals$}")
}

/// Formats a PSNR in dB. `None` is infinite: the images are equal.
pub(crate) fn decibels(psnr: Option<f64>) -> String {
    psnr.map_or_else(|| "inf dB".to_owned(), |psnr| format!("{psnr:.2} dB"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_grouped_by_thousands() {
        assert_eq!(
            [0, 12, 999, 1000, 165_751, 1_000_000].map(grouped),
            ["0", "12", "999", "1,000", "165,751", "1,000,000"]
        );
        assert_eq!(counted(1, "image"), "1 image");
        assert_eq!(counted(0, "image"), "0 images");
    }

    #[test]
    fn durations_have_the_unit_that_fits() {
        assert_eq!(
            [0.4, 59.4, 59.6, 125.0, 10_921.0].map(duration),
            ["0 s", "59 s", "1:00 min", "2:05 min", "3:02:01 h"]
        );
        assert_eq!(duration(f64::NAN), "0 s");
    }

    #[test]
    fn three_digits_are_shown_whatever_the_size() {
        assert_eq!([0.021_34, 3.451, 123.4, 0.5].map(three_digits), ["0.0213", "3.45", "123", "0.500"]);
        assert_eq!([f64::INFINITY, 0.0].map(three_digits), ["inf", "0"]);
        assert_eq!([1e300, -2.346e9, 1e38].map(three_digits), ["1.00e300", "-2.35e9", "1.00e38"]);
    }
}
