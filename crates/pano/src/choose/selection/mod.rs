//! Selection of the frames of a video: by the distance that the camera moved, or by time.
//!
//! ```text
//! measure  first pass: small grey images of all frames through motion::Scout       choose  selection, with reasons
//! moving_time  time in motion, for the fewest frames that a video gives
//! distance  distance travelled, in steps: by parallax, or by the metres of a GPS track
//! record   frames.jsonl: the measurements, one line per frame                      contact_sheet  contact sheet
//! small_frames  frames as small images; cubes, two streams and fisheye circles become panoramas
//! ```

mod choose;
mod contact_sheet;
mod distance;
mod measure;
mod moving_time;
mod record;
mod small_frames;

use serde::{Deserialize, Serialize};

pub use choose::select_frames;
pub use contact_sheet::{THUMBNAIL_WIDTH, contact_sheet, max_thumbnails};
pub use measure::measure_frames;
pub use record::{FRAMES_FILE, FrameRecord, MeasurementKey, Selection, SelectionError, SelectionHeader};
pub use small_frames::{FrameContent, SmallFrames, small_size};

/// Criterion of the selection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SelectBy {
    /// At a frame rate.
    Time,
    /// At equal parallax between consecutive frames.
    #[default]
    Space,
    /// All frames.
    All,
}

impl SelectBy {
    /// All criteria.
    pub const ALL: [Self; 3] = [Self::Time, Self::Space, Self::All];

    /// Name in options and files.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Time => "time",
            Self::Space => "space",
            Self::All => "all",
        }
    }
}

/// Options of the selection.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SelectionCriteria {
    /// Criterion of the selection.
    pub select: SelectBy,
    /// Frames per second, for [`SelectBy::Time`].
    pub fps: f64,
    /// Parallax between consecutive frames, degrees, for [`SelectBy::Space`].
    pub step: f64,
    /// Maximum number of frames.
    pub max_frames: Option<usize>,
}

/// Default parallax between consecutive frames, degrees.
pub const DEFAULT_STEP: f64 = 4.0;
/// Default frames per second.
pub const DEFAULT_FPS: f64 = 2.0;

impl Default for SelectionCriteria {
    fn default() -> Self {
        Self { select: SelectBy::Space, fps: DEFAULT_FPS, step: DEFAULT_STEP, max_frames: None }
    }
}

/// Why a frame is kept or dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FrameReason {
    /// Kept: the first sharp frame.
    First,
    /// Kept: one step from the previous kept frame.
    Step,
    /// Kept: the camera moved for so long that another frame is due.
    Due,
    /// Kept: one step from the previous kept frame, by the GPS track.
    Track,
    /// Kept: the camera moved more than a step from one frame to the next.
    Jump,
    /// Kept at its time, or dropped because no frame was due.
    Time,
    /// Kept: all frames are.
    All,
    /// Dropped: too near to a kept frame.
    Near,
    /// Dropped: a sharper frame was in reach.
    Blurred,
    /// Dropped: duplicates the previous frame.
    Duplicate,
    /// Dropped: the camera did not move.
    Standing,
    /// Dropped: the camera only rotated.
    Turning,
    /// Dropped: the maximum number of frames was reached.
    MaxFrames,
}

impl FrameReason {
    /// Name in `frames.jsonl`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::First => "first",
            Self::Step => "step",
            Self::Due => "due",
            Self::Track => "track",
            Self::Jump => "jump",
            Self::Time => "time",
            Self::All => "all",
            Self::Near => "near",
            Self::Blurred => "blurred",
            Self::Duplicate => "duplicate",
            Self::Standing => "standing",
            Self::Turning => "turning",
            Self::MaxFrames => "max-frames",
        }
    }
}
