//! Exposure and white balance compensation of consecutive frames, from corners that nearby frames share.
//!
//! ```text
//! a frame      panorama of 1024 px, its strongest corners (Shi and Tomasi 1994), each with a patch of 11x11 samples of
//!              luma on the tangent plane, 0.7 degrees apart, normalised to mean 0 and length 1: hardly depends on gain
//! two frames   mutual best matches with a clear margin, aligned by an affine warp (Baker and Matthews 2004) → ratio of
//!              the sums of their linear light where both are valid; r = robust mean of its log2, per channel
//! all frames   least squares of g_i - g_j = -r_ij over pairs up to three frames apart, mean zero
//! ```
//! No poses are needed. Panoramas are assumed to be upright.

mod corner;
mod pair;

use std::collections::VecDeque;

use gausset_compute::Pool;

use crate::cut::equalise::rounded_gain;
pub use corner::FrameFeatures;
use pair::{BrightnessRatio, brightness_ratio};

/// Width of the compared panoramas, px.
pub const COMPARED_WIDTH: u32 = 1024;
/// Number of previous frames that each frame is compared with.
const NEIGHBOURS: usize = 3;

/// Brightness ratio of a frame to a later one.
#[derive(Clone, Copy, Debug)]
struct RatioEdge {
    from: usize,
    to: usize,
    ratio: BrightnessRatio,
}

/// Accumulates consecutive frames; only the last few are kept in memory.
#[derive(Debug, Default)]
pub struct FrameEqualiser {
    count: usize,
    recent: VecDeque<FrameFeatures>,
    edges: Vec<RatioEdge>,
}

impl FrameEqualiser {
    /// Adds the next frame and compares it with the previous ones.
    pub fn add(&mut self, shown: FrameFeatures, pool: &Pool) {
        let ratios = pool.map(self.recent.len(), |k| brightness_ratio(&self.recent[k], &shown));
        let first = self.count - self.recent.len();
        for (k, found) in ratios.into_iter().enumerate() {
            self.edges.extend(found.map(|ratio| RatioEdge { from: first + k, to: self.count, ratio }));
        }
        self.recent.push_back(shown);
        self.count += 1;
        if self.recent.len() > NEIGHBOURS {
            self.recent.pop_front();
        }
    }

    /// Compensating gains of red, green and blue per frame, in linear light; 1 for frames that match no other.
    #[must_use]
    pub fn gains(&self) -> Vec<[f64; 3]> {
        let mut gains = vec![[1.0; 3]; self.count];
        for c in 0..3 {
            let solved = solve_gains(self.count, &self.edges, c);
            for (gain, log) in gains.iter_mut().zip(solved) {
                gain[c] = rounded_gain(libm::exp2(log));
            }
        }
        gains
    }
}

/// Least squares of `g_i - g_j = -r_ij` by conjugate gradients, started at zero so that the mean is zero in every
/// connected group of frames. Values are log2 gains.
fn solve_gains(count: usize, edges: &[RatioEdge], channel: usize) -> Vec<f64> {
    let product = |g: &[f64]| {
        let mut out = vec![0.0; count];
        for edge in edges {
            let difference = edge.ratio.weight * (g[edge.from] - g[edge.to]);
            out[edge.from] += difference;
            out[edge.to] -= difference;
        }
        out
    };
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let mut rest = vec![0.0; count];
    for RatioEdge { from, to, ratio } in edges {
        let pull = ratio.weight * ratio.stops[channel];
        rest[*from] -= pull;
        rest[*to] += pull;
    }
    let (mut g, mut way, mut square) = (vec![0.0; count], rest.clone(), dot(&rest, &rest));
    let enough = 1e-24 * square;
    for _ in 0..2 * count {
        if square <= enough {
            break;
        }
        let ahead = product(&way);
        let step = square / dot(&way, &ahead).max(1e-300);
        for k in 0..count {
            g[k] += step * way[k];
            rest[k] -= step * ahead[k];
        }
        let next = dot(&rest, &rest);
        for k in 0..count {
            way[k] = rest[k] + next / square * way[k];
        }
        square = next;
    }
    g
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gains_that_agree_are_found_and_their_mean_is_zero() {
        let truth = [0.3, -0.9, 0.5, 0.1, 0.0, -0.7];
        let mut edges = Vec::new();
        for i in 0usize..6 {
            for j in i + 1..6.min(i + 3) {
                // A frame that is brighter by t stops needs -t.
                let ratio = BrightnessRatio { stops: [truth[i] - truth[j]; 3], weight: 10.0 + i as f64 };
                edges.push(RatioEdge { from: i, to: j, ratio });
            }
        }
        let mean = truth.iter().sum::<f64>() / 6.0;
        for (found, truth) in solve_gains(6, &edges, 1).iter().zip(truth) {
            assert!((found + truth - mean).abs() < 1e-9, "{found} {truth}");
        }
        assert_eq!(solve_gains(3, &[], 0), [0.0; 3]);
    }
}
