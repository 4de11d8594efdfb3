//! Properties that must hold for any bytes read as a splat file of any format.

use gausset_io::text::is_valid_message;
use std::path::Path;

use gausset_io::splat::{FORMATS, Format, Initial, ReadLimits, SaveOptions, parse_initial, write};

/// Reads the bytes; accepted splats are valid, and every format that can be written reproduces their number.
pub(crate) fn check(bytes: &[u8]) {
    let (path, limits) = (Path::new("fuzz.splats"), ReadLimits { memory_bytes: 128 << 20 });
    // Any bytes of the right length are a `.splat` if that is their name.
    if let Ok(Initial::Splats(named)) = parse_initial(bytes, Path::new("fuzz.splat"), &limits) {
        assert!((0..named.splats.len()).all(|i| named.splats.is_valid(i)));
    }
    let document = match parse_initial(bytes, path, &limits) {
        Ok(Initial::Splats(document)) => document,
        Ok(Initial::Points(_)) => return,
        Err(error) => {
            let line = error.to_string();
            assert!(line.starts_with("fuzz.splats: ") && is_valid_message(&line), "{line:?}");
            return;
        }
    };
    assert_eq!(document.splats.validate(), Ok(()));
    assert!((0..document.splats.len()).all(|i| document.splats.is_valid(i)));
    // A whole large file would take too long for a fuzzer.
    if document.splats.is_empty() || document.splats.len() > 64 {
        return;
    }
    for row in FORMATS.iter().filter(|row| row.format.is_written() && !row.format.is_folder()) {
        let mut bytes = Vec::new();
        let saved = write(&mut bytes, &document, row.format, &SaveOptions::default())
            .expect("memory takes everything");
        assert_eq!(saved.bytes, bytes.len() as u64, "{}", row.name);
        match parse_initial(&bytes, path, &limits) {
            Ok(Initial::Splats(again)) => {
                assert_eq!(again.format, row.format);
                // A quantised rotation may be the zero of its format, a clipped scale may be 0.
                let dropped = again.report.dropped_total() as usize;
                assert_eq!(again.splats.len() + dropped, document.splats.len(), "{}", row.name);
                assert!(row.format != Format::Ply || dropped == 0);
            }
            other => panic!("our own {} is not read: {other:?}", row.name),
        }
    }
}
