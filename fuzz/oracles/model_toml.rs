//! A model description is valid, or refused with an error of one line.

use gausset_io::text::is_valid_message;
use gausset_segment::ModelDescription;

pub(crate) fn check(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match ModelDescription::parse(text) {
        Ok(description) => assert!(description.classes.len() <= 10_000),
        Err(error) => assert!(is_valid_message(&error.to_string()), "{error}"),
    }
}
