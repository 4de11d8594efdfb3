//! Why a split, or one of its frames, failed.

use std::path::{Path, PathBuf};

use gausset_io::atomic::{WriteError, plain_reason};
use gausset_io::ownership::OwnershipError;

use crate::source::load::LoadError;
use crate::source::video::VideoError;

/// Why a split failed.
#[derive(Debug, thiserror::Error)]
pub enum SplitError {
    /// The input as a whole is invalid.
    #[error("{0}")]
    Input(String),
    /// No frame could be used.
    #[error("{}: frames: none could be used (the first: {first})", path.display())]
    NoFrames {
        /// The folder of the frames.
        path: PathBuf,
        /// The first frame's error.
        first: String,
    },
    /// A frame failed with [`OnError::Stop`](super::OnError::Stop).
    #[error("{0}")]
    Stopped(String),
    /// A video cannot be read to its end.
    #[error(transparent)]
    Video(#[from] VideoError),
    /// A file could not be written.
    #[error("{}: {action}: {reason}", path.display())]
    Write {
        /// The file or folder.
        path: PathBuf,
        /// The action that failed.
        action: &'static str,
        /// The system's error message.
        reason: String,
    },
    /// The output folder holds files that Gausset did not create.
    #[error(transparent)]
    NotOwned(#[from] OwnershipError),
    /// A file of the description could not be written.
    #[error(transparent)]
    Atomic(#[from] WriteError),
}

pub(super) fn write_error<'a>(
    path: &'a Path,
    action: &'static str,
) -> impl FnOnce(std::io::Error) -> SplitError + 'a {
    move |e| SplitError::Write { path: path.to_owned(), action, reason: plain_reason(&e) }
}

/// A skipped frame.
pub(super) struct SkippedFrame {
    pub(super) index: usize,
    pub(super) reason: String,
}

/// Why a frame was not cut.
pub(super) enum FrameError {
    /// Only this frame cannot be used.
    Frame(String),
    /// Output cannot be written any more.
    Fatal(SplitError),
}

impl From<LoadError> for FrameError {
    fn from(error: LoadError) -> Self {
        Self::Frame(error.to_string())
    }
}
