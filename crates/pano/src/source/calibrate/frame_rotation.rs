//! Rotation of the camera between two frames: corners of both lenses with patch descriptors, mutual nearest neighbours,
//! and the rotation with most inliers.
//!
//! If the camera also moved, near landmarks shift by parallax. Returns no rotation if fewer than a third of the pairs
//! are inliers.

use gausset_core::se3::{self, Mat3};

use super::LumaImage;
use super::matching::{CornerRegion, LensImage, USABLE_RADIUS, detect_corners};
use super::model::LensModel;

/// Samples along a side of a descriptor, and degrees between them.
const DESCRIPTOR_SIDE: i32 = 11;
const STEP_DEGREES: f64 = 0.7;
/// Minimum correlation, and minimum margin over the second best.
const MIN_CORRELATION: f32 = 0.8;
const MIN_MARGIN: f32 = 0.03;
/// Inlier threshold of a pair, radians.
const INLIER_ANGLE: f64 = 0.015;
/// Number of random rotation hypotheses, and the seed.
const HYPOTHESES: usize = 600;
const SEED: u64 = 24;
/// Minimum number of inliers.
const MIN_INLIERS: usize = 40;

/// A corner with its patch descriptor.
pub(super) struct DescribedCorner {
    direction: [f64; 3],
    patch: Vec<f32>,
}

/// Detects and describes the corners of a frame.
pub(super) fn describe_corners(grey: &LumaImage, models: &[LensModel; 2]) -> Vec<DescribedCorner> {
    // Downsample so that a pixel covers about a step of the descriptor.
    let factor = ((STEP_DEGREES.to_radians() / models[0].pixel_angle()) as usize).max(1);
    let (grey, models) = (&grey.downsampled(factor), models.map(|model| model.downsampled(factor)));
    let mut found = Vec::new();
    for lens in 0..2 {
        let eye = LensImage { frame: 0, lens, grey, model: &models[lens] };
        let zone = CornerRegion { radii: [0.05, 0.88], bins: [24, 5], per_bin: 4 };
        for pixel in detect_corners(eye, zone) {
            let ray = eye.model.unproject(pixel);
            let direction = se3::mul_vec(&eye.model.pano_from_lens, ray);
            found.extend(descriptor(eye, direction).map(|patch| DescribedCorner { direction, patch }));
        }
    }
    found
}

/// Upright luma patch around a direction, normalised to mean 0 and length 1; `None` near the poles, outside the lens or
/// without contrast.
fn descriptor(eye: LensImage<'_>, ahead: [f64; 3]) -> Option<Vec<f32>> {
    let across = libm::hypot(ahead[0], ahead[2]);
    // Near the poles the upright direction is undefined.
    if across < 0.2 {
        return None;
    }
    let right = [ahead[2] / across, 0.0, -ahead[0] / across];
    let down = se3::cross(ahead, right);
    let step = libm::tan(STEP_DEGREES.to_radians());
    let offsets = (-DESCRIPTOR_SIDE / 2..=DESCRIPTOR_SIDE / 2)
        .flat_map(|j| (-DESCRIPTOR_SIDE / 2..=DESCRIPTOR_SIDE / 2).map(move |i| (i, j)));
    let values: Option<Vec<f32>> = offsets
        .map(|(i, j)| {
            let (a, b) = (f64::from(i) * step, f64::from(j) * step);
            let direction = [0, 1, 2].map(|k| ahead[k] + a * right[k] + b * down[k]);
            let [u, v] = eye.model.project_within(direction, USABLE_RADIUS)?;
            Some(eye.grey.sample(u, v) as f32)
        })
        .collect();
    let mut values = values?;
    let mean = values.iter().sum::<f32>() / values.len() as f32;
    values.iter_mut().for_each(|v| *v -= mean);
    let length = values.iter().map(|v| v * v).sum::<f32>().sqrt();
    if length < 3.0 * DESCRIPTOR_SIDE as f32 {
        return None;
    }
    values.iter_mut().for_each(|v| *v /= length);
    Some(values)
}

/// The rotation from the axes of the first frame to those of the second with most inliers (RANSAC).
pub(super) fn rotation_between(first: &[DescribedCorner], second: &[DescribedCorner]) -> Option<Mat3> {
    let best_of = |from: &[DescribedCorner], to: &[DescribedCorner]| -> Vec<Option<usize>> {
        let alike = |a: &DescribedCorner, b: &DescribedCorner| -> f32 {
            a.patch.iter().zip(&b.patch).map(|(a, b)| a * b).sum()
        };
        from.iter()
            .map(|corner| {
                let (mut best, mut next, mut at) = (-1.0, -1.0, 0);
                for (index, candidate) in to.iter().enumerate() {
                    let value = alike(corner, candidate);
                    // The other lens may show the same corner again; it does not count as second best.
                    let is_same = se3::dot(to[at].direction, candidate.direction) > 0.999;
                    if value > best {
                        (next, best, at) = (if is_same { next } else { best }, value, index);
                    } else if value > next && !is_same {
                        next = value;
                    }
                }
                (best > MIN_CORRELATION && best - next > MIN_MARGIN).then_some(at)
            })
            .collect()
    };
    let (there, back) = (best_of(first, second), best_of(second, first));
    let pairs: Vec<[[f64; 3]; 2]> = there
        .iter()
        .enumerate()
        .filter_map(|(index, found)| {
            let found = found.filter(|&found| back[found] == Some(index))?;
            Some([first[index].direction, second[found].direction])
        })
        .collect();
    if pairs.len() < MIN_INLIERS {
        return None;
    }
    let agree = |turn: &Mat3| -> Vec<[[f64; 3]; 2]> {
        let near = |pair: &&[[f64; 3]; 2]| {
            se3::norm(se3::cross(se3::mul_vec(turn, pair[0]), pair[1])) < INLIER_ANGLE
                && se3::dot(se3::mul_vec(turn, pair[0]), pair[1]) > 0.0
        };
        pairs.iter().filter(near).copied().collect()
    };
    let mut random = SEED;
    let mut next = || {
        // xorshift64 (Marsaglia 2003).
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (random % pairs.len() as u64) as usize
    };
    let mut best: (usize, Option<Mat3>) = (0, None);
    for _ in 0..HYPOTHESES {
        let (i, j) = (next(), next());
        if let Some(turn) = rotation_from_pairs(pairs[i], pairs[j]) {
            let count = agree(&turn).len();
            if count > best.0 {
                best = (count, Some(turn));
            }
        }
    }
    let mut turn = best.1?;
    for _ in 0..5 {
        turn = refined(&turn, &agree(&turn))?;
    }
    let count = agree(&turn).len();
    (count >= MIN_INLIERS && 3 * count >= pairs.len()).then_some(turn)
}

/// The rotation that maps the first direction of each pair to the second (TRIAD).
fn rotation_from_pairs([a, b]: [[f64; 3]; 2], [c, d]: [[f64; 3]; 2]) -> Option<Mat3> {
    let frame = |x: [f64; 3], y: [f64; 3]| {
        let z = se3::cross(x, y);
        let length = se3::norm(z);
        (length > 0.2).then(|| {
            let z = z.map(|v| v / length);
            // The triad's vectors are the columns.
            se3::transpose(&[x, se3::cross(z, x), z])
        })
    };
    // A rotation preserves the angle between the two directions.
    if (se3::dot(a, c) - se3::dot(b, d)).abs() > 0.02 {
        return None;
    }
    Some(se3::mul(&frame(b, d)?, &se3::transpose(&frame(a, c)?)))
}

/// One Gauss-Newton step of least squares over pairs: `b = a + w × a`.
fn refined(turn: &Mat3, pairs: &[[[f64; 3]; 2]]) -> Option<Mat3> {
    let (mut a, mut b) = ([0.0; 9], [0.0; 3]);
    for pair in pairs {
        let moved = se3::mul_vec(turn, pair[0]);
        let error = se3::cross(moved, pair[1]);
        for i in 0..3 {
            b[i] += error[i];
            for j in 0..3 {
                a[3 * i + j] += f64::from(u8::from(i == j)) - moved[i] * moved[j];
            }
        }
    }
    let step = super::linear::solve_positive_definite(&a, &b)?;
    Some(se3::mul(&se3::so3_exp([step[0], step[1], step[2]]), turn))
}
