//! Dense linear algebra of small symmetric matrices, in f64. Every sum has one order, so results have the same bits on
//! every platform.

/// Factors a symmetric positive definite `n` x `n` matrix, row-major: `L` of `A = L Lᵀ` in the lower triangle, by Cholesky
/// decomposition. Entries above the diagonal are neither read nor written. `None` if the matrix is not positive definite.
#[must_use]
pub fn cholesky(mut a: Vec<f64>, n: usize) -> Option<Vec<f64>> {
    for i in 0..n {
        let (above, row) = a.split_at_mut(i * n);
        for j in 0..i {
            let other = &above[j * n..=j * n + j];
            row[j] = (row[j] - dot(&row[..j], &other[..j])) / other[j];
        }
        let rest = row[i] - dot(&row[..i], &row[..i]);
        if rest.is_nan() || rest <= 0.0 {
            return None;
        }
        row[i] = rest.sqrt();
    }
    Some(a)
}

/// Solves `L Lᵀ x = b` in place of `b`, with the lower triangle `L` of [`cholesky`].
pub fn solve_cholesky(l: &[f64], b: &mut [f64]) {
    let n = b.len();
    for i in 0..n {
        b[i] = (b[i] - dot(&l[i * n..i * n + i], &b[..i])) / l[i * n + i];
    }
    for i in (0..n).rev() {
        let sum: f64 = (i + 1..n).map(|k| l[k * n + i] * b[k]).sum();
        b[i] = (b[i] - sum) / l[i * n + i];
    }
}

/// Inner product, added from first to last.
fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Eigenvalues of a symmetric matrix and, in the columns of the second matrix, unit eigenvectors: `sweeps` rounds of
/// cyclic Jacobi rotations (Golub and Van Loan, 8.5). Off-diagonal entries for which `is_negligible` are left.
pub fn jacobi<const N: usize>(
    mut a: [[f64; N]; N],
    sweeps: usize,
    is_negligible: impl Fn(f64) -> bool,
) -> ([f64; N], [[f64; N]; N]) {
    let mut v = identity();
    for _ in 0..sweeps {
        for p in 0..N {
            for q in p + 1..N {
                if !is_negligible(a[p][q]) {
                    let theta = (a[q][q] - a[p][p]) / (2.0 * a[p][q]);
                    // The smaller rotation; +1 also for a negative zero.
                    let sign = if theta < 0.0 { -1.0 } else { 1.0 };
                    rotate(&mut a, &mut v, [p, q], sign / (theta.abs() + (theta * theta + 1.0).sqrt()));
                }
            }
        }
    }
    (std::array::from_fn(|k| a[k][k]), v)
}

/// Eigenvalues, ascending, and unit eigenvectors of a symmetric matrix: Jacobi rotations until the entries off the
/// diagonal are below the rounding error of those on it.
#[must_use]
pub fn eigen_symmetric<const N: usize>(mut a: [[f64; N]; N]) -> ([f64; N], [[f64; N]; N]) {
    let mut v = identity();
    for _ in 0..60 {
        let off: f64 = (0..N).flat_map(|i| (0..i).map(move |j| (i, j))).map(|(i, j)| a[i][j] * a[i][j]).sum();
        let size: f64 = (0..N).map(|i| a[i][i] * a[i][i]).sum();
        if off <= 1e-30 * size {
            break;
        }
        for p in 0..N {
            for q in p + 1..N {
                if a[p][q] != 0.0 {
                    let theta = (a[q][q] - a[p][p]) / (2.0 * a[p][q]);
                    let tangent = theta.signum() / (theta.abs() + (theta * theta + 1.0).sqrt());
                    rotate(&mut a, &mut v, [p, q], tangent);
                }
            }
        }
    }
    let mut order: [usize; N] = std::array::from_fn(|k| k);
    order.sort_by(|&i, &j| a[i][i].total_cmp(&a[j][j]));
    (order.map(|k| a[k][k]), order.map(|k| std::array::from_fn(|row| v[row][k])))
}

fn identity<const N: usize>() -> [[f64; N]; N] {
    std::array::from_fn(|i| std::array::from_fn(|j| f64::from(u8::from(i == j))))
}

/// Rotates the axes `p` and `q` of a symmetric matrix and of its eigenvectors by an angle with this tangent.
fn rotate<const N: usize>(a: &mut [[f64; N]; N], v: &mut [[f64; N]; N], [p, q]: [usize; 2], tangent: f64) {
    let c = 1.0 / (tangent * tangent + 1.0).sqrt();
    let s = tangent * c;
    for row in a.iter_mut().chain(v) {
        (row[p], row[q]) = (c * row[p] - s * row[q], s * row[p] + c * row[q]);
    }
    for k in 0..N {
        (a[p][k], a[q][k]) = (c * a[p][k] - s * a[q][k], s * a[p][k] + c * a[q][k]);
    }
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
        let (a, x) = (definite(), [0.3, -2.0, 1.7, 0.4]);
        let mut b: Vec<f64> = (0..4).map(|i| (0..4).map(|j| a[i][j] * x[j]).sum()).collect();
        solve_cholesky(&cholesky(a.as_flattened().to_vec(), 4).unwrap(), &mut b);
        assert!(b.iter().zip(x).all(|(a, b)| (a - b).abs() < 1e-12), "{b:?}");
        assert!(cholesky(vec![1.0, 2.0, 2.0, 1.0], 2).is_none());
    }

    #[test]
    fn eigenvectors_are_stretched_by_their_values() {
        let a = definite();
        let check = |value: f64, vector: [f64; 4]| {
            for i in 0..4 {
                let image: f64 = (0..4).map(|j| a[i][j] * vector[j]).sum();
                assert!((image - value * vector[i]).abs() < 1e-12);
            }
        };
        let (values, vectors) = eigen_symmetric(a);
        values.into_iter().zip(vectors).for_each(|(value, vector)| check(value, vector));
        assert!(values.is_sorted());
        let (values, columns) = jacobi(a, 12, |v| v == 0.0);
        (0..4).for_each(|k| check(values[k], columns.map(|row| row[k])));
    }
}
