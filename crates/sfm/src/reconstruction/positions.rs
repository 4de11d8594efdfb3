//! Positions of panoramas whose rotations are known.
//!
//! A pair of panoramas gives the direction between them, and the distances of points in units of their baseline. If two
//! pairs share a panorama and points, the ratio of these depths is the ratio of their baselines: an edge of a graph of
//! baselines, whose logarithms are averaged robustly. With directions and lengths, positions are averaged like
//! rotations. Collinear panoramas are no special case, because lengths come from points.

use std::sync::atomic::AtomicBool;

use gausset_core::linalg::eigen_symmetric;
use gausset_core::matrix::{IDENTITY3, Mat3, cross, dot, norm, transpose_mul_vec};
use gausset_core::statistics::upper_median;

use crate::reconstruction::essential::depths;
use crate::reconstruction::graph_fit::{Edge, components, fit_robust, largest_component};

/// Least parallax of a feature whose depth is used, radians.
const MIN_PARALLAX: f64 = 1.0 * std::f64::consts::PI / 180.0;
/// Least number of features that two pairs must share.
const MIN_SHARED: usize = 8;
/// Most pairs of a panorama whose depths are compared: the number of comparisons grows with its square.
const PAIRS_OF_END: usize = 64;
/// Scale of the robust weights: of the logarithm of a baseline, and of a baseline relative to its length.
const ROBUST_SCALE: f64 = 0.1;

/// A verified pair of panoramas.
#[derive(Clone, Debug)]
pub(crate) struct DirectedPair {
    pub(crate) from: usize,
    pub(crate) to: usize,
    /// Direction from one centre to the other in the world, as estimated from the two views alone.
    pub(crate) direction: [f64; 3],
    /// Whether both are at the same position.
    pub(crate) is_rotation: bool,
    /// Inlier matches.
    pub(crate) matches: Vec<[u32; 2]>,
}

/// Centres of the panoramas of the largest connected component (`None` for the others); the median baseline is 1.
/// `bearing` returns the direction of a feature of a panorama. The centres are unfinished if `stop` is set.
pub(crate) fn average_positions(
    rotations: &[Mat3],
    pairs: &[DirectedPair],
    tolerance: &dyn Fn(usize, usize) -> f64,
    bearing: &dyn Fn(usize, u32) -> [f64; 3],
    stop: &AtomicBool,
) -> Option<Vec<Option<[f64; 3]>>> {
    let moving: Vec<&DirectedPair> = pairs.iter().filter(|pair| !pair.is_rotation).collect();
    let mut directions = Vec::with_capacity(moving.len());
    // For each panorama: its pairs, with the logarithms of depths by feature.
    let mut ends: Vec<Vec<(usize, LogDepths)>> = vec![Vec::new(); rotations.len()];
    for (index, pair) in moving.iter().enumerate() {
        let in_world = |frame: usize, feature| transpose_mul_vec(&rotations[frame], bearing(frame, feature));
        let rays: Vec<[[f64; 3]; 2]> =
            pair.matches.iter().map(|&[a, b]| [in_world(pair.from, a), in_world(pair.to, b)]).collect();
        let direction = refine_direction(pair.direction, &rays, tolerance(pair.from, pair.to));
        directions.push(direction);
        let [from, to] = log_depths(direction, &pair.matches, &rays);
        ends[pair.from].push((index, from));
        ends[pair.to].push((index, to));
    }
    ends.iter_mut().for_each(keep_deepest);
    let ratios = baseline_ratios(&ends);
    let of_part =
        largest_component(&components(moving.len(), ratios.iter().map(|edge| [edge.from, edge.to])));
    let lengths = baseline_lengths(&of_part, &ratios, stop);
    let unit = upper_median(lengths.iter().flatten().copied().collect()).unwrap_or(0.0);
    if unit <= 0.0 {
        return None;
    }
    let mut edges = Vec::new();
    for ((pair, direction), length) in moving.iter().zip(&directions).zip(&lengths) {
        if let Some(length) = length.map(|length| length / unit) {
            edges.push(Edge {
                from: pair.from,
                to: pair.to,
                difference: direction.map(|v| length * v),
                weight: (pair.matches.len() as f64).min(500.0) / (length * length),
                scale: ROBUST_SCALE * length,
            });
        }
    }
    // Panoramas at the same position: closer than a twentieth of the median baseline.
    for pair in pairs.iter().filter(|pair| pair.is_rotation) {
        let weight = (pair.matches.len() as f64).min(500.0) / (0.05 * 0.05);
        edges.push(Edge { from: pair.from, to: pair.to, difference: [0.0; 3], weight, scale: 0.05 });
    }
    let of_part =
        largest_component(&components(rotations.len(), edges.iter().map(|edge| [edge.from, edge.to])));
    let numbers = compact_indices(&of_part);
    edges.retain_mut(|edge| match (numbers[edge.from], numbers[edge.to]) {
        (Some(from), Some(to)) => {
            (edge.from, edge.to) = (from, to);
            true
        }
        _ => false,
    });
    let (centres, _) = fit_robust(of_part.iter().filter(|is_in| **is_in).count(), &edges, stop);
    Some(numbers.iter().map(|number| number.map(|number| centres[number])).collect())
}

/// Index of each chosen element among the chosen ones.
pub(crate) fn compact_indices(chosen: &[bool]) -> Vec<Option<usize>> {
    let mut next = 0;
    let mut number = |is_chosen: &bool| {
        is_chosen.then(|| {
            next += 1;
            next - 1
        })
    };
    chosen.iter().map(&mut number).collect()
}

/// Refines a direction so that it is coplanar with all pairs of rays.
fn refine_direction(start: [f64; 3], rays: &[[[f64; 3]; 2]], tolerance: f64) -> [f64; 3] {
    let mut direction = start;
    for _ in 0..10 {
        let mut sum = [[0.0; 3]; 3];
        for [a, b] in rays {
            let normal = cross(*a, *b);
            let lever = norm(cross(direction, *a)).max(1e-3);
            let off = dot(direction, normal) / (lever * tolerance);
            let weight = 1.0 / ((1.0 + off * off) * lever * lever);
            for i in 0..3 {
                for j in 0..3 {
                    sum[i][j] += weight * normal[i] * normal[j];
                }
            }
        }
        let found = eigen_symmetric(sum).1[0];
        let next = if dot(found, direction) < 0.0 { found.map(|v| -v) } else { found };
        let moved = norm(cross(next, direction));
        direction = next;
        if moved < 1e-12 {
            break;
        }
    }
    direction
}

/// Features of a panorama with the logarithms of their depths, ascending by feature.
type LogDepths = Vec<(u32, f64)>;

/// Depths at both ends of a baseline of length 1.
fn log_depths(direction: [f64; 3], matches: &[[u32; 2]], rays: &[[[f64; 3]; 2]]) -> [LogDepths; 2] {
    let mut ends = [Vec::new(), Vec::new()];
    for (features, &[a, b]) in matches.iter().zip(rays) {
        if norm(cross(a, b)) < libm::sin(MIN_PARALLAX) {
            continue;
        }
        if let Some(depths) = depths(&IDENTITY3, direction.map(|v| -v), [a, b])
            && depths.iter().all(|depth| *depth > 0.0)
        {
            for k in 0..2 {
                ends[k].push((features[k], libm::log(depths[k])));
            }
        }
    }
    ends.iter_mut().for_each(|end| end.sort_by_key(|&(feature, _)| feature));
    ends
}

/// Keeps the [`PAIRS_OF_END`] pairs of a panorama with the most depths, in their order.
fn keep_deepest(end: &mut Vec<(usize, LogDepths)>) {
    end.sort_by_key(|(_, depths)| std::cmp::Reverse(depths.len()));
    end.truncate(PAIRS_OF_END);
    end.sort_by_key(|(pair, _)| *pair);
}

/// Differences between the logarithms of baselines that share a panorama.
fn baseline_ratios(ends: &[Vec<(usize, LogDepths)>]) -> Vec<Edge<1>> {
    let mut edges = Vec::new();
    for end in ends {
        for (k, (one, a)) in end.iter().enumerate() {
            for (other, b) in &end[k + 1..] {
                let differences = depth_ratios(a, b);
                if differences.len() >= MIN_SHARED {
                    let weight = (differences.len() as f64).min(200.0);
                    let value = [upper_median(differences).unwrap_or(0.0)];
                    edges.push(Edge {
                        from: *one,
                        to: *other,
                        difference: value,
                        weight,
                        scale: ROBUST_SCALE,
                    });
                }
            }
        }
    }
    edges
}

/// Logarithms of `depth_a / depth_b = baseline_b / baseline_a` of the features in both lists.
fn depth_ratios(a: &LogDepths, b: &LogDepths) -> Vec<f64> {
    let mut found = Vec::new();
    let mut rest = b.iter().peekable();
    for (feature, depth) in a {
        while rest.next_if(|(other, _)| other < feature).is_some() {}
        if let Some((other, of_b)) = rest.peek()
            && other == feature
        {
            found.push(depth - of_b);
        }
    }
    found
}

/// Lengths of the baselines of a connected component.
fn baseline_lengths(of_part: &[bool], ratios: &[Edge<1>], stop: &AtomicBool) -> Vec<Option<f64>> {
    let numbers = compact_indices(of_part);
    let edges: Vec<Edge<1>> = ratios
        .iter()
        .filter_map(|edge| Some(Edge { from: numbers[edge.from]?, to: numbers[edge.to]?, ..*edge }))
        .collect();
    let (values, _) = fit_robust(of_part.iter().filter(|is_in| **is_in).count(), &edges, stop);
    numbers.iter().map(|number| number.map(|number| libm::exp(values[number][0]))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reconstruction::two_view::tests::{random, vector};
    use gausset_core::matrix::mul_vec;
    use gausset_core::se3::so3_exp;

    /// Panoramas along a straight or curved path and points around it; every feature is a point.
    fn walk(centres: &[[f64; 3]]) -> (Vec<Mat3>, Vec<[f64; 3]>, Vec<DirectedPair>) {
        let rotations: Vec<Mat3> =
            (0..centres.len()).map(|k| so3_exp(vector(20, k as u32, 0).map(|v| 2.0 * v))).collect();
        let points: Vec<[f64; 3]> = (0..400)
            .map(|k| {
                let near = centres[k as usize % centres.len()];
                let by = vector(21, k, 0);
                std::array::from_fn(|i| near[i] + 6.0 * by[i])
            })
            .collect();
        let mut pairs = Vec::new();
        for from in 0..centres.len() {
            for to in from + 1..(from + 4).min(centres.len()) {
                let way: [f64; 3] = std::array::from_fn(|k| centres[to][k] - centres[from][k]);
                let shaken: [f64; 3] = std::array::from_fn(|k| {
                    way[k] / norm(way) + 0.02 * vector(22, from as u32, to as u32)[k]
                });
                // A sixth of the matches is wrong.
                let matches = (0..400)
                    .map(|k| {
                        [k, if random(23, k, (from * 40 + to) as u32) > 0.67 { (k * 7) % 400 } else { k }]
                    })
                    .collect();
                pairs.push(DirectedPair {
                    from,
                    to,
                    direction: shaken,
                    is_rotation: norm(way) < 1e-9,
                    matches,
                });
            }
        }
        (rotations, points, pairs)
    }

    fn check(centres: &[[f64; 3]], limit: f64) {
        let ((rotations, points, pairs), stop) = (walk(centres), AtomicBool::new(false));
        let bearing = |frame: usize, feature: u32| {
            let point = points[feature as usize];
            let ray: [f64; 3] = std::array::from_fn(|k| point[k] - centres[frame][k]);
            mul_vec(&rotations[frame], ray.map(|v| v / norm(ray)))
        };
        let found = average_positions(&rotations, &pairs, &|_, _| 2e-3, &bearing, &stop).expect("positions");
        let found: Vec<[f64; 3]> = found.into_iter().map(|centre| centre.expect("a position")).collect();
        let way =
            |list: &[[f64; 3]], k: usize| -> [f64; 3] { std::array::from_fn(|i| list[k][i] - list[0][i]) };
        let last = centres.len() - 1;
        let scale = norm(way(&found, last)) / norm(way(centres, last));
        for k in 0..centres.len() {
            let (a, b) = (way(&found, k), way(centres, k));
            let off = norm(std::array::from_fn(|i| a[i] / scale - b[i]));
            assert!(off < limit, "{k}: {off}");
        }
    }

    #[test]
    fn positions_come_back_on_a_bent_way_and_on_a_straight_one() {
        let bent: Vec<[f64; 3]> = (0..9)
            .map(|k| [f64::from(k), 0.3 * random(24, k, 0), 2.0 * libm::sin(0.5 * f64::from(k))])
            .collect();
        check(&bent, 0.02);
        let straight: Vec<[f64; 3]> = (0..7).map(|k| [f64::from(k * k) * 0.2, 0.0, 0.0]).collect();
        check(&straight, 0.05);
    }

    #[test]
    fn depths_of_a_limited_number_of_pairs_are_compared() {
        let depths = |count: usize| (0..count as u32).map(|feature| (feature, 1.0)).collect();
        let mut end: Vec<(usize, LogDepths)> = (0..300).map(|pair| (pair, depths(10 + pair % 3))).collect();
        keep_deepest(&mut end);
        assert!(end.is_sorted_by_key(|(pair, _)| *pair) && end.iter().all(|(_, depths)| depths.len() == 12));
        assert_eq!(baseline_ratios(&[end]).len(), PAIRS_OF_END * (PAIRS_OF_END - 1) / 2);
    }

    #[test]
    fn a_panorama_at_the_place_of_another_gets_it() {
        let mut centres: Vec<[f64; 3]> = (0..6).map(|k| [f64::from(k), 0.0, f64::from(k % 2)]).collect();
        centres[3] = centres[2];
        check(&centres, 0.1);
    }
}
