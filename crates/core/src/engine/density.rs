//! Rules that change the set of splats, as data.

use std::sync::Arc;

use crate::constants::TILE_SIZE;
use crate::{Camera, Pose};

/// A change of the set of splats, given as data.
///
/// Random draws are counter-based: they depend on the seed, the step and the splats' ids or order, never on threads.
/// New splats are appended behind the kept ones, which stay in order; with `reorder` the result is then sorted along a
/// Morton curve (ties: order before sorting). The order of splats is part of the state.
#[derive(Clone, Debug, PartialEq)]
pub enum DensityRule {
    /// Adaptive density control (Kerbl et al. 2023, section 5).
    Classic(ClassicRule),
    /// Relocation and growth (Kheradmand et al. 2024).
    Mcmc(McmcRule),
    /// Lowers every opacity to at most `max_opacity` and zeroes the moments of the opacity logits.
    ResetOpacity {
        /// Highest opacity afterwards.
        max_opacity: f32,
    },
    /// Space that is known to be empty is cleared.
    FreeSpace(FreeSpaceRule),
}

/// A camera, real or not, with points that are known to be seen from there: the ways to them are free.
#[derive(Clone, Debug, PartialEq)]
pub struct FreeView {
    /// Intrinsics; the size decides how fine the test is.
    pub camera: Camera,
    /// `camera_from_world`.
    pub pose: Pose,
    /// World positions of the points.
    pub points: Vec<[f32; 3]>,
}

/// The way of the light from a point to a view, where the point lies in its picture.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FreeRay {
    /// Where the point falls, px.
    pub at: [f32; 2],
    /// The tile that this is in.
    pub tile: u32,
    /// From the camera centre to the point, world axes.
    pub way: [f64; 3],
}

impl FreeView {
    /// The ways of the light of its points, in their order; points behind the camera or beside the picture have none.
    pub fn rays(&self) -> impl Iterator<Item = FreeRay> {
        let (camera, centre) = (&self.camera, self.pose.centre());
        let columns = camera.tiles()[0];
        let (width, height) = (f64::from(camera.width), f64::from(camera.height));
        self.points.iter().filter_map(move |point| {
            let point = point.map(f64::from);
            let local = self.pose.apply(point);
            if camera.depth(local) <= 0.0 {
                return None;
            }
            let [u, v] = camera.project(local);
            if !(0.0..width).contains(&u) || !(0.0..height).contains(&v) {
                return None;
            }
            let tile = (v as u32 / TILE_SIZE) * columns + u as u32 / TILE_SIZE;
            let way = std::array::from_fn(|k| point[k] - centre[k]);
            Some(FreeRay { at: [u as f32, v as f32], tile, way })
        })
    }
}

/// A ball of empty space around a place where a camera was or passed by.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bubble {
    /// World position of the centre.
    pub centre: [f32; 3],
    /// Radius in scene units.
    pub radius: f32,
}

/// Makes splats transparent that hang close in front of cameras, where nothing can be.
///
/// *Bubbles*: a splat whose mean lies in one, at the distance `d` from its centre, is condemned unless one of `cameras`
/// sees it from closer than `near d`: what stands close to where cameras were must have been seen from close.
///
/// *Rays*:
///
/// from each view the light of each point is followed. Where a splat takes a share `w` (its blending weight) of that
/// light, and its density along the ray is largest within `reach` of the way, `w` speaks *against* it; elsewhere, up to
/// as far behind the point, it speaks *for* it. A splat against which enough points speak, and more than for it, gets an
/// opacity at which it is dead; MCMC moves it elsewhere.
#[derive(Clone, Debug, PartialEq)]
pub struct FreeSpaceRule {
    /// The views.
    pub views: Arc<[FreeView]>,
    /// Share of the way from a camera to a point that is free.
    pub reach: f32,
    /// Points that condemn a splat ...
    pub points: u32,
    /// ... if the weights against it are at least this together, and more than those for it.
    pub weight: f32,
    /// Space around cameras and between them.
    pub bubbles: Arc<[Bubble]>,
    /// The training cameras with their poses `camera_from_world`.
    pub cameras: Arc<[(Camera, Pose)]>,
    /// How much farther than the nearest bubble's centre a camera may be that confirms a splat.
    pub near: f32,
}

impl FreeSpaceRule {
    /// Logit of a splat that is cleared away: its opacity is 3e-4, below what any rule keeps.
    pub const CLEARED_LOGIT: f32 = -8.0;
}

/// Thresholds of adaptive density control.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClassicRule {
    /// Seed of the run.
    pub seed: u64,
    /// Step at which the rule is applied: the counter of its random numbers.
    pub step: u64,
    /// Splats whose mean statistic (NDC-scaled, see [`DensityStatistics`](super::DensityStatistics)) is greater grow.
    pub gradient_threshold: f32,
    /// Largest scale up to which a growing splat is cloned; above, it is split in two.
    pub clone_scale_limit: f32,
    /// Factor by which the scales of the two halves shrink.
    pub split_shrink: f32,
    /// Splats of lower opacity are removed.
    pub prune_opacity: f32,
    /// Splats with a larger scale (scene units) are removed.
    pub prune_scale: Option<f32>,
    /// Splats with a larger screen radius (px) since the last rule are removed.
    pub prune_screen: Option<f32>,
    /// No growth beyond this number; the largest statistics grow first.
    pub max_splats: u64,
    /// Sort the result along a Morton curve.
    pub reorder: bool,
}

/// Parameters of relocation and growth.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct McmcRule {
    /// Seed of the run.
    pub seed: u64,
    /// Step at which the rule is applied: the counter of its random numbers.
    pub step: u64,
    /// Splats of at most this opacity are dead and are moved to living ones.
    pub dead_opacity: f32,
    /// The set grows by this factor...
    pub growth: f32,
    /// ...up to this number.
    pub max_splats: u64,
    /// This share of the splats, those with the longest axes, are split along that axis instead of being copied when
    /// they are drawn once; 0 = none.
    pub split_largest: f32,
    /// Sort the result along a Morton curve.
    pub reorder: bool,
}
