//! Which engine runs a segmentation model: the same words for every command that takes one.

use std::path::PathBuf;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use gausset_flow::mask_engine::{EngineKind, MaskEngine};

/// An engine, and where its library is.
#[derive(Clone, Debug, Args)]
pub(crate) struct MaskEngineArgs {
    /// What runs the model: rten|onnxruntime; the first is built in, the other a library of yours.
    #[arg(
        long, value_name = "ENGINE", default_value = "rten", hide_possible_values = true,
        value_parser = PossibleValuesParser::new(EngineKind::ALL.map(EngineKind::name)).map(|name| {
            EngineKind::ALL.into_iter().find(|kind| kind.name() == name).unwrap_or_default()
        })
    )]
    mask_engine: EngineKind,
    /// The library of ONNX Runtime [default: $ORT_DYLIB_PATH, then the package onnxruntime of a Python: $GAUSSET_PYTHON,
    /// python3 in PATH].
    #[arg(long, value_name = "FILE")]
    onnx_library: Option<PathBuf>,
}

impl MaskEngineArgs {
    /// Whether it is the one that needs no library.
    pub(crate) fn is_built_in(&self) -> bool {
        self.mask_engine == EngineKind::Rten
    }

    pub(crate) fn choice(&self, python: Option<&PathBuf>) -> MaskEngine {
        MaskEngine { kind: self.mask_engine, library: self.onnx_library.clone(), python: python.cloned() }
    }
}
