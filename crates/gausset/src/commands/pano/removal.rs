//! What is removed of panoramas before they are cut: the same words for every command that makes masks on its way.

use std::path::PathBuf;

use clap::Args;
use gausset_flow::panos::Removal;

use crate::mask_engine::MaskEngineArgs;

/// What a model finds, and what rides along.
#[derive(Clone, Debug, Args)]
pub(crate) struct RemovalArgs {
    /// A segmentation model (.onnx) that masks people and what they carry (docs/masks.md).
    #[arg(long, value_name = "FILE", conflicts_with_all = ["masks", "mask_command"])]
    mask_model: Option<PathBuf>,
    /// Mask what stays at its place in all panoramas while the rest passes by: operator, tripod; no model is needed.
    #[arg(long, conflicts_with_all = ["masks", "mask_command"])]
    still_patch: bool,
    /// And its shadow.
    #[arg(long, requires = "still_patch")]
    shadow: bool,
    /// With a model: frames before and behind that have a say in a frame, 0 to 5 [default: 1 for videos, 0 for pictures].
    #[arg(long, value_name = "N", requires = "mask_model", value_parser = clap::value_parser!(u32).range(0..=5))]
    temporal: Option<u32>,
    #[command(flatten)]
    engine: MaskEngineArgs,
}

impl RemovalArgs {
    pub(crate) fn choice(&self) -> Removal {
        Removal {
            model: self.mask_model.clone(),
            still_patch: self.still_patch,
            shadow: self.shadow,
            temporal: self.temporal,
            engine: self.engine.choice(None),
        }
    }
}
