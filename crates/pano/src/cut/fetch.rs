//! Stage 2 of sampling: loads the four taps of each pixel, without a bounds check per load.
//!
//! Sampling is bound by the latency of these loads, and the fewer instructions between them, the more loads are in
//! flight at once: with a check per load a view takes 18.5 ms, without 14.1 ms (7680 px to 1920 px, the CPU of
//! `research/benchmarks-log.md`). The range of a row's indices is checked once, vectorised, before the loop.
#![allow(unsafe_code)]

/// Loads the pair of samples at each index and the pair one row below.
///
/// `upper[k] = data[i] | data[i + 1] << 8` for `i = index[k]`, and `lower[k]` the same at `i + stride`. If any index
/// would read outside `data`, all pairs become zero; valid tables have no such index.
pub(crate) fn load_pairs(data: &[u8], stride: usize, index: &[i32], upper: &mut [u16], lower: &mut [u16]) {
    let (mut low, mut high) = (i32::MAX, 0i32);
    for &i in index {
        low = low.min(i);
        high = high.max(i);
    }
    let count = index.len();
    let is_inside = low >= 0 && (high as usize).saturating_add(stride).saturating_add(2) <= data.len();
    if !is_inside || upper.len() != count || lower.len() != count {
        upper.fill(0);
        lower.fill(0);
        return;
    }
    for ((&i, upper), lower) in index.iter().zip(upper).zip(lower) {
        let at = i as usize;
        debug_assert!(at + stride + 2 <= data.len());
        // SAFETY: 0 <= low <= i <= high and high + stride + 2 <= data.len(), checked above: both pairs lie inside
        // `data`. The reads are of arrays of bytes, which have no alignment.
        unsafe {
            let first = data.as_ptr().add(at);
            *upper = u16::from_le_bytes(first.cast::<[u8; 2]>().read());
            *lower = u16::from_le_bytes(first.add(stride).cast::<[u8; 2]>().read());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_those_of_the_indices_and_nothing_outside_is_read() {
        let data: Vec<u8> = (0..40).collect();
        let (mut upper, mut lower) = ([9; 3], [9; 3]);
        load_pairs(&data, 10, &[0, 7, 28], &mut upper, &mut lower);
        let pair = |i: u16| i | (i + 1) << 8;
        assert_eq!(upper, [pair(0), pair(7), pair(28)]);
        assert_eq!(lower, [pair(10), pair(17), pair(38)]);
        for bad in [[0, 7, 29], [-1, 0, 0], [i32::MAX, 0, 0]] {
            load_pairs(&data, 10, &bad, &mut upper, &mut lower);
            assert_eq!((upper, lower), ([0; 3], [0; 3]));
        }
        load_pairs(&[], 10, &[0, 0, 0], &mut upper, &mut lower);
        assert_eq!(upper, [0; 3]);
    }
}
