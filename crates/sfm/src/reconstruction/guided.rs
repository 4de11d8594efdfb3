//! Matches along epipolar lines: with known poses, all features of two pictures are compared, but each only with those
//! near its epipolar plane.
//!
//! All epipolar planes contain the baseline, so a plane is an angle around it, and the two bearings of a point have the
//! same one. Features of the second picture are sorted by this angle; the candidates of a feature of the first are a
//! range. `θ` is the angle between a bearing and the baseline; the error of a bearing, at a distance `Δφ` of the angles, is
//! about `Δφ sin θ`.

use gausset_compute::at_level;
use gausset_compute::fearless_simd::Level;
use gausset_core::Pose;
use gausset_core::matrix::{dot, mul, mul_vec, norm, transpose};

use crate::reconstruction::features::Features;
use crate::reconstruction::matches::{MAX_RATIO, MAX_SQUARED_DISTANCE, WideDescriptors, squared_distance};
use crate::reconstruction::two_view::tangents;

/// Least baseline, in units of the median baseline: below, planes are not determined.
const MIN_BASELINE: f64 = 1e-3;
/// Least `sin θ`: features nearer to the epipole could lie on any plane.
const MIN_SINE: f64 = 0.02;

/// A match of features of two pictures.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct GuidedMatch {
    /// Feature of the first and of the second picture.
    pub(crate) features: [u32; 2],
    /// Distance of the descriptors relative to the next candidate.
    pub(crate) ratio: f64,
}

/// A picture whose features are matched.
#[derive(Clone, Copy)]
pub(crate) struct PosedPicture<'a> {
    pub(crate) pose: &'a Pose,
    pub(crate) features: &'a Features,
    pub(crate) descriptors: &'a WideDescriptors,
}

/// Where a bearing is relative to the baseline.
#[derive(Clone, Copy, Debug)]
struct PlaneAngle {
    /// Angle of its epipolar plane, radians.
    phi: f64,
    cosine: f64,
    sine: f64,
    feature: u32,
}

/// How far bearings of matches may be from each other's epipolar plane, radians.
#[derive(Clone, Copy)]
pub(crate) struct Band {
    /// Largest error of a match.
    pub(crate) tolerance: f64,
    /// Largest error of a feature that is compared, at least the tolerance: if one outside of it is more like, there is no
    /// match, so that repeated patterns do not confirm a wrong pose.
    pub(crate) compared: f64,
}

/// Mutual nearest neighbours in a band, in front of both pictures, with a parallax of at most `max_parallax` (radians).
pub(crate) fn guided_matches(
    a: PosedPicture<'_>,
    b: PosedPicture<'_>,
    band: Band,
    max_parallax: f64,
    level: Level,
) -> Vec<GuidedMatch> {
    let rotation = mul(&b.pose.rotation, &transpose(&a.pose.rotation));
    let moved = mul_vec(&rotation, a.pose.translation);
    // From the centre of b to that of a, in the axes of b.
    let baseline: [f64; 3] = std::array::from_fn(|k| b.pose.translation[k] - moved[k]);
    let length = norm(baseline);
    if length < MIN_BASELINE {
        return Vec::new();
    }
    let axis = baseline.map(|v| v / length);
    let [first, second] = tangents(axis);
    let place = |(feature, bearing): (u32, [f64; 3])| {
        let [x, y] = [dot(first, bearing), dot(second, bearing)];
        let [cosine, sine] = [dot(axis, bearing), libm::hypot(x, y)];
        PlaneAngle { phi: libm::atan2(y, x), cosine, sine, feature }
    };
    let of_a = (0u32..).zip(a.features.features.iter().map(|f| mul_vec(&rotation, f.bearing)));
    let of_a: Vec<PlaneAngle> = of_a.map(place).collect();
    let mut of_b: Vec<PlaneAngle> =
        (0u32..).zip(b.features.features.iter().map(|f| f.bearing)).map(place).collect();
    of_b.sort_by(|a, b| a.phi.total_cmp(&b.phi).then(a.feature.cmp(&b.feature)));
    let limits = Limits { band, cos_parallax: libm::cos(max_parallax) };
    let descriptors = [a.descriptors, b.descriptors];
    at_level!(level, _simd => nearest_in_bands(&of_a, &of_b, descriptors, limits))
}

/// What candidates must fulfil.
#[derive(Clone, Copy)]
struct Limits {
    band: Band,
    /// Cosine of the largest parallax.
    cos_parallax: f64,
}

impl Limits {
    /// The error of two bearings, `off` radians apart around the baseline; `None` if they can not be of one point in front
    /// of both pictures.
    #[inline(always)]
    fn error(&self, a: &PlaneAngle, b: &PlaneAngle, off: f64) -> Option<f64> {
        let error = off * if a.sine > b.sine { a.sine } else { b.sine };
        let ahead = a.sine * b.cosine - a.cosine * b.sine >= -2.0 * self.band.tolerance;
        let near = a.cosine * b.cosine + a.sine * b.sine >= self.cos_parallax;
        (ahead && near && error <= self.band.compared).then_some(error)
    }
}

/// The nearest and the second nearest candidate of a feature.
#[derive(Clone, Copy)]
struct Candidate {
    distance: i32,
    second_distance: i32,
    feature: u32,
    /// Error, radians.
    error: f64,
}

/// Distance of the second candidate where there is none: the nearest one may be as far as allowed.
const NO_SECOND: i32 = (MAX_SQUARED_DISTANCE as f64 / (MAX_RATIO * MAX_RATIO)) as i32;

#[inline(always)]
fn nearest_in_bands(
    of_a: &[PlaneAngle],
    of_b: &[PlaneAngle],
    [descriptors_a, descriptors_b]: [&WideDescriptors; 2],
    limits: Limits,
) -> Vec<GuidedMatch> {
    let mut rows = Vec::with_capacity(of_a.len());
    let mut columns = vec![(i32::MAX, u32::MAX); of_b.len()];
    for a in of_a {
        let mut best = Candidate {
            distance: MAX_SQUARED_DISTANCE,
            second_distance: NO_SECOND,
            feature: u32::MAX,
            error: 0.0,
        };
        let reach = limits.band.compared / a.sine.max(MIN_SINE);
        // Around a full circle: the same angles one revolution lower and higher.
        for shift in [-std::f64::consts::TAU, 0.0, std::f64::consts::TAU] {
            let centre = a.phi + shift;
            if a.sine < MIN_SINE || centre.abs() > std::f64::consts::PI + reach {
                continue;
            }
            let from = of_b.partition_point(|b| b.phi < centre - reach);
            for b in of_b[from..].iter().take_while(|b| b.phi <= centre + reach) {
                let Some(error) = limits.error(a, b, (b.phi - centre).abs()) else { continue };
                let distance = squared_distance(descriptors_a, a.feature, descriptors_b, b.feature);
                if distance < best.distance {
                    let before = if best.feature == u32::MAX { NO_SECOND } else { best.distance };
                    let second_distance = best.second_distance.min(before);
                    best = Candidate { distance, second_distance, feature: b.feature, error };
                } else if distance < best.second_distance {
                    best.second_distance = distance;
                }
                let column = &mut columns[b.feature as usize];
                if distance < column.0 {
                    *column = (distance, a.feature);
                }
            }
        }
        rows.push(best);
    }
    let is_match = |(a, best): &(&PlaneAngle, &Candidate)| {
        best.feature != u32::MAX
            && best.error <= limits.band.tolerance
            && f64::from(best.distance) < MAX_RATIO * MAX_RATIO * f64::from(best.second_distance)
            && columns[best.feature as usize].1 == a.feature
    };
    of_a.iter()
        .zip(&rows)
        .filter(is_match)
        .map(|(a, best)| GuidedMatch {
            features: [a.feature, best.feature],
            ratio: f64::from(best.distance) / f64::from(best.second_distance),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reconstruction::features::Feature;
    use crate::reconstruction::two_view::tests::vector;
    use gausset_compute::rng::philox4x32;
    use gausset_compute::{SimdLevel, dispatch_level};
    use gausset_core::matrix::unit;
    use gausset_core::se3::so3_exp;

    const NARROW: Band = Band { tolerance: 1e-3, compared: 1e-3 };

    /// Pictures of 300 points with five descriptors in turns, so that only the places tell points apart; the features of
    /// the second come in reverse.
    fn pictures() -> [(Pose, Features); 2] {
        let poses = [
            Pose { rotation: so3_exp([0.1, -0.2, 0.05]), translation: [0.0, 0.0, 5.0] },
            Pose { rotation: so3_exp([0.15, 0.1, -0.3]), translation: [1.0, 0.3, 5.5] },
        ];
        let features = |pose: &Pose, noise: u32| {
            let mut found = Features::default();
            for k in 0..300 {
                let y = pose.apply(vector(70, k, 0).map(|v| 1.5 * v));
                let off = vector(71 + noise, k, 0);
                let bearing = unit(std::array::from_fn(|i| unit(y)[i] + 1e-4 * off[i]));
                found.features.push(Feature { bearing, view: 0, pixel: [0.0; 2], size: 2.0, colour: [0; 3] });
                let look = |i: usize| (philox4x32([k % 60, i as u32, 0, 0], [9, 9])[0] >> 26) as u8;
                found.descriptors.push(std::array::from_fn(look));
            }
            found
        };
        let [a, mut b] = [features(&poses[0], 0), features(&poses[1], 1)];
        b.features.reverse();
        b.descriptors.reverse();
        [(poses[0], a), (poses[1], b)]
    }

    #[test]
    fn equal_descriptors_are_told_apart_by_their_epipolar_lines() {
        let [(pose_a, a), (pose_b, b)] = pictures();
        let wide = [&a, &b].map(|features| WideDescriptors::new(&features.descriptors));
        let one = PosedPicture { pose: &pose_a, features: &a, descriptors: &wide[0] };
        let other = PosedPicture { pose: &pose_b, features: &b, descriptors: &wide[1] };
        let mut known: Option<Vec<GuidedMatch>> = None;
        for level in SimdLevel::ALL.into_iter().filter_map(dispatch_level) {
            let found = guided_matches(one, other, NARROW, 1.0, level);
            let right = found.iter().filter(|m| m.features[0] + m.features[1] == 299).count();
            assert!(right > 240 && right + 12 > found.len(), "{right} of {}", found.len());
            assert!(known.replace(found.clone()).is_none_or(|before| before == found));
        }
        // The points have more parallax than that.
        let found = guided_matches(one, other, NARROW, 0.02, Level::new());
        assert!(found.len() < 60, "{}", found.len());
        // Compared with all others, equal descriptors are no matches.
        let all = Band { compared: 4.0, ..NARROW };
        assert!(guided_matches(one, other, all, 1.0, Level::new()).len() < 30);
        // Pictures at one place have no epipolar planes.
        let one = PosedPicture { pose: &pose_b, ..one };
        assert!(guided_matches(one, other, NARROW, 1.0, Level::new()).is_empty());
    }
}
