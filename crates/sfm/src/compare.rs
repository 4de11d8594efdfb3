//! Compares two sets of poses of the same images: a similarity fit, then errors of centres and rotations.
//!
//! ```text
//! fit        reference ≈ s R first + t: Umeyama (1991) over corresponding centres. Centres that are more than ten
//!            robust deviations off (least median of squares, Rousseeuw 1984) are left out of the fit, not of the errors.
//!            Collinear centres do not determine the rotation about their line: R is then the mean of the rotations.
//! centre     |s R a + t - b|, units of the reference
//! rotation   angle of A Rᵀ Bᵀ, degrees (A, B: camera_from_world)
//! drift      over segments of a quarter of the path, from each frame (Geiger et al. 2012, KITTI): error of the pose at
//!            the end of a segment relative to its beginning, per unit of path length
//! ```

use gausset_core::Pose;
use gausset_core::linalg::jacobi;
use gausset_core::se3::{self, Mat3, distance};
use serde::Serialize;

use crate::gps::{fit_similarity, nearest_rotation};

/// Fewest poses in common.
pub const MIN_POSES: usize = 3;
/// Centres that are more than this many robust deviations off are outliers.
const OUTLIER_DEVIATIONS: f64 = 10.0;
/// Residuals below this fraction of the spread are rounding and never make an outlier.
const ROUNDING_FRACTION: f64 = 1e-9;
/// A triple is used if its second deviation is at least this fraction of the first deviation of all centres.
const MIN_TRIPLE_WIDTH: f64 = 0.01;
/// Largest number of triples that the robust search tries, and of pairs that it takes them from.
const MAX_TRIPLES: usize = 2000;
const MAX_TRIED: usize = 300;
/// Centres are collinear if their second deviation is at most this fraction of the first.
const COLLINEAR_RATIO: f64 = 1e-3;
/// The centres are mirrored if their mirror image fits this many times better.
const MIRROR_RATIO: f64 = 10.0;
/// Length of the segments for the drift, as a fraction of the path.
const SEGMENT_FRACTION: f64 = 0.25;

/// Mean, median and maximum of errors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct ErrorStats {
    /// Arithmetic mean of the errors.
    pub mean: f64,
    /// Median: of an even number of values the mean of the two in the middle.
    pub median: f64,
    /// The largest error.
    pub worst: f64,
}

impl ErrorStats {
    /// Statistics of some errors; zeros if there are none.
    #[must_use]
    pub fn new(values: impl Iterator<Item = f64>) -> Self {
        let mut all: Vec<f64> = values.collect();
        all.sort_by(f64::total_cmp);
        let Some(&worst) = all.last() else { return Self::default() };
        let half = all.len() / 2;
        let median = if all.len() % 2 == 1 { all[half] } else { 0.5 * (all[half - 1] + all[half]) };
        Self { mean: all.iter().sum::<f64>() / all.len() as f64, median, worst }
    }
}

/// A similarity that maps the world of the first poses to that of the reference.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Similarity {
    /// Units of the reference per unit of the first world.
    pub scale: f64,
    /// Rotation matrix, by rows.
    pub rotation: Mat3,
    /// Translation, units of the reference.
    pub translation: [f64; 3],
}

impl Similarity {
    /// Maps a point of the first world to that of the reference.
    #[must_use]
    pub fn apply(&self, point: [f64; 3]) -> [f64; 3] {
        let turned = se3::mul_vec(&self.rotation, point);
        std::array::from_fn(|k| self.scale * turned[k] + self.translation[k])
    }

    /// Maps a pose (`camera_from_world`) of the first world to that of the reference.
    #[must_use]
    pub fn apply_to_pose(&self, pose: &Pose) -> Pose {
        let rotation = se3::mul(&pose.rotation, &se3::transpose(&self.rotation));
        let back = se3::mul_vec(&rotation, self.apply(pose.centre()));
        Pose { rotation, translation: back.map(|v| -v) }
    }
}

/// Error of one pose.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PoseDeviation {
    /// Centre of the first pose, mapped to the world of the reference.
    pub fitted: [f64; 3],
    /// Centre of the reference pose.
    pub reference: [f64; 3],
    /// Distance of the two, units of the reference.
    pub centre: f64,
    /// Angle between the rotations, degrees.
    pub rotation: f64,
    /// Whether it took part in the fit; `false` for outliers.
    pub is_fitted: bool,
}

/// Drift along the path.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Drift {
    /// Length of the segments, units of the reference.
    pub piece: f64,
    /// Number of segments.
    pub pieces: usize,
    /// Mean error of the translation per unit of path length.
    pub translation: f64,
    /// Mean error of the rotation, degrees per unit of path length.
    pub rotation: f64,
}

/// Result of a comparison.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// The similarity fit.
    pub fit: Similarity,
    /// Whether the centres are collinear, so that the rotation of the fit is the mean of the cameras' rotations.
    pub is_collinear: bool,
    /// Errors, in the order of the pairs.
    pub errors: Vec<PoseDeviation>,
    /// Errors of the centres, units of the reference.
    pub centre: ErrorStats,
    /// Errors of the rotations, degrees.
    pub rotation: ErrorStats,
    /// Length of the reference's path from frame to frame.
    pub path_length: f64,
    /// Drift along the path.
    pub drift: Option<Drift>,
}

/// Why poses cannot be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CompareError {
    /// Too few poses in common.
    #[error("{0} in common (expected at least {MIN_POSES})")]
    TooFew(usize),
    /// All centres are equal.
    #[error("all centres of {0} are equal, so there is no scale")]
    EqualCentres(&'static str),
    /// One world is the mirror image of the other.
    #[error("the centres are mirror images of each other, so no rotation aligns them")]
    Mirrored,
    /// A number is not finite, or so large that its square is not.
    #[error("a centre is not finite")]
    NotFinite,
}

/// Compares corresponding poses (`camera_from_world`): (first, reference), in the order of the path. Poses with the
/// same frame number count as one step of the path.
///
/// ```
/// use gausset_core::Pose;
/// use gausset_sfm::compare::compare;
///
/// let at = |centre: [f64; 3]| Pose { translation: centre.map(|v| -v), ..Pose::IDENTITY };
/// // The reference is twice as large.
/// let pairs = [[0.0; 3], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]];
/// let pairs = pairs.map(|centre| (at(centre), at(centre.map(|v| 2.0 * v))));
/// let comparison = compare(&pairs, &[0, 1, 2, 3])?;
/// assert!((comparison.fit.scale - 2.0).abs() < 1e-9);
/// # Ok::<(), gausset_sfm::compare::CompareError>(())
/// ```
///
/// # Errors
/// Too few poses, equal or mirrored centres, or a number that is not finite.
pub fn compare(pairs: &[(Pose, Pose)], moments: &[u32]) -> Result<Comparison, CompareError> {
    if pairs.len() < MIN_POSES {
        return Err(CompareError::TooFew(pairs.len()));
    }
    let centres = |of: fn(&(Pose, Pose)) -> &Pose| pairs.iter().map(|p| of(p).centre()).collect::<Vec<_>>();
    let (from, to) = (centres(|p| &p.0), centres(|p| &p.1));
    let mut is_line = false;
    for (name, points) in [("the first", &from), ("the reference", &to)] {
        let deviations = deviations(points);
        if !deviations.iter().all(|v| v.is_finite()) {
            return Err(CompareError::NotFinite);
        }
        let size = points.iter().map(|p| se3::norm(*p)).fold(0.0, f64::max);
        if deviations[0] <= ROUNDING_FRACTION * size {
            return Err(CompareError::EqualCentres(name));
        }
        is_line |= deviations[1] <= COLLINEAR_RATIO * deviations[0];
    }
    let along = path_lengths(&to, moments);
    let taken = if is_line { vec![true; pairs.len()] } else { inliers(&from, &to, along.len()) };
    let of = |points: &[[f64; 3]]| -> Vec<[f64; 3]> {
        points.iter().zip(&taken).filter(|(_, taken)| **taken).map(|(p, _)| *p).collect()
    };
    let (from_taken, to_taken) = (of(&from), of(&to));
    let fit = if is_line {
        fit_collinear(pairs, &from, &to)
    } else {
        let (fit, rotation, translation) =
            fit_similarity(&from_taken, &to_taken).ok_or(CompareError::NotFinite)?;
        if is_mirrored(&from_taken, &to_taken, fit.residual, fit.spread) {
            return Err(CompareError::Mirrored);
        }
        Similarity { scale: fit.scale, rotation, translation }
    };
    if !(fit.scale.is_finite() && fit.scale > 0.0) {
        return Err(CompareError::EqualCentres("one of them, as far as they agree,"));
    }
    let fitted: Vec<Pose> = pairs.iter().map(|(first, _)| fit.apply_to_pose(first)).collect();
    let errors: Vec<PoseDeviation> = (0..pairs.len())
        .map(|i| {
            let (at, reference) = (fit.apply(from[i]), to[i]);
            PoseDeviation {
                fitted: at,
                reference,
                centre: distance(at, reference),
                rotation: angle(&fitted[i].rotation, &pairs[i].1.rotation).to_degrees(),
                is_fitted: taken[i],
            }
        })
        .collect();
    let path = along.last().map_or(0.0, |(_, way)| *way);
    Ok(Comparison {
        centre: ErrorStats::new(errors.iter().map(|e| e.centre)),
        rotation: ErrorStats::new(errors.iter().map(|e| e.rotation)),
        drift: drift(&fitted, pairs, &along),
        fit,
        is_collinear: is_line,
        errors,
        path_length: path,
    })
}

/// Angle between two rotations, radians. Accurate also for small angles, for which the trace is not.
fn angle(a: &Mat3, b: &Mat3) -> f64 {
    let d = se3::mul(a, &se3::transpose(b));
    let axis = [d[2][1] - d[1][2], d[0][2] - d[2][0], d[1][0] - d[0][1]];
    libm::atan2(se3::norm(axis), d[0][0] + d[1][1] + d[2][2] - 1.0)
}

/// Standard deviations along the principal axes, largest first.
pub(crate) fn deviations(points: &[[f64; 3]]) -> [f64; 3] {
    let n = points.len() as f64;
    let mean: [f64; 3] = std::array::from_fn(|k| points.iter().map(|p| p[k]).sum::<f64>() / n);
    let mut c = [[0.0; 3]; 3];
    for p in points {
        for i in 0..3 {
            for j in 0..3 {
                c[i][j] += (p[i] - mean[i]) * (p[j] - mean[j]) / n;
            }
        }
    }
    let trace = c[0][0] + c[1][1] + c[2][2];
    // Three axes converge in a few sweeps.
    let (variances, _) = jacobi(c, 12, |v| v.abs() <= f64::EPSILON * 1e-3 * trace);
    let mut out = variances.map(|v| if v.is_nan() { v } else { v.max(0.0).sqrt() });
    out.sort_by(|a, b| b.total_cmp(a));
    out
}

/// Selects the centres that take part in the fit; `moments` is the number of distinct frames.
fn inliers(from: &[[f64; 3]], to: &[[f64; 3]], moments: usize) -> Vec<bool> {
    // With fewer frames, some triple always fits most centres, whatever the others are.
    if moments < 5 {
        return vec![true; from.len()];
    }
    let residual = |fit: &Similarity, i: usize| distance(fit.apply(from[i]), to[i]);
    match least_median(from, to, &residual) {
        Some(residuals) => within_limit(&residuals, moments, deviations(to)[0]),
        None => vec![true; from.len()],
    }
}

/// The residuals of all pairs after the similarity through a triple of them whose median residual is the least.
pub(crate) fn least_median(
    from: &[[f64; 3]],
    to: &[[f64; 3]],
    residual: &dyn Fn(&Similarity, usize) -> f64,
) -> Option<Vec<f64>> {
    let (wide_from, wide_to) = (MIN_TRIPLE_WIDTH * deviations(from)[0], MIN_TRIPLE_WIDTH * deviations(to)[0]);
    // Of many pairs, every n-th may be part of a triple.
    let tried: Vec<usize> = (0..from.len()).step_by(from.len().div_ceil(MAX_TRIED).max(1)).collect();
    let count = tried.len();
    let triples = count * count.saturating_sub(1) * count.saturating_sub(2) / 6;
    let stride = triples.div_ceil(MAX_TRIPLES).max(1);
    let mut best: Option<(f64, Vec<f64>)> = None;
    let mut at = 0usize;
    for i in 0..count {
        for j in i + 1..count {
            for k in j + 1..count {
                at += 1;
                if !at.is_multiple_of(stride) {
                    continue;
                }
                let pick = |points: &[[f64; 3]]| [i, j, k].map(|index| points[tried[index]]);
                // Three collinear points, or two distinct ones, fit anything.
                if deviations(&pick(from))[1] < wide_from || deviations(&pick(to))[1] < wide_to {
                    continue;
                }
                let Some((fit, rotation, translation)) = fit_similarity(&pick(from), &pick(to)) else {
                    continue;
                };
                let fit = Similarity { scale: fit.scale, rotation, translation };
                let residuals: Vec<f64> = (0..from.len()).map(|i| residual(&fit, i)).collect();
                let median = ErrorStats::new(residuals.iter().copied()).median;
                if best.as_ref().is_none_or(|(least, _)| median < *least) {
                    best = Some((median, residuals));
                }
            }
        }
    }
    best.map(|(_, residuals)| residuals)
}

/// Whether each residual is at most ten robust deviations; all, if that is not so for more than half of them. `moments`
/// is the number of distinct frames, at least 4.
pub(crate) fn within_limit(residuals: &[f64], moments: usize, spread: f64) -> Vec<bool> {
    let median = ErrorStats::new(residuals.iter().copied()).median;
    // 1.4826 turns the median of normal errors into a standard deviation; the other factor corrects for small samples.
    let deviation = 1.4826 * (1.0 + 5.0 / moments.saturating_sub(3).max(1) as f64) * median;
    let most = (OUTLIER_DEVIATIONS * deviation).max(ROUNDING_FRACTION * spread);
    let taken: Vec<bool> = residuals.iter().map(|r| *r <= most).collect();
    let is_majority = taken.iter().filter(|t| **t).count() * 2 > taken.len();
    if is_majority { taken } else { vec![true; taken.len()] }
}

/// Whether the mirror image of the first centres fits far better than the centres themselves.
fn is_mirrored(from: &[[f64; 3]], to: &[[f64; 3]], residual: f64, spread: f64) -> bool {
    let mirrored: Vec<[f64; 3]> = from.iter().map(|p| p.map(|v| -v)).collect();
    let Some((mirror, ..)) = fit_similarity(&mirrored, to) else { return false };
    residual > 1e-6 * spread && residual > MIRROR_RATIO * mirror.residual
}

/// The fit of collinear centres: the mean rotation of the cameras, then scale and translation.
fn fit_collinear(pairs: &[(Pose, Pose)], from: &[[f64; 3]], to: &[[f64; 3]]) -> Similarity {
    let mut sum = [[0.0; 3]; 3];
    for (a, b) in pairs {
        let one = se3::mul(&se3::transpose(&b.rotation), &a.rotation);
        for i in 0..3 {
            for j in 0..3 {
                sum[i][j] += one[i][j];
            }
        }
    }
    let rotation = nearest_rotation(&sum);
    let n = from.len() as f64;
    let mean = |points: &[[f64; 3]]| -> [f64; 3] {
        std::array::from_fn(|k| points.iter().map(|p| p[k]).sum::<f64>() / n)
    };
    let (mean_from, mean_to) = (se3::mul_vec(&rotation, mean(from)), mean(to));
    let (mut both, mut own) = (0.0, 0.0);
    for (a, b) in from.iter().zip(to) {
        let turned = se3::mul_vec(&rotation, *a);
        let a: [f64; 3] = std::array::from_fn(|k| turned[k] - mean_from[k]);
        let b: [f64; 3] = std::array::from_fn(|k| b[k] - mean_to[k]);
        both += se3::dot(a, b);
        own += se3::dot(a, a);
    }
    let scale = both / own;
    Similarity { scale, rotation, translation: std::array::from_fn(|k| mean_to[k] - scale * mean_from[k]) }
}

/// The first pair of each frame, and the path length up to it.
fn path_lengths(reference: &[[f64; 3]], moments: &[u32]) -> Vec<(usize, f64)> {
    let mut seen = std::collections::BTreeSet::new();
    let mut along: Vec<(usize, f64)> = Vec::new();
    for (index, &centre) in reference.iter().enumerate() {
        let moment = moments.get(index).copied().unwrap_or(index as u32);
        if !seen.insert(moment) {
            continue;
        }
        let way = along.last().map_or(0.0, |(last, way)| way + distance(reference[*last], centre));
        along.push((index, way));
    }
    along
}

fn drift(fitted: &[Pose], pairs: &[(Pose, Pose)], along: &[(usize, f64)]) -> Option<Drift> {
    let path = along.last()?.1;
    let piece = SEGMENT_FRACTION * path;
    let (mut translation, mut rotation, mut pieces) = (0.0, 0.0, 0usize);
    for (place, &(from, start)) in along.iter().enumerate() {
        let Some(&(to, end)) = along[place..].iter().find(|(_, way)| way - start >= piece) else { break };
        let way = end - start;
        if way <= 0.0 {
            continue;
        }
        // Poses of the end in the axes of the beginning, inverse(begin ∘ inverse(end)).
        let first = fitted[from].compose(&fitted[to].inverse());
        let reference = pairs[from].1.compose(&pairs[to].1.inverse());
        let error = reference.inverse().compose(&first);
        translation += se3::norm(error.translation) / way;
        rotation += angle(&first.rotation, &reference.rotation).to_degrees() / way;
        pieces += 1;
    }
    let n = pieces as f64;
    (pieces > 0).then_some(Drift { piece, pieces, translation: translation / n, rotation: rotation / n })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Poses along a curved path.
    fn path(count: usize) -> Vec<Pose> {
        (0..count)
            .map(|k| {
                let a = 0.37 * k as f64;
                let q = [1.0, 0.3 * libm::sin(a), 0.5 * libm::cos(2.0 * a), 0.1];
                let n = q.iter().map(|v| v * v).sum::<f64>().sqrt();
                let pose = Pose::from_quaternion(q.map(|v| v / n), [0.0; 3]).unwrap();
                let centre = [a, libm::sin(a), 0.3 * libm::cos(1.7 * a)];
                let back = se3::mul_vec(&pose.rotation, centre);
                Pose { translation: back.map(|v| -v), ..pose }
            })
            .collect()
    }

    fn example() -> Similarity {
        let rotation = se3::rotation_from_quaternion([0.5, -0.5, 0.7, 0.1]);
        Similarity { scale: 2.5, rotation, translation: [1.0, -4.0, 9.0] }
    }

    fn pairs(count: usize) -> Vec<(Pose, Pose)> {
        path(count).iter().map(|pose| (*pose, example().apply_to_pose(pose))).collect()
    }

    #[test]
    fn a_similarity_leaves_no_errors() {
        let found = compare(&pairs(12), &[]).unwrap();
        assert!((found.fit.scale - 2.5).abs() < 1e-12 && !found.is_collinear);
        assert!(found.centre.worst < 1e-12 && found.rotation.worst < 1e-10, "{found:?}");
        assert!(found.drift.unwrap().translation < 1e-12);
    }

    #[test]
    fn what_is_off_is_named_and_does_not_bend_the_fit() {
        let mut pairs = pairs(12);
        pairs[7].1.translation[0] += 100.0;
        let turn = se3::so3_exp([0.0, 0.02, 0.0]);
        pairs[3].1.rotation = se3::mul(&turn, &pairs[3].1.rotation);
        let moved = example().apply(pairs[3].0.centre());
        pairs[3].1.translation = se3::mul_vec(&pairs[3].1.rotation, moved).map(|v| -v);
        let found = compare(&pairs, &[]).unwrap();
        assert_eq!((0..12).filter(|&i| !found.errors[i].is_fitted).collect::<Vec<_>>(), [7]);
        assert!((found.errors[7].centre - 100.0).abs() < 1e-9 && found.errors[6].centre < 1e-12);
        assert!((found.errors[3].rotation - 0.02f64.to_degrees()).abs() < 1e-10, "{:?}", found.errors[3]);
        assert!((found.fit.scale - 2.5).abs() < 1e-12);
        assert!((found.centre.mean - 100.0 / 12.0).abs() < 1e-9 && found.centre.median < 1e-12);
    }

    #[test]
    fn views_of_few_moments_say_nothing_about_outliers() {
        // Eight views at each of three and of six positions; the second position is off.
        for (places, left_out) in [(3, 0), (6, 8)] {
            let mut all: Vec<(Pose, Pose)> = pairs(places).into_iter().flat_map(|pair| [pair; 8]).collect();
            all[8..16].iter_mut().for_each(|(_, reference)| reference.translation[0] += 20.0);
            let moments: Vec<u32> = (0..all.len() as u32).map(|k| k / 8).collect();
            let found = compare(&all, &moments).unwrap();
            assert_eq!(found.errors.iter().filter(|e| !e.is_fitted).count(), left_out);
        }
    }

    #[test]
    fn a_straight_line_is_turned_as_the_cameras_are() {
        let mut poses = path(6);
        for (k, pose) in poses.iter_mut().enumerate() {
            pose.translation = se3::mul_vec(&pose.rotation, [k as f64, 0.0, 0.0]).map(|v| -v);
        }
        let pairs: Vec<(Pose, Pose)> = poses.iter().map(|p| (*p, example().apply_to_pose(p))).collect();
        let found = compare(&pairs, &[]).unwrap();
        assert!(found.is_collinear && found.rotation.worst < 1e-9 && found.centre.worst < 1e-11, "{found:?}");
        assert!((found.fit.scale - 2.5).abs() < 1e-12);
    }

    #[test]
    fn a_scale_that_grows_is_drift() {
        // Every step is 1 % longer than in the reference: 1 % of each segment, nothing after the fit of one scale.
        let along = |step: f64| {
            let at = |k: usize| [step * k as f64, 0.0, 0.0];
            (0..9).map(|k| Pose { translation: at(k).map(|v| -v), ..Pose::IDENTITY }).collect::<Vec<_>>()
        };
        let same: Vec<_> = along(1.01).into_iter().zip(along(1.0)).collect();
        let found = compare(&same, &[]).unwrap();
        assert!(found.drift.unwrap().translation < 1e-12 && (found.path_length - 8.0).abs() < 1e-12);
        // A rotation of 0.01 radians a step adds up to the same in each segment.
        let turned =
            |k: usize| Pose { rotation: se3::so3_exp([0.0, 0.01 * k as f64, 0.0]), translation: [0.0; 3] };
        let turning: Vec<_> =
            along(1.0).into_iter().enumerate().map(|(k, p)| (turned(k).compose(&p), p)).collect();
        let drift = compare(&turning, &[]).unwrap().drift.unwrap();
        assert!((drift.rotation - 0.01f64.to_degrees()).abs() < 1e-9 && drift.pieces == 7, "{drift:?}");
        // Images of one frame are one step.
        let twice: Vec<_> = same.iter().flat_map(|p| [*p, *p]).collect();
        let moments: Vec<u32> = (0..18).map(|k| k / 2).collect();
        assert!((compare(&twice, &moments).unwrap().path_length - 8.0).abs() < 1e-12);
    }

    #[test]
    fn what_has_no_answer_says_why() {
        let all = pairs(12);
        assert_eq!(compare(&all[..2], &[]).unwrap_err(), CompareError::TooFew(2));
        let still: Vec<_> = all.iter().map(|(a, _)| (*a, Pose::IDENTITY)).collect();
        assert_eq!(compare(&still, &[]).unwrap_err(), CompareError::EqualCentres("the reference"));
        let mirror = |p: &Pose| {
            let c = p.centre();
            Pose { translation: [c[0], -c[1], -c[2]], ..Pose::IDENTITY }
        };
        let mirrored: Vec<_> = all.iter().map(|(a, _)| (*a, mirror(a))).collect();
        assert_eq!(compare(&mirrored, &[]).unwrap_err(), CompareError::Mirrored);
        let mut far = all.clone();
        far[0].0.translation[0] = 1e200;
        assert_eq!(compare(&far, &[]).unwrap_err(), CompareError::NotFinite);
    }
}
