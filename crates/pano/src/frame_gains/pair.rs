//! Matches the corners of two frames and compares their light.
//!
//! A surface has different distance and angle in the two frames. Without alignment its patches cover slightly different
//! parts, and their light differs by 10 to 20 %. Each pair is aligned in both directions, because a corner is at a
//! pixel centre only in its own frame: one direction alone drifts by 0.001 stops per frame.

use super::corner::{AREA, Corner, REACH, Shown, normalise, places};
use crate::equalise::robust_mean;
use crate::motion::solve;

/// Minimum correlation of a match, and minimum margin over the second best.
const ALIKE: f32 = 0.8;
const CLEARLY: f32 = 0.02;
/// Maximum deviation of a match's displacement from that of most, degrees.
const AGREE_DEGREES: f64 = 15.0;
/// Minimum number of matches.
const FEWEST: usize = 16;
/// Maximum Gauss-Newton steps of an alignment, and the step below which it ends, in samples.
const STEPS: usize = 12;
const STILL: f32 = 0.01;
/// Maximum shift, in samples, and maximum stretch or shear of an alignment; beyond them the match is rejected.
const FAR: f32 = 3.0;
const STRETCH: f32 = 0.6;
/// Minimum correlation after alignment.
const SAME: f32 = 0.9;
/// Minimum number of samples whose light is valid in both frames.
const KNOWN: usize = AREA / 4;

/// Brightness ratio of two frames.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Ratio {
    /// log2 of the ratio, of red, green and blue.
    pub(super) stops: [f64; 3],
    /// Number of matches that it is the mean of.
    pub(super) weight: f64,
}

/// Compares two frames; `None` if there are too few matches.
pub(super) fn ratio(a: &Shown, b: &Shown) -> Option<Ratio> {
    let mut ratios: [Vec<f64>; 3] = Default::default();
    for (one, other) in pairs(a, b) {
        // Both directions: the corner is exact in one frame and only matched in the other.
        let there = align(a, one, b, other).and_then(|affine| stops(a, one, b, other, affine));
        let back = align(b, other, a, one).and_then(|affine| stops(b, other, a, one, affine));
        if let (Some(there), Some(back)) = (there, back) {
            for (c, ratios) in ratios.iter_mut().enumerate() {
                ratios.push(0.5 * (there[c] - back[c]));
            }
        }
    }
    let weight = ratios[0].len() as f64;
    let mut stops = [0.0; 3];
    for (stops, ratios) in stops.iter_mut().zip(&mut ratios) {
        *stops = robust_mean(ratios, FEWEST)?;
    }
    Some(Ratio { stops, weight })
}

/// Best match of a corner among those of another frame.
#[derive(Clone, Copy)]
struct Best {
    alike: f32,
    /// Correlation of the second best.
    next: f32,
    at: usize,
}

impl Best {
    const NONE: Self = Self { alike: -1.0, next: -1.0, at: 0 };

    fn see(&mut self, alike: f32, at: usize) {
        if alike > self.alike {
            *self = Self { alike, next: self.alike, at };
        } else if alike > self.next {
            self.next = alike;
        }
    }

    fn is_clear(&self) -> bool {
        self.alike > ALIKE && self.alike - self.next > CLEARLY
    }
}

/// Mutual best matches whose displacement agrees with most.
fn pairs<'a>(a: &'a Shown, b: &'a Shown) -> Vec<(&'a Corner, &'a Corner)> {
    let (mut there, mut back) = (vec![Best::NONE; a.corners.len()], vec![Best::NONE; b.corners.len()]);
    for (i, (one, there)) in a.corners.iter().zip(&mut there).enumerate() {
        for (j, (other, back)) in b.corners.iter().zip(&mut back).enumerate() {
            let alike = one.alike(other);
            there.see(alike, j);
            back.see(alike, i);
        }
    }
    let mutual = there.iter().enumerate().filter(|(i, best)| {
        best.is_clear() && back.get(best.at).is_some_and(|other| other.is_clear() && other.at == *i)
    });
    let pairs: Vec<(&Corner, &Corner)> =
        mutual.map(|(i, best)| (&a.corners[i], &b.corners[best.at])).collect();
    // A rotation of the camera shifts all longitudes equally and translation only by some degrees: take the mode.
    let moved = |(a, b): &(&Corner, &Corner)| (b.longitude - a.longitude).rem_euclid(360.0);
    let apart = |a: f64, b: f64| {
        let difference = (a - b).rem_euclid(360.0);
        difference.min(360.0 - difference)
    };
    let agree = |turn: f64| pairs.iter().filter(move |pair| apart(moved(pair), turn) < AGREE_DEGREES);
    let Some(turn) = pairs.iter().map(moved).max_by_key(|&turn| agree(turn).count()) else { return pairs };
    agree(turn).filter(|(a, b)| (a.latitude - b.latitude).abs() < AGREE_DEGREES).copied().collect()
}

/// Affine warp from one patch to the other: `[x', y'] = [[1 + p0, p1], [p3, 1 + p4]] [x, y] + [p2, p5]`.
#[derive(Clone, Copy, Debug, Default)]
struct Affine([f32; 6]);

impl Affine {
    fn of(&self, [x, y]: [f32; 2]) -> [f32; 2] {
        let p = &self.0;
        [x + p[0] * x + p[1] * y + p[2], y + p[3] * x + p[4] * y + p[5]]
    }

    /// Composition of this warp with the inverse of a small one.
    fn after_inverse(&self, small: [f32; 6]) -> Option<Self> {
        let [a, b, c, d, e, f] = small;
        let determinant = (1.0 + a) * (1.0 + e) - b * d;
        if determinant.abs() < 0.1 {
            return None;
        }
        let scale = 1.0 / determinant;
        // The inverse as a matrix and a translation.
        let m = [scale * (1.0 + e), -scale * b, -scale * d, scale * (1.0 + a)];
        let t = [-(m[0] * c + m[1] * f), -(m[2] * c + m[3] * f)];
        let p = &self.0;
        let n = [1.0 + p[0], p[1], p[3], 1.0 + p[4]];
        Some(Self([
            n[0] * m[0] + n[1] * m[2] - 1.0,
            n[0] * m[1] + n[1] * m[3],
            n[0] * t[0] + n[1] * t[1] + p[2],
            n[2] * m[0] + n[3] * m[2],
            n[2] * m[1] + n[3] * m[3] - 1.0,
            n[2] * t[0] + n[3] * t[1] + p[5],
        ]))
    }

    fn is_near(&self) -> bool {
        let p = &self.0;
        let stretch = [p[0], p[1], p[3], p[4]].iter().all(|v| v.abs() < STRETCH);
        stretch && p[2].abs() < FAR && p[5].abs() < FAR
    }
}

/// Aligns the patches of two corners: Gauss-Newton of the differences of normalised luma with the gradients of the
/// first (inverse compositional, Baker and Matthews 2004). `None` if they do not match.
fn align(a: &Shown, one: &Corner, b: &Shown, other: &Corner) -> Option<Affine> {
    const SIDE: usize = 2 * REACH as usize + 1;
    const RIMMED: usize = SIDE + 2;
    let mut rimmed = [0.0f32; RIMMED * RIMMED];
    for (at, out) in rimmed.iter_mut().enumerate() {
        let rim = (REACH + 1) as f32;
        *out = a.luma(one, [(at % RIMMED) as f32 - rim, (at / RIMMED) as f32 - rim]);
    }
    let mut wanted = [0.0f32; AREA];
    let mut slopes = [[0.0f32; AREA]; 6];
    for (k, [x, y]) in places().enumerate() {
        let at = |dx: usize, dy: usize| rimmed[(k / SIDE + dy) * RIMMED + k % SIDE + dx];
        wanted[k] = at(1, 1);
        let (gx, gy) = (0.5 * (at(2, 1) - at(0, 1)), 0.5 * (at(1, 2) - at(1, 0)));
        for (slope, value) in slopes.iter_mut().zip([gx * x, gx * y, gx, gy * x, gy * y, gy]) {
            slope[k] = value;
        }
    }
    let length = normalise(&mut wanted);
    for slope in &mut slopes {
        let mean = slope.iter().sum::<f32>() / AREA as f32;
        slope.iter_mut().for_each(|v| *v = (*v - mean) / length);
        // Remove the component along the patch, since contrast is normalised.
        let along: f32 = slope.iter().zip(&wanted).map(|(a, b)| a * b).sum();
        slope.iter_mut().zip(&wanted).for_each(|(v, w)| *v -= along * w);
    }
    let mut matrix = [[0.0f64; 6]; 6];
    for i in 0..6 {
        for j in 0..6 {
            matrix[i][j] = slopes[i].iter().zip(&slopes[j]).map(|(a, b)| f64::from(a * b)).sum();
        }
    }
    let trace: f64 = (0..6).map(|i| matrix[i][i]).sum();
    // Damping keeps undetermined parameters unchanged.
    for (i, row) in matrix.iter_mut().enumerate() {
        row[i] += 1e-5 * trace;
    }
    let mut affine = Affine::default();
    let mut seen = [0.0f32; AREA];
    for _ in 0..STEPS {
        for (seen, at) in seen.iter_mut().zip(places()) {
            *seen = b.luma(other, affine.of(at));
        }
        normalise(&mut seen);
        let right: [f64; 6] = std::array::from_fn(|i| {
            let all = slopes[i].iter().zip(&seen).zip(&wanted);
            all.map(|((slope, seen), wanted)| f64::from(slope * (seen - wanted))).sum()
        });
        let step = solve(matrix, right)?.map(|v| v as f32);
        affine = affine.after_inverse(step)?;
        if !affine.is_near() {
            return None;
        }
        // Largest motion of a sample at the border.
        let rim = REACH as f32;
        let along = |k: usize| rim * (step[k].abs() + step[k + 1].abs()) + step[k + 2].abs();
        if along(0).max(along(3)) < STILL {
            break;
        }
    }
    let alike: f32 = seen.iter().zip(&wanted).map(|(a, b)| a * b).sum();
    (alike > SAME).then_some(affine)
}

/// log2 of the ratio of the linear light of two aligned patches, per channel.
fn stops(a: &Shown, one: &Corner, b: &Shown, other: &Corner, affine: Affine) -> Option<[f64; 3]> {
    let (mut sums, mut known) = ([[0.0f32; 2]; 3], 0);
    for at in places() {
        let (x, y) = (a.light(one, at), b.light(other, affine.of(at)));
        if x[0].is_nan() || y[0].is_nan() {
            continue;
        }
        known += 1;
        for c in 0..3 {
            sums[c] = [sums[c][0] + x[c], sums[c][1] + y[c]];
        }
    }
    (known >= KNOWN).then(|| sums.map(|[x, y]| f64::from(libm::log2f(x / y))))
}
