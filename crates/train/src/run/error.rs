//! Errors that prevent a run from starting, resuming or finishing; one line each.

use std::path::PathBuf;

use gausset_core::engine::EngineError;
use gausset_io::atomic::WriteError;
use gausset_io::dataset::{Dataset, DatasetError, SkippedImage};
use gausset_io::run_folder::RunFolderError;
use gausset_io::splat::SplatError;

use crate::config::ConfigError;
use crate::eval::EvalError;

/// States the last checkpoint, from which training can resume.
fn describe_checkpoint(step: Option<u64>) -> String {
    step.map_or("there is no checkpoint yet".to_owned(), |step| {
        format!("the last checkpoint is that of step {step}")
    })
}

/// Why a run could not start, resume or finish.
#[derive(Debug, thiserror::Error)]
pub enum TrainError {
    /// The configuration cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A file in the run folder could not be read or written.
    #[error(transparent)]
    Folder(#[from] RunFolderError),
    /// A file could not be written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// The file given with `--init` is invalid.
    #[error(transparent)]
    Init(#[from] SplatError),
    /// The dataset can no longer be read.
    #[error(transparent)]
    Dataset(#[from] DatasetError),
    /// The file given with `--init` contains no usable splats.
    #[error("{}: splats: none is usable (expected at least one)", path.display())]
    EmptyInit {
        /// Path of the file of initial splats or points; without one, that of the dataset.
        path: PathBuf,
    },
    /// Stereo found no points to start from.
    #[error("{}: ⟨init-points = dense⟩: {why}; use ⟨init-points = auto or sfm⟩", path.display())]
    NoDensePoints {
        /// Path of the dataset, as configured.
        path: PathBuf,
        /// What is missing, with expected and found values.
        why: String,
    },
    /// The run was asked to stop before its first step; there is nothing to save.
    #[error("stopped before the first step; nothing is lost")]
    Stopped,
    /// The device failed.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The evaluation failed.
    #[error(transparent)]
    Eval(#[from] EvalError),
    /// The loss of a step is not finite.
    #[error("{source}; {}", describe_checkpoint(*checkpoint))]
    NonFiniteLoss {
        /// Step, view and value.
        source: EngineError,
        /// Step of the last checkpoint, which is intact.
        checkpoint: Option<u64>,
    },
    /// The device failed, was removed or is out of memory.
    #[error("{source}; {}", describe_checkpoint(*checkpoint))]
    Device {
        /// Error of the device.
        source: EngineError,
        /// Step of the last checkpoint, which is intact.
        checkpoint: Option<u64>,
    },
    /// No splats are left to train.
    #[error("step {step}: splats: none is left that can be drawn (expected at least one); {remedy}; {}", describe_checkpoint(*checkpoint))]
    NoSplats {
        /// Finished steps.
        step: u64,
        /// Settings to change.
        remedy: &'static str,
        /// Step of the last checkpoint, which is intact.
        checkpoint: Option<u64>,
    },
    /// The dataset is not the one the run was started with.
    #[error("{}: data: not the dataset of this run{} (expected fingerprint {expected}, found {found}); give the dataset of the run", path.display(), what.as_ref().map_or_else(String::new, |what| format!(": {what}")))]
    DatasetChanged {
        /// Root folder of the dataset that was opened.
        path: PathBuf,
        /// The first difference, if the run has recorded the list of its data.
        what: Option<String>,
        /// Fingerprint recorded by the run.
        expected: String,
        /// Fingerprint found.
        found: String,
    },
    /// The file given with `--init` is not the one the run was started with.
    #[error("{}: file: not the splats that this run began with (expected {expected}, found {found}); put the first file back or begin a new run", path.display())]
    InitChanged {
        /// Path of the file as it was recorded.
        path: PathBuf,
        /// Length and sample recorded by the run.
        expected: String,
        /// Length and sample found.
        found: String,
    },
    /// The run is a part of another one, or another part.
    #[error("{}: run folder: is of {begun} (expected {now}); resume the run that it is a part of", path.display())]
    OtherBlock {
        /// The run folder.
        path: PathBuf,
        /// What the run has begun as.
        begun: String,
        /// What it was asked to resume as.
        now: String,
    },
    /// Too many images cannot be decoded.
    #[error("{}: images: {unreadable} of {present} cannot be read (expected at most a tenth); the first: {first}; repair or remove them", folder.display())]
    UnreadableImages {
        /// Folder of the images of the dataset.
        folder: PathBuf,
        /// Number of images that cannot be read.
        unreadable: usize,
        /// Number of training images, readable or not.
        present: usize,
        /// The first unreadable image, with the reason.
        first: String,
    },
    /// An image of a block cannot be read.
    #[error("{}: image {image}: {reason} (expected what the coarse run has read); make it readable and train the block again", folder.display())]
    UnreadableInBlock {
        /// Folder of the images of the dataset.
        folder: PathBuf,
        /// Name of the image.
        image: String,
        /// Why it cannot be read.
        reason: String,
    },
    /// No image can be trained on.
    #[error("{}: images: none of {present} can be trained on; the first: {first}; repair them", folder.display())]
    NoUsableImages {
        /// Folder of the images of the dataset.
        folder: PathBuf,
        /// Number of training images.
        present: usize,
        /// The first image, with the reason.
        first: String,
    },
    /// The run would need more memory than it may use.
    #[error(
        "{setting}: the run would need about {needed} for {splats} splats (expected at most {limit}); {advice}"
    )]
    Memory {
        /// Name of the setting that sets the limit.
        setting: &'static str,
        /// Predicted memory, with unit.
        needed: String,
        /// Number of splats for which it is predicted.
        splats: u64,
        /// What the run may use on the host or on the device, with unit.
        limit: String,
        /// Settings that would fit.
        advice: String,
    },
    /// Depth maps would need more memory than the run may use.
    #[error(
        "⟨max-memory⟩: depth maps of the training images would need about {needed} (expected at most {limit}); raise it, or use ⟨init-points = sfm⟩"
    )]
    StereoMemory {
        /// Predicted memory, with unit.
        needed: String,
        /// Memory left for them, with unit.
        limit: String,
    },
    /// A view would need more memory than the run may use.
    #[error("{source}; lower ⟨max-splats⟩, ⟨max-resolution⟩ or ⟨initial-scale⟩, or raise {setting}")]
    View {
        /// Name of the setting that sets the limit.
        setting: &'static str,
        /// The view and the memory it needs.
        source: EngineError,
    },
    /// A checkpoint does not contain what its run needs.
    #[error("{}: {place}: {what}", path.display())]
    Checkpoint {
        /// Path of the checkpoint, or the folder of the checkpoints.
        path: PathBuf,
        /// Field of the header or state.
        place: String,
        /// What is wrong, with expected and found values.
        what: String,
    },
}

impl TrainError {
    pub(super) fn unreadable_in_block(dataset: &Dataset, skipped: &SkippedImage) -> Self {
        let SkippedImage { name, reason } = skipped;
        let folder = dataset.images_folder.clone();
        Self::UnreadableInBlock { folder, image: name.clone(), reason: reason.to_string() }
    }
}
