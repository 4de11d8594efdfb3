//! Why a splat file cannot be read, with the place in it.

use std::path::PathBuf;

use crate::units::bytes;

/// Why a splat file cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum SplatError {
    /// A call to the system failed.
    #[error("{}: {action}: {}", path.display(), crate::atomic::plain_reason(source))]
    Io {
        /// The file.
        path: PathBuf,
        /// What was being done.
        action: &'static str,
        /// The system's answer.
        source: std::io::Error,
    },
    /// No format that is known begins like this.
    #[error("{}: first bytes: not a splat file (expected a PLY, SPZ, SOG, glTF, .splat or .ksplat, found \"{found}\")", path.display())]
    UnknownFormat {
        /// The file.
        path: PathBuf,
        /// Its first bytes, escaped.
        found: String,
    },
    /// A known format that this version does not read.
    #[error("{}: format: cannot be read by this version (expected a PLY, SPZ, SOG, glTF, .splat or .ksplat, found {found}); convert it to PLY with another program", path.display())]
    UnsupportedFormat {
        /// The file.
        path: PathBuf,
        /// Name of the format.
        found: &'static str,
    },
    /// A line of the header is wrong.
    #[error("{}: header line {line}: {what} (expected {expected}, found {found})", path.display())]
    Header {
        /// The file.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        /// What is wrong.
        what: &'static str,
        /// What should be there.
        expected: String,
        /// What is there.
        found: String,
    },
    /// The vertex element lacks columns or has too many.
    #[error("{}: element vertex: its properties are not those of splats (expected {expected}, found {found})", path.display())]
    Properties {
        /// The file.
        path: PathBuf,
        /// What should be there.
        expected: String,
        /// What is there.
        found: String,
    },
    /// Points where splats were wanted.
    #[error("{}: element vertex: a point cloud, not splats (expected f_dc, opacity, scale and rot properties, found none); use it as ⟨init⟩", path.display())]
    PointCloud {
        /// The file.
        path: PathBuf,
    },
    /// The header promises more than the file holds.
    #[error("{}: {place}: the file is cut off or its header lies (expected {expected}, found {found})", path.display())]
    CutOff {
        /// The file.
        path: PathBuf,
        /// Part of the file.
        place: String,
        /// What the header promises.
        expected: String,
        /// What is there.
        found: String,
    },
    /// A value cannot be understood.
    #[error("{}: {place}: not a number of its type (expected {expected}, found \"{found}\")", path.display())]
    Value {
        /// The file.
        path: PathBuf,
        /// Row and property.
        place: String,
        /// What should be there.
        expected: String,
        /// What is there.
        found: String,
    },
    /// Something in the file cannot be.
    #[error("{}: {place}: {what} (expected {expected}, found {found})", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Part of the file.
        place: String,
        /// What is wrong.
        what: &'static str,
        /// What should be there.
        expected: String,
        /// What is there.
        found: String,
    },
    /// Reading it would take more memory than allowed.
    #[error("{}: size: too large for the memory (expected at most {}, found {} or more to hold at once); raise ⟨max-memory⟩", path.display(), bytes(*limit), bytes(*needed))]
    Memory {
        /// The file.
        path: PathBuf,
        /// Splats or points in the file; 0 where it is not about them.
        count: u64,
        /// Bytes that would be held at once.
        needed: u64,
        /// Bytes allowed.
        limit: u64,
    },
}
