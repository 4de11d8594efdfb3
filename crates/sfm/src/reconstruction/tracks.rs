//! Tracks, and triangulation of landmarks.

use gausset_core::Pose;
use gausset_core::matrix::{cross, dot, norm, transpose_mul_vec};

use crate::reconstruction::solve::inverse_symmetric;

/// A feature of a panorama.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TrackElement {
    pub(crate) frame: u32,
    pub(crate) feature: u32,
}

/// Joins matches to tracks with at most one feature of a panorama; ascending by panorama. Matches must be listed best
/// first: one that would join two features of the same panorama is skipped.
pub(crate) fn build_tracks<'a>(
    counts: &[usize],
    matches: impl Iterator<Item = ([usize; 2], &'a [[u32; 2]])>,
) -> Vec<Vec<TrackElement>> {
    let mut first = vec![0usize; counts.len() + 1];
    for (frame, count) in counts.iter().enumerate() {
        first[frame + 1] = first[frame] + count;
    }
    // The set of each feature. Sets have at most one feature per panorama, so they stay small.
    let mut set_of: Vec<u32> = vec![u32::MAX; first[counts.len()]];
    let mut sets: Vec<Vec<TrackElement>> = Vec::new();
    for ([a, b], pairs) in matches {
        for &[one, other] in pairs {
            let ends = [(a, one), (b, other)].map(|(frame, feature)| {
                let node = first[frame] + feature as usize;
                if set_of[node] == u32::MAX {
                    set_of[node] = sets.len() as u32;
                    sets.push(vec![TrackElement { frame: frame as u32, feature }]);
                }
                set_of[node] as usize
            });
            let [small, large] =
                if sets[ends[0]].len() <= sets[ends[1]].len() { ends } else { [ends[1], ends[0]] };
            let clash = |sight: &TrackElement| sets[large].iter().any(|other| other.frame == sight.frame);
            if small == large || sets[small].iter().any(clash) {
                continue;
            }
            for sight in std::mem::take(&mut sets[small]) {
                set_of[first[sight.frame as usize] + sight.feature as usize] = large as u32;
                sets[large].push(sight);
            }
        }
    }
    sets.retain(|set| set.len() > 1);
    sets.iter_mut().for_each(|set| set.sort_unstable());
    sets.sort_unstable();
    sets
}

/// A ray in the world.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ray {
    pub(crate) centre: [f64; 3],
    pub(crate) direction: [f64; 3],
    /// Largest angle to its point, radians.
    pub(crate) tolerance: f64,
}

impl Ray {
    pub(crate) fn new(pose: &Pose, centre: [f64; 3], bearing: [f64; 3], tolerance: f64) -> Self {
        Self { centre, direction: transpose_mul_vec(&pose.rotation, bearing), tolerance }
    }

    /// Angle to a point, radians.
    pub(crate) fn angle_to(&self, point: [f64; 3]) -> f64 {
        let way: [f64; 3] = std::array::from_fn(|k| point[k] - self.centre[k]);
        libm::atan2(norm(cross(self.direction, way)), dot(self.direction, way))
    }
}

/// Triangulates rays: returns the point and the rays used. The worst ray is removed until none is off by more than its
/// tolerance. `None` if fewer than two remain, or no two of them meet at an angle of at least `parallax`.
pub(crate) fn triangulate(rays: &[Ray], parallax: f64) -> Option<([f64; 3], Vec<usize>)> {
    let mut used: Vec<usize> = (0..rays.len()).collect();
    while used.len() >= 2 {
        let mut pairs =
            used.iter().enumerate().flat_map(|(at, &a)| used[at + 1..].iter().map(move |&b| (a, b)));
        let is_wide = pairs.any(|(a, b)| {
            let (a, b) = (rays[a].direction, rays[b].direction);
            libm::atan2(norm(cross(a, b)), dot(a, b)) >= parallax
        });
        if !is_wide {
            return None;
        }
        let point = closest_point(rays, &used)?;
        let (at, worst) = used
            .iter()
            .map(|&ray| rays[ray].angle_to(point) / rays[ray].tolerance)
            .enumerate()
            .fold((0, 0.0), |worst, (at, off)| if off > worst.1 { (at, off) } else { worst });
        if worst <= 1.0 {
            return Some((point, used));
        }
        used.remove(at);
    }
    None
}

/// Approximately the point with the least sum of squared angles to rays: least squared distances, each weighted by the
/// distance along the ray in the previous iteration and by its tolerance.
fn closest_point(rays: &[Ray], used: &[usize]) -> Option<[f64; 3]> {
    let finest = used.iter().map(|&ray| rays[ray].tolerance).fold(f64::INFINITY, f64::min);
    let precision = |ray: usize| (finest / rays[ray].tolerance).powi(2);
    let mut weights: Vec<f64> = used.iter().map(|&ray| precision(ray)).collect();
    let mut point = [0.0; 3];
    for _ in 0..4 {
        let (mut a, mut b) = ([[0.0; 3]; 3], [0.0; 3]);
        for (&ray, &weight) in used.iter().zip(&weights) {
            let Ray { centre, direction: d, .. } = rays[ray];
            for i in 0..3 {
                for j in 0..3 {
                    let across = weight * (f64::from(u8::from(i == j)) - d[i] * d[j]);
                    a[i][j] += across;
                    b[i] += across * centre[j];
                }
            }
        }
        point = gausset_core::matrix::mul_vec(&inverse_symmetric(&a)?, b);
        for (&ray, weight) in used.iter().zip(&mut weights) {
            let way: [f64; 3] = std::array::from_fn(|k| point[k] - rays[ray].centre[k]);
            *weight = precision(ray) / dot(way, way).max(1e-12);
        }
    }
    point.iter().all(|v| v.is_finite()).then_some(point)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features_hang_together_but_never_two_of_a_panorama() {
        let matches: [([usize; 2], &[[u32; 2]]); 3] =
            [([0, 1], &[[0, 5], [1, 6]]), ([1, 2], &[[5, 3], [6, 4]]), ([0, 2], &[[0, 3], [1, 3], [2, 9]])];
        let tracks = build_tracks(&[10, 10, 10], matches.into_iter());
        let plain: Vec<Vec<(u32, u32)>> =
            tracks.iter().map(|t| t.iter().map(|s| (s.frame, s.feature)).collect()).collect();
        // (0, 1) - (2, 3) would join the first two tracks, which have features of the same panorama.
        assert_eq!(plain, [vec![(0, 0), (1, 5), (2, 3)], vec![(0, 1), (1, 6), (2, 4)], vec![(0, 2), (2, 9)]]);
    }

    #[test]
    fn rays_meet_and_a_wrong_one_is_left_out() {
        let point = [1.0, -2.0, 4.0];
        let towards = |centre: [f64; 3], target: [f64; 3]| {
            let way: [f64; 3] = std::array::from_fn(|k| target[k] - centre[k]);
            Ray { centre, direction: way.map(|v| v / norm(way)), tolerance: 1e-3 }
        };
        let mut rays: Vec<Ray> = [[0.0; 3], [1.0, 0.0, 0.0], [0.0, 1.0, 0.5], [-1.0, 0.3, 0.0]]
            .map(|c| towards(c, point))
            .to_vec();
        rays.push(towards([2.0, 0.0, 0.0], [0.0, 3.0, 3.0]));
        let (found, used) = triangulate(&rays, 0.02).expect("a point");
        assert!(norm(std::array::from_fn(|k| found[k] - point[k])) < 1e-9);
        assert_eq!(used, [0, 1, 2, 3]);
        // The point is behind one of the panoramas.
        let backwards = [towards([0.0; 3], point), towards([1.0, 0.0, 0.0], [1.0, 2.0, -4.0])];
        assert!(triangulate(&backwards, 0.02).is_none());
        // Too far away.
        let far = [towards([0.0; 3], [0.0, 0.0, 500.0]), towards([1.0, 0.0, 0.0], [0.0, 0.0, 500.0])];
        assert!(triangulate(&far, 0.02).is_none());
    }
}
