//! Depth maps by plane sweep, and dense points from them: classical multi-view stereo, deterministic and bounded.
//!
//! ```text
//! images ─▶ grey, two sizes ─▶ sweep at half size ─▶ surface ─▶ refine at full size ─▶ confirm ─▶ depth maps
//! points, poses ─▶ neighbours, depth range ─┘                                                  ├─▶ dense points
//!                                                                                              └─▶ background points
//! ```
//! Constants: `docs/internals/stereo.md`; measurements: `research/stereo-notes.md`. Pixel coordinates follow
//! [`Camera`]; depths are along the optical axis, in scene units. Results are bit-identical for any number of threads
//! and any SIMD level.
//!
//! ```
//! use gausset_core::{Camera, Pose};
//! use gausset_stereo::{StereoView, largest_side, memory_needed};
//!
//! let camera = Camera::new(640, 480, 500.0, 500.0, 320.0, 240.0)?;
//! let views = [StereoView { camera, pose: Pose::IDENTITY }; 10];
//! // Depth maps become smaller until they fit into the memory.
//! let needed = memory_needed(&views, 400);
//! assert_eq!(largest_side(&views, 400, needed), Some(400));
//! assert!(largest_side(&views, 400, needed - 1).is_some_and(|side| side < 400));
//! # Ok::<(), gausset_core::camera::CameraError>(())
//! ```
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

pub mod background;
mod consistency;
mod grey;
mod memory;
mod neighbours;
mod pipeline;
pub mod points;
#[cfg(test)]
mod reference;
mod reliability;
mod surface;
mod sweep;
mod warp;

use gausset_core::{Camera, Pose};

pub use background::{BackgroundOptions, BackgroundPoint, background_points};
pub use consistency::Support;
pub use memory::{largest_side, required_bytes as memory_needed};
pub use neighbours::NeighbourPlan;
pub use pipeline::depth_maps;
pub use points::{DensePoint, PointOptions, dense_points};
pub use reliability::Reliability;

/// A view, at the size of its image.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StereoView {
    /// Intrinsics of the image.
    pub camera: Camera,
    /// Pose of the view, `camera_from_world`.
    pub pose: Pose,
}

/// A cube in world coordinates: the region to search if there are no points.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SearchCube {
    /// Centre in world space, scene units.
    pub centre: [f64; 3],
    /// Half of its side, in scene units.
    pub half_side: f64,
}

/// Input of stereo.
#[derive(Clone, Copy, Debug)]
pub struct StereoScene<'a> {
    /// All views; the maps are in the same order.
    pub views: &'a [StereoView],
    /// World positions of the sparse points; may be empty.
    pub points: &'a [[f64; 3]],
    /// Indices of the points that each view sees; may be empty, or shorter than the views: points are then projected.
    pub visible_points: &'a [Vec<u32>],
    /// Region to search if there are no points: the cube of the random start.
    pub cube: Option<SearchCube>,
}

/// Options of stereo.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StereoOptions {
    /// Longest side of a depth map in px; images are downsampled by integer factors until they fit.
    pub longest_side: u32,
    /// Maximum number of planes of the sweep at half size; fewer if one step is less than a pixel.
    pub planes: u32,
    /// Maximum number of neighbours per view.
    pub neighbours: u32,
    /// Maximum bytes of the maps and all intermediate data; depth maps become smaller to stay within it.
    pub memory_bytes: u64,
}

impl Default for StereoOptions {
    fn default() -> Self {
        Self { longest_side: 400, planes: 128, neighbours: 4, memory_bytes: 1 << 30 }
    }
}

/// Depth map of one view.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DepthMap {
    /// Intrinsics at the size of the map; `None` = this view has no map.
    pub camera: Option<Camera>,
    /// Depth along the optical axis in scene units, row-major; 0 = unknown, otherwise confirmed by other views.
    pub depth: Vec<f32>,
    /// Confirming neighbours per pixel.
    pub support: Vec<Support>,
    /// The image at the size of the map, `height × width × 3`.
    pub rgb: Vec<u8>,
    /// `height × width`, 0 = masked; `None` = no pixel is.
    pub mask: Option<Vec<u8>>,
    /// Neighbours of the view, and the searched depth range.
    pub plan: NeighbourPlan,
}

/// The depth maps of all views.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Depths {
    /// One map per view.
    pub maps: Vec<DepthMap>,
    /// How reliable the maps are.
    pub verdict: Reliability,
    /// Longest side of the maps that memory allowed, in px.
    pub longest_side: u32,
}
