//! A file being read: its bytes, how many they are, and what the reader may do.
#![deny(clippy::indexing_slicing, reason = "what comes from outside is never an index")]

use std::io::{BufRead, Read, Seek, SeekFrom};
use std::path::Path;

use super::memory::Account;
use super::{LoadOptions, SplatError};

/// Bytes at the front of a file that are looked at to recognise a format: the longest header of a PLY.
const START_BYTES: u64 = 64 << 10;

/// Bytes that can be read from any place.
pub(super) trait Stream: BufRead + Seek {}

impl<T: BufRead + Seek> Stream for T {}

/// A file being read.
pub(super) struct Source<'a> {
    /// Its bytes.
    pub(super) stream: &'a mut dyn Stream,
    /// How many they are.
    pub(super) bytes: u64,
    /// Its name.
    pub(super) path: &'a Path,
    /// The folder of the file, if it has one: other files that it names lie there.
    pub(super) folder: Option<&'a Path>,
    /// What the reader may do.
    pub(super) options: &'a LoadOptions,
    /// What it holds meanwhile: everything whose length the file decides is drawn from here first.
    pub(super) memory: &'a Account<'a>,
}

impl Source<'_> {
    /// The first bytes of the file; the place is again its beginning.
    pub(super) fn start(&mut self) -> Result<Vec<u8>, SplatError> {
        let mut start = Vec::new();
        let read = (&mut *self.stream).take(START_BYTES).read_to_end(&mut start);
        read.and_then(|_| self.stream.seek(SeekFrom::Start(0))).map_err(|source| self.io(source))?;
        Ok(start)
    }

    /// Fills a buffer from the current place.
    pub(super) fn exact(&mut self, buffer: &mut [u8]) -> Result<(), SplatError> {
        self.stream.read_exact(buffer).map_err(|source| self.io(source))
    }

    /// The error of something in the file that cannot be.
    pub(super) fn damaged(
        &self,
        place: impl Into<String>,
        what: &'static str,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) -> SplatError {
        let (place, expected, found) = (place.into(), expected.into(), found.into());
        SplatError::Damaged { path: self.path.to_owned(), place, what, expected, found }
    }

    /// The error of a failed read.
    pub(super) fn io(&self, source: std::io::Error) -> SplatError {
        SplatError::Io { path: self.path.to_owned(), action: "read", source }
    }
}
