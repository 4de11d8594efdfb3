//! Rotation averaging (Chatterjee and Govindu 2013): starts from a spanning tree of the pairs with the most inliers,
//! then averages robustly in the tangent space.

use std::sync::atomic::{AtomicBool, Ordering};

use gausset_core::matrix::{IDENTITY3, Mat3, mul, orthonormalise, quaternion_from_rotation, transpose};
use gausset_core::se3::so3_exp;

use crate::reconstruction::graph_fit::{Edge, fit_robust};

/// The relative rotation between two panoramas.
#[derive(Clone, Debug)]
pub(crate) struct RelativeRotation {
    pub(crate) from: usize,
    pub(crate) to: usize,
    /// `to_from_world = rotation · from_from_world`.
    pub(crate) rotation: Mat3,
    /// Number of inlier matches.
    pub(crate) inliers: usize,
}

/// Scale of the robust weights, radians.
const ROBUST_SCALE: f64 = 0.5 * std::f64::consts::PI / 180.0;

/// Returns `pano_from_world` of each panorama, and the residual of each edge, radians; unfinished ones if `stop` is set.
/// The graph must be connected.
pub(crate) fn average_rotations(
    count: usize,
    edges: &[RelativeRotation],
    stop: &AtomicBool,
) -> (Vec<Mat3>, Vec<f64>) {
    let mut rotations = chain_spanning_tree(count, edges);
    let mut off = vec![0.0; edges.len()];
    for _ in 0..10 {
        let error = |edge: &RelativeRotation| {
            let predicted = mul(&edge.rotation, &rotations[edge.from]);
            so3_log(&mul(&transpose(&rotations[edge.to]), &predicted))
        };
        let differences: Vec<Edge<3>> = edges
            .iter()
            .map(|edge| Edge {
                from: edge.from,
                to: edge.to,
                difference: error(edge),
                weight: (edge.inliers as f64).min(500.0),
                scale: ROBUST_SCALE,
            })
            .collect();
        let (steps, residuals) = fit_robust(count, &differences, stop);
        off = residuals;
        let mut largest = 0.0f64;
        for (rotation, step) in rotations.iter_mut().zip(steps) {
            largest = largest.max(gausset_core::matrix::norm(step));
            *rotation = orthonormalise(&mul(rotation, &so3_exp(step)));
        }
        if largest < 1e-9 || stop.load(Ordering::Relaxed) {
            break;
        }
    }
    (rotations, off)
}

/// Chains rotations along the spanning tree of the pairs with the most inliers.
fn chain_spanning_tree(count: usize, edges: &[RelativeRotation]) -> Vec<Mat3> {
    let mut rotations: Vec<Option<Mat3>> = vec![None; count];
    if let Some(first) = rotations.first_mut() {
        *first = Some(IDENTITY3);
    }
    loop {
        let reaches =
            |edge: &&RelativeRotation| rotations[edge.from].is_some() != rotations[edge.to].is_some();
        // Of equal edges the first.
        let best =
            edges.iter().filter(reaches).fold(None, |best: Option<&RelativeRotation>, edge| match best {
                Some(best) if best.inliers >= edge.inliers => Some(best),
                _ => Some(edge),
            });
        let Some(edge) = best else { break };
        match (rotations[edge.from], rotations[edge.to]) {
            (Some(from), _) => rotations[edge.to] = Some(mul(&edge.rotation, &from)),
            (_, Some(to)) => rotations[edge.from] = Some(mul(&transpose(&edge.rotation), &to)),
            _ => {}
        }
    }
    rotations.into_iter().map(|rotation| rotation.unwrap_or(IDENTITY3)).collect()
}

/// Rotation vector: axis times angle.
pub(crate) fn so3_log(rotation: &Mat3) -> [f64; 3] {
    let [w, x, y, z] = quaternion_from_rotation(rotation);
    let sine = libm::sqrt(x * x + y * y + z * z);
    let factor = if sine < 1e-9 { 2.0 } else { 2.0 * libm::atan2(sine, w) / sine };
    [x, y, z].map(|v| factor * v)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reconstruction::two_view::tests::{angle_between, random, vector};

    #[test]
    fn rotations_come_back_although_a_quarter_of_the_edges_is_wrong() {
        let count = 30;
        let truth: Vec<Mat3> = (0..count).map(|k| so3_exp(vector(4, k, 0).map(|v| 2.0 * v))).collect();
        let mut edges = Vec::new();
        for from in 0..count as usize {
            for to in from + 1..(from + 9).min(count as usize) {
                let is_wrong = random(5, from as u32, to as u32) > 0.5;
                let size = if is_wrong { 1.5 } else { 1e-3 };
                let by = so3_exp(vector(6, from as u32, to as u32).map(|v| size * v));
                let rotation = mul(&by, &mul(&truth[to], &transpose(&truth[from])));
                edges.push(RelativeRotation { from, to, rotation, inliers: if is_wrong { 40 } else { 60 } });
            }
        }
        let (found, off) = average_rotations(count as usize, &edges, &AtomicBool::new(false));
        let turn = mul(&transpose(&found[0]), &truth[0]);
        for (found, truth) in found.iter().zip(&truth) {
            let error = angle_between(&mul(found, &turn), truth).to_degrees();
            assert!(error < 0.15, "{error}");
        }
        let wrong = off.iter().filter(|off| off.to_degrees() > 3.0).count();
        assert!(wrong > edges.len() / 6 && wrong < edges.len() / 3, "{wrong} of {}", edges.len());
    }

    #[test]
    fn the_logarithm_undoes_the_exponential() {
        for v in [[0.0; 3], [1e-11, 0.0, 0.0], [0.3, -0.2, 0.9], [3.0, 0.5, 0.2]] {
            let back = so3_log(&so3_exp(v));
            assert!((0..3).all(|k| (back[k] - v[k]).abs() < 1e-9), "{v:?} {back:?}");
        }
    }
}
