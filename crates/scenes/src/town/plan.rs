//! The map of a town: quarters between streets, a river through one row of them, a hill in a corner.
//!
//! Coordinates are metres, x east, y north, z up; the town is a square around the origin.

use crate::vec3::{Vec3, smoothstep, vec3};

/// Distance between two street centre lines, m.
pub(crate) const QUARTER: f64 = 40.0;
/// Half the width of the carriageway, m.
pub(crate) const LANE: f64 = 3.2;
/// Distance from a street's centre line to the end of its pavement, m.
pub(crate) const KERB: f64 = 4.6;
/// Half the width of the river, m.
pub(crate) const RIVER: f64 = 5.5;

/// The map: its size and its seed decide everything on it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Plan {
    /// Quarters along each side.
    pub(crate) quarters: i32,
    /// Seed of everything random.
    pub(crate) seed: u32,
}

/// What stands in a quarter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Quarter {
    /// Detached houses with gardens.
    Houses,
    /// Long houses around a yard.
    Blocks,
    /// Flat halls with a car park.
    Halls,
    /// Trees and paths.
    Park,
    /// A paved square with stalls and a church.
    Square,
}

impl Plan {
    /// Half the side of the town, m.
    pub(crate) fn half(&self) -> f64 {
        0.5 * QUARTER * f64::from(self.quarters)
    }

    /// Column or row of the quarter at a coordinate; outside the town, too.
    pub(crate) fn index(&self, at: f64) -> i32 {
        ((at + self.half()) / QUARTER).floor() as i32
    }

    /// Centre of a column or row, m.
    pub(crate) fn centre(&self, index: i32) -> f64 {
        QUARTER * (f64::from(index) + 0.5) - self.half()
    }

    /// What stands in a quarter.
    pub(crate) fn quarter(&self, i: i32, j: i32) -> Quarter {
        if j == self.river_row() {
            return Quarter::Park;
        }
        if (i, j) == (self.quarters / 2, self.quarters / 2) {
            return Quarter::Square;
        }
        match hash(self.seed ^ 0x51, i, j) % 100 {
            0..42 => Quarter::Houses,
            42..70 => Quarter::Blocks,
            70..84 => Quarter::Halls,
            84..94 => Quarter::Park,
            _ => Quarter::Square,
        }
    }

    fn river_row(&self) -> i32 {
        self.quarters / 4
    }

    /// y of the river's middle, m; it stays between two streets.
    pub(crate) fn river(&self, x: f64) -> f64 {
        let phase = unit(hash(self.seed, 3, 5)) * 6.0;
        self.centre(self.river_row()) + 5.0 * libm::sin(x / 31.0 + phase) + 2.5 * libm::sin(x / 13.0)
    }

    /// Distance from the bank, m, negative on the water; about right near it.
    pub(crate) fn beyond_bank(&self, x: f64, y: f64) -> f64 {
        (y - self.river(x)).abs() - RIVER
    }

    /// Centre of the hill on the plane z = 0, its radius there and its height, m.
    pub(crate) fn hill(&self) -> ([f64; 2], f64, f64) {
        let half = self.half();
        ([0.78 * half, 0.8 * half], 25.0 + 0.3 * half.min(150.0), 5.0 + 0.03 * half.min(150.0))
    }

    /// Centre and radius of the ball whose cap is the hill.
    pub(crate) fn hill_ball(&self) -> (Vec3, f64) {
        let ([x, y], base, rise) = self.hill();
        let radius = 0.5 * (base * base + rise * rise) / rise;
        (vec3(x, y, rise - radius), radius)
    }

    /// Height of the ground, m.
    pub(crate) fn height(&self, x: f64, y: f64) -> f64 {
        let (centre, radius) = self.hill_ball();
        let (dx, dy) = (x - centre.x, y - centre.y);
        (centre.z + (radius * radius - dx * dx - dy * dy).max(0.0).sqrt()).max(0.0)
    }
}

/// A hash of two integers.
pub(crate) fn hash(seed: u32, i: i32, j: i32) -> u32 {
    mix((i as u32).wrapping_mul(0x8da6_b343) ^ (j as u32).wrapping_mul(0xd816_3841) ^ mix(seed))
}

/// Mixes the bits of a word (Ettinger 2018, "lowbias32").
fn mix(mut n: u32) -> u32 {
    n ^= n >> 16;
    n = n.wrapping_mul(0x7feb_352d);
    n ^= n >> 15;
    n = n.wrapping_mul(0x846c_a68b);
    n ^ (n >> 16)
}

/// A word as a number in [0, 1).
pub(crate) fn unit(word: u32) -> f64 {
    f64::from(word) * (1.0 / 4_294_967_296.0)
}

/// Gradient noise on the plane, about -0.7..0.7, without a period (Perlin 2002, hashed instead of permuted).
pub(crate) fn noise(x: f64, y: f64, seed: u32) -> f64 {
    let (left, top) = (x.floor(), y.floor());
    let (i, j) = (left as i32, top as i32);
    let (fx, fy) = (x - left, y - top);
    let corner = |a: i32, b: i32| {
        let word = hash(seed, i.wrapping_add(a), j.wrapping_add(b));
        let slope = |bits: u32| f64::from(bits & 0xFFFF) * (2.0 / 65_536.0) - 1.0;
        slope(word) * (fx - f64::from(a)) + slope(word >> 16) * (fy - f64::from(b))
    };
    let mixed = |a: f64, b: f64, t: f64| a + (b - a) * smoothstep(0.0, 1.0, t);
    1.4 * mixed(mixed(corner(0, 0), corner(1, 0), fx), mixed(corner(0, 1), corner(1, 1), fx), fy)
}

/// Random numbers in a fixed order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dice(u32);

impl Dice {
    pub(crate) fn new(seed: u32, i: i32, j: i32) -> Self {
        Self(hash(seed, i, j))
    }

    pub(crate) fn word(&mut self) -> u32 {
        self.0 = self.0.wrapping_add(0x9e37_79b9);
        mix(self.0)
    }

    /// The next number between these two.
    pub(crate) fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * unit(self.word())
    }

    /// Whether the next number in [0, 1) is below `chance`.
    pub(crate) fn happens(&mut self, chance: f64) -> bool {
        unit(self.word()) < chance
    }

    /// One of these.
    pub(crate) fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.word() as usize % of.len()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_river_stays_between_two_streets_and_the_hill_meets_the_plane() {
        for quarters in [2, 4, 9, 23] {
            let plan = Plan { quarters, seed: 7 };
            for x in -600..600 {
                let off = (plan.river(f64::from(x)) - plan.centre(plan.river_row())).abs();
                assert!(off + RIVER < 0.5 * QUARTER - KERB, "{quarters} {x}: {off}");
            }
            let ([x, y], radius, rise) = plan.hill();
            assert!((plan.height(x, y) - rise).abs() < 1e-9);
            assert!(plan.height(x + 0.999 * radius, y) < 0.05 && plan.height(x + 1.001 * radius, y) == 0.0);
        }
    }

    #[test]
    fn noise_is_balanced_smooth_and_does_not_repeat() {
        let (mut sum, mut squares) = (0.0, 0.0);
        for i in 0..4000 {
            let (x, y) = (0.37 * f64::from(i) + 0.13, 0.61 * f64::from(i) + 0.29);
            let value = noise(x, y, 1);
            assert!((noise(x + 1e-3, y, 1) - value).abs() < 0.01);
            assert_ne!(value, noise(x + 256.0, y, 1));
            sum += value;
            squares += value * value;
        }
        // Four standard errors of the mean.
        assert!(
            sum.abs() / 4000.0 < 0.02 && (0.15..0.45).contains(&(squares / 4000.0).sqrt()),
            "{sum} {squares}"
        );
    }
}
