//! Parsers of option values that several commands take.

/// A finite number above 0, at most 10^6.
pub(crate) fn parse_positive(text: &str) -> Result<f64, String> {
    let value = text.parse::<f64>().ok().filter(|v| v.is_finite() && *v > 0.0 && *v <= 1e6);
    value.ok_or_else(|| format!("expected a number above 0, at most 1000000, found `{text}`"))
}
