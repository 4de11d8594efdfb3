//! Parsers of option values that several commands take.

/// A finite number above 0, at most 10^6.
pub(crate) fn parse_positive(text: &str) -> Result<f64, String> {
    let value = text.parse::<f64>().ok().filter(|v| v.is_finite() && *v > 0.0 && *v <= 1e6);
    value.ok_or_else(|| format!("expected a number above 0, at most 1000000, found `{text}`"))
}

/// A number of 0 to 1.
pub(crate) fn parse_fraction(text: &str) -> Result<f64, String> {
    let found = text.parse().ok().filter(|share: &f64| (0.0..=1.0).contains(share));
    found.ok_or_else(|| format!("expected 0..1, found `{text}`"))
}

/// Comma-separated numbers; `None` if one is not a finite number.
pub(crate) fn parse_numbers(text: &str) -> Option<Vec<f64>> {
    text.split(',').map(|number| number.trim().parse().ok().filter(|v: &f64| v.is_finite())).collect()
}

/// The minimum and maximum corner of a box: six numbers.
pub(crate) fn parse_box(text: &str) -> Result<[[f64; 3]; 2], String> {
    match parse_numbers(text).as_deref() {
        Some(&[x0, y0, z0, x1, y1, z1]) if x0 < x1 && y0 < y1 && z0 < z1 => Ok([[x0, y0, z0], [x1, y1, z1]]),
        _ => Err(format!(
            "expected two opposite corners x0,y0,z0,x1,y1,z1 with x0 < x1, y0 < y1, z0 < z1, found `{text}`"
        )),
    }
}
