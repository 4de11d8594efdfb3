//! From a frame to its views: coordinate tables, sampling, colours, and the splitter.

pub mod contact_sheet;
pub mod convert;
pub mod cutter;
pub mod equalise;
pub(crate) mod fetch;
pub mod frame_gains;
pub mod grade;
pub mod look;
pub mod lut;
pub(crate) mod remap;
pub mod split;
pub(crate) mod table;
pub mod vignetting_fit;
