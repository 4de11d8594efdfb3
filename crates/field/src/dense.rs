//! Stage `forward`, dense: every Gaussian at every point; lanes are points.
//!
//! ```text
//! for a tile of 256 Gaussians (13 KB, first-level cache)
//!   for a register block of four vectors of points
//!     for a Gaussian of the tile (or for a group of them, in two loops): broadcast its numbers
//!       d = x - µ;  v = A' d;  q = |v|²                              9 multiply-adds
//!       f += w 2^-q                                                  4 (see `real`)
//! ```
//! Each operation is applied to all vectors of the block before the next one; with 16 registers in two loops with `q`
//! in a buffer between them. The dependency chain from `x` to `f` is 60 cycles long, and a CPU with a reorder window of
//! fifty operations would stall on it.
//!
//! The difference `x - µ` comes first, because expanding the square loses half of the digits far from the origin. Sums
//! run over the Gaussians of a tile, then over the tiles, for each point separately. Threads divide the points, so
//! their number does not change a bit of the result.
//!
//! Gradient: `-Σ w G p`, Hessian: `Σ w G (p pᵀ - S⁻¹)` with `p = A'ᵀ v / k²`. `w G` is formed before it is multiplied
//! by `p`: distant points have a `p pᵀ` that overflows, and `0 · inf` is not 0.

use fearless_simd::prelude::*;
use gausset_compute::{Exec, at_level};

use crate::packed::record_index::{A00, A10, A11, A20, A21, A22};
use crate::packed::{PointRows, Term};
use crate::real::{INV_K2, Lanes, Real};

/// Gaussians per tile.
const TILE: usize = 256;

/// Vectors of points that stay in registers while the kernel loops over the Gaussians.
const VECTORS: usize = 4;

/// Largest number of points per task.
const TASK_POINTS: usize = 1024;

/// Order of derivatives that is computed at each point: the rows of the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DerivativeOrder {
    /// f.
    Value,
    /// f, ∂x, ∂y, ∂z.
    Gradient,
    /// f, ∂x, ∂y, ∂z, ∂xx, ∂yx, ∂yy, ∂zx, ∂zy, ∂zz.
    Hessian,
}

impl DerivativeOrder {
    /// Number of rows of the result.
    pub(crate) const fn rows(self) -> usize {
        match self {
            Self::Value => 1,
            Self::Gradient => 4,
            Self::Hessian => 10,
        }
    }
}

/// Evaluates a field at points: `order.rows()` rows of `points.padded()` numbers each.
pub(crate) fn forward<T: Real>(
    exec: Exec<'_>,
    terms: &[Term<T>],
    points: &PointRows<T>,
    order: DerivativeOrder,
) -> Vec<Vec<T>> {
    let padded = points.padded();
    let mut rows = vec![vec![T::ZERO; padded]; order.rows()];
    let block = PointRows::<T>::PADDED;
    let share = padded.div_ceil(4 * exec.pool.threads()).next_multiple_of(block);
    let task = share.clamp(block, TASK_POINTS);
    let mut parts: Vec<Vec<&mut [T]>> = (0..padded.div_ceil(task)).map(|_| Vec::new()).collect();
    for row in &mut rows {
        for (part, piece) in parts.iter_mut().zip(row.chunks_mut(task)) {
            part.push(piece);
        }
    }
    exec.pool.run_parts(&mut parts, |index, out| {
        let first = index * task;
        let count = (padded - first).min(task);
        let points: [&[T]; 3] = [0, 1, 2].map(|k| &points.axis[k][first..first + count]);
        at_level!(exec.level, simd => chunk(simd, terms, points, order, out));
    });
    rows
}

#[inline(always)]
fn chunk<T: Real, S: Lanes>(
    simd: S,
    terms: &[Term<T>],
    points: [&[T]; 3],
    order: DerivativeOrder,
    out: &mut [&mut [T]],
) {
    let width = T::V::<S>::LEN;
    for tile in terms.chunks(TILE) {
        let term = gausset_compute::simd::inline_closure(
            #[inline(always)]
            |i: usize| &tile[i],
        );
        let mut at = 0;
        while at < points[0].len() {
            match order {
                DerivativeOrder::Value if S::GROUP == 1 => {
                    values::<T, S, VECTORS, 1>(simd, tile.len(), term, points, at, out);
                }
                DerivativeOrder::Value => {
                    values::<T, S, VECTORS, 32>(simd, tile.len(), term, points, at, out)
                }
                DerivativeOrder::Gradient => gradients::<T, S, 1>(simd, tile.len(), term, points, at, out),
                DerivativeOrder::Hessian => hessians::<T, S>(simd, tile, points, at, out),
            }
            at += if order == DerivativeOrder::Value { VECTORS * width } else { width };
        }
    }
}

#[inline(always)]
fn splat<T: Real, S: Lanes>(simd: S, value: T) -> T::V<S> {
    T::V::<S>::splat(simd, value)
}

#[inline(always)]
fn load<T: Real, S: Lanes>(simd: S, row: &[T], at: usize) -> T::V<S> {
    T::V::<S>::from_slice(simd, &row[at..at + T::V::<S>::LEN])
}

/// Adds a vector to a row.
#[inline(always)]
fn add<T: Real, S: Lanes>(simd: S, row: &mut [T], at: usize, value: T::V<S>) {
    let row = &mut row[at..at + T::V::<S>::LEN];
    (T::V::<S>::from_slice(simd, row) + value).store_slice(row);
}

/// `v = A' d` for a Gaussian and a vector of points; `g` begins with mean and inverse factor.
#[inline(always)]
pub(crate) fn whitened<T: Real, S: Lanes>(simd: S, g: &[T::V<S>], x: [T::V<S>; 3]) -> [T::V<S>; 3] {
    let d = [x[0] - g[0], x[1] - g[1], x[2] - g[2]];
    let v0 = g[A00] * d[0];
    let v1 = T::fma(simd, g[A11], d[1], g[A10] * d[0]);
    let v2 = T::fma(simd, g[A22], d[2], T::fma(simd, g[A21], d[1], g[A20] * d[0]));
    [v0, v1, v2]
}

/// `|v|²`.
#[inline(always)]
pub(crate) fn square<T: Real, S: Lanes>(simd: S, v: [T::V<S>; 3]) -> T::V<S> {
    T::fma(simd, v[2], v[2], T::fma(simd, v[1], v[1], v[0] * v[0]))
}

/// The first nine numbers of a term, broadcast to all lanes.
#[inline(always)]
fn shape<T: Real, S: Lanes>(simd: S, term: &Term<T>) -> [T::V<S>; 9] {
    let mut out = [splat::<T, S>(simd, term[0]); 9];
    for i in 1..9 {
        out[i] = splat::<T, S>(simd, term[i]);
    }
    out
}

/// The coefficients of a term, broadcast to all lanes.
#[inline(always)]
fn coefficients<T: Real, S: Lanes>(simd: S, term: &Term<T>) -> [T::V<S>; 4] {
    let mut out = [splat::<T, S>(simd, term[9]); 4];
    for i in 1..4 {
        out[i] = splat::<T, S>(simd, term[9 + i]);
    }
    out
}

/// `q` of a Gaussian at vectors of points: same as [`whitened`] and [`square`], with each operation applied to all
/// vectors at a time.
#[inline(always)]
fn squares<T: Real, S: Lanes, const P: usize>(
    simd: S,
    term: &Term<T>,
    x: &[[T::V<S>; 3]; P],
) -> [T::V<S>; P] {
    let g = shape::<T, S>(simd, term);
    let mut d = *x;
    for p in 0..P {
        for k in 0..3 {
            d[p][k] = x[p][k] - g[k];
        }
    }
    let mut v = d;
    for p in 0..P {
        v[p] = [g[A00] * d[p][0], g[A10] * d[p][0], g[A20] * d[p][0]];
    }
    let mut q = [splat::<T, S>(simd, T::ZERO); P];
    for p in 0..P {
        v[p][1] = T::fma(simd, g[A11], d[p][1], v[p][1]);
        v[p][2] = T::fma(simd, g[A21], d[p][1], v[p][2]);
        q[p] = v[p][0] * v[p][0];
    }
    for p in 0..P {
        v[p][2] = T::fma(simd, g[A22], d[p][2], v[p][2]);
        q[p] = T::fma(simd, v[p][1], v[p][1], q[p]);
    }
    for p in 0..P {
        q[p] = T::fma(simd, v[p][2], v[p][2], q[p]);
    }
    q
}

#[inline(always)]
fn points_at<T: Real, S: Lanes, const P: usize>(simd: S, points: [&[T]; 3], at: usize) -> [[T::V<S>; 3]; P] {
    let mut x = [[splat::<T, S>(simd, T::ZERO); 3]; P];
    for p in 0..P {
        for k in 0..3 {
            x[p][k] = load::<T, S>(simd, points[k], at + p * T::V::<S>::LEN);
        }
    }
    x
}

/// Adds `count` Gaussians at `P` vectors of points from `at` on; the squares of `G` Gaussians are computed before the
/// first of their exponentials.
#[inline(always)]
pub(crate) fn values<'r, T: Real, S: Lanes, const P: usize, const G: usize>(
    simd: S,
    count: usize,
    term: impl Fn(usize) -> &'r Term<T>,
    points: [&[T]; 3],
    at: usize,
    out: &mut [&mut [T]],
) {
    let zero = splat::<T, S>(simd, T::ZERO);
    let x = points_at::<T, S, P>(simd, points, at);
    let mut sum = [zero; P];
    let mut buffer = [[zero; P]; G];
    let mut first = 0;
    while first < count {
        let group = (count - first).min(G);
        for i in 0..group {
            buffer[i] = squares::<T, S, P>(simd, term(first + i), &x);
        }
        for i in 0..group {
            let c = coefficients::<T, S>(simd, term(first + i));
            T::add_weighted(simd, &c, &buffer[i], &mut sum);
        }
        first += group;
    }
    for p in 0..P {
        add::<T, S>(simd, out[0], at + p * T::V::<S>::LEN, sum[p]);
    }
}

#[inline(always)]
pub(crate) fn gradients<'r, T: Real, S: Lanes, const P: usize>(
    simd: S,
    count: usize,
    term: impl Fn(usize) -> &'r Term<T>,
    points: [&[T]; 3],
    at: usize,
    out: &mut [&mut [T]],
) {
    let width = T::V::<S>::LEN;
    let zero = splat::<T, S>(simd, T::ZERO);
    let x = points_at::<T, S, P>(simd, points, at);
    let mut sum = [[zero; 4]; P];
    for i in 0..count {
        let g = shape::<T, S>(simd, term(i));
        let c = coefficients::<T, S>(simd, term(i));
        for p in 0..P {
            let v = whitened::<T, S>(simd, &g, x[p]);
            let s = T::weighted(simd, &c, square::<T, S>(simd, v));
            let sv = [s * v[0], s * v[1], s * v[2]];
            sum[p][0] += s;
            let px = T::fma(simd, g[A20], sv[2], T::fma(simd, g[A10], sv[1], g[A00] * sv[0]));
            sum[p][1] += px;
            sum[p][2] += T::fma(simd, g[A21], sv[2], g[A11] * sv[1]);
            sum[p][3] = T::fma(simd, g[A22], sv[2], sum[p][3]);
        }
    }
    let scale = splat::<T, S>(simd, T::from_f64(-INV_K2));
    for p in 0..P {
        add::<T, S>(simd, out[0], at + p * width, sum[p][0]);
        for k in 1..4 {
            add::<T, S>(simd, out[k], at + p * width, sum[p][k] * scale);
        }
    }
}

#[inline(always)]
fn hessians<T: Real, S: Lanes>(
    simd: S,
    tile: &[Term<T>],
    points: [&[T]; 3],
    at: usize,
    out: &mut [&mut [T]],
) {
    let zero = splat::<T, S>(simd, T::ZERO);
    let scale = splat::<T, S>(simd, T::from_f64(INV_K2));
    let x = [
        load::<T, S>(simd, points[0], at),
        load::<T, S>(simd, points[1], at),
        load::<T, S>(simd, points[2], at),
    ];
    let mut sum = [zero; 10];
    for term in tile {
        let g = shape::<T, S>(simd, term);
        let c = coefficients::<T, S>(simd, term);
        let v = whitened::<T, S>(simd, &g, x);
        let s = T::weighted(simd, &c, square::<T, S>(simd, v));
        // p = A'ᵀ v / k², and s p from s v: s p pᵀ stays finite where p pᵀ does not.
        let upper = |v: [T::V<S>; 3]| {
            [
                T::fma(simd, g[A20], v[2], T::fma(simd, g[A10], v[1], g[A00] * v[0])) * scale,
                T::fma(simd, g[A21], v[2], g[A11] * v[1]) * scale,
                g[A22] * v[2] * scale,
            ]
        };
        let p = upper(v);
        let sp = upper([s * v[0], s * v[1], s * v[2]]);
        // S⁻¹ = A'ᵀ A' / k².
        let ss = s * scale;
        let inverse = [
            T::fma(simd, g[A20], g[A20], T::fma(simd, g[A10], g[A10], g[A00] * g[A00])),
            T::fma(simd, g[A20], g[A21], g[A10] * g[A11]),
            T::fma(simd, g[A21], g[A21], g[A11] * g[A11]),
            g[A20] * g[A22],
            g[A21] * g[A22],
            g[A22] * g[A22],
        ];
        sum[0] += s;
        for k in 0..3 {
            sum[1 + k] -= sp[k];
        }
        for (entry, (row, column)) in crate::reference::ENTRIES.into_iter().enumerate() {
            let outer = sp[row] * p[column];
            sum[4 + entry] += T::fma(simd, -ss, inverse[entry], outer);
        }
    }
    for (row, sum) in out.iter_mut().zip(sum) {
        add::<T, S>(simd, row, at, sum);
    }
}
