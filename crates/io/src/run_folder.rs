//! The folder of a training run: its names, its checkpoints, its log of metrics.
//!
//! ```text
//! RUN/
//!   config.toml          everything needed to repeat the run
//!   splats.ply           the result
//!   checkpoints/         step_007000.ckpt (latest) and the one before
//!   metrics.jsonl        one line per report
//!   profile.json trace.json
//!   eval/                truth | render | error pictures, metrics.json
//! ```
//! Every file is written by [`crate::atomic`]; `metrics.jsonl` alone grows by appended lines.

use std::path::{Path, PathBuf};

use gausset_core::engine::TrainState;
use serde_json::Value;

use crate::atomic::{Committed, FileSystem, Overwrite, WriteError};
use crate::checkpoint::CheckpointError;
use crate::lock::{FolderLock, LockError};

/// Why something in a run folder could not be done.
#[derive(Debug, thiserror::Error)]
pub enum RunFolderError {
    /// Writing failed.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// A checkpoint could not be saved or loaded.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// Somebody else uses the folder.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The folder holds no run.
    #[error("{}: run folder: {what}", path.display())]
    NotARun {
        /// The folder.
        path: PathBuf,
        /// What is missing and what to do.
        what: String,
    },
}

/// A locked run folder.
#[derive(Debug)]
pub struct RunFolder {
    root: PathBuf,
    lock: FolderLock,
}

/// The newest checkpoint that can be used.
#[derive(Debug)]
pub struct FoundCheckpoint {
    /// Step in its name.
    pub step: u64,
    /// The file.
    pub path: PathBuf,
    /// The state.
    pub state: TrainState,
    /// The header that was given when it was saved.
    pub header: Value,
}

/// What was found when a run was looked through for checkpoints.
#[derive(Debug, Default)]
pub struct CheckpointSearch {
    /// The newest whole checkpoint; `None`: the run starts from step 0.
    pub found: Option<FoundCheckpoint>,
    /// Newer ones that cannot be used, each with the reason.
    pub damaged: Vec<(PathBuf, CheckpointError)>,
}

impl RunFolder {
    /// Makes (or takes) a folder for a new run and locks it. With [`Overwrite::Replace`] the files of an earlier run
    /// are removed, and nothing else.
    ///
    /// # Errors
    /// The folder is in use; it holds a run and may not be overwritten; it cannot be written to.
    pub fn create(fs: &dyn FileSystem, root: &Path, overwrite: Overwrite) -> Result<Self, RunFolderError> {
        let _ = (fs, root, overwrite);
        unimplemented!()
    }

    /// Opens and locks the folder of a run that is to go on.
    ///
    /// # Errors
    /// The folder is in use, is not there or has no `config.toml`.
    pub fn open(fs: &dyn FileSystem, root: &Path) -> Result<Self, RunFolderError> {
        let _ = (fs, root);
        unimplemented!()
    }

    /// The folder.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Something worth telling about the lock.
    #[must_use]
    pub fn lock_note(&self) -> Option<&str> {
        self.lock.note.as_deref()
    }

    /// Writes `config.toml`.
    ///
    /// # Errors
    /// A failed write.
    pub fn write_config(&self, fs: &dyn FileSystem, toml: &str) -> Result<(), RunFolderError> {
        let _ = (fs, toml);
        unimplemented!()
    }

    /// Saves the checkpoint of a step and removes all but this one and the one before it.
    ///
    /// # Errors
    /// A failed write: the checkpoints that were there are still there.
    pub fn save_checkpoint(
        &self,
        fs: &dyn FileSystem,
        step: u64,
        state: &TrainState,
        header: &Value,
    ) -> Result<Committed, RunFolderError> {
        let _ = (fs, step, state, header);
        unimplemented!()
    }

    /// Finds the newest checkpoint that is whole, looking further back past damaged ones, which are set aside
    /// (renamed to `….damaged`) and reported.
    ///
    /// # Errors
    /// The folder could not be listed.
    pub fn newest_checkpoint(&self, fs: &dyn FileSystem) -> Result<CheckpointSearch, RunFolderError> {
        let _ = fs;
        unimplemented!()
    }
}

/// `RUN/config.toml`.
#[must_use]
pub fn config_path(run: &Path) -> PathBuf {
    run.join("config.toml")
}

/// `RUN/splats.ply`.
#[must_use]
pub fn splats_path(run: &Path) -> PathBuf {
    run.join("splats.ply")
}

/// `RUN/checkpoints`.
#[must_use]
pub fn checkpoints_folder(run: &Path) -> PathBuf {
    run.join("checkpoints")
}

/// `RUN/checkpoints/step_007000.ckpt`.
#[must_use]
pub fn checkpoint_path(run: &Path, step: u64) -> PathBuf {
    checkpoints_folder(run).join(format!("step_{step:06}.ckpt"))
}

/// `RUN/metrics.jsonl`.
#[must_use]
pub fn metrics_path(run: &Path) -> PathBuf {
    run.join("metrics.jsonl")
}

/// `RUN/profile.json`.
#[must_use]
pub fn profile_path(run: &Path) -> PathBuf {
    run.join("profile.json")
}

/// `RUN/trace.json`.
#[must_use]
pub fn trace_path(run: &Path) -> PathBuf {
    run.join("trace.json")
}

/// `RUN/eval`.
#[must_use]
pub fn eval_folder(run: &Path) -> PathBuf {
    run.join("eval")
}
