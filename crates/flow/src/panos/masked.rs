//! What is removed of panoramas before they are cut.

use std::path::PathBuf;

use serde::Serialize;

use crate::Failure;
use crate::mask_engine::MaskEngine;

/// What is looked for in panoramas and removed from their views.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Removal {
    /// What a segmentation model finds: people, and what they carry.
    pub model: Option<PathBuf>,
    /// What stays at its place while the rest passes by: the operator, the tripod.
    pub still_patch: bool,
    /// The shadow of that.
    pub shadow: bool,
    /// Frames before and behind that have a say in what the model found in a frame; `None` = 1 for films, 0 for others.
    pub temporal: Option<u32>,
    /// What runs the model.
    pub engine: MaskEngine,
}

impl Removal {
    /// Refuses what has no effect.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        self.engine.check(self.model.is_some())?;
        if self.shadow && !self.still_patch {
            return Err(Failure::usage("⟨shadow⟩: needs ⟨still-patch⟩, whose shadow it is"));
        }
        Ok(())
    }

    /// Whether masks are to be made.
    pub(crate) fn is_wanted(&self) -> bool {
        self.model.is_some() || self.still_patch
    }
}

/// What was removed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MaskShare {
    /// Frames that were looked at.
    pub frames: usize,
    /// Those in which the model found something.
    pub with_finds: usize,
    /// Share of the sphere that rides along with the camera, with its shadow; `None` where it was not looked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub still_share: Option<f64>,
    /// Mean over the frames of the share of the sphere that is removed.
    pub removed_mean: f64,
    /// The largest of these shares.
    pub removed_worst: f64,
    /// Frames without a mask because they cannot be used.
    pub skipped: usize,
}
