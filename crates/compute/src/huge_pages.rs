//! An allocator that asks for huge pages where an allocation is large.
//!
//! Splats with their moments take hundreds of megabytes, and a change of the set lays them out anew: in pages of 4 KiB
//! a third of that time goes into faults of fresh memory. Linux gives pages of 2 MiB to whoever asks
//! (`transparent_hugepage = madvise`, the usual setting); elsewhere this is the system's allocator and nothing else.

use std::alloc::{GlobalAlloc, Layout, System};

/// Allocations from this size on are advised: two huge pages, so that at least one is whole.
#[cfg(target_os = "linux")]
const LARGE: usize = 4 << 20;

/// The system's allocator with huge pages for large allocations: `#[global_allocator] static A: HugePages = HugePages;`.
#[derive(Clone, Copy, Debug, Default)]
pub struct HugePages;

// SAFETY: every call goes to `System` as it is, and what `System` returns is returned; advice about pages changes
// neither the address nor the content of memory.
#[allow(unsafe_code)]
unsafe impl GlobalAlloc for HugePages {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promises are those that `System` asks for.
        advised(unsafe { System.alloc(layout) }, layout.size())
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        advised(unsafe { System.alloc_zeroed(layout) }, layout.size())
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as above.
        advised(unsafe { System.realloc(memory, layout, size) }, size)
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: as above; `memory` came from `System`.
        unsafe { System.dealloc(memory, layout) }
    }
}

/// `memory`, after asking for huge pages inside it.
#[cfg(target_os = "linux")]
#[allow(unsafe_code)]
#[inline]
fn advised(memory: *mut u8, size: usize) -> *mut u8 {
    /// The smallest page of any Linux machine divides this; only whole huge pages are of use anyway.
    const HUGE_PAGE: usize = 2 << 20;
    if size >= LARGE && !memory.is_null() {
        let skipped = memory.align_offset(HUGE_PAGE);
        let whole = size.saturating_sub(skipped) / HUGE_PAGE * HUGE_PAGE;
        if whole > 0 {
            // SAFETY: the range lies inside the allocation, which is mapped. The advice may be refused, which is fine.
            let _ = unsafe {
                rustix::mm::madvise(
                    memory.wrapping_add(skipped).cast(),
                    whole,
                    rustix::mm::Advice::LinuxHugepage,
                )
            };
        }
    }
    memory
}

#[cfg(not(target_os = "linux"))]
#[inline]
fn advised(memory: *mut u8, _size: usize) -> *mut u8 {
    memory
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[allow(unsafe_code)]
    fn memory_of_any_size_keeps_what_was_written_through_growing_and_shrinking() {
        for size in [1, 4096, (4 << 20) - 1, 4 << 20, (13 << 20) + 5] {
            let layout = Layout::from_size_align(size, 64).unwrap();
            // SAFETY: `layout` has a size, every access lies inside it, and the memory is given back with its layout.
            unsafe {
                let memory = HugePages.alloc_zeroed(layout);
                assert!(!memory.is_null() && (memory as usize).is_multiple_of(64));
                assert_eq!((memory.read(), memory.add(size - 1).read()), (0, 0));
                memory.write(7);
                let grown = HugePages.realloc(memory, layout, size + (9 << 20));
                assert_eq!(grown.read(), 7);
                grown.add(size + (9 << 20) - 1).write(8);
                let layout = Layout::from_size_align(size + (9 << 20), 64).unwrap();
                let small = HugePages.realloc(grown, layout, 1);
                assert_eq!(small.read(), 7);
                HugePages.dealloc(small, Layout::from_size_align(1, 64).unwrap());
            }
        }
    }
}
