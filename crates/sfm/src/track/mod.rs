//! Registers a GPS track to a camera trajectory: the offset between their clocks, and the similarity.
//!
//! ```text
//! position  of the receiver at a time: a line by weighted least squares through the fixes around it (Epanechnikov
//!           kernel), linear interpolation where they are sparse
//! fit       metres ≈ s R centre + t, iteratively reweighted with Cauchy weights (the first rounds use L1 weights);
//!           known viewing directions of the camera are directions in the same sum (Wahba 1965, solved by Horn 1987)
//! offset    of all offsets at which enough frames have a position, the one with the smallest residual relative to the
//!           spread; refined by golden section; its standard deviation is estimated from the curvature there
//! ```

mod interpolation;
mod offset;
pub(crate) mod solve;

use gausset_core::Pose;
use serde::Serialize;

use crate::compare::Similarity;
use crate::gps;
pub use interpolation::{GpsFix, Track};
pub use offset::find_offset;
use solve::{ROUNDS, correspondences, fit_robust, root_mean_square, spread};

/// Fewest frames with a position.
pub const MIN_FRAMES: usize = 3;

/// A frame with its time on the camera's clock and its pose, `camera_from_world`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TimedPose {
    /// Time on the camera's clock, seconds.
    pub time: f64,
    /// Its pose, `camera_from_world`, units of the model.
    pub pose: Pose,
}

/// Offset between the clocks of the camera and the track.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClockOffset {
    /// Added to the time of a frame to get that of the track, seconds.
    pub seconds: f64,
    /// Standard deviation, seconds.
    pub deviation: f64,
}

/// Fit of a track to the frames.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TrackFit {
    /// Added to the time of a frame to get that of the track, seconds.
    pub offset_s: f64,
    /// Standard deviation of the offset if it was estimated, seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offset_deviation_s: Option<f64>,
    /// Frames that have a position.
    pub frames: usize,
    /// Metres per unit of the frames' world.
    pub scale: f64,
    /// Weighted root mean square distance of the frames from their positions, metres; distant ones weigh less.
    pub residual: f64,
    /// Root mean square distance of the positions from their mean, metres.
    pub spread: f64,
    /// Frames with a known heading or tilt of the camera.
    pub looks: usize,
    /// From the frames' world to metres east, north and up.
    #[serde(skip)]
    pub similarity: Similarity,
}

impl TrackFit {
    /// Whether the scale is significant against the noise.
    #[must_use]
    pub fn is_significant(&self) -> bool {
        let fit = gps::GpsFit {
            scale: self.scale,
            residual: self.residual,
            spread: self.spread,
            count: self.frames,
        };
        fit.is_significant()
    }
}

/// Fits the similarity at an offset; `None` if fewer than [`MIN_FRAMES`] frames have a position, or all have the same.
#[must_use]
pub fn fit_track(
    frames: &[TimedPose],
    way: &Track<'_>,
    offset: ClockOffset,
    is_found: bool,
) -> Option<TrackFit> {
    let paired = correspondences(frames, way, offset.seconds, true);
    let (solution, weights) = fit_robust(&paired, ROUNDS)?;
    Some(TrackFit {
        offset_s: offset.seconds,
        offset_deviation_s: is_found.then_some(offset.deviation),
        frames: paired.centres.len(),
        scale: solution.similarity.scale,
        residual: root_mean_square(&solution.residuals, &weights),
        spread: spread(&paired.positions, &weights),
        looks: paired.frames_with_direction,
        similarity: solution.similarity,
    })
}

#[cfg(test)]
mod tests {
    use gausset_core::se3;

    use super::solve::{Directions, directions_of};
    use super::*;

    /// Normally distributed numbers: Box-Muller over a linear congruential generator.
    struct Noise(u64);

    impl Noise {
        fn uniform(&mut self) -> f64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            ((self.0 >> 11) as f64 + 0.5) / (1u64 << 53) as f64
        }

        fn normal(&mut self) -> f64 {
            let (u, v) = (self.uniform(), self.uniform());
            (-2.0 * libm::log(u)).sqrt() * libm::cos(std::f64::consts::TAU * v)
        }
    }

    /// A walk about a yard at 1.4 metres per second, with bends of all widths.
    fn walk(time: f64) -> [f64; 3] {
        let s = 1.4 * time;
        [
            9.0 * libm::sin(s / 7.0) + 3.0 * libm::sin(s / 2.9),
            8.0 * libm::sin(s / 11.0 + 1.0) + 2.0 * libm::cos(s / 3.7),
            0.3 * libm::sin(s / 13.0),
        ]
    }

    /// Pose of a level camera that looks along its z axis; `heading` clockwise from north.
    fn level(heading: f64, centre: [f64; 3]) -> Pose {
        let (s, c) = (libm::sin(heading.to_radians()), libm::cos(heading.to_radians()));
        let rotation = [[c, -s, 0.0], [0.0, 0.0, -1.0], [s, c, 0.0]];
        let back = se3::mul_vec(&rotation, centre);
        Pose { rotation, translation: back.map(|v| -v) }
    }

    /// The world of a reconstruction: another unit, position and rotation.
    fn world() -> Similarity {
        let rotation = se3::rotation_from_quaternion([0.5, -0.5, 0.7, 0.1]);
        Similarity { scale: 0.37, rotation, translation: [4.0, -1.0, 2.0] }
    }

    fn frames(count: usize, apart: f64) -> Vec<TimedPose> {
        (0..count)
            .map(|k| {
                let time = apart * k as f64;
                TimedPose { time, pose: world().apply_to_pose(&level(20.0 * time, walk(time))) }
            })
            .collect()
    }

    fn fixes(rate: f64, until: f64, offset: f64, noise: f64, seed: u64) -> Vec<GpsFix> {
        let mut random = Noise(seed);
        (0..(until * rate) as usize)
            .map(|k| {
                let time = k as f64 / rate - 5.0;
                let place = walk(time - offset).map(|v| v + noise * random.normal());
                GpsFix { time, position: place, heading: None, tilt: None }
            })
            .collect()
    }

    #[test]
    fn an_offset_is_found_in_noise_with_the_scale() {
        // 40 frames a second apart, ten fixes per second, each coordinate with an error of 1.5 metres: the case of the
        // issue.
        let (mut worst, mut scale) = (0.0f64, 0.0f64);
        for seed in 0..8 {
            let fixes = fixes(10.0, 60.0, 0.7, 1.5, seed);
            let (frames, way) = (frames(40, 1.0), Track::new(&fixes, 1.0));
            let offset = find_offset(&frames, &way).unwrap();
            let found = fit_track(&frames, &way, offset, true).unwrap();
            worst = worst.max((offset.seconds - 0.7).abs());
            scale = scale.max((found.scale * 0.37 - 1.0).abs());
            assert!(found.is_significant() && offset.deviation < 0.1, "{found:?}");
        }
        assert!(worst < 0.1 && scale < 0.02, "{worst} {scale}");
    }

    #[test]
    fn without_noise_all_is_exact_and_far_fixes_do_not_bend_it() {
        let mut fixes = fixes(10.0, 60.0, -3.2, 0.0, 0);
        let frames = frames(40, 1.0);
        let found = |fixes: &[GpsFix]| {
            let way = Track::new(fixes, 1.0);
            fit_track(&frames, &way, find_offset(&frames, &way).unwrap(), true).unwrap()
        };
        let exact = found(&fixes);
        // The remaining error is the smoothing of bends by the kernel.
        assert!((exact.offset_s + 3.2).abs() < 0.01 && (exact.scale * 0.37 - 1.0).abs() < 5e-3, "{exact:?}");
        // Under a bridge the receiver was elsewhere for four seconds.
        for fix in &mut fixes[150..190] {
            fix.position[0] += 60.0;
        }
        let bent = found(&fixes);
        assert!((bent.offset_s + 3.2).abs() < 0.05 && (bent.scale * 0.37 - 1.0).abs() < 0.01, "{bent:?}");
    }

    #[test]
    fn looks_say_what_a_straight_way_does_not() {
        let straight = |k: usize| [1.5 * k as f64, 0.7 * k as f64, 0.0];
        let frames: Vec<TimedPose> = (0..12)
            .map(|k| TimedPose {
                time: k as f64,
                pose: world().apply_to_pose(&level(30.0 * k as f64, straight(k))),
            })
            .collect();
        let fixes: Vec<GpsFix> = (0..12)
            .map(|k| GpsFix {
                time: k as f64,
                position: straight(k),
                heading: Some(30.0 * k as f64),
                tilt: Some([0.0; 2]),
            })
            .collect();
        let way = Track::new(&fixes, 1.0);
        let found = fit_track(&frames, &way, ClockOffset { seconds: 0.0, deviation: 0.0 }, false).unwrap();
        let back = se3::mul(&found.similarity.rotation, &world().rotation);
        for (i, row) in back.iter().enumerate() {
            for (j, v) in row.iter().enumerate() {
                assert!((v - f64::from(u8::from(i == j))).abs() < 1e-6, "{back:?}");
            }
        }
        assert_eq!((found.looks, found.offset_deviation_s), (12, None));
    }

    #[test]
    fn a_camera_that_is_held_aslant_says_where_up_is() {
        // Pitched up by 90 degrees the camera looks straight up; rolled by 90 clockwise, up is at its left.
        let mut looks = Directions::new();
        let fix = GpsFix { time: 0.0, position: [0.0; 3], heading: None, tilt: Some([90.0, 0.0]) };
        directions_of(&fix, &Pose::IDENTITY, &mut looks);
        directions_of(&GpsFix { tilt: Some([0.0, 90.0]), ..fix }, &Pose::IDENTITY, &mut looks);
        for ((found, earth), expected) in looks.iter().zip([[0.0, 0.0, 1.0], [-1.0, 0.0, 0.0]]) {
            assert!(found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-12), "{found:?}");
            assert_eq!(*earth, [0.0, 0.0, 1.0]);
        }
    }

    #[test]
    fn outside_a_track_and_in_its_gaps_there_is_no_place() {
        let fix = |time: f64| GpsFix { time, position: [time, 0.0, 0.0], heading: None, tilt: None };
        let all = [fix(0.0), fix(1.0), fix(20.0), fix(21.0)];
        let way = Track::new(&all, 1.0);
        assert_eq!(way.position(0.25), Some([0.25, 0.0, 0.0]));
        assert_eq!((way.position(0.0), way.position(21.0)), (Some([0.0; 3]), Some([21.0, 0.0, 0.0])));
        assert_eq!((way.position(-0.1), way.position(10.0), way.position(21.1)), (None, None, None));
        let frames: Vec<TimedPose> =
            (0..4).map(|k| TimedPose { time: 0.1 * f64::from(k), pose: Pose::IDENTITY }).collect();
        assert!(fit_track(&frames, &way, ClockOffset { seconds: 100.0, deviation: 0.0 }, false).is_none());
        assert_eq!(find_offset(&frames[..2], &way), None);
    }
}
