//! Accounts for the memory of a reader and enforces its limit.
//!
//! Everything whose size depends on the file is added to the [`MemoryAccount`] of that file before it is allocated: file
//! bytes, decompressed data, images, JSON, splats. What is dropped meanwhile is subtracted. Buffers of fixed size, 2
//! MiB in total, are not counted.
#![deny(clippy::indexing_slicing, reason = "what comes from outside is never an index")]

use std::cell::Cell;
use std::path::Path;

use super::{ReadLimits, SplatError};

/// Largest size of a parsed JSON value, bytes: a node of a glTF in a growing vector.
const JSON_VALUE_BYTES: u64 = 256;

/// Memory account of the reader of one file.
pub(super) struct MemoryAccount<'a> {
    path: &'a Path,
    limit: u64,
    held: Cell<u64>,
}

impl<'a> MemoryAccount<'a> {
    pub(super) fn new(path: &'a Path, limits: &ReadLimits) -> Self {
        Self { path, limit: limits.memory_bytes, held: Cell::new(0) }
    }

    /// Adds bytes that are about to be allocated.
    pub(super) fn reserve(&self, bytes: u64) -> Result<(), SplatError> {
        self.reserve_rows(0, bytes)
    }

    /// Adds the memory of `count` splats or points, `bytes` in total.
    pub(super) fn reserve_rows(&self, count: u64, bytes: u64) -> Result<(), SplatError> {
        let (limit, needed) = (self.limit, self.held.get().saturating_add(bytes));
        if needed > limit {
            return Err(SplatError::Memory { path: self.path.to_owned(), count, needed, limit });
        }
        self.held.set(needed);
        Ok(())
    }

    /// Bytes that may still be added.
    pub(super) fn remaining(&self) -> u64 {
        self.limit.saturating_sub(self.held.get())
    }

    /// Subtracts bytes of something that is dropped now.
    pub(super) fn release(&self, bytes: u64) {
        self.held.set(self.held.get().saturating_sub(bytes));
    }

    /// An empty vector with capacity for `count` values.
    pub(super) fn vec_with_capacity<T>(&self, count: u64) -> Result<Vec<T>, SplatError> {
        self.reserve(count.saturating_mul(size_of::<T>() as u64))?;
        let mut room = Vec::new();
        room.try_reserve_exact(usize::try_from(count).unwrap_or(usize::MAX)).map_err(|error| {
            SplatError::Io { path: self.path.to_owned(), action: "allocate", source: error.into() }
        })?;
        Ok(room)
    }

    /// Adds the memory of a JSON text after parsing.
    pub(super) fn reserve_json(&self, text: &[u8]) -> Result<(), SplatError> {
        // Each value but the first follows one of these characters; strings are as long as their text.
        let values = text.iter().filter(|byte| matches!(byte, b',' | b':' | b'[' | b'{')).count();
        self.reserve(text.len() as u64 + JSON_VALUE_BYTES * values as u64)
    }
}
