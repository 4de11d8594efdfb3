//! The one door for what comes in: every file that a user names, or that another file names, is opened here.
//!
//! A path from outside can lead to a pipe that nobody writes to, to a device that never ends, or to a file larger than
//! the memory. So a file is opened without blocking, links are followed, what is no regular file is refused, and each
//! reader says how many bytes it is prepared to hold. `clippy.toml` disallows `File::open`, `fs::read` and
//! `fs::read_to_string` everywhere else.
#![deny(clippy::indexing_slicing, reason = "what comes from outside is never an index")]

use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::path::Path;

/// The limit of readers that stream and hold only a part of a file at a time.
pub const STREAMED: u64 = u64::MAX;

/// Opens a regular file of at most `limit` bytes for reading; links are followed.
///
/// The length that was checked is the length at this moment: a reader that holds the whole file uses [`read`], which
/// also stops at a file that grows.
///
/// # Errors
/// It is not there or may not be read; it is a folder, pipe, device or socket; it is larger than `limit`.
pub fn open(path: &Path, limit: u64) -> io::Result<File> {
    // Looking before opening keeps a device from noticing us; looking again afterwards is what counts.
    regular(&std::fs::metadata(path)?)?;
    let file = open_without_waiting(path)?;
    let bytes = regular(&file.metadata()?)?;
    if bytes > limit { Err(too_large(bytes, limit)) } else { Ok(file) }
}

/// Reads a regular file of at most `limit` bytes.
///
/// # Errors
/// As [`open`]; the file grew beyond the limit while it was read.
pub fn read(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let file = open(path, limit)?;
    let bytes = file.metadata()?.len();
    let mut content = Vec::new();
    content.try_reserve_exact(usize::try_from(bytes).unwrap_or(usize::MAX))?;
    // One byte more than allowed tells a file that grew.
    file.take(limit.saturating_add(1)).read_to_end(&mut content)?;
    if content.len() as u64 > limit { Err(too_large(content.len() as u64, limit)) } else { Ok(content) }
}

/// Reads a regular text file of at most `limit` bytes.
///
/// # Errors
/// As [`read`]; the file is not UTF-8.
pub fn read_to_string(path: &Path, limit: u64) -> io::Result<String> {
    String::from_utf8(read(path, limit)?)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "the file is not UTF-8 text"))
}

/// Length of a regular file; the reason why anything else is refused.
fn regular(about: &Metadata) -> io::Result<u64> {
    if about.is_file() {
        return Ok(about.len());
    }
    if about.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    let reason = format!("is {} (expected a regular file)", special_kind(about));
    Err(io::Error::new(io::ErrorKind::InvalidInput, reason))
}

#[cfg(unix)]
fn special_kind(about: &Metadata) -> &'static str {
    use std::os::unix::fs::FileTypeExt;
    let kind = about.file_type();
    if kind.is_fifo() {
        "a pipe"
    } else if kind.is_socket() {
        "a socket"
    } else {
        "a device"
    }
}

#[cfg(not(unix))]
fn special_kind(_about: &Metadata) -> &'static str {
    "a device"
}

/// Opens for reading; a pipe without a writer answers at once instead of waiting for one.
#[allow(clippy::disallowed_methods, reason = "this is the door")]
fn open_without_waiting(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.read(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        let flags = rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOCTTY;
        options.custom_flags(flags.bits().cast_signed());
    }
    options.open(path)
}

fn too_large(bytes: u64, limit: u64) -> io::Error {
    let (found, most) = (crate::units::bytes(bytes), crate::units::bytes(limit));
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("is too large (expected at most {most}, found {found})"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::atomic::plain_reason;

    #[test]
    fn a_regular_file_is_read_through_a_link_and_up_to_its_limit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.txt");
        std::fs::write(&path, "words").unwrap();
        assert_eq!(read_to_string(&path, 5).unwrap(), "words");
        let refusal = plain_reason(&read(&path, 4).unwrap_err());
        assert_eq!(refusal, "is too large (expected at most 4 bytes, found 5 bytes)");
        std::fs::write(&path, [0xff]).unwrap();
        assert_eq!(plain_reason(&read_to_string(&path, 5).unwrap_err()), "the file is not UTF-8 text");
        let refusal = plain_reason(&open(folder.path(), STREAMED).unwrap_err());
        assert_eq!(refusal, "is a folder (expected a file)");
    }

    #[cfg(unix)]
    #[test]
    fn pipes_and_devices_are_refused_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RUSR).unwrap();
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&pipe, &link).unwrap();
        for path in [&pipe, &link] {
            let refusal = plain_reason(&open(path, STREAMED).unwrap_err());
            assert_eq!(refusal, "is a pipe (expected a regular file)");
        }
        let refusal = plain_reason(&read(Path::new("/dev/zero"), STREAMED).unwrap_err());
        assert_eq!(refusal, "is a device (expected a regular file)");
    }
}
