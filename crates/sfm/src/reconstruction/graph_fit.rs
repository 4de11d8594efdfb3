//! Least-squares fit of values at the nodes of a graph to differences along its edges. Rotation averaging, baseline
//! lengths and positions all use it.

use std::sync::atomic::{AtomicBool, Ordering};

/// One equation `value[to] - value[from] = difference`, with its weight.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Edge<const N: usize> {
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) difference: [f64; N],
    pub(crate) weight: f64,
    /// Residual above which the robust fit lowers the weight.
    pub(crate) scale: f64,
}

/// The least-squares values, with sum zero: conjugate gradients with a diagonal preconditioner. The graph must be
/// connected.
pub(crate) fn fit<const N: usize>(count: usize, edges: &[Edge<N>]) -> Vec<[f64; N]> {
    let mut diagonal = vec![0.0; count];
    let mut residual = vec![[0.0; N]; count];
    for edge in edges {
        for (node, sign) in [(edge.from, -1.0), (edge.to, 1.0)] {
            diagonal[node] += edge.weight;
            (0..N).for_each(|k| residual[node][k] += sign * edge.weight * edge.difference[k]);
        }
    }
    let conditioned = |r: &[[f64; N]]| -> Vec<[f64; N]> {
        r.iter().zip(&diagonal).map(|(r, d)| r.map(|v| v / d.max(1e-300))).collect()
    };
    let inner = |a: &[[f64; N]], b: &[[f64; N]]| -> f64 {
        a.iter().zip(b).map(|(a, b)| a.iter().zip(b).map(|(x, y)| x * y).sum::<f64>()).sum()
    };
    let mut x = vec![[0.0; N]; count];
    let mut z = conditioned(&residual);
    let mut direction = z.clone();
    let mut along = inner(&residual, &z);
    let end = 1e-24 * along;
    // Without rounding, as many iterations as unknowns would be enough.
    for _ in 0..3 * count + 50 {
        if along <= end {
            break;
        }
        let mut image = vec![[0.0; N]; count];
        for edge in edges {
            for k in 0..N {
                let d = edge.weight * (direction[edge.to][k] - direction[edge.from][k]);
                image[edge.to][k] += d;
                image[edge.from][k] -= d;
            }
        }
        let curvature = inner(&direction, &image);
        // The rest is rounding.
        if curvature.is_nan() || curvature <= 1e-280 || along <= 1e-280 {
            break;
        }
        let step = along / curvature;
        for i in 0..count {
            for k in 0..N {
                x[i][k] += step * direction[i][k];
                residual[i][k] -= step * image[i][k];
            }
        }
        z = conditioned(&residual);
        let next = inner(&residual, &z);
        let keep = next / along;
        along = next;
        for (d, z) in direction.iter_mut().zip(&z) {
            (0..N).for_each(|k| d[k] = z[k] + keep * d[k]);
        }
    }
    let mean: [f64; N] = std::array::from_fn(|k| x.iter().map(|v| v[k]).sum::<f64>() / count.max(1) as f64);
    x.iter().map(|v| std::array::from_fn(|k| v[k] - mean[k])).collect()
}

/// Robust version: weights decrease with residual over scale (iteratively reweighted least squares, first with L1, then
/// with Cauchy weights). Returns the values and the residual of each edge; unfinished ones if `stop` is set.
pub(crate) fn fit_robust<const N: usize>(
    count: usize,
    edges: &[Edge<N>],
    stop: &AtomicBool,
) -> (Vec<[f64; N]>, Vec<f64>) {
    let mut weighted = edges.to_vec();
    let mut values = fit(count, &weighted);
    for round in 0..30 {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        for (edge, own) in weighted.iter_mut().zip(edges) {
            let r = residual(&values, own) / own.scale;
            edge.weight = own.weight * if round < 15 { 1.0 / r.max(1e-2) } else { 1.0 / (1.0 + r * r) };
        }
        values = fit(count, &weighted);
    }
    let residuals = edges.iter().map(|edge| residual(&values, edge)).collect();
    (values, residuals)
}

fn residual<const N: usize>(values: &[[f64; N]], edge: &Edge<N>) -> f64 {
    let d = |k: usize| values[edge.to][k] - values[edge.from][k] - edge.difference[k];
    libm::sqrt((0..N).map(|k| d(k) * d(k)).sum())
}

/// Connected component of each node, numbered by its first node.
pub(crate) fn components(count: usize, edges: impl Iterator<Item = [usize; 2]>) -> Vec<usize> {
    let mut root: Vec<usize> = (0..count).collect();
    fn find(root: &mut [usize], mut node: usize) -> usize {
        while root[node] != node {
            root[node] = root[root[node]];
            node = root[node];
        }
        node
    }
    for [a, b] in edges {
        let (a, b) = (find(&mut root, a), find(&mut root, b));
        root[a.max(b)] = a.min(b);
    }
    (0..count).map(|node| find(&mut root, node)).collect()
}

/// Whether each node is in the largest connected component (the first of equal ones).
pub(crate) fn largest_component(parts: &[usize]) -> Vec<bool> {
    let mut sizes = vec![0usize; parts.len()];
    parts.iter().for_each(|&part| sizes[part] += 1);
    let best = (1..sizes.len()).fold(0, |best, part| if sizes[part] > sizes[best] { part } else { best });
    parts.iter().map(|&part| part == best).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reconstruction::two_view::tests::{random, vector};

    #[test]
    fn differences_give_the_values_back_and_wrong_ones_are_outvoted() {
        let count = 40;
        let truth: Vec<[f64; 3]> = (0..count).map(|k| vector(1, k, 0)).collect();
        let mut edges = Vec::new();
        for from in 0..count as usize {
            for to in from + 1..(from + 7).min(count as usize) {
                let is_wrong = random(2, from as u32, to as u32) > 0.6;
                let by = vector(3, from as u32, to as u32).map(|v| if is_wrong { 3.0 * v } else { 0.0 });
                let value: [f64; 3] = std::array::from_fn(|k| truth[to][k] - truth[from][k] + by[k]);
                edges.push(Edge { from, to, difference: value, weight: 1.0, scale: 0.01 });
            }
        }
        let wrong = edges.len();
        let (found, residuals) = fit_robust(count as usize, &edges, &AtomicBool::new(false));
        let mean: [f64; 3] = std::array::from_fn(|k| truth.iter().map(|v| v[k]).sum::<f64>() / 40.0);
        for (found, truth) in found.iter().zip(&truth) {
            assert!((0..3).all(|k| (found[k] - truth[k] + mean[k]).abs() < 1e-3), "{found:?} {truth:?}");
        }
        let large = residuals.iter().filter(|r| **r > 0.1).count();
        assert!(large > 20 && large < wrong / 3, "{large} of {wrong}");
    }

    #[test]
    fn parts_are_counted_from_their_first_node() {
        let parts = components(7, [[5, 2], [2, 6], [0, 1], [4, 5]].into_iter());
        assert_eq!(parts, [0, 0, 2, 3, 2, 2, 2]);
        assert_eq!(largest_component(&parts), [false, false, true, false, true, true, true]);
    }
}
