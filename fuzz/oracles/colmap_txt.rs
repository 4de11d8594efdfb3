//! Properties that must hold for any bytes read as a COLMAP text model.

use std::path::Path;

use gausset_io::dataset::colmap::{ModelFormat, Observations, frames};

use super::colmap_bin::{check_line, check_model, parse};

/// Three files in one, separated by zero bytes.
pub(crate) fn check(bytes: &[u8]) {
    let mut files = bytes.splitn(3, |&b| b == 0);
    let files = [(); 3].map(|()| files.next().unwrap_or_default());
    if let Err(error) = frames::read_text(Path::new("images.txt"), files[0]) {
        check_line(&error);
    }
    match parse(files, ModelFormat::Text, Observations::Keep) {
        Ok(model) => check_model(&model),
        Err(error) => check_line(&error),
    }
}
