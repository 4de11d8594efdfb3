//! A folder that is in use is locked, so that two processes never write to one run.
//!
//! `RUN/.lock` is held with `flock`, which the system releases when the process ends, however it ends. Inside stand
//! process id, host and start time: for the message, and for file systems without `flock`.

use std::path::{Path, PathBuf};

/// Why a folder could not be locked.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another process holds the lock.
    #[error("{}: in use by {holder}; wait for it or stop it", folder.display())]
    InUse {
        /// The folder.
        folder: PathBuf,
        /// `process 123 on host x (since 2026-11-21 09:30:00 UTC)`.
        holder: String,
    },
    /// The lock file could not be opened or written.
    #[error("{}: lock: {}", path.display(), crate::atomic::plain_reason(source))]
    Io {
        /// The lock file.
        path: PathBuf,
        /// The system's answer.
        source: std::io::Error,
    },
}

/// Holds the lock of a folder until it is dropped.
#[derive(Debug)]
pub struct FolderLock {
    /// Something worth telling: a lock left by a process that died, or a file system without locks.
    pub note: Option<String>,
}

impl FolderLock {
    /// Locks a folder without waiting.
    ///
    /// # Errors
    /// Another process holds it; the folder cannot be written to.
    pub fn acquire(folder: &Path) -> Result<Self, LockError> {
        let _ = folder;
        unimplemented!()
    }
}
