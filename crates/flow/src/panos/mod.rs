//! 360-degree footage: split into views, alignment, and the whole pipeline from panoramas to a splat.

pub mod align;
pub(crate) mod alignment;
pub mod calibrate;
mod circles;
pub mod colour;
pub mod compare;
pub mod convert;
pub mod export;
pub mod frames;
pub(crate) mod known;
pub(crate) mod masked;
pub mod masks;
pub mod model;
mod moments;
pub mod run;
pub mod shape;
pub mod source;
mod sphere;
pub mod split;
pub mod still;
pub mod track;

pub use alignment::PanoAlignment;
pub use calibrate::{CalibrateOptions, CircleRadius};
pub use colour::ColourChoice;
pub use convert::{ConvertOptions, panorama_of};
pub use frames::{FilmKind, FramesOptions};
pub use known::KnownChoice;
pub use masked::{MaskShare, Removal};
pub use masks::MasksOptions;
pub use run::{PanoOptions, PanoRun};
pub use shape::{ShapeChoice, SourceShape};
pub use source::{FrameChoice, is_picture};
pub use split::{Lenses, SplitOptions, ViewChoice};
pub use still::{StillChoice, StillMasks};
pub use track::{TrackChoice, TrackOffset};
