//! Similarities between camera centres and geodetic positions: Umeyama (1991), rotation from the cross-covariance, scale
//! from the variances. Positions are converted to metres east, north and up of an origin (WGS 84, local tangent plane to
//! second order, accurate to millimetres over kilometres).

use gausset_core::linalg::jacobi;
use gausset_core::se3::{self, Mat3};

/// A fit is used only if the spread of the positions is this many times its residual.
const SPREAD_PER_RESIDUAL: f64 = 3.0;

/// A geodetic position: degrees north, degrees east, metres up.
pub type Geodetic = [f64; 3];

/// Fit of a model to GPS positions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GpsFit {
    /// Metres per unit of the model.
    pub scale: f64,
    /// Root mean square distance of the fitted centres from the positions, metres.
    pub residual: f64,
    /// Root mean square distance of the positions from their mean, metres.
    pub spread: f64,
    /// Number of positions used.
    pub count: usize,
}

impl GpsFit {
    /// Whether the scale is significant against the noise.
    #[must_use]
    pub fn is_significant(&self) -> bool {
        self.count >= 3
            && self.scale.is_finite()
            && self.scale > 0.0
            && self.spread > SPREAD_PER_RESIDUAL * self.residual
    }
}

/// Metres east, north and up of `origin`.
///
/// ```
/// use gausset_sfm::gps::{to_geodetic, to_local};
///
/// let origin = [48.0, 11.0, 500.0];
/// // A degree of longitude is 74.6 km at 48 degrees north.
/// let metres = to_local([48.0, 11.001, 510.0], origin);
/// assert!((metres[0] - 74.6).abs() < 0.1 && metres[1] == 0.0 && metres[2] == 10.0);
/// assert!((to_geodetic(metres, origin)[1] - 11.001).abs() < 1e-9);
/// ```
#[must_use]
pub fn to_local(position: Geodetic, origin: Geodetic) -> [f64; 3] {
    // WGS 84: semi-major axis, squared eccentricity.
    const A: f64 = 6_378_137.0;
    const E2: f64 = 6.694_379_990_14e-3;
    let lat = origin[0].to_radians();
    // `libm`, because the result is written to models: it has the same bits on every platform.
    let (sin, cos) = (libm::sin(lat), libm::cos(lat));
    let w = (1.0 - E2 * (sin * sin)).sqrt();
    let (meridian, normal) = (A * (1.0 - E2) / (w * w * w), A / w);
    let east = (position[1] - origin[1]).to_radians() * normal * cos;
    let north = (position[0] - origin[0]).to_radians() * meridian;
    [east, north, position[2] - origin[2]]
}

/// The geodetic position of metres east, north and up of `origin`: the inverse of [`to_local`].
#[must_use]
pub fn to_geodetic([east, north, up]: [f64; 3], origin: Geodetic) -> Geodetic {
    // `to_local` is linear in the degrees.
    let [per_degree_east, per_degree_north, _] = to_local([origin[0] + 1.0, origin[1] + 1.0, 0.0], origin);
    [origin[0] + north / per_degree_north, origin[1] + east / per_degree_east, origin[2] + up]
}

/// The similarity `to ≈ s R from + t`: its quality, `R`, `t`. `None` for fewer than three pairs, points that are not
/// finite, or equal points.
///
/// ```
/// use gausset_sfm::gps::fit_similarity;
///
/// let from = [[0.0; 3], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]];
/// let to = from.map(|p| [2.0 * p[0] + 5.0, 2.0 * p[1], 2.0 * p[2]]);
/// let (fit, _, translation) = fit_similarity(&from, &to).unwrap();
/// assert!((fit.scale - 2.0).abs() < 1e-9 && (translation[0] - 5.0).abs() < 1e-9);
/// assert!(fit.residual < 1e-9);
/// ```
#[must_use]
pub fn fit_similarity(from: &[[f64; 3]], to: &[[f64; 3]]) -> Option<(GpsFit, Mat3, [f64; 3])> {
    let count = from.len();
    if count < 3 || count != to.len() || !from.iter().chain(to).flatten().all(|v| v.is_finite()) {
        return None;
    }
    let n = count as f64;
    let mean = |points: &[[f64; 3]]| -> [f64; 3] {
        std::array::from_fn(|k| points.iter().map(|p| p[k]).sum::<f64>() / n)
    };
    let (mean_from, mean_to) = (mean(from), mean(to));
    let centred = |p: [f64; 3], m: [f64; 3]| -> [f64; 3] { std::array::from_fn(|k| p[k] - m[k]) };
    let mut covariance = [[0.0; 3]; 3];
    let (mut variance, mut spread) = (0.0, 0.0);
    for (a, b) in from.iter().zip(to) {
        let (a, b) = (centred(*a, mean_from), centred(*b, mean_to));
        for i in 0..3 {
            for j in 0..3 {
                covariance[i][j] += b[i] * a[j] / n;
            }
        }
        variance += se3::dot(a, a) / n;
        spread += se3::dot(b, b) / n;
    }
    if variance <= 0.0 {
        return None;
    }
    let rotation = nearest_rotation(&covariance);
    let trace: f64 = (0..3).map(|i| (0..3).map(|j| rotation[i][j] * covariance[i][j]).sum::<f64>()).sum();
    let scale = trace / variance;
    let turned = se3::mul_vec(&rotation, mean_from);
    let shift: [f64; 3] = std::array::from_fn(|k| mean_to[k] - scale * turned[k]);
    let mut residual = 0.0;
    for (a, b) in from.iter().zip(to) {
        let r = se3::mul_vec(&rotation, *a);
        let d: [f64; 3] = std::array::from_fn(|k| scale * r[k] + shift[k] - b[k]);
        residual += se3::dot(d, d) / n;
    }
    let fit = GpsFit { scale, residual: residual.sqrt(), spread: spread.sqrt(), count };
    Some((fit, rotation, shift))
}

/// The rotation R that maximises `tr(Rᵀ M)`, by Horn's quaternion method (1987): the largest eigenvector of a symmetric
/// 4x4 matrix, computed by Jacobi rotations.
pub(crate) fn nearest_rotation(m: &Mat3) -> Mat3 {
    // M[i][j] = sum of to_i from_j.
    let s = |i: usize, j: usize| m[j][i];
    let mut a = [
        [s(0, 0) + s(1, 1) + s(2, 2), s(1, 2) - s(2, 1), s(2, 0) - s(0, 2), s(0, 1) - s(1, 0)],
        [0.0, s(0, 0) - s(1, 1) - s(2, 2), s(0, 1) + s(1, 0), s(2, 0) + s(0, 2)],
        [0.0, 0.0, s(1, 1) - s(0, 0) - s(2, 2), s(1, 2) + s(2, 1)],
        [0.0, 0.0, 0.0, s(2, 2) - s(0, 0) - s(1, 1)],
    ];
    for i in 0..4 {
        for j in 0..i {
            a[i][j] = a[j][i];
        }
    }
    let (values, vectors) = jacobi(a, 60, |v| v.abs() < 1e-300);
    let best = (0..4).fold(0, |best, i| if values[i] > values[best] { i } else { best });
    se3::rotation_from_quaternion(vectors.map(|row| row[best]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_similarity_is_found_again() {
        let r = se3::rotation_from_quaternion([0.3, -0.5, 0.7, 0.2]);
        let from = [[0.0, 0.0, 0.0], [1.0, 0.2, 0.0], [0.3, 2.0, 0.1], [-1.0, 0.4, 3.0]];
        let to = from.map(|p| {
            let q = se3::mul_vec(&r, p);
            [2.5 * q[0] + 1.0, 2.5 * q[1] - 4.0, 2.5 * q[2] + 9.0]
        });
        let (fit, rotation, _) = fit_similarity(&from, &to).unwrap();
        assert!((fit.scale - 2.5).abs() < 1e-9 && fit.residual < 1e-9 && fit.is_significant());
        assert!((0..3).all(|i| (0..3).all(|j| (rotation[i][j] - r[i][j]).abs() < 1e-9)));
    }

    #[test]
    fn noise_as_large_as_the_walk_gives_no_scale() {
        let from = [[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [2.0, 0.0, 0.0]];
        let to = [[0.0, 0.0, 0.0], [5.0, 9.0, 0.0], [1.0, -8.0, 3.0]];
        assert!(!fit_similarity(&from, &to).unwrap().0.is_significant());
    }

    #[test]
    fn metres_and_degrees_undo_each_other() {
        let (origin, position) = ([49.0, 2.0, 10.0], [49.0123, 1.9876, 55.5]);
        let back = to_geodetic(to_local(position, origin), origin);
        assert!(back.iter().zip(position).all(|(a, b)| (a - b).abs() < 1e-12), "{back:?}");
    }

    #[test]
    fn metres_have_the_same_bits_on_every_platform() {
        // Latitudes at which the sine or cosine of a system (glibc 2.36) gives another last bit.
        let east =
            [5.12, 6.06, 6.68].map(|north| to_local([north, 2.001, 0.0], [north, 2.0, 0.0])[0].to_bits());
        assert_eq!(east, [0x405b_b835_b912_d78e, 0x405b_ace6_45ef_84d8, 0x405b_a466_fc7d_4675]);
    }

    #[test]
    fn a_thousandth_of_a_degree_is_about_a_hundred_metres() {
        let [east, north, up] = to_local([49.001, 2.001, 12.0], [49.0, 2.0, 10.0]);
        // WGS 84 at 49 degrees: 111.207 km and 73.171 km a degree.
        assert!(
            (north - 111.207).abs() < 0.02 && (east - 73.171).abs() < 0.02 && up == 2.0,
            "{east} {north}"
        );
    }
}
