//! The training run: folder, loop, checkpoints, result.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use gausset_core::engine::{Engine, EngineError};
use gausset_io::atomic::{FileSystem, Overwrite, WriteError};
use gausset_io::dataset::Dataset;
use gausset_io::run_folder::RunFolderError;
use gausset_io::splat::SplatError;

use crate::config::{ConfigError, TrainConfig};
use crate::eval::EvalError;
use crate::events::{Event, Outcome, Summary};
use crate::options::TrainOptions;

/// What a run works with.
pub struct Session<'a> {
    /// The dataset, opened with [`TrainConfig::open_options`].
    pub dataset: Arc<Dataset>,
    /// The device.
    pub engine: &'a mut dyn Engine,
    /// Where files are written.
    pub fs: &'a dyn FileSystem,
    /// Set it to save and stop after the current step.
    pub stop: &'a AtomicBool,
    /// Is told everything that happens.
    pub events: &'a mut dyn FnMut(&Event),
}

/// Why a run could not start, go on or end.
#[derive(Debug, thiserror::Error)]
pub enum TrainError {
    /// The configuration cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Something in the run folder could not be read or written.
    #[error(transparent)]
    Folder(#[from] RunFolderError),
    /// A file could not be written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// The file given with `--init` cannot be used.
    #[error(transparent)]
    Init(#[from] SplatError),
    /// The device failed.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The evaluation failed.
    #[error(transparent)]
    Eval(#[from] EvalError),
    /// The dataset is not the one the run was started with.
    #[error("{}: data: not the dataset of this run (expected fingerprint {expected}, found {found}); name the right one with --data", path.display())]
    OtherDataset {
        /// The dataset.
        path: PathBuf,
        /// Fingerprint recorded by the run.
        expected: String,
        /// Fingerprint found.
        found: String,
    },
    /// Too many pictures cannot be decoded.
    #[error("{}: images: {unreadable} of {present} cannot be read (expected at most a tenth); the first: {first}; repair or remove them", folder.display())]
    TooManyUnreadable {
        /// Picture folder.
        folder: PathBuf,
        /// Pictures that cannot be read.
        unreadable: usize,
        /// Pictures to train on.
        present: usize,
        /// The first of them, with its reason.
        first: String,
    },
    /// A checkpoint does not hold what its run needs.
    #[error("{}: {place}: {what}", path.display())]
    Checkpoint {
        /// The run folder.
        path: PathBuf,
        /// Field of the header.
        place: String,
        /// What is wrong.
        what: String,
    },
}

/// A training run in its folder, ready to go.
pub struct Run<'a> {
    session: Session<'a>,
}

impl<'a> Run<'a> {
    /// Prepares a new run in `folder`: locks it, writes `config.toml`, makes the first splats.
    ///
    /// # Errors
    /// A folder that is in use or holds a run (unless it may be overwritten), a start that cannot be made, a device
    /// that cannot hold it.
    pub fn start(
        config: TrainConfig,
        folder: &Path,
        overwrite: Overwrite,
        session: Session<'a>,
    ) -> Result<Self, TrainError> {
        let _ = (config, folder, overwrite);
        Ok(Self { session })
    }

    /// Prepares the run in `folder` to go on from its newest checkpoint, or from step 0 when there is none.
    /// `config` comes from [`resumable_config`].
    ///
    /// # Errors
    /// A folder that is in use or holds no run, another dataset, options that would change the result.
    pub fn resume(config: TrainConfig, folder: &Path, session: Session<'a>) -> Result<Self, TrainError> {
        let _ = (config, folder);
        Ok(Self { session })
    }

    /// Runs to the end, or until it is asked to stop.
    ///
    /// # Errors
    /// A loss that is not finite, a device or file system that fails, too many unreadable pictures. The last
    /// checkpoint is intact.
    pub fn train(self) -> Result<Outcome, TrainError> {
        let _ = self.session;
        unimplemented!()
    }
}

/// The configuration with which the run in `folder` goes on when `given` is said on the command line. Open the
/// dataset and the device with it, then call [`Run::resume`].
///
/// # Errors
/// No run there; options that differ from the run's and would change its result.
pub fn resumable_config(folder: &Path, given: &TrainOptions) -> Result<TrainConfig, TrainError> {
    let _ = (folder, given);
    unimplemented!()
}

/// The numbers of a run, finished or not, from the files in its folder; reads only.
///
/// # Errors
/// No run there.
pub fn read_summary(folder: &Path) -> Result<Summary, TrainError> {
    let _ = folder;
    unimplemented!()
}
