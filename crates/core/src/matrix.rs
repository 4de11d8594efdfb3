//! Small fixed-size matrices, vectors and quaternions, in f64.

use crate::constants::QUATERNION_MIN_NORM;

/// A 3x3 matrix, row-major.
pub type Mat3 = [[f64; 3]; 3];

/// The identity matrix.
pub const IDENTITY3: Mat3 = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]];

/// `a · b`.
#[must_use]
pub fn mul(a: &Mat3, b: &Mat3) -> Mat3 {
    std::array::from_fn(|i| std::array::from_fn(|j| (0..3).map(|k| a[i][k] * b[k][j]).sum()))
}

/// The transpose `aᵀ` of a matrix.
#[must_use]
pub fn transpose(a: &Mat3) -> Mat3 {
    std::array::from_fn(|i| std::array::from_fn(|j| a[j][i]))
}

/// `a · v`.
#[must_use]
pub fn mul_vec(a: &Mat3, v: [f64; 3]) -> [f64; 3] {
    std::array::from_fn(|i| a[i][0] * v[0] + a[i][1] * v[1] + a[i][2] * v[2])
}

/// `aᵀ · v`.
#[must_use]
pub fn transpose_mul_vec(a: &Mat3, v: [f64; 3]) -> [f64; 3] {
    std::array::from_fn(|i| a[0][i] * v[0] + a[1][i] * v[1] + a[2][i] * v[2])
}

/// `a × b`.
#[must_use]
pub fn cross(a: [f64; 3], b: [f64; 3]) -> [f64; 3] {
    [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]
}

/// `a · b`.
#[must_use]
pub fn dot(a: [f64; 3], b: [f64; 3]) -> f64 {
    a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
}

/// Length of a vector.
#[must_use]
pub fn norm(a: [f64; 3]) -> f64 {
    dot(a, a).sqrt()
}

/// `a - b`.
#[must_use]
pub fn sub(a: [f64; 3], b: [f64; 3]) -> [f64; 3] {
    [a[0] - b[0], a[1] - b[1], a[2] - b[2]]
}

/// Distance between two points.
#[must_use]
pub fn distance(a: [f64; 3], b: [f64; 3]) -> f64 {
    norm(sub(a, b))
}

/// The unit vector in the direction of a vector; not finite for a zero vector.
#[must_use]
pub fn unit(v: [f64; 3]) -> [f64; 3] {
    let length = norm(v);
    v.map(|x| x / length)
}

/// Determinant of a matrix.
#[must_use]
pub fn determinant(a: &Mat3) -> f64 {
    dot(a[0], cross(a[1], a[2]))
}

/// Largest entry of `|RᵀR - I|`.
#[must_use]
pub fn orthonormality_error(r: &Mat3) -> f64 {
    let rtr = mul(&transpose(r), r);
    let mut worst = 0.0f64;
    for i in 0..3 {
        for j in 0..3 {
            worst = worst.max((rtr[i][j] - IDENTITY3[i][j]).abs());
        }
    }
    worst
}

/// The nearest rotation to a nearly orthonormal matrix (Newton iteration for the polar factor).
#[must_use]
pub fn orthonormalise(r: &Mat3) -> Mat3 {
    let mut q = *r;
    // Converges quadratically; the input is within a few per cent of a rotation.
    for _ in 0..12 {
        let cof = [cross(q[1], q[2]), cross(q[2], q[0]), cross(q[0], q[1])];
        let det = dot(q[0], cof[0]);
        if det.abs() < 1e-300 {
            return *r;
        }
        for i in 0..3 {
            for j in 0..3 {
                q[i][j] = 0.5 * (q[i][j] + cof[i][j] / det);
            }
        }
    }
    q
}

/// Rotation of a `wxyz` quaternion of any non-zero length (fixtures, section 2).
///
/// ```
/// use gausset_core::matrix::{mul_vec, quaternion_from_rotation, rotation_from_quaternion};
///
/// // By 180 degrees about z; the length does not matter.
/// let rotation = rotation_from_quaternion([0.0, 0.0, 0.0, 2.0]);
/// assert_eq!(mul_vec(&rotation, [1.0, 0.0, 5.0]), [-1.0, 0.0, 5.0]);
/// assert_eq!(quaternion_from_rotation(&rotation), [0.0, 0.0, 0.0, 1.0]);
/// ```
#[must_use]
pub fn rotation_from_quaternion(wxyz: [f64; 4]) -> Mat3 {
    let n = wxyz.iter().map(|v| v * v).sum::<f64>().sqrt().max(QUATERNION_MIN_NORM);
    let [w, x, y, z] = wxyz.map(|v| v / n);
    [
        [1.0 - 2.0 * (y * y + z * z), 2.0 * (x * y - w * z), 2.0 * (x * z + w * y)],
        [2.0 * (x * y + w * z), 1.0 - 2.0 * (x * x + z * z), 2.0 * (y * z - w * x)],
        [2.0 * (x * z - w * y), 2.0 * (y * z + w * x), 1.0 - 2.0 * (x * x + y * y)],
    ]
}

/// Unit `wxyz` quaternion with `w >= 0` of a rotation matrix (Shepperd's method).
#[must_use]
pub fn quaternion_from_rotation(r: &Mat3) -> [f64; 4] {
    let trace = r[0][0] + r[1][1] + r[2][2];
    let candidates = [trace, r[0][0], r[1][1], r[2][2]];
    let largest = (1..4).fold(0, |best, i| if candidates[i] > candidates[best] { i } else { best });
    let q = match largest {
        0 => [1.0 + trace, r[2][1] - r[1][2], r[0][2] - r[2][0], r[1][0] - r[0][1]],
        1 => [r[2][1] - r[1][2], 1.0 + 2.0 * r[0][0] - trace, r[0][1] + r[1][0], r[0][2] + r[2][0]],
        2 => [r[0][2] - r[2][0], r[0][1] + r[1][0], 1.0 + 2.0 * r[1][1] - trace, r[1][2] + r[2][1]],
        _ => [r[1][0] - r[0][1], r[0][2] + r[2][0], r[1][2] + r[2][1], 1.0 + 2.0 * r[2][2] - trace],
    };
    let n = q.iter().map(|v| v * v).sum::<f64>().sqrt();
    let s = if q[0] < 0.0 { -1.0 / n } else { 1.0 / n };
    q.map(|v| v * s)
}

/// Product of two `wxyz` quaternions: the rotation `b` followed by the rotation `a`.
#[must_use]
pub fn quaternion_mul(a: [f64; 4], b: [f64; 4]) -> [f64; 4] {
    let [aw, ax, ay, az] = a;
    let [bw, bx, by, bz] = b;
    [
        aw * bw - ax * bx - ay * by - az * bz,
        aw * bx + ax * bw + ay * bz - az * by,
        aw * by - ax * bz + ay * bw + az * bx,
        aw * bz + ax * by - ay * bx + az * bw,
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quaternions_and_matrices_agree_for_every_largest_component() {
        for q in [[0.9, 0.1, -0.2, 0.3], [0.1, 0.9, 0.2, -0.3], [0.1, -0.2, 0.9, 0.3], [0.05, 0.2, 0.1, -0.9]]
        {
            let r = rotation_from_quaternion(q);
            let back = rotation_from_quaternion(quaternion_from_rotation(&r));
            for i in 0..3 {
                for j in 0..3 {
                    assert!((r[i][j] - back[i][j]).abs() < 1e-14);
                }
            }
        }
    }

    #[test]
    fn orthonormalising_keeps_rotations_and_repairs_small_errors() {
        let r = rotation_from_quaternion([0.7, 0.3, -0.6, 0.2]);
        let mut off = r;
        off[0][1] += 1e-3;
        let repaired = orthonormalise(&off);
        assert!(orthonormality_error(&repaired) < 1e-14);
        assert!((repaired[0][1] - r[0][1]).abs() < 1e-3);
    }
}
