//! A file that is being read, with its length, options and memory account.
#![deny(clippy::indexing_slicing, reason = "what comes from outside is never an index")]

use std::io::{BufRead, Read, Seek, SeekFrom};
use std::path::Path;

use super::memory::MemoryAccount;
use super::{LoadOptions, SplatError};

/// Bytes at the start of a file that format detection reads: the longest PLY header.
const START_BYTES: u64 = 64 << 10;

/// Bytes with random access.
pub(super) trait SeekableRead: BufRead + Seek {}

impl<T: BufRead + Seek> SeekableRead for T {}

/// A file that is being read.
pub(super) struct SourceFile<'a> {
    /// Its content.
    pub(super) stream: &'a mut dyn SeekableRead,
    /// Length in bytes.
    pub(super) bytes: u64,
    /// Path, for messages.
    pub(super) path: &'a Path,
    /// Folder of the file, if any, for other files that it names.
    pub(super) folder: Option<&'a Path>,
    /// Options of the caller.
    pub(super) options: &'a LoadOptions,
    /// Memory account: everything whose size depends on the file is added before it is allocated.
    pub(super) memory: &'a MemoryAccount<'a>,
}

impl SourceFile<'_> {
    /// Reads the first bytes of the file and rewinds to its start.
    pub(super) fn start(&mut self) -> Result<Vec<u8>, SplatError> {
        let mut start = Vec::new();
        let read = (&mut *self.stream).take(START_BYTES).read_to_end(&mut start);
        read.and_then(|_| self.stream.seek(SeekFrom::Start(0))).map_err(|source| self.io(source))?;
        Ok(start)
    }

    /// Fills a buffer from the current position.
    pub(super) fn read_exact(&mut self, buffer: &mut [u8]) -> Result<(), SplatError> {
        self.stream.read_exact(buffer).map_err(|source| self.io(source))
    }

    /// Error for invalid data in the file.
    pub(super) fn damaged_error(
        &self,
        place: impl Into<String>,
        what: &'static str,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) -> SplatError {
        let (place, expected, found) = (place.into(), expected.into(), found.into());
        SplatError::Damaged { path: self.path.to_owned(), place, what, expected, found }
    }

    /// Error for a failed read.
    pub(super) fn io(&self, source: std::io::Error) -> SplatError {
        SplatError::Io { path: self.path.to_owned(), action: "read", source }
    }
}
