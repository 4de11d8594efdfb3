//! Errors of files of samples.

use std::io;
use std::path::PathBuf;

use gausset_io::text::quote;

use crate::error::ContentError;

/// Why a file cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InputError {
    /// The file cannot be read.
    #[error("{}: read: {}", path.display(), gausset_io::atomic::plain_reason(source))]
    Io {
        /// The file that could not be read.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The contents are invalid.
    #[error("{}: {what}", path.display())]
    Content {
        /// The file with the invalid contents.
        path: PathBuf,
        /// What is wrong, with its place.
        what: Box<DecodeError>,
    },
}

impl InputError {
    /// Whether the file has more samples than fit into memory.
    #[must_use]
    pub fn is_out_of_memory(&self) -> bool {
        matches!(self, Self::Content { what, .. } if matches!(**what, DecodeError::Content(ContentError::TooManySamples { .. })))
    }
}

/// Why bytes cannot be decoded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// The contents are invalid.
    #[error(transparent)]
    Content(#[from] ContentError),
    /// A file that the header names cannot be read.
    #[error("data file {}: {}", quote(name), gausset_io::atomic::plain_reason(source))]
    DataFile {
        /// Name in the header.
        name: String,
        /// Error of the operating system.
        source: io::Error,
    },
}
