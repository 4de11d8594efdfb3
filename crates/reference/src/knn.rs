//! Initial scales from the distances between points (README, section 8), by comparing every pair.

/// Mean of the squared distances to the three nearest other points, per point. Duplicates count as distance 0; a point
/// itself is excluded by its index. With fewer than three other points, the mean over those, or 0 without any.
#[must_use]
pub fn mean_squared_distances(points: &[[f64; 3]]) -> Vec<f64> {
    let squared_distance =
        |a: [f64; 3], b: [f64; 3]| (0..3).map(|k| (a[k] - b[k]) * (a[k] - b[k])).sum::<f64>();
    let mean_of_nearest = |i: usize| {
        let mut others: Vec<f64> =
            (0..points.len()).filter(|&j| j != i).map(|j| squared_distance(points[i], points[j])).collect();
        others.sort_by(f64::total_cmp);
        others.truncate(3);
        if others.is_empty() { 0.0 } else { others.iter().sum::<f64>() / others.len() as f64 }
    };
    (0..points.len()).map(mean_of_nearest).collect()
}

/// `ln sqrt(max(d², 1e-7))`: the initial log scale of all three axes of a splat at a point.
#[must_use]
pub fn initial_log_scale(mean_squared_distance: f64) -> f64 {
    libm::log(mean_squared_distance.max(1e-7).sqrt())
}
