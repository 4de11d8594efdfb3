//! Reads JSON files written by earlier steps or by users.

use std::path::{Path, PathBuf};

use gausset_io::atomic::plain_reason;
use gausset_io::input;
use gausset_io::text::json_problem;
use serde::de::DeserializeOwned;

/// Why a JSON file cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum JsonError {
    /// The file cannot be read.
    #[error("{}: file: {reason}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's error message, with what was expected.
        reason: String,
    },
    /// The content does not match the expected structure.
    #[error("{}: {problem}", path.display())]
    Parse {
        /// The file.
        path: PathBuf,
        /// The problem, with its line.
        problem: String,
    },
}

/// Appends what was expected to a system's error message, unless it contains that.
pub(crate) fn with_expected(reason: String, expected: &str) -> String {
    if reason.contains("(expected ") { reason } else { format!("{reason} (expected {expected})") }
}

/// Reads and parses a file of at most `limit` bytes.
pub(crate) fn read_json<T: DeserializeOwned>(
    path: &Path,
    limit: u64,
    expected: &'static str,
) -> Result<T, JsonError> {
    let bytes = input::read(path, limit).map_err(|e| JsonError::Read {
        path: path.to_owned(),
        reason: with_expected(plain_reason(&e), expected),
    })?;
    serde_json::from_slice(&bytes)
        .map_err(|e| JsonError::Parse { path: path.to_owned(), problem: json_problem(&e) })
}
