//! The shared types of Gausset.
//!
//! The types that several crates need: [`Splats`], [`Camera`], [`Pose`], image buffers, the spherical-harmonics basis,
//! SE(3), the renderer's constants, the [`engine::Engine`] interface and the names of the stages. No files, no threads,
//! no printing.
#![forbid(unsafe_code)]

pub mod camera;
pub mod constants;
pub mod engine;
pub mod image;
pub mod linalg;
pub mod matrix;
pub mod pose;
pub mod region;
pub mod se3;
pub mod sh;
pub mod splats;
pub mod splats_transform;
pub mod stage;
pub mod statistics;

pub use camera::{Camera, Projection};
pub use image::{RgbImage8, TargetImage};
pub use pose::Pose;
pub use region::Region;
pub use splats::Splats;
pub use stage::Stage;
