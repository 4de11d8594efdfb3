//! 360-degree footage, cut into perspective views with exact geometry at the speed of the codecs, and ordinary footage.
//!
//! ```text
//! frames, video  image files and videos of any kind    sphere_video  videos of panoramas
//! geometry  directions of a view's pixels              layout    sets of views
//! projection, cube, eac, fisheye  from a direction to the source image
//! calibrate   a lens file from frames of two fisheye lenses
//! lens_views, lens_pose  views inside one lens, and the relative pose of two lenses
//! convert   whole-sphere images: panorama, cross, strip, faces
//! motion, selection  camera motion of a video, and selection of its frames
//! look, lut, grade, equalise  colour changes, and their lookup table
//! poses     poses written by other programs           export    poses and points for other programs
//! gps_track  GPS tracks
//! landmarks  landmarks and their observations
//! sphere_mask  masks on the sphere
//! table     coordinates, 16 pixels a segment          remap     sampling in integers
#![deny(unsafe_code)]

pub mod aligned;
pub mod calibrate;
pub mod canvas_position;
pub mod colour_conversion;
pub mod contact_sheet;
pub mod convert;
pub mod coverage;
pub mod cube;
pub mod cutter;
pub mod decoded;
pub mod eac;
pub mod equalise;
pub mod export;
pub mod far_points;
mod fetch;
pub mod fisheye;
pub mod frame_gains;
pub mod frames;
pub mod geometry;
pub mod gps_track;
pub mod grade;
pub mod json;
pub mod landmarks;
pub mod layout;
pub mod lens_pose;
pub mod lens_views;
pub mod load;
pub mod look;
pub mod lut;
pub mod mask_names;
pub mod metadata;
pub mod motion;
pub mod poses;
mod problem;
pub mod projection;
pub mod recognise;
pub mod remap;
pub mod rig;
pub mod selection;
pub mod sphere_mask;
pub mod sphere_video;
pub mod split;
pub mod table;
pub mod unproject;
pub mod video;

pub use gausset_jpeg::plane;
