//! Spatial lists of the objects that a ray can hit, so that no ray tests every object.
//!
//! The lists only leave out objects that cannot contribute; images are bit-identical with and without them.

use gausset_core::{Camera, Pose};

use crate::vec3::Vec3;
use crate::world::Ray;

/// Index of an object.
pub(crate) type Index = u32;

/// Up to this many objects are tested in their order, without search structures: a grazing ray that ends at the limit
/// of its steps may hit another object in another order, and the images of small scenes must keep their bytes.
pub(crate) const FEW: usize = 100;
/// Above this many candidates, a ray searches the cells that it passes instead.
pub(crate) const MANY: usize = 40;
/// Edge of a square of pixels that shares a list of [`TileLists`].
const TILE: usize = 16;

/// The square around the origin that an [`ObjectGrid`] divides.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct GridSize {
    /// Half its side, in scene units.
    pub(crate) half: f64,
    /// Cells along a side.
    pub(crate) cells: usize,
}

/// Lists of objects over the xy plane.
#[derive(Clone, Debug)]
pub(crate) struct ObjectGrid {
    size: GridSize,
    cells: Vec<Vec<Index>>,
    /// The objects that reach beyond the square.
    outside: Vec<Index>,
}

impl ObjectGrid {
    /// A grid of discs (centre and radius, one per object): a cell lists the discs that overlap it.
    pub(crate) fn from_discs(size: GridSize, discs: &[([f64; 2], f64)]) -> Self {
        let GridSize { half, cells: count } = size;
        let edge = 2.0 * half / count as f64;
        let mut cells = vec![Vec::new(); count * count];
        let from_interval = |centre: f64, cell: usize| {
            let low = cell as f64 * edge - half;
            (low - centre).max(centre - low - edge).max(0.0)
        };
        // A cell more on each side, because the division may round.
        let range = |centre: f64, radius: f64| {
            let cell = |v: f64| ((v + half) / edge).clamp(0.0, count as f64) as usize;
            cell(centre - radius).saturating_sub(1)..(cell(centre + radius) + 2).min(count)
        };
        for (index, &([x, y], radius)) in (0..).zip(discs) {
            for row in range(y, radius) {
                let dy = from_interval(y, row);
                for column in range(x, radius) {
                    let dx = from_interval(x, column);
                    if dx * dx + dy * dy <= radius * radius {
                        cells[row * count + column].push(index);
                    }
                }
            }
        }
        let reaches_out = |&([x, y], radius): &([f64; 2], f64)| x.abs().max(y.abs()) + radius > half;
        Self { size, cells, outside: indices(discs, reaches_out) }
    }

    /// The objects whose discs may contain a position.
    pub(crate) fn at(&self, x: f64, y: f64) -> &[Index] {
        let [column, row] = [x, y].map(|v| self.in_cells(v));
        let inside = 0.0..self.size.cells as f64;
        if !inside.contains(&column) || !inside.contains(&row) {
            return &self.outside;
        }
        &self.cells[row as usize * self.size.cells + column as usize]
    }

    /// A coordinate in cells from the low side.
    fn in_cells(&self, v: f64) -> f64 {
        (v + self.size.half) * (self.size.cells as f64 / (2.0 * self.size.half))
    }

    /// Calls `visit` with the lists that a ray passes, in order, as long as it returns a distance that is beyond the
    /// next list's (Amanatides and Woo 1987, "A fast voxel traversal algorithm for ray tracing").
    /// The walk ends at `limit`.
    pub(crate) fn walk(&self, ray: &Ray, limit: f64, mut visit: impl FnMut(&[Index]) -> f64) {
        let mut end = visit(&self.outside).min(limit);
        let count = self.size.cells as f64;
        let per_unit = count / (2.0 * self.size.half);
        let start = [self.in_cells(ray.origin.x), self.in_cells(ray.origin.y)];
        let slope = [ray.direction.x * per_unit, ray.direction.y * per_unit];
        // The part of the ray over the square.
        let mut enter = 0.0f64;
        for axis in 0..2 {
            let (a, b) = (-start[axis] / slope[axis], (count - start[axis]) / slope[axis]);
            if slope[axis] == 0.0 {
                if !(0.0..count).contains(&start[axis]) {
                    return;
                }
                continue;
            }
            (enter, end) = (enter.max(a.min(b)), end.min(a.max(b)));
        }
        let place = |axis: usize| (start[axis] + enter * slope[axis]).clamp(0.0, count - 1.0) as usize;
        let mut cell = [place(0), place(1)];
        while enter <= end {
            end = end.min(visit(&self.cells[cell[1] * self.size.cells + cell[0]]));
            let leave = |axis: usize| {
                let border = cell[axis] as f64 + f64::from(u8::from(slope[axis] > 0.0));
                if slope[axis] == 0.0 { f64::INFINITY } else { (border - start[axis]) / slope[axis] }
            };
            let [x, y] = [leave(0), leave(1)];
            let axis = usize::from(y < x);
            enter = x.min(y);
            let next = if slope[axis] > 0.0 { cell[axis] + 1 } else { cell[axis].wrapping_sub(1) };
            if next >= self.size.cells {
                return;
            }
            cell[axis] = next;
        }
    }
}

fn indices<T>(items: &[T], keep: impl Fn(&T) -> bool) -> Vec<Index> {
    (0..).zip(items).filter(|(_, item)| keep(item)).map(|(index, _)| index).collect()
}

/// An object that a ray can hit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Candidate {
    /// The object.
    pub(crate) index: Index,
    /// Distance from the eye that the object is at least away.
    pub(crate) near: f64,
}

/// Lists of the objects that are visible in each tile of an image, the nearest first if they are more than [`FEW`].
#[derive(Clone, Debug)]
pub(crate) struct TileLists {
    columns: usize,
    tiles: Vec<Vec<Candidate>>,
}

impl TileLists {
    /// The lists of an image for objects inside these balls (centre and radius).
    pub(crate) fn new(
        camera: &Camera,
        pose: &Pose,
        balls: impl ExactSizeIterator<Item = (Vec3, f64)>,
    ) -> Self {
        let few = balls.len() <= FEW;
        let (columns, rows) =
            ((camera.width as usize).div_ceil(TILE), (camera.height as usize).div_ceil(TILE));
        let mut tiles = vec![Vec::new(); columns * rows];
        for (index, (centre, radius)) in (0..).zip(balls) {
            let c = Vec3::from(pose.apply(centre.array()));
            if is_outside(camera, c, radius) {
                continue;
            }
            let across = tangent_range(c.x, c.z, radius).map(|t| camera.fx * t + camera.cx);
            let down = tangent_range(c.y, c.z, radius).map(|t| camera.fy * t + camera.cy);
            let near = if few { f64::NEG_INFINITY } else { c.length() - radius };
            let candidate = Candidate { index, near };
            for row in tile_range(down, rows) {
                for column in tile_range(across, columns) {
                    tiles[row * columns + column].push(candidate);
                }
            }
        }
        for tile in &mut tiles {
            tile.sort_by(|a, b| a.near.total_cmp(&b.near));
        }
        Self { columns, tiles }
    }

    /// The objects that may be visible in a pixel.
    pub(crate) fn at(&self, column: usize, row: usize) -> &[Candidate] {
        &self.tiles[row / TILE * self.columns + column / TILE]
    }
}

/// Whether a ball is behind the camera or beyond an edge of its image.
fn is_outside(camera: &Camera, c: Vec3, radius: f64) -> bool {
    // Signed distance from the plane through the eye and an edge, times the length of the plane's normal.
    let beyond = |x: f64, slope: f64| x - slope * c.z > radius * (1.0 + slope * slope).sqrt();
    let (width, height) = (f64::from(camera.width), f64::from(camera.height));
    c.z < -radius
        || beyond(c.x, (width - camera.cx) / camera.fx)
        || beyond(-c.x, camera.cx / camera.fx)
        || beyond(c.y, (height - camera.cy) / camera.fy)
        || beyond(-c.y, camera.cy / camera.fy)
}

/// The tiles, of `count`, that an interval of pixels overlaps.
fn tile_range([low, high]: [f64; 2], count: usize) -> std::ops::Range<usize> {
    let tile = |px: f64| (px / TILE as f64).floor().clamp(-1.0, count as f64);
    // An interval that ends on the border of a tile belongs to both.
    let first = (tile(low) - f64::from(u8::from(low % TILE as f64 == 0.0))).max(0.0);
    first as usize..(tile(high) + 1.0).min(count as f64) as usize
}

/// Minimum and maximum `x / z` of a disc with its centre at (x, z): the tangents through the origin.
fn tangent_range(x: f64, z: f64, radius: f64) -> [f64; 2] {
    let tangent = x * x + z * z - radius * radius;
    // Contains the eye or is partly behind it: unbounded.
    if tangent <= 0.0 || z <= radius {
        return [f64::NEG_INFINITY, f64::INFINITY];
    }
    // tan(atan(x / z) ± asin(radius / distance)).
    let k = tangent.sqrt();
    [(x * k - z * radius) / (z * k + x * radius), (x * k + z * radius) / (z * k - x * radius)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tangents_touch_the_disc() {
        let (x, z, radius) = (0.7, 3.0, 0.9);
        for t in tangent_range(x, z, radius) {
            // Distance of the centre from the line through the origin with slope t.
            assert!(((x - t * z).abs() / (1.0 + t * t).sqrt() - radius).abs() < 1e-12);
        }
        assert_eq!(tangent_range(0.0, 0.5, 0.9), [f64::NEG_INFINITY, f64::INFINITY]);
    }

    #[test]
    fn a_cell_lists_the_discs_that_reach_into_it() {
        let size = GridSize { half: 5.5, cells: 44 };
        let grid = ObjectGrid::from_discs(size, &[([0.0, 0.0], 0.1), ([2.0, -1.0], 0.5), ([0.3, 0.0], 9.0)]);
        assert_eq!(grid.at(0.05, 0.05), [0, 2]);
        assert_eq!(grid.at(2.4, -1.1), [1, 2]);
        assert_eq!(grid.at(4.0, 4.0), [2]);
        assert_eq!(grid.at(7.0, 0.0), [2]);
    }

    #[test]
    fn a_ray_walks_through_every_cell_below_it_in_order() {
        let size = GridSize { half: 4.0, cells: 8 };
        // A small disc in the middle of each cell.
        let discs: Vec<_> =
            (0..64).map(|i| ([f64::from(i % 8) - 3.5, f64::from(i / 8) - 3.5], 0.1)).collect();
        let grid = ObjectGrid::from_discs(size, &discs);
        let passed = |origin: [f64; 2], to: [f64; 2], end: f64| {
            let origin = Vec3 { x: origin[0], y: origin[1], z: 1.0 };
            let direction = (Vec3 { x: to[0], y: to[1], z: 1.0 } - origin).normalised();
            let mut cells = Vec::new();
            grid.walk(&Ray { origin, direction }, f64::INFINITY, |list| {
                cells.extend_from_slice(list);
                end
            });
            cells
        };
        assert_eq!(passed([-9.0, -3.5], [9.0, -3.5], 99.0), [0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(passed([2.5, 9.0], [2.5, -9.0], 99.0), [62, 54, 46, 38, 30, 22, 14, 6]);
        assert_eq!(passed([-3.9, -3.7], [-1.2, -1.0], 99.0)[..5], [0, 8, 9, 17, 18]);
        assert_eq!(passed([-3.5, -3.5], [9.0, -3.5], 2.2), [0, 1, 2]);
        assert_eq!(passed([9.0, 9.0], [9.0, -9.0], 99.0), [0; 0]);
    }
}
