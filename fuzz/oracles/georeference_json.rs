//! Properties that must hold for any `georeference.json`.

use gausset_io::dataset::Georeference;
use gausset_io::text::is_valid_message;

/// What is accepted has a place on the earth and is the same after writing and reading; a refusal is one line.
pub(crate) fn check(bytes: &[u8]) {
    let found = match Georeference::parse(bytes) {
        Ok(found) => found,
        Err(reason) => return assert!(is_valid_message(&reason.to_string()), "{reason}"),
    };
    assert!(found.origin.is_valid() && found.schema == Georeference::SCHEMA);
    let text = serde_json::to_string(&found).unwrap_or_default();
    assert_eq!(Georeference::parse(text.as_bytes()), Ok(found));
}
