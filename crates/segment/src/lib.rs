//! Segmentation models in ONNX files: what they take, what they give, and soft masks from it.
//!
//! ```text
//! proto        what an ONNX file needs, read before an engine sees it
//! model        the file with its limits, the engine (rten), a run with a time limit
//! description  the TOML beside a model      known  ready ones, and what shapes tell without one
//! classes      lists of names, groups       fit    picture → input tensor, and where its pixels lie there
//! decode       outputs → finds              segmenter  all of it: picture in, finds out
//! ```
//! A run is of one picture on one thread, so that masks have the same bytes for any number of threads. The engine's
//! arithmetic differs between vector levels by rounding.
#![forbid(unsafe_code)]

mod classes;
mod decode;
mod description;
mod error;
mod fit;
mod known;
mod model;
mod proto;
mod segmenter;

pub use decode::Find;
pub use description::{Activation, BoxForm, BoxUnits, Colour, Description, Kind, Layout};
pub use error::ModelError;
pub use fit::{Fit, Picture, Placement};
pub use model::{ENGINE, Model, Port, Runner, Tensor, Watch};
pub use proto::{Facts, scan};
pub use segmenter::{Segmenter, Wanted};
