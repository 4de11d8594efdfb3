//! Folds a cube into a canvas: its faces stacked vertically, each padded with pixels from its neighbours, so that
//! sampling can cross the edges of a face.

use gausset_jpeg::plane::{Frame, FrameShape, Plane};

use super::{Face, Faces};
use crate::sphere::canvas_position::CanvasPosition;

/// Width of the padding around a face on the canvas, px of plane 0.
pub const FACE_PADDING: u32 = 8;

/// A cube as a source of views: six faces in one image, or six images stacked vertically.
#[derive(Clone, Debug, PartialEq)]
pub struct Cube {
    /// Positions of the faces in the image.
    pub faces: Faces,
}

impl Cube {
    /// Size of the image, or of the six stacked images, px.
    #[must_use]
    pub fn image_size(&self) -> [u32; 2] {
        self.faces.size()
    }

    /// Size of the canvas: six faces with their padding, px.
    #[must_use]
    pub fn canvas_size(&self) -> [u32; 2] {
        let pitch = self.faces.side + 2 * FACE_PADDING;
        [pitch, 6 * pitch]
    }

    /// The canvas position of a direction.
    #[must_use]
    pub fn project(&self, direction: [f64; 3]) -> CanvasPosition {
        let (face, [a, b]) = Face::from_direction(direction);
        let (side, pad) = (f64::from(self.faces.side), f64::from(FACE_PADDING));
        let top = f64::from(face as u8) * (side + 2.0 * pad);
        let at = |c: f64| pad + 0.5 * (c + 1.0) * side;
        CanvasPosition { patch: face as u8, ..CanvasPosition::new(at(a), top + at(b)) }
    }

    /// Copies the faces of a decoded image to the canvas and pads them, plane by plane.
    pub fn fold(&self, picture: &Frame, canvas: &mut Frame) {
        canvas.colour = picture.colour;
        canvas.planes.resize_with(picture.planes.len(), Plane::default);
        for (from, to) in picture.planes.iter().zip(&mut canvas.planes) {
            self.fold_plane(from, to);
        }
        canvas.alpha = picture.alpha.as_ref().map(|alpha| {
            let mut plane = canvas.alpha.take().unwrap_or_default();
            self.fold_plane(alpha, &mut plane);
            plane
        });
    }

    /// Shape of the canvas for images of this shape.
    #[must_use]
    pub fn folded_shape(&self, picture: &FrameShape) -> FrameShape {
        let canvas = |size: &[u32; 2]| {
            let FoldLayout { sides, pads, .. } = self.fold_layout(size.map(|side| side as usize));
            let [width, height] = [0, 1].map(|axis| (sides[axis] + 2 * pads[axis]) as u32);
            [width, 6 * height]
        };
        FrameShape { sizes: picture.sizes.iter().map(canvas).collect(), ..picture.clone() }
    }

    /// Sizes for folding a plane of this width and height.
    fn fold_layout(&self, [plane_width, plane_height]: [usize; 2]) -> FoldLayout {
        let side = self.faces.side as usize;
        let [width, height] = self.image_size().map(|v| v as usize);
        let steps = [width.div_ceil(plane_width), height.div_ceil(plane_height)];
        let fits = steps
            .iter()
            .all(|step| side.is_multiple_of(*step) && (FACE_PADDING as usize).is_multiple_of(*step));
        let (step, repeat) = if fits { (steps, [1, 1]) } else { ([1, 1], steps) };
        FoldLayout { sides: step.map(|s| side / s), pads: step.map(|s| FACE_PADDING as usize / s), repeat }
    }

    /// Like [`Self::fold`], for one plane, which may be smaller than plane 0 by an integer factor.
    pub fn fold_plane(&self, from: &Plane, to: &mut Plane) {
        let FoldLayout { sides, pads, repeat } = self.fold_layout([from.width, from.height]);
        let pitch = [0, 1].map(|axis| sides[axis] + 2 * pads[axis]);
        to.reshape(pitch[0], 6 * pitch[1], [0, 6 * pitch[1] as i32]);
        for (place, cell) in self.faces.cells.iter().enumerate() {
            let Some(cell) = cell else { continue };
            let columns = self.faces.columns as usize;
            let (left, top) = (place % columns * sides[0], place / columns * sides[1]);
            let source = |x: usize, y: usize| {
                let (x, y) = ((left + x) / repeat[0], (top + y) / repeat[1]);
                from.row(y.min(from.height - 1) as i32)[x.min(from.width - 1)]
            };
            let first = cell.face as usize * pitch[1] + pads[1];
            for y in 0..sides[1] {
                let row = &mut to.row_mut((first + y) as i32)[pads[0]..][..sides[0]];
                if cell.turns == 0 && repeat == [1, 1] {
                    row.copy_from_slice(&from.row((top + y) as i32)[left..][..sides[0]]);
                    continue;
                }
                for (x, out) in row.iter_mut().enumerate() {
                    let share = |at: usize, side: usize| (2 * at + 1) as f64 / side as f64 - 1.0;
                    let stored = cell.to_stored([share(x, sides[0]), share(y, sides[1])]);
                    let index = |at: f64, side: usize| (0.5 * (at + 1.0) * side as f64) as usize;
                    *out = source(
                        index(stored[0], sides[0]).min(sides[0] - 1),
                        index(stored[1], sides[1]).min(sides[1] - 1),
                    );
                }
            }
        }
        for face in Face::ALL {
            pad_face(face, sides, pads, to);
        }
    }
}

/// Sizes of a plane on the canvas.
struct FoldLayout {
    /// Size of a face in the plane, across and down.
    sides: [usize; 2],
    /// Padding of a face in the plane, across and down.
    pads: [usize; 2],
    /// Repetitions of each pixel, across and down. Above 1 for a subsampled plane whose face edges fall on half pixels.
    repeat: [usize; 2],
}

/// Fills the padding of a face by sampling the adjacent faces in its directions.
fn pad_face(face: Face, sides: [usize; 2], pads: [usize; 2], plane: &mut Plane) {
    let pitch = [0, 1].map(|axis| sides[axis] + 2 * pads[axis]);
    for j in 0..pitch[1] {
        let is_inside = |at: usize, axis: usize| (pads[axis]..pads[axis] + sides[axis]).contains(&at);
        let row_is_inside = is_inside(j, 1);
        for i in 0..pitch[0] {
            if row_is_inside && is_inside(i, 0) {
                continue;
            }
            let at =
                |k: usize, axis: usize| 2.0 * (k as f64 + 0.5 - pads[axis] as f64) / sides[axis] as f64 - 1.0;
            let (other, [a, b]) = Face::from_direction(face.direction([at(i, 0), at(j, 1)]));
            let index = |c: f64, axis: usize| {
                let last = (sides[axis] - 1) as f64;
                (0.5 * (c + 1.0) * sides[axis] as f64 - 0.5).clamp(0.0, last)
            };
            let (u, v) = (index(a, 0), index(b, 1));
            let (x, y) = (u as usize, v as usize);
            let (fu, fv) = (u - x as f64, v - y as f64);
            let next = [(x + 1).min(sides[0] - 1), (y + 1).min(sides[1] - 1)];
            let first = other as usize * pitch[1] + pads[1];
            let tap = |x: usize, y: usize| f64::from(plane.row((first + y) as i32)[pads[0] + x]);
            let upper = tap(x, y) * (1.0 - fu) + tap(next[0], y) * fu;
            let lower = tap(x, next[1]) * (1.0 - fu) + tap(next[0], next[1]) * fu;
            let value = (upper * (1.0 - fv) + lower * fv + 0.5) as u8;
            plane.row_mut((face as usize * pitch[1] + j) as i32)[i] = value;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sphere::cube::{CubeLayout, StripOrder};

    #[test]
    fn the_frame_of_a_face_shows_what_lies_beyond_its_edge() {
        // A smooth function of the direction on the faces of a strip with rotations: the whole canvas, including the
        // padding, must have the function's value in each direction.
        let side = 96u32;
        let value = |d: [f64; 3]| {
            let n = (d[0] * d[0] + d[1] * d[1] + d[2] * d[2]).sqrt();
            128.0 + 60.0 * d[0] / n + 40.0 * d[1] / n - 25.0 * d[2] / n
        };
        let order =
            StripOrder { faces: StripOrder::parse_faces("bfdulr").unwrap(), turns: [0, 1, 2, 3, 1, 0] };
        for net in CubeLayout::ALL {
            let faces = Faces::new(net, order, side);
            let [w, h] = faces.size().map(|v| v as usize);
            let mut picture = Plane::default();
            picture.reshape(w, h, [0, h as i32]);
            for y in 0..h {
                for x in 0..w {
                    let d = faces.direction(x as f64 + 0.5, y as f64 + 0.5);
                    picture.row_mut(y as i32)[x] = d.map_or(0, |d| value(d).round() as u8);
                }
            }
            let mut canvas = Plane::default();
            Cube { faces }.fold_plane(&picture, &mut canvas);
            assert_eq!(
                (canvas.width, canvas.height),
                ((side + 2 * FACE_PADDING) as usize, 6 * (side + 2 * FACE_PADDING) as usize)
            );
            let pitch = (side + 2 * FACE_PADDING) as usize;
            for face in Face::ALL {
                for j in 0..pitch {
                    for i in 0..pitch {
                        let at = |k: usize| {
                            2.0 * (k as f64 + 0.5 - f64::from(FACE_PADDING)) / f64::from(side) - 1.0
                        };
                        let wanted = value(face.direction([at(i), at(j)]));
                        let found = f64::from(canvas.row((face as usize * pitch + j) as i32)[i]);
                        assert!((wanted - found).abs() < 1.6, "{net:?} {face:?} {i},{j}: {wanted} {found}");
                    }
                }
            }
        }
    }

    #[test]
    fn the_shape_of_a_canvas_is_known_before_a_picture_is_folded() {
        use gausset_jpeg::plane::ColourModel;
        // Chroma at half the size, for even and odd face sizes.
        for side in [32, 31] {
            let cube = Cube { faces: Faces::new(CubeLayout::Cross4x3, StripOrder::default(), side) };
            let [w, h] = cube.image_size();
            let sizes = vec![[w, h], [w.div_ceil(2), h.div_ceil(2)], [w.div_ceil(2), h.div_ceil(2)]];
            let mut picture = Frame { colour: ColourModel::YCbCr, ..Frame::default() };
            picture.planes.resize_with(3, Plane::default);
            for (plane, [w, h]) in picture.planes.iter_mut().zip(&sizes) {
                plane.reshape(*w as usize, *h as usize, [0, *h as i32]);
            }
            let mut canvas = Frame::default();
            cube.fold(&picture, &mut canvas);
            assert_eq!(canvas.shape(), cube.folded_shape(&picture.shape()), "{side}");
        }
    }
}
