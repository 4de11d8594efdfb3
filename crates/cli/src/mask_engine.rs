//! Arguments that select the inference engine of a segmentation model, shared by all commands that take one.

use std::path::PathBuf;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use gausset::mask_engine::{EngineKind, MaskEngine};

/// The inference engine, and the path of its library.
#[derive(Clone, Debug, Args)]
pub(crate) struct MaskEngineArgs {
    /// Inference engine of the model: rten (built in) or onnxruntime (needs its shared library) [default: rten].
    #[arg(
        long, value_name = "ENGINE", hide_possible_values = true,
        value_parser = PossibleValuesParser::new(EngineKind::ALL.map(EngineKind::name)).map(|name| {
            EngineKind::ALL.into_iter().find(|kind| kind.name() == name).unwrap_or_default()
        })
    )]
    mask_engine: Option<EngineKind>,
    /// Shared library of ONNX Runtime [default: $ORT_DYLIB_PATH, then the Python package onnxruntime of $GAUSSET_PYTHON
    /// or of python3 in PATH].
    #[arg(long, value_name = "FILE")]
    onnx_library: Option<PathBuf>,
}

impl MaskEngineArgs {
    /// Whether the built-in engine is named, which needs no library.
    pub(crate) fn is_built_in(&self) -> bool {
        self.mask_engine == Some(EngineKind::Rten)
    }

    /// The engine of a command whose option `--python`, if it has one, names the Python of ONNX Runtime. A library or a
    /// Python of ONNX Runtime implies it.
    pub(crate) fn options(&self, python: Option<&PathBuf>) -> MaskEngine {
        let is_implied = self.onnx_library.is_some() || python.is_some();
        let implied = if is_implied { EngineKind::OnnxRuntime } else { EngineKind::Rten };
        MaskEngine {
            kind: self.mask_engine.unwrap_or(implied),
            library: self.onnx_library.clone(),
            python: python.cloned(),
        }
    }
}
