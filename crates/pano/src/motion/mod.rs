//! How a film moves: sharpness, light, turns and parallax of its frames, from small grey pictures, one after the other.
//!
//! ```text
//! picture   levels, each half as large                         look    gradients, light, what changed
//! optics    pixels and directions: a sphere, or a pinhole      track   corners, found again (Lucas and Kanade 1981)
//! turn      rotation of directions, whatever moves besides     scout   all of it, frame by frame
//! ```
//! A frame is compared with a *reference*, an earlier frame whose corners it still shows; the next reference is taken
//! when it has moved away by [`scout::REACH`]. So what standing still adds does not grow with the number of frames.
//! Everything is done in order on one thread, and sums have a fixed order: the same film gives the same numbers.

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
