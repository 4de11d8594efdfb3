//! Segmentation models in ONNX files: their inputs, outputs, and the soft masks decoded from these.
//!
//! ```text
//! proto        requirements of an ONNX file, read before an engine opens it
//! engine       runs networks: rten, or ONNX Runtime if selected
//! model        opens a file within limits, and runs it with a time limit
//! description  the TOML file of a model     known  built-in descriptions, and guesses from output shapes
//! classes      lists of names, groups       input_image  image → input tensor, and the mapping between their pixels
//! prompt       promptable models: boxes in, masks of their contents out
//! decode       outputs → detections         segmenter  the whole pipeline: image in, detections out
//! ```
//! A run processes one image on one thread, so masks have the same bytes for any number of threads. The engine's
//! arithmetic differs between SIMD levels by rounding.
//!
//! ```
//! use gausset_segment::ModelDescription;
//!
//! let text = "[output]\nkind = 'semantic'\nmasks = 'scores'\n[classes]\nlist = 'voc21'";
//! assert_eq!(ModelDescription::parse(text)?.classes.len(), 21);
//! let error = ModelDescription::parse("[outputs]").unwrap_err();
//! assert_eq!(error.to_string(), "description: unknown key `outputs` (did you mean `output`?)");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod classes;
mod decode;
mod description;
mod engine;
mod error;
mod input_image;
mod known;
mod model;
mod prompt;
mod proto;
mod segmenter;

pub use decode::Detection;
pub use description::{
    Activation, BoxForm, BoxUnits, ChannelOrder, DescriptionError, Layout, ModelDescription, OutputKind,
};
pub use engine::{InferenceEngine, Tensor, TensorPort};
#[cfg(feature = "onnxruntime")]
pub use engine::{LIBRARY_VARIABLE, LibraryChoice, PYTHON_VARIABLE, Runtime};
pub use error::ModelError;
pub use input_image::{Placement, ResizeMode, RgbImage};
pub use model::{OnnxModel, RunLimits};
pub use proto::{OnnxInfo, scan};
pub use segmenter::{ClassSelection, ModelMemory, Segmenter};
