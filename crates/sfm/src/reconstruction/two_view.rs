//! Relative pose of two panoramas from pairs of bearings with many outliers.
//!
//! RANSAC with the five-point solver and a fixed sequence of random numbers. The best matches are drawn first, from a
//! growing part of the list (as PROSAC: Chum and Matas 2005), and each better model is refined at once (local
//! optimisation: Chum, Matas and Kittler 2003). Errors are angles between a bearing and the epipolar plane of its
//! partner, in both directions; the best model is refined with all inliers. Panoramas at the
//! same position (pure rotation) are detected: their pairs do not determine a direction of translation.

use gausset_compute::at_level;
use gausset_compute::fearless_simd::Level;
use gausset_compute::rng::{below, philox4x32};
use gausset_core::matrix::{Mat3, cross, dot, mul, mul_vec, norm, transpose_mul_vec, unit};
use gausset_core::se3::{skew, so3_exp};

use crate::reconstruction::essential;
use crate::reconstruction::solve::solve;

/// Stream of random numbers of this module.
const STREAM: u32 = 0x6f77_6e61;
/// Largest number of samples.
const MAX_SAMPLES: u32 = 1500;
/// Least number of samples.
const MIN_SAMPLES: f64 = 50.0;
/// Samples after which pairs of images that show nothing in common are given up: fewer matches agree than by chance.
const HOPELESS_SAMPLES: u32 = 400;
const HOPELESS_INLIERS: usize = 14;
/// Samples are drawn from the first matches only; after so many samples from all.
const GROWTH_SAMPLES: u32 = 300;
const FIRST_MATCHES: usize = 15;
/// Refinement steps of a better model.
const LOCAL_STEPS: usize = 3;
/// Sampling ends when the probability that no sample consisted of inliers falls below this.
const MISS_PROBABILITY: f64 = 1e-4;
/// Samples of two pairs, each of which determines a direction of translation.
const DIRECTION_SAMPLES: u32 = 300;
/// Least number of inliers.
const MIN_INLIERS: usize = 20;
/// Fraction of pairs without parallax above which the relative pose is a pure rotation.
const PURE_ROTATION_FRACTION: f64 = 0.9;

/// A verified pair of panoramas: `y_b = rotation · y_a + t`.
#[derive(Clone, Debug)]
pub(crate) struct RelativePose {
    pub(crate) rotation: Mat3,
    /// Unit direction of translation.
    pub(crate) direction: [f64; 3],
    /// Indices of the inliers.
    pub(crate) inliers: Vec<u32>,
    /// Whether both are at the same position, so that `t` has no meaning.
    pub(crate) is_pure_rotation: bool,
}

/// Estimates the relative pose from pairs (a, b) of bearings, best matches first; `tolerance` is the largest error,
/// radians.
pub(crate) fn estimate_relative_pose(
    pairs: &[[[f64; 3]; 2]],
    tolerance: f64,
    seed: [u32; 2],
    level: Level,
) -> Option<RelativePose> {
    if pairs.len() < MIN_INLIERS {
        return None;
    }
    let limit = libm::sin(tolerance).powi(2);
    let columns = BearingColumns::new(pairs, level);
    let best = best_essential(pairs, &columns, limit, seed)?;
    let (mut rotation, mut t) = pose_by_cheirality(&best, pairs, limit);
    refine_all(&mut rotation, &mut t, pairs, limit);
    // Distant points agree with any direction of translation, so five of them may have given a wrong one.
    for round in 0..2 {
        let counter = [round, seed[1]];
        if let Some(other) = estimate_direction(&rotation, t, pairs, tolerance, counter, seed[0], level) {
            t = other;
            refine_all(&mut rotation, &mut t, pairs, limit);
        }
    }
    let inliers = inliers(&rotation, t, pairs, tolerance);
    // Expected number of inliers by chance: bearings in a band of this width around a great circle, in both images.
    let by_chance = 2.0 * tolerance * (pairs.len() - inliers.len()) as f64;
    if (inliers.len() as f64) < MIN_INLIERS as f64 + 3.0 * by_chance {
        return None;
    }
    let still = inliers.iter().filter(|&&k| {
        let [a, b] = pairs[k as usize];
        norm(cross(mul_vec(&rotation, a), b)) < libm::sin(1.5 * tolerance)
    });
    let is_rotation = still.count() as f64 >= PURE_ROTATION_FRACTION * inliers.len() as f64;
    Some(RelativePose { rotation, direction: t, inliers, is_pure_rotation: is_rotation })
}

/// Indices of the pairs that agree with a relative pose. The length of the translation has no influence, unless it is 0.
pub(crate) fn inliers(rotation: &Mat3, t: [f64; 3], pairs: &[[[f64; 3]; 2]], tolerance: f64) -> Vec<u32> {
    let limit = libm::sin(tolerance).powi(2);
    let e = mul(&skew(t), rotation);
    let agrees =
        |pair: &[[f64; 3]; 2]| epipolar_error(&e, pair) < limit && is_in_front(rotation, t, *pair, tolerance);
    (0u32..).zip(pairs).filter(|(_, pair)| agrees(pair)).map(|(k, _)| k).collect()
}

/// The essential matrix with the least cost among samples.
fn best_essential(
    pairs: &[[[f64; 3]; 2]],
    columns: &BearingColumns,
    limit: f64,
    seed: [u32; 2],
) -> Option<Mat3> {
    let mut best: (f64, Option<Mat3>) = (pairs.len() as f64 * limit, None);
    let (mut samples, mut agree) = (MAX_SAMPLES, 0);
    let mut drawn = 0;
    while drawn < samples && (drawn < HOPELESS_SAMPLES || agree >= HOPELESS_INLIERS) {
        let growth = (pairs.len() - FIRST_MATCHES) as u64 * u64::from(drawn.min(GROWTH_SAMPLES));
        let first = FIRST_MATCHES + (growth / u64::from(GROWTH_SAMPLES)) as usize;
        let sample = sample(first, [drawn, seed[1]], seed[0]).map(|k| pairs[k]);
        for e in essential::five_point(&sample) {
            let cost = columns.cost(&e, limit, best.0);
            if cost < best.0 {
                best = (cost, Some(e));
                let refined = refine_locally(&e, pairs, limit);
                let cost = columns.cost(&refined, limit, best.0);
                if cost < best.0 {
                    best = (cost, Some(refined));
                }
                let e = best.1.unwrap_or(e);
                agree = pairs.iter().filter(|pair| epipolar_error(&e, pair) < limit).count();
                samples = samples.min(samples_for(agree as f64 / pairs.len() as f64));
            }
        }
        drawn += 1;
    }
    best.1
}

/// The essential matrix after a few refinement steps with the pairs that agree with it.
fn refine_locally(e: &Mat3, pairs: &[[[f64; 3]; 2]], limit: f64) -> Mat3 {
    // The four poses of an essential matrix have the same epipolar planes.
    let (mut rotation, mut t) = essential::decompose(e)[0];
    for _ in 0..LOCAL_STEPS {
        refine(&mut rotation, &mut t, pairs, limit);
    }
    mul(&skew(t), &rotation)
}

/// Pairs at a time in [`BearingColumns`].
const LANES: usize = 8;

/// Pairs of bearings by coordinate, [ax, ay, az, bx, by, bz], in blocks of [`LANES`]; the last block is filled with pairs
/// without an error.
struct BearingColumns {
    blocks: Vec<[[f64; LANES]; 6]>,
    level: Level,
}

impl BearingColumns {
    fn new(pairs: &[[[f64; 3]; 2]], level: Level) -> Self {
        let block = |part: &[[[f64; 3]; 2]]| {
            std::array::from_fn(|k| {
                std::array::from_fn(|lane| part.get(lane).map_or(0.0, |pair| pair[k / 3][k % 3]))
            })
        };
        Self { blocks: pairs.chunks(LANES).map(block).collect(), level }
    }

    /// Sum of the errors, each at most `limit` (MSAC); aborted above `worst`.
    fn cost(&self, e: &Mat3, limit: f64, worst: f64) -> f64 {
        at_level!(self.level, _simd => cost_of_blocks(&self.blocks, e, limit, worst))
    }
}

#[inline(always)]
fn cost_of_blocks(blocks: &[[[f64; LANES]; 6]], e: &Mat3, limit: f64, worst: f64) -> f64 {
    let mut total = 0.0;
    for part in blocks.chunks(4) {
        let mut sums = [0.0; LANES];
        for [ax, ay, az, bx, by, bz] in part {
            for k in 0..LANES {
                let normal = [
                    e[0][0] * ax[k] + e[0][1] * ay[k] + e[0][2] * az[k],
                    e[1][0] * ax[k] + e[1][1] * ay[k] + e[1][2] * az[k],
                    e[2][0] * ax[k] + e[2][1] * ay[k] + e[2][2] * az[k],
                ];
                let back = [
                    e[0][0] * bx[k] + e[1][0] * by[k] + e[2][0] * bz[k],
                    e[0][1] * bx[k] + e[1][1] * by[k] + e[2][1] * bz[k],
                    e[0][2] * bx[k] + e[1][2] * by[k] + e[2][2] * bz[k],
                ];
                let value = bx[k] * normal[0] + by[k] * normal[1] + bz[k] * normal[2];
                let one = normal[0] * normal[0] + normal[1] * normal[1] + normal[2] * normal[2];
                let other = back[0] * back[0] + back[1] * back[1] + back[2] * back[2];
                let least = if one < other { one } else { other };
                let least = if least > 1e-300 { least } else { 1e-300 };
                let error = value * value / least;
                sums[k] += if error < limit { error } else { limit };
            }
        }
        total += sums.iter().sum::<f64>();
        if total >= worst {
            break;
        }
    }
    total
}

/// Five different indices.
fn sample(count: usize, counter: [u32; 2], seed: u32) -> [usize; 5] {
    let mut chosen = [usize::MAX; 5];
    let mut draws = 0;
    for k in 0..5 {
        loop {
            let words = philox4x32([counter[0], counter[1], draws, 0], [seed, STREAM]);
            draws += 1;
            let index = below([words[0], words[1]], count as u64) as usize;
            if !chosen[..k].contains(&index) {
                chosen[k] = index;
                break;
            }
        }
    }
    chosen
}

fn samples_for(share: f64) -> u32 {
    let miss = libm::log(1.0 - share.powi(5).min(1.0 - 1e-12));
    (libm::log(MISS_PROBABILITY) / miss).ceil().clamp(MIN_SAMPLES, f64::from(MAX_SAMPLES)) as u32
}

/// The larger of the squared sines of the angles between each bearing and the epipolar plane of its partner.
#[inline(always)]
fn epipolar_error(e: &Mat3, [a, b]: &[[f64; 3]; 2]) -> f64 {
    let normal = mul_vec(e, *a);
    let back = transpose_mul_vec(e, *b);
    let value = dot(*b, normal);
    value * value / dot(normal, normal).min(dot(back, back)).max(1e-300)
}

/// The pose that has the most points in front of both cameras (cheirality).
fn pose_by_cheirality(e: &Mat3, pairs: &[[[f64; 3]; 2]], limit: f64) -> (Mat3, [f64; 3]) {
    let good: Vec<_> = pairs.iter().filter(|pair| epipolar_error(e, pair) < limit).collect();
    let count = |(rotation, t): &(Mat3, [f64; 3])| {
        let front = |pair: &&&[[f64; 3]; 2]| {
            essential::depths(rotation, *t, ***pair).is_some_and(|[a, b]| a > 0.0 && b > 0.0)
        };
        good.iter().filter(front).count()
    };
    let poses = essential::decompose(e);
    let counts: [usize; 4] = std::array::from_fn(|k| count(&poses[k]));
    poses[(1..4).fold(0, |best, k| if counts[k] > counts[best] { k } else { best })]
}

/// Whether the point is in front of both cameras, or too far away to decide.
fn is_in_front(rotation: &Mat3, t: [f64; 3], pair: [[f64; 3]; 2], tolerance: f64) -> bool {
    let turned = mul_vec(rotation, pair[0]);
    if norm(cross(turned, pair[1])) < 2.0 * tolerance {
        return dot(turned, pair[1]) > 0.0;
    }
    essential::depths(rotation, t, pair).is_some_and(|[a, b]| a > 0.0 && b > 0.0)
}

/// Refinement steps with all inliers, from a slightly larger limit to the exact one.
fn refine_all(rotation: &mut Mat3, t: &mut [f64; 3], pairs: &[[[f64; 3]; 2]], limit: f64) {
    for round in 0..8 {
        refine(rotation, t, pairs, if round < 3 { 4.0 * limit } else { limit });
    }
}

/// The direction of translation with the most inliers among pairs with parallax, if it is better than the known one.
/// With known rotation, two pairs determine a direction.
fn estimate_direction(
    rotation: &Mat3,
    known: [f64; 3],
    pairs: &[[[f64; 3]; 2]],
    tolerance: f64,
    counter: [u32; 2],
    seed: u32,
    level: Level,
) -> Option<[f64; 3]> {
    let limit = libm::sin(tolerance).powi(2);
    let has_parallax = |[a, b]: &&[[f64; 3]; 2]| norm(cross(mul_vec(rotation, *a), *b)) > 2.0 * tolerance;
    let near: Vec<[[f64; 3]; 2]> = pairs.iter().filter(has_parallax).copied().collect();
    if near.len() < MIN_INLIERS {
        return None;
    }
    let columns = BearingColumns::new(&near, level);
    let cost = |t: [f64; 3], worst: f64| {
        let e = mul(&skew(t), rotation);
        let mut total = 0.0;
        for part in near.chunks(64) {
            for pair in part {
                let error = epipolar_error(&e, pair);
                let agrees = error < limit && is_in_front(rotation, t, *pair, tolerance);
                total += if agrees { error } else { limit };
            }
            if total >= worst {
                break;
            }
        }
        total
    };
    let mut best = (cost(known, f64::INFINITY), None);
    for draw in 0..DIRECTION_SAMPLES {
        let words = philox4x32([draw, counter[0], counter[1], 1], [seed, STREAM]);
        let [one, other] = [[words[0], words[1]], [words[2], words[3]]].map(|words| {
            let [a, b] = near[below(words, near.len() as u64) as usize];
            cross(mul_vec(rotation, a), b)
        });
        let across = cross(one, other);
        let length = norm(across);
        if length > 1e-3 * norm(one) * norm(other) {
            let t = across.map(|v| v / length);
            // Points behind a camera only add to the errors, which both signs share.
            if columns.cost(&mul(&skew(t), rotation), limit, best.0) >= best.0 {
                continue;
            }
            for t in [t, t.map(|v| -v)] {
                let found = cost(t, best.0);
                if found < best.0 {
                    best = (found, Some(t));
                }
            }
        }
    }
    best.1
}

/// One Gauss-Newton step over the pairs within a limit, with Tukey's biweight.
fn refine(rotation: &mut Mat3, t: &mut [f64; 3], pairs: &[[[f64; 3]; 2]], limit: f64) {
    let e = mul(&skew(*t), rotation);
    let across = tangents(*t);
    let (mut normal, mut right) = ([0.0; 25], [0.0; 5]);
    for pair in pairs {
        let squared = epipolar_error(&e, pair);
        if squared >= limit {
            continue;
        }
        let [a, b] = *pair;
        let turned = mul_vec(rotation, a);
        let (plane, back) = (mul_vec(&e, a), transpose_mul_vec(&e, b));
        // First-order (Sampson) distance to both planes; its weight is kept fixed.
        let scale = 1.0 / libm::sqrt((dot(plane, plane) + dot(back, back)).max(1e-12));
        let residual = scale * dot(b, plane);
        // b · (t × (ω × Ra)) = ω · (Ra × (b × t)),  b · (u × Ra) = u · (Ra × b).
        let by_turn = cross(turned, cross(b, *t));
        let by_shift = cross(turned, b);
        let jacobian =
            [by_turn[0], by_turn[1], by_turn[2], dot(across[0], by_shift), dot(across[1], by_shift)];
        let weight = (1.0 - squared / limit).powi(2);
        for i in 0..5 {
            for j in 0..=i {
                normal[5 * i + j] += weight * scale * scale * jacobian[i] * jacobian[j];
            }
            right[i] -= weight * scale * jacobian[i] * residual;
        }
    }
    for i in 0..5 {
        normal[6 * i] += 1e-9 * (1.0 + normal[6 * i]);
    }
    if solve(&mut normal, &mut right) && right.iter().all(|v| v.is_finite()) {
        *rotation = mul(&so3_exp([right[0], right[1], right[2]]), rotation);
        *t = unit(std::array::from_fn(|k| t[k] + right[3] * across[0][k] + right[4] * across[1][k]));
    }
}

/// Two unit vectors perpendicular to a unit vector and to each other.
pub(crate) fn tangents(axis: [f64; 3]) -> [[f64; 3]; 2] {
    let least = (1..3).fold(0, |best, k| if axis[k].abs() < axis[best].abs() { k } else { best });
    let one = unit(cross(axis, std::array::from_fn(|k| f64::from(u8::from(k == least)))));
    [one, cross(axis, one)]
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use gausset_compute::rng::uniform_f64;
    use gausset_core::matrix::transpose;

    /// Two panoramas among points in all directions.
    pub(crate) struct TwoViewScene {
        pub(crate) rotation: Mat3,
        pub(crate) t: [f64; 3],
        pub(crate) points: Vec<[f64; 3]>,
        pub(crate) pairs: Vec<[[f64; 3]; 2]>,
    }

    pub(crate) fn random(seed: u32, index: u32, of: u32) -> f64 {
        let words = philox4x32([index, of, 0, 0], [seed, 99]);
        2.0 * uniform_f64(words[0], words[1]) - 1.0
    }

    pub(crate) fn vector(seed: u32, index: u32, of: u32) -> [f64; 3] {
        [0, 1, 2].map(|k| random(seed, index, 3 * of + k))
    }

    impl TwoViewScene {
        /// `count` points, the last `wrong` of them paired at random; bearings have `noise` radians of noise.
        pub(crate) fn new(seed: u32, count: u32, noise: f64, wrong: u32) -> Self {
            let rotation = so3_exp(vector(seed, 0, 0).map(|v| 2.0 * v));
            let t = unit(vector(seed, 1, 0));
            let points: Vec<[f64; 3]> = (0..count)
                .map(|k| {
                    let far = 2.0 + 3.0 * (1.0 + random(seed, k, 9));
                    unit(vector(seed, k, 1)).map(|v| far * v)
                })
                .collect();
            let shaken = |v: [f64; 3], k: u32, of: u32| {
                let by = vector(seed, k, of);
                unit(std::array::from_fn(|i| unit(v)[i] + noise * by[i]))
            };
            let pair = |(k, point): (u32, &[f64; 3])| {
                let moved = mul_vec(&rotation, *point);
                let other = if k + wrong >= count {
                    unit(vector(seed, k, 6))
                } else {
                    std::array::from_fn(|i| moved[i] + t[i])
                };
                [shaken(*point, k, 4), shaken(other, k, 5)]
            };
            let pairs = (0..).zip(&points).map(pair).collect();
            Self { rotation, t, points, pairs }
        }
    }

    fn estimate(pairs: &[[[f64; 3]; 2]], tolerance: f64, seed: [u32; 2]) -> Option<RelativePose> {
        estimate_relative_pose(pairs, tolerance, seed, Level::new())
    }

    /// Angle between rotations, radians.
    pub(crate) fn angle_between(a: &Mat3, b: &Mat3) -> f64 {
        let d: f64 = a.iter().flatten().zip(b.iter().flatten()).map(|(a, b)| (a - b) * (a - b)).sum();
        2.0 * libm::asin((0.5 * libm::sqrt(0.5 * d)).min(1.0))
    }

    #[test]
    fn forty_per_cent_of_wrong_pairs_do_not_matter() {
        for seed in 0..20 {
            let scene = TwoViewScene::new(seed, 500, 5e-4, 200);
            let found = estimate(&scene.pairs, 3e-3, [1, 2]).expect("a pose");
            let off = angle_between(&found.rotation, &scene.rotation).to_degrees();
            let aside = libm::asin(norm(cross(found.direction, scene.t))).to_degrees();
            assert!(
                off < 0.02 && aside < 0.15 && dot(found.direction, scene.t) > 0.0,
                "{seed}: {off} {aside}"
            );
            assert!(!found.is_pure_rotation);
            let right = found.inliers.iter().filter(|&&k| k < 300).count();
            assert!(
                right >= 295 && found.inliers.len() - right <= 8,
                "{seed}: {right} {}",
                found.inliers.len()
            );
        }
    }

    /// One sample in 13,000 of all pairs has no wrong one.
    #[test]
    fn a_sixth_of_right_pairs_is_enough_if_they_come_first() {
        for seed in 0..5 {
            let scene = TwoViewScene::new(seed, 400, 5e-4, 340);
            let found = estimate(&scene.pairs, 3e-3, [1, 2]).expect("a pose");
            assert!(angle_between(&found.rotation, &scene.rotation).to_degrees() < 0.1, "{seed}");
        }
    }

    #[test]
    fn wrong_pairs_alone_are_no_pose() {
        for seed in 0..3 {
            assert!(estimate(&TwoViewScene::new(seed, 300, 0.0, 300).pairs, 4e-3, [0, 0]).is_none());
        }
    }

    #[test]
    fn a_turn_on_the_spot_is_told_apart() {
        let mut scene = TwoViewScene::new(5, 400, 3e-4, 100);
        for (pair, point) in scene.pairs.iter_mut().zip(&scene.points).take(300) {
            let shake = vector(77, (point[0] * 1e6) as i32 as u32, 0);
            let turned = unit(mul_vec(&scene.rotation, *point));
            *pair = [unit(*point), unit(std::array::from_fn(|k| turned[k] + 3e-4 * shake[k]))];
        }
        let found = estimate(&scene.pairs, 3e-3, [1, 2]).expect("a pose");
        assert!(found.is_pure_rotation);
        assert!(angle_between(&found.rotation, &scene.rotation).to_degrees() < 0.05);
    }

    #[test]
    fn a_few_near_points_tell_the_direction_among_many_far_ones() {
        for seed in 0..10 {
            let mut scene = TwoViewScene::new(seed, 600, 3e-4, 100);
            for (k, point) in (0..).zip(&scene.points).take(420) {
                let far = point.map(|v| 500.0 * v);
                let moved = mul_vec(&scene.rotation, far);
                let by = vector(seed, k, 8);
                let other = unit(std::array::from_fn(|i| moved[i] + scene.t[i]));
                scene.pairs[k as usize] = [unit(far), unit(std::array::from_fn(|i| other[i] + 3e-4 * by[i]))];
            }
            let found = estimate(&scene.pairs, 5e-3, [1, seed]).expect("a pose");
            let aside = libm::asin(norm(cross(found.direction, scene.t))).to_degrees();
            assert!(aside < 0.6 && dot(found.direction, scene.t) > 0.0, "{seed}: {aside}");
            assert!(!found.is_pure_rotation);
        }
    }

    #[test]
    fn the_other_way_round_is_the_inverse() {
        let scene = TwoViewScene::new(8, 300, 1e-4, 60);
        let swapped: Vec<[[f64; 3]; 2]> = scene.pairs.iter().map(|[a, b]| [*b, *a]).collect();
        let found = estimate(&swapped, 3e-3, [1, 2]).expect("a pose");
        assert!(angle_between(&found.rotation, &transpose(&scene.rotation)) < 1e-3);
        let back = transpose_mul_vec(&scene.rotation, scene.t);
        assert!(dot(found.direction, back) < -0.999);
    }
}
