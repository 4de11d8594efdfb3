//! Warnings of a run.

use std::path::PathBuf;

use serde::ser::SerializeStruct;
use serde::{Deserialize, Serialize};

/// A problem that does not stop the run. Displays as one line.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum RunWarning {
    /// An image cannot be decoded; the run continues without it.
    #[error("{}: skipped: {}", .0.name, .0.reason)]
    UnreadableImage(SkippedImage),
    /// The loss is far above its median.
    #[error(
        "step {step}: loss is {loss:.4}, more than {factor} times the median of {median:.4} for {steps} steps; the rates may be too high"
    )]
    LossExplosion {
        /// Finished steps when it was noticed.
        step: u64,
        /// Recent mean loss.
        loss: f64,
        /// Median loss before.
        median: f64,
        /// Factor over the median that triggers the warning.
        factor: f64,
        /// Number of steps with a high loss.
        steps: u64,
    },
    /// Splats are dead because a parameter is not finite.
    #[error(
        "step {step}: {count} splats have a parameter that is not finite; they are left out of renders and files"
    )]
    DeadSplats {
        /// Finished steps when it was noticed.
        step: u64,
        /// Number of such splats.
        count: u64,
    },
    /// Updates were skipped because a gradient was not finite.
    #[error(
        "step {step}: {count} updates of single splats skipped since the start, because their gradient was not finite"
    )]
    SkippedUpdates {
        /// Finished steps when it was noticed.
        step: u64,
        /// Number of skipped updates since the start.
        count: u64,
    },
    /// The CPU does density control in place of the device.
    #[error(
        "step {step}: {count} splats exceed one binding of the device, or may do so soon: density control runs on the CPU, and the state is copied back for each update"
    )]
    HostDensityControl {
        /// Finished steps when it was noticed.
        step: u64,
        /// Number of splats.
        count: u64,
    },
    /// The limit of splats per tile has truncated lists in training.
    #[error(
        "⟨max-splats-per-tile⟩ {limit}: the lists of {tiles} tiles were cut, in {cut_steps} of {steps} steps; splats behind the nearest {limit} were not drawn there (raise the limit, or 0 for none)"
    )]
    TruncatedLists {
        /// The limit of splats per tile.
        limit: u32,
        /// Number of truncated tiles, over all steps.
        tiles: u64,
        /// Steps with such a tile.
        cut_steps: u64,
        /// Number of finished steps.
        steps: u64,
    },
    /// The limit of splats per tile has truncated lists in renders, of an evaluation or for output.
    #[error(
        "⟨max-splats-per-tile⟩ {limit}: the lists of {tiles} tiles were cut, in {cut_views} of {views} pictures; splats behind the nearest {limit} were not drawn there"
    )]
    TruncatedRenders {
        /// The limit of splats per tile.
        limit: u32,
        /// Number of truncated tiles, over all renders.
        tiles: u64,
        /// Number of renders with such a tile.
        cut_views: u64,
        /// Number of renders.
        views: u64,
    },
    /// A checkpoint is invalid and was set aside.
    #[error("{0}")]
    DamagedCheckpoint(String),
    /// A resumed run has no checkpoint yet.
    #[error("{}: no checkpoint yet; starting again from step 0", folder.display())]
    NoCheckpoint {
        /// The run folder.
        folder: PathBuf,
    },
    /// Any other warning of one line.
    #[error("{0}")]
    Note(String),
}

impl RunWarning {
    /// The kind of warning, as one word.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::UnreadableImage(_) => "unreadable_picture",
            Self::LossExplosion { .. } => "loss_explosion",
            Self::DeadSplats { .. } => "dead_splats",
            Self::SkippedUpdates { .. } => "skipped_updates",
            Self::HostDensityControl { .. } => "host_rules",
            Self::TruncatedLists { .. } => "cut_lists",
            Self::TruncatedRenders { .. } => "cut_pictures",
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

/// An image that was left out of training.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkippedImage {
    /// Name as in the dataset.
    pub name: String,
    /// Why the image was left out.
    pub reason: String,
}

/// For serde: omits a count of zero.
#[allow(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde calls")]
pub(crate) fn is_zero(count: &u64) -> bool {
    *count == 0
}
