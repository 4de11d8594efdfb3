//! Camera motion in a video: sharpness, exposure, rotation and parallax of its frames, from small grey images in order.
//!
//! ```text
//! picture   grey images and image pyramids                     look    gradients, exposure, change between frames
//! optics    pixels and directions: a sphere, or a pinhole      track   corner tracking (Lucas and Kanade 1981)
//! turn      robust rotation and direction of motion            scout   the whole measurement, frame by frame
//! ```
//! A frame is compared with a *reference*, an earlier frame whose corners it still shows. A new reference is taken when
//! the parallax exceeds [`scout::REACH`], so noise of a camera at rest does not add up over frames. All work is done in
//! order on one thread with sums in a fixed order: the same video gives the same numbers.

mod look;
pub mod optics;
mod picture;
pub mod scout;
mod track;
mod turn;

pub use optics::Optics;
pub use picture::Grey;
pub use scout::{Scout, Sight};
pub(crate) use track::strengths;
pub(crate) use turn::solve;
