//! Why a video cannot be read.

use std::path::{Path, PathBuf};

use gausset_io::atomic::WriteError;
use gausset_process::ProcessError;

/// Why frames of a video cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum VideoError {
    /// The video cannot be read.
    #[error("{}: video: {problem}", path.display())]
    Video {
        /// The video file.
        path: PathBuf,
        /// What is wrong.
        problem: VideoProblem,
    },
    /// A picture of a frame could not be written.
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
    /// The file cannot be opened: the system's reason.
    #[error("{0}")]
    Open(String),
    /// Its extension is none of these.
    #[error("is of no kind that is read (expected {0})")]
    Kind(String),
    /// A program is missing.
    #[error("{0} is not installed (expected in PATH); install ffmpeg, for example: apt install ffmpeg")]
    Tool(&'static str),
    /// ffprobe fails.
    #[error("cannot be read: {0}")]
    Probe(#[source] ProcessError),
    /// ffmpeg fails.
    #[error(transparent)]
    Tools(#[from] ProcessError),
    /// A fact is missing.
    #[error("{0}")]
    Facts(&'static str),
    /// More pixels than are allowed.
    #[error("{}x{} px are too many (expected at most {}x{}); raise ⟨max-side⟩", size[0], size[1], limits[0], limits[1])]
    Large {
        /// Width and height, px.
        size: [u32; 2],
        /// The most that is allowed.
        limits: [u32; 2],
    },
    /// Sides that planes of 4:2:0 cannot have.
    #[error("{}x{} px (expected even sides of at least 16)", .0[0], .0[1])]
    Sides([u32; 2]),
    /// Not the shape of a panorama.
    #[error(
        "{}x{} px is no panorama (expected twice as wide as high, or the two streams of a GoPro MAX); for stacked eyes say ⟨stereo = tb⟩, for two fisheye circles ⟨lens⟩", .0[0], .0[1]
    )]
    Shape([u32; 2]),
    /// What a camera with two fisheye lenses stores, taken for something else.
    #[error(
        "shows two fisheye circles (expected a panorama or ordinary footage); say ⟨lens⟩, a file that `gausset pano calibrate` makes"
    )]
    TwoCircles,
    /// Not the shape of two circles.
    #[error("{}x{} px (expected two circles, side by side or one above the other: about 2:1 or 1:2, or two streams)", .0[0], .0[1])]
    Circles([u32; 2]),
    /// Streams that do not make the frame that the lens file describes.
    #[error("{} (expected {}x{} px, as the lens file says, in one stream, or each half in one of two)", sizes_of(found), expected[0], expected[1])]
    Lenses {
        /// Width and height of each stream, px.
        found: Vec<[u32; 2]>,
        /// Width and height of the frame, px.
        expected: [u32; 2],
    },
    /// One of two streams is missing; what the file with it would be called.
    #[error("shows one of two lenses (expected a second stream in it{}); copy both files", beside(other.as_deref()))]
    OneLens {
        /// Name of the other file of the pair.
        other: Option<String>,
    },
    /// The second file of a pair.
    #[error("{}: the second of its pair: {problem}", path.display())]
    Second {
        /// The second file.
        path: PathBuf,
        /// What is wrong with it.
        problem: Box<Self>,
    },
    /// Seconds that the two streams of a pair last.
    #[error("its two streams last {:.2} s and {:.2} s (expected the same); copy it again, or say ⟨end = {:.2}⟩ for what both show", .0[0], .0[1], .0[0].min(.0[1]))]
    Lengths([f64; 2]),
    /// Longer than a day: seconds, and the most.
    #[error("lasts {0:.0} s (expected at most {1:.0})")]
    Long(f64, f64),
    /// Nothing is chosen of a film that lasts so many seconds.
    #[error("no frame lies between ⟨start⟩ and ⟨end⟩ (it lasts {0:.2} s)")]
    Nothing(f64),
    /// Too many frames are chosen, and the most.
    #[error("{0:.0} frames are too many (expected at most {1}); use ⟨fps⟩")]
    Frames(f64, f64),
    /// ffmpeg ends early.
    #[error("the stream ends within a frame; the frames before it are kept")]
    Torn,
}

/// `has 100x100 and 100x50 px`.
fn sizes_of(found: &[[u32; 2]]) -> String {
    let sizes: Vec<String> = found.iter().map(|[w, h]| format!("{w}x{h}")).collect();
    format!("has {} px", sizes.join(" and "))
}

/// Where else the second stream would be.
fn beside(other: Option<&str>) -> String {
    other.map(|name| format!(" or in {name} beside it")).unwrap_or_default()
}
