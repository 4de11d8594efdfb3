//! An NRRD volume: any bytes give a volume whose values fill its axes, or an error of one line.

use gausset_field::input::{ReadRequest, parse_nrrd_header};
use gausset_io::text::is_valid_message;

pub(crate) fn check(bytes: &[u8]) {
    match parse_nrrd_header(bytes) {
        Err(error) => is_one_line(&error.to_string()),
        Ok(header) => match header.volume(bytes, &ReadRequest::default()) {
            Err(error) => is_one_line(&error.to_string()),
            Ok(volume) => {
                assert_eq!(volume.values.len(), volume.dims.iter().product::<usize>());
                assert!(volume.spacing.iter().all(|s| *s > 0.0));
            }
        },
    }
}

fn is_one_line(line: &str) {
    assert!(is_valid_message(line), "{line:?}");
}
