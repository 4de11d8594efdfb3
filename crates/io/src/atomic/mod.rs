//! Writing files so that each is whole under its final name, or absent.
//!
//! ```text
//! check free space → create .tmp-<pid>-<n>-<name> in the same folder → write → fsync → rename → fsync the folder
//! ```
//! A failure on the way removes the temporary file and leaves what stood under the final name as it was. A process that
//! is killed on the way leaves the temporary file, which [`remove_temporaries`] cleans up later. A file that replaces
//! another keeps its mode: what was readable for its owner only stays so.
//!
//! All access goes through [`FileSystem`], so that tests can make any call fail (`faults`, feature `fault-injection`)
//! and crash the process at named places ([`crash`], feature `crash-points`).
#![allow(clippy::disallowed_methods, reason = "this is the door")]

pub mod crash;
mod disk;
#[cfg(feature = "fault-injection")]
pub mod faults;
mod together;
mod writer;

use std::io;
use std::path::{Path, PathBuf};

pub use disk::Disk;
pub use together::{Unnamed, name_together, write_unnamed};
pub use writer::{
    AtomicWriter, Committed, Overwrite, WriteOptions, check_output, refuse_existing, refuse_input,
    remove_temporaries, write_atomic, write_atomic_with,
};
pub(crate) use writer::{Patient, is_temporary, retry, try_folder};

/// What is under a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// A regular file.
    File,
    /// A folder.
    Folder,
    /// A device, pipe or socket: something that is written to but never replaced.
    Special,
}

/// Facts about a file, links followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileInfo {
    /// What it is.
    pub kind: FileKind,
    /// Length in bytes.
    pub bytes: u64,
    /// Who may read, write and execute it, where the system knows such bits (Unix).
    pub mode: Option<u32>,
}

/// An open file that is being written.
pub trait OutputFile: io::Write + Send {
    /// Brings everything written so far to the device (`fsync`).
    ///
    /// # Errors
    /// The device failed; what it holds is then unknown.
    fn sync(&mut self) -> io::Result<()>;
}

/// Every way in which Gausset touches files that it writes. Implemented by [`Disk`] and by the fault injectors.
pub trait FileSystem: Send + Sync {
    /// What is under a path, `None` when nothing does.
    ///
    /// # Errors
    /// The system refused to tell.
    fn info(&self, path: &Path) -> io::Result<Option<FileInfo>>;

    /// Opens a file for reading.
    ///
    /// # Errors
    /// It is not there or may not be read.
    fn open(&self, path: &Path) -> io::Result<Box<dyn io::Read + Send>>;

    /// Creates a file that must not exist yet, with a mode where one is given and the system knows modes.
    ///
    /// # Errors
    /// It exists, the folder does not, or the system refused.
    fn create_new(&self, path: &Path, mode: Option<u32>) -> io::Result<Box<dyn OutputFile>>;

    /// Opens a file for appending, creating it when it is not there.
    ///
    /// # Errors
    /// The system refused.
    fn append(&self, path: &Path) -> io::Result<Box<dyn OutputFile>>;

    /// Gives a file another name, replacing what stood there.
    ///
    /// # Errors
    /// The system refused; both names are then as before.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file.
    ///
    /// # Errors
    /// The system refused.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Creates a folder and its parents; one that exists is fine.
    ///
    /// # Errors
    /// The system refused.
    fn create_folder(&self, path: &Path) -> io::Result<()>;

    /// Names in a folder, in byte order.
    ///
    /// # Errors
    /// The system refused.
    fn list(&self, folder: &Path) -> io::Result<Vec<std::ffi::OsString>>;

    /// Makes names created, renamed and removed in a folder durable.
    ///
    /// # Errors
    /// The device failed.
    fn sync_folder(&self, folder: &Path) -> io::Result<()>;

    /// Bytes that this process may still write to the file system of a folder.
    ///
    /// # Errors
    /// The system does not tell.
    fn free_space(&self, folder: &Path) -> io::Result<u64>;
}

/// Why a file could not be written. What stood under its name before is untouched unless a variant says otherwise.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// A call to the system failed.
    #[error("{}: {action}: {}", path.display(), plain_reason(source))]
    Io {
        /// The file that was to be written (never the temporary name).
        path: PathBuf,
        /// What was being done: `create`, `write`, `sync`, `rename` …
        action: &'static str,
        /// The system's answer.
        source: io::Error,
    },
    /// Too little space; nothing was written.
    #[error(
        "{}: free space: too little room (expected {}, found {}); free some space or choose another folder",
        path.display(), crate::units::bytes(*needed), crate::units::bytes(*free)
    )]
    NoSpace {
        /// The file that was to be written.
        path: PathBuf,
        /// Bytes needed.
        needed: u64,
        /// Bytes free.
        free: u64,
    },
    /// Something is there already and may not be replaced.
    #[error("{}: output: exists already (expected a free name, found {found}); choose another name or add ⟨force⟩", path.display())]
    Exists {
        /// The file or folder.
        path: PathBuf,
        /// What is there.
        found: String,
    },
    /// A link is there, and what it names does not exist.
    #[error("{}: output: is a link that leads nowhere (expected a file or a free name); remove it or choose another name", path.display())]
    DanglingLink {
        /// The link.
        path: PathBuf,
    },
    /// A link leads out of the folder in which everything was to stay.
    #[error("{}: output: is a link that leads out of {} (expected a file or folder in it); remove the link or choose another folder", path.display(), folder.display())]
    LeadsOut {
        /// The link.
        path: PathBuf,
        /// The folder.
        folder: PathBuf,
    },
    /// A pipe, device or socket is where a file of ours was to be.
    #[error("{}: output: is a pipe, device or socket (expected a file, a folder or a free name); remove it or choose another folder", path.display())]
    Special {
        /// What is there.
        path: PathBuf,
    },
    /// The file or folder that is read is where something was to be written.
    #[error("{}: output: is what is read (expected another name); choose one", path.display())]
    IsInput {
        /// The file or folder.
        path: PathBuf,
    },
    /// A folder is where a file was to be written.
    #[error("{}: output: is a folder (expected a file name); name a file in it", path.display())]
    IsFolder {
        /// The folder.
        path: PathBuf,
    },
}

/// The system's reason in our words: lower case, no code, the same on every platform for the usual ones.
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
        _ => reason_of_number(error),
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

/// The reason of an error that the standard library has no word for; empty where we have none either.
#[cfg(unix)]
fn reason_of_number(error: &io::Error) -> &'static str {
    use rustix::io::Errno;
    match Errno::from_io_error(error) {
        Some(Errno::IO) => "the device reports an input/output error; check the disk",
        Some(Errno::MFILE | Errno::NFILE) => "too many open files (see `ulimit -n`)",
        _ => "",
    }
}

/// The reason of an error that the standard library has no word for; this system's numbers are not known here.
#[cfg(not(unix))]
fn reason_of_number(_error: &io::Error) -> &'static str {
    ""
}
