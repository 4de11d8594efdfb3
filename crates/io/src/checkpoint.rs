//! The state of a training run as a file, exact to the bit, in the sections of a [`crate::container`].

use std::path::Path;

use gausset_core::engine::TrainState;
use serde_json::Value;

use crate::atomic::{Committed, FileSystem, WriteError};
use crate::container::ContainerError;

/// Why a checkpoint could not be saved or loaded.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    /// Writing failed; what stood under the name is untouched.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// The file is damaged, cut off or not a container.
    #[error(transparent)]
    Container(#[from] ContainerError),
    /// The sections are whole but do not make a state.
    #[error("{}: {place}: {what}", path.display())]
    State {
        /// The file.
        path: std::path::PathBuf,
        /// Section or header field.
        place: String,
        /// What is wrong, with what was expected and found.
        what: String,
    },
}

/// Saves a training state with the caller's own `header` (step, data cursor, options …), atomically.
///
/// # Errors
/// Free space below twice the size, a failed write, a header larger than 1 MiB.
pub fn save_train_state(
    fs: &dyn FileSystem,
    path: &Path,
    state: &TrainState,
    header: &Value,
) -> Result<Committed, CheckpointError> {
    let _ = (fs, path, state, header);
    unimplemented!()
}

/// Loads a training state and the caller's header, every byte verified.
///
/// # Errors
/// A damaged file, or one that does not hold a training state.
pub fn load_train_state(path: &Path) -> Result<(TrainState, Value), CheckpointError> {
    let _ = path;
    unimplemented!()
}

/// Reads the caller's header alone, without looking at the big sections.
///
/// # Errors
/// As [`load_train_state`], as far as header and section table go.
pub fn read_checkpoint_header(path: &Path) -> Result<Value, CheckpointError> {
    let _ = path;
    unimplemented!()
}
