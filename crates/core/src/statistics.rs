//! Medians.

/// Median of values, by total order; for an even count the mean of the two middle values. `None` of no values.
#[must_use]
pub fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let half = values.len() / 2;
    let upper = *values.get(half)?;
    Some(if values.len() % 2 == 1 { upper } else { 0.5 * (values[half - 1] + upper) })
}

/// Median of values, by total order; for an even count the larger of the two middle values. `None` of no values.
#[must_use]
pub fn upper_median(mut values: Vec<f64>) -> Option<f64> {
    let half = values.len() / 2;
    (!values.is_empty()).then(|| *values.select_nth_unstable_by(half, f64::total_cmp).1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_differ_for_an_even_count() {
        let both = |values: &[f64]| (median(values.to_vec()), upper_median(values.to_vec()));
        assert_eq!(both(&[]), (None, None));
        assert_eq!(both(&[3.0, 1.0, 2.0]), (Some(2.0), Some(2.0)));
        assert_eq!(both(&[4.0, 1.0, 2.0, 8.0]), (Some(3.0), Some(4.0)));
    }
}
