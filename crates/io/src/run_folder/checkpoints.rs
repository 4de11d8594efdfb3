//! Finds the checkpoints of a run.

use std::path::{Path, PathBuf};

use gausset_core::engine::TrainState;
use serde_json::Value;

use super::error::RunFolderError;
use super::names::{checkpoint_path, checkpoints_folder, step_of};
use super::survey::names_in;
use crate::atomic::{FileSystem, WriteError};
use crate::checkpoint::{CheckpointError, load_train_state};

/// The newest valid checkpoint.
#[derive(Debug)]
pub struct FoundCheckpoint {
    /// Step from its name.
    pub step: u64,
    /// The file, `RUN/checkpoints/step_007000.ckpt`.
    pub path: PathBuf,
    /// The state that it contains.
    pub state: TrainState,
    /// The header that was passed when it was saved.
    pub header: Value,
}

/// Result of a search for checkpoints.
#[derive(Debug, Default)]
pub struct CheckpointSearch {
    /// The newest valid checkpoint; `None`: the run starts from step 0.
    pub found: Option<FoundCheckpoint>,
    /// Newer ones that are damaged, with reasons.
    pub damaged: Vec<(PathBuf, CheckpointError)>,
}

impl CheckpointSearch {
    /// One line per damaged checkpoint, with the one that is used instead.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let instead = match &self.found {
            Some(found) => format!("going back to step {}", found.step),
            None => "starting again from step 0".to_owned(),
        };
        self.damaged.iter().map(|(_, error)| format!("{error}; {instead}")).collect()
    }
}

/// Finds the newest valid checkpoint of a run without changing anything: for inspection of a run.
///
/// # Errors
/// The folder could not be listed, or a checkpoint that is not damaged cannot be loaded: a failed read, another version,
/// too little memory.
pub fn newest_checkpoint(fs: &dyn FileSystem, run: &Path) -> Result<CheckpointSearch, RunFolderError> {
    let mut search = CheckpointSearch::default();
    for step in list_checkpoints(fs, run)?.into_iter().rev() {
        let path = checkpoint_path(run, step);
        match load_train_state(&path) {
            Ok((state, header)) => {
                search.found = Some(FoundCheckpoint { step, path, state, header });
                break;
            }
            Err(error) if error.is_damage() => search.damaged.push((path, error)),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(search)
}

/// Steps of all checkpoints of a run, valid or not, in ascending order.
///
/// # Errors
/// The folder could not be listed.
pub fn list_checkpoints(fs: &dyn FileSystem, run: &Path) -> Result<Vec<u64>, WriteError> {
    let mut steps: Vec<u64> =
        names_in(fs, &checkpoints_folder(run))?.iter().filter_map(|name| step_of(name)).collect();
    steps.sort_unstable();
    Ok(steps)
}
