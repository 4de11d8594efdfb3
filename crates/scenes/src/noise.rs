//! Gradient noise (Perlin 2002, "Improving noise") over a permutation drawn from the scene's seed.

use gausset_compute::rng;

use crate::vec3::{Vec3, vec3};

/// Smooth random functions of space.
#[derive(Clone, Debug)]
pub struct Noise {
    permutation: [u8; 256],
}

impl Noise {
    /// The noise of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let mut permutation = std::array::from_fn(|i| i as u8);
        rng::shuffle(&mut permutation, seed, rng::stream::SCENE, 0);
        Self { permutation }
    }

    fn at(&self, i: i64) -> i64 {
        i64::from(self.permutation[(i & 255) as usize])
    }

    /// A fixed random number in [0, 1) for a pair of integers, in steps of 1/256.
    #[must_use]
    pub fn cell(&self, i: i64, j: i64) -> f64 {
        self.at(self.at(i) + j) as f64 / 256.0
    }

    /// Gradient noise: about -0.9..0.9, mean 0, features of size 1.
    #[must_use]
    pub fn value(&self, p: Vec3) -> f64 {
        let floor = p.map(f64::floor);
        let f = p - floor;
        let (i, j, k) = (floor.x as i64, floor.y as i64, floor.z as i64);
        let fade = |t: f64| t * t * t * (t * (t * 6.0 - 15.0) + 10.0);
        let (u, v, w) = (fade(f.x), fade(f.y), fade(f.z));
        let corner = |a: i64, b: i64, c: i64| {
            let hash = self.at(self.at(self.at(i + a) + j + b) + k + c);
            gradient_dot(hash, f - vec3(a as f64, b as f64, c as f64))
        };
        let mix = |a: f64, b: f64, t: f64| a + (b - a) * t;
        let edge = |b: i64, c: i64| mix(corner(0, b, c), corner(1, b, c), u);
        let face = |c: i64| mix(edge(0, c), edge(1, c), v);
        mix(face(0), face(1), w)
    }

    /// Sum of octaves of [`Self::value`], each of half the size and half the amplitude of the previous one.
    #[must_use]
    pub fn octaves(&self, p: Vec3, octaves: u32) -> f64 {
        let (mut sum, mut p, mut height) = (0.0, p, 1.0);
        for _ in 0..octaves {
            sum += height * self.value(p);
            // The offset keeps the lattices of the octaves from coinciding at the origin.
            p = p * 2.0 + vec3(17.3, -9.1, 5.7);
            height *= 0.5;
        }
        sum
    }
}

/// Product of `d` with one of the twelve directions to the edges of a cube.
fn gradient_dot(hash: i64, d: Vec3) -> f64 {
    let h = hash & 15;
    let u = if h < 8 { d.x } else { d.y };
    let v = if h < 4 {
        d.y
    } else if h == 12 || h == 14 {
        d.x
    } else {
        d.z
    };
    (if h & 1 == 0 { u } else { -u }) + (if h & 2 == 0 { v } else { -v })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noise_is_zero_on_the_lattice_smooth_and_balanced() {
        let noise = Noise::new(3);
        assert_eq!(noise.value(vec3(4.0, -7.0, 2.0)), 0.0);
        let mut sum = 0.0;
        for i in 0..4000 {
            let p = vec3(0.37, 0.61, 0.29) * f64::from(i);
            let here = noise.value(p);
            assert!(here.abs() <= 1.1);
            // The slope of gradient noise is bounded: it cannot jump within 1e-3.
            assert!((noise.value(p + vec3(1e-3, 0.0, 0.0)) - here).abs() < 5e-3);
            sum += here;
        }
        // 4000 values of standard deviation about 0.3, nearly independent: four standard errors.
        assert!(sum.abs() / 4000.0 < 0.02, "{sum}");
    }

    #[test]
    fn seeds_differ() {
        let p = vec3(0.4, 0.3, 0.2);
        assert_ne!(Noise::new(1).value(p), Noise::new(2).value(p));
    }
}
