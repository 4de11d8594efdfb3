//! The footage: images, videos, their metadata, lens files from calibration, and GPS tracks.

pub mod calibrate;
pub(crate) mod colour_conversion;
pub(crate) mod decoded;
pub mod frames;
pub mod full_sphere;
pub mod gps_track;
pub(crate) mod json;
pub(crate) mod lens_names;
pub mod load;
pub mod metadata;
pub(crate) mod problem;
pub mod recognise;
pub mod sphere_video;
pub(crate) mod two_circles;
pub mod video;
pub(crate) mod vignetting;
