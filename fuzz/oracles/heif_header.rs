//! Properties that must hold for the header of any HEIF file, and for its EXIF.

use std::io::Cursor;

use gausset_io::image::exif::{Exif, with_upright_orientation};
use gausset_io::image::heif::parse_heif_header;
use gausset_io::image::{MAX_PIXELS, MAX_SIDE};
use gausset_io::text::is_valid_message;

/// Sizes are within the limits, and changed copies keep their length.
pub(crate) fn check(bytes: &[u8]) {
    let header = match parse_heif_header(Cursor::new(bytes)) {
        Ok(header) => header,
        Err(error) => return assert!(is_valid_message(&error.to_string()), "{error}"),
    };
    let ([width, height], cropped) = (header.size, header.cropped_size);
    assert!(width.max(height) <= MAX_SIDE && u64::from(width) * u64::from(height) <= MAX_PIXELS);
    assert!(!cropped.contains(&0) && cropped[0] <= width && cropped[1] <= height);
    assert!((1..=8).contains(&header.orientation));
    let mut stored = bytes.to_vec();
    header.remove_turn(&mut stored);
    assert_eq!(stored.len(), bytes.len());
    if let Some(exif) = header.exif {
        assert!(exif.len() <= 65_527);
        // Whatever the directories overlap.
        let upright = with_upright_orientation(&exif);
        assert_eq!(upright.len(), exif.len());
        let _ = Exif::read(&upright);
    }
}
