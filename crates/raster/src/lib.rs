//! The splat renderer and its gradients on the CPU.
//!
//! One file per stage, in the order of a training step: [`project`] → [`sort`] → [`tile`] → [`blend`] → (loss) →
//! [`blend_vjp`] → [`project_vjp`] fused with [`adam`] in [`update`]. [`pipeline`] runs them; [`probe`] exposes their
//! intermediate results. `gausset-reference` defines every formula.
//!
//! Kernels are written once for 16 lanes; results do not depend on the number of threads or on the SIMD level.
//!
//! ```
//! use gausset_compute::{Exec, Pool};
//! use gausset_core::engine::{Outputs, RenderOptions};
//! use gausset_core::{Camera, Pose, Splats};
//! use gausset_raster::{layout::Blocks, pipeline::Pipeline, view::KernelView};
//!
//! let mut splats = Splats::with_capacity(0, 1);
//! splats.push([0.0, 0.0, 2.0], [-1.0; 3], [1.0, 0.0, 0.0, 0.0], 4.0, &[1.0, -1.0, -1.0]);
//! let view = KernelView::new(&Camera::new(32, 32, 40.0, 40.0, 16.0, 16.0)?, &Pose::IDENTITY);
//! let options = RenderOptions { sh_degree: 0, ..RenderOptions::default() };
//! let (pool, mut pipeline) = (Pool::new(1), Pipeline::default());
//! pipeline.forward(Exec::best(&pool), &Blocks::from_splats(&splats), &view, &options, Outputs::Color)?;
//! assert!(pipeline.rendering(&view).alpha[16 * 32 + 16] > 0.9);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

pub mod adam;
pub mod blend;
pub mod blend_vjp;
mod form;
pub mod free_space;
mod geometry;
pub mod in_front;
pub mod layout;
pub mod pipeline;
mod pixel;
pub mod probe;
pub mod project;
pub mod project_vjp;
mod projected_block;
pub mod screen_gradients;
mod seam;
pub mod shade;
mod shape;
pub mod sky;
pub mod sort;
mod spherical_harmonics;
pub mod tile;
pub mod update;
pub mod view;
pub mod view_state;
