//! Structure from motion by the real COLMAP: find it, run it, watch it, check what it made.
//!
//! ```text
//! tool   pycolmap in a Python, or a `colmap` executable >= 3.12      (found, version checked)
//! align  features ─▶ rig ─▶ matching ─▶ mapping, in a process of its own; a ladder of recipes; the best model
//! model  the model as checked poses per frame; metric scale from GPS; written with rigs and frames
//! ```
#![forbid(unsafe_code)]

pub mod align;
pub mod gps;
pub mod model;
pub mod tool;

pub use align::{AlignError, Aligned, Job, Progress, align};
pub use tool::{Tool, ToolError};
