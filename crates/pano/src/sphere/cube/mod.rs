//! The sphere on the six faces of a cube: in one image (a cross or a strip), or in six images.
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
//! The faces match the 90-degree views of [`crate::sphere::layout::Layout::Cube6`] and ffmpeg's filter `v360` (compared in
//! `tests/cubes.rs`). A face may be stored rotated clockwise by quarter turns, as `v360` allows.
//!
//! As a source of views, a cube is *folded* (`fold`).

mod fold;

pub use fold::{Cube, FACE_PADDING};

/// Largest face, px: rows of the canvas are counted in 16 bits.
pub const MAX_FACE_SIDE: u32 = 8192;

/// A face of the cube, in the order of ffmpeg's letters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Face {
    /// To the right.
    Right,
    /// To the left.
    Left,
    /// Straight up, with the front below it.
    Up,
    /// Straight down, with the front above it.
    Down,
    /// Straight ahead.
    Front,
    /// Straight back.
    Back,
}

impl Face {
    /// All faces, in the order `rludfb`.
    pub const ALL: [Self; 6] = [Self::Right, Self::Left, Self::Up, Self::Down, Self::Front, Self::Back];

    /// Stable name, as used in options and files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.file_words()[0]
    }

    /// Words in file names that denote this face: its name and common alternatives.
    pub(crate) const fn file_words(self) -> [&'static str; 4] {
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

    /// The face that a direction hits, and the position on it.
    #[must_use]
    pub fn from_direction(direction: [f64; 3]) -> (Self, [f64; 2]) {
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

/// A stored face, rotated clockwise by quarter turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    /// The face.
    pub face: Face,
    /// Quarter turns, 0 to 3.
    pub turns: u8,
}

impl Cell {
    /// The stored position of a point of the face.
    fn to_stored(self, [a, b]: [f64; 2]) -> [f64; 2] {
        match self.turns % 4 {
            0 => [a, b],
            1 => [-b, a],
            2 => [-a, -b],
            _ => [b, -a],
        }
    }

    /// Direction of a stored position.
    #[must_use]
    pub fn direction(self, stored: [f64; 2]) -> [f64; 3] {
        let back = Self { turns: (4 - self.turns % 4) % 4, ..self };
        self.face.direction(back.to_stored(stored))
    }
}

/// Arrangement of the six faces in one image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CubeLayout {
    /// A cross, 4 faces wide and 3 high: left, front, right, back; up above and down below the front.
    Cross4x3,
    /// A cross, 3 faces wide and 4 high: left, front, right; up above the front, below it down and, upside down, back.
    Cross3x4,
    /// One row.
    Strip6x1,
    /// One column.
    Strip1x6,
    /// Two rows of three.
    Strip3x2,
    /// Three rows of two.
    Strip2x3,
}

impl CubeLayout {
    /// All arrangements.
    pub const ALL: [Self; 6] =
        [Self::Cross4x3, Self::Cross3x4, Self::Strip6x1, Self::Strip1x6, Self::Strip3x2, Self::Strip2x3];

    /// Number of columns and rows.
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

    /// Name, such as `4x3`.
    #[must_use]
    pub fn name(self) -> String {
        let [columns, rows] = self.grid();
        format!("{columns}x{rows}")
    }

    /// The arrangement with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|net| net.name() == name)
    }

    /// Whether it has empty cells.
    #[must_use]
    pub const fn is_cross(self) -> bool {
        matches!(self, Self::Cross4x3 | Self::Cross3x4)
    }

    /// The arrangement whose aspect ratio is that of an image of this size.
    #[must_use]
    pub fn from_size([width, height]: [u32; 2]) -> Option<Self> {
        Self::ALL.into_iter().find(|net| {
            let [columns, rows] = net.grid().map(u64::from);
            width > 0 && u64::from(width) * rows == u64::from(height) * columns
        })
    }
}

/// Order and rotation of the faces in a strip: ffmpeg's `forder` and `frot`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StripOrder {
    /// The faces, row by row.
    pub faces: [Face; 6],
    /// Clockwise quarter turns of the stored face in each cell.
    pub turns: [u8; 6],
}

impl Default for StripOrder {
    fn default() -> Self {
        Self { faces: Face::ALL, turns: [0; 6] }
    }
}

impl StripOrder {
    /// Parses six of the letters `rludfb`, each used once.
    #[must_use]
    pub fn parse_faces(text: &str) -> Option<[Face; 6]> {
        let mut faces = [Face::Right; 6];
        let mut seen = Vec::new();
        for (place, letter) in text.chars().enumerate() {
            let face = Face::ALL.into_iter().find(|face| face.file_words()[1].starts_with(letter))?;
            if seen.contains(&face) {
                return None;
            }
            *faces.get_mut(place)? = face;
            seen.push(face);
        }
        (seen.len() == 6).then_some(faces)
    }

    /// Parses six digits from 0 to 3.
    #[must_use]
    pub fn parse_turns(text: &str) -> Option<[u8; 6]> {
        let turns: Vec<u8> = text.bytes().map(|b| b.wrapping_sub(b'0')).collect();
        turns.try_into().ok().filter(|turns: &[u8; 6]| turns.iter().all(|&turn| turn < 4))
    }
}

/// A grid of square cells with faces.
#[derive(Clone, Debug, PartialEq)]
pub struct Faces {
    /// Side of a face, px.
    pub side: u32,
    /// Number of columns.
    pub columns: u32,
    /// The face in each cell, row by row; `None` = empty.
    pub cells: Vec<Option<Cell>>,
}

impl Faces {
    /// The faces of an arrangement. `order` applies to strips; a cross has a fixed order.
    #[must_use]
    pub fn new(net: CubeLayout, order: StripOrder, side: u32) -> Self {
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
            if net == CubeLayout::Cross4x3 {
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

    /// A single face.
    #[must_use]
    pub fn single(face: Face, side: u32) -> Self {
        Self { side, columns: 1, cells: vec![Some(Cell { face, turns: 0 })] }
    }

    /// Size of the image, px.
    #[must_use]
    pub fn size(&self) -> [u32; 2] {
        [self.columns * self.side, self.cells.len() as u32 / self.columns * self.side]
    }

    /// Text form: grid, letters and rotations, row by row; `.` for an empty cell.
    #[must_use]
    pub fn to_text(&self) -> String {
        let rows = self.cells.len() as u32 / self.columns;
        let mut text = format!("{}x{rows} ", self.columns);
        text.extend(self.cells.iter().map(|cell| cell.map_or(".", |cell| cell.face.file_words()[1])));
        text.push(' ');
        text.extend(
            self.cells.iter().map(|cell| cell.map_or_else(|| ".".to_owned(), |c| c.turns.to_string())),
        );
        text
    }

    /// The direction of a continuous point of the image; `None` in an empty cell.
    #[must_use]
    pub fn direction(&self, x: f64, y: f64) -> Option<[f64; 3]> {
        let side = f64::from(self.side);
        let (column, row) = ((x / side) as usize, (y / side) as usize);
        let cell = (*self.cells.get(row * self.columns as usize + column)?)?;
        let within = |at: f64, place: usize| 2.0 * (at / side - place as f64) - 1.0;
        Some(cell.direction([within(x, column), within(y, row)]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sphere::geometry::View;
    use crate::sphere::layout::Layout;

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
                let (found, at) = Face::from_direction(ray);
                assert_eq!(found, face);
                assert!(at.iter().zip(point).all(|(a, b)| (a - b).abs() < 1e-12));
            }
        }
    }

    #[test]
    fn stored_points_show_what_they_showed_before_they_were_turned() {
        for turns in 0..4 {
            let cell = Cell { face: Face::Front, turns };
            let [x, y, z] = cell.direction(cell.to_stored([0.25, -0.5]));
            assert_eq!([x, y, z], [0.25, -0.5, 1.0]);
        }
        // A quarter clockwise: what was at the right is at the bottom.
        assert_eq!(Cell { face: Face::Front, turns: 1 }.to_stored([1.0, 0.0]), [0.0, 1.0]);
    }

    #[test]
    fn neighbours_in_a_cross_are_neighbours_on_the_sphere() {
        for net in [CubeLayout::Cross4x3, CubeLayout::Cross3x4] {
            let faces = Faces::new(net, StripOrder::default(), 10);
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
        assert_eq!(StripOrder::parse_faces("rludfb"), Some(Face::ALL));
        for bad in ["rludf", "rludff", "rludfbx", "abcdef", ""] {
            assert_eq!(StripOrder::parse_faces(bad), None, "{bad}");
        }
        assert_eq!(StripOrder::parse_turns("012300"), Some([0, 1, 2, 3, 0, 0]));
        assert_eq!(StripOrder::parse_turns("012345"), None);
        assert_eq!(CubeLayout::from_size([4096, 3072]), Some(CubeLayout::Cross4x3));
        assert_eq!(CubeLayout::from_size([4096, 2048]), None);
        let strip = StripOrder { turns: [0, 1, 2, 3, 0, 0], ..StripOrder::default() };
        assert_eq!(Faces::new(CubeLayout::Strip3x2, strip, 8).to_text(), "3x2 rludfb 012300");
        assert_eq!(Faces::new(CubeLayout::Cross3x4, strip, 8).to_text(), "3x4 .u.lfr.d..b. .0.000.0..2.");
    }
}
