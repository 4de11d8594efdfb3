//! Matches between the features of two panoramas: mutual nearest neighbours that pass the ratio test (Lowe 2004,
//! section 7.1).
//!
//! Descriptors are integers, so distances do not depend on the order of summation.

use gausset_compute::{Exec, at_level};

use crate::reconstruction::features::DESCRIPTOR_LENGTH;

/// Largest ratio of the distances to the nearest and the second nearest neighbour.
const MAX_RATIO: f64 = 0.8;
/// Largest squared distance of a match (descriptors have length 512).
const MAX_SQUARED_DISTANCE: i32 = (0.49 * 512.0 * 512.0) as i32;
/// Features of the first panorama per task.
const FEATURES_PER_TASK: usize = 256;
/// Features of the first panorama that are compared with the same feature of the second at a time.
const BLOCK: usize = 4;

/// Descriptors widened to 16 bits for comparison.
pub(crate) struct WideDescriptors {
    rows: Vec<[i16; DESCRIPTOR_LENGTH]>,
    /// Squared norms.
    squares: Vec<i32>,
}

impl WideDescriptors {
    pub(crate) fn new(descriptors: &[[u8; DESCRIPTOR_LENGTH]]) -> Self {
        let rows: Vec<[i16; DESCRIPTOR_LENGTH]> = descriptors.iter().map(|row| row.map(i16::from)).collect();
        let square = |row: &[i16; DESCRIPTOR_LENGTH]| row.iter().map(|&v| i32::from(v) * i32::from(v)).sum();
        let squares = rows.iter().map(square).collect();
        Self { rows, squares }
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
    if b.rows.len() < 2 {
        return Vec::new();
    }
    let parts = a.rows.len().div_ceil(FEATURES_PER_TASK);
    // For each part: the nearest neighbour of each of its features, and the nearest of them for each feature of `b`.
    let found = exec.pool.map(parts, |part| {
        let range = part * FEATURES_PER_TASK..((part + 1) * FEATURES_PER_TASK).min(a.rows.len());
        at_level!(exec.level, _simd => nearest_of(a, range, b))
    });
    let mut back = vec![(i32::MAX, 0u32); b.rows.len()];
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
    let mut rows =
        vec![NearestNeighbour { distance: i32::MAX, second_distance: i32::MAX, index: 0 }; range.len()];
    let mut columns = vec![(i32::MAX, 0u32); b.rows.len()];
    for first in range.clone().step_by(BLOCK) {
        // The last block repeats its last feature.
        let of: [usize; BLOCK] = std::array::from_fn(|k| (first + k).min(range.end - 1));
        let queries: [&[i16; DESCRIPTOR_LENGTH]; BLOCK] = of.map(|at| &a.rows[at]);
        for (at, ((row, &square), column)) in b.rows.iter().zip(&b.squares).zip(&mut columns).enumerate() {
            let products = queries.map(|query| dot(query, row));
            for k in 0..BLOCK {
                let distance = a.squares[of[k]].wrapping_add(square).wrapping_sub(2 * products[k]);
                let best = &mut rows[of[k] - range.start];
                if distance < best.second_distance && best.index != at as u32 || distance < best.distance {
                    if distance < best.distance {
                        *best =
                            NearestNeighbour { distance, second_distance: best.distance, index: at as u32 };
                    } else {
                        best.second_distance = distance;
                    }
                }
                if distance < column.0 {
                    *column = (distance, of[k] as u32);
                }
            }
        }
    }
    (rows, columns)
}

#[inline(always)]
fn dot(a: &[i16; DESCRIPTOR_LENGTH], b: &[i16; DESCRIPTOR_LENGTH]) -> i32 {
    // At most 128 * 255^2. `wrapping` only avoids overflow checks in test builds, which would prevent vectorisation.
    let mut sum = 0i32;
    for k in 0..DESCRIPTOR_LENGTH {
        sum = sum.wrapping_add(i32::from(a[k]).wrapping_mul(i32::from(b[k])));
    }
    sum
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
