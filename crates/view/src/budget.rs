//! The viewer's share of the memory limit: what frames, photographs, splats for pages and thumbnails may take, however many
//! pages look and however slowly they read.
//!
//! ```text
//! share = frames (7/16) + splats for pages (8/16) + thumbnails (1/16)
//! ```
//! A frame counts from the moment it is begun until its last byte is sent. One that does not fit is drawn smaller, or
//! later; a photograph is held by one frame at a time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes that a frame takes for each of its pixels: the rendering (24), the picture (3), the bytes of a PNG in a message
/// and in the socket's buffer (at most 6), and the photograph and the map of differences of an error map (7).
pub(crate) const FRAME_BYTES_PER_PIXEL: u64 = 40;

/// The shares of a viewer, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Budget {
    /// For frames under way and a spare buffer.
    pub(crate) frames: u64,
    /// For splats that pages draw by themselves.
    pub(crate) snapshots: u64,
    /// For thumbnails.
    pub(crate) thumbs: u64,
}

impl Budget {
    pub(crate) fn of(share: u64) -> Self {
        let sixteenth = share / 16;
        Self { frames: 7 * sixteenth, snapshots: 8 * sixteenth, thumbs: sixteenth }
    }

    /// Bytes that a page may hold of so many, so that one that does not read leaves room for the next.
    pub(crate) fn quota(&self, pages: usize) -> u64 {
        self.frames / (pages as u64 + 1)
    }

    /// Most pixels of a frame.
    pub(crate) fn most_pixels(&self) -> u64 {
        self.quota(1) / FRAME_BYTES_PER_PIXEL
    }
}

/// Counts bytes in use.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counter(Arc<AtomicU64>);

impl Counter {
    pub(crate) fn bytes(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Bytes that are taken from counters until this is dropped.
#[derive(Debug, Default)]
pub(crate) struct Reserved {
    bytes: u64,
    counters: Vec<Counter>,
}

impl Reserved {
    pub(crate) fn of(bytes: u64, counters: Vec<Counter>) -> Self {
        for counter in &counters {
            counter.0.fetch_add(bytes, Ordering::Relaxed);
        }
        Self { bytes, counters }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        for counter in &self.counters {
            counter.0.fetch_sub(self.bytes, Ordering::Relaxed);
        }
    }
}
