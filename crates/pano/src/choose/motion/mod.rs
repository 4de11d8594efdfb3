//! Camera motion in a video: sharpness, exposure, rotation and parallax of its frames, from small grey images in order.
//!
//! ```text
//! image     grey images and image pyramids                     statistics  gradients, exposure, change between frames
//! projection  pixels and directions: a sphere, or a pinhole      corner  corner tracking (Lucas and Kanade 1981)
//! rotation  robust rotation and direction of motion            estimator  the whole measurement, frame by frame
//! ```
//! A frame is compared with a *reference*, an earlier frame whose corners it still shows. A new reference is taken when
//! the parallax exceeds [`estimator::REFERENCE_PARALLAX`], so noise of a camera at rest does not add up over frames. All work is done in
//! order on one thread with sums in a fixed order: the same video gives the same numbers.

mod corner;
pub mod estimator;
mod image;
pub mod projection;
mod rotation;
mod statistics;

pub(crate) use corner::corner_strengths;
pub use estimator::{FrameMotion, MotionEstimator};
pub use image::GreyImage;
pub use projection::SmallProjection;
pub(crate) use rotation::solve_linear;
