//! Focal lengths of cameras without metadata, from fundamental matrices of pairs of pictures.
//!
//! A fundamental matrix `F` and focal lengths give `E = Kᵀ F K`. Only with the right ones are the two singular values of
//! `E` equal (Mendonça and Cipolla 1999, "A simple technique for self-calibration"). One pair may leave the focal length
//! open (axes that meet in a point, as around a subject); the sum over all pairs rarely does.

use gausset_core::linalg::eigen_symmetric;
use gausset_core::matrix::{Mat3, dot, mul, mul_vec, transpose, transpose_mul_vec};

/// Range and number of the focal lengths tried, relative to the longest side.
const RANGE: [f64; 2] = [0.4, 4.0];
const CANDIDATES: usize = 120;
/// Least number of matches of a pair that counts, and the number from which pairs count alike.
const MATCHES: [usize; 2] = [40, 200];
/// Least number of pairs.
const MIN_PAIRS: usize = 3;
/// Difference of the singular values, relative to their sum, from which pairs count alike.
const MAX_DIFFERENCE: f64 = 0.2;
/// Least ratio of the two smallest eigenvalues of the equations of a fundamental matrix: below, the pair sees a plane or
/// has no baseline, and the matrix is not determined.
const MIN_EIGENVALUE_RATIO: f64 = 5.0;
/// Error of a match that halves its weight, relative to the longest side.
const ERROR: f64 = 1.0 / 800.0;

/// Matches of two pictures of one camera: positions relative to the centre, in units of the longest side.
pub(crate) type Matches = Vec<[[f64; 2]; 2]>;

/// The focal length of a camera relative to its longest side; `None` if the pairs do not determine it.
pub(crate) fn estimate_focal(pairs: &[Matches]) -> Option<f64> {
    let found: Vec<(Mat3, f64)> = pairs
        .iter()
        .filter(|matches| matches.len() >= MATCHES[0])
        .filter_map(|matches| Some((fundamental(matches)?, matches.len().min(MATCHES[1]) as f64)))
        .collect();
    if found.len() < MIN_PAIRS {
        return None;
    }
    let at = |index: f64| RANGE[0] * (RANGE[1] / RANGE[0]).powf(index / (CANDIDATES - 1) as f64);
    let cost = |focal: f64| -> f64 {
        let part = |(f, weight): &(Mat3, f64)| {
            let difference = singular_difference(f, focal).min(MAX_DIFFERENCE);
            weight * difference * difference
        };
        found.iter().map(part).sum()
    };
    let costs: Vec<f64> = (0..CANDIDATES).map(|index| cost(at(index as f64))).collect();
    let best = (1..CANDIDATES).fold(0, |best, k| if costs[k] < costs[best] { k } else { best });
    if best == 0 || best == CANDIDATES - 1 {
        return None;
    }
    let [before, here, after] = [costs[best - 1], costs[best], costs[best + 1]];
    let curvature = before - 2.0 * here + after;
    let offset = if curvature > 0.0 { 0.5 * (before - after) / curvature } else { 0.0 };
    Some(at(best as f64 + offset))
}

/// Difference of the two largest singular values of `Kᵀ F K`, relative to their sum.
fn singular_difference(f: &Mat3, focal: f64) -> f64 {
    let k = [focal, focal, 1.0];
    let e: Mat3 = std::array::from_fn(|i| std::array::from_fn(|j| k[i] * f[i][j] * k[j]));
    let values = eigen_symmetric(mul(&transpose(&e), &e)).0;
    let [middle, largest] = [values[1], values[2]].map(|v| libm::sqrt(v.max(0.0)));
    (largest - middle) / (largest + middle).max(1e-300)
}

/// The fundamental matrix by robust least squares on all matches (eight-point algorithm, weighted by the first-order
/// distance); `None` if they do not determine it.
fn fundamental(matches: &Matches) -> Option<Mat3> {
    let mut weights = vec![1.0; matches.len()];
    let mut f = [[0.0; 3]; 3];
    let mut ratio = 0.0;
    for _ in 0..8 {
        let mut normal = [[0.0; 9]; 9];
        for ([a, b], weight) in matches.iter().zip(&weights) {
            let (a, b) = ([a[0], a[1], 1.0], [b[0], b[1], 1.0]);
            let row: [f64; 9] = std::array::from_fn(|k| b[k / 3] * a[k % 3]);
            for i in 0..9 {
                for j in 0..9 {
                    normal[i][j] += weight * row[i] * row[j];
                }
            }
        }
        let (values, vectors) = eigen_symmetric(normal);
        ratio = values[1] / values[0].max(1e-300);
        f = std::array::from_fn(|i| std::array::from_fn(|j| vectors[0][3 * i + j]));
        for ([a, b], weight) in matches.iter().zip(&mut weights) {
            let (a, b) = ([a[0], a[1], 1.0], [b[0], b[1], 1.0]);
            let (line, back) = (mul_vec(&f, a), transpose_mul_vec(&f, b));
            let gradient =
                (line[0] * line[0] + line[1] * line[1] + back[0] * back[0] + back[1] * back[1]).max(1e-12);
            let distance = dot(b, line).powi(2) / gradient;
            // Dividing by the gradient turns the algebraic error into a distance.
            *weight = 1.0 / (gradient * (1.0 + distance / (ERROR * ERROR)).powi(2));
        }
    }
    (ratio >= MIN_EIGENVALUE_RATIO).then_some(f)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reconstruction::picture::PictureCamera;
    use crate::reconstruction::two_view::tests::vector;
    use gausset_core::Pose;
    use gausset_core::se3::so3_exp;

    /// Pairs of pictures of 300 points; one match in ten is off by several pixels.
    fn pairs(focal: f64) -> Vec<Matches> {
        let camera = PictureCamera::new(1000, 750, 1000.0 * focal);
        let pose = |k: u32| Pose {
            rotation: so3_exp(vector(50, k, 0).map(|v| 0.3 * v)),
            translation: std::array::from_fn(|i| vector(51, k, 0)[i] + [0.0, 0.0, 8.0][i]),
        };
        (0..8)
            .map(|k| {
                let seen = |point: u32| {
                    let x = vector(52, point, 0).map(|v| 3.0 * v);
                    let [a, b] = [pose(k), pose(k + 1)].map(|pose| camera.project(pose.apply(x)).unwrap());
                    let b = if point.is_multiple_of(10) { [b[0] + 6.0, b[1] - 4.0] } else { b };
                    [a, b].map(|[x, y]| [(x - 500.0) / 1000.0, (y - 375.0) / 1000.0])
                };
                (0..300).map(seen).collect()
            })
            .collect()
    }

    #[test]
    fn pairs_of_pictures_tell_the_focal_length() {
        for focal in [0.7, 1.1, 2.0] {
            let found = estimate_focal(&pairs(focal)).unwrap();
            assert!((found / focal - 1.0).abs() < 0.02, "{focal}: {found}");
        }
        assert_eq!(estimate_focal(&pairs(1.0)[..2]), None);
    }
}
