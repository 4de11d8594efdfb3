//! Assesses how reliable the depth maps of a scene are.
//!
//! Points at wrong positions cost more than blur, so a pixel becomes a point only if two neighbours confirm it and
//! determine its depth, or the only one that sees it does ([`Support::can_be_point`](crate::Support::can_be_point)). If few
//! pixels do, they are likely to be chance, and there are no points.

use crate::{DepthMap, consistency};

/// Minimum fraction of gated pixels; below it there are no points.
const MIN_GATED_FRACTION: f64 = 0.02;

/// Fractions of all pixels, and whether to trust them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Reliability {
    /// Number of pixels of all depth maps.
    pub pixels: u64,
    /// Fraction of them with a confirmed depth.
    pub confirmed_fraction: f64,
    /// Fraction that can become points.
    pub gated_fraction: f64,
    /// Mean number of views (itself and those that determine its depth) of a confirmed pixel that two neighbours see.
    pub views_per_point: f64,
    /// Whether enough pixels can become points: fewer are likely to be chance.
    pub has_points: bool,
}

impl Reliability {
    /// The verdict on the depth maps of a scene.
    pub(crate) fn new(maps: &[DepthMap]) -> Self {
        let (mut pixels, mut confirmed, mut gated) = (0u64, 0u64, 0u64);
        let (mut common, mut views) = (0u64, 0u64);
        for map in maps {
            pixels += map.depth.len() as u64;
            for (_, &support) in map.depth.iter().zip(&map.support).filter(|&(&z, _)| z > 0.0) {
                confirmed += 1;
                gated += u64::from(support.can_be_point());
                if support.seen >= consistency::MIN_WIDE_NEIGHBOURS {
                    common += 1;
                    views += 1 + u64::from(support.wide);
                }
            }
        }
        let share = |n: u64, of: u64| if of > 0 { n as f64 / of as f64 } else { 0.0 };
        let (gated, views_per_point) = (share(gated, pixels), share(views, common));
        Self {
            pixels,
            confirmed_fraction: share(confirmed, pixels),
            gated_fraction: gated,
            views_per_point,
            has_points: gated >= MIN_GATED_FRACTION,
        }
    }
}
