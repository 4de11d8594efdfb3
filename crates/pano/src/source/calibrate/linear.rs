//! Small dense least squares in f64.

/// Solves the symmetric positive definite system `a x = b` by Cholesky decomposition. Only the lower triangle of `a` is
/// read. Returns `None` if `a` is not positive definite.
pub(super) fn solve_positive_definite(a: &[f64], b: &[f64]) -> Option<Vec<f64>> {
    let n = b.len();
    let l = cholesky(a, n)?;
    Some(substitute(&l, b))
}

/// Diagonal of the inverse of a symmetric positive definite `n` x `n` matrix; `None` if it is not positive definite.
pub(super) fn inverse_diagonal(a: &[f64], n: usize) -> Option<Vec<f64>> {
    let l = cholesky(a, n)?;
    let unit = |k: usize| (0..n).map(|i| f64::from(u8::from(i == k))).collect::<Vec<f64>>();
    Some((0..n).map(|k| substitute(&l, &unit(k))[k]).collect())
}

/// Variance of the linear combination `along` of the parameters, from their normal equations `a`.
pub(super) fn variance(a: &[f64], along: &[f64]) -> Option<f64> {
    Some(solve_positive_definite(a, along)?.iter().zip(along).map(|(x, y)| x * y).sum())
}

fn cholesky(a: &[f64], n: usize) -> Option<Vec<f64>> {
    let mut l = vec![0.0; n * n];
    for i in 0..n {
        for j in 0..=i {
            let sum: f64 = (0..j).map(|k| l[i * n + k] * l[j * n + k]).sum();
            let rest = a[i * n + j] - sum;
            l[i * n + j] = if i == j {
                if rest.is_nan() || rest <= 0.0 {
                    return None;
                }
                libm::sqrt(rest)
            } else {
                rest / l[j * n + j]
            };
        }
    }
    Some(l)
}

fn substitute(l: &[f64], b: &[f64]) -> Vec<f64> {
    let n = b.len();
    let mut x = b.to_vec();
    for i in 0..n {
        let sum: f64 = (0..i).map(|k| l[i * n + k] * x[k]).sum();
        x[i] = (x[i] - sum) / l[i * n + i];
    }
    for i in (0..n).rev() {
        let sum: f64 = (i + 1..n).map(|k| l[k * n + i] * x[k]).sum();
        x[i] = (x[i] - sum) / l[i * n + i];
    }
    x
}

/// Median; the mean of the two middle values for an even count; 0 for no values.
pub(super) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let half = values.len() / 2;
    match values.len() {
        0 => 0.0,
        n if n % 2 == 1 => values[half],
        _ => 0.5 * (values[half - 1] + values[half]),
    }
}
