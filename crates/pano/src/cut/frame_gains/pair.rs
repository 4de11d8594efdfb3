//! Matches the corners of two frames and compares their light.
//!
//! A surface has different distance and angle in the two frames. Without alignment its patches cover slightly different
//! parts, and their light differs by 10 to 20 %. Each pair is aligned in both directions, because a corner is at a
//! pixel centre only in its own frame: one direction alone drifts by 0.001 stops per frame.

use super::corner::{AREA, DescribedFeature, FrameFeatures, HALF_PATCH, normalise, patch_offsets};
use crate::choose::motion::solve_linear;
use crate::cut::equalise::robust_mean;

/// Minimum correlation of a match, and minimum margin over the second best.
const MIN_CORRELATION: f32 = 0.8;
const MIN_MARGIN: f32 = 0.02;
/// Maximum deviation of a match's displacement from that of most, degrees.
const MAX_DEVIATION_DEGREES: f64 = 15.0;
/// Minimum number of matches.
const MIN_MATCHES: usize = 16;
/// Maximum Gauss-Newton steps of an alignment, and the step below which it ends, in samples.
const MAX_STEPS: usize = 12;
const CONVERGED_STEP: f32 = 0.01;
/// Maximum shift, in samples, and maximum stretch or shear of an alignment; beyond them the match is rejected.
const MAX_SHIFT: f32 = 3.0;
const MAX_STRETCH: f32 = 0.6;
/// Minimum correlation after alignment.
const MIN_ALIGNED_CORRELATION: f32 = 0.9;
/// Minimum number of samples whose light is valid in both frames.
const MIN_VALID_SAMPLES: usize = AREA / 4;

/// Brightness ratio of two frames.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct BrightnessRatio {
    /// log2 of the ratio, of red, green and blue.
    pub(super) stops: [f64; 3],
    /// Number of matches that it is the mean of.
    pub(super) weight: f64,
}

/// Compares two frames; `None` if there are too few matches.
pub(super) fn brightness_ratio(a: &FrameFeatures, b: &FrameFeatures) -> Option<BrightnessRatio> {
    let mut ratios: [Vec<f64>; 3] = Default::default();
    for (one, other) in matched_corners(a, b) {
        // Both directions: the corner is exact in one frame and only matched in the other.
        let there = align(a, one, b, other).and_then(|affine| log_ratios(a, one, b, other, affine));
        let back = align(b, other, a, one).and_then(|affine| log_ratios(b, other, a, one, affine));
        if let (Some(there), Some(back)) = (there, back) {
            for (c, ratios) in ratios.iter_mut().enumerate() {
                ratios.push(0.5 * (there[c] - back[c]));
            }
        }
    }
    let weight = ratios[0].len() as f64;
    let mut stops = [0.0; 3];
    for (stops, ratios) in stops.iter_mut().zip(&mut ratios) {
        *stops = robust_mean(ratios, MIN_MATCHES)?;
    }
    Some(BrightnessRatio { stops, weight })
}

/// Best match of a corner among those of another frame.
#[derive(Clone, Copy)]
struct BestMatch {
    correlation: f32,
    /// Correlation of the second best.
    second: f32,
    at: usize,
}

impl BestMatch {
    const NONE: Self = Self { correlation: -1.0, second: -1.0, at: 0 };

    fn update(&mut self, alike: f32, at: usize) {
        if alike > self.correlation {
            *self = Self { correlation: alike, second: self.correlation, at };
        } else if alike > self.second {
            self.second = alike;
        }
    }

    fn is_unambiguous(&self) -> bool {
        self.correlation > MIN_CORRELATION && self.correlation - self.second > MIN_MARGIN
    }
}

/// Mutual best matches whose displacement agrees with most.
fn matched_corners<'a>(
    a: &'a FrameFeatures,
    b: &'a FrameFeatures,
) -> Vec<(&'a DescribedFeature, &'a DescribedFeature)> {
    let (mut there, mut back) =
        (vec![BestMatch::NONE; a.corners.len()], vec![BestMatch::NONE; b.corners.len()]);
    for (i, (one, there)) in a.corners.iter().zip(&mut there).enumerate() {
        for (j, (other, back)) in b.corners.iter().zip(&mut back).enumerate() {
            let alike = one.correlation(other);
            there.update(alike, j);
            back.update(alike, i);
        }
    }
    let mutual = there.iter().enumerate().filter(|(i, best)| {
        best.is_unambiguous()
            && back.get(best.at).is_some_and(|other| other.is_unambiguous() && other.at == *i)
    });
    let pairs: Vec<(&DescribedFeature, &DescribedFeature)> =
        mutual.map(|(i, best)| (&a.corners[i], &b.corners[best.at])).collect();
    // A rotation of the camera shifts all longitudes equally and translation only by some degrees: take the mode.
    let moved =
        |(a, b): &(&DescribedFeature, &DescribedFeature)| (b.longitude - a.longitude).rem_euclid(360.0);
    let apart = |a: f64, b: f64| {
        let difference = (a - b).rem_euclid(360.0);
        difference.min(360.0 - difference)
    };
    let agree = |turn: f64| pairs.iter().filter(move |pair| apart(moved(pair), turn) < MAX_DEVIATION_DEGREES);
    let Some(turn) = pairs.iter().map(moved).max_by_key(|&turn| agree(turn).count()) else { return pairs };
    agree(turn).filter(|(a, b)| (a.latitude - b.latitude).abs() < MAX_DEVIATION_DEGREES).copied().collect()
}

/// Affine warp from one patch to the other: `[x', y'] = [[1 + p0, p1], [p3, 1 + p4]] [x, y] + [p2, p5]`.
#[derive(Clone, Copy, Debug, Default)]
struct AffineWarp([f32; 6]);

impl AffineWarp {
    fn apply(&self, [x, y]: [f32; 2]) -> [f32; 2] {
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

    fn is_small(&self) -> bool {
        let p = &self.0;
        let stretch = [p[0], p[1], p[3], p[4]].iter().all(|v| v.abs() < MAX_STRETCH);
        stretch && p[2].abs() < MAX_SHIFT && p[5].abs() < MAX_SHIFT
    }
}

/// Aligns the patches of two corners: Gauss-Newton of the differences of normalised luma with the gradients of the
/// first (inverse compositional, Baker and Matthews 2004). `None` if they do not match.
fn align(
    a: &FrameFeatures,
    one: &DescribedFeature,
    b: &FrameFeatures,
    other: &DescribedFeature,
) -> Option<AffineWarp> {
    const SIDE: usize = 2 * HALF_PATCH as usize + 1;
    const RIMMED: usize = SIDE + 2;
    let mut rimmed = [0.0f32; RIMMED * RIMMED];
    for (at, out) in rimmed.iter_mut().enumerate() {
        let rim = (HALF_PATCH + 1) as f32;
        *out = a.luma(one, [(at % RIMMED) as f32 - rim, (at / RIMMED) as f32 - rim]);
    }
    let mut wanted = [0.0f32; AREA];
    let mut slopes = [[0.0f32; AREA]; 6];
    for (k, [x, y]) in patch_offsets().enumerate() {
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
    let mut affine = AffineWarp::default();
    let mut seen = [0.0f32; AREA];
    for _ in 0..MAX_STEPS {
        for (seen, at) in seen.iter_mut().zip(patch_offsets()) {
            *seen = b.luma(other, affine.apply(at));
        }
        normalise(&mut seen);
        let right: [f64; 6] = std::array::from_fn(|i| {
            let all = slopes[i].iter().zip(&seen).zip(&wanted);
            all.map(|((slope, seen), wanted)| f64::from(slope * (seen - wanted))).sum()
        });
        let step = solve_linear(matrix, right)?.map(|v| v as f32);
        affine = affine.after_inverse(step)?;
        if !affine.is_small() {
            return None;
        }
        // Largest motion of a sample at the border.
        let rim = HALF_PATCH as f32;
        let along = |k: usize| rim * (step[k].abs() + step[k + 1].abs()) + step[k + 2].abs();
        if along(0).max(along(3)) < CONVERGED_STEP {
            break;
        }
    }
    let alike: f32 = seen.iter().zip(&wanted).map(|(a, b)| a * b).sum();
    (alike > MIN_ALIGNED_CORRELATION).then_some(affine)
}

/// log2 of the ratio of the linear light of two aligned patches, per channel.
fn log_ratios(
    a: &FrameFeatures,
    one: &DescribedFeature,
    b: &FrameFeatures,
    other: &DescribedFeature,
    affine: AffineWarp,
) -> Option<[f64; 3]> {
    let (mut sums, mut known) = ([[0.0f32; 2]; 3], 0);
    for at in patch_offsets() {
        let (x, y) = (a.light(one, at), b.light(other, affine.apply(at)));
        if x[0].is_nan() || y[0].is_nan() {
            continue;
        }
        known += 1;
        for c in 0..3 {
            sums[c] = [sums[c][0] + x[c], sums[c][1] + y[c]];
        }
    }
    (known >= MIN_VALID_SAMPLES).then(|| sums.map(|[x, y]| f64::from(libm::log2f(x / y))))
}
