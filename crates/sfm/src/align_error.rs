//! Why an alignment failed.

use std::path::PathBuf;

use gausset_io::atomic::WriteError;
use gausset_io::image::ImageError;
use gausset_io::ownership::OwnershipError;
use gausset_process::ProcessError;

use crate::model::ModelError;

/// Number of names that an error quotes.
const NAMES_QUOTED: usize = 3;

/// Why an alignment failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AlignError {
    /// The COLMAP process failed.
    #[error("COLMAP: {0}")]
    Process(#[from] ProcessError),
    /// COLMAP reported an error.
    #[error("COLMAP: {stage}: {message}")]
    Colmap {
        /// Stage in which it failed.
        stage: String,
        /// Message of COLMAP.
        message: String,
    },
    /// The model that COLMAP wrote is invalid.
    #[error("COLMAP: model: {0}")]
    Model(#[from] ModelError),
    /// No frame was registered.
    #[error(
        "{}: frames: none of {frames} could be aligned{}; take pictures that overlap by two thirds, of surfaces with texture",
        images.display(), unmatched_text(unmatched)
    )]
    NoFrameRegistered {
        /// Folder of the images.
        images: PathBuf,
        /// Number of frames.
        frames: usize,
        /// Names of the frames that share no verified match with another one, if the aligner reports them.
        unmatched: Vec<String>,
    },
    /// Too few frames to align.
    #[error(
        "{}: frames: {frames} cannot be aligned (expected at least {least}, from different places)", images.display()
    )]
    TooFewFrames {
        /// Folder of the images.
        images: PathBuf,
        /// Number of frames.
        frames: usize,
        /// Fewest that can be aligned.
        least: usize,
    },
    /// The work folder cannot be used.
    #[error(transparent)]
    WorkFolder(#[from] OwnershipError),
    /// Known poses or matches without pycolmap: the executable cannot be told which image is which.
    #[error("COLMAP: known poses and matches need pycolmap; install it with: pip install pycolmap")]
    NeedsPython,
    /// A database of matches that does not fit the images.
    #[error("{}: {problem}", path.display())]
    Matches {
        /// The database.
        path: PathBuf,
        /// The problem.
        problem: String,
    },
    /// An image that the built-in aligner cannot read.
    #[error(transparent)]
    Image(#[from] ImageError),
    /// An image that does not have the size of its view.
    #[error(
        "{}: size: {}x{} px (expected {}x{}, the size of its view); split again",
        path.display(), found[0], found[1], expected[0], expected[1]
    )]
    ImageSize {
        /// The image.
        path: PathBuf,
        /// Its width and height.
        found: [u32; 2],
        /// Those of its view.
        expected: [u32; 2],
    },
    /// More frames than the built-in aligner supports.
    #[error(
        "frames: {frames} are too many for the built-in aligner (expected at most {limit}); use fewer, or ⟨aligner = colmap⟩"
    )]
    TooManyFrames {
        /// Number of frames.
        frames: usize,
        /// Largest number of frames.
        limit: usize,
    },
    /// More pairs than the built-in aligner supports.
    #[error(
        "⟨pairs⟩: {pairs} pairs are too many for the built-in aligner (expected at most {limit}); list fewer, take ⟨pairs = auto⟩, or ⟨aligner = colmap⟩"
    )]
    TooManyPairs {
        /// Number of pairs.
        pairs: usize,
        /// Largest number of pairs.
        limit: usize,
    },
    /// An image of a listed pair whose name COLMAP cannot read in a list.
    #[error(
        "⟨pairs⟩: {name:?}: COLMAP reads no name with spaces or # in a list of pairs (expected none); rename it, or ⟨aligner = own⟩"
    )]
    PairName {
        /// Its name.
        name: String,
    },
    /// A camera model that the built-in aligner does not estimate.
    #[error(
        "⟨camera-model⟩: {model} needs COLMAP (expected SIMPLE_RADIAL, RADIAL, SIMPLE_PINHOLE, PINHOLE, OPENCV or OPENCV_FISHEYE for the built-in aligner)"
    )]
    CameraModel {
        /// Name of the model.
        model: String,
    },
    /// The caller set the stop flag.
    #[error("stopped")]
    Stopped,
    /// A path that cannot be passed to Python.
    #[error(
        "{}: name: is not UTF-8, which pycolmap needs; choose another name, or use the executable (⟨colmap⟩)",
        path.display()
    )]
    NotUtf8 {
        /// The path.
        path: PathBuf,
    },
}

/// How many frames share no verified match, and the first of them.
fn unmatched_text(names: &[String]) -> String {
    let more = if names.len() > NAMES_QUOTED { ", …" } else { "" };
    match names.len() {
        0 => String::new(),
        count => {
            let first = names[..count.min(NAMES_QUOTED)].join(", ");
            format!("; {count} share no verified match with another: {first}{more}")
        }
    }
}

impl From<WriteError> for AlignError {
    fn from(error: WriteError) -> Self {
        Self::WorkFolder(error.into())
    }
}
