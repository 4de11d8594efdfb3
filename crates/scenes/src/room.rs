//! A procedural room, seen by a panoramic camera on a closed path: for tests with known poses and colours.
//!
//! ```text
//! box of half extents (3, 1.5, 4) m with three square pillars; x right, y down, z forward
//! path      o(a) = (1.71 sin a, 0.1 sin 3a, 1.3 cos a - 0.2), a = 2π k/N; heading 0.35 k rad
//! colour    octaves of 3-D value noise on a lattice of hashes, contrast 2.2 about the middle, dark spots
//! ```
//! Where the path crosses a pillar, the camera sees through it: a ray hits a pillar only where it enters it.

use std::f64::consts::{PI, TAU};

use gausset_compute::Pool;
use gausset_core::{Pose, RgbImage8, se3};

/// Half extents of the room, m.
const HALF_EXTENTS: [f64; 3] = [3.0, 1.5, 4.0];
/// Pillars from floor to ceiling: x, z, half width, m.
const PILLARS: [[f64; 3]; 3] = [[-1.2, 1.0, 0.35], [1.3, -1.4, 0.30], [0.2, 2.6, 0.40]];
/// Cells per metre and amplitude of the octaves.
const OCTAVES: [(f64, f64); 5] = [(1.3, 0.35), (3.1, 0.25), (8.0, 0.2), (21.0, 0.15), (47.0, 0.1)];

/// Appearance of the walls.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Room {
    /// Number of the five octaves that are used, from the coarsest.
    pub octaves: usize,
    /// Whether there are dark spots with sharp rims.
    pub has_spots: bool,
    /// Whether there are pillars, at whose edges the colour is discontinuous.
    pub has_pillars: bool,
    /// Seed of the wall pattern.
    pub seed: u32,
}

impl Room {
    /// Detail down to an eighth of a metre with sharp spots: suitable for registration, with little aliasing in
    /// panoramas of 2048 px.
    pub const FOR_REGISTRATION: Self = Self { octaves: 3, has_spots: true, has_pillars: true, seed: 0 };
    /// Two octaves without sharp edges: sampled without loss, so that only geometric errors remain.
    pub const SMOOTH: Self = Self { octaves: 2, has_spots: false, has_pillars: false, seed: 0 };

    /// Colour, 0 to 1, of the wall that a ray from inside the room hits.
    #[must_use]
    pub fn colour(&self, origin: [f64; 3], direction: [f64; 3]) -> [f64; 3] {
        let distance = distance(origin, direction, if self.has_pillars { &PILLARS } else { &[] });
        let p = [0, 1, 2].map(|i| origin[i] + distance * direction[i]);
        let used = &OCTAVES[..self.octaves.min(OCTAVES.len())];
        let sum: f64 = used.iter().map(|(_, height)| height).sum();
        let seeded = |seed: u32| seed.wrapping_add(self.seed.wrapping_mul(1009));
        let shade = if self.has_spots && noise(p, 5.0, seeded(99)) > 0.62 { 0.35 } else { 1.0 };
        let mut out = [0.0; 3];
        for (channel, out) in (0u32..).zip(&mut out) {
            let octave = |&(frequency, height): &(f64, f64)| {
                height * noise(p, frequency, seeded(7 * channel + frequency as u32))
            };
            let value = used.iter().map(octave).sum::<f64>() / sum;
            *out = (((value - 0.5) * 2.2 + 0.5) * shade).clamp(0.0, 1.0);
        }
        out
    }

    /// The panorama of a pose (`pano_from_world`), `width` x `width / 2` px: longitude increases to the right starting
    /// from behind, latitude upwards.
    #[must_use]
    pub fn panorama(&self, width: u32, pose: &Pose, pool: &Pool) -> RgbImage8 {
        let (w, h) = (f64::from(width), f64::from(width / 2));
        self.picture([width, width / 2], pose, pool, &|u, v| {
            let (longitude, latitude) = ((2.0 * u / w - 1.0) * PI, (0.5 - v / h) * PI);
            let across = libm::cos(latitude);
            [across * libm::sin(longitude), -libm::sin(latitude), across * libm::cos(longitude)]
        })
    }

    /// An image from rays in panorama axes, given by a function of the continuous position (x, y).
    #[must_use]
    pub fn picture(
        &self,
        [width, height]: [u32; 2],
        pano_from_world: &Pose,
        pool: &Pool,
        ray: &(dyn Fn(f64, f64) -> [f64; 3] + Sync),
    ) -> RgbImage8 {
        let origin = pano_from_world.centre();
        let mut picture = RgbImage8::new(width, height);
        pool.run_chunks(&mut picture.data, 3 * width as usize, |y, row| {
            for (x, pixel) in row.chunks_exact_mut(3).enumerate() {
                let ray = ray(x as f64 + 0.5, y as f64 + 0.5);
                let colour = self.colour(origin, se3::transpose_mul_vec(&pano_from_world.rotation, ray));
                for (out, value) in pixel.iter_mut().zip(colour) {
                    *out = (255.0 * value + 0.5) as u8;
                }
            }
        });
        picture
    }
}

/// `pano_from_world` of frame `k` of `count` on the path.
#[must_use]
pub fn pose(k: usize, count: usize) -> Pose {
    let a = TAU * k as f64 / count as f64;
    let centre = [1.71 * libm::sin(a), 0.1 * libm::sin(3.0 * a), 1.3 * libm::cos(a) - 0.2];
    let heading = 0.35 * k as f64;
    let (sin, cos) = (libm::sin(heading), libm::cos(heading));
    let rotation = [[cos, 0.0, -sin], [0.0, 1.0, 0.0], [sin, 0.0, cos]];
    let translation = se3::mul_vec(&rotation, centre).map(|v| -v);
    Pose { rotation, translation }
}

/// Distance along a ray to the first hit.
fn distance(origin: [f64; 3], direction: [f64; 3], pillars: &[[f64; 3]]) -> f64 {
    let mut nearest = f64::INFINITY;
    for i in 0..3 {
        if direction[i] != 0.0 {
            nearest = nearest.min((HALF_EXTENTS[i].copysign(direction[i]) - origin[i]) / direction[i]);
        }
    }
    for &[x, z, half] in pillars {
        let mut enter = f64::NEG_INFINITY;
        let mut leave = f64::INFINITY;
        for (at, o, d) in [(x, origin[0], direction[0]), (z, origin[2], direction[2])] {
            // A ray parallel to a side gives infinities of the correct signs.
            let (a, b) = ((at - half - o) / d, (at + half - o) / d);
            enter = enter.max(a.min(b));
            leave = leave.min(a.max(b));
        }
        if enter > 0.0 && enter < leave {
            nearest = nearest.min(enter);
        }
    }
    nearest
}

/// Value noise of `frequency` cells per metre, 0 to 1.
fn noise(p: [f64; 3], frequency: f64, seed: u32) -> f64 {
    let p = p.map(|v| v * frequency);
    let cell = p.map(f64::floor);
    let [u, v, w] = [0, 1, 2].map(|i| {
        let t = p[i] - cell[i];
        t * t * (3.0 - 2.0 * t)
    });
    let [i, j, k] = cell.map(|c| c as i64 as u32);
    let mix = |a: f64, b: f64, t: f64| a + (b - a) * t;
    let at = |a: u32, b: u32, c: u32| lattice(i.wrapping_add(a), j.wrapping_add(b), k.wrapping_add(c), seed);
    let edge = |b: u32, c: u32| mix(at(0, b, c), at(1, b, c), u);
    let face = |c: u32| mix(edge(0, c), edge(1, c), v);
    mix(face(0), face(1), w)
}

fn lattice(x: u32, y: u32, z: u32, seed: u32) -> f64 {
    let mut n = x.wrapping_mul(0x8da6_b343)
        ^ y.wrapping_mul(0xd816_3841)
        ^ z.wrapping_mul(0xcb1a_b31f)
        ^ seed.wrapping_mul(0x9e37_79b9);
    n ^= n >> 16;
    n = n.wrapping_mul(0x7feb_352d);
    n ^= n >> 15;
    n = n.wrapping_mul(0x846c_a68b);
    n ^= n >> 16;
    f64::from(n >> 8) / f64::from(1u32 << 24)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rays_end_at_walls_and_pillars() {
        let d = |o, r| distance(o, r, &PILLARS);
        assert_eq!(d([0.0; 3], [1.0, 0.0, 0.0]), 3.0);
        assert_eq!(d([0.0; 3], [0.0, -1.0, 0.0]), 1.5);
        // Straight ahead from x = 0.2: the third pillar begins at z = 2.2.
        assert!((d([0.2, 0.0, 0.0], [0.0, 0.0, 1.0]) - 2.2).abs() < 1e-12);
        // From inside a pillar it is not hit.
        assert!((d([-1.2, 0.0, 1.0], [0.0, 0.0, 1.0]) - 3.0).abs() < 1e-12);
    }

    #[test]
    fn frames_stand_on_the_path() {
        for k in 0..8 {
            let pose = pose(k, 8);
            let a = TAU * k as f64 / 8.0;
            let centre = pose.centre();
            assert!(
                (centre[0] - 1.71 * a.sin()).abs() < 1e-12
                    && (centre[1] - 0.1 * (3.0 * a).sin()).abs() < 1e-12
            );
        }
        // Heading 0.35: the panorama's centre points 0.35 rad to the right of z.
        let ahead = se3::transpose_mul_vec(&pose(1, 8).rotation, [0.0, 0.0, 1.0]);
        assert!((ahead[0] - 0.35f64.sin()).abs() < 1e-12 && (ahead[2] - 0.35f64.cos()).abs() < 1e-12);
    }
}
