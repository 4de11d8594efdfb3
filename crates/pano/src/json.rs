//! JSON files that earlier steps, or people, have written.

use std::path::{Path, PathBuf};

use gausset_io::atomic::plain_reason;
use gausset_io::input;
use gausset_io::units::json_problem;
use serde::de::DeserializeOwned;

/// Why a file cannot be used, whatever it says.
#[derive(Debug, thiserror::Error)]
pub enum JsonError {
    /// It cannot be read.
    #[error("{}: file: {reason}", path.display())]
    Read {
        /// Where it should be.
        path: PathBuf,
        /// The system's answer, and what was looked for.
        reason: String,
    },
    /// It has another form.
    #[error("{}: {problem}", path.display())]
    Syntax {
        /// The file that was read.
        path: PathBuf,
        /// What is wrong, with its line.
        problem: String,
    },
}

/// A system's answer with what was expected, unless it says that itself.
pub(crate) fn expecting(reason: String, expected: &str) -> String {
    if reason.contains("(expected ") { reason } else { format!("{reason} (expected {expected})") }
}

/// Reads a file of at most so many bytes.
pub(crate) fn read<T: DeserializeOwned>(
    path: &Path,
    limit: u64,
    expected: &'static str,
) -> Result<T, JsonError> {
    let bytes = input::read(path, limit).map_err(|e| JsonError::Read {
        path: path.to_owned(),
        reason: expecting(plain_reason(&e), expected),
    })?;
    serde_json::from_slice(&bytes)
        .map_err(|e| JsonError::Syntax { path: path.to_owned(), problem: json_problem(&e) })
}
