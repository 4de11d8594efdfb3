//! Numbers, and text from outside, as people can read them in a message.

/// `512 bytes`, `1.5 KiB`, `2.0 GiB`.
#[must_use]
pub fn bytes(count: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if count < 1024 {
        return format!("{count} bytes");
    }
    let mut value = count as f64 / 1024.0;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

/// Text from a file for a message: quoted, short, on one line, without anything that a terminal would obey.
#[must_use]
pub fn quote(text: &str) -> String {
    const MAX_CHARS: usize = 60;
    let short: String = text.chars().take(MAX_CHARS).collect();
    let cut = if short.len() < text.len() { "…" } else { "" };
    format!("\"{}{cut}\"", short.escape_debug())
}

#[cfg(test)]
mod tests {
    #[test]
    fn foreign_text_is_harmless() {
        assert_eq!(super::quote("a\x1b[31m\"b\"\n"), r#""a\u{1b}[31m\"b\"\n""#);
        assert_eq!(super::quote(&"ä".repeat(70)), format!("\"{}…\"", "ä".repeat(60)));
    }

    #[test]
    fn sizes_read_well() {
        assert_eq!(super::bytes(1023), "1023 bytes");
        assert_eq!(super::bytes(1536), "1.5 KiB");
        assert_eq!(super::bytes(u64::MAX), "16384.0 PiB");
    }
}
