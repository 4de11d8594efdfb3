//! The viewer's share of the memory limit: bounds the memory of frames, photographs, splats for browsers and thumbnails
//! for any number of pages and however slowly they read.
//!
//! ```text
//! share = frames (7/16) + splats for browsers (8/16) + thumbnails (1/16)
//! ```
//! A frame counts from the start of its rendering until its last byte is sent. A frame that does not fit is rendered
//! smaller or later. Only one frame at a time holds a photograph.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes per pixel of a frame: the rendering (24), the image (3), the PNG bytes in a message and in the socket's buffer
/// (at most 6), and the photograph and the difference map of an error map (7).
pub(crate) const FRAME_BYTES_PER_PIXEL: u64 = 40;

/// Memory limits of a viewer, bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MemoryBudget {
    /// For frames in flight and a spare buffer.
    pub(crate) frames: u64,
    /// For splats that browsers draw.
    pub(crate) snapshots: u64,
    /// For thumbnails.
    pub(crate) thumbs: u64,
}

impl MemoryBudget {
    pub(crate) fn new(share: u64) -> Self {
        let sixteenth = share / 16;
        Self { frames: 7 * sixteenth, snapshots: 8 * sixteenth, thumbs: sixteenth }
    }

    /// Limit of one page among `pages`, so that a page that does not read leaves memory for the next.
    pub(crate) fn quota(&self, pages: usize) -> u64 {
        self.frames / (pages as u64 + 1)
    }

    /// Largest number of pixels of a frame.
    pub(crate) fn max_pixels(&self) -> u64 {
        self.quota(1) / FRAME_BYTES_PER_PIXEL
    }
}

/// A shared count of bytes in use.
#[derive(Clone, Debug, Default)]
pub(crate) struct ByteCounter(Arc<AtomicU64>);

impl ByteCounter {
    pub(crate) fn bytes(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Bytes that are added to counters until this is dropped.
#[derive(Debug, Default)]
pub(crate) struct Reservation {
    bytes: u64,
    counters: Vec<ByteCounter>,
}

impl Reservation {
    pub(crate) fn new(bytes: u64, counters: Vec<ByteCounter>) -> Self {
        for counter in &counters {
            counter.0.fetch_add(bytes, Ordering::Relaxed);
        }
        Self { bytes, counters }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        for counter in &self.counters {
            counter.0.fetch_sub(self.bytes, Ordering::Relaxed);
        }
    }
}
