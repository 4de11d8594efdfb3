//! Spatial lists of the objects that a ray can hit, so that no ray tests every object.
//!
//! The lists only leave out objects that cannot contribute; images are bit-identical with and without them.

use gausset_core::{Camera, Pose};

use crate::vec3::Vec3;

/// Index of an object.
pub(crate) type Index = u16;

/// Half the side of the square that a [`ObjectGrid`] covers, in scene units.
const GRID_HALF: f64 = 5.5;
/// Cells along a side of a [`ObjectGrid`].
const GRID_CELLS: usize = 44;
/// Edge of a square of pixels that shares a list of [`TileLists`].
const TILE: usize = 16;

/// Lists of objects over the xy plane.
#[derive(Clone, Debug)]
pub(crate) struct ObjectGrid {
    cells: Vec<Vec<Index>>,
    /// The list outside the grid.
    all: Vec<Index>,
}

impl ObjectGrid {
    /// A grid of discs (centre and radius, one per object): a cell lists the discs that overlap it.
    pub(crate) fn from_discs(discs: &[([f64; 2], f64)]) -> Self {
        let size = 2.0 * GRID_HALF / GRID_CELLS as f64;
        let touches = |cell: usize, &([x, y], radius): &([f64; 2], f64)| {
            let low = |i: usize| i as f64 * size - GRID_HALF;
            let outside = |centre: f64, low: f64| (low - centre).max(centre - low - size).max(0.0);
            let (dx, dy) = (outside(x, low(cell % GRID_CELLS)), outside(y, low(cell / GRID_CELLS)));
            dx * dx + dy * dy <= radius * radius
        };
        let list = |cell| indices(discs, |disc| touches(cell, disc));
        Self { cells: (0..GRID_CELLS * GRID_CELLS).map(list).collect(), all: indices(discs, |_| true) }
    }

    /// The objects whose discs may contain a position.
    pub(crate) fn at(&self, x: f64, y: f64) -> &[Index] {
        let cell = |v: f64| (v + GRID_HALF) * (GRID_CELLS as f64 / (2.0 * GRID_HALF));
        let (column, row) = (cell(x), cell(y));
        let inside = 0.0..GRID_CELLS as f64;
        if !inside.contains(&column) || !inside.contains(&row) {
            return &self.all;
        }
        &self.cells[row as usize * GRID_CELLS + column as usize]
    }
}

fn indices<T>(items: &[T], keep: impl Fn(&T) -> bool) -> Vec<Index> {
    (0..).zip(items).filter(|(_, item)| keep(item)).map(|(index, _)| index).collect()
}

/// Lists of the objects that are visible in each tile of an image.
#[derive(Clone, Debug)]
pub(crate) struct TileLists {
    columns: usize,
    tiles: Vec<Vec<Index>>,
}

impl TileLists {
    /// The lists of an image for objects inside these balls (centre and radius).
    pub(crate) fn new(camera: &Camera, pose: &Pose, balls: &[(Vec3, f64)]) -> Self {
        let bounds: Vec<[[f64; 2]; 2]> = balls
            .iter()
            .map(|&(centre, radius)| {
                let c = pose.apply(centre.array());
                [
                    tangent_range(c[0], c[2], radius).map(|t| camera.fx * t + camera.cx),
                    tangent_range(c[1], c[2], radius).map(|t| camera.fy * t + camera.cy),
                ]
            })
            .collect();
        let (columns, rows) =
            ((camera.width as usize).div_ceil(TILE), (camera.height as usize).div_ceil(TILE));
        let list = |tile: usize| {
            let overlaps = |[low, high]: [f64; 2], tile: usize| {
                low <= ((tile + 1) * TILE) as f64 && high >= (tile * TILE) as f64
            };
            indices(&bounds, |b| overlaps(b[0], tile % columns) && overlaps(b[1], tile / columns))
        };
        Self { columns, tiles: (0..columns * rows).map(list).collect() }
    }

    /// The objects that may be visible in a pixel.
    pub(crate) fn at(&self, column: usize, row: usize) -> &[Index] {
        &self.tiles[row / TILE * self.columns + column / TILE]
    }
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
        let grid = ObjectGrid::from_discs(&[([0.0, 0.0], 0.1), ([2.0, -1.0], 0.5), ([0.3, 0.0], 9.0)]);
        assert_eq!(grid.at(0.05, 0.05), [0, 2]);
        assert_eq!(grid.at(2.4, -1.1), [1, 2]);
        assert_eq!(grid.at(4.0, 4.0), [2]);
        assert_eq!(grid.at(7.0, 0.0), [0, 1, 2]);
    }
}
