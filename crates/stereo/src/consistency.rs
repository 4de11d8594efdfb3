//! Geometric consistency check: which depths other views confirm.
//!
//! A pixel with inverse depth q projects into a neighbour at (u/w, v/w) with depth w/q; the neighbour agrees if its own
//! depth there is within 2 %, or within 20 % if that moves the pixel by less than half a pixel: what is far away has no
//! more exact depth, and needs none. A pixel is confirmed if its score is above 0.55 and one neighbour agrees, or above
//! 0.4 and two agree. Neighbours that agree and determine the depth, from more than 3° away or by a parallax of more than
//! 5 px, are also counted separately.

use crate::surface::Surface;
use crate::warp::Warp;

/// Which depths agree.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Agreement {
    /// Maximum relative difference, and the maximum if the positions differ by at most `pixels`.
    pub(crate) relative: f32,
    pub(crate) relative_if_close: f32,
    pub(crate) pixels: f32,
    /// Minimum score of both pixels.
    pub(crate) score: f32,
}

/// Agreement at half size, and at the size of the depth map.
pub(crate) const AT_HALF_SIZE: Agreement =
    Agreement { relative: 0.05, relative_if_close: 0.2, pixels: 0.25, score: 0.3 };
pub(crate) const AT_FULL_SIZE: Agreement =
    Agreement { relative: 0.02, relative_if_close: 0.2, pixels: 0.5, score: MIN_SCORE_TWO };
/// Minimum scores with one and with two agreeing neighbours.
const MIN_SCORE_ONE: f32 = 0.55;
const MIN_SCORE_TWO: f32 = 0.4;
/// Number of neighbours that must determine the depth of a point, if as many see it.
pub(crate) const MIN_WIDE_NEIGHBOURS: u8 = 2;
/// Minimum number of pixels of a surface segment, and the maximum ratio of depths of neighbouring pixels in a segment.
const MIN_SEGMENT_PIXELS: usize = 16;
const MAX_SEGMENT_RATIO: f32 = 1.03;
/// Cosine of 3 degrees, and parallax in px against the same direction at infinity: pairs below both confirm, but
/// constrain depth weakly.
const WIDE_COSINE: f64 = 0.998_629_534_754_573_8;
const WIDE_PARALLAX: f32 = 5.0;

/// Number of neighbours that agree with a pixel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Support {
    /// Neighbours whose own depth agrees.
    pub agree: u8,
    /// Those of them that determine the depth: from more than 3 degrees away, or by a parallax of more than 5 px.
    pub wide: u8,
    /// Neighbours whose image contains the point.
    pub seen: u8,
}

impl Support {
    /// Whether a pixel can become a point: two neighbours confirm it and determine its depth, or the only one that sees
    /// it does.
    #[must_use]
    pub fn can_be_point(self) -> bool {
        self.wide >= MIN_WIDE_NEIGHBOURS.min(self.seen).max(1)
    }
}

/// Support of each pixel of a view; zero if its score is not above that of the agreement.
pub(crate) fn support(
    view: &Surface,
    neighbours: &[(Warp, &Surface)],
    agreement: &Agreement,
) -> Vec<Support> {
    let mut out = vec![Support::default(); view.score.len()];
    for (warp, other) in neighbours {
        let (column, shift) = (warp.column.map(|v| v as f32), warp.shift.map(|v| v as f32));
        for y in 0..view.height {
            let row: [f32; 3] = std::array::from_fn(|i| (warp.origin[i] + y as f64 * warp.row[i]) as f32);
            for x in 0..view.width {
                let at = y * view.width + x;
                let q = view.inverse_depth[at];
                if view.score[at] <= agreement.score || q <= 0.0 {
                    continue;
                }
                let axis = |i: usize| row[i] + x as f32 * column[i] + q * shift[i];
                let (u, v, w) = (axis(0), axis(1), axis(2));
                if w <= 0.0 {
                    continue;
                }
                let (u, v) = (u / w, v / w);
                // Distance in px to the same direction at infinity, to first order.
                let (du, dv) = (shift[0] - u * shift[2], shift[1] - v * shift[2]);
                let parallax = (du * du + dv * dv).sqrt() * q / w;
                let (u, v) = (u + 0.5, v + 0.5);
                if !(u >= 0.0 && v >= 0.0 && u < other.width as f32 && v < other.height as f32) {
                    continue;
                }
                out[at].seen += 1;
                let there = v as usize * other.width + u as usize;
                // Depth in the neighbour over the depth it should have.
                let difference = (q / w / other.inverse_depth[there] - 1.0).abs();
                let is_close =
                    difference < agreement.relative_if_close && difference * parallax < agreement.pixels;
                if other.score[there] > agreement.score && (difference < agreement.relative || is_close) {
                    let is_wide = parallax > WIDE_PARALLAX
                        || warp.triangulation_cosine(x as f64, y as f64, f64::from(q)) < WIDE_COSINE;
                    out[at].agree += 1;
                    out[at].wide += u8::from(is_wide);
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
