//! Why something in a run folder could not be done.

use std::path::PathBuf;

use crate::atomic::WriteError;
use crate::checkpoint::CheckpointError;
use crate::lock::LockError;

/// Why something in a run folder could not be done.
#[derive(Debug, thiserror::Error)]
pub enum RunFolderError {
    /// Writing failed.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// A checkpoint could not be saved.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// Somebody else uses the folder.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// A new run would replace an old one.
    #[error("{}: run folder: holds a run already (expected an empty or new folder, found {found}); continue it with ⟨resume⟩, choose another folder, or replace it with ⟨force⟩", path.display())]
    HoldsARun {
        /// The folder.
        path: PathBuf,
        /// The first thing found that a run leaves.
        found: String,
    },
    /// Files of somebody else are in the way.
    #[error("{}: run folder: holds files that gausset did not write (expected an empty or new folder, found {found}); choose another folder{}", path.display(), if *forcible { ", or replace that file with ⟨force⟩" } else { ", or move them away" })]
    Foreign {
        /// The folder.
        path: PathBuf,
        /// The first of them.
        found: String,
        /// Whether it would be replaced with `--force`.
        forcible: bool,
    },
    /// There is no run to go on with.
    #[error("{}: run folder: holds no run (expected {expected}, found {found}); start one with `gausset train DATA -o {}`", path.display(), path.display())]
    NotARun {
        /// The folder.
        path: PathBuf,
        /// What is missing.
        expected: &'static str,
        /// What is there.
        found: &'static str,
    },
}
