//! Software prefetch.
//!
//! Lists of splats are walked in an order that no hardware prefetcher can predict, and a miss costs as much as a
//! hundred vector operations. A hint changes no result: on CPUs without one of these instructions it does nothing.

/// Bytes of a cache line on every common CPU (a wrong value only costs speed).
const LINE: usize = 64;

/// Prefetches the cache lines of `values[index]`; does nothing if the index is out of range.
#[inline(always)]
pub fn prefetch<T>(values: &[T], index: usize) {
    let Some(value) = values.get(index) else { return };
    let start = std::ptr::from_ref(value).cast::<u8>();
    prefetch_line(start);
    // A value that straddles two lines needs both.
    if (start as usize % LINE) + size_of::<T>() > LINE {
        prefetch_line(start.wrapping_add(size_of::<T>() - 1));
    }
}

#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
#[inline(always)]
fn prefetch_line(address: *const u8) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: a prefetch is a hint that never faults, whatever the address; SSE is part of x86-64.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) }
}

#[cfg(target_arch = "aarch64")]
#[allow(unsafe_code)]
#[inline(always)]
fn prefetch_line(address: *const u8) {
    // SAFETY: a prefetch is a hint that never faults, whatever the address; it changes neither memory nor flags.
    unsafe {
        std::arch::asm!("prfm pldl1keep, [{0}]", in(reg) address, options(nostack, preserves_flags, readonly));
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
#[inline(always)]
fn prefetch_line(_address: *const u8) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_inside_at_the_end_and_beyond_a_slice_change_nothing() {
        let values: Vec<[f32; 12]> = (0..100).map(|i| [i as f32; 12]).collect();
        let before = values.clone();
        for index in [0, 1, 50, 99, 100, usize::MAX] {
            prefetch(&values, index);
        }
        prefetch::<u64>(&[], 0);
        assert_eq!(values, before);
    }
}
