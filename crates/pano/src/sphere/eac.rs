//! GoPro MAX: two streams of three equi-angular cube faces each.
//!
//! ```text
//! stream A (container track 0): [ left | front | right ]   upright
//! stream B (container track 5): [ down | back  | up    ]   rotated
//! g(t) = (4/π) atan(t)          face coordinates grow with the angle, not with the tangent
//! ```
//! The side faces (left, right, down, up) hold a strip of `2b` columns in their middle twice, because two lenses meet
//! there; the two copies are blended linearly. Widths (side, centre, side) are 1376, 1344, 1376 with b = 32 in 5.6K
//! mode and 768, 736, 768 with b = 16 in 3K mode. The formulas were checked against the output of trek-view/max2sphere
//! (33 dB over four frames; the remaining difference is its point sampling) and by registering both walks of the test
//! data.
//!
//! The canvas is stream A above stream B.

use crate::sphere::canvas_position::CanvasPosition;

/// Face sizes of a GoPro MAX stream pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Eac {
    /// Width of a side face in px.
    pub side: u32,
    /// Width of the centre face, which is also the height of a stream.
    pub centre: u32,
    /// Half the width of the strip that a side face holds twice, px.
    pub overlap: u32,
}

impl Eac {
    /// The face sizes for streams of this size; `None` if it is not that of a GoPro MAX.
    #[must_use]
    pub fn from_stream_size(width: u32, height: u32) -> Option<Self> {
        match (width, height) {
            (4096, 1344) => Some(Self { side: 1376, centre: 1344, overlap: 32 }),
            (2272, 736) => Some(Self { side: 768, centre: 736, overlap: 16 }),
            _ => None,
        }
    }

    /// Pixels of a face per 90 degrees.
    #[must_use]
    pub fn face_side(&self) -> u32 {
        self.centre
    }

    /// Width and height of a stream, px.
    #[must_use]
    pub fn stream_size(&self) -> [u32; 2] {
        [2 * self.side + self.centre, self.centre]
    }

    /// Size of both streams stacked vertically, px.
    #[must_use]
    pub fn canvas_size(&self) -> [u32; 2] {
        let [w, h] = self.stream_size();
        [w, 2 * h]
    }

    /// The canvas position of a direction.
    #[must_use]
    pub fn project(&self, direction: [f64; 3]) -> CanvasPosition {
        let [x, y, z] = direction;
        let up = -y;
        let g = |t: f64| libm::atan(t) * std::f64::consts::FRAC_2_PI * 2.0;
        let (ax, ay, az) = (x.abs(), y.abs(), z.abs());
        // Face coordinates (U to the right, V up, 0..1), and the patch: which third of which stream.
        let right_of = |t: f64| 0.5 * (g(t) + 1.0);
        let left_of = |t: f64| 0.5 * (1.0 - g(t));
        let (fu, fv, patch) = if az >= ax && az >= ay {
            if z > 0.0 {
                (right_of(x / az), right_of(up / az), 1)
            } else {
                (left_of(x / az), right_of(up / az), 4)
            }
        } else if ax >= ay {
            if x < 0.0 {
                (right_of(z / ax), right_of(up / ax), 0)
            } else {
                (left_of(z / ax), right_of(up / ax), 2)
            }
        } else if up < 0.0 {
            (left_of(x / ay), left_of(z / ay), 3)
        } else {
            (left_of(x / ay), right_of(z / ay), 5)
        };
        let (s, t) = if patch < 3 { (fu, 1.0 - fv) } else { (fv, fu) };
        self.canvas_position(patch, s, t)
    }

    /// Canvas bounds (left, right, top, bottom) of the face of a patch.
    #[must_use]
    pub fn patch_bounds(&self, patch: u8) -> [f64; 4] {
        let (side, centre) = (f64::from(self.side), f64::from(self.centre));
        let face = patch % 8;
        let (left, width) = [(0.0, side), (side, centre), (side + centre, side)][usize::from(face % 3)];
        let top = if face < 3 { 0.0 } else { centre };
        [left, left + width, top, top + centre]
    }

    /// Canvas position of face coordinates (s right, t down, 0..1).
    fn canvas_position(&self, patch: u8, s: f64, t: f64) -> CanvasPosition {
        let (side, centre) = (f64::from(self.side), f64::from(self.centre));
        let height = centre;
        let third = patch % 3;
        let x0 = [0.0, side, side + centre][usize::from(third)];
        let y0 = if patch < 3 { 0.0 } else { height };
        let v = (y0 + t * height).clamp(y0 + 0.5, y0 + height - 0.5);
        // Taps never reach into the adjacent face on the canvas, which is not adjacent on the sphere.
        let column = |at: f64, width: f64| (x0 + at * width).clamp(x0 + 0.5, x0 + width - 0.5);
        let place = |u, second| CanvasPosition { u, v, patch, is_visible: true, second };
        if third == 1 {
            return place(column(s, centre), None);
        }
        let d = f64::from(self.overlap) / side;
        let left = (1.0 - 2.0 * d) * s;
        let right = left + 2.0 * d;
        let share = ((left - 0.5 + 2.0 * d) / (2.0 * d)).clamp(0.0, 1.0);
        if share <= 0.0 {
            place(column(left, side), None)
        } else if share >= 1.0 {
            // Right of the strip, the face is another continuous patch.
            CanvasPosition { patch: patch + 8, ..place(column(right, side), None) }
        } else {
            let second = Some(([column(right, side), v], share));
            CanvasPosition { patch: patch + 16, ..place(column(left, side), second) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faces_stand_where_the_camera_puts_them() {
        let eac = Eac::from_stream_size(2272, 736).unwrap();
        assert_eq!(eac.canvas_size(), [2272, 1472]);
        let at = |d| {
            let p = eac.project(d);
            (p.u, p.v)
        };
        // Forward: the middle of the first stream; backward: of the second.
        assert_eq!(at([0.0, 0.0, 1.0]), (1136.0, 368.0));
        assert_eq!(at([0.0, 0.0, -1.0]), (1136.0, 1104.0));
        // Slightly up from the front is up on the canvas; slightly to the right is right.
        assert!(eac.project([0.0, -0.1, 1.0]).v < 368.0);
        assert!(eac.project([0.1, 0.0, 1.0]).u > 1136.0);
        // The middle of a side face has two positions with equal weights.
        let side = eac.project([1.0, 0.0, 0.0]);
        assert!((side.second.unwrap().1 - 0.5).abs() < 1e-9);
    }

    #[test]
    fn neighbouring_directions_across_a_face_edge_are_on_both_edges() {
        let eac = Eac::from_stream_size(4096, 1344).unwrap();
        let e = 1e-6;
        let front = eac.project([1.0 - e, 0.2, 1.0]);
        let right = eac.project([1.0 + e, 0.2, 1.0]);
        assert!((front.u - (1376.0 + 1343.5)).abs() < 0.51, "{}", front.u);
        assert!((right.u - (1376.0 + 1344.5)).abs() < 0.51, "{}", right.u);
        assert!((front.v - right.v).abs() < 1e-3);
    }
}
