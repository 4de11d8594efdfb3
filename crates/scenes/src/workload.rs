//! The reference workload: the scene on which the speed of a training step is measured.
//!
//! 165,751 splats of SH degree 3 seen at 516x344, computed with only `+ - * / sqrt` in f64 and SplitMix64, so that a
//! program in any language gets the same bits: an object, a ground, a wall and some clutter. Two states: *trained*
//! (anisotropic, varied opacities) and *initial* (isotropic, opacity 0.1, as at the start of training). Splats are in
//! the order in which they are generated; training keeps its splats along a Morton curve (`gausset_density::morton`),
//! and a measurement should do the same.

use gausset_core::matrix::dot;
use gausset_core::{Camera, Pose, Splats, TargetImage};

/// Number of splats of the workload.
pub const SPLATS: usize = 165_751;
/// Image width in px.
pub const WIDTH: u32 = 516;
/// Image height in px.
pub const HEIGHT: u32 = 344;

/// `camera_from_world` rotation: 16.3 degrees about y, exact in decimals (0.96² + 0.28² = 1).
const ROTATION: [[f64; 3]; 3] = [[0.96, 0.0, 0.28], [0.0, 1.0, 0.0], [-0.28, 0.0, 0.96]];
/// Centre of the camera in the world.
const CENTRE: [f64; 3] = [0.5, -0.25, 0.125];
/// Focal length in px.
const FOCAL: f64 = 480.0;
/// Logit of opacity 0.1.
const INITIAL_LOGIT: f64 = -2.197_224_6;

/// State of the splats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkloadState {
    /// As after training: flat splats of all opacities. "T" in the benchmark tables.
    Trained,
    /// As initialised from points: isotropic, opacity 0.1. "I" in the benchmark tables.
    Initial,
}

/// A scene with a view to render and an image to compare with.
#[derive(Clone, Debug)]
pub struct Workload {
    /// The splats, in the order in which they are generated.
    pub splats: Splats,
    /// Intrinsics and image size of the view.
    pub camera: Camera,
    /// Pose of the view, `camera_from_world`.
    pub pose: Pose,
    /// The training image; a pattern, not a view of the scene.
    pub target: TargetImage,
}

impl Workload {
    /// The workload with [`SPLATS`] splats at [`WIDTH`] x [`HEIGHT`].
    #[must_use]
    pub fn new(state: WorkloadState) -> Self {
        Self::sized(state, SPLATS, [WIDTH, HEIGHT])
    }

    /// The workload with another number of splats (the first `splats` draws) and another image size in px that shows
    /// the same width of the scene.
    #[must_use]
    pub fn sized(state: WorkloadState, splats: usize, [width, height]: [u32; 2]) -> Self {
        let focal = FOCAL * f64::from(width) / f64::from(WIDTH);
        let (cx, cy) = (f64::from(width) / 2.0, f64::from(height) / 2.0);
        let camera = Camera {
            projection: gausset_core::Projection::Pinhole,
            width,
            height,
            fx: focal,
            fy: focal,
            cx,
            cy,
        };
        let translation = std::array::from_fn(|i| -dot(ROTATION[i], CENTRE));
        let pose = Pose { rotation: ROTATION, translation };
        Self { splats: draw_splats(state, splats), camera, pose, target: pattern(width, height) }
    }
}

/// SplitMix64 (Steele et al. 2014) with the two distributions of the workload.
struct SplitMix {
    state: u64,
}

impl SplitMix {
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = self.state;
        let z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ z >> 31
    }

    /// Uniform in [0, 1), 24 bits.
    fn uniform(&mut self) -> f64 {
        (self.next() >> 40) as f64 / 16_777_216.0
    }

    /// Approximately normal: the sum of twelve uniforms, added left to right, minus six (Irwin-Hall).
    fn normal(&mut self) -> f64 {
        (0..12).fold(0.0, |sum, _| sum + self.uniform()) - 6.0
    }

    fn normals<const N: usize>(&mut self) -> [f64; N] {
        std::array::from_fn(|_| self.normal())
    }
}

fn draw_splats(state: WorkloadState, count: usize) -> Splats {
    let mut draws = SplitMix { state: 0x5EED_0001 };
    let mut splats = Splats::with_capacity(3, count);
    for _ in 0..count {
        let (mean_in_camera, base) = draw_position(&mut draws);
        let mean: [f64; 3] = std::array::from_fn(|axis| {
            (0..3).fold(0.0, |sum, k| sum + ROTATION[k][axis] * mean_in_camera[k]) + CENTRE[axis]
        });
        let base = if state == WorkloadState::Initial { base - 0.10 } else { base };
        let s = base + 0.45 * draws.normal();
        let (e1, e2) = (0.35 * draws.normal(), 0.5 * draws.normal());
        let quat: [f64; 4] = draws.normals();
        let logit = -0.5 + 2.0 * draws.normal();
        let mut sh = [0.0f32; 48];
        for (k, value) in sh.iter_mut().enumerate() {
            *value = if k < 3 { -1.2 + 2.4 * draws.uniform() } else { 0.08 * draws.normal() } as f32;
        }
        let (log_scale, quat, logit) = match state {
            WorkloadState::Trained => ([s, s - 0.4 + e1, s - 1.3 + e2], quat, logit),
            WorkloadState::Initial => ([s; 3], [1.0, 0.0, 0.0, 0.0], INITIAL_LOGIT),
        };
        let single = |v: f64| v as f32;
        splats.push(mean.map(single), log_scale.map(single), quat.map(single), single(logit), &sh);
    }
    splats
}

/// Centre in camera space and base of the log scales of one splat.
fn draw_position(draws: &mut SplitMix) -> ([f64; 3], f64) {
    let choice = draws.uniform();
    let d: [f64; 3] = draws.normals();
    let length = (dot(d, d) + 1e-12).sqrt();
    let [dx, dy, dz] = d.map(|v| v / length);
    let (a, b, e) = (draws.uniform(), draws.uniform(), draws.uniform());
    let jitter = draws.normals::<3>().map(|v| 0.02 * v);
    let (p, base) = if choice < 0.40 {
        // Object: front and back of an ellipsoid.
        ([1.25 * dx, 0.15 + 0.80 * dy, 4.0 + 0.9 * dz], -3.93)
    } else if choice < 0.70 {
        // Ground.
        ([-4.3 + 8.6 * a, 0.95, 1.0 + 9.0 * b], -3.53)
    } else if choice < 0.94 {
        // Wall.
        ([-6.6 + 13.2 * a, -3.2 + 4.2 * b, 8.0 + 0.3 * e], -2.93)
    } else {
        // Clutter in between.
        ([-3.0 + 6.0 * a, -1.8 + 3.0 * b, 1.0 + 7.0 * e], -3.33)
    };
    (std::array::from_fn(|k| p[k] + jitter[k]), base)
}

/// A training image of any size: `((((7x + 13y + 29c) ^ (xy >> 4)) & 127) + ((x ^ y) & 64) + 16)`.
#[must_use]
pub fn pattern(width: u32, height: u32) -> TargetImage {
    let mut rgb = Vec::with_capacity(width as usize * height as usize * 3);
    for y in 0..height {
        for x in 0..width {
            rgb.extend((0..3).map(|c| {
                let fine = ((x * 7 + y * 13 + c * 29) ^ ((x * y) >> 4)) & 127;
                (fine + ((x ^ y) & 64) + 16) as u8
            }));
        }
    }
    TargetImage { width, height, rgb, alpha: None, mask: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_splats_of_the_trained_state_have_the_published_values() {
        let splats = Workload::sized(WorkloadState::Trained, 1000, [WIDTH, HEIGHT]).splats;
        assert_eq!(splats.means[0], [-0.092_425_51, 0.207_951_47, 3.314_179_2]);
        assert_eq!(splats.log_scales[0], [-3.413_164_1, -4.223_690_5, -4.141_124]);
        assert_eq!(splats.quats[0], [1.652_444_4, -0.407_467_25, -0.608_866_33, 0.142_512_26]);
        assert_eq!(splats.opacity_logits[0], -1.620_758_8);
        assert_eq!(splats.sh[..3], [0.138_106_3, 0.725_575_45, 0.469_892_56]);

        // Published with six decimals: sums of a thousand values that are rounded to f32.
        let sum = |values: &mut dyn Iterator<Item = f32>| values.map(f64::from).sum::<f64>();
        assert!((sum(&mut splats.means.iter().map(|m| m[0])) + 967.293_064).abs() < 1e-5);
        assert!((sum(&mut splats.opacity_logits.iter().copied()) + 484.140_074).abs() < 1e-5);
        assert!((sum(&mut (0..1000).map(|i| splats.sh_coefficients(i)[47])) - 3.326_373).abs() < 1e-5);
    }

    #[test]
    fn the_initial_state_has_the_same_places_and_colours_but_round_faint_splats() {
        let trained = Workload::sized(WorkloadState::Trained, 500, [WIDTH, HEIGHT]).splats;
        let initial = Workload::sized(WorkloadState::Initial, 500, [WIDTH, HEIGHT]).splats;
        assert_eq!(initial.means, trained.means);
        assert_eq!(initial.sh, trained.sh);
        assert!(initial.log_scales.iter().all(|s| s[0] == s[1] && s[1] == s[2]));
        assert!(initial.quats.iter().all(|&q| q == [1.0, 0.0, 0.0, 0.0]));
        assert!(initial.opacity_logits.iter().all(|&l| l == -2.197_224_6));
        // Only the base of the scales differs.
        for (a, b) in initial.log_scales.iter().zip(&trained.log_scales) {
            assert!((a[0] - b[0] + 0.10).abs() < 1e-6);
        }
    }

    #[test]
    fn the_camera_stands_where_it_should_and_sees_most_splats() {
        let workload = Workload::sized(WorkloadState::Trained, 2000, [WIDTH, HEIGHT]);
        let centre = workload.pose.centre();
        assert!((0..3).all(|k| (centre[k] - CENTRE[k]).abs() < 1e-15));
        let visible = workload.splats.means.iter().filter(|m| {
            let p = workload.pose.apply(m.map(f64::from));
            let [u, v] = workload.camera.project(p);
            p[2] > 0.01 && (0.0..f64::from(WIDTH)).contains(&u) && (0.0..f64::from(HEIGHT)).contains(&v)
        });
        // 79 % of the splats of the whole workload overlap the image; slightly fewer centres are inside it.
        assert!((0.70..0.80).contains(&(visible.count() as f64 / 2000.0)));
    }

    #[test]
    fn the_target_is_the_published_pattern_at_any_size() {
        let target = Workload::sized(WorkloadState::Trained, 0, [2 * WIDTH, 2 * HEIGHT]).target;
        assert_eq!((target.width, target.height, target.rgb.len()), (1032, 688, 1032 * 688 * 3));
        let at = |x: usize, y: usize, c: usize| target.rgb[(y * 1032 + x) * 3 + c];
        assert_eq!(at(0, 0, 0), 16);
        assert_eq!(at(0, 0, 2), 58 + 16);
        assert_eq!(at(100, 37, 1), ((((700 + 481 + 29) ^ (3700 >> 4)) & 127) + ((100 ^ 37) & 64) + 16) as u8);
    }
}
