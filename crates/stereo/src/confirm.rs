//! Which depths other views confirm.
//!
//! A pixel with inverse depth q lands in a neighbour at (u/w, v/w) with depth w/q; the neighbour agrees when its own
//! depth there is within 2 %. Kept are pixels with a score above 0.55 that one neighbour agrees
//! with, or above 0.4 that two agree with; counted apart are the neighbours that agree under an angle above 3°.

use crate::surface::Surface;
use crate::warp::Warp;

/// Largest difference of depths that agree, as a share.
pub(crate) const SAME_DEPTH: f32 = 0.02;
/// Score above which one, and two agreeing neighbours are enough.
const SCORE_FOR_ONE: f32 = 0.55;
pub(crate) const SCORE_FOR_TWO: f32 = 0.4;
/// Cosine of 3 degrees: narrower pairs confirm, but tell little about depth.
const WIDE_COSINE: f64 = 0.998_629_534_754_573_8;

/// How many neighbours agree with a pixel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Support {
    /// Neighbours whose own depth agrees.
    pub agree: u8,
    /// Those of them that see the point from more than 3 degrees away.
    pub wide: u8,
}

/// Support of each pixel of a view; nothing where its score is not above `least_score`.
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
                // Depth there over the depth it should have.
                let ratio = q / w / other.inverse_depth[there];
                if other.score[there] > least_score && (ratio - 1.0).abs() < tolerance {
                    out[at].agree += 1;
                    out[at].wide += u8::from(warp.cosine(x as f64, y as f64, f64::from(q)) < WIDE_COSINE);
                }
            }
        }
    }
    out
}

/// Whether a depth of this score and support is kept.
pub(crate) fn is_confirmed(score: f32, support: Support) -> bool {
    (score > SCORE_FOR_ONE && support.agree >= 1) || (score > SCORE_FOR_TWO && support.agree >= 2)
}
