//! Symmetric positive definite systems of thousands of unknowns: Cholesky factorisation in tiles, on all threads.
//!
//! A row of tiles begins with its first tile that is not zero; tiles before it stay zero and are not kept (envelope
//! method, George and Liu 1981). Columns are eliminated from left to right, the rows below a column in parallel. Every
//! sum has a fixed order, so results do not depend on the number of threads or the SIMD level.

use gausset_compute::{Exec, at_level};

/// Rows and columns of a tile: a multiple of the parameters of a pose and of a camera.
pub(super) const TILE: usize = 48;
/// A tile by rows, then columns.
pub(super) type Tile = [[f64; TILE]; TILE];

/// Tiles of a row from the first that is not zero to the diagonal.
#[derive(Clone, Debug)]
pub(super) struct TileRow {
    first: usize,
    tiles: Vec<Tile>,
}

impl TileRow {
    /// The tile of a column of tiles; it must not be left of the first.
    pub(super) fn tile_mut(&mut self, column: usize) -> &mut Tile {
        &mut self.tiles[column - self.first]
    }

    fn tile(&self, column: usize) -> &Tile {
        &self.tiles[column - self.first]
    }
}

/// The lower triangle of a symmetric matrix.
#[derive(Clone, Debug)]
pub(super) struct TiledMatrix {
    size: usize,
    pub(super) rows: Vec<TileRow>,
}

impl TiledMatrix {
    /// Zeros, with the first tile of each row of tiles.
    pub(super) fn new(size: usize, first: &[usize]) -> Self {
        let row = |(at, &first): (usize, &usize)| TileRow {
            first: first.min(at),
            tiles: vec![[[0.0; TILE]; TILE]; at + 1 - first.min(at)],
        };
        Self { size, rows: first.iter().enumerate().map(row).collect() }
    }

    /// Solves `self x = b` in place; `false` if the matrix is not positive definite. The matrix becomes its factor.
    pub(super) fn solve(&mut self, b: &mut [f64], exec: Exec<'_>) -> bool {
        if !self.factorise(exec) {
            return false;
        }
        let size = self.size;
        for i in 0..size {
            let row = &self.rows[i / TILE];
            let mut rest = b[i];
            for column in row.first..=i / TILE {
                let from = column * TILE;
                let values = &row.tile(column)[i % TILE];
                let count = TILE.min(i - from);
                rest -= values[..count].iter().zip(&b[from..from + count]).map(|(l, x)| l * x).sum::<f64>();
            }
            b[i] = rest / row.tile(i / TILE)[i % TILE][i % TILE];
        }
        for i in (0..size).rev() {
            let row = &self.rows[i / TILE];
            b[i] /= row.tile(i / TILE)[i % TILE][i % TILE];
            let x = b[i];
            for column in row.first..=i / TILE {
                let from = column * TILE;
                let count = TILE.min(i - from);
                for (value, l) in b[from..from + count].iter_mut().zip(&row.tile(column)[i % TILE]) {
                    *value -= l * x;
                }
            }
        }
        true
    }

    fn factorise(&mut self, exec: Exec<'_>) -> bool {
        // The last tile may have rows of no unknown.
        for i in self.size..self.rows.len() * TILE {
            self.rows[i / TILE].tile_mut(i / TILE)[i % TILE][i % TILE] = 1.0;
        }
        for column in 0..self.rows.len() {
            let (above, below) = self.rows.split_at_mut(column + 1);
            let pivot = &mut above[column];
            let panel: Vec<Tile> = pivot.tiles.iter().map(transposed).collect();
            let Some((diagonal, left)) = pivot.tiles.split_last_mut() else { return false };
            at_level!(exec.level, _simd => {
                for (tile, across) in left.iter().zip(&panel) {
                    subtract_product(diagonal, tile, across);
                }
            });
            if !factorise_tile(diagonal) {
                return false;
            }
            let (first, factor) = (pivot.first, transposed(pivot.tile(column)));
            exec.pool.run_parts(below, |_, row| {
                if row.first <= column {
                    at_level!(exec.level, _simd => eliminate(row, column, &panel, first, &factor));
                }
            });
        }
        true
    }
}

/// Finishes the tile of a column: subtracts what the columns before contribute, and solves with the factor of the
/// diagonal tile. `panel` is the row of the diagonal tile from its first tile on; it and the factor are transposed.
#[inline(always)]
fn eliminate(row: &mut TileRow, column: usize, panel: &[Tile], first: usize, factor: &Tile) {
    let from = row.first.max(first);
    let (done, rest) = row.tiles.split_at_mut(column - row.first);
    let Some(tile) = rest.first_mut() else { return };
    for (own, across) in done[from - row.first..].iter().zip(&panel[from - first..]) {
        subtract_product(tile, own, across);
    }
    for values in tile.iter_mut() {
        for k in 0..TILE {
            values[k] /= factor[k][k];
            let x = values[k];
            for (value, l) in values[k + 1..].iter_mut().zip(&factor[k][k + 1..]) {
                *value -= x * l;
            }
        }
    }
}

/// `c -= a b`; the sum over a tile is complete before it is subtracted.
#[inline(always)]
fn subtract_product(c: &mut Tile, a: &Tile, b: &Tile) {
    /// Rows and columns of the sums that are in registers.
    const ROWS: usize = 4;
    const COLUMNS: usize = 8;
    for (c, a) in c.as_chunks_mut::<ROWS>().0.iter_mut().zip(a.as_chunks::<ROWS>().0) {
        for j in (0..TILE).step_by(COLUMNS) {
            let mut sums = [[0.0; COLUMNS]; ROWS];
            for (k, b) in b.iter().enumerate() {
                for (sums, a) in sums.iter_mut().zip(a) {
                    for l in 0..COLUMNS {
                        sums[l] += a[k] * b[j + l];
                    }
                }
            }
            for (c, sums) in c.iter_mut().zip(&sums) {
                for l in 0..COLUMNS {
                    c[j + l] -= sums[l];
                }
            }
        }
    }
}

fn transposed(tile: &Tile) -> Tile {
    let mut out = [[0.0; TILE]; TILE];
    for (i, row) in tile.iter().enumerate() {
        for (j, value) in row.iter().enumerate() {
            out[j][i] = *value;
        }
    }
    out
}

/// Cholesky factor of a tile, lower triangle; `false` if it is not definite.
fn factorise_tile(tile: &mut Tile) -> bool {
    for i in 0..TILE {
        for j in 0..=i {
            let sum: f64 = (0..j).map(|k| tile[i][k] * tile[j][k]).sum();
            let rest = tile[i][j] - sum;
            if j < i {
                tile[i][j] = rest / tile[j][j];
            } else if rest.is_nan() || rest <= 0.0 {
                return false;
            } else {
                tile[i][i] = libm::sqrt(rest);
            }
        }
        // What is right of the diagonal belongs to no one.
        tile[i][i + 1..].fill(0.0);
    }
    true
}

#[cfg(test)]
mod tests {
    use gausset_compute::rng::philox4x32;
    use gausset_compute::{Pool, SimdLevel, dispatch_level};

    use super::*;

    /// A definite matrix of 130 unknowns whose third row of tiles begins with its second tile.
    fn system() -> (TiledMatrix, Vec<f64>, Vec<f64>) {
        let (n, first) = (130, [0, 0, 1]);
        let random = |i: usize, j: usize| {
            f64::from(philox4x32([i as u32, j as u32, 0, 0], [3, 9])[0]) / f64::from(u32::MAX) - 0.5
        };
        let entry = |i: usize, j: usize| match (i == j, j / TILE < first[i / TILE]) {
            (true, _) => 40.0,
            (_, true) => 0.0,
            _ => random(i, j),
        };
        let x: Vec<f64> = (0..n).map(|k| random(k, 1000)).collect();
        let full = |i: usize, j: usize| if i < j { entry(j, i) } else { entry(i, j) };
        let b = (0..n).map(|i| (0..n).map(|j| full(i, j) * x[j]).sum()).collect();
        let mut matrix = TiledMatrix::new(n, &first);
        for i in 0..n {
            for j in first[i / TILE] * TILE..=i {
                matrix.rows[i / TILE].tile_mut(j / TILE)[i % TILE][j % TILE] = entry(i, j);
            }
        }
        (matrix, x, b)
    }

    #[test]
    fn a_system_is_solved_with_the_same_bytes_on_any_threads_and_levels() {
        let (matrix, x, b) = system();
        let mut results = Vec::new();
        for threads in [1, 3] {
            let pool = Pool::new(threads);
            for level in SimdLevel::ALL.into_iter().filter_map(dispatch_level) {
                let mut found = b.clone();
                assert!(matrix.clone().solve(&mut found, Exec { pool: &pool, level }));
                assert!(found.iter().zip(&x).all(|(a, b)| (a - b).abs() < 1e-12), "{found:?}");
                results.push(found);
            }
        }
        assert!(results.iter().all(|found| found == &results[0]));
    }

    #[test]
    fn a_matrix_that_is_not_definite_is_refused() {
        let pool = Pool::new(1);
        for (at, value) in [(0, -1.0), (129, -1.0), (60, f64::NAN)] {
            let (mut matrix, _, mut b) = system();
            matrix.rows[at / TILE].tile_mut(at / TILE)[at % TILE][at % TILE] = value;
            assert!(!matrix.solve(&mut b, Exec::best(&pool)), "{at}");
        }
    }
}
