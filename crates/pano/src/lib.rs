//! 360-degree footage: cut into perspective views at the speed of the codecs, with exact geometry; and ordinary footage.
//!
//! ```text
//! frames, video  pictures and videos of any kind   film      videos of panoramas
//! geometry  what a pixel of a view looks at        layout    which views
//! projection, eac, fisheye  where a direction is in the source's pictures
//! table     coordinates, 16 pixels a segment       remap     sampling in whole numbers
//! ```
#![deny(unsafe_code)]

pub mod colours;
pub mod coverage;
pub mod cutter;
pub mod eac;
pub mod export;
pub mod far_points;
mod fetch;
pub mod film;
pub mod fisheye;
pub mod frames;
pub mod geometry;
pub mod jpeg;
pub mod json;
pub mod layout;
pub mod load;
pub mod metadata;
pub mod place;
pub mod plane;
pub mod preview;
pub mod projection;
pub mod remap;
pub mod rig;
pub mod split;
pub mod table;
pub mod video;
