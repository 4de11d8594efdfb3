//! Which frames of a film are taken: by the way the camera has gone, or by time.
//!
//! ```text
//! measure  the first pass over a film: small grey pictures through motion::Scout      choose  which frames, and why
//! along    how far the film has come: parallax, or the metres of a track
//! record   frames.jsonl: all of it, a line a frame                                    sheet   the kept ones as a picture
//! small    frames as small pictures, those of cubes, streams and circles as panoramas
//! ```

mod along;
mod choose;
mod measure;
mod record;
mod sheet;
mod small;

use serde::{Deserialize, Serialize};

pub use choose::choose;
pub use measure::measure;
pub use record::{FILE, Header, Line, Measured, Selection, SelectionError};
pub use sheet::{THUMBNAIL, most_shown, sheet};
pub use small::{Shows, SmallFrames, small_size};

/// By what frames are chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Select {
    /// So many a second.
    Time,
    /// Equal parallax between neighbours.
    #[default]
    Space,
    /// All of them.
    All,
}

impl Select {
    /// All ways.
    pub const ALL: [Self; 3] = [Self::Time, Self::Space, Self::All];

    /// Its name in options and files.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Time => "time",
            Self::Space => "space",
            Self::All => "all",
        }
    }
}

/// What is asked of a choice.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Wanted {
    /// By what frames are chosen.
    pub select: Select,
    /// Frames a second, by time.
    pub fps: f64,
    /// Degrees of parallax between neighbours, by space.
    pub step: f64,
    /// At most so many frames.
    pub max_frames: Option<usize>,
}

/// Degrees of parallax between neighbours, unless something else is said.
pub const STEP: f64 = 4.0;
/// Frames a second by time, unless something else is said.
pub const FPS: f64 = 2.0;

impl Default for Wanted {
    fn default() -> Self {
        Self { select: Select::Space, fps: FPS, step: STEP, max_frames: None }
    }
}

/// Why a frame is kept or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reason {
    /// Kept: the first one that is sharp.
    First,
    /// Kept: a step from the last one.
    Step,
    /// Kept: a step from the last one, by the track.
    Track,
    /// Kept: the film went further than a step from one frame to the next.
    Jump,
    /// Kept by its time; or dropped, because none was wanted then.
    Time,
    /// Kept: all are.
    All,
    /// Dropped: too near to one that is kept.
    Near,
    /// Dropped: a sharper one was in reach.
    Blurred,
    /// Dropped: the frame before it again.
    Duplicate,
    /// Dropped: the camera stood.
    Standing,
    /// Dropped: the camera turned on the spot.
    Turning,
    /// Dropped: more were wanted than were allowed.
    MaxFrames,
}

impl Reason {
    /// Its name in `frames.jsonl`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::First => "first",
            Self::Step => "step",
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
