//! Similarity transforms of a scene: means, rotations, scales, view-dependent colours and cameras together.
//!
//! Rotating a scene by `R` rotates the directions from which it is seen, so SH coefficients change. With `Y_l` the
//! basis of band l there is an orthogonal matrix `D_l(R)` with `Y_l(R d) = D_l(R) Y_l(d)` for all directions d (the
//! real Wigner matrix), and the colour towards `R d` stays `c · Y(d)` if the coefficients become `D_l(R) c`.
//!
//! `D_l` is the projection of the rotated basis on the basis, `∫ Y_l(R d) Y_l(d)ᵀ dd` over the sphere. The integrand is
//! a polynomial of degree `2 l ≤ 6`. McLaren's icosahedral quadrature rule (1963; weights 5/168 at the 12 vertices,
//! 9/280 at the 20 face centres) is exact to degree 9, so no recursion and no special cases are needed.

use crate::se3::{self, Mat3};
use crate::sh::{self, MAX_DEGREE};
use crate::{Pose, Splats};

/// A similarity transform of the world: `p_new = scale · rotation · p_old + translation`.
///
/// ```
/// use gausset_core::splats_transform::Similarity;
/// use gausset_core::{Pose, Splats};
///
/// let mut splats = Splats::zeros(0, 1);
/// splats.means[0] = [1.0, 2.0, 3.0];
/// let transform = Similarity { scale: 2.0, translation: [0.0, 0.0, 1.0], ..Similarity::IDENTITY };
/// transform.apply_to_splats(&mut splats);
/// assert_eq!(splats.means[0], [2.0, 4.0, 7.0]);
/// // The camera moves with the scene and sees the splat at twice the distance.
/// let pose = transform.apply_to_pose(&Pose::IDENTITY);
/// assert_eq!(pose.apply([2.0, 4.0, 7.0]), [2.0, 4.0, 6.0]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Similarity {
    /// Scale factor, positive.
    pub scale: f64,
    /// `new_from_old` rotation, row-major, orthonormal and right-handed.
    pub rotation: Mat3,
    /// Translation in units of the new world.
    pub translation: [f64; 3],
}

impl Default for Similarity {
    fn default() -> Self {
        Self::IDENTITY
    }
}

impl Similarity {
    /// The identity transform.
    pub const IDENTITY: Self = Self { scale: 1.0, rotation: se3::IDENTITY3, translation: [0.0; 3] };

    /// A rotation about the origin.
    #[must_use]
    pub const fn from_rotation(rotation: Mat3) -> Self {
        Self { rotation, ..Self::IDENTITY }
    }

    /// Transforms a point.
    #[must_use]
    pub fn apply(&self, point: [f64; 3]) -> [f64; 3] {
        let turned = se3::mul_vec(&self.rotation, point);
        std::array::from_fn(|k| self.scale * turned[k] + self.translation[k])
    }

    /// The composition: this transform first, then `next`.
    #[must_use]
    pub fn then(&self, next: &Self) -> Self {
        Self {
            scale: next.scale * self.scale,
            rotation: se3::mul(&next.rotation, &self.rotation),
            translation: next.apply(self.translation),
        }
    }

    /// The inverse transform.
    #[must_use]
    pub fn inverse(&self) -> Self {
        let rotation = se3::transpose(&self.rotation);
        let scale = 1.0 / self.scale;
        let back = se3::mul_vec(&rotation, self.translation);
        Self { scale, rotation, translation: back.map(|v| -scale * v) }
    }

    /// The pose of the same camera in the new world. Camera-space points grow by `scale`; renders stay the same.
    #[must_use]
    pub fn apply_to_pose(&self, camera_from_world: &Pose) -> Pose {
        let rotation = se3::mul(&camera_from_world.rotation, &se3::transpose(&self.rotation));
        let shift = se3::mul_vec(&rotation, self.translation);
        let translation = std::array::from_fn(|k| self.scale * camera_from_world.translation[k] - shift[k]);
        Pose { rotation, translation }
    }

    /// Transforms splats in place, computing in f64. Lengths of quaternions are kept. Parameters that the transform
    /// does not affect (without rotation: quaternions and SH) keep their bits.
    pub fn apply_to_splats(&self, splats: &mut Splats) {
        for mean in &mut splats.means {
            *mean = self.apply(mean.map(f64::from)).map(|v| v as f32);
        }
        if self.scale != 1.0 {
            let shift = libm::log(self.scale);
            for log_scale in splats.log_scales.iter_mut().flatten() {
                *log_scale = (f64::from(*log_scale) + shift) as f32;
            }
        }
        if self.rotation != se3::IDENTITY3 {
            let turn = se3::quaternion_from_rotation(&self.rotation);
            for quat in &mut splats.quats {
                *quat = se3::quaternion_mul(turn, quat.map(f64::from)).map(|v| v as f32);
            }
            ShRotation::new(&self.rotation).apply(splats);
        }
    }
}

/// The change of SH coefficients under a rotation of the scene: one matrix per band above 0.
#[derive(Clone, Debug, PartialEq)]
pub struct ShRotation {
    /// `bands[l - 1]`, using the first 2 l + 1 rows and columns.
    bands: [[[f64; 7]; 7]; MAX_DEGREE as usize],
}

impl ShRotation {
    /// The matrices for a `new_from_old` rotation.
    #[must_use]
    pub fn new(rotation: &Mat3) -> Self {
        let mut bands = [[[0.0; 7]; 7]; MAX_DEGREE as usize];
        for (direction, weight) in mclaren_quadrature() {
            let old = sh::basis(direction);
            let new = sh::basis(se3::mul_vec(rotation, direction));
            for (band, matrix) in bands.iter_mut().enumerate() {
                let degree = band + 1;
                let (begin, size) = (degree * degree, 2 * degree + 1);
                for i in 0..size {
                    for j in 0..size {
                        matrix[i][j] += weight * new[begin + i] * old[begin + j];
                    }
                }
            }
        }
        Self { bands }
    }

    /// Rotates the coefficients of all splats.
    pub fn apply(&self, splats: &mut Splats) {
        let stride = splats.sh_stride();
        let degrees = usize::from(splats.sh_degree.min(MAX_DEGREE));
        for row in splats.sh.chunks_exact_mut(stride) {
            for (band, matrix) in self.bands.iter().take(degrees).enumerate() {
                let degree = band + 1;
                let (begin, size) = (degree * degree, 2 * degree + 1);
                for channel in 0..3 {
                    let mut old = [0.0; 7];
                    for j in 0..size {
                        old[j] = f64::from(row[3 * (begin + j) + channel]);
                    }
                    for i in 0..size {
                        let new: f64 = (0..size).map(|j| matrix[i][j] * old[j]).sum();
                        row[3 * (begin + i) + channel] = new as f32;
                    }
                }
            }
        }
    }
}

/// The rotation by the smallest angle that maps one direction to another (Rodrigues). For opposite directions, a
/// rotation by 180 degrees about some perpendicular axis.
///
/// Returns the identity if a direction has no length.
///
/// ```
/// use gausset_core::splats_transform::{Similarity, rotation_between};
///
/// // Scenes whose up is -y become scenes whose up is +z.
/// let transform = Similarity::from_rotation(rotation_between([0.0, -1.0, 0.0], [0.0, 0.0, 1.0]));
/// let up = transform.apply([0.0, -1.0, 0.0]);
/// assert!(up[0].abs() < 1e-12 && up[1].abs() < 1e-12 && (up[2] - 1.0).abs() < 1e-12);
/// ```
#[must_use]
pub fn rotation_between(from: [f64; 3], to: [f64; 3]) -> Mat3 {
    let (from_length, to_length) = (se3::norm(from), se3::norm(to));
    if !(from_length > 0.0 && to_length > 0.0) {
        return se3::IDENTITY3;
    }
    let a = from.map(|v| v / from_length);
    let b = to.map(|v| v / to_length);
    // Quaternion (1 + a·b, a × b): near 180 degrees it keeps twice as many digits as an arc cosine.
    let w = 1.0 + se3::dot(a, b);
    if w > 1e-12 {
        let v = se3::cross(a, b);
        return se3::rotation_from_quaternion([w, v[0], v[1], v[2]]);
    }
    let smallest = (0..3).fold(0, |best, k| if a[k].abs() < a[best].abs() { k } else { best });
    let mut axis = [0.0; 3];
    axis[smallest] = 1.0;
    let across = se3::cross(a, axis);
    se3::rotation_from_quaternion([0.0, across[0], across[1], across[2]])
}

/// Directions and weights (summing to the area of the sphere) that integrate polynomials up to degree 9 exactly.
fn mclaren_quadrature() -> Vec<([f64; 3], f64)> {
    let area = 4.0 * std::f64::consts::PI;
    let golden = (1.0 + 5.0f64.sqrt()) / 2.0;
    let mut points = Vec::with_capacity(32);
    let mut add = |p: [f64; 3], weight: f64| {
        let length = se3::norm(p);
        points.push((p.map(|v| v / length), area * weight));
    };
    for s in [-1.0, 1.0] {
        for t in [-1.0, 1.0] {
            for p in [[0.0, s, t * golden], [s, t * golden, 0.0], [t * golden, 0.0, s]] {
                add(p, 5.0 / 168.0);
            }
            // The face centres are the vertices of the dual dodecahedron: a cube and three golden rectangles.
            for p in
                [[0.0, s * golden, t / golden], [s * golden, t / golden, 0.0], [t / golden, 0.0, s * golden]]
            {
                add(p, 9.0 / 280.0);
            }
            for u in [-1.0, 1.0] {
                add([s, t, u], 9.0 / 280.0);
            }
        }
    }
    points
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some_rotation(seed: f64) -> Mat3 {
        se3::rotation_from_quaternion([0.3 + seed, -0.7 * seed, 0.45, 0.2 - seed])
    }

    /// Pseudo-random numbers in -1..1.
    fn noise(count: usize, seed: u32) -> Vec<f32> {
        let mut state = seed;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) as f32 / (1 << 23) as f32 - 1.0
        };
        (0..count).map(|_| next()).collect()
    }

    fn some_splats(count: usize, sh_degree: u8) -> Splats {
        let mut splats = Splats::with_capacity(sh_degree, count);
        for i in 0..count {
            let n = noise(11 + splats.sh_stride(), i as u32 + 1);
            splats.push(
                [n[0], n[1], n[2]],
                [n[3], n[4], n[5]],
                [1.0 + n[6], n[7], n[8], n[9]],
                n[10],
                &n[11..],
            );
        }
        splats
    }

    fn colour(splats: &Splats, i: usize, direction: [f64; 3]) -> [f64; 3] {
        let basis = sh::basis(direction);
        let row = splats.sh_coefficients(i);
        std::array::from_fn(|c| (0..row.len() / 3).map(|k| basis[k] * f64::from(row[3 * k + c])).sum())
    }

    fn direction_to(point: [f64; 3], from: [f64; 3]) -> [f64; 3] {
        let d: [f64; 3] = std::array::from_fn(|k| point[k] - from[k]);
        d.map(|v| v / se3::norm(d))
    }

    #[test]
    fn the_rule_integrates_the_basis_to_an_orthonormal_one() {
        // Products of two basis functions of degree 3 have degree 6: the rule must reproduce the identity.
        let mut gram = [[0.0; 16]; 16];
        for (direction, weight) in mclaren_quadrature() {
            let y = sh::basis(direction);
            for i in 0..16 {
                for j in 0..16 {
                    gram[i][j] += weight * y[i] * y[j];
                }
            }
        }
        for (i, row) in gram.iter().enumerate() {
            for (j, &value) in row.iter().enumerate() {
                assert!((value - f64::from(u8::from(i == j))).abs() < 1e-14, "{i} {j}: {value}");
            }
        }
    }

    #[test]
    fn turned_coefficients_give_the_old_colour_in_the_turned_direction() {
        let rotation = some_rotation(0.37);
        let turn = ShRotation::new(&rotation);
        for (direction, _) in mclaren_quadrature() {
            // An arbitrary direction, not one of the quadrature points.
            let d = direction_to(direction, [0.3, -0.2, 0.4]);
            let (old, new) = (sh::basis(d), sh::basis(se3::mul_vec(&rotation, d)));
            for (band, matrix) in turn.bands.iter().enumerate() {
                let (begin, size) = ((band + 1) * (band + 1), 2 * band + 3);
                for i in 0..size {
                    let predicted: f64 = (0..size).map(|j| matrix[i][j] * old[begin + j]).sum();
                    assert!((predicted - new[begin + i]).abs() < 1e-14);
                }
            }
        }
    }

    #[test]
    fn half_a_turn_about_z_negates_the_odd_orders_of_every_band() {
        let turn = ShRotation::new(&[[-1.0, 0.0, 0.0], [0.0, -1.0, 0.0], [0.0, 0.0, 1.0]]);
        for (band, matrix) in turn.bands.iter().enumerate() {
            let degree = band as i32 + 1;
            for order in -degree..=degree {
                let i = (order + degree) as usize;
                let expected = if order % 2 == 0 { 1.0 } else { -1.0 };
                assert!((matrix[i][i] - expected).abs() < 1e-14);
            }
        }
    }

    #[test]
    fn scene_and_camera_turned_together_show_the_same_colours() {
        let transform =
            Similarity { scale: 2.5, rotation: some_rotation(-0.6), translation: [3.0, -1.0, 0.5] };
        let camera_from_world = Pose::from_matrix(some_rotation(0.9), [0.2, -0.4, 3.0]).unwrap();
        let moved_camera = transform.apply_to_pose(&camera_from_world);
        for sh_degree in 0..=3 {
            let old = some_splats(40, sh_degree);
            let mut new = old.clone();
            transform.apply_to_splats(&mut new);
            for i in 0..old.len() {
                let old_mean = old.means[i].map(f64::from);
                let new_mean = transform.apply(old_mean);
                let seen_old = colour(&old, i, direction_to(old_mean, camera_from_world.centre()));
                let seen_new = colour(&new, i, direction_to(new_mean, moved_camera.centre()));
                for c in 0..3 {
                    // 16 coefficients below 1 rounded to f32 (6e-8 each) times basis values below 3.
                    assert!((seen_old[c] - seen_new[c]).abs() < 1e-6, "{seen_old:?} {seen_new:?}");
                }
            }
        }
    }

    #[test]
    fn points_and_covariances_look_the_same_to_the_moved_camera() {
        let transform =
            Similarity { scale: 0.4, rotation: some_rotation(0.2), translation: [-2.0, 1.0, 7.0] };
        let pose = Pose::from_matrix(some_rotation(1.3), [0.5, 0.1, 2.0]).unwrap();
        let moved = transform.apply_to_pose(&pose);
        let old = some_splats(20, 0);
        let mut new = old.clone();
        transform.apply_to_splats(&mut new);
        // Camera-space axes `R_camera R_splat diag(scale)` up to the factor of the world.
        let axes = |pose: &Pose, splats: &Splats, i: usize| {
            let rotation = se3::rotation_from_quaternion(splats.quats[i].map(f64::from));
            let turned = se3::mul(&pose.rotation, &rotation);
            let scale = splats.log_scales[i].map(|s| libm::exp(f64::from(s)));
            turned.map(|row| [row[0] * scale[0], row[1] * scale[1], row[2] * scale[2]])
        };
        for i in 0..old.len() {
            let before = pose.apply(old.means[i].map(f64::from));
            let after = moved.apply(new.means[i].map(f64::from));
            let (a, b) = (axes(&pose, &old, i), axes(&moved, &new, i));
            for k in 0..3 {
                // f32 rounding of means around 10 units.
                assert!((0.4 * before[k] - after[k]).abs() < 2e-6);
                for j in 0..3 {
                    assert!((0.4 * a[k][j] - b[k][j]).abs() < 1e-6);
                }
            }
        }
    }

    #[test]
    fn the_identity_keeps_every_bit_and_the_inverse_undoes() {
        let old = some_splats(10, 3);
        let mut same = old.clone();
        Similarity::IDENTITY.apply_to_splats(&mut same);
        assert_eq!(same, old);
        let transform = Similarity { scale: 3.0, rotation: some_rotation(0.5), translation: [1.0, 2.0, 3.0] };
        let p = transform.inverse().apply(transform.apply([0.3, -0.8, 0.1]));
        assert!((p[0] - 0.3).abs() + (p[1] + 0.8).abs() + (p[2] - 0.1).abs() < 1e-14);
        let next = Similarity { scale: 0.7, rotation: some_rotation(-0.2), translation: [0.5, 0.0, -4.0] };
        let (both, one) = (transform.then(&next).apply([0.3, -0.8, 0.1]), transform.apply([0.3, -0.8, 0.1]));
        assert!((0..3).all(|k| (both[k] - next.apply(one)[k]).abs() < 1e-14));
    }

    #[test]
    fn the_smallest_rotation_takes_one_direction_to_the_other() {
        let pairs = [
            ([0.0, -1.0, 0.0], [0.0, 0.0, 1.0]),
            ([1.0, 2.0, -0.5], [-0.3, 0.1, 4.0]),
            ([0.0, 3.0, 0.0], [0.0, -1.0, 0.0]),
            ([1.0, 1.0, 1.0], [-1.0, -1.0, -1.0]),
        ];
        for (from, to) in pairs {
            let rotation = rotation_between(from, to);
            let turned = se3::mul_vec(&rotation, from);
            assert!((se3::determinant(&rotation) - 1.0).abs() < 1e-12);
            for k in 0..3 {
                assert!((turned[k] / se3::norm(from) - to[k] / se3::norm(to)).abs() < 1e-12);
            }
        }
        assert_eq!(rotation_between([0.0; 3], [1.0, 0.0, 0.0]), se3::IDENTITY3);
    }
}
