//! Calibration of two fisheye lenses: estimates the lens file from frames that both lenses took.
//!
//! ```text
//! circle   image circle of each lens: centre and radius with standard deviations
//! model    lens with a free polynomial: direction → pixel and back
//! matching  matches of corners between the two lenses, in the ring that both see, and between consecutive frames where
//!          the camera rotated
//! frame_rotation  rotation of the camera between two frames
//! state    parameters that are optimised (lenses, poses, inverse depths), residuals and Jacobians
//! solve    robust Levenberg-Marquardt over the matches
//! landmarks  landmarks: corners matched in nearby frames, where frames have poses
//! with_poses  bundle adjustment with given poses
//! run      the stages in order
//! ```
//! The ring alone constrains a lens only at 80 to 100 degrees from its axis. Towards the axis the polynomial keeps its
//! initial shape, unless there are frames that are rotated against each other or frames with poses.

use gausset_jpeg::plane::Plane;

pub mod circle;
mod frame_rotation;
mod landmarks;
mod linear;
mod matching;
mod model;
mod run;
mod solve;
mod state;
mod with_poses;

pub use circle::{CircleError, ImageCircle};
pub use run::{Calibration, CalibrationError, InitialCalibration, PoseRefinement, calibrate, check_poses};
pub use with_poses::MIN_POSES;

/// Luma of a frame, 8 bits per pixel.
#[derive(Clone, Debug, Default)]
pub struct LumaImage {
    /// Width in px.
    pub width: usize,
    /// Height in px.
    pub height: usize,
    /// Rows of samples.
    pub data: Vec<u8>,
}

impl LumaImage {
    /// Copies the luma of a plane whose rows are all stored.
    #[must_use]
    pub fn from_plane(plane: &Plane) -> Self {
        let rows = plane.image_rows();
        let data = rows.clone().flat_map(|y| plane.row(y as i32)).copied().collect();
        Self { width: plane.width, height: rows.len(), data }
    }

    /// Downsamples by `factor` in both directions: rounded means of `factor` x `factor` pixels.
    fn downsampled(&self, factor: usize) -> Self {
        let (width, height) = (self.width / factor, self.height / factor);
        let mut data = Vec::with_capacity(width * height);
        for y in 0..height {
            for x in 0..width {
                let rows = (0..factor).map(|j| (y * factor + j) * self.width + x * factor);
                let sum: usize =
                    rows.flat_map(|from| &self.data[from..from + factor]).map(|&v| usize::from(v)).sum();
                data.push(((sum + factor * factor / 2) / (factor * factor)) as u8);
            }
        }
        Self { width, height, data }
    }

    /// Bilinear sample at the continuous point (u, v), px; coordinates outside are clamped to the border.
    fn sample(&self, u: f64, v: f64) -> f64 {
        let (right, bottom) = (self.width - 1, self.height - 1);
        let (u, v) = ((u - 0.5).clamp(0.0, right as f64), (v - 0.5).clamp(0.0, bottom as f64));
        let (x0, y0) = (u as usize, v as usize);
        let (x1, y1) = ((x0 + 1).min(right), (y0 + 1).min(bottom));
        let (a, b) = (u - x0 as f64, v - y0 as f64);
        let get = |x: usize, y: usize| f64::from(self.data[y * self.width + x]);
        let top = get(x0, y0) * (1.0 - a) + get(x1, y0) * a;
        let bottom = get(x0, y1) * (1.0 - a) + get(x1, y1) * a;
        top * (1.0 - b) + bottom * b
    }
}

/// Minimum side of a frame, px.
const MIN_SIDE: u32 = 64;

/// The halves of a frame that hold one image circle each, `[left, top, width, height]` px: left and right, or top and
/// bottom. `None` if the frame is smaller than 64 px or its aspect ratio is not between 1.6 and 2.4.
#[must_use]
pub fn circle_cells([width, height]: [u32; 2]) -> Option<[[usize; 4]; 2]> {
    if width.min(height) < MIN_SIDE {
        return None;
    }
    let [w, h] = [width, height].map(|v| v as usize);
    let is_near_two = |long: u32, short: u32| {
        let ratio = f64::from(long) / f64::from(short.max(1));
        (1.6..=2.4).contains(&ratio)
    };
    if is_near_two(width, height) {
        Some([[0, 0, w / 2, h], [w / 2, 0, w / 2, h]])
    } else if is_near_two(height, width) {
        Some([[0, 0, w, h / 2], [0, h / 2, w, h / 2]])
    } else {
        None
    }
}
