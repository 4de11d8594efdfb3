//! Numbers as people read them.

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

#[cfg(test)]
mod tests {
    #[test]
    fn sizes_read_well() {
        assert_eq!(super::bytes(1023), "1023 bytes");
        assert_eq!(super::bytes(1536), "1.5 KiB");
        assert_eq!(super::bytes(u64::MAX), "16384.0 PiB");
    }
}
