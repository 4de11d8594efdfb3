//! The near plane of a scene, from the points that its training images see.
//!
//! What is much closer to a camera than all that its images show is something else: a surface beside or behind the
//! photographer that other images see, or a veil. A camera that stands between the training cameras may be inside it.
//!
//! ```text
//! near = min(0.2 median over the training images of the 1 % quantile of the depths, 0.5 least depth)
//! ```
//! The depths of an image are those of the points in whose tracks it is, so that it is known to see them. Training steps
//! draw from half of that distance ([`TRAINING_FRACTION`]), as splats close to a camera must be visible to be removed.
//! Measurements: research/experiments.md.

use gausset_core::constants::MIN_NEAR_PLANE;
use gausset_core::statistics::median;
use gausset_io::dataset::{Dataset, Tracks};

/// Near plane of training steps in units of that of trained splats.
pub const TRAINING_FRACTION: f64 = 0.5;
/// Near plane as a fraction of the depth of the nearest points.
const NEAR_FRACTION: f64 = 0.2;
/// One in so many points of an image is closer than its nearest points are said to be: some points are wrong.
const POINTS_PER_OUTLIER: usize = 100;
/// Maximum of the near plane, as a fraction of the least depth of all points.
const LEAST_FRACTION: f64 = 0.5;

/// The near plane of a dataset in its units: a depth for a pinhole, a distance for a panorama. `None` if the tracks
/// contain no point in front of a training image.
#[must_use]
pub fn from_points(dataset: &Dataset, tracks: &Tracks) -> Option<f64> {
    let (mut nearest, mut least) = (Vec::new(), f64::INFINITY);
    for &index in &dataset.split.train {
        let image = &dataset.images[index];
        let depth = |&point: &u32| {
            let position = dataset.points[point as usize].position;
            image.camera.depth(image.pose.apply(position))
        };
        let depths = tracks.points_of(index).iter().map(depth);
        let mut depths: Vec<f64> = depths.filter(|depth| *depth > 0.0 && depth.is_finite()).collect();
        depths.sort_by(f64::total_cmp);
        if let Some(first) = depths.first() {
            least = least.min(*first);
            nearest.push(depths[(depths.len() - 1) / POINTS_PER_OUTLIER]);
        }
    }
    let plane = (NEAR_FRACTION * median(nearest)?).min(LEAST_FRACTION * least);
    // Devices compute in f32.
    Some(plane.max(MIN_NEAR_PLANE)).filter(|plane| (*plane as f32).is_finite())
}
