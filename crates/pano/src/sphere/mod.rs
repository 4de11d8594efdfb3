//! Directions, projections and views of the sphere, and the vocabulary of poses.

pub(crate) mod aligned;
pub(crate) mod canvas_position;
pub mod coverage;
pub mod cube;
pub mod eac;
pub mod fisheye;
pub mod geometry;
pub mod layout;
pub mod lens_views;
pub mod projection;
pub mod rig;
pub mod unproject;
