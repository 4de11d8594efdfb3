//! Robust similarity between positions of a receiver and poses of a camera at an offset of their clocks.

use gausset_core::Pose;
use gausset_core::se3::{self, Mat3};
use gausset_core::statistics::upper_median;

use super::interpolation::{GpsFix, Track};
use super::{MIN_FRAMES, TimedPose};
use crate::compare::Similarity;
use crate::gps::nearest_rotation;

/// Rounds of reweighting, and how many of them use L1 weights at the beginning.
pub(crate) const ROUNDS: usize = 20;
pub(super) const L1_ROUNDS: usize = 6;
/// Standard deviation of a heading or a tilt, radians; and the least standard deviation of positions, as a fraction of
/// their spread. Without that bound, noise-free positions would leave viewing directions no weight in what only they
/// determine.
const DIRECTION_DEVIATION: f64 = 0.1;
const MIN_POSITION_DEVIATION: f64 = 1e-3;

/// Known directions: in the world of the camera, and in east, north, up.
pub(crate) type Directions = Vec<([f64; 3], [f64; 3])>;

/// Frames with their positions.
pub(crate) struct Correspondences {
    pub(crate) centres: Vec<[f64; 3]>,
    pub(crate) positions: Vec<[f64; 3]>,
    pub(crate) directions: Directions,
    /// Frames with a known viewing direction.
    pub(crate) frames_with_direction: usize,
}

pub(super) fn correspondences(
    frames: &[TimedPose],
    way: &Track<'_>,
    offset: f64,
    with_looks: bool,
) -> Correspondences {
    let mut found = Correspondences {
        centres: Vec::new(),
        positions: Vec::new(),
        directions: Vec::new(),
        frames_with_direction: 0,
    };
    for frame in frames {
        let time = frame.time + offset;
        let Some(place) = way.position(time) else { continue };
        found.centres.push(frame.pose.centre());
        found.positions.push(place);
        if let Some(fix) = way.nearest(time).filter(|_| with_looks) {
            let before = found.directions.len();
            directions_of(fix, &frame.pose, &mut found.directions);
            found.frames_with_direction += usize::from(found.directions.len() > before);
        }
    }
    found
}

/// Appends the directions that a fix determines. Camera axes: x right, y down, z forward.
pub(super) fn directions_of(fix: &GpsFix, pose: &Pose, out: &mut Directions) {
    let world_from_camera = se3::transpose(&pose.rotation);
    let (sin_cos, zero) =
        (|degrees: f64| (libm::sin(degrees.to_radians()), libm::cos(degrees.to_radians())), [0.0, 0.0]);
    let [pitch, roll] = fix.tilt.unwrap_or(zero);
    let ((sp, cp), (sr, cr)) = (sin_cos(pitch), sin_cos(roll));
    if fix.tilt.is_some() {
        // Up in camera axes: -y, pitched, then rolled.
        let up = [-sr * cp, -cr * cp, sp];
        out.push((se3::mul_vec(&world_from_camera, up), [0.0, 0.0, 1.0]));
    }
    if let Some(heading) = fix.heading {
        let (s, c) = sin_cos(heading);
        out.push((se3::mul_vec(&world_from_camera, [0.0, 0.0, 1.0]), [s * cp, c * cp, sp]));
    }
}

/// A weighted similarity: rotation from positions and directions, scale and translation from positions.
pub(crate) struct WeightedFit {
    pub(crate) similarity: Similarity,
    pub(crate) residuals: Vec<f64>,
}

fn fit_weighted(paired: &Correspondences, weights: &[f64], looks: f64, previous: f64) -> Option<WeightedFit> {
    let total: f64 = weights.iter().sum();
    if total.is_nan() || total <= 0.0 {
        return None;
    }
    let mean = |points: &[[f64; 3]]| -> [f64; 3] {
        std::array::from_fn(|k| points.iter().zip(weights).map(|(p, w)| w * p[k]).sum::<f64>() / total)
    };
    let (a0, b0) = (mean(&paired.centres), mean(&paired.positions));
    let mut covariance = [[0.0; 3]; 3];
    let mut variance = 0.0;
    for ((a, b), w) in paired.centres.iter().zip(&paired.positions).zip(weights) {
        let a: [f64; 3] = std::array::from_fn(|k| a[k] - a0[k]);
        let b: [f64; 3] = std::array::from_fn(|k| b[k] - b0[k]);
        add(&mut covariance, b, a, *w);
        variance += w * se3::dot(a, a);
    }
    // Positions and directions in one sum, each divided by its variance.
    let mut both = covariance.map(|row| row.map(|v| v * previous));
    for (camera, earth) in &paired.directions {
        add(&mut both, *earth, *camera, looks);
    }
    let rotation = nearest_rotation(&both);
    let trace: f64 = (0..3).map(|i| (0..3).map(|j| rotation[i][j] * covariance[i][j]).sum::<f64>()).sum();
    let scale = trace / variance;
    if !(scale.is_finite() && scale > 0.0) {
        return None;
    }
    let turned = se3::mul_vec(&rotation, a0);
    let translation = std::array::from_fn(|k| b0[k] - scale * turned[k]);
    let similarity = Similarity { scale, rotation, translation };
    let miss = |(a, b): (&[f64; 3], &[f64; 3])| se3::distance(similarity.apply(*a), *b);
    let residuals = paired.centres.iter().zip(&paired.positions).map(miss).collect();
    Some(WeightedFit { similarity, residuals })
}

fn add(sum: &mut Mat3, b: [f64; 3], a: [f64; 3], weight: f64) {
    for i in 0..3 {
        for j in 0..3 {
            sum[i][j] += weight * b[i] * a[j];
        }
    }
}

pub(super) fn root_mean_square(values: &[f64], weights: &[f64]) -> f64 {
    let total: f64 = weights.iter().sum();
    (values.iter().zip(weights).map(|(v, w)| w * v * v).sum::<f64>() / total).sqrt()
}

/// Weighted root mean square distance of points from their mean.
pub(super) fn spread(points: &[[f64; 3]], weights: &[f64]) -> f64 {
    let total: f64 = weights.iter().sum();
    let mean: [f64; 3] =
        std::array::from_fn(|k| points.iter().zip(weights).map(|(p, w)| w * p[k]).sum::<f64>() / total);
    let distances: Vec<f64> = points.iter().map(|p| se3::distance(*p, mean)).collect();
    root_mean_square(&distances, weights)
}

/// Median distance of points from their coordinate-wise median.
pub(super) fn median_spread(points: &[[f64; 3]]) -> f64 {
    let middle: [f64; 3] =
        std::array::from_fn(|k| upper_median(points.iter().map(|p| p[k]).collect()).unwrap_or(0.0));
    upper_median(points.iter().map(|p| se3::distance(*p, middle)).collect()).unwrap_or(0.0)
}

/// The robust fit: the solution and its weights.
pub(crate) fn fit_robust(paired: &Correspondences, rounds: usize) -> Option<(WeightedFit, Vec<f64>)> {
    if paired.centres.len() < MIN_FRAMES {
        return None;
    }
    let extent = median_spread(&paired.positions);
    let mut weights = vec![1.0; paired.centres.len()];
    let mut scale = extent / median_spread(&paired.centres).max(f64::MIN_POSITIVE);
    let mut deviation = 0.1 * extent;
    let mut best = None;
    for round in 0..rounds {
        let looks = (deviation.max(MIN_POSITION_DEVIATION * extent) / DIRECTION_DEVIATION).powi(2);
        let solution = fit_weighted(paired, &weights, looks, scale)?;
        // For isotropic normal errors in three dimensions, the median distance is 1.54 standard deviations.
        deviation = (upper_median(solution.residuals.clone()).unwrap_or(0.0) / 1.54).max(1e-9 * extent);
        scale = solution.similarity.scale;
        weights = solution
            .residuals
            .iter()
            .map(|r| match round < L1_ROUNDS {
                true => deviation / r.max(deviation),
                false => 1.0 / (1.0 + (r / (3.0 * deviation)).powi(2)),
            })
            .collect();
        best = Some(solution);
    }
    best.map(|solution| (solution, weights))
}
