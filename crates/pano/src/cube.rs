//! The sphere on the six faces of a cube: in one picture (a cross or a strip), or in six.
//!
//! ```text
//! face    letter  looks at   right of it  below it     names of files
//! right   r       ( 1, 0, 0)  -z           y            right, r, px
//! left    l       (-1, 0, 0)   z           y            left,  l, nx
//! up      u       ( 0,-1, 0)   x           z            up,    u, top, py
//! down    d       ( 0, 1, 0)   x          -z            down,  d, bottom, ny
//! front   f       ( 0, 0, 1)   x           y            front, f, pz
//! back    b       ( 0, 0,-1)  -x           y            back,  b, nz
//! ```
//! The same faces as views of 90 degrees of [`crate::layout::Layout::Cube6`], and as ffmpeg's filter `v360` has them
//! (compared in `tests/cubes.rs`). A face may be stored turned clockwise by quarters, as `v360` allows.
//!
//! As a source of views, a cube is *folded*: its faces lie below each other on a canvas, each with a frame of [`PAD`]
//! pixels that show what its neighbours show there, so that no sample knows of an edge.

use std::path::PathBuf;

use crate::frames::{SourceFrame, source_frame};
use crate::place::Place;
use crate::plane::{Frame, Plane};

/// Pixels of its neighbours around a face on the canvas, at the size of plane 0.
pub const PAD: u32 = 8;
/// Widest face, px: rows of the canvas are counted in 16 bits.
pub const MAX_SIDE: u32 = 8192;

/// A face of the cube, in the order of ffmpeg's letters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Face {
    /// To the right.
    Right,
    /// To the left.
    Left,
    /// Straight up, the front below it.
    Up,
    /// Straight down, the front above it.
    Down,
    /// Straight ahead.
    Front,
    /// Straight back.
    Back,
}

impl Face {
    /// All of them, in the order `rludfb`.
    pub const ALL: [Self; 6] = [Self::Right, Self::Left, Self::Up, Self::Down, Self::Front, Self::Back];

    /// The stable name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.words()[0]
    }

    /// What files of this face are called: the name, and what else is usual.
    const fn words(self) -> [&'static str; 4] {
        match self {
            Self::Right => ["right", "r", "px", "posx"],
            Self::Left => ["left", "l", "nx", "negx"],
            Self::Up => ["up", "u", "py", "top"],
            Self::Down => ["down", "d", "ny", "bottom"],
            Self::Front => ["front", "f", "pz", "posz"],
            Self::Back => ["back", "b", "nz", "negz"],
        }
    }

    /// Direction of a point of the face: `a` to the right, `b` down, each -1 to 1.
    #[must_use]
    pub const fn direction(self, [a, b]: [f64; 2]) -> [f64; 3] {
        match self {
            Self::Right => [1.0, b, -a],
            Self::Left => [-1.0, b, a],
            Self::Up => [a, -1.0, b],
            Self::Down => [a, 1.0, -b],
            Self::Front => [a, b, 1.0],
            Self::Back => [-a, b, -1.0],
        }
    }

    /// The face that a direction meets, and where.
    #[must_use]
    pub fn of(direction: [f64; 3]) -> (Self, [f64; 2]) {
        let [x, y, z] = direction;
        let [ax, ay, az] = direction.map(f64::abs);
        if az >= ax && az >= ay {
            if z > 0.0 { (Self::Front, [x / az, y / az]) } else { (Self::Back, [-x / az, y / az]) }
        } else if ax >= ay {
            if x > 0.0 { (Self::Right, [-z / ax, y / ax]) } else { (Self::Left, [z / ax, y / ax]) }
        } else if y < 0.0 {
            (Self::Up, [x / ay, z / ay])
        } else {
            (Self::Down, [x / ay, -z / ay])
        }
    }
}

/// A face as it is stored: turned clockwise by so many quarters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    /// Which face.
    pub face: Face,
    /// Quarter turns, 0 to 3.
    pub turns: u8,
}

impl Cell {
    /// Where a point of the face is stored.
    fn stored(self, [a, b]: [f64; 2]) -> [f64; 2] {
        match self.turns % 4 {
            0 => [a, b],
            1 => [-b, a],
            2 => [-a, -b],
            _ => [b, -a],
        }
    }

    /// Direction of a stored point.
    #[must_use]
    pub fn direction(self, stored: [f64; 2]) -> [f64; 3] {
        let back = Self { turns: (4 - self.turns % 4) % 4, ..self };
        self.face.direction(back.stored(stored))
    }
}

/// How the six faces lie in one picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Net {
    /// A cross, 4 faces wide and 3 high: left, front, right, back; up above and down below the front.
    Cross4x3,
    /// A cross, 3 faces wide and 4 high: left, front, right; up above the front, below it down and, upside down, back.
    Cross3x4,
    /// One beside the other.
    Strip6x1,
    /// One below the other.
    Strip1x6,
    /// Two rows of three.
    Strip3x2,
    /// Three rows of two.
    Strip2x3,
}

impl Net {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Cross4x3, Self::Cross3x4, Self::Strip6x1, Self::Strip1x6, Self::Strip3x2, Self::Strip2x3];

    /// Faces in a row, and rows.
    #[must_use]
    pub const fn grid(self) -> [u32; 2] {
        match self {
            Self::Cross4x3 => [4, 3],
            Self::Cross3x4 => [3, 4],
            Self::Strip6x1 => [6, 1],
            Self::Strip1x6 => [1, 6],
            Self::Strip3x2 => [3, 2],
            Self::Strip2x3 => [2, 3],
        }
    }

    /// `4x3`.
    #[must_use]
    pub fn name(self) -> String {
        let [columns, rows] = self.grid();
        format!("{columns}x{rows}")
    }

    /// The net of a name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|net| net.name() == name)
    }

    /// Whether it has empty places.
    #[must_use]
    pub const fn is_cross(self) -> bool {
        matches!(self, Self::Cross4x3 | Self::Cross3x4)
    }

    /// The net of a picture of this size, if its sides are those of one.
    #[must_use]
    pub fn of_size([width, height]: [u32; 2]) -> Option<Self> {
        Self::ALL.into_iter().find(|net| {
            let [columns, rows] = net.grid().map(u64::from);
            width > 0 && u64::from(width) * rows == u64::from(height) * columns
        })
    }
}

/// Which face is where in a strip, and how it is turned: ffmpeg's `forder` and `frot`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Order {
    /// The faces, row by row.
    pub faces: [Face; 6],
    /// Quarter turns clockwise of what is stored at each place.
    pub turns: [u8; 6],
}

impl Default for Order {
    fn default() -> Self {
        Self { faces: Face::ALL, turns: [0; 6] }
    }
}

impl Order {
    /// Faces from six of the letters `rludfb`, each once.
    #[must_use]
    pub fn faces_of(text: &str) -> Option<[Face; 6]> {
        let mut faces = [Face::Right; 6];
        let mut seen = Vec::new();
        for (place, letter) in text.chars().enumerate() {
            let face = Face::ALL.into_iter().find(|face| face.words()[1].starts_with(letter))?;
            if seen.contains(&face) {
                return None;
            }
            *faces.get_mut(place)? = face;
            seen.push(face);
        }
        (seen.len() == 6).then_some(faces)
    }

    /// Quarter turns from six digits 0 to 3.
    #[must_use]
    pub fn turns_of(text: &str) -> Option<[u8; 6]> {
        let turns: Vec<u8> = text.bytes().map(|b| b.wrapping_sub(b'0')).collect();
        turns.try_into().ok().filter(|turns: &[u8; 6]| turns.iter().all(|&turn| turn < 4))
    }
}

/// Six square faces in a grid of places.
#[derive(Clone, Debug, PartialEq)]
pub struct Faces {
    /// Side of a face, px.
    pub side: u32,
    /// Places in a row.
    pub columns: u32,
    /// What is at each place, row by row.
    pub cells: Vec<Option<Cell>>,
}

impl Faces {
    /// The faces of a net. A cross has its own order; that of a strip is given.
    #[must_use]
    pub fn of_net(net: Net, order: Order, side: u32) -> Self {
        let [columns, rows] = net.grid();
        let mut cells = vec![None; (columns * rows) as usize];
        let mut put = |column: u32, row: u32, face, turns| {
            cells[(row * columns + column) as usize] = Some(Cell { face, turns });
        };
        if net.is_cross() {
            put(1, 0, Face::Up, 0);
            put(0, 1, Face::Left, 0);
            put(1, 1, Face::Front, 0);
            put(2, 1, Face::Right, 0);
            put(1, 2, Face::Down, 0);
            if net == Net::Cross4x3 {
                put(3, 1, Face::Back, 0);
            } else {
                put(1, 3, Face::Back, 2);
            }
        } else {
            for (place, (&face, &turns)) in (0..).zip(order.faces.iter().zip(&order.turns)) {
                put(place % columns, place / columns, face, turns);
            }
        }
        Self { side, columns, cells }
    }

    /// One face alone.
    #[must_use]
    pub fn one(face: Face, side: u32) -> Self {
        Self { side, columns: 1, cells: vec![Some(Cell { face, turns: 0 })] }
    }

    /// Size of the picture, px.
    #[must_use]
    pub fn size(&self) -> [u32; 2] {
        [self.columns * self.side, self.cells.len() as u32 / self.columns * self.side]
    }

    /// What a continuous point of the picture shows; `None` at an empty place.
    #[must_use]
    pub fn direction(&self, x: f64, y: f64) -> Option<[f64; 3]> {
        let side = f64::from(self.side);
        let (column, row) = ((x / side) as usize, (y / side) as usize);
        let cell = (*self.cells.get(row * self.columns as usize + column)?)?;
        let within = |at: f64, place: usize| 2.0 * (at / side - place as f64) - 1.0;
        Some(cell.direction([within(x, column), within(y, row)]))
    }
}

/// A cube as a source of views: six faces in a picture, or six pictures, which are taken as one below the other.
#[derive(Clone, Debug, PartialEq)]
pub struct Cube {
    /// Where the faces are.
    pub faces: Faces,
}

impl Cube {
    /// Size of the picture, or of six below each other.
    #[must_use]
    pub fn picture(&self) -> [u32; 2] {
        self.faces.size()
    }

    /// Size of the canvas: the faces with their frames.
    #[must_use]
    pub fn canvas(&self) -> [u32; 2] {
        let pitch = self.faces.side + 2 * PAD;
        [pitch, 6 * pitch]
    }

    /// The place of a direction on the canvas.
    #[must_use]
    pub fn place(&self, direction: [f64; 3]) -> Place {
        let (face, [a, b]) = Face::of(direction);
        let (side, pad) = (f64::from(self.faces.side), f64::from(PAD));
        let top = f64::from(face as u8) * (side + 2.0 * pad);
        let at = |c: f64| pad + 0.5 * (c + 1.0) * side;
        Place { patch: face as u8, ..Place::plain(at(a), top + at(b)) }
    }

    /// Lays the faces of a decoded picture onto the canvas, plane by plane.
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

    /// [`Self::fold`] for one plane, which may be smaller than plane 0 by a whole factor.
    pub fn fold_plane(&self, from: &Plane, to: &mut Plane) {
        let side = self.faces.side as usize;
        let [width, height] = self.picture().map(|v| v as usize);
        // Where a subsampled plane has half a pixel at an edge of a face, its pixels are repeated.
        let steps = [width.div_ceil(from.width), height.div_ceil(from.height)];
        let fits =
            steps.iter().all(|step| side.is_multiple_of(*step) && (PAD as usize).is_multiple_of(*step));
        let (step, repeat) = if fits { (steps, [1, 1]) } else { ([1, 1], steps) };
        let (sides, pads) = (step.map(|s| side / s), step.map(|s| PAD as usize / s));
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
                    let stored = cell.stored([share(x, sides[0]), share(y, sides[1])]);
                    let index = |at: f64, side: usize| (0.5 * (at + 1.0) * side as f64) as usize;
                    *out = source(
                        index(stored[0], sides[0]).min(sides[0] - 1),
                        index(stored[1], sides[1]).min(sides[1] - 1),
                    );
                }
            }
        }
        for face in Face::ALL {
            frame_of(face, sides, pads, to);
        }
    }
}

/// Fills the frame around a face with what its neighbours show in these directions.
fn frame_of(face: Face, sides: [usize; 2], pads: [usize; 2], plane: &mut Plane) {
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
            let (other, [a, b]) = Face::of(face.direction([at(i, 0), at(j, 1)]));
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

/// Whether what a cross leaves empty is of one brightness, as in a photograph it is not.
#[must_use]
pub fn is_empty_around(faces: &Faces, picture: &Frame) -> bool {
    /// Brightest less darkest: what JPEG leaves of an even colour.
    const EVEN: u8 = 24;
    /// Pixels at the edge of a face, over which JPEG spreads it.
    const EDGE: usize = 16;
    let Some(luma) = picture.planes.first() else {
        return false;
    };
    let (side, columns) = (faces.side as usize, faces.columns as usize);
    let (mut low, mut high) = (u8::MAX, u8::MIN);
    for (place, cell) in faces.cells.iter().enumerate() {
        if cell.is_some() {
            continue;
        }
        let (left, top) = (place % columns * side, place / columns * side);
        for y in (EDGE..side.saturating_sub(EDGE)).step_by(4) {
            let row = &luma.row((top + y) as i32)[left..left + side];
            for &value in row.iter().take(side.saturating_sub(EDGE)).skip(EDGE).step_by(4) {
                (low, high) = (low.min(value), high.max(value));
            }
        }
    }
    low > high || high - low <= EVEN
}

/// The face that the name of a file ends with, and what stands before it.
fn face_of(stem: &str) -> Option<(&str, Face)> {
    let cut = stem.rfind(['_', '-', '.', ' ']).map_or(0, |at| at + 1);
    let word = stem[cut..].to_ascii_lowercase();
    let face = Face::ALL.into_iter().find(|face| face.words().contains(&word.as_str()))?;
    Some((stem[..cut].trim_end_matches(['_', '-', '.', ' ']), face))
}

/// Joins six pictures of faces to a frame each; `None` when the frames are none such. A set that lacks a face is told
/// by its name and that face.
#[must_use]
pub fn sets(frames: &[SourceFrame]) -> Option<Result<Vec<SourceFrame>, (String, &'static str)>> {
    let mut sets: Vec<(&str, [Option<PathBuf>; 6])> = Vec::new();
    for frame in frames {
        let (name, face) = face_of(&frame.stem)?;
        let file = frame.files.first()?.clone();
        match sets.iter_mut().find(|(known, _)| *known == name) {
            Some((_, files)) if files[face as usize].is_some() => return None,
            Some((_, files)) => files[face as usize] = Some(file),
            None => {
                let mut files: [Option<PathBuf>; 6] = Default::default();
                files[face as usize] = Some(file);
                sets.push((name, files));
            }
        }
    }
    if sets.is_empty() {
        return None;
    }
    let whole = sets.into_iter().map(|(name, files)| {
        if let Some(missing) = Face::ALL.into_iter().find(|face| files[*face as usize].is_none()) {
            return Err((name.to_owned(), missing.name()));
        }
        let name = if name.is_empty() { "cube" } else { name };
        Ok(source_frame(name, files.into_iter().flatten().collect()))
    });
    Some(whole.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geometry::View;
    use crate::layout::Layout;

    #[test]
    fn faces_are_the_views_of_a_cube() {
        let views = Layout::Cube6.views(64, 64, None);
        // cube6: front, right, back, left, up, down.
        let faces = [Face::Front, Face::Right, Face::Back, Face::Left, Face::Up, Face::Down];
        for (view, face) in views.iter().zip(faces) {
            for (x, y) in [(0.5, 0.5), (60.0, 3.0), (32.0, 32.0), (10.0, 55.5)] {
                let ray = View::ray_in_panorama(view, x, y);
                let point = [x / 32.0 - 1.0, y / 32.0 - 1.0];
                let direction = face.direction(point);
                assert!(ray.iter().zip(direction).all(|(a, b)| (a - b).abs() < 1e-12), "{}", face.name());
                let (found, at) = Face::of(ray);
                assert_eq!(found, face);
                assert!(at.iter().zip(point).all(|(a, b)| (a - b).abs() < 1e-12));
            }
        }
    }

    #[test]
    fn stored_points_show_what_they_showed_before_they_were_turned() {
        for turns in 0..4 {
            let cell = Cell { face: Face::Front, turns };
            let [x, y, z] = cell.direction(cell.stored([0.25, -0.5]));
            assert_eq!([x, y, z], [0.25, -0.5, 1.0]);
        }
        // A quarter clockwise: what was at the right is at the bottom.
        assert_eq!(Cell { face: Face::Front, turns: 1 }.stored([1.0, 0.0]), [0.0, 1.0]);
    }

    #[test]
    fn neighbours_in_a_cross_are_neighbours_on_the_sphere() {
        for net in [Net::Cross4x3, Net::Cross3x4] {
            let faces = Faces::of_net(net, Order::default(), 10);
            let [columns, rows] = net.grid();
            let at = |x: f64, y: f64| faces.direction(x, y);
            let mut edges = 0;
            for row in 0..rows {
                for column in 0..columns {
                    let (x, y) = (f64::from(10 * column), f64::from(10 * row));
                    for (a, b) in [
                        ([x + 9.999_999, y + 3.0], [x + 10.000_001, y + 3.0]),
                        ([x + 3.0, y + 9.999_999], [x + 3.0, y + 10.000_001]),
                    ] {
                        if let (Some(a), Some(b)) = (at(a[0], a[1]), at(b[0], b[1]))
                            && column < columns
                            && a.iter().zip(b).any(|(a, b)| a != &b)
                        {
                            assert!(a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-5), "{a:?} {b:?}");
                            edges += 1;
                        }
                    }
                }
            }
            assert_eq!(edges, 5, "a net of a cube has five folds");
        }
    }

    #[test]
    fn orders_are_six_letters_each_once() {
        assert_eq!(Order::faces_of("rludfb"), Some(Face::ALL));
        for bad in ["rludf", "rludff", "rludfbx", "abcdef", ""] {
            assert_eq!(Order::faces_of(bad), None, "{bad}");
        }
        assert_eq!(Order::turns_of("012300"), Some([0, 1, 2, 3, 0, 0]));
        assert_eq!(Order::turns_of("012345"), None);
        assert_eq!(Net::of_size([4096, 3072]), Some(Net::Cross4x3));
        assert_eq!(Net::of_size([4096, 2048]), None);
    }

    #[test]
    fn the_frame_of_a_face_shows_what_lies_beyond_its_edge() {
        // A smooth function of the direction, on the faces of a strip with turns: everywhere on the canvas, frames
        // included, it is that of the direction there.
        let side = 96u32;
        let value = |d: [f64; 3]| {
            let n = (d[0] * d[0] + d[1] * d[1] + d[2] * d[2]).sqrt();
            128.0 + 60.0 * d[0] / n + 40.0 * d[1] / n - 25.0 * d[2] / n
        };
        let order = Order { faces: Order::faces_of("bfdulr").unwrap(), turns: [0, 1, 2, 3, 1, 0] };
        for net in Net::ALL {
            let faces = Faces::of_net(net, order, side);
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
            let pitch = (side + 2 * PAD) as usize;
            for face in Face::ALL {
                for j in 0..pitch {
                    for i in 0..pitch {
                        let at = |k: usize| 2.0 * (k as f64 + 0.5 - f64::from(PAD)) / f64::from(side) - 1.0;
                        let wanted = value(face.direction([at(i), at(j)]));
                        let found = f64::from(canvas.row((face as usize * pitch + j) as i32)[i]);
                        assert!((wanted - found).abs() < 1.6, "{net:?} {face:?} {i},{j}: {wanted} {found}");
                    }
                }
            }
        }
    }

    #[test]
    fn files_are_joined_by_the_names_of_faces() {
        let frame = |stem: &str| source_frame(stem, vec![PathBuf::from(format!("{stem}.jpg"))]);
        let names = ["a_right", "a_left", "a_up", "a_down", "a_front", "a_back"];
        let all: Vec<SourceFrame> = names.iter().map(|n| frame(n)).collect();
        let joined = sets(&all).unwrap().unwrap();
        assert_eq!((joined.len(), joined[0].stem.as_str()), (1, "a"));
        assert_eq!(joined[0].files[2], PathBuf::from("a_up.jpg"));
        assert_eq!(sets(&all[..5]).unwrap(), Err(("a".to_owned(), "back")));
        let plain: Vec<SourceFrame> = ["nz", "px", "ny", "py", "pz", "nx"].iter().map(|n| frame(n)).collect();
        assert_eq!(sets(&plain).unwrap().unwrap()[0].files[5], PathBuf::from("nz.jpg"));
        assert!(sets(&[frame("walk_01")]).is_none());
    }
}
