//! 360-degree footage: cut into perspective views at the speed of the codecs, with exact geometry; and ordinary footage.
//!
//! ```text
//! frames, video  pictures and videos of any kind   film      videos of panoramas
//! geometry  what a pixel of a view looks at        layout    which views
//! projection, cube, eac, fisheye  where a direction is in the source's pictures
//! calibrate a lens file from frames of two fisheyes
//! lens_views, lens_pose  views inside one lens, and how two lenses stand to each other
//! convert   whole pictures of the sphere: panorama, cross, strip, faces
//! motion, selection  how a film moves, and which of its frames are taken
//! look, lut, grade, equalise  what is done to colours, and its table
//! poses     poses as other programs write them     export    poses and points for them
//! track     where a receiver was, moment by moment
//! observed  points and what views saw of them
//! sphere_mask  what of the sphere is removed
//! table     coordinates, 16 pixels a segment       remap     sampling in whole numbers
//! ```
#![deny(unsafe_code)]

pub mod calibrate;
pub mod colours;
pub mod convert;
pub mod coverage;
pub mod cube;
pub mod cutter;
pub mod eac;
pub mod equalise;
pub mod export;
pub mod far_points;
mod fetch;
pub mod film;
pub mod fisheye;
pub mod frame_gains;
pub mod frames;
pub mod geometry;
pub mod grade;
pub mod jpeg;
pub mod json;
pub mod layout;
pub mod lens_pose;
pub mod lens_views;
pub mod load;
pub mod look;
pub mod lut;
pub mod mask_names;
pub mod metadata;
pub mod motion;
pub mod observed;
pub mod place;
pub mod plane;
pub mod poses;
pub mod preview;
pub mod projection;
pub mod remap;
pub mod rig;
pub mod selection;
pub mod sphere_mask;
pub mod split;
pub mod table;
pub mod track;
pub mod unproject;
pub mod video;
