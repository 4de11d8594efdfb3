//! The shared types of Gausset.
//!
//! The types that several crates need: [`Splats`], [`Camera`], [`Pose`], image buffers, the spherical-harmonics basis,
//! SE(3), the renderer's constants, the [`engine::Engine`] interface and the names of the stages. No files, no threads,
//! no printing.
//!
//! ```
//! use gausset_core::{Camera, Pose, Splats};
//!
//! let mut splats = Splats::with_capacity(0, 1);
//! splats.push([0.5, 0.0, 4.0], [-3.0; 3], [1.0, 0.0, 0.0, 0.0], 0.0, &[0.0; 3]);
//! let camera = Camera::new(640, 480, 500.0, 500.0, 320.0, 240.0)?;
//! // The world origin is one unit ahead of this camera.
//! let camera_from_world = Pose { translation: [0.0, 0.0, 1.0], ..Pose::IDENTITY };
//! let mean_in_camera = camera_from_world.apply(splats.means[0].map(f64::from));
//! assert_eq!(camera.project(mean_in_camera), [370.0, 240.0]);
//! # Ok::<(), gausset_core::camera::CameraError>(())
//! ```
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

pub mod camera;
pub mod constants;
pub mod engine;
pub mod image;
pub mod linalg;
pub mod matrix;
pub mod nearest;
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
