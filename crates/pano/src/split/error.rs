//! Why a split, or one of its frames, failed.

use std::path::{Path, PathBuf};

use gausset_io::atomic::{WriteError, plain_reason};
use gausset_io::owned::OwnedError;

use crate::load::LoadError;

/// Why the work could not be done.
#[derive(Debug, thiserror::Error)]
pub enum SplitError {
    /// Something in the input is wrong as a whole.
    #[error("{0}")]
    Input(String),
    /// No frame could be used.
    #[error("{}: frames: none could be used (the first: {first})", path.display())]
    Nothing {
        /// The folder of the frames.
        path: PathBuf,
        /// The first reason.
        first: String,
    },
    /// With [`OnError::Stop`](super::OnError::Stop).
    #[error("{0}")]
    Stopped(String),
    /// A file could not be written.
    #[error("{}: {action}: {reason}", path.display())]
    Write {
        /// The file or folder at which it failed.
        path: PathBuf,
        /// What was being done.
        action: &'static str,
        /// The system's answer.
        reason: String,
    },
    /// The output folder holds files of somebody else.
    #[error(transparent)]
    NotOurs(#[from] OwnedError),
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

/// A frame that is left out.
pub(super) struct LeftOut {
    pub(super) index: usize,
    pub(super) reason: String,
}

/// Why a frame was not cut.
pub(super) enum FrameError {
    /// This frame cannot be used.
    Frame(String),
    /// Nothing can be written any more.
    Fatal(SplitError),
}

impl From<LoadError> for FrameError {
    fn from(error: LoadError) -> Self {
        Self::Frame(error.to_string())
    }
}
