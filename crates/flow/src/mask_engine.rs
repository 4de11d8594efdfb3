//! Which engine runs a segmentation model, as somebody says it.

use std::path::PathBuf;

use crate::Failure;
#[cfg(feature = "masks")]
use crate::Host;

/// An engine by its name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EngineKind {
    /// The built-in one.
    #[default]
    Rten,
    /// ONNX Runtime, a library of the machine.
    OnnxRuntime,
}

impl EngineKind {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Rten, Self::OnnxRuntime];

    /// The name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rten => "rten",
            Self::OnnxRuntime => "onnxruntime",
        }
    }
}

/// An engine, and where its library is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MaskEngine {
    /// Which.
    pub kind: EngineKind,
    /// The library of ONNX Runtime; `None` = `$ORT_DYLIB_PATH`, else in a Python.
    pub library: Option<PathBuf>,
    /// A Python with the package onnxruntime; `None` = `$GAUSSET_PYTHON`, then python3 in PATH.
    pub python: Option<PathBuf>,
}

impl MaskEngine {
    /// What nothing looks at is a mistake.
    pub(crate) fn check(&self, has_model: bool) -> Result<(), Failure> {
        if !has_model && (self.kind != EngineKind::Rten || self.library.is_some()) {
            return Err(Failure::usage(
                "⟨mask-engine⟩, ⟨onnx-library⟩: have no effect without a model; leave them out",
            ));
        }
        if self.kind == EngineKind::Rten && self.library.is_some() {
            return Err(Failure::usage(
                "⟨onnx-library⟩: has no effect with ⟨mask-engine = rten⟩; leave it out, or take ⟨mask-engine = onnxruntime⟩",
            ));
        }
        Ok(())
    }

    /// Loads it.
    #[cfg(all(feature = "masks", feature = "onnxruntime"))]
    pub(crate) fn open(&self, host: &Host<'_>) -> Result<gausset_segment::Engine, Failure> {
        use gausset_segment::{Engine, LibraryChoice};
        match self.kind {
            EngineKind::Rten => Ok(Engine::Rten),
            EngineKind::OnnxRuntime => {
                let choice = LibraryChoice { library: self.library.clone(), python: self.python.clone() };
                Ok(Engine::onnx_runtime(&choice, host.stop())?)
            }
        }
    }

    /// Finds it built in.
    #[cfg(all(feature = "masks", not(feature = "onnxruntime")))]
    pub(crate) fn open(&self, _host: &Host<'_>) -> Result<gausset_segment::Engine, Failure> {
        match self.kind {
            EngineKind::Rten => Ok(gausset_segment::Engine::Rten),
            EngineKind::OnnxRuntime => Err(Failure::usage(
                "⟨mask-engine⟩: this program was built without ONNX Runtime (feature `onnxruntime`)",
            )),
        }
    }
}
