//! 360-degree footage, cut into perspective views with exact geometry at the speed of the codecs, and ordinary footage.
//!
//! A folder imports itself and those above it in this table only; `xtask lint` refuses the rest.
//!
//! | folder | contents |
//! |---|---|
//! | `sphere` | directions, projections of sources, views and their layouts, coverage, vocabulary of poses |
//! | `source` | frames and videos, decoding, metadata, GPS tracks, calibration of two fisheye lenses |
//! | `choose` | camera motion of a video, and selection of its frames |
//! | `cut` | coordinate tables, sampling in integers, colours, the splitter, conversion of whole spheres |
//! | `mask` | masks on the sphere |
//! | `poses` | pose files of other programs, exports, landmarks, relative pose of two lenses |
#![deny(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod choose;
mod cut;
mod mask;
pub mod poses;
mod source;
mod sphere;

pub use choose::{motion, selection};
pub use cut::{
    contact_sheet, convert, cutter, equalise, frame_gains, grade, look, lut, split, vignetting_fit,
};
pub use gausset_jpeg::plane;
pub use mask::{mask_names, sphere_mask};
pub use poses::{export, far_points, landmarks, lens_pose};
pub use source::{calibrate, frames, full_sphere, gps_track, load, metadata, recognise, sphere_video, video};
pub use sphere::{coverage, cube, eac, fisheye, geometry, layout, lens_views, projection, rig, unproject};
