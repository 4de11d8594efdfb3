//! Why a video cannot be read.

use std::path::{Path, PathBuf};

use gausset_io::atomic::WriteError;
use gausset_process::ProcessError;

/// Why frames of a video cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum VideoError {
    /// The video cannot be read.
    #[error("{}: video: {problem}", path.display())]
    Video {
        /// The video file.
        path: PathBuf,
        /// The problem.
        problem: VideoProblem,
    },
    /// The image of a frame could not be written.
    #[error(transparent)]
    Write(#[from] WriteError),
}

impl VideoError {
    pub(super) fn new(path: &Path, problem: impl Into<VideoProblem>) -> Self {
        Self::Video { path: path.to_owned(), problem: problem.into() }
    }
}

/// What is wrong with a video.
#[derive(Debug, thiserror::Error)]
pub enum VideoProblem {
    /// The file cannot be opened, with the system's reason.
    #[error("{0}")]
    Open(String),
    /// The file name extension is not supported.
    #[error(
        "has an unsupported type (expected {0}); if it is a video, `ffmpeg -i IN -c copy OUT.mp4` converts it"
    )]
    UnsupportedType(String),
    /// An external program is missing.
    #[error("{0} is not installed (expected in PATH); install ffmpeg, for example: apt install ffmpeg")]
    MissingTool(&'static str),
    /// ffprobe failed.
    #[error("cannot be read: {0}")]
    Probe(#[source] ProcessError),
    /// ffmpeg failed.
    #[error(transparent)]
    Ffmpeg(#[from] ProcessError),
    /// Required information is missing.
    #[error("{0}")]
    MissingInfo(&'static str),
    /// The frames exceed the size limit.
    #[error("{}x{} px are too many (expected at most {}x{}); raise ⟨max-side⟩", size[0], size[1], limits[0], limits[1])]
    TooLarge {
        /// Width and height, px.
        size: [u32; 2],
        /// The limits, px.
        limits: [u32; 2],
    },
    /// The frame size is not possible with 4:2:0.
    #[error("{}x{} px (expected even sides of at least 16)", .0[0], .0[1])]
    InvalidSides([u32; 2]),
    /// The aspect ratio is not that of a panorama.
    #[error(
        "{}x{} px is not a panorama (expected twice as wide as high, or the two streams of a GoPro MAX); for stacked stereo use ⟨stereo = tb⟩, for two fisheye circles ⟨lens⟩", .0[0], .0[1]
    )]
    NotPanorama([u32; 2]),
    /// Raw footage of a camera with two fisheye lenses, opened as another kind.
    #[error(
        "shows two fisheye circles (expected a panorama or ordinary footage); use ⟨lens⟩ with a file from `gausset pano calibrate`, or stitch it first"
    )]
    TwoCircles,
    /// The aspect ratio is not that of two circles.
    #[error("{}x{} px (expected two circles, side by side or one above the other: about 2:1 or 1:2, or two streams)", .0[0], .0[1])]
    NotTwoCircles([u32; 2]),
    /// The streams do not form the frame that the lens file describes.
    #[error("{} (expected {}x{} px, as the lens file says, in one stream, or each half in one of two)", format_sizes(found), expected[0], expected[1])]
    LensSizeMismatch {
        /// Width and height of each stream, px.
        found: Vec<[u32; 2]>,
        /// Width and height of the frame, px.
        expected: [u32; 2],
    },
    /// One of two streams is missing.
    #[error("shows one of two lenses (expected a second stream in it{}); copy both files", other_file_hint(other.as_deref()))]
    MissingLens {
        /// Name of the other file of the pair, if the name follows the pattern.
        other: Option<String>,
    },
    /// The second file of a pair cannot be used.
    #[error("{}: the second of its pair: {problem}", path.display())]
    SecondFile {
        /// The second file.
        path: PathBuf,
        /// The problem with it.
        problem: Box<Self>,
    },
    /// The two streams of a pair differ in duration (seconds).
    #[error("its two streams last {:.2} s and {:.2} s (expected the same); copy it again, or use ⟨end = {:.2}⟩ for the part that both have", .0[0], .0[1], .0[0].min(.0[1]))]
    DurationMismatch([f64; 2]),
    /// The video is longer than a day: its duration and the limit, seconds.
    #[error("lasts {0:.0} s (expected at most {1:.0})")]
    TooLong(f64, f64),
    /// The selected range of a video of this duration (seconds) is empty.
    #[error("no frame lies between ⟨start⟩ and ⟨end⟩ (it lasts {0:.2} s)")]
    EmptySelection(f64),
    /// Too many frames are selected: their number and the limit.
    #[error("{0:.0} frames are too many (expected at most {1}); use ⟨fps⟩")]
    TooManyFrames(f64, f64),
    /// ffmpeg ended within a frame.
    #[error("the stream ends within a frame; the frames before it are kept")]
    Truncated,
}

/// `has 100x100 and 100x50 px`.
fn format_sizes(found: &[[u32; 2]]) -> String {
    let sizes: Vec<String> = found.iter().map(|[w, h]| format!("{w}x{h}")).collect();
    format!("has {} px", sizes.join(" and "))
}

/// Names the other file in which the second stream could be.
fn other_file_hint(other: Option<&str>) -> String {
    other.map(|name| format!(" or in {name} next to it")).unwrap_or_default()
}
