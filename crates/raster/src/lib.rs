//! The splat renderer and its gradients on the CPU.
//!
//! One file per stage, in the order of a training step: [`project`] → [`sort`] → [`tile`] → [`blend`] → (loss) →
//! [`blend_vjp`] → [`project_vjp`] fused with [`adam`] in [`update`]. [`pipeline`] runs them; [`probe`] exposes their
//! intermediate results. `gausset-reference` defines every formula.
//!
//! Kernels are written once for 16 lanes; results do not depend on the number of threads or on the SIMD level.
#![forbid(unsafe_code)]

pub mod adam;
pub mod blend;
pub mod blend_vjp;
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
mod seam;
mod shape;
pub mod sky;
pub mod sort;
mod spherical_harmonics;
pub mod tile;
pub mod update;
pub mod view;
