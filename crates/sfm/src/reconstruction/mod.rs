//! Structure from motion of panoramas. Every feature is a direction on the sphere (a bearing vector) and every frame
//! has one pose; camera models are needed only to extract the features.
//!
//! ```text
//! features   views of a panorama ─▶ keypoints with descriptors, bearings in the axes of the panorama
//! matches    mutual nearest neighbours with the ratio test
//! pairs      selects the pairs of frames to match
//! essential  five bearings ─▶ essential matrices; two_view: RANSAC, refinement, pure rotation
//! rotations  relative rotations ─▶ absolute rotations (robust rotation averaging)
//! positions  baseline lengths from shared features, then positions
//! tracks     matches ─▶ tracks; landmarks by triangulation
//! adjust     bundle adjustment: angular errors, Schur complement, Levenberg-Marquardt
//! reconstruct  the whole pipeline, in rounds
//! ```
//!
//! Results are bit-identical for any number of threads and any SIMD level.

mod adjust;
mod essential;
pub mod features;
mod graph_fit;
mod matches;
mod pairs;
mod positions;
mod reconstruct;
mod rotations;
mod solve;
mod tracks;
mod two_view;
mod view;

pub use reconstruct::{
    Landmark, Progress, Reconstruction, ReconstructionOptions, Stage, Stopped, reconstruct,
};
pub use view::PanoView;
