//! Options and statistics of the masks made before panoramas are split.

use serde::Serialize;

use crate::Failure;
use crate::footage_options::MaskingOptions;

impl MaskingOptions {
    /// Refuses options without effect.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        self.engine.check(self.model.is_some())?;
        if self.shadow && !self.still_patch {
            return Err(Failure::usage("⟨shadow⟩: needs ⟨still-patch⟩"));
        }
        Ok(())
    }

    /// Whether masks are to be created.
    pub(crate) fn is_wanted(&self) -> bool {
        self.model.is_some() || self.still_patch
    }
}

/// Statistics of the created masks.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MaskStatistics {
    /// Number of frames processed.
    pub frames: usize,
    /// Number of frames with a detection.
    pub with_finds: usize,
    /// Fraction of the sphere covered by the static foreground and its shadow; `None` if it was not requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub still_share: Option<f64>,
    /// Masked fraction of the sphere, mean over the frames.
    pub removed_mean: f64,
    /// Largest masked fraction of the sphere.
    pub removed_worst: f64,
    /// Number of unusable frames, which have no mask.
    pub skipped: usize,
}
