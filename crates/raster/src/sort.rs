//! Stage `sort`: sorts the visible splats by depth.
//!
//! A stable radix sort, least significant digit first, on the upper 32 bits of the keys: positive floats order like
//! their bits. Keys arrive in splat order, so equal depths stay in splat order. There are three passes of 11 bits (2
//! 048 counters fit into the first-level cache).
//!
//! Several threads divide the keys into chunks: each chunk counts its digits, prefix sums over (digit, chunk) give
//! every chunk its target positions, and each chunk moves its keys. The result of a stable sort is unique, so any
//! number of chunks gives the same order. A single thread counts the digits of all passes in one pass instead.

use std::sync::atomic::Ordering;

use gausset_compute::Pool;
use gausset_compute::scatter::as_atomics;

/// Bits per pass.
const DIGIT_BITS: u32 = 11;
const BUCKETS: usize = 1 << DIGIT_BITS;
const PASSES: u32 = 3;

/// Fewer keys than this are sorted before another thread has woken up.
const MIN_CHUNK_KEYS: usize = 8192;
/// The number of counters grows with the chunks, and the prefix sums over them are serial.
const MAX_CHUNKS: usize = 32;

/// Number of keys with each digit; then the target position of the next key with this digit.
type Counts = [u32; BUCKETS];

/// Number of chunks for sorting `keys` keys on `threads` threads; 1 = a single thread sorts.
#[must_use]
pub fn chunk_count(keys: usize, threads: usize) -> usize {
    if threads == 1 { 1 } else { (keys / MIN_CHUNK_KEYS).min(2 * threads).clamp(1, MAX_CHUNKS) }
}

/// Number of passes that move these keys: one for each digit in which they differ.
#[must_use]
pub fn sort_passes(keys: &[u64]) -> u32 {
    let differs = |pass| keys.iter().any(|&key| digit(key, pass) != digit(keys[0], pass));
    (0..PASSES).filter(|&pass| differs(pass)).count() as u32
}

/// Sorts `keys` by their upper 32 bits, stably; `scratch` is resized to hold as many.
pub fn sort_by_depth(pool: &Pool, keys: &mut Vec<u64>, scratch: &mut Vec<u64>) {
    scratch.resize(keys.len(), 0);
    match chunk_count(keys.len(), pool.threads()) {
        1 => sort_serial(keys, scratch),
        chunks => sort_in_chunks(pool, chunks, keys, scratch),
    }
}

fn sort_serial(keys: &mut Vec<u64>, scratch: &mut Vec<u64>) {
    let mut counts = vec![[0; BUCKETS]; PASSES as usize];
    for &key in keys.iter() {
        for (pass, count) in counts.iter_mut().enumerate() {
            count[digit(key, pass as u32)] += 1;
        }
    }
    for (pass, count) in counts.iter_mut().enumerate() {
        if counts_to_offsets(std::slice::from_mut(count), keys.len()) {
            for &key in keys.iter() {
                let place = &mut count[digit(key, pass as u32)];
                scratch[*place as usize] = key;
                *place += 1;
            }
            std::mem::swap(keys, scratch);
        }
    }
}

fn sort_in_chunks(pool: &Pool, chunks: usize, keys: &mut Vec<u64>, scratch: &mut Vec<u64>) {
    let chunk_len = keys.len().div_ceil(chunks);
    let mut counts: Vec<Counts> = vec![[0; BUCKETS]; chunks];
    for pass in 0..PASSES {
        let chunk_of = |chunk: usize| {
            let start = (chunk * chunk_len).min(keys.len());
            &keys[start..(start + chunk_len).min(keys.len())]
        };
        pool.run_parts(&mut counts, |chunk, count| {
            count.fill(0);
            for &key in chunk_of(chunk) {
                count[digit(key, pass)] += 1;
            }
        });
        if counts_to_offsets(&mut counts, keys.len()) {
            let places = as_atomics(scratch);
            pool.run_parts(&mut counts, |chunk, count| {
                for &key in chunk_of(chunk) {
                    let place = &mut count[digit(key, pass)];
                    places[*place as usize].store(key, Ordering::Relaxed);
                    *place += 1;
                }
            });
            std::mem::swap(keys, scratch);
        }
    }
}

/// Converts the counts of all chunks to target positions, digit by digit and within a digit chunk by chunk. Returns
/// false if all keys share the digit: moving them would only copy them.
fn counts_to_offsets(counts: &mut [Counts], keys: usize) -> bool {
    let mut next = 0;
    for digit in 0..BUCKETS {
        let first = next;
        for count in counts.iter_mut() {
            let here = count[digit];
            count[digit] = next;
            next += here;
        }
        if (next - first) as usize == keys {
            return false;
        }
    }
    true
}

#[inline(always)]
fn digit(key: u64, pass: u32) -> usize {
    (key >> (32 + pass * DIGIT_BITS)) as usize & (BUCKETS - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gausset_compute::rng;

    /// Keys in splat order; with few distinct depths there are ties.
    fn keys(len: u32, depths: u32) -> Vec<u64> {
        (0..len)
            .map(|i| {
                let w = rng::philox(1, rng::stream::TEST, 0, i);
                let depth = 0.01 + rng::uniform((w[0] % depths) << 20) * 100.0;
                u64::from(depth.to_bits()) << 32 | u64::from(i)
            })
            .collect()
    }

    #[test]
    fn passes_move_keys_where_a_digit_differs_and_threads_share_enough_of_them() {
        let of = |depth_bits: [u32; 2]| depth_bits.map(|bits| u64::from(bits) << 32);
        assert_eq!(sort_passes(&[]), 0);
        assert_eq!(sort_passes(&of([7, 7])), 0);
        assert_eq!(sort_passes(&of([0, 1])), 1);
        assert_eq!(sort_passes(&of([0, 1 << 11 | 1])), 2);
        assert_eq!(sort_passes(&of([0, 1 << 31 | 1 << 11 | 1])), 3);
        // The lower half of a key is the index of a splat.
        assert_eq!(sort_passes(&[0, 1]), 0);
        assert_eq!(
            [0, MIN_CHUNK_KEYS, 2 * MIN_CHUNK_KEYS, 100 * MIN_CHUNK_KEYS].map(|n| chunk_count(n, 2)),
            [1, 1, 2, 4]
        );
        assert_eq!(chunk_count(100 * MIN_CHUNK_KEYS, 1), 1);
    }

    #[test]
    fn keys_come_out_by_depth_and_equal_depths_keep_their_order_on_any_number_of_threads() {
        let chunk = MIN_CHUNK_KEYS as u32;
        for threads in [1, 2, 5] {
            let pool = Pool::new(threads);
            for len in [0, 1, 2, 1000, 2 * chunk - 1, 2 * chunk, 5 * chunk + 3, 50_001] {
                for depths in [1, 2, 512, 4096] {
                    let mut found = keys(len, depths);
                    let mut expected = found.clone();
                    expected.sort_by_key(|key| key >> 32);
                    sort_by_depth(&pool, &mut found, &mut Vec::new());
                    assert_eq!(found, expected, "{threads} threads, {len} keys, {depths} depths");
                }
            }
        }
    }
}
