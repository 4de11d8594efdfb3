//! Why a run could not start, go on or end: one line each.

use std::path::PathBuf;

use gausset_core::engine::EngineError;
use gausset_io::atomic::WriteError;
use gausset_io::dataset::DatasetError;
use gausset_io::run_folder::RunFolderError;
use gausset_io::splat::SplatError;

use crate::config::ConfigError;
use crate::eval::EvalError;

/// What there is to go back to.
fn last_checkpoint(step: Option<u64>) -> String {
    step.map_or("there is no checkpoint yet".to_owned(), |step| {
        format!("the last checkpoint is that of step {step}")
    })
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
    /// The dataset cannot be read any more.
    #[error(transparent)]
    Dataset(#[from] DatasetError),
    /// The file given with `--init` holds nothing.
    #[error("{}: splats: none is usable (expected at least one)", path.display())]
    EmptyInit {
        /// The file.
        path: PathBuf,
    },
    /// Stereo has found nothing to start from.
    #[error("{}: ⟨init-points = dense⟩: {why}; take ⟨init-points = auto or sfm⟩", path.display())]
    NoDensePoints {
        /// The dataset.
        path: PathBuf,
        /// What there is not, with what was expected and found.
        why: String,
    },
    /// It was asked to stop before its first step: there is nothing to save.
    #[error("stopped before the first step; nothing is lost")]
    Stopped,
    /// The device failed.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The evaluation failed.
    #[error(transparent)]
    Eval(#[from] EvalError),
    /// The loss of a step is not finite.
    #[error("{source}; {}", last_checkpoint(*checkpoint))]
    NonFiniteLoss {
        /// Step, view and value.
        source: EngineError,
        /// Step of the last checkpoint, which is intact.
        checkpoint: Option<u64>,
    },
    /// The device failed, is gone, or has no memory left.
    #[error("{source}; {}", last_checkpoint(*checkpoint))]
    Device {
        /// What it said.
        source: EngineError,
        /// Step of the last checkpoint, which is intact.
        checkpoint: Option<u64>,
    },
    /// Nothing is left to train.
    #[error("step {step}: splats: none is left that can be drawn (expected at least one); {remedy}; {}", last_checkpoint(*checkpoint))]
    NoSplats {
        /// Finished steps.
        step: u64,
        /// What may help.
        remedy: &'static str,
        /// Step of the last checkpoint, which is intact.
        checkpoint: Option<u64>,
    },
    /// The dataset is not the one the run was started with.
    #[error("{}: data: not the dataset of this run{} (expected fingerprint {expected}, found {found}); name the right one with ⟨data⟩", path.display(), what.as_ref().map_or_else(String::new, |what| format!(": {what}")))]
    OtherDataset {
        /// The dataset.
        path: PathBuf,
        /// The first difference in words, if the run has kept the list of its data.
        what: Option<String>,
        /// Fingerprint recorded by the run.
        expected: String,
        /// Fingerprint found.
        found: String,
    },
    /// The file given with `--init` is not the one the run was started with.
    #[error("{}: file: not the splats that this run began with (expected {expected}, found {found}); put the first file back or begin a new run", path.display())]
    OtherInit {
        /// The file.
        path: PathBuf,
        /// Length and sample recorded by the run.
        expected: String,
        /// Length and sample found.
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
    /// The run would need more memory than it may use.
    #[error(
        "{setting}: the run would need about {needed} for {splats} splats (expected at most {limit}); {advice}"
    )]
    Memory {
        /// The setting of the limit.
        setting: &'static str,
        /// Predicted need, with its unit.
        needed: String,
        /// Splats that it is predicted for.
        splats: u64,
        /// The limit, with its unit.
        limit: String,
        /// What would fit.
        advice: String,
    },
    /// Depth maps would need more memory than the run may use.
    #[error(
        "⟨max-memory⟩: depth maps of the training pictures would need about {needed} (expected at most {limit}); raise it, or take ⟨init-points = sfm⟩"
    )]
    StereoMemory {
        /// Predicted need, with its unit.
        needed: String,
        /// What is left for them, with its unit.
        limit: String,
    },
    /// A view would need more memory than the run may use.
    #[error("{source}; lower ⟨max-splats⟩, ⟨max-resolution⟩ or ⟨initial-scale⟩, or raise {setting}")]
    View {
        /// The setting of the limit.
        setting: &'static str,
        /// Which view, and how much.
        source: EngineError,
    },
    /// A checkpoint does not hold what its run needs.
    #[error("{}: {place}: {what}", path.display())]
    Checkpoint {
        /// The checkpoint.
        path: PathBuf,
        /// Field of the header or state.
        place: String,
        /// What is wrong, with what was expected and found.
        what: String,
    },
}
