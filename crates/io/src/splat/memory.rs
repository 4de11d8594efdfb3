//! What a reader holds at once, against what it may.
//!
//! Everything whose length a file decides is drawn from the [`Account`] of that file before it is allocated: its bytes, what
//! is unpacked of them, pictures, JSON, splats. What is dropped on the way is given back. Buffers of a fixed length, 2 MiB in
//! all, are not counted.
#![deny(clippy::indexing_slicing, reason = "what comes from outside is never an index")]

use std::cell::Cell;
use std::path::Path;

use super::{ReadLimits, SplatError};

/// Most bytes that a value of JSON becomes: a node of a glTF, in a vector that grows.
const JSON_VALUE_BYTES: u64 = 256;

/// The memory of one file's reader.
pub(super) struct Account<'a> {
    path: &'a Path,
    limit: u64,
    held: Cell<u64>,
}

impl<'a> Account<'a> {
    pub(super) fn new(path: &'a Path, limits: &ReadLimits) -> Self {
        Self { path, limit: limits.memory_bytes, held: Cell::new(0) }
    }

    /// Counts bytes that are about to be allocated.
    pub(super) fn draw(&self, bytes: u64) -> Result<(), SplatError> {
        self.draw_rows(0, bytes)
    }

    /// Counts the memory of `count` splats or points, some bytes all together.
    pub(super) fn draw_rows(&self, count: u64, bytes: u64) -> Result<(), SplatError> {
        let (limit, needed) = (self.limit, self.held.get().saturating_add(bytes));
        if needed > limit {
            return Err(SplatError::Memory { path: self.path.to_owned(), count, needed, limit });
        }
        self.held.set(needed);
        Ok(())
    }

    /// Takes back what was drawn, of something that is dropped now.
    pub(super) fn give_back(&self, bytes: u64) {
        self.held.set(self.held.get().saturating_sub(bytes));
    }

    /// An empty vector with room for so many values.
    pub(super) fn room<T>(&self, count: u64) -> Result<Vec<T>, SplatError> {
        self.draw(count.saturating_mul(size_of::<T>() as u64))?;
        let mut room = Vec::new();
        room.try_reserve_exact(usize::try_from(count).unwrap_or(usize::MAX)).map_err(|error| {
            SplatError::Io { path: self.path.to_owned(), action: "allocate", source: error.into() }
        })?;
        Ok(room)
    }

    /// Counts what a JSON becomes when it is parsed.
    pub(super) fn draw_json(&self, text: &[u8]) -> Result<(), SplatError> {
        // Each value but the first stands behind one of these; strings are as long as their text.
        let values = text.iter().filter(|byte| matches!(byte, b',' | b':' | b'[' | b'{')).count();
        self.draw(text.len() as u64 + JSON_VALUE_BYTES * values as u64)
    }
}
