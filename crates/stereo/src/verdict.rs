//! What the depth maps of a scene are good for.
//!
//! Points in the wrong place cost more than blur: on a scene that is seen from few places, detail at a wrong depth made
//! a training worse by 1.2 dB. So a pixel becomes a point only where two neighbours confirm it from more than 3 degrees
//! away, and a scene whose points few views agree on gets fewer points: the share of the budget rises from 0 where a
//! point has 3 views to 1 where it has 4.

use crate::{DepthMap, Support};

/// Neighbours that must confirm a point from more than 3 degrees away.
pub(crate) const GATE: u8 = 2;
/// Share of gated pixels below which there are no points.
const FEWEST_GATED: f64 = 0.02;
/// Views per point without points, and with all of them.
const VIEWS: [f64; 2] = [3.0, 4.0];

/// Shares of all pixels and what follows from them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Verdict {
    /// Pixels of all depth maps.
    pub pixels: u64,
    /// Share of them with a confirmed depth.
    pub confirmed: f64,
    /// Share that two neighbours confirm from more than 3 degrees away: what becomes points.
    pub gated: f64,
    /// Mean number of views (itself and those that agree from more than 3 degrees away) of a confirmed pixel.
    pub views_per_point: f64,
    /// Share of the points wanted that should be made, 0..1.
    pub budget: f64,
}

/// Whether a pixel may become a point.
pub(crate) fn is_gated(support: Support) -> bool {
    support.wide >= GATE
}

impl Verdict {
    /// Of the depth maps of a scene.
    pub(crate) fn new(maps: &[DepthMap]) -> Self {
        let (mut pixels, mut confirmed, mut gated, mut views) = (0u64, 0u64, 0u64, 0u64);
        for map in maps {
            pixels += map.depth.len() as u64;
            for (_, &support) in map.depth.iter().zip(&map.support).filter(|&(&z, _)| z > 0.0) {
                confirmed += 1;
                gated += u64::from(is_gated(support));
                views += 1 + u64::from(support.wide);
            }
        }
        let share = |n: u64, of: u64| if of > 0 { n as f64 / of as f64 } else { 0.0 };
        let (gated, views_per_point) = (share(gated, pixels), share(views, confirmed));
        let budget = if gated < FEWEST_GATED {
            0.0
        } else {
            ((views_per_point - VIEWS[0]) / (VIEWS[1] - VIEWS[0])).clamp(0.0, 1.0)
        };
        Self { pixels, confirmed: share(confirmed, pixels), gated, views_per_point, budget }
    }
}
