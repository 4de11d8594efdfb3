//! The footage: images, videos, their metadata, lens files from calibration, and GPS tracks.

pub mod calibrate;
pub mod colour_conversion;
pub mod decoded;
pub mod frames;
pub mod gps_track;
pub mod json;
pub mod load;
pub mod metadata;
pub(crate) mod problem;
pub mod recognise;
pub mod sphere_video;
pub mod video;
