//! Density control: the rules that change the set of splats, as data.

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
    /// Makes splats transparent in space that is known to be empty.
    FreeSpace(FreeSpaceRule),
}

/// A camera, real or virtual, with points that are visible from it: the segments between camera and points are empty.
#[derive(Clone, Debug, PartialEq)]
pub struct FreeSpaceView {
    /// Intrinsics; the image size determines the resolution of the test.
    pub camera: Camera,
    /// `camera_from_world` of the real or virtual camera.
    pub pose: Pose,
    /// World positions of the points.
    pub points: Vec<[f32; 3]>,
}

/// The segment from a camera to one of its points, for a point inside the image.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FreeSpaceRay {
    /// Projection of the point, px.
    pub pixel: [f32; 2],
    /// Index of the tile that contains the projection.
    pub tile: u32,
    /// Vector from the camera centre to the point, world axes.
    pub camera_to_point: [f64; 3],
}

impl FreeSpaceView {
    /// The rays to the points, in the order of the points. Points behind the camera or outside the image have none.
    pub fn rays(&self) -> impl Iterator<Item = FreeSpaceRay> {
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
            Some(FreeSpaceRay { pixel: [u as f32, v as f32], tile, camera_to_point: way })
        })
    }
}

/// A ball of empty space around a position of a camera, or between two of them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bubble {
    /// World position of the centre.
    pub centre: [f32; 3],
    /// Radius in scene units.
    pub radius: f32,
}

/// Makes splats transparent that float close in front of cameras, where the space is known to be empty.
///
/// *Bubbles*: a splat whose mean is inside a bubble, at the distance `d` from its centre, is removed unless one of
/// `cameras` sees it from closer than `near_factor d`: an object that is really so close to the camera path must have been
/// seen from close by.
///
/// *Rays*: for each view, the ray to each point is followed. If a splat contributes the blending weight `w` to that
/// ray, and its density along the ray peaks at less than the fraction `free_fraction` of the distance, `w` counts *against* it.
/// Between `free_fraction` and `2 - free_fraction`, close to the point, `w` counts *for* it. A splat with enough points against it, and a
/// larger weight against than for it, gets an opacity at which it counts as dead; MCMC relocates it.
#[derive(Clone, Debug, PartialEq)]
pub struct FreeSpaceRule {
    /// The views whose rays are tested.
    pub views: Arc<[FreeSpaceView]>,
    /// Fraction of the distance from a camera to a point that is empty.
    pub free_fraction: f32,
    /// Smallest number of points against a splat that removes it.
    pub min_points: u32,
    /// Smallest sum of weights against a splat that removes it; the sum must also exceed that for it.
    pub min_weight: f32,
    /// Empty balls around and between cameras.
    pub bubbles: Arc<[Bubble]>,
    /// The training cameras with their poses `camera_from_world`.
    pub cameras: Arc<[(Camera, Pose)]>,
    /// A camera confirms a splat if its distance is at most this multiple of the distance from the nearest bubble
    /// centre.
    pub near_factor: f32,
}

impl FreeSpaceRule {
    /// Opacity logit of a removed splat: an opacity of 3e-4, below what any rule keeps.
    pub const REMOVED_LOGIT: f32 = -8.0;
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
    /// Factor by which the set grows in one application of the rule.
    pub growth: f32,
    /// Upper bound of the number of splats.
    pub max_splats: u64,
    /// The splats with the longest axes, this fraction of all, are split along that axis instead of being copied when
    /// they are drawn once; 0 = none.
    pub split_largest: f32,
    /// Sort the result along a Morton curve.
    pub reorder: bool,
}
