//! Opens all input files: every file that a user names, or that another file names.
//!
//! An untrusted path can lead to a pipe without a writer, to an endless device, or to a file larger than memory. So a
//! file is opened without blocking, links are followed, anything but a regular file is refused, and each reader sets a
//! limit on the bytes. `clippy.toml` disallows `File::open`, `fs::read` and `fs::read_to_string` everywhere else.
//!
//! A name *resolve_inside* a file is untrusted. [`resolve_inside`] restricts it, as text, to the folder of that file. The content of
//! the disk is under control of the user: links are followed wherever they lead.
#![deny(clippy::indexing_slicing, reason = "what comes from outside is never an index")]

use std::fs::{File, Metadata};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// Limit for readers that stream and hold only a part of the file at a time.
pub const NO_LIMIT: u64 = u64::MAX;

/// Opens a regular file of at most `limit` bytes for reading; links are followed.
///
/// The length is checked at this moment only: a reader that holds the whole file uses [`read`], which also fails if the
/// file grows.
///
/// # Errors
/// The file does not exist or may not be read, is a folder, pipe, device or socket, or is larger than `limit`.
pub fn open(path: &Path, limit: u64) -> io::Result<File> {
    // The check before opening avoids side effects of opening a device; the check afterwards is the decisive one.
    regular_file_bytes(&std::fs::metadata(path)?)?;
    let file = open_without_waiting(path)?;
    let bytes = regular_file_bytes(&file.metadata()?)?;
    if bytes > limit { Err(too_large(bytes, limit)) } else { Ok(file) }
}

/// Stop flag for work that is never stopped.
pub static NEVER: AtomicBool = AtomicBool::new(false);

/// Reads a regular file of at most `limit` bytes.
///
/// # Errors
/// As [`open`], or the file grew beyond the limit while it was read.
pub fn read(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    read_unless(&NEVER, path, limit)
}

/// Reads a regular file of at most `limit` bytes, and stops if the flag is set.
///
/// # Errors
/// As [`read`], or the flag is set.
pub fn read_unless(stop: &AtomicBool, path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let file = StoppableReader::new(open(path, limit)?, stop);
    let bytes = file.inner.metadata()?.len();
    let mut content = Vec::new();
    content.try_reserve_exact(usize::try_from(bytes).unwrap_or(usize::MAX))?;
    // One byte above the limit reveals a file that grew.
    file.take(limit.saturating_add(1)).read_to_end(&mut content)?;
    if content.len() as u64 > limit { Err(too_large(content.len() as u64, limit)) } else { Ok(content) }
}

/// A reader, for example of decompressed data, that fails once a flag is set.
#[derive(Debug)]
pub struct StoppableReader<'a, R> {
    inner: R,
    stop: &'a AtomicBool,
}

impl<'a, R> StoppableReader<'a, R> {
    /// Most bytes between two checks of the flag.
    const CHUNK: usize = 1 << 20;

    /// Reads from `inner` until the flag is set.
    pub const fn new(inner: R, stop: &'a AtomicBool) -> Self {
        Self { inner, stop }
    }
}

impl<R: Read> Read for StoppableReader<'_, R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(io::Error::other("stopped"));
        }
        let chunk = into.len().min(Self::CHUNK);
        self.inner.read(into.get_mut(..chunk).unwrap_or_default())
    }
}

impl<R: Seek> Seek for StoppableReader<'_, R> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.inner.seek(to)
    }
}

/// Reads a regular text file of at most `limit` bytes.
///
/// # Errors
/// As [`read`], or the file is not UTF-8.
pub fn read_to_string(path: &Path, limit: u64) -> io::Result<String> {
    String::from_utf8(read(path, limit)?)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "the file is not UTF-8 text"))
}

/// Lists a folder. If the path is something else, the error names its kind, for example a pipe.
///
/// # Errors
/// The path does not exist, is not a folder, or may not be read.
pub fn read_dir(path: &Path) -> io::Result<std::fs::ReadDir> {
    std::fs::read_dir(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotADirectory => open(path, NO_LIMIT).err().unwrap_or(error),
        _ => error,
    })
}

/// A name inside a file leads out of the folder to which it is relative.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("leads out of its folder (expected a file below the folder of the file that names it)")]
pub struct LeadsOutside;

/// The absolute path; unchanged if the working folder no longer exists.
#[must_use]
pub fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// Resolves a name inside a file to a path below `folder`, the folder to which such names are relative.
///
/// The name is normalised as text: `a/../b.jpg` is `b.jpg`, whatever `a` is on disk, so that the result contains no
/// `..` and no link changes the meaning of the name. Names that lead out are refused, as are absolute names unless one
/// of their folders *is* `folder`. Links below `folder` are followed when the path is opened: the user created them,
/// not the file.
///
/// # Errors
/// The name leads out of the folder.
pub fn resolve_inside(folder: &Path, name: impl AsRef<Path>) -> Result<PathBuf, LeadsOutside> {
    let here = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let here = absolute(here);
    let there = without_dots(&here.join(name)).ok_or(LeadsOutside)?;
    let below = without_dots(&here).and_then(|here| there.strip_prefix(here).ok());
    if let Some(rest) = below {
        return Ok(folder.join(rest));
    }
    // The folder may be spelled differently, through a link or in another case. Paths on other machines are not
    // resolved.
    let is_local = match there.components().next() {
        Some(Component::Prefix(prefix)) => {
            matches!(prefix.kind(), std::path::Prefix::Disk(_) | std::path::Prefix::VerbatimDisk(_))
        }
        _ => true,
    };
    let here = here.canonicalize().ok().filter(|_| is_local).ok_or(LeadsOutside)?;
    let same = there.ancestors().find(|above| above.canonicalize().is_ok_and(|above| above == here));
    let rest = same.and_then(|same| there.strip_prefix(same).ok()).ok_or(LeadsOutside)?;
    Ok(folder.join(rest))
}

/// A path without `.` and `..`, as text; `None` if a relative one starts with `..`.
fn without_dots(path: &Path) -> Option<PathBuf> {
    let mut plain = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            // The parent of the root is the root.
            Component::ParentDir => {
                if !plain.pop() && !plain.has_root() {
                    return None;
                }
            }
            other => plain.push(other),
        }
    }
    Some(plain)
}

/// Length of a regular file; an error for anything else.
fn regular_file_bytes(about: &Metadata) -> io::Result<u64> {
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

/// Opens a file for reading without blocking on a pipe that has no writer.
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
    let (found, most) = (crate::text::format_bytes(bytes), crate::text::format_bytes(limit));
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
        let refusal = plain_reason(&open(folder.path(), NO_LIMIT).unwrap_err());
        assert_eq!(refusal, "is a folder (expected a file)");
    }

    #[test]
    fn no_more_is_read_once_the_flag_is_set() {
        let stop = AtomicBool::new(false);
        let mut stream = StoppableReader::new(io::repeat(7), &stop);
        let mut some = vec![0; 3 * StoppableReader::<io::Repeat>::CHUNK];
        assert_eq!(stream.read(&mut some).unwrap(), StoppableReader::<io::Repeat>::CHUNK);
        stream.read_exact(&mut some).unwrap();
        stop.store(true, Ordering::Relaxed);
        assert_eq!(stream.read_to_end(&mut some).unwrap_err().to_string(), "stopped");
        let refusal = read_unless(&stop, Path::new("Cargo.toml"), NO_LIMIT).unwrap_err();
        assert_eq!(refusal.to_string(), "stopped");
    }

    #[test]
    fn a_name_in_a_file_stays_in_its_folder() {
        let folder = tempfile::tempdir().unwrap();
        let images = folder.path().join("images");
        std::fs::create_dir(&images).unwrap();
        let lead = |name: &str| resolve_inside(&images, name);
        assert_eq!(lead("sub/./a.jpg"), Ok(images.join("sub/a.jpg")));
        assert_eq!(lead("a/../b.jpg"), Ok(images.join("b.jpg")));
        assert_eq!(lead("../images/a.jpg"), Ok(images.join("a.jpg")), "out and in again");
        assert_eq!(lead(images.join("a.jpg").to_str().unwrap()), Ok(images.join("a.jpg")));
        for out in ["../a.jpg", "a/../../a.jpg", "/etc/passwd", "../images2/a.jpg", "..", "/"] {
            assert_eq!(lead(out), Err(LeadsOutside), "{out}");
        }
        // Files in the working folder have no folder in their path.
        assert_eq!(resolve_inside(Path::new(""), "a.raw"), Ok(PathBuf::from("a.raw")));
        assert_eq!(resolve_inside(Path::new(""), "../a.raw"), Err(LeadsOutside));
        assert_eq!(resolve_inside(Path::new("not/there"), "../a.raw"), Err(LeadsOutside));
    }

    #[cfg(unix)]
    #[test]
    fn links_do_not_decide_where_a_name_leads_but_are_followed() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir_all(at("scene/sub")).unwrap();
        std::fs::create_dir_all(at("elsewhere/deep")).unwrap();
        std::fs::write(at("elsewhere/b.jpg"), "elsewhere").unwrap();
        std::fs::write(at("scene/b.jpg"), "scene").unwrap();
        std::os::unix::fs::symlink(at("elsewhere/deep"), at("scene/a")).unwrap();
        std::os::unix::fs::symlink(at("elsewhere/b.jpg"), at("scene/linked.jpg")).unwrap();
        std::os::unix::fs::symlink(at("scene"), at("other name")).unwrap();
        let text = |name: &str| read_to_string(&resolve_inside(&at("scene"), name).unwrap(), 99).unwrap();
        // The system would resolve it to elsewhere/b.jpg.
        assert_eq!(text("a/../b.jpg"), "scene");
        assert_eq!(text("linked.jpg"), "elsewhere");
        // An absolute name with another spelling of the folder.
        assert_eq!(text(at("other name/b.jpg").to_str().unwrap()), "scene");
        assert_eq!(text(at("other name/linked.jpg").to_str().unwrap()), "elsewhere");
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
            let refusal = plain_reason(&open(path, NO_LIMIT).unwrap_err());
            assert_eq!(refusal, "is a pipe (expected a regular file)");
        }
        let refusal = plain_reason(&read(Path::new("/dev/zero"), NO_LIMIT).unwrap_err());
        assert_eq!(refusal, "is a device (expected a regular file)");
    }
}
