//! 360-degree footage: split into views, alignment, and the whole pipeline from panoramas to a splat.

pub mod align;
pub(crate) mod alignment;
pub mod calibrate;
mod calibrate_options;
mod calibration_frames;
pub mod colour;
pub mod compare;
pub mod convert;
pub mod export;
mod frame_reader;
pub mod frames;
pub(crate) mod mask_options;
pub mod masks;
pub mod model;
pub(crate) mod prior_knowledge;
pub mod run;
pub mod shape;
pub mod source;
mod sphere;
pub mod split;
pub mod static_foreground;
pub mod track;

pub use crate::footage_options::{
    ColourOptions, FrameMaskOptions, FrameOptions, LensViewOptions, MaskingOptions, ProjectionOptions,
    SelectionOptions, TrainViewOptions, ViewOptions,
};
pub use alignment::PanoAlignment;
pub use calibrate_options::{CalibrateOptions, CircleRadius};
pub use convert::{PanoConvertOptions, panorama_of};
pub use frames::{FootageKind, FramesOptions};
pub use mask_options::MaskStatistics;
pub use masks::MasksOptions;
pub use prior_knowledge::PriorKnowledge;
pub use run::{PanoOptions, PanoRun};
pub use shape::SourceProjection;
pub use source::is_image_extension;
pub use split::{LensArrangement, Levelling, SplitOptions};
pub use static_foreground::{StaticMasks, StillChoice};
pub use track::{TrackOffset, TrackOptions};
