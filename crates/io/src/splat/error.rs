//! Errors of splat files, with the position in the file.

use std::path::PathBuf;

use crate::text::{format_bytes, lfs_pointer_problem};

/// Why a splat file cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SplatError {
    /// A system call failed.
    #[error("{}: {action}: {}", path.display(), crate::atomic::plain_reason(source))]
    Io {
        /// The file of the failed call.
        path: PathBuf,
        /// The attempted action.
        action: &'static str,
        /// Error of the system.
        source: std::io::Error,
    },
    /// The format is unknown.
    #[error("{}: first bytes: not a splat file (expected a PLY, SPZ, SOG, glTF, .splat or .ksplat, found \"{found}\")", path.display())]
    UnknownFormat {
        /// The file, whose start no format recognises.
        path: PathBuf,
        /// Its first bytes, escaped.
        found: String,
    },
    /// The file was not downloaded: Git stores this text in its place.
    #[error("{}: content: {}", path.display(), lfs_pointer_problem("splats"))]
    LfsPointer {
        /// The file that contains the pointer.
        path: PathBuf,
    },
    /// A header line is invalid.
    #[error("{}: header line {line}: {what} (expected {expected}, found {found})", path.display())]
    Header {
        /// The file with the invalid header.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        /// What is wrong with the line.
        what: &'static str,
        /// The expected content.
        expected: String,
        /// The content found.
        found: String,
    },
    /// The vertex element has missing or additional columns.
    #[error("{}: element vertex: its properties are not those of splats (expected {expected}, found {found})", path.display())]
    Properties {
        /// The PLY with other columns.
        path: PathBuf,
        /// The expected properties.
        expected: String,
        /// The properties found.
        found: String,
    },
    /// The file contains points instead of splats.
    #[error("{}: element vertex: a point cloud, not splats (expected f_dc, opacity, scale and rot properties, found none); use it as ⟨init⟩", path.display())]
    PointCloud {
        /// The file with points; training can start from it.
        path: PathBuf,
    },
    /// The header announces more than the file contains.
    #[error("{}: {place}: the file is truncated or its header is wrong (expected {expected}, found {found})", path.display())]
    CutOff {
        /// The file that is too short.
        path: PathBuf,
        /// Part of the file.
        place: String,
        /// Size according to the header.
        expected: String,
        /// Size found, as text with its unit.
        found: String,
    },
    /// A value cannot be parsed.
    #[error("{}: {place}: not a number of its type (expected {expected}, found \"{found}\")", path.display())]
    Value {
        /// The file with the value.
        path: PathBuf,
        /// Row and property.
        place: String,
        /// The expected type.
        expected: String,
        /// The text found.
        found: String,
    },
    /// The file contains invalid data.
    #[error("{}: {place}: {what} (expected {expected}, found {found})", path.display())]
    Damaged {
        /// The file with the invalid data.
        path: PathBuf,
        /// Part of the file.
        place: String,
        /// What is wrong at this place.
        what: &'static str,
        /// The expected content.
        expected: String,
        /// The content found.
        found: String,
    },
    /// Reading the file would exceed the memory limit.
    #[error("{}: size: exceeds the memory limit (expected at most {}, found {} or more at once); raise ⟨max-memory⟩", path.display(), format_bytes(*limit), format_bytes(*needed))]
    Memory {
        /// The file that is too large for the limit.
        path: PathBuf,
        /// Number of splats or points in the file; 0 if the limit concerns something else.
        count: u64,
        /// Bytes needed at once.
        needed: u64,
        /// Memory limit, bytes.
        limit: u64,
    },
}
