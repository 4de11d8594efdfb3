//! Atomic file writes: under its final name, a file is complete or absent.
//!
//! ```text
//! check free space → create .tmp-<pid>-<n>-<name> in the same folder → write → fsync → rename → fsync the folder
//! ```
//! On a failure the temporary file is removed and an existing file under the final name stays unchanged. A killed
//! process leaves the temporary file, which [`remove_temporaries`] deletes later. A file that replaces another keeps
//! its mode: a file readable only for its owner stays so.
//!
//! All access goes through [`FileSystem`], so that tests can make any call fail (`faults`, feature `fault-injection`)
//! and kill the process at named points ([`crash`], feature `crash-points`).
#![allow(clippy::disallowed_methods, reason = "this is the door")]

mod batch;
pub mod crash;
mod disk;
#[cfg(feature = "fault-injection")]
pub mod faults;
mod writer;

use std::io;
use std::path::{Path, PathBuf};

pub use batch::{UnnamedFile, commit_all, commit_all_after, write_uncommitted};
pub use disk::Disk;
pub use writer::{
    AtomicWriter, Overwrite, WriteOptions, WriteStats, check_free, check_not_in_inputs, check_output,
    remove_temporaries, write_atomic, write_atomic_with,
};
pub(crate) use writer::{RetryOnInterrupt, check_writable, is_temporary, retry};

/// Kind of a directory entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// A regular file.
    File,
    /// A folder, also behind a link.
    Folder,
    /// A device, pipe or socket: it can be written to but is never replaced.
    Special,
}

/// Metadata of a file, with links followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileInfo {
    /// Kind of the file.
    pub kind: FileKind,
    /// Length in bytes.
    pub bytes: u64,
    /// Permission bits, on systems that have them (Unix).
    pub mode: Option<u32>,
}

/// A file that is open for writing.
pub trait OutputFile: io::Write + Send {
    /// Flushes everything written so far to the device (`fsync`).
    ///
    /// # Errors
    /// The device failed; its content is then unknown.
    fn sync(&mut self) -> io::Result<()>;
}

/// All file system access for output files. Implemented by [`Disk`] and by the fault injectors.
pub trait FileSystem: Send + Sync {
    /// Metadata of a path, `None` if nothing exists there.
    ///
    /// # Errors
    /// The system refused.
    fn info(&self, path: &Path) -> io::Result<Option<FileInfo>>;

    /// Opens a file for reading.
    ///
    /// # Errors
    /// The file does not exist or may not be read.
    fn open(&self, path: &Path) -> io::Result<Box<dyn io::Read + Send>>;

    /// Creates a file that must not exist yet, with a mode if one is given and the system supports it.
    ///
    /// # Errors
    /// The file exists, the folder does not, or the system refused.
    fn create_new(&self, path: &Path, mode: Option<u32>) -> io::Result<Box<dyn OutputFile>>;

    /// Opens a file for appending, and creates it if necessary.
    ///
    /// # Errors
    /// The system refused.
    fn append(&self, path: &Path) -> io::Result<Box<dyn OutputFile>>;

    /// Renames a file, replacing an existing one.
    ///
    /// # Errors
    /// The system refused; both names are unchanged.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file.
    ///
    /// # Errors
    /// The system refused.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Creates a folder and its parents; an existing folder is no error.
    ///
    /// # Errors
    /// The system refused.
    fn create_folder(&self, path: &Path) -> io::Result<()>;

    /// Names in a folder, in byte order.
    ///
    /// # Errors
    /// The system refused.
    fn list(&self, folder: &Path) -> io::Result<Vec<std::ffi::OsString>>;

    /// Makes created, renamed and removed names in a folder durable.
    ///
    /// # Errors
    /// The device failed.
    fn sync_folder(&self, folder: &Path) -> io::Result<()>;

    /// Free bytes for this process on the file system of a folder.
    ///
    /// # Errors
    /// The system does not report it.
    fn free_space(&self, folder: &Path) -> io::Result<u64>;
}

/// Why a file could not be written. An existing file is unchanged unless a variant says otherwise.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// A system call failed.
    #[error("{}: {action}: {}", path.display(), plain_reason(source))]
    Io {
        /// The final path (never the temporary one).
        path: PathBuf,
        /// The attempted action: `create`, `write`, `sync`, `rename` …
        action: &'static str,
        /// Error of the system.
        source: io::Error,
    },
    /// Not enough free space; nothing was written.
    #[error(
        "{}: free space: not enough (expected {}, found {}); free some space or choose another folder",
        path.display(), crate::text::format_bytes(*needed), crate::text::format_bytes(*free)
    )]
    NoSpace {
        /// The final path.
        path: PathBuf,
        /// Bytes that the file needs.
        needed: u64,
        /// Bytes that are free in its file system.
        free: u64,
    },
    /// Something exists there and may not be replaced.
    #[error("{}: output: exists already (expected a free name, found {found}); choose another name or add ⟨force⟩", path.display())]
    Exists {
        /// The file or folder.
        path: PathBuf,
        /// Kind of the existing entry.
        found: String,
    },
    /// The path is a symbolic link to something that does not exist.
    #[error("{}: output: is a broken symbolic link (expected a file or a free name); remove it or choose another name", path.display())]
    DanglingLink {
        /// The link, whose target is missing.
        path: PathBuf,
    },
    /// A link points outside the folder in which all output has to stay.
    #[error("{}: output: is a link that leads out of {} (expected a file or folder in it); remove the link or choose another folder", path.display(), folder.display())]
    LeadsOut {
        /// The link, which is in `folder`.
        path: PathBuf,
        /// The folder in which output has to stay.
        folder: PathBuf,
    },
    /// A pipe, device or socket exists where a file is to be written.
    #[error("{}: output: is a pipe, device or socket (expected a file, a folder or a free name); remove it or choose another folder", path.display())]
    Special {
        /// Path of the pipe, device or socket.
        path: PathBuf,
    },
    /// The output path is an input file or folder.
    #[error("{}: output: is an input (expected another name); choose another name", path.display())]
    IsInput {
        /// The file or folder.
        path: PathBuf,
    },
    /// The output path is a folder.
    #[error("{}: output: is a folder (expected a file name); give the name of a file in it", path.display())]
    IsFolder {
        /// The folder that has the name of the output file.
        path: PathBuf,
    },
}

/// Reason of a system error as Gausset reports it: lower case, no code, the same on every platform for common errors.
#[must_use]
pub fn plain_reason(error: &io::Error) -> String {
    use io::ErrorKind as Kind;
    let known = match error.kind() {
        Kind::StorageFull => "no space left on the device; free some space or choose another folder",
        Kind::QuotaExceeded => "the disk quota is used up; free some space or choose another folder",
        Kind::FileTooLarge => "the file would be larger than the system allows (see `ulimit -f`)",
        Kind::PermissionDenied => "permission denied",
        Kind::ReadOnlyFilesystem => "the file system is read-only; choose another folder",
        Kind::NotFound => "no such file or folder",
        Kind::NotADirectory => "a part of the path is not a folder",
        Kind::IsADirectory => "is a folder (expected a file)",
        Kind::InvalidFilename => "the name is too long or not allowed by the file system",
        Kind::UnexpectedEof => "the file ends too early",
        _ => errno_reason(error),
    };
    if !known.is_empty() {
        return known.to_owned();
    }
    // "Text of the system (os error 5)" → "text of the system".
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_lowercase().chain(letters).collect())
}

/// Reason of an error without a standard `ErrorKind`; empty if there is none here.
#[cfg(unix)]
fn errno_reason(error: &io::Error) -> &'static str {
    use rustix::io::Errno;
    match Errno::from_io_error(error) {
        Some(Errno::IO) => "the device reports an input/output error; check the disk",
        Some(Errno::MFILE | Errno::NFILE) => "too many open files (see `ulimit -n`)",
        _ => "",
    }
}

/// Reason of an error without a standard `ErrorKind`; this platform's numbers are not mapped.
#[cfg(not(unix))]
fn errno_reason(_error: &io::Error) -> &'static str {
    ""
}
