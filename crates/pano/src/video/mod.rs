//! Video through the system's ffmpeg: frames as planes over a pipe, never through a picture file.
//!
//! ```text
//! probe    ffprobe: streams, sizes, duration, colours, checked
//! open     which frames: Video
//! reader   ffmpeg -vf fps -f rawvideo ─▶ W·H·1.5 bytes a frame ─▶ planes; sharpness: which of several
//! small    all frames as small pictures, and their times: by what they are chosen
//! extract  frames as JPEG pictures
//! ```
//! Video is usually of limited range and BT.709, JPEG of full range and BT.601. The usual kinds are converted when a
//! frame's needed rows are copied out of the pipe ([`crate::colours`]); for the others ffmpeg does it, which takes
//! longer. Nothing here knows panoramas: those are [`crate::film`].

mod error;
mod extract;
mod open;
mod probe;
mod reader;
mod sharpness;
mod small;

pub use error::{VideoError, VideoProblem};
pub use extract::extract;
pub(crate) use open::{Arrangement, check_size, is_of_two_circles};
pub use open::{Choice, Video};
pub use reader::Reader;
pub use small::{SmallReader, Times};
