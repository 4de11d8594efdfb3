//! Properties that must hold for any bytes read as an image.

use gausset_io::text::is_valid_message;
use std::io::Cursor;

use gausset_io::image::header::parse_header;
use gausset_io::image::{MAX_DECODED_BYTES, decode, decoder_is_running};

/// Images of at most this many pixels are decoded: larger ones are legal, but slow.
const PIXELS: u64 = 1 << 22;

/// Panics of third-party decoders are errors of the image; those of our own code are findings.
static HOOK: std::sync::Once = std::sync::Once::new();

/// A decoded image has the size of its header; otherwise there is an error of one line.
pub(crate) fn check(bytes: &[u8]) {
    HOOK.call_once(|| {
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if !decoder_is_running() {
                hook(panic);
            }
        }));
    });
    let header = parse_header(Cursor::new(bytes));
    if let Ok(header) = header {
        let pixels = u64::from(header.width) * u64::from(header.height);
        assert!(pixels * u64::from(header.channels) <= MAX_DECODED_BYTES);
        assert!((1..=8).contains(&header.orientation));
        if pixels > PIXELS {
            return;
        }
    }
    match (decode(bytes), header) {
        (Ok(picture), Ok(header)) => {
            assert_eq!((picture.width, picture.height), (header.width, header.height));
            let pixels = picture.width as usize * picture.height as usize;
            assert_eq!(picture.rgb.len(), 3 * pixels);
            assert!(picture.alpha.is_none_or(|alpha| alpha.len() == pixels));
        }
        (Ok(_), Err(problem)) => panic!("decoded though the header was refused: {problem}"),
        (Err(problem), _) => {
            let line = problem.to_string();
            assert!(line.starts_with("picture: ") && is_valid_message(&line), "{line:?}");
        }
    }
}
