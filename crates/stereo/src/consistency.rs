//! Geometric consistency check: which depths other views confirm.
//!
//! A pixel with inverse depth q projects into a neighbour at (u/w, v/w) with depth w/q; the neighbour agrees if its own
//! depth there is within 2 %. A pixel is confirmed if its score is above 0.55 and one neighbour agrees, or above 0.4
//! and two agree. Neighbours that agree under an angle above 3° are also counted separately.

use crate::surface::Surface;
use crate::warp::Warp;

/// Maximum relative difference of depths that agree.
pub(crate) const DEPTH_TOLERANCE: f32 = 0.02;
/// Minimum scores with one and with two agreeing neighbours.
const MIN_SCORE_ONE: f32 = 0.55;
pub(crate) const MIN_SCORE_TWO: f32 = 0.4;
/// Minimum number of pixels of a surface segment, and the maximum ratio of depths of neighbouring pixels in a segment.
const MIN_SEGMENT_PIXELS: usize = 16;
const MAX_SEGMENT_RATIO: f32 = 1.03;
/// Cosine of 3 degrees: narrower pairs confirm, but constrain depth weakly.
const WIDE_COSINE: f64 = 0.998_629_534_754_573_8;

/// Number of neighbours that agree with a pixel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Support {
    /// Neighbours whose own depth agrees.
    pub agree: u8,
    /// Those of them that see the point from more than 3 degrees away.
    pub wide: u8,
}

/// Support of each pixel of a view; zero if its score is not above `least_score`.
pub(crate) fn support(
    view: &Surface,
    neighbours: &[(Warp, &Surface)],
    tolerance: f32,
    least_score: f32,
) -> Vec<Support> {
    let mut out = vec![Support::default(); view.score.len()];
    for (warp, other) in neighbours {
        let (column, shift) = (warp.column.map(|v| v as f32), warp.shift.map(|v| v as f32));
        for y in 0..view.height {
            let row: [f32; 3] = std::array::from_fn(|i| (warp.origin[i] + y as f64 * warp.row[i]) as f32);
            for x in 0..view.width {
                let at = y * view.width + x;
                let q = view.inverse_depth[at];
                if view.score[at] <= least_score || q <= 0.0 {
                    continue;
                }
                let axis = |i: usize| row[i] + x as f32 * column[i] + q * shift[i];
                let (u, v, w) = (axis(0), axis(1), axis(2));
                if w <= 0.0 {
                    continue;
                }
                let (u, v) = (u / w + 0.5, v / w + 0.5);
                if !(u >= 0.0 && v >= 0.0 && u < other.width as f32 && v < other.height as f32) {
                    continue;
                }
                let there = v as usize * other.width + u as usize;
                // Depth in the neighbour over the depth it should have.
                let ratio = q / w / other.inverse_depth[there];
                if other.score[there] > least_score && (ratio - 1.0).abs() < tolerance {
                    out[at].agree += 1;
                    out[at].wide +=
                        u8::from(warp.triangulation_cosine(x as f64, y as f64, f64::from(q)) < WIDE_COSINE);
                }
            }
        }
    }
    out
}

/// Whether a depth of this score and support is kept.
pub(crate) fn is_confirmed(score: f32, support: Support) -> bool {
    (score > MIN_SCORE_ONE && support.agree >= 1) || (score > MIN_SCORE_TWO && support.agree >= 2)
}

/// Removes segments of a few pixels: wrong depths that agree by chance are isolated. A segment is a connected component
/// whose depths differ little from pixel to pixel.
pub(crate) fn remove_specks(depth: &mut [f32], width: usize) {
    let mut is_seen = vec![false; depth.len()];
    let mut piece = Vec::new();
    for start in 0..depth.len() {
        if depth[start] <= 0.0 || is_seen[start] {
            continue;
        }
        piece.clear();
        piece.push(start);
        is_seen[start] = true;
        let mut next = 0;
        while let Some(&i) = piece.get(next) {
            next += 1;
            let (x, z) = (i % width, depth[i]);
            let beside = [
                (x > 0).then(|| i - 1),
                (x + 1 < width).then(|| i + 1),
                i.checked_sub(width),
                Some(i + width).filter(|&below| below < depth.len()),
            ];
            for other in beside.into_iter().flatten() {
                let o = depth[other];
                if o > 0.0 && !is_seen[other] && o < z * MAX_SEGMENT_RATIO && z < o * MAX_SEGMENT_RATIO {
                    is_seen[other] = true;
                    piece.push(other);
                }
            }
        }
        if piece.len() < MIN_SEGMENT_PIXELS {
            piece.iter().for_each(|&i| depth[i] = 0.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn specks_go_and_surfaces_stay() {
        let mut depth = vec![2.0f32; 20 * 20];
        // A speck of another depth on the surface, and a gap.
        for i in [105, 106, 125] {
            depth[i] = 1.0;
        }
        depth[300] = 0.0;
        let before = depth.clone();
        remove_specks(&mut depth, 20);
        for (i, (&after, &before)) in depth.iter().zip(&before).enumerate() {
            let is_speck = [105, 106, 125].contains(&i);
            assert_eq!(after, if is_speck { 0.0 } else { before });
        }
    }
}
