//! Why a file of samples cannot be used.

use std::io;
use std::path::PathBuf;

use gausset_io::units::quote;

use crate::error::ContentError;

/// Why a file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum InputError {
    /// A call to the system failed.
    #[error("{}: read: {}", path.display(), gausset_io::atomic::plain_reason(source))]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// The content is not what it should be.
    #[error("{}: {what}", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// What is wrong in it.
        what: Box<DecodeError>,
    },
}

impl InputError {
    /// Whether the file has more samples than there is memory for.
    #[must_use]
    pub fn is_room(&self) -> bool {
        matches!(self, Self::Content { what, .. } if matches!(**what, DecodeError::Content(ContentError::Room { .. })))
    }
}

/// Why bytes cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// Their content is not what it should be.
    #[error(transparent)]
    Content(#[from] ContentError),
    /// A file that the header names cannot be read.
    #[error("data file {}: {}", quote(name), gausset_io::atomic::plain_reason(source))]
    Beside {
        /// Its name in the header.
        name: String,
        /// The system's answer.
        source: io::Error,
    },
}
