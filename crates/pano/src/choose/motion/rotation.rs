//! Rotation of the camera between two frames from matched directions, robust to translation.
//!
//! ```text
//! RANSAC        two pairs determine a rotation (their triads); the one with the least Σ min(angle², τ²) is kept (MSAC,
//!               Torr and Zisserman 2000)
//! rotation      Gauss-Newton of Σ w |R a - b|², Cauchy weights
//! translation   on a sphere: Gauss-Newton of the distances to the epipolar planes, b · (t × R a), over R and the
//!               direction t. Without it, near landmarks on one side would bias the rotation.
//! ```

use gausset_core::se3::{self, Mat3};

/// Number of rotation hypotheses.
const HYPOTHESES: usize = 64;
/// Inlier threshold of a rotation, radians.
const INLIER_ANGLE: f64 = 0.02;
/// Width of the Cauchy weights, radians: the accuracy of a corner.
const CORNER_NOISE: f64 = 0.0012;
/// Median residual angle after the rotation above which the direction of motion is estimated, radians.
const MIN_MOTION_ANGLE: f64 = 0.0025;
/// Quantile of the angles of an ordinary image that is its parallax. With forward motion most corners are far away or near
/// the point that the camera moves to, so their median would hide metres of motion. On the sphere most corners are at the
/// sides of the motion, and the median is used.
const PINHOLE_QUANTILE: f64 = 0.8;
/// Minimum number of pairs.
pub(super) const MIN_PAIRS: usize = 12;

/// Directions of a corner in two frames.
pub(super) type DirectionPair = ([f64; 3], [f64; 3]);

/// A rotation with what remains after it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct RotationEstimate {
    /// Maps directions of the first frame to the second.
    pub(super) rotation: Mat3,
    /// Parallax: angle between rotated and observed directions, radians: the median on the sphere, a high quantile in an
    /// ordinary image.
    pub(super) parallax: f64,
    /// Fraction of inliers: pairs consistent with a static scene.
    pub(super) inlier_fraction: f64,
    /// Direction of the camera's motion, a unit vector in the axes of the second frame; `None` if rotation and
    /// translation cannot be separated, or the camera did not move.
    pub(super) direction: Option<[f64; 3]>,
}

/// Estimates the rotation with most inliers. `start` is an additional hypothesis, `seed` selects the random pairs.
/// `is_sphere`: the pairs cover all directions, so that rotation and translation can be separated. `None` for fewer
/// than [`FEWEST`] pairs.
pub(super) fn estimate_rotation(
    pairs: &[DirectionPair],
    start: &Mat3,
    seed: u64,
    is_sphere: bool,
) -> Option<RotationEstimate> {
    if pairs.len() < MIN_PAIRS {
        return None;
    }
    let mut random = SplitMix64(seed);
    // The sum only grows, so the evaluation ends once it exceeds the best.
    let cost = |r: &Mat3, least: f64| -> f64 {
        let mut sum = 0.0;
        for some in pairs.chunks(16) {
            sum = some
                .iter()
                .fold(sum, |sum, pair| sum + squared_chord(r, pair).min(INLIER_ANGLE * INLIER_ANGLE));
            if sum >= least {
                break;
            }
        }
        sum
    };
    let (mut best, mut least) = (*start, cost(start, f64::INFINITY));
    for _ in 0..HYPOTHESES {
        let (i, j) = (random.below(pairs.len()), random.below(pairs.len()));
        let Some(r) = rotation_from_pairs(&pairs[i], &pairs[j]) else { continue };
        let cost = cost(&r, least);
        if cost < least {
            (best, least) = (r, cost);
        }
    }
    let mut rotation = refine_rotation(pairs, best);
    let mut agreeing = fraction(pairs, |pair| squared_chord(&rotation, pair) < INLIER_ANGLE * INLIER_ANGLE);
    if is_sphere && median_angle(pairs, &rotation) > MIN_MOTION_ANGLE {
        let (refined, way) = refine_with_translation(pairs, rotation);
        // Pairs off their epipolar plane belong to moving objects or are mismatches.
        let is_still =
            |pair: &DirectionPair| epipolar_residual(&refined, way, pair).abs() < 4.0 * CORNER_NOISE;
        let still: Vec<DirectionPair> = pairs.iter().copied().filter(is_still).collect();
        if still.len() >= MIN_PAIRS && 2 * still.len() > pairs.len() {
            agreeing = still.len() as f64 / pairs.len() as f64;
            rotation = refined;
            let parallax = median_angle(&still, &rotation);
            return Some(RotationEstimate {
                rotation,
                parallax,
                inlier_fraction: agreeing,
                direction: Some(resolve_sign(&still, &rotation, way)),
            });
        }
    }
    let quantile = if is_sphere { 0.5 } else { PINHOLE_QUANTILE };
    Some(RotationEstimate {
        rotation,
        parallax: quantile_angle(pairs, &rotation, quantile),
        inlier_fraction: agreeing,
        direction: None,
    })
}

/// Resolves the sign of the direction of motion: most static points move away from it.
fn resolve_sign(still: &[DirectionPair], rotation: &Mat3, way: [f64; 3]) -> [f64; 3] {
    let recedes = |(a, b): &&DirectionPair| se3::dot(way, se3::mul_vec(rotation, *a)) > se3::dot(way, *b);
    let receding = still.iter().filter(recedes).count();
    if 2 * receding >= still.len() { way } else { way.map(|v| -v) }
}

fn fraction(pairs: &[DirectionPair], is_counted: impl Fn(&DirectionPair) -> bool) -> f64 {
    pairs.iter().filter(|pair| is_counted(pair)).count() as f64 / pairs.len().max(1) as f64
}

/// Squared chord between the rotated and the observed direction; approximates the squared angle if small.
fn squared_chord(r: &Mat3, (a, b): &DirectionPair) -> f64 {
    let p = se3::mul_vec(r, *a);
    (0..3).map(|k| (p[k] - b[k]) * (p[k] - b[k])).sum()
}

fn median_angle(pairs: &[DirectionPair], r: &Mat3) -> f64 {
    quantile_angle(pairs, r, 0.5)
}

/// The angle that this fraction of the pairs does not exceed.
fn quantile_angle(pairs: &[DirectionPair], r: &Mat3, quantile: f64) -> f64 {
    let mut squares: Vec<f64> = pairs.iter().map(|pair| squared_chord(r, pair)).collect();
    squares.sort_by(f64::total_cmp);
    let at = (quantile * squares.len() as f64) as usize;
    let square = squares.get(at).copied().unwrap_or(0.0);
    2.0 * libm::asin((0.5 * libm::sqrt(square)).min(1.0))
}

/// The rotation that maps the triad of two directions to that of two others.
fn rotation_from_pairs(first: &DirectionPair, second: &DirectionPair) -> Option<Mat3> {
    let triad = |a: [f64; 3], b: [f64; 3]| -> Option<Mat3> {
        let normal = se3::cross(a, b);
        let length = se3::norm(normal);
        // Two directions close together leave the rotation about them undetermined.
        (length > 0.2).then(|| {
            let z = normal.map(|v| v / length);
            let y = se3::cross(z, a);
            se3::transpose(&[a, y, z])
        })
    };
    let (from, to) = (triad(first.0, second.0)?, triad(first.1, second.1)?);
    Some(se3::mul(&to, &se3::transpose(&from)))
}

/// `exp(phi) r`, orthonormalised.
fn compose_rotation(phi: [f64; 3], r: &Mat3) -> Mat3 {
    se3::orthonormalise(&se3::mul(&se3::so3_exp(phi), r))
}

/// Cauchy weight of a squared residual: 1 at zero, small for outliers.
fn cauchy_weight(square: f64, width: f64) -> f64 {
    1.0 / (1.0 + square / (width * width))
}

fn refine_rotation(pairs: &[DirectionPair], start: Mat3) -> Mat3 {
    let mut r = start;
    for _ in 0..6 {
        let width = median_angle(pairs, &r).clamp(CORNER_NOISE, INLIER_ANGLE);
        let (mut matrix, mut right) = ([[0.0; 3]; 3], [0.0; 3]);
        for (a, b) in pairs {
            let p = se3::mul_vec(&r, *a);
            let weight = cauchy_weight(squared_chord(&r, &(*a, *b)), width);
            let moment = se3::cross(p, *b);
            for i in 0..3 {
                right[i] += weight * moment[i];
                for j in 0..3 {
                    let one = f64::from(u8::from(i == j));
                    matrix[i][j] += weight * (one - p[i] * p[j]);
                }
            }
        }
        let Some(step) = solve_linear(matrix, right) else { break };
        r = compose_rotation(step, &r);
        if se3::norm(step) < 1e-9 {
            break;
        }
    }
    r
}

/// Epipolar residual: sine of the angle between the observed direction and the plane of the direction of motion and the
/// rotated direction.
fn epipolar_residual(r: &Mat3, way: [f64; 3], (a, b): &DirectionPair) -> f64 {
    let normal = se3::cross(way, se3::mul_vec(r, *a));
    // Along the direction of motion the plane is undefined: bound the divisor.
    se3::dot(*b, normal) / se3::norm(normal).max(0.25)
}

/// Refines the rotation and the direction of motion (a unit vector of either sign) to the smallest epipolar residuals.
fn refine_with_translation(pairs: &[DirectionPair], start: Mat3) -> (Mat3, [f64; 3]) {
    let mut r = start;
    let mut way = initial_direction(pairs, &r);
    for _ in 0..12 {
        // Two axes across the direction of motion.
        let axis = if way[0].abs() < 0.6 { [1.0, 0.0, 0.0] } else { [0.0, 1.0, 0.0] };
        let side = se3::unit(se3::cross(way, axis));
        let other = se3::cross(way, side);
        let (mut matrix, mut right) = ([[0.0; 5]; 5], [0.0; 5]);
        for pair in pairs {
            let p = se3::mul_vec(&r, pair.0);
            let b = pair.1;
            let scale = 1.0 / se3::norm(se3::cross(way, p)).max(0.25);
            let residual = epipolar_residual(&r, way, pair);
            let weight = cauchy_weight(residual * residual, CORNER_NOISE);
            // b·(t×(ω×p)) = ω·(b (t·p) - t (b·p)), and b·(δt×p) = δt·(p×b).
            let (tp, bp) = (se3::dot(way, p), se3::dot(b, p));
            let across = se3::cross(p, b);
            let slope = [
                scale * (b[0] * tp - way[0] * bp),
                scale * (b[1] * tp - way[1] * bp),
                scale * (b[2] * tp - way[2] * bp),
                scale * se3::dot(side, across),
                scale * se3::dot(other, across),
            ];
            for i in 0..5 {
                right[i] -= weight * slope[i] * residual;
                for j in 0..5 {
                    matrix[i][j] += weight * slope[i] * slope[j];
                }
            }
        }
        // Slight damping of the direction of motion, which is poorly determined for small motion.
        for (i, row) in matrix.iter_mut().enumerate() {
            row[i] += if i < 3 { 1e-9 } else { 1e-6 };
        }
        let Some(step) = solve_linear(matrix, right) else { break };
        r = compose_rotation([step[0], step[1], step[2]], &r);
        way = se3::unit(std::array::from_fn(|k| way[k] + step[3] * side[k] + step[4] * other[k]));
        if step.iter().all(|s| s.abs() < 1e-8) {
            break;
        }
    }
    (r, way)
}

/// Initial direction of motion: the direction most orthogonal to all `R a × b`, the eigenvector of the smallest
/// eigenvalue, by inverse iteration.
fn initial_direction(pairs: &[DirectionPair], r: &Mat3) -> [f64; 3] {
    let mut matrix = [[0.0; 3]; 3];
    for (a, b) in pairs {
        let normal = se3::cross(se3::mul_vec(r, *a), *b);
        let weight = cauchy_weight(se3::dot(normal, normal), INLIER_ANGLE);
        for i in 0..3 {
            for j in 0..3 {
                matrix[i][j] += weight * normal[i] * normal[j];
            }
        }
    }
    let small = 1e-9 + 1e-6 * (matrix[0][0] + matrix[1][1] + matrix[2][2]);
    for (i, row) in matrix.iter_mut().enumerate() {
        row[i] += small;
    }
    let mut way = [0.36, 0.48, 0.8];
    for _ in 0..20 {
        let Some(next) = solve_linear(matrix, way) else { break };
        let length = se3::norm(next);
        if !(length.is_finite() && length > 0.0) {
            break;
        }
        way = next.map(|v| v / length);
    }
    way
}

/// Solves `matrix x = right` by Gaussian elimination with partial pivoting; `None` if the matrix is singular.
pub(crate) fn solve_linear<const N: usize>(
    mut matrix: [[f64; N]; N],
    mut right: [f64; N],
) -> Option<[f64; N]> {
    for column in 0..N {
        let pivot =
            (column..N).max_by(|&a, &b| matrix[a][column].abs().total_cmp(&matrix[b][column].abs()))?;
        matrix.swap(column, pivot);
        right.swap(column, pivot);
        let divisor = matrix[column][column];
        if divisor.is_nan() || divisor.abs() <= 1e-300 {
            return None;
        }
        for row in column + 1..N {
            let factor = matrix[row][column] / divisor;
            for k in column..N {
                matrix[row][k] -= factor * matrix[column][k];
            }
            right[row] -= factor * right[column];
        }
    }
    let mut x = [0.0; N];
    for row in (0..N).rev() {
        let known: f64 = (row + 1..N).map(|k| matrix[row][k] * x[k]).sum();
        x[row] = (right[row] - known) / matrix[row][row];
    }
    x.iter().all(|v| v.is_finite()).then_some(x)
}

/// Deterministic pseudo-random numbers (SplitMix64, Steele et al. 2014).
struct SplitMix64(u64);

impl SplitMix64 {
    fn below(&mut self, count: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % count.max(1) as u64) as usize
    }
}

#[cfg(test)]
mod tests {
    use gausset_core::se3::IDENTITY3;

    use super::*;

    /// Directions of points around a camera that rotates by `phi` and moves by `step`; every `wrong`-th pair is an
    /// outlier. Points on the right are near.
    fn pairs(phi: [f64; 3], step: [f64; 3], wrong: usize) -> Vec<DirectionPair> {
        let r = se3::so3_exp(phi);
        (0..240)
            .map(|k| {
                let t = f64::from(k) + 0.5;
                let z = 1.0 - t / 120.0;
                let across = libm::sqrt(1.0 - z * z);
                let angle = 2.399_963 * t;
                let a = [across * libm::cos(angle), 0.8 * z, across * libm::sin(angle)];
                let depth = if a[0] > 0.3 { 1.0 } else { 6.0 };
                let point: [f64; 3] = std::array::from_fn(|i| depth * a[i] - step[i]);
                let b = if (k as usize).is_multiple_of(wrong) {
                    [0.0, 0.6, 0.8]
                } else {
                    se3::mul_vec(&r, point)
                };
                (se3::unit(a), se3::unit(b))
            })
            .collect()
    }

    #[test]
    fn walking_forward_counts_in_an_ordinary_image() {
        // A corridor: most corners are far away near the middle, a quarter is on the walls.
        let pairs: Vec<DirectionPair> = (0..200)
            .map(|k| {
                let angle = 2.4 * f64::from(k);
                let (radius, depth) = if k % 4 == 0 { (1.5, 4.0) } else { (1.0, 20.0) };
                let point = [radius * libm::cos(angle), radius * libm::sin(angle), depth];
                let moved = [point[0], point[1], point[2] - 0.5];
                (se3::unit(point), se3::unit(moved))
            })
            .collect();
        let seen = estimate_rotation(&pairs, &IDENTITY3, 7, false).unwrap();
        let median = median_angle(&pairs, &seen.rotation).to_degrees();
        assert!(seen.parallax.to_degrees() > 1.5 && median < 0.3, "{} {median}", seen.parallax.to_degrees());
    }

    #[test]
    fn a_turn_is_found_whatever_moves_besides() {
        for (phi, step) in [
            ([0.02, -0.3, 0.01], [0.0; 3]),
            ([0.02, 0.1, -0.03], [0.02, 0.0, 0.05]),
            ([0.0, 0.0, 0.0], [0.0, 0.0, 0.1]),
        ] {
            let pairs = pairs(phi, step, 5);
            let found = estimate_rotation(&pairs, &IDENTITY3, 7, true).unwrap();
            let rest = se3::mul(&found.rotation, &se3::transpose(&se3::so3_exp(phi)));
            let error = (0..3).map(|i| (rest[i][i] - 1.0).abs()).fold(0.0, f64::max);
            assert!(error < 1e-10, "{phi:?} {step:?}: {error}");
            assert!((0.7..=0.85).contains(&found.inlier_fraction), "{}", found.inlier_fraction);
            assert_eq!(found, estimate_rotation(&pairs, &IDENTITY3, 7, true).unwrap());
        }
        // A camera at rest has no parallax, one that moves 0.1 m has some degrees for points at a few metres.
        assert!(
            estimate_rotation(&pairs([0.0, 0.5, 0.0], [0.0; 3], 5), &IDENTITY3, 7, true).unwrap().parallax
                < 1e-6
        );
        let moved = estimate_rotation(&pairs([0.0; 3], [0.0, 0.0, 0.1], 5), &IDENTITY3, 7, true).unwrap();
        assert!((0.01..0.03).contains(&moved.parallax), "{}", moved.parallax);
        // The direction of motion has the correct sign.
        let towards = [0.0, -0.6, 0.8];
        for sign in [1.0, -1.0] {
            let way =
                estimate_rotation(&pairs([0.0; 3], towards.map(|v| 0.1 * sign * v), 5), &IDENTITY3, 7, true)
                    .unwrap()
                    .direction;
            let cosine = se3::dot(way.unwrap(), towards);
            assert!(sign * cosine > 0.999, "{sign} {way:?}");
        }
        assert_eq!(
            estimate_rotation(&pairs([0.0; 3], [0.0; 3], 5)[..MIN_PAIRS - 1], &IDENTITY3, 7, true),
            None
        );
    }
}
