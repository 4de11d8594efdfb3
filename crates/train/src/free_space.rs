//! Free-space regularisation: views between neighbouring training cameras, from which the points that both see must be
//! visible.
//!
//! Regions that few or no training views observe are unconstrained, and a splat close to a camera covers its whole
//! image. So before each change of the set of splats, some novel views are tested for splats close in front of them
//! ([`FreeSpaceRule`]). Views and points are a function of the dataset, the seed and the step alone.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use gausset_compute::rng::{self, uniform_f64};
use gausset_core::engine::{Bubble, FreeSpaceRule, FreeSpaceView};
use gausset_core::nearest::{Neighbour, PointTree};
use gausset_core::{Camera, Pose, se3};
use gausset_io::dataset::{Dataset, Point, Tracks};

use crate::view_pairs::{ViewPair, interpolate_pose, neighbour_pairs, point_stride, visible_points};

/// Number of views before each change.
const VIEWS: u32 = 24;
/// Approximate longest side of a view in px; veils are large, so a small image suffices.
const VIEW_SIDE: u32 = 256;
/// Maximum number of points per view.
const MAX_VIEW_POINTS: usize = 256;
/// Maximum lateral offset of a view from the line between its neighbours, as a fraction of their distance.
const MAX_LATERAL_OFFSET: f64 = 0.2;
/// Space within this fraction of the distance to a visible point must be empty. Farther away, needles and smears in
/// front of distant walls are all that few images show of them, and clearing them costs more than it gains
/// (research/experiments.md).
const REACH: f32 = 0.3;
/// Minimum number of points that a splat must occlude to count as a veil, which covers a large part of an image.
const MIN_VEIL_POINTS: u32 = 10;
/// Minimum light that it takes from them in total, in points.
const MIN_VEIL_WEIGHT: f32 = 2.0;

/// Radius of a bubble, as a fraction of the distance to the nearest points.
const BUBBLE_FRACTION: f64 = 0.7;
/// The distance to the third nearest point counts, as nearer ones may be wrong.
const NEAREST_POINTS: usize = 3;
/// Only points that at least this many images see count as nearest points.
const MIN_TRACK_LENGTH: u32 = 3;
/// Maximum number of bubbles between two neighbours.
const MAX_BUBBLES_PER_PAIR: usize = 8;
/// A splat in a bubble is kept if a camera sees it from less than this times its distance to the bubble's centre.
const CLOSE_VIEW_FACTOR: f32 = 5.0;

/// Bubbles around the training cameras and on the lines between neighbours, from the reliable points of a dataset.
fn dataset_bubbles(dataset: &Dataset, pairs: &[ViewPair]) -> Arc<[Bubble]> {
    let well_seen = |point: &&Point| point.track_length == 0 || point.track_length >= MIN_TRACK_LENGTH;
    let looked_at = dataset.points.iter().step_by(point_stride(dataset));
    let points: Vec<[f64; 3]> = looked_at.filter(well_seen).map(|p| p.position).collect();
    let centre = |index: usize| dataset.images[index].pose.centre();
    let cameras: Vec<[f64; 3]> = dataset.split.train.iter().map(|&index| centre(index)).collect();
    let pairs: Vec<[[f64; 3]; 2]> = pairs.iter().map(|pair| pair.images.map(centre)).collect();
    bubbles(&cameras, &pairs, &points).into()
}

/// Bubbles around positions of cameras and on the lines between pairs of them. The radius is a fraction of the distance
/// to the nearest points, in whatever direction they are.
#[must_use]
pub fn bubbles(cameras: &[[f64; 3]], pairs: &[[[f64; 3]; 2]], points: &[[f64; 3]]) -> Vec<Bubble> {
    let points = PointTree::new(points.iter().copied());
    let radius = |centre: [f64; 3]| BUBBLE_FRACTION * reliable_distance(&points, centre);
    let bubble =
        |centre: [f64; 3]| Bubble { centre: centre.map(|v| v as f32), radius: radius(centre) as f32 };
    let mut bubbles: Vec<Bubble> = cameras.iter().map(|&centre| bubble(centre)).collect();
    for &[a, b] in pairs {
        let length = se3::distance(a, b);
        let step = 0.5 * radius(a).min(radius(b)).max(1e-9);
        let count = ((length / step) as usize).min(MAX_BUBBLES_PER_PAIR);
        for i in 1..=count {
            let t = i as f64 / (count + 1) as f64;
            bubbles.push(bubble(std::array::from_fn(|k| (1.0 - t) * a[k] + t * b[k])));
        }
    }
    bubbles.retain(|bubble| bubble.radius.is_finite());
    bubbles
}

/// Distance from a position to the last of the nearest points that count; infinity if there are not so many.
fn reliable_distance(points: &PointTree<f64>, centre: [f64; 3]) -> f64 {
    let mut nearest = [f64::INFINITY; NEAREST_POINTS];
    points.search(centre, Neighbour::at(f64::INFINITY), |found| {
        nearest[NEAREST_POINTS - 1] = found.squared;
        nearest.sort_by(f64::total_cmp);
        Neighbour::at(nearest[NEAREST_POINTS - 1])
    });
    nearest[NEAREST_POINTS - 1].sqrt()
}

/// Possible views between cameras, and the points visible from them.
#[derive(Clone, Debug)]
pub struct FreeSpaceViews {
    pairs: Vec<ViewPair>,
    /// Camera, reduced, and pose of each image of the dataset.
    cameras: Vec<(Camera, Pose)>,
    /// Positions of every n-th point.
    points: Vec<[f32; 3]>,
    stride: usize,
    bubbles: Arc<[Bubble]>,
    training_cameras: Arc<[(Camera, Pose)]>,
}

impl FreeSpaceViews {
    /// Derives the free space from the points of a dataset; `None` if there are no neighbouring images. Incomplete once
    /// `stop` is set.
    #[must_use]
    pub fn new(dataset: &Dataset, tracks: Tracks, stop: &AtomicBool) -> Option<Self> {
        let visible = visible_points(dataset, tracks, stop);
        let pairs = neighbour_pairs(dataset, &visible, stop);
        let cameras = dataset.images.iter().map(|image| {
            let camera = &image.camera;
            let factor = camera.width.max(camera.height).div_ceil(VIEW_SIDE).next_power_of_two();
            // A strip may be lower than the factor.
            (camera.downscaled(factor.min(camera.width.min(camera.height)).max(1)), image.pose)
        });
        let stride = point_stride(dataset);
        let points = dataset.points.iter().step_by(stride).map(|point| point.position.map(|v| v as f32));
        let points = points.collect();
        let bubbles = dataset_bubbles(dataset, &pairs);
        let training = dataset.split.train.iter().map(|&index| &dataset.images[index]);
        let training_cameras = training.map(|image| (image.camera, image.pose)).collect();
        (!pairs.is_empty()).then(|| Self {
            pairs,
            cameras: cameras.collect(),
            points,
            stride,
            bubbles,
            training_cameras,
        })
    }

    /// The rule after `step` steps of a run.
    #[must_use]
    pub fn rule(&self, seed: u64, step: u64) -> FreeSpaceRule {
        FreeSpaceRule {
            views: (0..VIEWS).map(|index| self.view(seed, step, index)).collect(),
            free_fraction: REACH,
            min_points: MIN_VEIL_POINTS,
            min_weight: MIN_VEIL_WEIGHT,
            bubbles: Arc::clone(&self.bubbles),
            cameras: Arc::clone(&self.training_cameras),
            near_factor: CLOSE_VIEW_FACTOR,
        }
    }

    /// A random view between a random pair of neighbours.
    fn view(&self, seed: u64, step: u64, index: u32) -> FreeSpaceView {
        let draw = |k: u32| {
            let [a, b, c, d] = rng::philox(seed, rng::stream::FREE_SPACE, step, 4 * index + k);
            [uniform_f64(a, b), uniform_f64(c, d)]
        };
        let ([which, share], [x, y], [z, offset]) = (draw(0), draw(1), draw(2));
        let pair = &self.pairs[((which * self.pairs.len() as f64) as usize).min(self.pairs.len() - 1)];
        let [(camera, a), (_, b)] = pair.images.map(|image| self.cameras[image]);
        let distance = se3::distance(a.centre(), b.centre());
        let aside = [x, y, z].map(|v| (2.0 * v - 1.0) * MAX_LATERAL_OFFSET * distance);
        let stride = pair.common_points.len().div_ceil(MAX_VIEW_POINTS);
        let first = (offset * stride as f64) as usize;
        let chosen = pair.common_points.iter().skip(first).step_by(stride);
        FreeSpaceView {
            camera,
            pose: interpolate_pose(&a, &b, share, aside),
            points: chosen.map(|&point| self.points[point as usize / self.stride]).collect(),
        }
    }
}
