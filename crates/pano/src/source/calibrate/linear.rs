//! Small dense least squares in f64.

use gausset_core::linalg::{cholesky, solve_cholesky};

/// Solves the symmetric positive definite system `a x = b`. Only the lower triangle of `a` is read. Returns `None` if `a`
/// is not positive definite.
pub(super) fn solve_positive_definite(a: &[f64], b: &[f64]) -> Option<Vec<f64>> {
    let mut x = b.to_vec();
    solve_cholesky(&cholesky(a.to_vec(), b.len())?, &mut x);
    Some(x)
}

/// Diagonal of the inverse of a symmetric positive definite `n` x `n` matrix; `None` if it is not positive definite.
pub(super) fn inverse_diagonal(a: &[f64], n: usize) -> Option<Vec<f64>> {
    let l = cholesky(a.to_vec(), n)?;
    let entry = |k: usize| {
        let mut column: Vec<f64> = (0..n).map(|i| f64::from(u8::from(i == k))).collect();
        solve_cholesky(&l, &mut column);
        column[k]
    };
    Some((0..n).map(entry).collect())
}

/// Variance of the linear combination `along` of the parameters, from their normal equations `a`.
pub(super) fn variance(a: &[f64], along: &[f64]) -> Option<f64> {
    Some(solve_positive_definite(a, along)?.iter().zip(along).map(|(x, y)| x * y).sum())
}

/// Median; the mean of the two middle values for an even count; 0 for no values.
pub(super) fn median(values: Vec<f64>) -> f64 {
    gausset_core::statistics::median(values).unwrap_or(0.0)
}
