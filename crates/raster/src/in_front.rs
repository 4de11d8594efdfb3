//! The blending weight in front of a given depth at a pixel: what is between a camera and a surface of known depth.
//!
//! ```text
//! in_front(pixel, depth) = Σ w over the blended splats with camera z < depth,  w = alpha T as in `blend`
//! ```
//! For reports, not for training: after stage `tile` the list of a pixel's tile holds its splats in depth order, and a
//! query walks it until the depth is reached. Scalar code, one pixel at a time, with the same bytes on every platform.

use gausset_compute::Pool;
use gausset_core::constants::{TILE_SIZE, TRANSMITTANCE_STOP};
use gausset_core::engine::OcclusionQuery;

use crate::project::{LOG2_255, Record, record};
use crate::tile::BlendInput;

/// Queries per task.
const QUERIES_PER_TASK: usize = 256;

/// The weight in front of each query's depth, 0..1; 0 for a pixel outside the image.
#[must_use]
pub fn weight_in_front(pool: &Pool, splats: BlendInput<'_>, queries: &[OcclusionQuery]) -> Vec<f32> {
    let mut weights = vec![0.0; queries.len()];
    pool.run_chunks(&mut weights, QUERIES_PER_TASK, |task, weights| {
        let queries = &queries[task * QUERIES_PER_TASK..];
        weights.iter_mut().zip(queries).for_each(|(weight, query)| *weight = walk(splats, *query));
    });
    weights
}

fn walk(splats: BlendInput<'_>, query: OcclusionQuery) -> f32 {
    let BlendInput { view, lists, records } = splats;
    let [column, row] = query.pixel;
    if column >= view.size[0] || row >= view.size[1] {
        return 0.0;
    }
    let tile = (row / TILE_SIZE * view.tiles[0] + column / TILE_SIZE) as usize;
    let first = lists.starts[tile] as usize;
    let point = [column, row].map(|v| v as f32 + 0.5);
    let (mut sum, mut transmittance) = (0.0f32, 1.0f32);
    for entry in &lists.entries[first..first + lists.lengths[tile] as usize] {
        let splat = &records[entry.splat()];
        // The list is in depth order; no weight is in front of a NaN depth.
        if splat.0[record::DEPTH] >= query.depth || query.depth.is_nan() {
            break;
        }
        let alpha = alpha_at(splat, point).min(view.alpha_max);
        let behind = transmittance * (1.0 - alpha);
        if behind <= TRANSMITTANCE_STOP {
            break;
        }
        sum += alpha * transmittance;
        transmittance = behind;
    }
    sum
}

/// Alpha of a splat at a point, not clamped, 0 below 1/255: `pixel::exponent` for one pixel.
fn alpha_at(splat: &Record, [x, y]: [f32; 2]) -> f32 {
    let r = &splat.0;
    let (dx, dy) = (x - r[record::X], y - r[record::Y]);
    let along_x = r[record::A] * dx + r[record::B] * dy;
    let exponent = along_x * dx + (r[record::C] * dy * dy + r[record::L]);
    if exponent >= -LOG2_255 { libm::exp2f(exponent) } else { 0.0 }
}
