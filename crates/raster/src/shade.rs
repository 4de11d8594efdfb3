//! Colours of splats from rows of SH coefficients in place, and their gradients: the stage `project` does this for the
//! coefficients in [`crate::layout::Blocks`].
//!
//! ```text
//! colour = max(½ + Σ_k Y_k(d) sh_k, 0)  or  Σ_k Y_k(d) sh_k,   d = (mean - origin) / |mean - origin|
//! ```
//!
//! Coefficients are rows `[splat, k, channel]` with three channels. A block of 16 splats is transposed on the stack.

use fearless_simd::{f32x16, prelude::*};
use gausset_compute::Exec;
use gausset_compute::simd::{LANES, Row, array_from_fn, map_array, splat};

use crate::geometry::ViewDirection;
use crate::layout::{AlignedRow, DC, GEOMETRY_ROWS, GeometryBlock};
use crate::screen_gradients::lane_rows;
use crate::spherical_harmonics::{at_degree, basis, coefficient_gradient, colours_above, rest_coefficients};

/// Splats per task.
const SPLATS_PER_TASK: usize = 64 * LANES;

/// What becomes of the sum of the basis functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColorRule {
    /// ½ is added, and negative colours are 0.
    Clamped,
    /// Nothing.
    Sum,
}

/// The input of the stage.
#[derive(Clone, Copy, Debug)]
pub struct ShInput<'a> {
    /// Means in the world, or directions if the origin is 0.
    pub means: &'a [[f32; 3]],
    /// `stride` values per splat, of which those of the degree are used.
    pub coefficients: &'a [f32],
    /// Coefficients of a splat times three.
    pub stride: usize,
    /// Camera centre in the world.
    pub origin: [f32; 3],
    /// Degree, 0..3.
    pub degree: u8,
    /// What the colours are.
    pub rule: ColorRule,
    /// Splats without colour and gradient are `false`; all have one if this is empty.
    pub mask: &'a [bool],
}

impl ShInput<'_> {
    fn is_used(&self, splat: usize) -> bool {
        splat < self.means.len() && self.mask.get(splat).copied().unwrap_or(self.mask.is_empty())
    }
}

/// Gradients of a loss with respect to the inputs.
#[derive(Clone, Debug, Default)]
pub struct ShGradients {
    /// With respect to the means; the gradient of the origin is minus their sum.
    pub means: Vec<[f32; 3]>,
    /// With respect to the coefficients, in their layout.
    pub coefficients: Vec<f32>,
}

/// The colours of all splats, 0 where there is none.
#[must_use]
pub fn sh_colors(exec: Exec<'_>, input: &ShInput<'_>) -> Vec<[f32; 3]> {
    let mut out = vec![[0.0; 3]; input.means.len()];
    exec.pool.run_chunks(&mut out, SPLATS_PER_TASK, |task, out| {
        at_degree!(exec.level, input.degree, simd => colors_chunk(input, task * SPLATS_PER_TASK, out));
    });
    out
}

/// The gradients of [`sh_colors`] from those of the colours.
#[must_use]
pub fn sh_colors_vjp(exec: Exec<'_>, input: &ShInput<'_>, upstream: &[[f32; 3]]) -> ShGradients {
    let mut out = ShGradients {
        means: vec![[0.0; 3]; input.means.len()],
        coefficients: vec![0.0; input.coefficients.len()],
    };
    let mut parts: Vec<_> = out
        .means
        .chunks_mut(SPLATS_PER_TASK)
        .zip(out.coefficients.chunks_mut((SPLATS_PER_TASK * input.stride).max(1)))
        .collect();
    exec.pool.run_parts(&mut parts, |task, part| {
        let first = task * SPLATS_PER_TASK;
        at_degree!(exec.level, input.degree, simd => vjp_chunk(input, first, upstream, part));
    });
    out
}

/// Rows of the coefficients of a block.
struct CoefficientRows {
    geometry: GeometryBlock,
    rest: [AlignedRow; 45],
}

impl CoefficientRows {
    #[inline(always)]
    fn load<const DEGREE: u8>(&mut self, input: &ShInput<'_>, first: usize) {
        for lane in 0..LANES {
            let row = input.coefficients.get((first + lane) * input.stride..).unwrap_or_default();
            let used = input.is_used(first + lane);
            let value = |i: usize| if used { row[i] } else { 0.0 };
            for k in 0..3 {
                self.geometry[DC + k].0[lane] = value(k);
            }
            for k in 0..3 * rest_coefficients(DEGREE) {
                self.rest[k].0[lane] = value(3 + k);
            }
        }
    }

    fn new() -> Self {
        Self { geometry: [AlignedRow::default(); GEOMETRY_ROWS], rest: [AlignedRow::default(); 45] }
    }
}

#[inline(always)]
fn colors_chunk<S: Simd, const DEGREE: u8>(simd: S, input: &ShInput<'_>, first: usize, out: &mut [[f32; 3]]) {
    let mut rows = CoefficientRows::new();
    for (block, out) in out.chunks_mut(LANES).enumerate() {
        let first = first + block * LANES;
        if !(first..first + LANES).any(|splat| input.is_used(splat)) {
            continue;
        }
        rows.load::<DEGREE>(input, first);
        let colour = block_colours::<S, DEGREE>(simd, input, first, &rows).2;
        let colour: [Row; 3] = map_array(
            colour,
            #[inline(always)]
            |c: f32x16<S>| match input.rule {
                ColorRule::Clamped => propagating_max(simd, c).to_array(),
                ColorRule::Sum => c.to_array(),
            },
        );
        for (lane, out) in out.iter_mut().enumerate() {
            if input.is_used(first + lane) {
                *out = [colour[0][lane], colour[1][lane], colour[2][lane]];
            }
        }
    }
}

/// `max(value, 0)`, but NaN where the value is NaN.
#[inline(always)]
fn propagating_max<S: Simd>(simd: S, value: f32x16<S>) -> f32x16<S> {
    let zero = splat(simd, 0.0);
    value.simd_le(zero).select(zero, value)
}

/// Viewing direction, basis and colours before the clamp.
type Shading<S> = (ViewDirection<S>, [f32x16<S>; 15], [f32x16<S>; 3]);

#[inline(always)]
fn block_colours<S: Simd, const DEGREE: u8>(
    simd: S,
    input: &ShInput<'_>,
    first: usize,
    rows: &CoefficientRows,
) -> Shading<S> {
    let mean = lane_rows(simd, input.means, first / LANES);
    let direction = ViewDirection::new(simd, mean, input.origin);
    let y = basis::<S, DEGREE>(simd, direction.unit);
    let offset = if input.rule == ColorRule::Clamped { 0.5 } else { 0.0 };
    let colour = colours_above::<S, DEGREE>(simd, offset, &rows.geometry, &rows.rest, &y);
    (direction, y, colour)
}

#[inline(always)]
fn vjp_chunk<S: Simd, const DEGREE: u8>(
    simd: S,
    input: &ShInput<'_>,
    first: usize,
    upstream: &[[f32; 3]],
    (means, coefficients): &mut (&mut [[f32; 3]], &mut [f32]),
) {
    let zero = splat(simd, 0.0);
    let mut rows = CoefficientRows::new();
    for (block, means) in means.chunks_mut(LANES).enumerate() {
        let local = block * LANES;
        let first = first + local;
        let is_used = |lane: usize| input.is_used(first + lane) && upstream[first + lane] != [0.0; 3];
        if !(0..means.len()).any(is_used) {
            continue;
        }
        rows.load::<DEGREE>(input, first);
        let (direction, y, value) = block_colours::<S, DEGREE>(simd, input, first, &rows);
        let given = lane_rows(simd, upstream, first / LANES);
        let colour = array_from_fn(
            #[inline(always)]
            |c| match input.rule {
                ColorRule::Clamped => value[c].simd_gt(zero).select(given[c], zero),
                ColorRule::Sum => given[c],
            },
        );
        let g = coefficient_gradient::<S, DEGREE>(simd, y, &rows.rest, &direction, colour);
        for (k, row) in g.coefficient_0(simd).into_iter().enumerate() {
            row.store_array(&mut rows.geometry[DC + k].0);
        }
        for (row, value) in rows.geometry.iter_mut().zip(g.mean) {
            value.store_array(&mut row.0);
        }
        g.store_rest::<DEGREE>(&mut rows.rest);
        for (lane, mean) in means.iter_mut().enumerate().filter(|(lane, _)| is_used(*lane)) {
            *mean = array_from_fn(|k| rows.geometry[k].0[lane]);
            let out = &mut coefficients[(local + lane) * input.stride..];
            for k in 0..3 {
                out[k] = rows.geometry[DC + k].0[lane];
            }
            for k in 0..3 * rest_coefficients(DEGREE) {
                out[3 + k] = rows.rest[k].0[lane];
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use gausset_compute::Pool;

    use super::*;

    #[test]
    fn the_gradient_is_that_of_finite_differences() {
        let pool = Pool::new(2);
        let exec = Exec::best(&pool);
        let value = |i: usize| ((i * 2_654_435_761) % 1000) as f32 / 1000.0 - 0.45;
        let means: Vec<[f32; 3]> = (0..20).map(|i| [value(i) + 2.0, value(i + 50), value(i + 90)]).collect();
        let coefficients: Vec<f32> = (0..20 * 48).map(value).collect();
        let upstream: Vec<[f32; 3]> = (0..20).map(|i| [value(i + 7), value(i + 8), value(i + 9)]).collect();
        for rule in [ColorRule::Clamped, ColorRule::Sum] {
            let loss = |means: &[[f32; 3]], coefficients: &[f32]| -> f64 {
                let input =
                    ShInput { means, coefficients, stride: 48, origin: [0.1; 3], degree: 3, rule, mask: &[] };
                let colors = sh_colors(exec, &input);
                let terms = colors.as_flattened().iter().zip(upstream.as_flattened());
                terms.map(|(&c, &u)| f64::from(c) * f64::from(u)).sum()
            };
            let input = ShInput {
                means: &means,
                coefficients: &coefficients,
                stride: 48,
                origin: [0.1; 3],
                degree: 3,
                rule,
                mask: &[],
            };
            let gradients = sh_colors_vjp(exec, &input, &upstream);
            let step = 1e-2f32;
            for splat in [0, 7, 19] {
                for k in 0..3 {
                    let moved = |by: f32| {
                        let mut means = means.clone();
                        means[splat][k] += by;
                        loss(&means, &coefficients)
                    };
                    let slope = (moved(step) - moved(-step)) / f64::from(2.0 * step);
                    // The third derivative times the square of the step.
                    assert!(
                        (slope - f64::from(gradients.means[splat][k])).abs() < 3e-3,
                        "{rule:?} {splat} {k}"
                    );
                }
                for k in [0, 4, 20, 47] {
                    let moved = |by: f32| {
                        let mut coefficients = coefficients.clone();
                        coefficients[48 * splat + k] += by;
                        loss(&means, &coefficients)
                    };
                    let slope = (moved(step) - moved(-step)) / f64::from(2.0 * step);
                    // Linear; what remains is rounding of the colours.
                    let found = f64::from(gradients.coefficients[48 * splat + k]);
                    assert!((slope - found).abs() < 1e-4, "{rule:?} {splat} {k}: {slope} {found}");
                }
            }
        }
    }
}
