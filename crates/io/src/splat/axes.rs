//! Axes of other programs: exact sign changes of axes.
//!
//! Training and PLY have x right, y down, z forward (RDF, the axes of COLMAP). Flipping axes only changes signs, so a
//! round trip gives the same bits. With `S = diag(signs)` a mean becomes `S m` and a rotation `S R S`, also if `S` is a
//! mirror: the covariance is `S R D Rᵀ S` either way. A real SH function of band l is a polynomial that is even or odd
//! in each of x, y, z, so its coefficient either changes sign or stays.

use gausset_core::Splats;

/// For each SH function up to degree 3, the axes in which it is odd: 1 x, 2 y, 4 z.
const ODD: [u8; 16] = [0, 2, 4, 1, 3, 6, 0, 5, 0, 2, 7, 2, 4, 1, 4, 1];

/// Axes of a file, and their conversion to those of training.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Axes {
    /// Whether the second and third axis are swapped first.
    pub(super) swap: bool,
    /// Signs of x, y, z after the swap.
    pub(super) signs: [i8; 3],
}

impl Axes {
    /// The axes of training.
    pub(super) const TRAINING: Self = Self { swap: false, signs: [1, 1, 1] };
    /// Right, up, back: OpenGL, three.js.
    pub(super) const RUB: Self = Self { swap: false, signs: [1, -1, -1] };

    /// Converts splats from these axes to those of training; without a swap also back.
    pub(super) fn apply(self, splats: &mut Splats) {
        if self.swap {
            swap_yz(splats);
        }
        flip_axes(splats, self.signs);
    }
}

/// Flips axes.
fn flip_axes(splats: &mut Splats, signs: [i8; 3]) {
    if signs == [1; 3] {
        return;
    }
    let [x, y, z] = signs.map(f32::from);
    for mean in &mut splats.means {
        *mean = [x * mean[0], y * mean[1], z * mean[2]];
    }
    for quat in &mut splats.quats {
        *quat = [quat[0], y * z * quat[1], x * z * quat[2], x * y * quat[3]];
    }
    flip_sh(splats, signs);
}

/// Changes the sign of SH coefficients that are odd in the flipped axes.
fn flip_sh(splats: &mut Splats, signs: [i8; 3]) {
    let turned = (0..3).fold(0, |bits, k| bits | u8::from(signs[k] < 0) << k);
    let negated: Vec<bool> = ODD.iter().map(|odd| (odd & turned).count_ones() % 2 == 1).collect();
    let stride = splats.sh_stride();
    for row in splats.sh.chunks_exact_mut(stride) {
        for (coefficient, _) in row.chunks_exact_mut(3).zip(&negated).filter(|(_, negated)| **negated) {
            coefficient.iter_mut().for_each(|v| *v = -*v);
        }
    }
}

/// Swaps y and z: a rotation by 90 degrees about x, then a flip.
fn swap_yz(splats: &mut Splats) {
    let quarter = [[1.0, 0.0, 0.0], [0.0, 0.0, 1.0], [0.0, -1.0, 0.0]];
    gausset_core::splats_transform::Similarity::from_rotation(quarter).apply_to_splats(splats);
    flip_axes(splats, [1, 1, -1]);
}

/// Rotation by 180 degrees about z, as glTF requires for splats: its assets look along +z with y up.
pub(super) struct HalfTurn;

impl HalfTurn {
    pub(super) fn mean([x, y, z]: [f32; 3]) -> [f32; 3] {
        [-x, -y, z]
    }

    /// `k · (w + x i + y j + z k)`.
    pub(super) fn quat<T: std::ops::Neg<Output = T>>([w, x, y, z]: [T; 4]) -> [T; 4] {
        [-z, -y, x, w]
    }

    /// Sign of SH coefficient `k`.
    pub(super) fn sign(k: usize) -> f32 {
        if (ODD[k] & 3).count_ones() % 2 == 1 { -1.0 } else { 1.0 }
    }

    /// Rotates splats.
    pub(super) fn apply(splats: &mut Splats) {
        splats.means.iter_mut().for_each(|mean| *mean = Self::mean(*mean));
        splats.quats.iter_mut().for_each(|quat| *quat = Self::quat(*quat));
        flip_sh(splats, [-1, -1, 1]);
    }
}

#[cfg(test)]
mod tests {
    use gausset_core::{se3, sh};

    use super::*;

    fn splat(sh_degree: u8) -> Splats {
        let mut splats = Splats::with_capacity(sh_degree, 1);
        let coefficients: Vec<f32> = (0..splats.sh_stride()).map(|k| 0.1 * k as f32 - 0.7).collect();
        splats.push([1.0, 2.0, 3.0], [-1.0, -2.0, -3.0], [0.5, -0.1, 0.7, 0.3], 0.0, &coefficients);
        splats
    }

    fn covariance(splats: &Splats) -> se3::Mat3 {
        let r = se3::rotation_from_quaternion(splats.quats[0].map(f64::from));
        let s = splats.log_scales[0].map(|v| f64::from(v).exp());
        let mut out = [[0.0; 3]; 3];
        for (i, row) in out.iter_mut().enumerate() {
            for (j, v) in row.iter_mut().enumerate() {
                *v = (0..3).map(|k| r[i][k] * s[k] * s[k] * r[j][k]).sum();
            }
        }
        out
    }

    fn colour(splats: &Splats, direction: [f64; 3]) -> [f64; 3] {
        let length = se3::norm(direction);
        let basis = sh::basis(direction.map(|v| v / length));
        std::array::from_fn(|c| (0..16).map(|k| basis[k] * f64::from(splats.sh[3 * k + c])).sum())
    }

    /// Checks that means, covariances and colours are transformed by a map of space.
    fn assert_mapped(new: &Splats, map: impl Fn([f64; 3]) -> [f64; 3]) {
        let old = splat(3);
        let mean = map(old.means[0].map(f64::from));
        (0..3).for_each(|k| assert!((mean[k] - f64::from(new.means[0][k])).abs() < 1e-6));
        let columns = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]].map(&map);
        let m = se3::transpose(&columns);
        let expected = se3::mul(&se3::mul(&m, &covariance(&old)), &columns);
        let found = covariance(new);
        for (i, j) in (0..9).map(|k| (k / 3, k % 3)) {
            assert!((found[i][j] - expected[i][j]).abs() < 1e-7, "{found:?} {expected:?}");
        }
        for d in [[0.3, -0.5, 0.8], [1.0, 0.2, -0.1], [-0.4, 0.9, 0.3]] {
            let (a, b) = (colour(&old, d), colour(new, map(d)));
            (0..3).for_each(|k| assert!((a[k] - b[k]).abs() < 1e-5, "{a:?} {b:?}"));
        }
    }

    #[test]
    fn colours_and_shapes_go_where_the_axes_go() {
        for bits in 0..8 {
            let signs = [0, 1, 2].map(|k| if bits >> k & 1 == 1 { -1 } else { 1 });
            let sign = |v: [f64; 3]| std::array::from_fn(|k| f64::from(signs[k]) * v[k]);
            for swap in [false, true] {
                let axes = Axes { swap, signs };
                let mut new = splat(3);
                axes.apply(&mut new);
                assert_mapped(&new, |v| sign(if swap { [v[0], v[2], v[1]] } else { v }));
                if !swap {
                    axes.apply(&mut new);
                    assert_eq!(new, splat(3), "twice is not at all");
                }
            }
        }
    }

    #[test]
    fn half_a_turn_about_z_is_a_rotation_and_two_are_none() {
        let mut new = splat(3);
        HalfTurn::apply(&mut new);
        assert_mapped(&new, |[x, y, z]| [-x, -y, z]);
        assert_eq!(new.quats[0], [-0.3, -0.7, -0.1, 0.5]);
        HalfTurn::apply(&mut new);
        let mut old = splat(3);
        old.quats[0] = old.quats[0].map(|v| -v);
        assert_eq!(new, old, "a whole turn changes the sign of a quaternion");
    }
}
