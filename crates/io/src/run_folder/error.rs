//! Errors of run folders.

use std::path::PathBuf;

use crate::atomic::WriteError;
use crate::checkpoint::CheckpointError;
use crate::lock::LockError;

/// Why an operation on a run folder failed.
#[derive(Debug, thiserror::Error)]
pub enum RunFolderError {
    /// A file of the run could not be written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// A checkpoint could not be saved or loaded.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// Another process uses the folder.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// A new run would replace an existing one.
    #[error("{}: run folder: already holds a run (expected an empty or new folder, found {found}); continue it with ⟨resume⟩, choose another folder, or replace it with ⟨force⟩", path.display())]
    HoldsARun {
        /// The folder, which contains a run.
        path: PathBuf,
        /// The first file of a run that was found.
        found: String,
    },
    /// Files not created by Gausset have names that the run needs.
    #[error("{}: run folder: holds files that gausset did not write (expected an empty or new folder, found {found}); choose another folder{}", path.display(), if *forcible { ", or replace that file with ⟨force⟩" } else { ", or move them away" })]
    Foreign {
        /// The folder that contains the files.
        path: PathBuf,
        /// The first of these files.
        found: String,
        /// Whether `--force` would replace it.
        forcible: bool,
    },
    /// There is no run to resume.
    #[error("{}: run folder: holds no run (expected {expected}, found {found}); start one with `gausset train DATA -o {}`", path.display(), path.display())]
    NotARun {
        /// The folder, which has no configuration or no checkpoint of a run.
        path: PathBuf,
        /// The missing item.
        expected: &'static str,
        /// The item found instead.
        found: &'static str,
    },
}
