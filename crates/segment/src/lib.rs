//! Segmentation models in ONNX files: what they take, what they give, and soft masks from it.
//!
//! ```text
//! proto        what an ONNX file needs, read before an engine sees it
//! engine       who runs it: rten, or ONNX Runtime where it is asked for
//! model        the file with its limits, a run with a time limit
//! description  the TOML beside a model      known  ready ones, and what shapes tell without one
//! classes      lists of names, groups       fit    picture → input tensor, and where its pixels lie there
//! prompt       a promptable model: boxes in, what is in them out
//! decode       outputs → finds              segmenter  all of it: picture in, finds out
//! ```
//! A run is of one picture on one thread, so that masks have the same bytes for any number of threads. The engine's
//! arithmetic differs between vector levels by rounding.
#![forbid(unsafe_code)]

mod classes;
mod decode;
mod description;
mod engine;
mod error;
mod fit;
mod known;
mod model;
mod prompt;
mod proto;
mod segmenter;

pub use decode::Find;
pub use description::{Activation, BoxForm, BoxUnits, Colour, Description, Kind, Layout};
pub use engine::{Engine, Port, Tensor};
#[cfg(feature = "onnxruntime")]
pub use engine::{LIBRARY_VARIABLE, LibraryChoice, PYTHON_VARIABLE, Runtime};
pub use error::ModelError;
pub use fit::{Fit, Picture, Placement};
pub use model::{Model, Watch};
pub use proto::{Facts, scan};
pub use segmenter::{Memory, Segmenter, Wanted};
