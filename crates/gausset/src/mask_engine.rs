//! Selection of the inference engine for segmentation models.

#[cfg(feature = "masks")]
use std::sync::{Arc, atomic::AtomicBool};

use crate::Failure;
pub use crate::footage_options::MaskEngine;

/// An inference engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EngineKind {
    /// The built-in engine.
    #[default]
    Rten,
    /// ONNX Runtime, loaded from a shared library of the machine.
    OnnxRuntime,
}

impl EngineKind {
    /// All engines; the first is the default.
    pub const ALL: [Self; 2] = [Self::Rten, Self::OnnxRuntime];

    /// Name as in options: `rten` or `onnxruntime`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rten => "rten",
            Self::OnnxRuntime => "onnxruntime",
        }
    }
}

impl MaskEngine {
    /// Refuses options that would have no effect.
    pub(crate) fn check(&self, has_model: bool) -> Result<(), Failure> {
        if !has_model && (self.kind != EngineKind::Rten || self.library.is_some()) {
            return Err(Failure::usage(
                "⟨mask-engine⟩, ⟨onnx-library⟩: have no effect without a segmentation model; leave them out",
            ));
        }
        if self.kind == EngineKind::Rten && self.library.is_some() {
            return Err(Failure::usage(
                "⟨onnx-library⟩: has no effect with ⟨mask-engine = rten⟩; leave it out, or take ⟨mask-engine = onnxruntime⟩",
            ));
        }
        Ok(())
    }

    /// Loads the engine.
    #[cfg(all(feature = "masks", feature = "onnxruntime"))]
    pub(crate) fn open(&self, stop: &Arc<AtomicBool>) -> Result<gausset_segment::InferenceEngine, Failure> {
        use gausset_segment::{InferenceEngine, LibraryChoice};
        match self.kind {
            EngineKind::Rten => Ok(InferenceEngine::Rten),
            EngineKind::OnnxRuntime => {
                let choice = LibraryChoice { library: self.library.clone(), python: self.python.clone() };
                Ok(InferenceEngine::onnx_runtime(&choice, stop)?)
            }
        }
    }

    /// Returns the built-in engine; this build has no other.
    #[cfg(all(feature = "masks", not(feature = "onnxruntime")))]
    pub(crate) fn open(&self, _stop: &Arc<AtomicBool>) -> Result<gausset_segment::InferenceEngine, Failure> {
        match self.kind {
            EngineKind::Rten => Ok(gausset_segment::InferenceEngine::Rten),
            EngineKind::OnnxRuntime => Err(Failure::usage(
                "⟨mask-engine⟩: this program was built without ONNX Runtime (feature `onnxruntime`)",
            )),
        }
    }
}
