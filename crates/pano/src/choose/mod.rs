//! Camera motion of a video, and selection of its frames.

pub mod motion;
pub mod selection;
