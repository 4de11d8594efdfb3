//! An allocator that counts the memory of the current thread, so that a test can bound what parsing takes.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    /// Bytes held now (may go below zero when another thread's memory is freed here), and their peak.
    static HELD: Cell<[isize; 2]> = const { Cell::new([0; 2]) };
}

/// Counts per thread and passes on to the system allocator.
pub(crate) struct Counting;

fn count(bytes: isize) {
    // Not available while the thread ends, when no measurement runs.
    let _ = HELD.try_with(|held| {
        let [now, peak] = held.get();
        held.set([now + bytes, peak.max(now + bytes)]);
    });
}

// SAFETY: every call is passed on to the system's allocator unchanged; counting neither allocates nor unwinds.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller's promises are those of the system's allocator.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: as above; the pointer came from `alloc`, hence from the system.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        // A growing block counts as moved; a shrinking one stays where it is.
        let moved = if bytes > layout.size() { layout.size() as isize } else { 0 };
        count(bytes as isize - layout.size() as isize + moved);
        // SAFETY: as above.
        let pointer = unsafe { System.realloc(pointer, layout, bytes) };
        count(-moved);
        pointer
    }
}

/// Runs a function and returns the peak of the bytes that it held in addition.
pub(crate) fn peak<T>(run: impl FnOnce() -> T) -> (T, usize) {
    let before = HELD.with(|held| {
        let [now, _] = held.get();
        held.set([now, now]);
        now
    });
    let value = run();
    let [_, peak] = HELD.with(Cell::get);
    (value, usize::try_from(peak - before).unwrap_or(0))
}
