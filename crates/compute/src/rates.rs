//! What this machine can do at most: arithmetic and memory, measured in a few hundredths of a second.
//!
//! A stage cannot be faster than its arithmetic at the full rate of the vector units, nor than its bytes at the full
//! rate of the memory. Both rates are those of all threads of a pool together: cores add up for the first, and hardly
//! for the second.

use std::hint::black_box;
use std::time::Instant;

use fearless_simd::{Level, prelude::*};

use crate::simd::{LANES, Row, fma, load, splat, store, sum_lanes};
use crate::{Pool, at_level};

/// Independent chains of multiply-adds: enough to hide the latency of any processor at any vector width.
const CHAINS: usize = 10;
/// Multiply-adds of a chain in a measurement: about a millisecond.
const CHAIN_LENGTH: usize = 400_000;
/// Bytes that are streamed, beyond the last-level caches of most machines.
const STREAM_BYTES: usize = 64 << 20;
/// Tasks that a stream is cut into.
const STREAM_TASKS: usize = 64;
/// Repetitions, of which the best counts: other work on the machine only ever slows down.
const REPETITIONS: usize = 5;

/// Rates of a machine with a number of threads and a vector level.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rates {
    /// Multiply-adds on 16 lanes of f32 per second, all threads together.
    pub vector_ops_per_s: f64,
    /// Bytes read and written per second by an update in place of an array in memory, all threads together.
    pub stream_bytes_per_s: f64,
}

impl Rates {
    /// Measures; takes about 50 ms and 64 MiB for a moment.
    #[must_use]
    pub fn measure(pool: &Pool, level: Level) -> Self {
        let threads = pool.threads();
        let arithmetic = best_seconds(|| {
            pool.run(threads, |_, _| {
                let sum = at_level!(level, simd => chains(simd));
                black_box(sum);
            });
        });
        let mut values: Vec<Row> = vec![[1.0; LANES]; STREAM_BYTES / size_of::<Row>()];
        let chunk = values.len() / STREAM_TASKS;
        let stream = best_seconds(|| {
            pool.run_chunks(&mut values, chunk, |_, rows| at_level!(level, simd => update(simd, rows)));
        });
        black_box(&values);
        Self {
            vector_ops_per_s: (threads * CHAINS * CHAIN_LENGTH) as f64 / arithmetic,
            stream_bytes_per_s: 2.0 * STREAM_BYTES as f64 / stream,
        }
    }
}

/// Seconds of the fastest of some repetitions.
fn best_seconds(mut work: impl FnMut()) -> f64 {
    let seconds = |_| {
        let started = Instant::now();
        work();
        started.elapsed().as_secs_f64()
    };
    (0..REPETITIONS).map(seconds).fold(f64::INFINITY, f64::min).max(1e-9)
}

/// [`CHAINS`] x [`CHAIN_LENGTH`] multiply-adds on 16 lanes.
#[inline(always)]
fn chains<S: Simd>(simd: S) -> f32 {
    simd.vectorize(
        #[inline(always)]
        || {
            let (factor, addend) = (splat(simd, black_box(0.999)), splat(simd, black_box(0.001)));
            let mut sums = [splat(simd, black_box(1.0)); CHAINS];
            for _ in 0..CHAIN_LENGTH {
                for sum in &mut sums {
                    *sum = fma(*sum, factor, addend);
                }
            }
            let mut total = 0.0;
            for sum in sums {
                total += sum_lanes(sum);
            }
            total
        },
    )
}

/// Reads and writes all rows once.
#[inline(always)]
fn update<S: Simd>(simd: S, rows: &mut [Row]) {
    simd.vectorize(
        #[inline(always)]
        || {
            let half = splat(simd, 0.5);
            for row in rows {
                store(fma(load(simd, row), half, half), row);
            }
        },
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{VectorLevel, level};

    #[test]
    fn every_machine_computes_and_streams_at_some_believable_rate() {
        let level = level(VectorLevel::Auto).unwrap();
        let rates = Rates::measure(&Pool::new(1), level);
        // From a slow phone under load to a thousand cores.
        assert!((1e6..1e14).contains(&rates.vector_ops_per_s), "{rates:?}");
        assert!((1e7..1e14).contains(&rates.stream_bytes_per_s), "{rates:?}");
    }
}
