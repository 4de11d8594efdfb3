//! The lens file of two fisheye lenses, from frames that they took.
//!
//! ```text
//! circle   where brightness falls to black, over all frames: centre and radius with their doubt
//! model    a lens with a free polynomial: direction → pixel and back
//! tracks   corners that one lens sees, found again by the other in the ring that both see (and, where the camera was
//!          turned between frames, in the next frame)
//! solve    centres, polynomials, rotations: Levenberg-Marquardt over the tracks, robust
//! run      all of it, in rounds
//! ```
//! What the ring alone says about a lens is said at 80 to 100 degrees from its axis; towards the axis the polynomial
//! keeps the form that it starts from, unless frames that were turned against each other say more.

pub mod circle;
mod linear;
mod model;
mod run;
mod solve;
mod tracks;
mod turn;

pub use circle::{Circle, CircleError};
pub use run::{Calibration, CalibrationError, Start, calibrate};

use crate::plane::Plane;

/// The luma of a frame.
#[derive(Clone, Debug, Default)]
pub struct Grey {
    /// Width in px.
    pub width: usize,
    /// Height in px.
    pub height: usize,
    /// Rows of samples.
    pub data: Vec<u8>,
}

impl Grey {
    /// A copy of a plane of which all rows are stored.
    #[must_use]
    pub fn of(plane: &Plane) -> Self {
        let rows = plane.picture_rows();
        let data = rows.clone().flat_map(|y| plane.row(y as i32)).copied().collect();
        Self { width: plane.width, height: rows.len(), data }
    }

    /// Bilinear sample at the continuous point (u, v); rims repeat.
    fn at(&self, u: f64, v: f64) -> f64 {
        let (u, v) = (u - 0.5, v - 0.5);
        let (x, y) = (libm::floor(u), libm::floor(v));
        let (a, b) = (u - x, v - y);
        let column = |x: f64| x.clamp(0.0, self.width as f64 - 1.0) as usize;
        let row = |y: f64| y.clamp(0.0, self.height as f64 - 1.0) as usize;
        let get = |x: usize, y: usize| f64::from(self.data[y * self.width + x]);
        let (x0, x1, y0, y1) = (column(x), column(x + 1.0), row(y), row(y + 1.0));
        let top = get(x0, y0) * (1.0 - a) + get(x1, y0) * a;
        let bottom = get(x0, y1) * (1.0 - a) + get(x1, y1) * a;
        top * (1.0 - b) + bottom * b
    }
}

/// Shortest side of a frame in which circles are looked for, px.
const LEAST_SIDE: u32 = 64;

/// The parts of a frame that hold one circle each, `[left, top, width, height]` px: halves side by side, or one above
/// the other; `None` for a frame of another shape.
#[must_use]
pub fn cells([width, height]: [u32; 2]) -> Option<[[usize; 4]; 2]> {
    if width.min(height) < LEAST_SIDE {
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
