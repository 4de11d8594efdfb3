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

mod choose;
mod cut;
mod mask;
pub mod poses;
mod source;
mod sphere;

pub use gausset_jpeg::plane;

pub use choose::{motion, selection};
pub use cut::{contact_sheet, convert, cutter, equalise, frame_gains, grade, look, lut, remap, split, table};
pub use mask::{mask_names, sphere_mask};
pub use poses::{export, far_points, landmarks, lens_pose};
pub use source::{
    calibrate, colour_conversion, decoded, frames, gps_track, json, load, metadata, recognise, sphere_video,
    video,
};
pub use sphere::{
    aligned, canvas_position, coverage, cube, eac, fisheye, geometry, layout, lens_views, projection, rig,
    unproject,
};

use cut::fetch;
use source::problem;
