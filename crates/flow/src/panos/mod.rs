//! 360-degree footage: views, poses, and from panoramas to a splat.

pub mod align;
pub mod model;
pub mod run;
pub mod source;
pub mod split;

pub use align::PanoAlignment;
pub use run::{PanoOptions, PanoRun};
pub use source::FrameChoice;
pub use split::{SplitOptions, ViewChoice};
