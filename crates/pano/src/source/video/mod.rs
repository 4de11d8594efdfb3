//! Reads video through the installed ffmpeg: frames arrive as planes over a pipe, without temporary image files.
//!
//! ```text
//! probe    ffprobe: streams, sizes, duration, colours, checked
//! open     selection of frames: Video
//! reader   ffmpeg -vf fps -f rawvideo ─▶ W·H·1.5 bytes a frame ─▶ planes; sharpness: selects one of several
//! reduced  all frames at reduced size with their times, for frame selection
//! extract  frames as JPEG files
//! tone_mapping  HDR video to SDR
//! ```
//! Video usually has limited range and BT.709, JPEG has full range and BT.601. The common kinds are converted while the
//! needed rows of a frame are copied out of the pipe (`colour_conversion`); for others ffmpeg converts, which is slower.
//! This module is independent of panoramas; see [`crate::source::sphere_video`].

mod error;
mod extract;
mod open;
mod probe;
mod reader;
mod reduced;
mod sharpness;
mod tone_mapping;

pub use error::{VideoError, VideoProblem};
pub use extract::extract;
pub(crate) use open::{FrameArrangement, check_size, is_dual_fisheye_file};
pub use open::{FrameSelection, Video};
pub use probe::is_video_name;
pub use reader::FrameReader;
pub use reduced::{FrameTimes, ReducedReader};
