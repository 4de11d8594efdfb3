//! An allocator that gives every large allocation its own memory map, in huge pages.
//!
//! Splats with their moments take hundreds of megabytes, and density control reallocates them. Two things follow:
//!
//! - With pages of 4 KiB, a third of that time is spent in page faults of fresh memory. Linux gives pages of 2 MiB to
//!   programs that request them (`transparent_hugepage = madvise`, the usual setting).
//! - An allocator that keeps freed memory, as glibc does below 32 MiB, retains holes into which the next allocation
//!   does not fit: a fifth of a run's memory. A separate map returns to the system when it is freed.
//!
//! On other systems than Linux this is the system's allocator and nothing else.

use std::alloc::{GlobalAlloc, Layout, System};

/// The system's allocator, with separate maps in huge pages for large allocations:
/// `#[global_allocator] static A: HugePages = HugePages;`.
#[derive(Clone, Copy, Debug, Default)]
pub struct HugePages;

// SAFETY: a small allocation is passed to `System`. A large one is a private map that starts at a multiple of the huge
// page, holds at least `layout.size()` bytes, and is used by nothing else until it is unmapped. Which of the two an
// allocation is follows from its layout alone, and the caller passes that layout again to free or grow it.
#[allow(unsafe_code)]
unsafe impl GlobalAlloc for HugePages {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if maps::is_large(layout) {
            return maps::map(layout.size());
        }
        // SAFETY: the caller's promises are those that `System` asks for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if maps::is_large(layout) {
            return maps::map(layout.size()); // fresh pages are zero
        }
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller promises that `size`, rounded up to the alignment, is no more than `isize::MAX`.
        let new = unsafe { Layout::from_size_align_unchecked(size, layout.align()) };
        // SAFETY: `memory` has `layout`, by the caller's promise; the copy stays inside both allocations, which are
        // different ones.
        unsafe {
            match (maps::is_large(layout), maps::is_large(new)) {
                (false, false) => System.realloc(memory, layout, size),
                (true, true) => maps::remap(memory, layout.size(), size),
                _ => {
                    let moved = self.alloc(new);
                    if !moved.is_null() {
                        std::ptr::copy_nonoverlapping(memory, moved, layout.size().min(size));
                        self.dealloc(memory, layout);
                    }
                    moved
                }
            }
        }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller passes the layout of the allocation, so each kind returns to where it was allocated.
        unsafe {
            if maps::is_large(layout) {
                maps::unmap(memory, layout.size());
            } else {
                System.dealloc(memory, layout);
            }
        }
    }
}

#[cfg(target_os = "linux")]
mod maps {
    use std::alloc::Layout;

    use rustix::mm::{Advice, MapFlags, MremapFlags, ProtFlags, madvise, mmap_anonymous, mremap, munmap};

    /// Allocations from this size on get their own map: two huge pages.
    const LARGE: usize = 4 << 20;
    const HUGE_PAGE: usize = 2 << 20;
    /// Every page size of Linux divides this.
    const LARGEST_PAGE: usize = 64 << 10;

    pub(super) fn is_large(layout: Layout) -> bool {
        layout.size() >= LARGE && layout.align() <= LARGEST_PAGE
    }

    /// Size in bytes of the map for `size` bytes.
    fn map_size(size: usize) -> usize {
        size.next_multiple_of(LARGEST_PAGE)
    }

    /// Creates a map for `size` bytes, all zero, that starts at a multiple of [`HUGE_PAGE`]; null if there is no
    /// memory.
    #[allow(unsafe_code)]
    pub(super) fn map(size: usize) -> *mut u8 {
        let size = map_size(size);
        let Some(wide) = size.checked_add(HUGE_PAGE) else { return std::ptr::null_mut() };
        // SAFETY: a private map without a given address overlaps nothing; only its two ends are unmapped, which are not
        // in use; advice changes no content and may be refused.
        unsafe {
            let (access, kind) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
            let Ok(start) = mmap_anonymous(std::ptr::null_mut(), wide, access, kind) else {
                return std::ptr::null_mut();
            };
            let skipped = (start as usize).next_multiple_of(HUGE_PAGE) - start as usize;
            let memory = start.wrapping_byte_add(skipped);
            if skipped > 0 {
                let _ = munmap(start, skipped);
            }
            if skipped < HUGE_PAGE {
                let _ = munmap(memory.wrapping_byte_add(size), HUGE_PAGE - skipped);
            }
            advise(memory.cast(), size);
            memory.cast()
        }
    }

    /// Resizes the map at `memory`, keeping its content; returns null, with nothing changed, if there is no memory.
    ///
    /// # Safety
    /// `memory` is a map for `size` bytes of [`map`] or of this function.
    #[allow(unsafe_code)]
    pub(super) unsafe fn remap(memory: *mut u8, size: usize, new: usize) -> *mut u8 {
        let (size, new) = (map_size(size), map_size(new));
        // SAFETY: by the caller's promise; the system moves the pages if they do not fit where they are.
        unsafe {
            match mremap(memory.cast(), size, new, MremapFlags::MAYMOVE) {
                Ok(moved) => {
                    advise(moved.cast(), new);
                    moved.cast()
                }
                Err(_) => std::ptr::null_mut(),
            }
        }
    }

    /// # Safety
    /// `memory` is a map for `size` bytes of [`map`] or [`remap`], and is no longer used.
    #[allow(unsafe_code)]
    pub(super) unsafe fn unmap(memory: *mut u8, size: usize) {
        // SAFETY: by the caller's promise.
        let _ = unsafe { munmap(memory.cast(), map_size(size)) };
    }

    /// Requests huge pages. The whole map is advised, including an end that fills no huge page: advice for a part would
    /// split the map in two, and only a single map can be grown.
    ///
    /// # Safety
    /// The range is one whole map.
    #[allow(unsafe_code)]
    unsafe fn advise(memory: *mut u8, size: usize) {
        // SAFETY: by the caller's promise; advice may be refused, which is fine.
        let _ = unsafe { madvise(memory.cast(), size, Advice::LinuxHugepage) };
    }
}

/// On systems without such maps, no allocation is large.
#[cfg(not(target_os = "linux"))]
mod maps {
    use std::alloc::Layout;

    pub(super) fn is_large(_layout: Layout) -> bool {
        false
    }

    pub(super) fn map(_size: usize) -> *mut u8 {
        std::ptr::null_mut()
    }

    // SAFETY: unsafe only to have the same signature as on Linux; nothing is accessed.
    #[allow(unsafe_code)]
    pub(super) unsafe fn remap(_memory: *mut u8, _size: usize, _new: usize) -> *mut u8 {
        std::ptr::null_mut()
    }

    // SAFETY: as above.
    #[allow(unsafe_code)]
    pub(super) unsafe fn unmap(_memory: *mut u8, _size: usize) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[allow(unsafe_code)]
    fn memory_of_any_size_keeps_what_was_written_through_growing_and_shrinking() {
        let layout = |size| Layout::from_size_align(size, 64).unwrap();
        let sizes = [1, 4096, (4 << 20) - 1, 4 << 20, (4 << 20) + 1, (13 << 20) + 5];
        for (from, to) in sizes.iter().flat_map(|&a| sizes.iter().map(move |&b| (a, b))) {
            let kept = from.min(to);
            // SAFETY: the layouts have sizes, every access is inside the allocation, and the memory is freed with its
            // layout.
            unsafe {
                let memory = HugePages.alloc_zeroed(layout(from));
                assert!(!memory.is_null() && (memory as usize).is_multiple_of(64));
                assert_eq!((memory.read(), memory.add(from - 1).read()), (0, 0));
                memory.write(7);
                memory.add(kept - 1).write(9);
                let moved = HugePages.realloc(memory, layout(from), to);
                assert!(!moved.is_null() && (moved as usize).is_multiple_of(64));
                assert_eq!(moved.add(kept - 1).read(), 9, "{from} to {to}");
                assert!(kept == 1 || moved.read() == 7, "{from} to {to}");
                moved.add(to - 1).write(8);
                HugePages.dealloc(moved, layout(to));
            }
        }
    }

    #[test]
    #[allow(unsafe_code)]
    fn an_allocation_that_no_machine_can_hold_is_refused_with_null() {
        let layout = Layout::from_size_align(isize::MAX as usize - 4096, 64).unwrap();
        // SAFETY: the layout has a size; nothing is read.
        assert!(unsafe { HugePages.alloc(layout) }.is_null());
    }
}
