//! Reads a file and tracks the remaining bytes, which limit all allocations and skips.
#![deny(clippy::indexing_slicing, reason = "what comes from outside is never an index")]

use std::io::{BufRead, ErrorKind, Read};
use std::path::Path;

use crate::splat::SplatError;

/// Longest word of an ASCII body, bytes.
const MAX_WORD_BYTES: usize = 512;

/// A file that is read from start to end.
pub(in crate::splat) struct PlyReader<'a> {
    source: &'a mut dyn BufRead,
    pub(in crate::splat) path: &'a Path,
    /// Bytes after the current position.
    pub(in crate::splat) remaining: u64,
    /// Line of the current position, from 1; counted only in the header and in ASCII bodies.
    pub(in crate::splat) line: usize,
}

impl<'a> PlyReader<'a> {
    pub(in crate::splat) fn new(source: &'a mut dyn BufRead, bytes: u64, path: &'a Path) -> Self {
        Self { source, path, remaining: bytes, line: 1 }
    }

    /// The next line without its line end (`
    /// ` or `\r
    /// `), at most `max_bytes` long; `None` if it is longer or not terminated.
    pub(in crate::splat) fn line(&mut self, max_bytes: usize) -> Result<Option<Vec<u8>>, SplatError> {
        let mut line = Vec::new();
        let read = (&mut self.source).take(max_bytes as u64 + 1).read_until(b'\n', &mut line);
        let read = read.map_err(|source| self.io(source))?;
        self.remaining = self.remaining.saturating_sub(read as u64);
        if line.pop() != Some(b'\n') {
            return Ok(None);
        }
        if line.last() == Some(&b'\r') {
            line.pop();
        }
        self.line += 1;
        Ok(Some(line))
    }

    /// Fills `buffer`.
    pub(in crate::splat) fn read_exact(&mut self, buffer: &mut [u8]) -> Result<(), SplatError> {
        self.source.read_exact(buffer).map_err(|source| self.io(source))?;
        self.remaining = self.remaining.saturating_sub(buffer.len() as u64);
        Ok(())
    }

    /// Skips bytes; the caller has checked the number against [`Self::remaining`].
    pub(in crate::splat) fn skip(&mut self, bytes: u64) -> Result<(), SplatError> {
        let skipped = std::io::copy(&mut (&mut self.source).take(bytes), &mut std::io::sink());
        let skipped = skipped.map_err(|source| self.io(source))?;
        self.remaining = self.remaining.saturating_sub(skipped);
        if skipped < bytes {
            return Err(self.io(ErrorKind::UnexpectedEof.into()));
        }
        Ok(())
    }

    /// Reads the next word of an ASCII body into `word`. Returns `false` at the end of the file.
    pub(in crate::splat) fn word(&mut self, word: &mut Vec<u8>) -> Result<bool, SplatError> {
        word.clear();
        loop {
            let buffer = match self.source.fill_buf() {
                Ok(buffer) => buffer,
                Err(e) if e.kind() == ErrorKind::Interrupted => continue,
                Err(source) => return Err(self.io(source)),
            };
            if buffer.is_empty() {
                return Ok(!word.is_empty());
            }
            let mut used = 0;
            let mut done = false;
            for &byte in buffer {
                if !byte.is_ascii_whitespace() {
                    word.push(byte);
                } else if !word.is_empty() {
                    done = true;
                    break;
                }
                used += 1;
                self.line += usize::from(byte == b'\n');
                if word.len() > MAX_WORD_BYTES {
                    done = true;
                    break;
                }
            }
            self.source.consume(used);
            self.remaining = self.remaining.saturating_sub(used as u64);
            if done {
                return Ok(true);
            }
        }
    }

    pub(in crate::splat) fn io(&self, source: std::io::Error) -> SplatError {
        SplatError::Io { path: self.path.to_owned(), action: "read", source }
    }

    /// Error for a file that is shorter than its header says.
    pub(in crate::splat) fn cut_off(&self, place: String, expected: String, found: String) -> SplatError {
        SplatError::CutOff { path: self.path.to_owned(), place, expected, found }
    }
}
