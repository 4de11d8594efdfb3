//! Saves documents in any format that can be written.

use std::borrow::Cow;
use std::io::{self, Write};
use std::path::Path;

use gausset_core::Splats;

use super::table::{Writer, writable_extensions};
use super::{Format, SaveOptions, SaveReport, SplatFile, ply};
use crate::atomic::{FileSystem, WriteError, WriteOptions, write_atomic_with};

/// Saves a document atomically, in the format of the options or of the file name. A format of several files gets its index
/// last.
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
    if let Writer::Folder(save) = format.row().write {
        let (document, dropped) = writable_document(document).map_err(|source| WriteError::Io {
            path: path.to_owned(),
            action: "encode",
            source,
        })?;
        let saved = save(fs, path, &document, options, write_options)?;
        return Ok(SaveReport { dropped, ..saved });
    }
    let exactly = if format == Format::Ply {
        ply::row_bytes(&document.splats, document.splats.len() as u64, options)
    } else {
        0
    };
    let needed_bytes = write_options.needed_bytes.max(exactly);
    let write_options = WriteOptions { needed_bytes, ..*write_options };
    let body = |file: &mut crate::atomic::AtomicWriter<'_>| write(file, document, format, options);
    let (saved, committed) = write_atomic_with(fs, path, &write_options, body)?;
    Ok(SaveReport { sync_seconds: committed.sync_seconds, ..saved })
}

/// Saves a PLY atomically whose `count` splats come in parts: memory does not grow with the file. The bytes are those
/// of [`save`] for all parts in one document. `document` has their degree and no splats; the parts have no unusable ones.
///
/// # Errors
/// The error of a part; a part of another degree, another number of splats, or none; as [`save`].
pub fn save_ply_in_parts<E: From<WriteError>>(
    fs: &dyn FileSystem,
    path: &Path,
    document: &SplatFile,
    count: u64,
    parts: impl IntoIterator<Item = Result<Splats, E>>,
    write_options: &WriteOptions,
) -> Result<SaveReport, E> {
    let _span = gausset_prof::span("write_splats");
    let options = SaveOptions::default();
    let rows = ply::row_bytes(&document.splats, count, &options);
    let write_options = WriteOptions { needed_bytes: write_options.needed_bytes.max(rows), ..*write_options };
    let mut failed = None;
    let written = write_atomic_with(fs, path, &write_options, |file| {
        let header = ply::write_header(file, document, count, &options)?;
        let mut written = 0;
        for part in parts {
            let part = part.map_err(|error| {
                failed = Some(error);
                io::Error::other("a part is missing")
            })?;
            part.validate().map_err(|error| invalid(error.to_string()))?;
            let [expected, found] = [&document.splats, &part].map(|splats| splats.sh_degree);
            if found != expected {
                return Err(invalid(format!(
                    "a part has another SH degree (expected {expected}, found {found})"
                )));
            }
            written += part.len() as u64;
            ply::write_rows(file, &part, &options)?;
        }
        if written != count {
            return Err(invalid(format!(
                "the parts have changed (expected {count} splats, found {written})"
            )));
        }
        if count == 0 {
            return Err(no_splats());
        }
        Ok(SaveReport::new(Format::Ply, written as usize, header + rows))
    });
    match (written, failed) {
        (_, Some(error)) => Err(error),
        (written, None) => {
            let (saved, committed) = written?;
            Ok(SaveReport { sync_seconds: committed.sync_seconds, ..saved })
        }
    }
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
/// The writer failed, there are no usable splats, their arrays are inconsistent, or the format cannot be written.
pub fn write(
    writer: &mut dyn Write,
    document: &SplatFile,
    format: Format,
    options: &SaveOptions,
) -> io::Result<SaveReport> {
    let _span = gausset_prof::span("write_splats");
    let Writer::Stream(write) = format.row().write else {
        let reason = if format.is_folder() { "has several files" } else { "is read only" };
        return Err(invalid(format!("{} {reason}", format.row().title)));
    };
    let (document, dropped) = writable_document(document)?;
    let saved = write(writer, &document, options)?;
    Ok(SaveReport { dropped, ..saved })
}

fn no_splats() -> io::Error {
    invalid("no splats to write (expected at least one that can be drawn)".to_owned())
}

fn invalid(reason: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, reason)
}

/// The document as it is written, and the number of dropped splats.
fn writable_document(document: &SplatFile) -> io::Result<(Cow<'_, SplatFile>, u64)> {
    document.splats.validate().map_err(|error| invalid(error.to_string()))?;
    let (document, dropped) = usable_document(document);
    // splat-transform and LichtFeld refuse it, too: not all formats can express it.
    if document.splats.is_empty() {
        return Err(no_splats());
    }
    Ok((document, dropped))
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
