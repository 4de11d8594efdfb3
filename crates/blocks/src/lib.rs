//! Divides a scene into blocks for sets that one run cannot hold, and merges what was trained.
//!
//! ```text
//! coarse splats ─▶ cells of the ground ─▶ images of each block ─▶ steps and splats of each block
//!                        └──────────── a block's splats inside its cell ─▶ merged set
//! ```
//! Cells are boxes over the ground, from a k-d tree over the splats of a coarse run on all images. They tile the plane, so
//! each splat has exactly one owner. An image belongs to a block if enough of what it shows lies in the cell; an image
//! can belong to several. What a block trains outside its cell serves it as surroundings and is not kept.
//!
//! The rules are those of VastGaussian (Lin et al. 2024) and BlockGaussian (Wu et al. 2025): cells with equal work, images
//! by what they show, training beyond the cell, cropping to it.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod budget;
mod cells;
mod division;
mod images;

pub use budget::{BlockSize, SetSize, block_sizes};
pub use cells::{Cell, Ground, divide};
pub use division::{BlockPlan, Division, DivisionError, DivisionSource};
pub use images::{BlockImages, MAX_IMAGES, choose_images, should_be_finer};
