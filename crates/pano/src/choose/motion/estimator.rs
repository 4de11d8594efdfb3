//! Frame by frame measurement of a video: image statistics and camera motion.

use gausset_core::se3::{self, IDENTITY3, Mat3};

use super::corner::{TrackableCorner, detect_corners};
use super::image::{GreyImage, ImagePyramid};
use super::projection::SmallProjection;
use super::rotation::{DirectionPair, MIN_PAIRS, estimate_rotation};
use super::statistics::{BANDS, ImageStatistics, StatisticsMeter, change};

/// Parallax at which a frame becomes the next reference, degrees.
pub const REFERENCE_PARALLAX: f64 = 2.0;
/// Fraction of the reference's corners below which a new reference is taken.
const MIN_TRACKED: f64 = 0.5;
/// Fraction of the inliers of the previous frame that must be inliers again. After a sudden loss of most corners, the
/// remaining ones are those that moved little, so their parallax underestimates the motion.
const MIN_INLIERS_KEPT: f64 = 0.4;
/// Frames without an estimate after which a new reference is taken, and misses after which a corner is dropped.
const MAX_MISSED: usize = 4;
/// Frames before and after a frame whose sharpness it is compared with.
const SHARPNESS_WINDOW: usize = 7;
/// Change in grey levels below which a frame duplicates the previous one: of the mean, and of the tile that changes
/// most.
const DUPLICATE_CHANGE: [f64; 2] = [0.4, 2.0];

/// Measurements of a frame.
#[derive(Clone, Debug, PartialEq)]
pub struct FrameMotion {
    /// Sharpness: gradients relative to the median of nearby frames; 1 = as sharp as they are.
    pub sharpness: f64,
    /// Stops above middle grey.
    pub exposure: f64,
    /// Whether it duplicates the previous frame.
    pub is_duplicate: bool,
    /// Rotation since the previous frame, axis times degrees, in image axes; `None` = unknown.
    pub rotation: Option<[f64; 3]>,
    /// Parallax: angular displacement of the corners since the reference after removing the rotation, degrees: the
    /// median on the sphere, a high quantile in an ordinary image; `None` = unknown.
    pub parallax: Option<f64>,
    /// Direction of the camera's motion since the reference, a unit vector in the axes of this image; `None` = unknown.
    pub direction: Option<[f64; 3]>,
    /// Number of the reference frame, from 0 at the first measured frame.
    pub reference: usize,
    /// Accumulated parallax from the first frame on, reference by reference, degrees.
    pub path: f64,
    /// Number of tracked corners of the reference.
    pub tracks: usize,
}

/// A corner of the reference with its last known direction.
struct TrackedCorner {
    corner: TrackableCorner,
    direction: [f64; 3],
    last_direction: [f64; 3],
    missed: usize,
}

/// An earlier frame with which later frames are compared.
struct ReferenceFrame {
    number: usize,
    /// Accumulated parallax at this frame, degrees.
    path: f64,
    followed: Vec<TrackedCorner>,
    /// Rotation from the axes of the reference to those of the last frame.
    rotation: Mat3,
    /// Inliers in the last frame whose motion is known.
    inliers: f64,
}

/// Measures the frames of a video one after the other.
pub struct MotionEstimator {
    optics: SmallProjection,
    meter: StatisticsMeter,
    pyramid: ImagePyramid,
    reference: Option<ReferenceFrame>,
    /// Rotation between the last two frames; predicts the next one.
    last_rotation: Mat3,
    lost_frames: usize,
    frames: Vec<FrameMotion>,
    gradients: Vec<[f64; BANDS]>,
}

impl MotionEstimator {
    /// A scout without frames.
    #[must_use]
    pub fn new(optics: SmallProjection) -> Self {
        Self {
            optics,
            meter: StatisticsMeter::new(),
            pyramid: ImagePyramid::default(),
            reference: None,
            last_rotation: IDENTITY3,
            lost_frames: 0,
            frames: Vec::new(),
            gradients: Vec::new(),
        }
    }

    /// Measures the next frame. Takes its pixels and leaves an earlier image in `picture`, so that memory is reused.
    pub fn add_frame(&mut self, picture: &mut GreyImage) {
        let number = self.frames.len();
        let ImageStatistics { gradients, exposure } = self.meter.measure(picture, &self.optics);
        let [mean, most] = self.pyramid.levels.first().map_or([255.0; 2], |last| change(last, picture));
        let is_duplicate = mean < DUPLICATE_CHANGE[0] && most < DUPLICATE_CHANGE[1];
        self.pyramid.rebuild(picture);
        self.gradients.push(gradients);
        let path = self.frames.last().map_or(0.0, |last| last.path);
        let mut sight = FrameMotion {
            sharpness: 1.0,
            exposure,
            is_duplicate,
            rotation: None,
            parallax: None,
            direction: None,
            reference: self.reference.as_ref().map_or(number, |reference| reference.number),
            path,
            tracks: 0,
        };
        let moved = self.track(number, &mut sight);
        match moved {
            Some(share) => {
                self.lost_frames = 0;
                let is_far = sight.parallax.is_some_and(|parallax| parallax > REFERENCE_PARALLAX);
                if is_far || share < MIN_TRACKED {
                    self.set_reference(number, sight.path);
                }
            }
            None => {
                self.lost_frames += 1;
                self.last_rotation = IDENTITY3;
                if self.reference.is_none() || self.lost_frames >= MAX_MISSED {
                    self.set_reference(number, sight.path);
                }
            }
        }
        self.frames.push(sight);
    }

    /// Returns the measurements of all frames, with sharpness relative to nearby frames.
    #[must_use]
    pub fn finish(mut self) -> Vec<FrameMotion> {
        let sharpness = relative_sharpness(&self.gradients);
        for (sight, sharpness) in self.frames.iter_mut().zip(sharpness) {
            sight.sharpness = sharpness;
        }
        self.frames
    }

    /// Tracks the corners of the reference and estimates the motion. Returns the fraction of corners found, or `None`
    /// if the motion is unknown.
    fn track(&mut self, number: usize, sight: &mut FrameMotion) -> Option<f64> {
        let reference = self.reference.as_mut()?;
        let (optics, pyramid, pace) = (&self.optics, &self.pyramid, &self.last_rotation);
        let mut pairs: Vec<DirectionPair> = Vec::with_capacity(reference.followed.len());
        let mut found: Vec<usize> = Vec::with_capacity(reference.followed.len());
        for (index, followed) in reference.followed.iter_mut().enumerate() {
            // Predict each corner with the last rotation of the camera.
            let expected = se3::mul_vec(pace, followed.last_direction);
            let place = optics
                .point(expected)
                .and_then(|about| followed.corner.track(pyramid, about, optics.wraps()));
            match place {
                Some(place) => {
                    followed.last_direction = optics.direction(place);
                    followed.missed = 0;
                    pairs.push((followed.direction, followed.last_direction));
                    found.push(index);
                }
                None => {
                    followed.last_direction = expected;
                    followed.missed += 1;
                }
            }
        }
        let count = reference.followed.len();
        let expected = se3::mul(pace, &reference.rotation);
        let turn = estimate_rotation(&pairs, &expected, number as u64, optics.wraps())
            .filter(|turn| turn.inlier_fraction > 0.4);
        let agreed = turn.as_ref().map_or(0.0, |turn| turn.inlier_fraction * pairs.len() as f64);
        let turn = turn.filter(|_| agreed >= MIN_INLIERS_KEPT * reference.inliers);
        let Some(turn) = turn else {
            reference.rotation = expected;
            return None;
        };
        // Outliers restart at the position that the rotation predicts.
        for (&index, (direction, seen)) in found.iter().zip(&pairs) {
            let turned = se3::mul_vec(&turn.rotation, *direction);
            let apart: f64 = (0..3).map(|k| (turned[k] - seen[k]) * (turned[k] - seen[k])).sum();
            if apart > 0.15 * 0.15 {
                reference.followed[index].last_direction = turned;
                reference.followed[index].missed += 1;
            }
        }
        reference.followed.retain(|followed| followed.missed < MAX_MISSED);
        let since = se3::mul(&turn.rotation, &se3::transpose(&reference.rotation));
        let is_next = self.lost_frames == 0;
        (reference.rotation, reference.inliers) = (turn.rotation, agreed);
        let parallax = turn.parallax.to_degrees();
        sight.rotation = is_next.then(|| axis_angle(&since).map(f64::to_degrees));
        sight.parallax = Some(parallax);
        sight.direction = turn.direction;
        sight.path = reference.path + parallax;
        sight.tracks = pairs.len();
        self.last_rotation = if is_next { since } else { IDENTITY3 };
        Some(pairs.len() as f64 / count.max(1) as f64)
    }

    /// Makes this frame the reference.
    fn set_reference(&mut self, number: usize, path: f64) {
        let corners = detect_corners(&self.pyramid, &self.optics);
        let followed: Vec<TrackedCorner> = corners
            .into_iter()
            .map(|corner| {
                let direction = self.optics.direction(corner.point);
                TrackedCorner { corner, direction, last_direction: direction, missed: 0 }
            })
            .collect();
        self.lost_frames = 0;
        let is_there = followed.len() >= MIN_PAIRS;
        let agreed = followed.len() as f64;
        self.reference = is_there.then_some(ReferenceFrame {
            number,
            path,
            followed,
            rotation: IDENTITY3,
            inliers: agreed,
        });
    }
}

/// Rotation vector (axis times angle), radians.
fn axis_angle(r: &Mat3) -> [f64; 3] {
    let [w, x, y, z] = se3::quaternion_from_rotation(r);
    let sine = libm::sqrt(x * x + y * y + z * z);
    let angle = 2.0 * libm::atan2(sine, w.abs());
    let scale = if sine > 1e-12 { w.signum() * angle / sine } else { 2.0 };
    [x, y, z].map(|v| v * scale)
}

/// Sharpness of frames relative to nearby frames: per band, gradients over the median of nearby frames; then the mean
/// of the bands, weighted by that median.
fn relative_sharpness(gradients: &[[f64; BANDS]]) -> Vec<f64> {
    let mut around = Vec::with_capacity(2 * SHARPNESS_WINDOW + 1);
    (0..gradients.len())
        .map(|k| {
            let range = k.saturating_sub(SHARPNESS_WINDOW)..(k + SHARPNESS_WINDOW + 1).min(gradients.len());
            let (mut sum, mut weights) = (0.0, 0.0);
            for band in 0..BANDS {
                around.clear();
                around.extend(gradients[range.clone()].iter().map(|g| g[band]));
                around.sort_by(f64::total_cmp);
                let median = around[around.len() / 2];
                if median > 0.0 {
                    let weight = libm::sqrt(median);
                    sum += weight * libm::sqrt(gradients[k][band] / median);
                    weights += weight;
                }
            }
            if weights > 0.0 { sum / weights } else { 1.0 }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_white_wall_is_not_blurred_and_a_blurred_frame_is() {
        let mut gradients = vec![[4e-3; BANDS]; 40];
        // From frame 20 on a blank wall fills the image.
        for g in &mut gradients[20..] {
            *g = [4e-6; BANDS];
        }
        gradients[10] = [1e-3; BANDS];
        let sharpness = relative_sharpness(&gradients);
        assert!((sharpness[10] - 0.5).abs() < 1e-12);
        assert!((sharpness[30] - 1.0).abs() < 1e-12 && (sharpness[5] - 1.0).abs() < 1e-12);
    }

    /// Random grey blocks of 6 px: above this fraction of the height from seed 1, below from `seed`.
    fn blocks(seed: u64, share: f64) -> GreyImage {
        let (width, height) = (480, 240);
        let value = |at: usize| {
            let (x, y) = (at % width / 6, at / width / 6);
            let seed = if (at / width) as f64 <= share * height as f64 { 1 } else { seed };
            let mut v = ((seed << 32) | (x * 1000 + y) as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            v = (v ^ (v >> 31)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            (v >> 56) as u8
        };
        GreyImage { width, height, data: (0..width * height).map(value).collect() }
    }

    #[test]
    fn a_jump_that_leaves_the_sky_as_it_was_is_no_small_step() {
        let mut scout = MotionEstimator::new(SmallProjection::sphere(480, 240));
        for (seed, share) in [(1, 1.0), (1, 1.0), (2, 0.35), (2, 0.35)] {
            scout.add_frame(&mut blocks(seed, share));
        }
        let sights = scout.finish();
        // An identical frame moves only by rounding.
        assert!(sights[1].parallax.is_some_and(|p| p < 1e-6) && sights[1].tracks > 100, "{sights:?}");
        // Some corners are tracked and do not move.
        assert_eq!((sights[2].parallax, sights[3].parallax), (None, None), "{sights:?}");
    }

    #[test]
    fn an_axis_and_an_angle_come_back() {
        for phi in [[0.3, -0.2, 0.1], [0.0, 1e-9, 0.0], [0.0; 3], [0.0, -3.0, 0.5]] {
            let back = axis_angle(&se3::so3_exp(phi));
            assert!((0..3).all(|k| (back[k] - phi[k]).abs() < 1e-9), "{phi:?} {back:?}");
        }
    }
}
