//! Matches between the features of two panoramas: mutual nearest neighbours that pass the ratio test (Lowe 2004,
//! section 7.1).
//!
//! Descriptors are integers, so distances do not depend on the order of summation. Features of the second panorama are
//! compared in lanes, those of the first in blocks whose sums fit into registers, like a product of matrices: each
//! instruction multiplies and adds two elements of every lane.

use gausset_compute::{Exec, at_level};

use crate::reconstruction::features::DESCRIPTOR_LENGTH;

/// Largest ratio of the distances to the nearest and the second nearest neighbour.
const MAX_RATIO: f64 = 0.8;
/// Largest squared distance of a match (descriptors have length 512).
const MAX_SQUARED_DISTANCE: i32 = (0.49 * 512.0 * 512.0) as i32;
/// Features of the first panorama per task.
const FEATURES_PER_TASK: usize = 256;
/// Features of the second panorama that are compared at a time.
const LANES: usize = 8;
/// Features of the first panorama that are compared with them.
const BLOCK: usize = 8;
/// Pairs of elements of a descriptor.
const PAIRS: usize = DESCRIPTOR_LENGTH / 2;
/// Squared norm of the features that fill up the last lanes: farther than any other, without overflow.
const FAR: i32 = 1 << 28;

/// A pair of elements of [`LANES`] descriptors.
type PairLanes = [i16; 2 * LANES];

/// Descriptors as 16-bit numbers, [`LANES`] at a time, for comparison.
pub(crate) struct WideDescriptors {
    count: usize,
    panels: Vec<[PairLanes; PAIRS]>,
    /// Squared norms.
    squares: Vec<[i32; LANES]>,
}

impl WideDescriptors {
    pub(crate) fn new(descriptors: &[[u8; DESCRIPTOR_LENGTH]]) -> Self {
        let (mut panels, mut squares) = (Vec::new(), Vec::new());
        for part in descriptors.chunks(LANES) {
            let (mut panel, mut norms) = ([[0; 2 * LANES]; PAIRS], [FAR; LANES]);
            for (lane, row) in part.iter().enumerate() {
                for (pairs, two) in panel.iter_mut().zip(row.as_chunks::<2>().0) {
                    pairs[2 * lane] = i16::from(two[0]);
                    pairs[2 * lane + 1] = i16::from(two[1]);
                }
                norms[lane] = row.iter().map(|&v| i32::from(v) * i32::from(v)).sum();
            }
            panels.push(panel);
            squares.push(norms);
        }
        Self { count: descriptors.len(), panels, squares }
    }
}

/// Nearest neighbour in the second panorama of a feature of the first: squared distances of it and of the next one.
#[derive(Clone, Copy)]
struct NearestNeighbour {
    distance: i32,
    second_distance: i32,
    index: u32,
}

/// Matches (feature of `a`, feature of `b`), those with the least ratio of distances first.
pub(crate) fn mutual_matches(a: &WideDescriptors, b: &WideDescriptors, exec: Exec<'_>) -> Vec<[u32; 2]> {
    if b.count < 2 {
        return Vec::new();
    }
    let parts = a.count.div_ceil(FEATURES_PER_TASK);
    // For each part: the nearest neighbour of each of its features, and the nearest of them for each feature of `b`.
    let found = exec.pool.map(parts, |part| {
        let range = part * FEATURES_PER_TASK..((part + 1) * FEATURES_PER_TASK).min(a.count);
        at_level!(exec.level, _simd => nearest_of(a, range, b))
    });
    let mut back = vec![(i32::MAX, 0u32); b.count];
    for (_, columns) in &found {
        for (best, &(distance, at)) in back.iter_mut().zip(columns) {
            if distance < best.0 {
                *best = (distance, at);
            }
        }
    }
    let rows = found.iter().flat_map(|(rows, _)| rows);
    let is_match = |at: usize, nearest: &NearestNeighbour| {
        let far = MAX_RATIO * MAX_RATIO * f64::from(nearest.second_distance);
        nearest.distance <= MAX_SQUARED_DISTANCE
            && f64::from(nearest.distance) < far
            && back[nearest.index as usize].1 as usize == at
    };
    let mut matches: Vec<(f64, [u32; 2])> = rows
        .enumerate()
        .filter(|(at, nearest)| is_match(*at, nearest))
        .map(|(at, n)| (f64::from(n.distance) / f64::from(n.second_distance), [at as u32, n.index]))
        .collect();
    // The sort is stable: of equal ones the earlier first.
    matches.sort_by(|a, b| a.0.total_cmp(&b.0));
    matches.into_iter().map(|(_, pair)| pair).collect()
}

#[inline(always)]
fn nearest_of(
    a: &WideDescriptors,
    range: std::ops::Range<usize>,
    b: &WideDescriptors,
) -> (Vec<NearestNeighbour>, Vec<(i32, u32)>) {
    let mut rows = Vec::with_capacity(range.len());
    let mut columns = vec![([i32::MAX; LANES], [0u32; LANES]); b.panels.len()];
    let mut queries = vec![[[0; 2 * LANES]; BLOCK]; PAIRS];
    for first in range.clone().step_by(BLOCK) {
        let count = BLOCK.min(range.end - first);
        // Features that fill up the last block are far from all others.
        let mut norms = [FAR; BLOCK];
        for query in 0..count {
            let (panel, lane) = ((first + query) / LANES, (first + query) % LANES);
            norms[query] = a.squares[panel][lane];
            for (out, pairs) in queries.iter_mut().zip(&a.panels[panel]) {
                out[query].as_chunks_mut().0.fill([pairs[2 * lane], pairs[2 * lane + 1]]);
            }
        }
        let mut best = [[i32::MAX; LANES]; BLOCK];
        let mut second = [[i32::MAX; LANES]; BLOCK];
        let mut index = [[0u32; LANES]; BLOCK];
        for (at, (panel, squares)) in (0u32..).zip(b.panels.iter().zip(&b.squares)) {
            let products = products(&queries, panel);
            let mut column = columns[at as usize];
            for query in 0..BLOCK {
                // Copies, and masks in place of branches: compilers make vectors of these.
                let (mut least, mut next, mut place) = (best[query], second[query], index[query]);
                let number = (first + query) as u32;
                for lane in 0..LANES {
                    let sum = norms[query].wrapping_add(squares[lane]);
                    let distance = sum.wrapping_sub(products[query][lane].wrapping_mul(2));
                    next[lane] = next[lane].min(least[lane].max(distance));
                    place[lane] = chosen(distance < least[lane], at, place[lane]);
                    least[lane] = least[lane].min(distance);
                    column.1[lane] = chosen(distance < column.0[lane], number, column.1[lane]);
                    column.0[lane] = column.0[lane].min(distance);
                }
                (best[query], second[query], index[query]) = (least, next, place);
            }
            columns[at as usize] = column;
        }
        for query in 0..count {
            rows.push(nearest_lane(&best[query], &second[query], &index[query]));
        }
    }
    let columns = columns.into_iter().flat_map(|(distances, at)| distances.into_iter().zip(at));
    (rows, columns.take(b.count).collect())
}

/// `a` if the condition holds, else `b`.
#[inline(always)]
fn chosen(condition: bool, a: u32, b: u32) -> u32 {
    let mask = u32::from(condition).wrapping_neg();
    (a & mask) | (b & !mask)
}

/// Products of a block with a panel.
#[inline(always)]
fn products(queries: &[[PairLanes; BLOCK]], panel: &[PairLanes; PAIRS]) -> [[i32; LANES]; BLOCK] {
    let mut sums = [[0i32; LANES]; BLOCK];
    for (block, pairs) in queries.iter().zip(panel) {
        for query in 0..BLOCK {
            // The form that compilers know as one instruction (`pmaddwd`). At most 128 * 255^2; `wrapping` only avoids
            // overflow checks in test builds, which would prevent vectorisation.
            let mut both = [0i32; 2 * LANES];
            for k in 0..2 * LANES {
                both[k] = i32::from(block[query][k]).wrapping_mul(i32::from(pairs[k]));
            }
            for lane in 0..LANES {
                let pair = both[2 * lane].wrapping_add(both[2 * lane + 1]);
                sums[query][lane] = sums[query][lane].wrapping_add(pair);
            }
        }
    }
    sums
}

/// The nearest neighbour over all lanes; of equal ones the first.
fn nearest_lane(best: &[i32; LANES], second: &[i32; LANES], panel: &[u32; LANES]) -> NearestNeighbour {
    let mut nearest = NearestNeighbour { distance: i32::MAX, second_distance: i32::MAX, index: 0 };
    for lane in 0..LANES {
        let (distance, index) = (best[lane], panel[lane] * LANES as u32 + lane as u32);
        let is_nearer = (distance, index) < (nearest.distance, nearest.index);
        let farther = if is_nearer { nearest.distance } else { distance };
        nearest.second_distance = nearest.second_distance.min(farther).min(second[lane]);
        if is_nearer {
            (nearest.distance, nearest.index) = (distance, index);
        }
    }
    nearest
}

#[cfg(test)]
mod tests {
    use super::*;
    use gausset_compute::rng::philox4x32;
    use gausset_compute::{Pool, SimdLevel, dispatch_level};

    fn noise(seed: u32, count: u32) -> Vec<[u8; DESCRIPTOR_LENGTH]> {
        let byte = |k: u32, i: usize| (philox4x32([k, i as u32, 0, 0], [seed, 7])[0] >> 26) as u8;
        (0..count).map(|k| std::array::from_fn(|i| byte(k, i))).collect()
    }

    /// The same result by brute force.
    fn by_hand(a: &[[u8; DESCRIPTOR_LENGTH]], b: &[[u8; DESCRIPTOR_LENGTH]]) -> Vec<[u32; 2]> {
        let distance = |x: &[u8; DESCRIPTOR_LENGTH], y: &[u8; DESCRIPTOR_LENGTH]| -> i32 {
            x.iter().zip(y).map(|(&x, &y)| (i32::from(x) - i32::from(y)).pow(2)).sum()
        };
        let order = |x: &[u8; DESCRIPTOR_LENGTH], list: &[[u8; DESCRIPTOR_LENGTH]]| {
            let mut all: Vec<(i32, usize)> = list.iter().map(|y| distance(x, y)).zip(0..).collect();
            all.sort_unstable();
            all
        };
        let mut found = Vec::new();
        for (i, x) in a.iter().enumerate() {
            let nearest = order(x, b);
            let (best, next) = (nearest[0], nearest[1]);
            let stands_out = f64::from(best.0) < MAX_RATIO * MAX_RATIO * f64::from(next.0);
            if best.0 <= MAX_SQUARED_DISTANCE && stands_out && order(&b[best.1], a)[0].1 == i {
                found.push((f64::from(best.0) / f64::from(next.0), [i as u32, best.1 as u32]));
            }
        }
        found.sort_by(|a, b| a.0.total_cmp(&b.0));
        found.into_iter().map(|(_, pair)| pair).collect()
    }

    #[test]
    fn matches_are_those_of_the_definition_on_any_threads_and_levels() {
        let a = noise(1, 603);
        let mut b = noise(2, 410);
        // Some of them again with small changes; one of them twice, so that it fails the ratio test.
        for k in 0..90 {
            b[4 * k] = a[6 * k + 1].map(|v| v + u8::from(v % 3 == 0));
        }
        b[401] = b[0];
        let wanted = by_hand(&a, &b);
        assert!(wanted.len() >= 85 && wanted.iter().all(|pair| pair[0] != 1), "{}", wanted.len());
        let (a, b) = (WideDescriptors::new(&a), WideDescriptors::new(&b));
        for threads in [1, 3] {
            let pool = Pool::new(threads);
            for level in SimdLevel::ALL.into_iter().filter_map(dispatch_level) {
                assert_eq!(mutual_matches(&a, &b, Exec { pool: &pool, level }), wanted);
            }
        }
    }
}
