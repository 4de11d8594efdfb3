//! Small dense linear algebra in f64.

use gausset_core::matrix::Mat3;

/// Solves the symmetric positive definite system `a x = b` of `n` unknowns in place (row-oriented Cholesky of the lower
/// triangle); `false` if it is not definite. Zeros before the first entry of a row stay zero and are skipped (envelope
/// method, George and Liu 1981): panoramas of a walk share points only with their neighbours.
pub(crate) fn solve(a: &mut [f64], b: &mut [f64]) -> bool {
    let n = b.len();
    let first: Vec<usize> =
        (0..n).map(|i| a[i * n..i * n + i].iter().position(|v| *v != 0.0).unwrap_or(i)).collect();
    for i in 0..n {
        let (above, row) = a.split_at_mut(i * n);
        for j in first[i]..i {
            let other = &above[j * n..j * n + j + 1];
            let from = first[i].max(first[j]).min(j);
            row[j] = (row[j] - inner(&row[from..j], &other[from..j])) / other[j];
        }
        let rest = row[i] - inner(&row[first[i]..i], &row[first[i]..i]);
        if rest.is_nan() || rest <= 0.0 {
            return false;
        }
        row[i] = libm::sqrt(rest);
    }
    for i in 0..n {
        let sum = inner(&a[i * n + first[i]..i * n + i], &b[first[i]..i]);
        b[i] = (b[i] - sum) / a[i * n + i];
    }
    for i in (0..n).rev() {
        b[i] /= a[i * n + i];
        for k in first[i]..i {
            b[k] -= a[i * n + k] * b[i];
        }
    }
    true
}

/// The inner product, as eight partial sums: always in the same order, whichever vector width the compiler chooses.
fn inner(a: &[f64], b: &[f64]) -> f64 {
    let (whole, of_a) = a.as_chunks::<8>();
    let (other, of_b) = b.as_chunks::<8>();
    let mut sums = [0.0; 8];
    for (x, y) in whole.iter().zip(other) {
        (0..8).for_each(|k| sums[k] += x[k] * y[k]);
    }
    let rest: f64 = of_a.iter().zip(of_b).map(|(x, y)| x * y).sum();
    sums.iter().sum::<f64>() + rest
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
    fn zeros_before_a_row_begins_change_nothing() {
        let n = 60;
        // A band with a row that reaches back to the first column, as the loop closure of a walk.
        let entry = |i: usize, j: usize| match i - j {
            0 => 9.0 + (i % 3) as f64,
            1..=4 => 1.0 / (i + j) as f64 - 0.4,
            _ if i == 50 => 0.1 * (j % 5) as f64,
            _ => 0.0,
        };
        let at = |i: usize, j: usize| if i < j { entry(j, i) } else { entry(i, j) };
        let x: Vec<f64> = (0..n).map(|k| (k % 7) as f64 - 3.3).collect();
        let mut b: Vec<f64> = (0..n).map(|i| (0..n).map(|j| at(i, j) * x[j]).sum()).collect();
        let mut a: Vec<f64> = (0..n * n).map(|k| at(k / n, k % n)).collect();
        assert!(solve(&mut a, &mut b));
        assert!(b.iter().zip(&x).all(|(a, b)| (a - b).abs() < 1e-11), "{b:?}");
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
