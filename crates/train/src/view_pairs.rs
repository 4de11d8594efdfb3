//! Novel views between neighbouring training cameras, with the points that must be visible from there.
//!
//! Held-out cameras and viewers are usually between the training cameras. A point of the reconstruction that two
//! neighbours see is also visible between them: the rays from the point to each of them pass through empty space, and
//! so, almost always, do the rays to positions in between.

use std::sync::atomic::{AtomicBool, Ordering};

use gausset_core::{Camera, Pose, se3};
use gausset_io::dataset::{Dataset, Tracks};

/// Maximum number of neighbours of a camera.
const MAX_NEIGHBOURS: usize = 4;
/// Minimum number of common points of two neighbours.
const MIN_COMMON_POINTS: usize = 15;
/// Cosine of the largest angle between the optical axes of neighbours.
const MIN_COSINE: f64 = 0.5;

/// Maximum number of points that are used; of more points, every n-th is used.
const MAX_POINTS: usize = 100_000;
/// Maximum number of pairs of an image and a point that it sees, of a dataset without tracks: there, an image sees half
/// of the scene.
const MAX_SEEN: usize = 4_000_000;

/// A pair of neighbouring training images.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViewPair {
    /// Indices of the images in the dataset.
    pub images: [usize; 2],
    /// Points that both images see: ascending indices into [`Dataset::points`].
    pub common_points: Vec<u32>,
}

/// Every n-th point of a dataset is used, which limits memory and time; this is n.
#[must_use]
pub fn point_stride(dataset: &Dataset) -> usize {
    dataset.points.len().div_ceil(MAX_POINTS).max(1)
}

/// Bytes that the common points of pairs take at most in a dataset without tracks. With tracks, they are few.
#[must_use]
pub fn max_pair_bytes(dataset: &Dataset) -> u64 {
    if dataset.points.iter().any(|point| point.track_length > 0) {
        return 0;
    }
    let seen = dataset.split.train.len() * dataset.points.len().div_ceil(point_stride(dataset));
    (MAX_NEIGHBOURS * size_of::<u32>() * seen.min(MAX_SEEN)) as u64
}

/// Pairs of neighbouring training images: each image with those that share most points with it. Incomplete once `stop`
/// is set.
#[must_use]
pub fn neighbour_pairs(dataset: &Dataset, visible: &Tracks, stop: &AtomicBool) -> Vec<ViewPair> {
    let train = &dataset.split.train;
    let stride = point_stride(dataset);
    let mut sees: Vec<Vec<u32>> = vec![Vec::new(); dataset.points.len().div_ceil(stride)];
    for (place, &index) in (0u32..).zip(train) {
        for &point in visible.points_of(index) {
            sees[point as usize / stride].push(place);
        }
    }
    let axis = |index: usize| dataset.images[index].pose.rotation[2];
    let mut pairs = std::collections::BTreeSet::new();
    let mut common = vec![0usize; train.len()];
    let in_time = |_: &(usize, &usize)| !stop.load(Ordering::Relaxed);
    for (place, &index) in train.iter().enumerate().take_while(in_time) {
        common.fill(0);
        for &point in visible.points_of(index) {
            for &other in &sees[point as usize / stride] {
                common[other as usize] += 1;
            }
        }
        let mut others: Vec<usize> = (0..train.len())
            .filter(|&other| other != place && common[other] >= MIN_COMMON_POINTS)
            .filter(|&other| se3::dot(axis(index), axis(train[other])) >= MIN_COSINE)
            .collect();
        others.sort_by_key(|&other| (std::cmp::Reverse(common[other]), other));
        pairs.extend(others.iter().take(MAX_NEIGHBOURS).map(|&other| [place.min(other), place.max(other)]));
    }
    let both = |[a, b]: [usize; 2]| {
        let images = [train[a], train[b]];
        let other = visible.points_of(images[1]);
        let common = visible.points_of(images[0]).iter().filter(|point| other.binary_search(point).is_ok());
        ViewPair { images, common_points: common.copied().collect() }
    };
    pairs.into_iter().map(both).collect()
}

/// Visible points per training image, among those used ([`point_stride`]): from the tracks, or without tracks the
/// points in front of each camera that are not occluded by a nearer point. Of these, a large set uses every second, fourth,
/// … point in each image, as few as `MAX_SEEN` allows. Incomplete once `stop` is set.
#[must_use]
pub fn visible_points(dataset: &Dataset, tracks: Tracks, stop: &AtomicBool) -> Tracks {
    let stride = point_stride(dataset);
    if !tracks.is_empty() {
        let looked_at = |point: &&u32| (**point as usize).is_multiple_of(stride);
        let of =
            |index: usize| tracks.points_of(index).iter().filter(looked_at).map(move |&p| (index as u32, p));
        let pairs = dataset.split.train.iter().flat_map(|&index| of(index)).collect();
        return Tracks::from_pairs(dataset.images.len(), pairs);
    }
    /// Grid cells along the longer side of an image.
    const GRID_CELLS: f64 = 48.0;
    /// A point is occluded if it is farther than the nearest point around it by this factor.
    const OCCLUSION_FACTOR: f64 = 1.2;
    let train = &dataset.split.train;
    let most = MAX_SEEN / train.len().max(1);
    let mut pairs = Vec::new();
    for &index in train.iter().take_while(|_| !stop.load(Ordering::Relaxed)) {
        let image = &dataset.images[index];
        let Camera { width, height, .. } = image.camera;
        let side = f64::from(width.max(height)) / GRID_CELLS;
        let columns = (f64::from(width) / side) as usize + 3;
        let rows = (f64::from(height) / side) as usize + 3;
        let mut nearest = vec![f64::INFINITY; columns * rows];
        let mut seen = Vec::new();
        for (point, position) in dataset.points.iter().enumerate().step_by(stride) {
            let Some(([u, v], z)) = project(&image.camera, &image.pose, position.position) else { continue };
            let cell = ((v / side) as usize + 1) * columns + (u / side) as usize + 1;
            seen.push((point as u32, cell, z));
            for around in [cell - columns, cell, cell + columns] {
                for value in &mut nearest[around - 1..=around + 1] {
                    *value = value.min(z);
                }
            }
        }
        seen.retain(|&(_, cell, z)| z <= OCCLUSION_FACTOR * nearest[cell]);
        let mut every = stride;
        while seen.len() > most {
            // The same points in each image, so that images still share them.
            every *= 2;
            seen.retain(|&(point, ..)| (point as usize).is_multiple_of(every));
        }
        pairs.extend(seen.into_iter().map(|(point, ..)| (index as u32, point)));
    }
    Tracks::from_pairs(dataset.images.len(), pairs)
}

/// Pixel position and depth of a point; `None` if the camera does not see it.
fn project(camera: &Camera, pose: &Pose, point: [f64; 3]) -> Option<([f64; 2], f64)> {
    let local = pose.apply(point);
    let depth = camera.depth(local);
    if depth <= 0.0 {
        return None;
    }
    let [u, v] = camera.project(local);
    let inside = (0.0..f64::from(camera.width)).contains(&u) && (0.0..f64::from(camera.height)).contains(&v);
    inside.then_some(([u, v], depth))
}

/// Interpolates two poses at the fraction `share` from `a` to `b`: the centre on the line between theirs, moved by
/// `aside`, and the interpolated rotation.
///
/// ```
/// use gausset_core::Pose;
/// use gausset_train::view_pairs::interpolate_pose;
///
/// let right = Pose { translation: [-1.0, 0.0, 0.0], ..Pose::IDENTITY };
/// let between = interpolate_pose(&Pose::IDENTITY, &right, 0.5, [0.0; 3]);
/// assert_eq!(between.centre(), [0.5, 0.0, 0.0]);
/// ```
#[must_use]
pub fn interpolate_pose(a: &Pose, b: &Pose, share: f64, aside: [f64; 3]) -> Pose {
    let (qa, qb) = (a.quaternion(), b.quaternion());
    let sign = if qa.iter().zip(qb).map(|(x, y)| x * y).sum::<f64>() < 0.0 { -1.0 } else { 1.0 };
    let mixed = std::array::from_fn(|k| (1.0 - share) * qa[k] + share * sign * qb[k]);
    let rotation = se3::rotation_from_quaternion(mixed);
    let (ca, cb) = (a.centre(), b.centre());
    let centre: [f64; 3] = std::array::from_fn(|k| (1.0 - share) * ca[k] + share * cb[k] + aside[k]);
    let moved = se3::mul_vec(&rotation, centre);
    Pose { rotation, translation: moved.map(|v| -v) }
}
