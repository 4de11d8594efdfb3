//! Small dense linear algebra in f64.

use gausset_core::matrix::Mat3;

/// Solves the symmetric positive definite system `a x = b` of a few unknowns in place (Cholesky, lower triangle by rows);
/// `false` if it is not definite. For large systems: [`cholesky`](super::cholesky).
pub(crate) fn solve(a: &mut [f64], b: &mut [f64]) -> bool {
    let n = b.len();
    for i in 0..n {
        for j in 0..=i {
            let rest = a[i * n + j] - (0..j).map(|k| a[i * n + k] * a[j * n + k]).sum::<f64>();
            if j < i {
                a[i * n + j] = rest / a[j * n + j];
            } else if rest.is_nan() || rest <= 0.0 {
                return false;
            } else {
                a[i * n + i] = libm::sqrt(rest);
            }
        }
    }
    for i in 0..n {
        let sum: f64 = (0..i).map(|k| a[i * n + k] * b[k]).sum();
        b[i] = (b[i] - sum) / a[i * n + i];
    }
    for i in (0..n).rev() {
        b[i] /= a[i * n + i];
        for k in 0..i {
            b[k] -= a[i * n + k] * b[i];
        }
    }
    true
}

/// The inverse of a symmetric 3x3 matrix; `None` where it is singular.
pub(crate) fn inverse_symmetric(a: &Mat3) -> Option<Mat3> {
    use gausset_core::matrix::{cross, dot};
    let cofactors = [cross(a[1], a[2]), cross(a[2], a[0]), cross(a[0], a[1])];
    let determinant = dot(a[0], cofactors[0]);
    let size = a[0][0].abs().max(a[1][1].abs()).max(a[2][2].abs());
    (determinant.abs() > 1e-18 * size * size * size)
        .then(|| cofactors.map(|row| row.map(|v| v / determinant)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn definite() -> [[f64; 4]; 4] {
        let b = [[2.0, -1.0, 0.5, 0.1], [0.3, 1.5, -0.7, 0.9], [-0.4, 0.2, 1.1, -0.6], [0.8, 0.1, -0.2, 1.9]];
        std::array::from_fn(|i| std::array::from_fn(|j| (0..4).map(|k| b[k][i] * b[k][j]).sum()))
    }

    #[test]
    fn a_system_is_solved_and_one_that_is_not_definite_refused() {
        let a = definite();
        let x = [0.3, -2.0, 1.7, 0.4];
        let mut b: Vec<f64> = (0..4).map(|i| (0..4).map(|j| a[i][j] * x[j]).sum()).collect();
        let mut flat: Vec<f64> = a.iter().flatten().copied().collect();
        assert!(solve(&mut flat, &mut b));
        assert!(b.iter().zip(x).all(|(a, b)| (a - b).abs() < 1e-12), "{b:?}");
        assert!(!solve(&mut [1.0, 2.0, 2.0, 1.0], &mut [1.0, 1.0]));
    }

    #[test]
    fn a_symmetric_matrix_is_inverted() {
        let a = [[2.0, -0.3, 0.4], [-0.3, 1.0, 0.1], [0.4, 0.1, 3.0]];
        let one = gausset_core::matrix::mul(&a, &inverse_symmetric(&a).unwrap());
        for i in 0..3 {
            for j in 0..3 {
                assert!((one[i][j] - f64::from(u8::from(i == j))).abs() < 1e-14);
            }
        }
        assert!(inverse_symmetric(&[[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 1.0]]).is_none());
    }
}
