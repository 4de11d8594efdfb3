//! What a person should know of a run that goes on.

use std::path::PathBuf;

use serde::ser::SerializeStruct;
use serde::{Deserialize, Serialize};

/// Something a person should know though the run goes on. Displays as one line.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum RunWarning {
    /// A picture cannot be decoded; the run goes on without it.
    #[error("{}: skipped: {}", .0.name, .0.reason)]
    UnreadablePicture(SkippedPicture),
    /// The loss is far above what it was.
    #[error(
        "step {step}: loss is {loss:.4}, more than {factor} times the median of {median:.4} for {steps} steps; the rates may be too high"
    )]
    LossExplosion {
        /// Finished steps.
        step: u64,
        /// Mean loss lately.
        loss: f64,
        /// Median before.
        median: f64,
        /// How many times the median is too much.
        factor: f64,
        /// For how many steps.
        steps: u64,
    },
    /// Splats are dead because a parameter is not finite.
    #[error(
        "step {step}: {count} splats have a parameter that is not finite; they are left out of pictures and files"
    )]
    DeadSplats {
        /// Finished steps.
        step: u64,
        /// How many.
        count: u64,
    },
    /// Updates were skipped because a gradient was not finite.
    #[error(
        "step {step}: {count} updates of single splats skipped since the start, because their gradient was not finite"
    )]
    SkippedUpdates {
        /// Finished steps.
        step: u64,
        /// How many, since the start.
        count: u64,
    },
    /// The processor applies density rules in place of the device.
    #[error(
        "step {step}: {count} splats are more than one binding of the device holds, or may soon be: the processor applies the density rules, and the state comes back for each"
    )]
    HostRules {
        /// Finished steps.
        step: u64,
        /// Splats.
        count: u64,
    },
    /// The limit of splats per tile has cut lists while training.
    #[error(
        "⟨max-splats-per-tile⟩ {limit}: the lists of {tiles} tiles were cut, in {cut_steps} of {steps} steps; splats behind the nearest {limit} were not drawn there (raise the limit, or 0 for none)"
    )]
    CutLists {
        /// The limit.
        limit: u32,
        /// Tiles, over all steps.
        tiles: u64,
        /// Steps with such a tile.
        cut_steps: u64,
        /// Steps done.
        steps: u64,
    },
    /// The limit of splats per tile has cut lists in pictures: of an evaluation, or for their own sake.
    #[error(
        "⟨max-splats-per-tile⟩ {limit}: the lists of {tiles} tiles were cut, in {cut_views} of {views} pictures; splats behind the nearest {limit} were not drawn there"
    )]
    CutPictures {
        /// The limit.
        limit: u32,
        /// Tiles, over all pictures.
        tiles: u64,
        /// Pictures with such a tile.
        cut_views: u64,
        /// Pictures.
        views: u64,
    },
    /// A checkpoint cannot be used and was set aside.
    #[error("{0}")]
    DamagedCheckpoint(String),
    /// A resumed run has no checkpoint yet.
    #[error("{}: no checkpoint yet; starting again from step 0", folder.display())]
    NoCheckpoint {
        /// The run folder.
        folder: PathBuf,
    },
    /// Something else that is already one line.
    #[error("{0}")]
    Note(String),
}

impl RunWarning {
    /// What it is about, as one word.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::UnreadablePicture(_) => "unreadable_picture",
            Self::LossExplosion { .. } => "loss_explosion",
            Self::DeadSplats { .. } => "dead_splats",
            Self::SkippedUpdates { .. } => "skipped_updates",
            Self::HostRules { .. } => "host_rules",
            Self::CutLists { .. } => "cut_lists",
            Self::CutPictures { .. } => "cut_pictures",
            Self::DamagedCheckpoint(_) => "damaged_checkpoint",
            Self::NoCheckpoint { .. } => "no_checkpoint",
            Self::Note(_) => "note",
        }
    }
}

/// `{"kind":"loss_explosion","line":"step 300: loss is …"}`.
impl Serialize for RunWarning {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_struct("RunWarning", 2)?;
        fields.serialize_field("kind", self.kind())?;
        fields.serialize_field("line", &self.to_string())?;
        fields.end()
    }
}

/// A picture that was left out while training.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkippedPicture {
    /// Name as in the dataset.
    pub name: String,
    /// Why.
    pub reason: String,
}

/// Serialisation leaves a count of nothing out.
#[allow(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde calls")]
pub(crate) fn is_zero(count: &u64) -> bool {
    *count == 0
}
