//! Depth maps by plane sweep, and dense points from them: classical multi-view stereo, deterministic and bounded.
//!
//! ```text
//! pictures ─▶ grey, two sizes ─▶ sweep at half size ─▶ surface ─▶ refine at full size ─▶ confirm ─▶ depth maps
//! points, poses ─▶ neighbours, depth range ─┘                                                  └─▶ dense points
//! ```
//! Constants and figures: `docs/stereo.md`. Places in pictures follow [`Camera`]; depths are along the optical axis, in
//! scene units. Same inputs, same bytes on any number of threads and at any vector level.
#![forbid(unsafe_code)]

mod confirm;
mod driver;
mod memory;
mod neighbours;
mod picture;
pub mod points;
#[cfg(test)]
mod reference;
mod surface;
mod sweep;
mod verdict;
mod warp;

use gausset_core::{Camera, Pose};

pub use confirm::Support;
pub use driver::depth_maps;
pub use memory::{bytes as memory_needed, largest_side};
pub use neighbours::Plan;
pub use points::{DensePoint, PointOptions, dense_points};
pub use verdict::Verdict;

/// A view, at the size of the picture that comes with it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct View {
    /// Intrinsics of the picture.
    pub camera: Camera,
    /// `camera_from_world`.
    pub pose: Pose,
}

/// A cube in the world: where to look when there are no points.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cube {
    /// Centre.
    pub centre: [f64; 3],
    /// Half of its side, in scene units.
    pub half_side: f64,
}

/// What is known before the sweep.
#[derive(Clone, Copy, Debug)]
pub struct Scene<'a> {
    /// All views.
    pub views: &'a [View],
    /// World positions of the sparse points; may be empty.
    pub points: &'a [[f64; 3]],
    /// For each view the points that it sees; may be empty, or shorter than the views: then points are projected.
    pub visible: &'a [Vec<u32>],
    /// Where to look when there are no points: the cube of the random start.
    pub cube: Option<Cube>,
}

/// How depth maps are made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// Longest side of a depth map in px; pictures are reduced by whole numbers until they fit.
    pub longest_side: u32,
    /// Most planes of the sweep at half size; fewer where one step is less than a pixel.
    pub planes: u32,
    /// Most neighbours that a view is compared with.
    pub neighbours: u32,
    /// Bytes that the maps and what they are made of may take; depth maps become smaller to keep to it.
    pub memory_bytes: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self { longest_side: 400, planes: 64, neighbours: 4, memory_bytes: 1 << 30 }
    }
}

/// What stereo found in one view.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DepthMap {
    /// Intrinsics at the size of the map; `None` = no map of this view.
    pub camera: Option<Camera>,
    /// Depth along the optical axis in scene units, rows first; 0 = unknown, else confirmed by other views.
    pub depth: Vec<f32>,
    /// By how many, per pixel.
    pub support: Vec<Support>,
    /// The picture at the size of the map, `height × width × 3`.
    pub rgb: Vec<u8>,
    /// Views it was compared with, and the depths that were looked at.
    pub plan: Plan,
}

/// The depth maps of all views.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Depths {
    /// One for each view.
    pub maps: Vec<DepthMap>,
    /// What they are good for.
    pub verdict: Verdict,
    /// Longest side that the memory allowed, in px.
    pub longest_side: u32,
}
