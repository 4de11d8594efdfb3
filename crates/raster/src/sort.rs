//! Stage `sort`: the visible splats by depth.
//!
//! A stable radix sort, least significant digit first, on the upper 32 bits of the keys: positive floats order like
//! their bits. Keys arrive in splat order, so equal depths stay in splat order. Three passes of 11 bits (2 048
//! counters fit the first-level cache).

/// Bits per pass.
const DIGIT_BITS: u32 = 11;
const BUCKETS: usize = 1 << DIGIT_BITS;
const PASSES: u32 = 3;

/// Sorts `keys` by their upper 32 bits, stably; `scratch` is resized to hold as many.
pub fn sort_by_depth(keys: &mut Vec<u64>, scratch: &mut Vec<u64>) {
    scratch.resize(keys.len(), 0);
    let mut counts = vec![[0u32; BUCKETS]; PASSES as usize];
    for &key in keys.iter() {
        for (pass, count) in counts.iter_mut().enumerate() {
            count[digit(key, pass as u32)] += 1;
        }
    }
    for (pass, count) in counts.iter_mut().enumerate() {
        // A pass in which all keys share the digit would copy them unchanged.
        if count.iter().any(|&c| c as usize == keys.len()) {
            continue;
        }
        let mut sum = 0;
        for c in count.iter_mut() {
            let here = *c;
            *c = sum;
            sum += here;
        }
        for &key in keys.iter() {
            let slot = &mut count[digit(key, pass as u32)];
            scratch[*slot as usize] = key;
            *slot += 1;
        }
        std::mem::swap(keys, scratch);
    }
}

#[inline(always)]
fn digit(key: u64, pass: u32) -> usize {
    (key >> (32 + pass * DIGIT_BITS)) as usize & (BUCKETS - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gausset_compute::rng;

    #[test]
    fn keys_come_out_by_depth_and_equal_depths_keep_their_order() {
        for n in [0u32, 1, 2, 1000, 5000] {
            let mut keys: Vec<u64> = (0..n)
                .map(|i| {
                    let w = rng::philox(1, rng::stream::TEST, 0, i);
                    // Few distinct depths, so that there are ties.
                    let depth = 0.01 + rng::uniform((w[0] % 512) << 20) * 100.0;
                    u64::from(depth.to_bits()) << 32 | u64::from(i)
                })
                .collect();
            let mut expected = keys.clone();
            expected.sort_by_key(|k| k >> 32);
            sort_by_depth(&mut keys, &mut Vec::new());
            assert_eq!(keys, expected);
        }
    }
}
