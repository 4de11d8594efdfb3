//! Arguments for masking panoramas before they are cut, shared by all commands that compute masks as a stage.

use std::path::PathBuf;

use clap::Args;
use gausset::panos::MaskingOptions;

use crate::mask_engine::MaskEngineArgs;

/// Arguments for masks from a model and of static foreground.
#[derive(Clone, Debug, Args)]
pub(crate) struct MaskingArgs {
    /// Segmentation model (.onnx) for masking people and what they carry (docs/reference/masks.md).
    #[arg(long, value_name = "FILE", conflicts_with_all = ["masks", "mask_command"])]
    mask_model: Option<PathBuf>,
    /// Mask static foreground: what keeps its position in all panoramas of a moving camera (operator, tripod).
    #[arg(long, conflicts_with_all = ["masks", "mask_command"])]
    still_patch: bool,
    /// Also mask the shadow of static foreground.
    #[arg(long, requires = "still_patch")]
    shadow: bool,
    /// With a model: number of frames before and after that influence a frame's mask, 0 to 5 [default: 1 for videos, 0
    /// for images].
    #[arg(long, value_name = "N", requires = "mask_model", value_parser = clap::value_parser!(u32).range(0..=5))]
    temporal: Option<u32>,
    #[command(flatten)]
    engine: MaskEngineArgs,
}

impl MaskingArgs {
    pub(crate) fn options(&self) -> MaskingOptions {
        MaskingOptions {
            model: self.mask_model.clone(),
            still_patch: self.still_patch,
            shadow: self.shadow,
            temporal: self.temporal,
            engine: self.engine.options(None),
        }
    }
}
