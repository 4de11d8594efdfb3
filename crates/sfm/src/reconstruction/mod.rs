//! Structure from motion of panoramas and of ordinary pictures. Every feature is a direction on the sphere (a bearing
//! vector) and every frame has one pose. The cameras of panoramas are known; those of pictures are estimated.
//!
//! ```text
//! features   views of a panorama ─▶ keypoints with descriptors, bearings in the axes of the panorama
//! matches    mutual nearest neighbours with the ratio test
//! pairs      selects the pairs of frames to match
//! essential  five bearings ─▶ essential matrices; two_view: RANSAC, refinement, pure rotation
//! rotations  relative rotations ─▶ absolute rotations (robust rotation averaging)
//! positions  baseline lengths from shared features, then positions
//! tracks     matches ─▶ tracks; landmarks by triangulation
//! cholesky   large systems in tiles, on all threads
//! adjust     bundle adjustment: angular errors, Schur complement, Levenberg-Marquardt
//! picture    the camera of ordinary pictures; focal: its focal length from pairs of pictures
//! resection  poses of pictures that the averaging left out, from their landmarks
//! reconstruct  the whole pipeline, in rounds
//! ```
//!
//! Results are bit-identical for any number of threads and any SIMD level.

mod adjust;
mod cholesky;
mod essential;
pub mod features;
mod focal;
mod graph_fit;
mod matches;
mod pairs;
mod picture;
mod pictures;
mod positions;
mod reconstruct;
mod resection;
mod rotations;
mod solve;
mod tracks;
mod two_view;
mod view;

pub(crate) use pairs::near_pairs;
pub use picture::{PictureCamera, Pictures};
pub use pictures::reconstruct_pictures;
pub use reconstruct::{
    Landmark, MatchStore, Progress, Reconstruction, ReconstructionOptions, Stage, Stopped, reconstruct,
};
pub use view::PanoView;
