//! Morton order: splats that are near in space become near in memory.
//!
//! The bounding box of the finite means is divided into 1024 cells along each axis (Morton 1966; 10 bits per axis fit a
//! 32-bit key); the code of a cell interleaves the bits of its coordinates, x lowest. The sort is stable, so the order
//! is a function of the means and the previous order, for any number of threads.

use gausset_compute::Pool;

/// Bits per axis.
pub const BITS: u32 = 10;

/// Code of a splat whose mean is not finite; it sorts after all others.
pub const NOT_FINITE: u32 = u32::MAX;

/// Splats per task; a constant, so that the partition does not depend on the number of threads.
const CHUNK: usize = 16_384;

/// Spreads the lowest 10 bits of `v` so that two zero bits follow each.
#[must_use]
#[inline]
pub const fn spread(v: u32) -> u32 {
    let v = v & 0x3FF;
    let v = (v | v << 16) & 0x0300_00FF;
    let v = (v | v << 8) & 0x0300_F00F;
    let v = (v | v << 4) & 0x030C_30C3;
    (v | v << 2) & 0x0924_9249
}

/// The 30-bit code of a cell: bit `3k` is bit `k` of x, `3k + 1` of y, `3k + 2` of z.
///
/// ```
/// use gausset_density::morton::interleave;
///
/// assert_eq!([[1, 0, 0], [0, 1, 0], [0, 0, 1], [2, 0, 0]].map(interleave), [1, 2, 4, 8]);
/// ```
#[must_use]
#[inline]
pub const fn interleave(cell: [u32; 3]) -> u32 {
    spread(cell[0]) | spread(cell[1]) << 1 | spread(cell[2]) << 2
}

/// The grid over the bounding box of points.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Grid {
    /// Lowest corner, scene units.
    pub low: [f64; 3],
    /// Cells per scene unit; 0 along an axis without extent.
    pub cells_per_unit: [f64; 3],
}

impl Grid {
    /// The grid over the finite points; an arbitrary grid if there are none.
    #[must_use]
    pub fn enclosing(points: &[[f32; 3]]) -> Self {
        let mut low = [f32::INFINITY; 3];
        let mut high = [f32::NEG_INFINITY; 3];
        for point in points.iter().filter(|p| is_finite(p)) {
            for k in 0..3 {
                low[k] = low[k].min(point[k]);
                high[k] = high[k].max(point[k]);
            }
        }
        // f64, because the extent of two f32 can overflow f32.
        let extent: [f64; 3] = std::array::from_fn(|k| f64::from(high[k]) - f64::from(low[k]));
        Self {
            low: low.map(f64::from),
            cells_per_unit: extent.map(|e| if e > 0.0 { f64::from(1u32 << BITS) / e } else { 0.0 }),
        }
    }

    /// The code of a point, [`NOT_FINITE`] if a coordinate is not finite.
    #[must_use]
    #[inline]
    pub fn code(&self, point: [f32; 3]) -> u32 {
        if !is_finite(&point) {
            return NOT_FINITE;
        }
        let last = (1u32 << BITS) - 1;
        // `as` saturates; the upper face of the box belongs to the last cell.
        interleave(std::array::from_fn(|k| {
            (((f64::from(point[k]) - self.low[k]) * self.cells_per_unit[k]) as u32).min(last)
        }))
    }
}

/// The indices of `points` in Morton order; equal codes keep their order.
///
/// ```
/// use gausset_compute::Pool;
///
/// let points = [[9.0, 0.0, 0.0], [f32::NAN; 3], [0.0; 3], [5.0, 0.0, 0.0]];
/// assert_eq!(gausset_density::morton::order(&points, &Pool::new(1)), [2, 3, 0, 1]);
/// ```
#[must_use]
pub fn order(points: &[[f32; 3]], pool: &Pool) -> Vec<u32> {
    let grid = Grid::enclosing(points);
    // Code in the high bits, index in the low bits: sorting these numbers is a stable sort by code.
    let mut keys = vec![0u64; points.len()];
    pool.run_chunks(&mut keys, CHUNK, |chunk, keys| {
        let first = chunk * CHUNK;
        for (i, (key, &point)) in keys.iter_mut().zip(&points[first..]).enumerate() {
            *key = u64::from(grid.code(point)) << 32 | (first + i) as u64;
        }
    });
    keys.sort_unstable();
    keys.into_iter().map(|key| key as u32).collect()
}

#[inline]
fn is_finite(point: &[f32; 3]) -> bool {
    point.iter().all(|v| v.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_interleave_bits_with_x_lowest() {
        assert_eq!(interleave([1, 0, 0]), 0b001);
        assert_eq!(interleave([0, 1, 0]), 0b010);
        assert_eq!(interleave([0, 0, 1]), 0b100);
        assert_eq!(interleave([0b10, 0b11, 0]), 0b011_010);
        assert_eq!(interleave([1023; 3]), (1 << 30) - 1);
        for bit in 0..BITS {
            assert_eq!(spread(1 << bit), 1 << (3 * bit));
        }
    }

    #[test]
    fn corners_of_a_cube_come_in_z_order_and_ties_keep_their_order() {
        let corner = |i: u32| [(i & 1) as f32, (i >> 1 & 1) as f32, (i >> 2) as f32];
        let points: Vec<[f32; 3]> = (0..8).rev().chain(0..8).map(corner).collect();
        let expected: Vec<u32> = (0..8).flat_map(|i| [7 - i, 8 + i]).collect();
        for threads in [1, 3] {
            assert_eq!(order(&points, &Pool::new(threads)), expected);
        }
    }

    #[test]
    fn points_that_are_not_finite_come_last_and_do_not_stretch_the_box() {
        let points = [[f32::NAN, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, f32::INFINITY, 0.0], [0.0; 3]];
        assert_eq!(order(&points, &Pool::new(1)), [3, 1, 0, 2]);
        assert_eq!(Grid::enclosing(&points).cells_per_unit, [1024.0, 0.0, 0.0]);
    }

    #[test]
    fn extents_that_overflow_f32_and_empty_sets_are_fine() {
        let points = [[f32::MAX, 0.0, 0.0], [0.0; 3], [f32::MIN, 0.0, 0.0]];
        assert_eq!(order(&points, &Pool::new(1)), [2, 1, 0]);
        assert!(order(&[], &Pool::new(1)).is_empty());
    }
}
