//! Options and statistics of the masks made before panoramas are split.

use std::path::PathBuf;

use serde::Serialize;

use crate::Failure;
use crate::mask_engine::MaskEngine;

/// What to detect in panoramas and mask in their views.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MaskingOptions {
    /// Segmentation model, which detects people and what they carry.
    pub model: Option<PathBuf>,
    /// Mask what does not move relative to the camera: operator, tripod.
    pub still_patch: bool,
    /// Mask its shadow as well.
    pub shadow: bool,
    /// Number of neighbouring frames on each side used to check detections; `None` = 1 for videos, 0 otherwise.
    pub temporal: Option<u32>,
    /// Inference engine of the model.
    pub engine: MaskEngine,
}

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
