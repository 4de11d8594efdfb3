//! Lower bounds of the stage times of a step on this machine.
//!
//! Three bounds are computed: bytes that have to be read or written at least once, at the rate of the cache or memory
//! that holds them; multiplications on 16 lanes; and scattered stores. The largest of the three counts. Additions,
//! comparisons and shuffles are left out: CPUs execute them on separate ports. The bound therefore errs on the low
//! side, and a stage that is slower than its bound may still have less to gain than their ratio says.

use gausset_compute::PeakRates;
use gausset_compute::simd::LANES;
use gausset_core::engine::{DevicePeakRates, LowerBounds, StageLowerBound, StepWork};
use gausset_core::{Stage, sh};
use gausset_raster::sort;

/// The work that a stage cannot avoid.
#[derive(Clone, Copy, Debug, PartialEq)]
struct StageWork {
    /// The stage.
    stage: Stage,
    /// Bytes read and written.
    bytes: f64,
    /// Multiplications on 16 lanes, alone or fused with an addition, and operations that take at least as long:
    /// divisions, roots.
    vector_ops: f64,
    /// Values stored at a position given by a counter.
    scattered_stores: f64,
    /// Parts that the stage is divided into: more threads than this do not help.
    parts: usize,
}

/// Bytes of a float.
const FLOAT: f64 = 4.0;
/// Geometry rows of a block: mean, scale, rotation, opacity, colour.
const GEOMETRY_ROWS: f64 = 14.0;
/// Bytes of a screen splat.
const RECORD_BYTES: f64 = 64.0;
/// Bytes of the gradient sums of a tile entry.
const SLOT_BYTES: f64 = 64.0;
/// Bytes of a sort key, and of an entry of a tile list.
const KEY_BYTES: f64 = 8.0;
/// Multiplications of a block in `geometry.rs` and `shape.rs`: 9 for the point, 1 + 4 for the ratios, 4 for the
/// Jacobian, 12 + 18 + 6 for its product with rotation and scale, 9 for the covariance, 9 for its determinant, 3 for
/// the determinant with the low-pass variance and its inverse, 2 for the mean; 6 and 4 to normalise the quaternion, 21
/// for its matrix, 3 times 10 for the exponentials. The logarithm and the sigmoid are left out.
const GEOMETRY_OPS: f64 = 138.0;
/// Multiplications of a list entry in a cell, forward: 5 for the exponent, 5 for the power (`exp2_in_range`), 1 for the
/// transmittance, 1 for the weight, 3 for the colour.
const BLEND_OPS: f64 = 15.0;
/// The same, backward: 10 for the alpha, 2 for transmittance and weight, 3 for the dot product with the upstream
/// gradient, 1 for its product with the weight, 2 for the light lost behind the splat (a division), 2 for the first
/// moments, 3 for the second moments, 3 for the colour.
const BLEND_VJP_OPS: f64 = 26.0;
/// Multiplications of 16 values of a channel in the loss: 14 passes of the window (4 moments and 3 derivatives,
/// vertical and horizontal) of 6 each, because opposite taps are added first.
const LOSS_OPS: f64 = 84.0;
/// Bytes of a pixel in the loss: three colours, their gradients, and the target.
const LOSS_BYTES: f64 = 27.0;
/// Multiplications of Adam on a row of 16 values (`adam.rs`): 2 for the first moment, 3 for the second, 2 for their
/// bias corrections, a root, a division, and 1 for the rate.
const ADAM_OPS: f64 = 10.0;

/// The lower bounds of a step with this work on a machine with these rates.
pub(crate) fn lower_bounds(step: &StepWork, rates: &PeakRates, threads: usize) -> LowerBounds {
    let floor = |work: StageWork| StageLowerBound {
        stage: work.stage,
        bytes: work.bytes,
        vector_ops: work.vector_ops,
        lower_bound_ms: work.lower_bound_ms(rates, threads),
    };
    LowerBounds {
        rates: DevicePeakRates {
            threads,
            vector_ops_per_s: rates.vector_ops_per_s,
            bytes_per_s: rates.memory_bytes_per_s(),
        },
        stages: stages(step).into_iter().map(floor).collect(),
    }
}

/// The unavoidable work of each stage of a step.
fn stages(step: &StepWork) -> Vec<StageWork> {
    // Rows of the spherical harmonics beyond coefficient 0.
    let rest_rows = 3.0 * (sh::coefficients(step.sh_degree) - 1) as f64;
    let of = |stage, bytes, vector_ops, placements| StageWork {
        stage,
        bytes,
        vector_ops,
        scattered_stores: placements,
        parts: usize::MAX,
    };
    vec![
        // Colours are computed in blocks with a visible splat; there is at least one such block per 16 visible splats.
        of(
            Stage::Project,
            FLOAT * (GEOMETRY_ROWS * step.splats + rest_rows * step.visible) + RECORD_BYTES * step.visible,
            (GEOMETRY_OPS * step.splats + (3.0 + rest_rows) * step.visible) / LANES as f64,
            0.0,
        ),
        // Keys are counted once, then read and written by each pass that moves them.
        StageWork {
            parts: sort::chunk_count(step.visible as usize, usize::MAX / 2),
            ..of(
                Stage::Sort,
                KEY_BYTES * (1.0 + 2.0 * step.sort_passes) * step.visible,
                0.0,
                step.sort_passes * step.visible,
            )
        },
        of(Stage::Tile, KEY_BYTES * step.intersections, 0.0, step.intersections),
        // The lists, and four floats per pixel. Records are read repeatedly, from a cache.
        of(
            Stage::Blend,
            KEY_BYTES * step.evaluated_entries + 4.0 * FLOAT * step.pixels,
            BLEND_OPS * step.evaluated_cells,
            0.0,
        ),
        of(Stage::Loss, LOSS_BYTES * step.pixels, LOSS_OPS * 3.0 * step.pixels / LANES as f64, 0.0),
        of(
            Stage::BlendVjp,
            KEY_BYTES * step.evaluated_entries + 4.0 * FLOAT * step.pixels + SLOT_BYTES * step.live_entries,
            BLEND_VJP_OPS * step.evaluated_cells,
            0.0,
        ),
        // Parameters and two moments, read and written.
        of(
            Stage::ProjectVjpAdam,
            6.0 * FLOAT * (GEOMETRY_ROWS + rest_rows) * LANES as f64 * step.updated_blocks
                + SLOT_BYTES * step.live_entries,
            ADAM_OPS * (GEOMETRY_ROWS + rest_rows) * step.updated_blocks,
            0.0,
        ),
    ]
}

impl StageWork {
    /// Lower bound of the time of the stage in ms, on a machine with these rates and number of threads.
    fn lower_bound_ms(&self, rates: &PeakRates, threads: usize) -> f64 {
        let share = self.parts.min(threads) as f64 / threads as f64;
        // Bytes that are read and written count twice but occupy memory once.
        let bytes = self.bytes / rates.stream_rate_for(self.bytes / 2.0);
        let operations = self.vector_ops / (share * rates.vector_ops_per_s);
        let placements = self.scattered_stores / (share * rates.scattered_stores_per_s);
        1e3 * bytes.max(operations).max(placements)
    }
}

#[cfg(test)]
mod tests {
    use gausset_raster::blend_vjp::GradientSlot;
    use gausset_raster::layout::{Blocks, GeometryBlock};
    use gausset_raster::project::Record;

    use super::*;

    /// A step with large round numbers.
    const STEP: StepWork = StepWork {
        splats: 160_000.0,
        sh_degree: 3,
        visible: 120_000.0,
        pixels: 200_000.0,
        sort_passes: 3.0,
        intersections: 400_000.0,
        evaluated_entries: 300_000.0,
        live_entries: 250_000.0,
        evaluated_cells: 1_000_000.0,
        updated_blocks: 10_000.0,
    };

    /// A machine with a fast cache and a slow memory, and otherwise the given limits.
    fn only(vector_ops_per_s: f64, placements_per_s: f64, cache: f64, memory: f64) -> PeakRates {
        PeakRates {
            vector_ops_per_s,
            scattered_stores_per_s: placements_per_s,
            stream_bytes_per_s: [cache, cache, cache, memory, memory],
        }
    }

    fn assert_close(a: f64, b: f64) {
        assert!((a - b).abs() <= 1e-9 * b.abs(), "{a} {b}");
    }

    fn floor(stage: Stage, sizes: &StepWork, rates: &PeakRates, threads: usize) -> f64 {
        let work = stages(sizes).into_iter().find(|work| work.stage == stage);
        work.map_or(f64::NAN, |work| work.lower_bound_ms(rates, threads))
    }

    #[test]
    fn bytes_are_those_of_the_arrays() {
        assert_eq!(RECORD_BYTES as usize, size_of::<Record>());
        assert_eq!(SLOT_BYTES as usize, size_of::<GradientSlot>());
        assert_eq!(GEOMETRY_ROWS as usize * LANES * size_of::<f32>(), size_of::<GeometryBlock>());
        // The update reads and writes all parameters and both moments of full blocks.
        let splats = gausset_core::Splats::zeros(2, 3 * LANES);
        let array = Blocks::from_splats(&splats).bytes() as f64;
        let sizes = StepWork { sh_degree: 2, updated_blocks: 3.0, ..StepWork::default() };
        let update = stages(&sizes).into_iter().find(|work| work.stage == Stage::ProjectVjpAdam);
        assert_eq!(update.map(|work| work.bytes), Some(6.0 * array));
    }

    #[test]
    fn the_slowest_of_bytes_arithmetic_and_placing_is_the_floor() {
        let free = f64::INFINITY;
        // 3 colours x 84 multiplications x 200,000 pixels / 16 lanes at 10^9 a second.
        assert_close(floor(Stage::Loss, &STEP, &only(1e9, free, free, free), 1), 3.15);
        // 27 bytes of each at 10^9 a second.
        assert_close(floor(Stage::Loss, &STEP, &only(free, free, 1e9, 1e9), 1), 5.4);
        assert_close(floor(Stage::Loss, &STEP, &only(1e9, free, 1e9, 1e9), 1), 5.4);
        // Three passes over 120,000 keys.
        assert_close(floor(Stage::Sort, &STEP, &only(free, 1e9, free, free), 1), 0.36);
        assert_close(floor(Stage::Tile, &STEP, &only(free, 1e9, free, free), 1), 0.4);
    }

    #[test]
    fn what_fits_into_a_cache_is_not_set_against_the_memory() {
        let rates = only(f64::INFINITY, f64::INFINITY, 1e11, 1e9);
        let small = StepWork { splats: 2_000.0, visible: 2_000.0, ..STEP };
        // 2,000 splats are 600 KB and 160,000 of them 44 MB: memory is a hundred times slower here.
        let bytes = |sizes: &StepWork| stages(sizes)[0].bytes;
        assert_close(floor(Stage::Project, &small, &rates, 1), 1e3 * bytes(&small) / 1e11);
        assert_close(floor(Stage::Project, &STEP, &rates, 1), 1e3 * bytes(&STEP) / 1e9);
    }

    #[test]
    fn threads_share_the_sort_as_far_as_it_is_cut() {
        // Two threads have twice the rate together.
        let of = |sizes: &StepWork, threads: usize| {
            let rate = 1e9 * threads as f64;
            floor(Stage::Sort, sizes, &only(f64::INFINITY, rate, f64::INFINITY, f64::INFINITY), threads)
        };
        assert_close(of(&STEP, 2), of(&STEP, 1) / 2.0);
        // 10,000 keys are one part, which one thread sorts alone; 30,000 are three.
        let few = StepWork { visible: 10_000.0, ..STEP };
        assert_close(of(&few, 2), of(&few, 1));
        assert_close(of(&few, 8), of(&few, 1));
        let some = StepWork { visible: 30_000.0, ..STEP };
        assert_close(of(&some, 8), of(&some, 3));
    }

    #[test]
    fn a_lower_degree_is_less_work() {
        let rates = only(1e9, 1e9, 1e10, 1e10);
        let low = StepWork { sh_degree: 0, ..STEP };
        for stage in [Stage::Project, Stage::ProjectVjpAdam] {
            assert!(floor(stage, &low, &rates, 1) < 0.7 * floor(stage, &STEP, &rates, 1), "{}", stage.name());
        }
    }
}
