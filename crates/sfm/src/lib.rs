//! Structure from motion by the real COLMAP: find it, run it, watch it, check what it made. For panoramas also without it.
//!
//! ```text
//! tool     pycolmap in a Python, or a `colmap` executable >= 3.12      (found, version checked)
//! align    features ─▶ rig ─▶ matching ─▶ mapping, in a process of its own; a ladder of recipes; the best model
//! matches  keypoints and raw matches of somebody else
//! own      the aligner of panoramas that is built in (`gausset-bearing`): views in, the same model out
//! model    the model as checked poses per frame; metric scale from GPS; written with rigs and frames
//! compare  poses against others of the same pictures: similarity fit, errors of centres and rotations, drift
//! speed    how far a receiver has come, by its speed
//! track    the way of a receiver beside that of the camera: offset of the clocks, similarity
//! reprojection  a model's points against its pictures, in px and degrees
//! ```
#![forbid(unsafe_code)]

pub mod align;
mod attempt;
pub mod compare;
pub mod gps;
mod masks;
pub mod matches;
pub mod model;
mod own;
pub mod reprojection;
pub mod speed;
pub mod tool;
pub mod track;

pub use align::{AlignError, Aligned, Job, Progress, align};
pub use attempt::Mapper;
pub use gausset_bearing::View;
pub use matches::Given;
pub use tool::{Tool, ToolError};
