//! Structure from motion of panoramas: every feature is a direction on the sphere (a bearing vector), every frame one
//! pose, and no camera model takes part after the features.
//!
//! ```text
//! features   views of a panorama ─▶ keypoints with descriptors, bearings in the axes of the panorama
//! matches    mutual nearest neighbours with the ratio test
//! pairs      which frames are compared
//! essential  five bearings ─▶ essential matrices; two_view: RANSAC, refinement, rotation alone
//! rotations  relative rotations ─▶ rotations, robustly
//! positions  lengths of the baselines by shared features, then positions
//! tracks     matches ─▶ features of one point, points by intersection of rays
//! adjust     poses and points together: angular errors, Schur complement, Levenberg-Marquardt
//! reconstruct  all of it, in rounds
//! ```
//!
//! The same bytes for any number of threads and any vector level.
#![forbid(unsafe_code)]

mod adjust;
mod essential;
pub mod features;
mod laplacian;
mod matches;
mod pairs;
mod positions;
mod reconstruct;
mod rotations;
mod solve;
mod tracks;
mod two_view;
mod view;

pub use reconstruct::{Options, Point, Progress, Reconstruction, Step, Stopped, reconstruct};
pub use view::View;
