//! Procedural panoramas, for benchmarks and tests.
//!
//! [`detailed`]: noise of several scales over longitude and latitude, with sharp-edged structures, in the amount that
//! makes a 7680x3840 JPEG (4:2:0, quality 95) 11 to 13 MB large, like those of real cameras.

use gausset_compute::Pool;

fn hash(x: u32, y: u32, seed: u32) -> u32 {
    let mut n = x.wrapping_mul(0x8da6_b343) ^ y.wrapping_mul(0xd816_3841) ^ seed.wrapping_mul(0x9e37_79b9);
    n ^= n >> 16;
    n = n.wrapping_mul(0x7feb_352d);
    n ^= n >> 15;
    n = n.wrapping_mul(0x846c_a68b);
    n ^ (n >> 16)
}

/// Smooth noise of cells of `cell` px, periodic after `width` px; -1..1.
fn noise(x: f32, y: f32, cell: f32, width: f32, seed: u32) -> f32 {
    let (u, v) = (x / cell, y / cell);
    let (i, j) = (u.floor(), v.floor());
    let around = (width / cell).round().max(1.0) as i64;
    let smooth = |t: f32| t * t * (3.0 - 2.0 * t);
    let (fu, fv) = (smooth(u - i), smooth(v - j));
    let at = |di: i64, dj: i64| {
        let column = (i as i64 + di).rem_euclid(around) as u32;
        (hash(column, (j as i64 + dj) as u32, seed) >> 8) as f32 / 8_388_608.0 - 1.0
    };
    let top = at(0, 0) + (at(1, 0) - at(0, 0)) * fu;
    let bottom = at(0, 1) + (at(1, 1) - at(0, 1)) * fu;
    top + (bottom - top) * fv
}

/// Luma of the detailed panorama at full-size pixel coordinates.
fn luma(x: f32, y: f32, width: f32, seed: u32) -> u8 {
    let scale = width / 7680.0;
    let octave = |cell: f32, s: u32| noise(x, y, cell * scale, width, seed.wrapping_mul(31) + s);
    let shape = octave(240.0, 1) * 50.0 + octave(60.0, 2) * 26.0;
    let texture = 0.5 + 0.5 * octave(480.0, 3);
    let fine = (octave(15.0, 4) * 18.0 + octave(5.0, 5) * 15.0) * texture;
    let grain = ((hash(x as u32, y as u32, seed + 9) >> 24) as f32 - 127.5) * 0.07;
    // Edges, as in masonry.
    let edge = if octave(96.0, 6) > 0.25 { 22.0 } else { 0.0 };
    (118.0 + shape + fine + grain + edge).clamp(0.0, 255.0) as u8
}

fn chroma(x: f32, y: f32, width: f32, seed: u32) -> u8 {
    let scale = width / 7680.0;
    let octave = |cell: f32, s: u32| noise(x, y, cell * scale, width, seed.wrapping_mul(37) + s);
    (128.0 + octave(200.0, 11) * 34.0 + octave(24.0, 12) * 10.0).clamp(0.0, 255.0) as u8
}

/// A detailed panorama of `width` x `width / 2` px, both even, in 4:2:0 planes: luma, then blue and red differences at
/// half the size (full-range BT.601), row-major.
#[must_use]
pub fn detailed(width: usize, seed: u32, pool: &Pool) -> [Vec<u8>; 3] {
    let scale = width as f32;
    let plane = |step: usize, value: &(dyn Fn(f32, f32) -> u8 + Sync)| {
        let mut plane = vec![0; width / step * (width / 2 / step)];
        pool.run_chunks(&mut plane, width / step, |y, row| {
            for (x, out) in row.iter_mut().enumerate() {
                *out = value((step * x) as f32, (step * y) as f32);
            }
        });
        plane
    };
    [
        plane(1, &|x, y| luma(x, y, scale, seed)),
        plane(2, &|x, y| chroma(x, y, scale, seed)),
        plane(2, &|x, y| chroma(x, y, scale, seed + 101)),
    ]
}
