//! Measures the multiply-add throughput of this machine, as a reference for the kernels.

use fearless_simd::{Level, Simd, prelude::*};
use gausset_compute::at_level;

use crate::real::Lanes;

/// Iterations of the loop: some tenth of a millisecond.
const ROUNDS: usize = 20_000;
/// Independent dependency chains: enough to fill two pipes of latency 4 or 5.
const CHAINS: usize = 10;

/// Nanoseconds of CPU time per multiply-add of one lane; `clock` returns CPU seconds.
#[must_use]
pub fn ns_per_lane_operation(level: Level, clock: impl Fn() -> f64) -> f64 {
    let mut best = f64::INFINITY;
    for _ in 0..3 {
        let started = clock();
        let lanes = at_level!(level, simd => chains(simd));
        let seconds = clock() - started;
        best = best.min(1e9 * seconds / (ROUNDS * CHAINS * lanes) as f64);
    }
    best
}

#[inline(always)]
fn chains<S: Lanes + Simd>(simd: S) -> usize {
    let x = S::f32s::splat(simd, std::hint::black_box(0.999_9));
    let y = S::f32s::splat(simd, std::hint::black_box(1e-5));
    let mut sums = [x; CHAINS];
    for _ in 0..ROUNDS {
        for sum in &mut sums {
            *sum = simd.fma_f32(*sum, x, y);
        }
    }
    std::hint::black_box(sums.map(|sum| sum.as_slice()[0]));
    S::f32s::LEN
}
