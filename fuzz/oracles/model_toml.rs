//! A model description is valid, or refused with an error of one line.

use gausset_io::units::is_plain;
use gausset_segment::Description;

pub(crate) fn check(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match Description::parse(text) {
        Ok(description) => assert!(description.classes.len() <= 10_000),
        Err(line) => assert!(is_plain(&line), "{line:?}"),
    }
}
