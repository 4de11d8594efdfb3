//! Saves documents in any format that can be written.

use std::borrow::Cow;
use std::io::{self, Write};
use std::path::Path;

use gausset_core::splats_transform::Similarity;

use super::format::writable_extensions;
use super::{Format, SplatFile, SpzOptions, ply};
use crate::atomic::{FileSystem, WriteError, WriteOptions, write_atomic_with};

/// Options of writing. Equal documents and options give equal bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SaveOptions {
    /// Format; `None` = by the ending of the file name.
    pub format: Option<Format>,
    /// PLY: write `nx ny nz` (all zero) like the released code. They are useless, but some viewers require them, and
    /// files should open everywhere. Without them, a splat is 12 bytes smaller.
    pub normals: bool,
    /// Options of SPZ.
    pub spz: SpzOptions,
}

impl Default for SaveOptions {
    fn default() -> Self {
        Self { format: None, normals: true, spz: SpzOptions::default() }
    }
}

/// Result of a save.
#[derive(Clone, Debug, PartialEq)]
pub struct SaveReport {
    /// Format of the file that was written.
    pub format: Format,
    /// Version of the format, if it has versions.
    pub version: Option<&'static str>,
    /// Axes of the file, if they differ from those of the splats or the file specifies them.
    pub frame: Option<&'static str>,
    /// Whether the file stores how the splats are to be rendered.
    pub has_mode: bool,
    /// Number of splats in the file.
    pub splats: u64,
    /// Splats dropped because a parameter is not finite or the rotation is zero.
    pub dropped: u64,
    /// Length of the file, bytes.
    pub bytes: u64,
    /// Seconds spent syncing the file.
    pub sync_seconds: f64,
    /// Numbers of splats with a value outside the range of the format, which was clamped, by reason.
    pub clipped: Vec<(&'static str, u64)>,
    /// Other content that the file lacks: `SH above degree 0`.
    pub lost: Vec<String>,
}

impl SaveReport {
    /// Records the loss of a format that stores only splat values, up to an SH degree.
    pub(super) fn report_loss_of_metadata(&mut self, document: &SplatFile, sh_degree: u8) {
        if document.splats.sh_degree > sh_degree {
            self.lost.push(format!("SH above degree {sh_degree}"));
        }
        self.has_mode = false;
        if document.antialiased {
            self.lost.push("the antialiased render mode".to_owned());
        }
        self.report_loss_of_scene_metadata(document);
    }

    /// Records the loss of a format that stores neither the up direction nor the sky.
    pub(super) fn report_loss_of_scene_metadata(&mut self, document: &SplatFile) {
        if document.vertical_axis.is_some() {
            self.lost.push("which direction is up".to_owned());
        }
        if document.saved_from_dataset.is_some_and(|moved| moved != Similarity::IDENTITY) {
            self.lost.push("the transform from the dataset's cameras".to_owned());
        }
        self.report_loss_of_sky(document);
    }

    /// Records the loss of a format that does not store which splats are the sky.
    pub(super) fn report_loss_of_sky(&mut self, document: &SplatFile) {
        if document.sky > 0 {
            self.lost.push("which splats are the sky".to_owned());
        }
    }

    /// Result for a number of splats and bytes, with nothing lost.
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

/// Saves a document atomically, in the format of the options or of the file name.
///
/// # Errors
/// The name has no known format that can be written, the write failed, or the file exists, with
/// [`crate::atomic::Overwrite::Refuse`].
pub fn save(
    fs: &dyn FileSystem,
    path: &Path,
    document: &SplatFile,
    options: &SaveOptions,
    write_options: &WriteOptions,
) -> Result<SaveReport, WriteError> {
    let named = || Format::from_path(path).filter(|format| format.is_written());
    let Some(format) = options.format.or_else(named) else {
        let reason =
            format!("no known splat format (expected a name that ends in {})", writable_extensions());
        let source = io::Error::new(io::ErrorKind::InvalidInput, reason);
        return Err(WriteError::Io { path: path.to_owned(), action: "name", source });
    };
    let exactly = if format == Format::Ply { ply::file_bytes(document, options) } else { 0 };
    let needed_bytes = write_options.needed_bytes.max(exactly);
    let write_options = WriteOptions { needed_bytes, ..*write_options };
    let body = |file: &mut crate::atomic::AtomicWriter<'_>| write(file, document, format, options);
    let (saved, committed) = write_atomic_with(fs, path, &write_options, body)?;
    Ok(SaveReport { sync_seconds: committed.sync_seconds, ..saved })
}

/// Writes a document to a stream. Unusable splats ([`gausset_core::Splats::is_valid`]) are dropped.
///
/// ```
/// use gausset_core::Splats;
/// use gausset_io::splat::{Format, SaveOptions, SplatFile, write};
///
/// // The rotation of the second splat is zero, which cannot be rendered.
/// let mut splats = Splats::zeros(3, 2);
/// splats.quats[0] = [1.0, 0.0, 0.0, 0.0];
/// let report = write(&mut Vec::new(), &SplatFile::new(splats), Format::Splat, &SaveOptions::default())?;
/// assert_eq!((report.splats, report.dropped, report.bytes), (1, 1, 32));
/// assert_eq!(report.lost, ["SH above degree 0"]);
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
/// The writer failed, the arrays of the splats are inconsistent, or the format cannot be written.
pub fn write(
    writer: &mut dyn Write,
    document: &SplatFile,
    format: Format,
    options: &SaveOptions,
) -> io::Result<SaveReport> {
    let _span = gausset_prof::span("write_splats");
    let invalid = |error: String| io::Error::new(io::ErrorKind::InvalidInput, error);
    document.splats.validate().map_err(|error| invalid(error.to_string()))?;
    let Some(write) = format.row().write else {
        return Err(invalid(format!("{} is read only", format.row().title)));
    };
    let (document, dropped) = usable_document(document);
    let saved = write(writer, &document, options)?;
    Ok(SaveReport { dropped, ..saved })
}

/// The document without unusable splats, and their number.
fn usable_document(document: &SplatFile) -> (Cow<'_, SplatFile>, u64) {
    let splats = &document.splats;
    let stays: Vec<usize> = (0..splats.len()).filter(|&i| splats.is_valid(i)).collect();
    if stays.len() == splats.len() {
        return (Cow::Borrowed(document), 0);
    }
    let scene = splats.len().saturating_sub(document.sky);
    let sky = stays.iter().filter(|&&i| i >= scene).count();
    (Cow::Owned(document.with_splats(splats.select(&stays), sky)), (splats.len() - stays.len()) as u64)
}
