//! Saving: any document in any format that is written.

use std::borrow::Cow;
use std::io::{self, Write};
use std::path::Path;

use gausset_core::splats_transform::Similarity;

use super::format::written_endings;
use super::{Document, Format, SpzOptions, ply};
use crate::atomic::{FileSystem, WriteError, WriteOptions, write_atomic_with};

/// How files are written. Equal documents and options give equal bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SaveOptions {
    /// Format; `None` = that of the end of the name.
    pub format: Option<Format>,
    /// PLY: write `nx ny nz` (all zero) as the released code does: useless, but some viewers insist on them, and files
    /// for strangers should open everywhere. Without them a splat is 12 bytes smaller.
    pub normals: bool,
    /// SPZ.
    pub spz: SpzOptions,
}

impl Default for SaveOptions {
    fn default() -> Self {
        Self { format: None, normals: true, spz: SpzOptions::default() }
    }
}

/// What was written.
#[derive(Clone, Debug, PartialEq)]
pub struct Saved {
    /// Format.
    pub format: Format,
    /// Version of the format, where it has versions.
    pub version: Option<&'static str>,
    /// Axes of the numbers in the file, where they are not those of the splats or the file names them.
    pub frame: Option<&'static str>,
    /// Whether the file says how the splats are to be drawn.
    pub has_mode: bool,
    /// Splats in the file.
    pub splats: u64,
    /// Splats left out because a parameter is not finite or the rotation is zero.
    pub dropped: u64,
    /// Length of the file.
    pub bytes: u64,
    /// Seconds spent in bringing it to the device.
    pub sync_seconds: f64,
    /// Splats with a value that the format cannot hold and that was brought to its nearest, with reasons.
    pub clipped: Vec<(&'static str, u64)>,
    /// What else is not in the file: `SH above degree 0`.
    pub lost: Vec<String>,
}

impl Saved {
    /// Says what a format loses that holds nothing but the numbers of the splats, up to an SH degree.
    pub(super) fn lose_all_but_numbers(&mut self, document: &Document, sh_degree: u8) {
        if document.splats.sh_degree > sh_degree {
            self.lost.push(format!("SH above degree {sh_degree}"));
        }
        self.has_mode = false;
        if document.antialiased {
            self.lost.push("that they are to be drawn antialiased".to_owned());
        }
        self.lose_scene_facts(document);
    }

    /// Says what a format loses that knows neither what is up nor what is sky.
    pub(super) fn lose_scene_facts(&mut self, document: &Document) {
        if document.vertical_axis.is_some() {
            self.lost.push("which direction is up".to_owned());
        }
        if document.saved_from_dataset.is_some_and(|moved| moved != Similarity::IDENTITY) {
            self.lost.push("how they stand to the dataset's cameras".to_owned());
        }
        self.lose_sky(document);
    }

    /// Says that a format does not tell which splats are the sky.
    pub(super) fn lose_sky(&mut self, document: &Document) {
        if document.sky > 0 {
            self.lost.push("which splats are the sky".to_owned());
        }
    }

    /// Some splats in so many bytes, with nothing lost.
    pub(super) fn new(format: Format, splats: usize, bytes: u64) -> Self {
        let (clipped, lost) = (Vec::new(), Vec::new());
        Self {
            format,
            version: None,
            frame: None,
            has_mode: true,
            splats: splats as u64,
            dropped: 0,
            bytes,
            sync_seconds: 0.0,
            clipped,
            lost,
        }
    }
}

/// Saves a document atomically, in the format that the options or the end of the name tell.
///
/// # Errors
/// A name that tells no format that is written; a failed write; a name that is taken, with
/// [`crate::atomic::Overwrite::Refuse`].
pub fn save(
    fs: &dyn FileSystem,
    path: &Path,
    document: &Document,
    options: &SaveOptions,
    write_options: &WriteOptions,
) -> Result<Saved, WriteError> {
    let named = || Format::of_path(path).filter(|format| format.is_written());
    let Some(format) = options.format.or_else(named) else {
        let reason = format!("no known splat format (expected a name that ends in {})", written_endings());
        let source = io::Error::new(io::ErrorKind::InvalidInput, reason);
        return Err(WriteError::Io { path: path.to_owned(), action: "name", source });
    };
    let exactly = if format == Format::Ply { ply::file_bytes(document, options) } else { 0 };
    let needed_bytes = write_options.needed_bytes.max(exactly);
    let write_options = WriteOptions { needed_bytes, ..*write_options };
    let body = |file: &mut crate::atomic::AtomicWriter<'_>| write(file, document, format, options);
    let (saved, committed) = write_atomic_with(fs, path, &write_options, body)?;
    Ok(Saved { sync_seconds: committed.sync_seconds, ..saved })
}

/// Writes a document to a stream. Splats that are not usable ([`gausset_core::Splats::is_usable`]) are left out.
///
/// # Errors
/// The writer failed; the arrays of the splats do not fit together; the format is not written.
pub fn write(
    writer: &mut dyn Write,
    document: &Document,
    format: Format,
    options: &SaveOptions,
) -> io::Result<Saved> {
    let _span = gausset_prof::span("write_splats");
    let invalid = |error: String| io::Error::new(io::ErrorKind::InvalidInput, error);
    document.splats.validate().map_err(|error| invalid(error.to_string()))?;
    let Some(write) = format.row().write else {
        return Err(invalid(format!("{} is read only", format.row().title)));
    };
    let (document, dropped) = usable(document);
    let saved = write(writer, &document, options)?;
    Ok(Saved { dropped, ..saved })
}

/// The document without the splats that cannot be drawn, and how many these are.
fn usable(document: &Document) -> (Cow<'_, Document>, u64) {
    let splats = &document.splats;
    let stays: Vec<usize> = (0..splats.len()).filter(|&i| splats.is_usable(i)).collect();
    if stays.len() == splats.len() {
        return (Cow::Borrowed(document), 0);
    }
    let scene = splats.len().saturating_sub(document.sky);
    let sky = stays.iter().filter(|&&i| i >= scene).count();
    (Cow::Owned(document.with_splats(splats.select(&stays), sky)), (splats.len() - stays.len()) as u64)
}
