//! Peak rates of this machine: arithmetic, memory and scattered stores, measured in a tenth of a second.
//!
//! A stage cannot be faster than its multiplications at the full rate of the vector units, nor than its bytes at the
//! rate of the memory that holds them, nor than its scattered stores. All rates are those of all threads of a pool
//! together: the first and the last grow with the number of cores, the second hardly.
//!
//! No code on this machine beats these rates, so the time of a stage at these rates is a lower bound: the best of
//! several repetitions counts, and data that fits into a cache is compared with the rate of that cache.

use std::hint::black_box;
use std::time::Instant;

use fearless_simd::prelude::*;

use crate::at_level;
use crate::exec::Exec;
use crate::simd::{LANES, Row, fma, load, splat, store, sum_lanes};

/// Independent chains of multiply-adds: enough to hide the latency if a vector has 16 lanes.
const MANY_CHAINS: usize = 10;
/// The same if 16 lanes take two registers, of which there are only 16. The better of both results counts.
const FEW_CHAINS: usize = 5;
/// Multiply-adds of a measurement: about a millisecond.
const CHAIN_OPS: usize = 4_000_000;
/// Bytes that are streamed by all threads together, smallest first: sizes for the first-level, second-level and
/// last-level caches of most machines, and for main memory.
pub const STREAM_SIZES: [usize; 5] = [32 << 10, 256 << 10, 2 << 20, 16 << 20, 64 << 20];
/// Number of tasks that the largest stream is divided into, so that a thread that was interrupted does not delay the
/// rest.
const STREAM_TASKS: usize = 64;
/// Values that each thread scatters in a measurement.
const SCATTERED_VALUES: usize = 1 << 20;
/// Number of counters: 4 KiB, so that they and the values stay in a first-level cache.
const BUCKETS: usize = 1 << 10;
/// Number of target positions of the values: 8 KiB.
const TARGETS: usize = 1 << 10;
/// Repetitions, of which the best counts: other work on the machine can only slow it down.
const REPETITIONS: usize = 5;

/// Peak rates of a machine with a number of threads and a SIMD level.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PeakRates {
    /// Multiply-adds on 16 lanes of f32 per second, all threads together.
    pub vector_ops_per_s: f64,
    /// Bytes read and written per second by an in-place update of an array of each of the [`STREAM_SIZES`], all threads
    /// together; never higher for a larger size.
    pub stream_bytes_per_s: [f64; STREAM_SIZES.len()],
    /// Values per second that are stored at the index given by a counter, which is then incremented; all threads
    /// together, with counters and targets in the first-level cache.
    pub scattered_stores_per_s: f64,
}

impl PeakRates {
    /// Measures the rates; takes about 0.1 s and, temporarily, 64 MiB.
    #[must_use]
    pub fn measure(exec: Exec<'_>) -> Self {
        let Exec { pool, level } = exec;
        let threads = pool.threads();
        let arithmetic = best_seconds(|| {
            pool.run(threads, |_, _| {
                black_box(at_level!(level, simd => multiply_add_chains::<_, MANY_CHAINS>(simd)));
            });
        });
        let with_few = best_seconds(|| {
            pool.run(threads, |_, _| {
                black_box(at_level!(level, simd => multiply_add_chains::<_, FEW_CHAINS>(simd)));
            });
        });
        let placing = best_seconds(|| {
            pool.run(threads, |_, _| {
                black_box(scatter_values());
            });
        });
        let mut stream_bytes_per_s = STREAM_SIZES.map(|bytes| stream_rate(exec, bytes));
        // A smaller array can only be slower by chance.
        for i in (1..STREAM_SIZES.len()).rev() {
            stream_bytes_per_s[i - 1] = stream_bytes_per_s[i - 1].max(stream_bytes_per_s[i]);
        }
        Self {
            vector_ops_per_s: (threads * CHAIN_OPS) as f64 / arithmetic.min(with_few),
            stream_bytes_per_s,
            scattered_stores_per_s: (threads * SCATTERED_VALUES) as f64 / placing,
        }
    }

    /// Bytes read and written per second by work on an array of this size: the rate of the largest measured size that
    /// is not larger. It therefore errs on the fast side.
    #[must_use]
    pub fn stream_rate_for(&self, bytes: f64) -> f64 {
        let fits = STREAM_SIZES.iter().rposition(|&size| size as f64 <= bytes).unwrap_or(0);
        self.stream_bytes_per_s[fits]
    }

    /// Bytes read and written per second in main memory, beyond the caches of most machines.
    #[must_use]
    pub fn memory_bytes_per_s(&self) -> f64 {
        self.stream_bytes_per_s[STREAM_SIZES.len() - 1]
    }
}

/// Bytes read and written per second by in-place updates of an array of this size.
fn stream_rate(Exec { pool, level }: Exec<'_>, bytes: usize) -> f64 {
    let mut values: Vec<Row> = vec![[1.0; LANES]; bytes / size_of::<Row>()];
    // Each thread keeps to its own part if that fits into its cache, and repeats it often enough to be timed.
    let largest = STREAM_SIZES[STREAM_SIZES.len() - 1];
    let rounds = (largest / bytes).max(1);
    let tasks = if rounds == 1 { STREAM_TASKS } else { pool.threads() };
    let chunk = values.len().div_ceil(tasks).max(1);
    let seconds = best_seconds(|| {
        pool.run_chunks(&mut values, chunk, |_, rows| {
            for _ in 0..rounds {
                at_level!(level, simd => update_in_place(simd, black_box(&mut *rows)));
            }
        });
    });
    black_box(&values);
    2.0 * (rounds * bytes) as f64 / seconds
}

/// Time of the fastest repetition, seconds.
fn best_seconds(mut work: impl FnMut()) -> f64 {
    let seconds = |_| {
        let started = Instant::now();
        work();
        started.elapsed().as_secs_f64()
    };
    (0..REPETITIONS).map(seconds).fold(f64::INFINITY, f64::min).max(1e-9)
}

/// Executes [`CHAIN_OPS`] multiply-adds on 16 lanes in `CHAINS` independent chains.
#[inline(always)]
fn multiply_add_chains<S: Simd, const CHAINS: usize>(simd: S) -> f32 {
    let (factor, addend) = (splat(simd, black_box(0.999)), splat(simd, black_box(0.001)));
    let mut sums = [splat(simd, black_box(1.0)); CHAINS];
    for _ in 0..CHAIN_OPS / CHAINS {
        for sum in &mut sums {
            *sum = fma(*sum, factor, addend);
        }
    }
    let mut total = 0.0;
    for sum in sums {
        total += sum_lanes(sum);
    }
    total
}

/// Stores [`SCATTERED_VALUES`] values where counters point, as a counting sort does.
fn scatter_values() -> u32 {
    let mut counters = [0u32; BUCKETS];
    let mut places = [0u64; TARGETS];
    for value in 0..SCATTERED_VALUES as u64 {
        // Neighbouring values use different counters, as in a sort.
        let counter = &mut counters[(value as usize).wrapping_mul(0x9E37) % BUCKETS];
        places[*counter as usize % TARGETS] = value;
        *counter = counter.wrapping_add(1);
    }
    black_box(&places);
    black_box(counters)[BUCKETS / 3]
}

/// Reads and writes all rows once.
#[inline(always)]
fn update_in_place<S: Simd>(simd: S, rows: &mut [Row]) {
    let half = splat(simd, 0.5);
    for row in rows {
        store(fma(load(simd, row), half, half), row);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Pool;

    #[test]
    fn work_on_an_array_is_set_against_the_largest_measured_size_that_is_not_larger() {
        let rates = PeakRates {
            vector_ops_per_s: 1.0,
            stream_bytes_per_s: [5.0, 4.0, 3.0, 2.0, 1.0],
            scattered_stores_per_s: 1.0,
        };
        let sizes = [0.0, 32e3, 300e3, 2e6, 2.2e6, 20e6, 63e6, 1e12];
        assert_eq!(sizes.map(|bytes| rates.stream_rate_for(bytes)), [5.0, 5.0, 4.0, 4.0, 3.0, 2.0, 2.0, 1.0]);
        assert_eq!(rates.memory_bytes_per_s(), 1.0);
    }

    #[test]
    fn no_repetition_of_the_measured_work_beats_the_rates() {
        let pool = Pool::new(1);
        let exec = Exec::best(&pool);
        let (level, rates) = (exec.level, PeakRates::measure(exec));
        let rate = |work: &mut dyn FnMut(), count: f64| {
            let started = Instant::now();
            work();
            count / started.elapsed().as_secs_f64()
        };
        let mut values: Vec<Row> = vec![[1.0; LANES]; STREAM_SIZES[2] / size_of::<Row>()];
        // Other work may have slowed down all five repetitions, but hardly to less than a quarter.
        let slack = 4.0;
        let arithmetic = rate(
            &mut || {
                black_box(at_level!(level, simd => multiply_add_chains::<_, FEW_CHAINS>(simd)));
            },
            CHAIN_OPS as f64,
        );
        assert!(arithmetic <= slack * rates.vector_ops_per_s, "{arithmetic} {rates:?}");
        let placing = rate(
            &mut || {
                black_box(scatter_values());
            },
            SCATTERED_VALUES as f64,
        );
        assert!(placing <= slack * rates.scattered_stores_per_s, "{placing} {rates:?}");
        let stream = rate(
            &mut || at_level!(level, simd => update_in_place(simd, black_box(&mut values))),
            2.0 * STREAM_SIZES[2] as f64,
        );
        assert!(stream <= slack * rates.stream_rate_for(STREAM_SIZES[2] as f64), "{stream} {rates:?}");
        // 16 lanes with two operations each at 8 GHz and two per cycle, and a byte for each bit of a cache line per
        // cycle: more than any core can do.
        assert!(rates.vector_ops_per_s < 16e9 && rates.stream_bytes_per_s[0] < 512.0 * 8e9, "{rates:?}");
        // A placement is at least a load and two stores, and no core does more than four per cycle.
        assert!(rates.scattered_stores_per_s < 8e9, "{rates:?}");
        assert!(rates.stream_bytes_per_s.is_sorted_by(|a, b| a >= b), "{rates:?}");
    }

    #[test]
    fn the_loops_do_as_much_as_they_count() {
        assert_eq!(CHAIN_OPS % MANY_CHAINS + CHAIN_OPS % FEW_CHAINS, 0);
        // The steps of the hash are odd, so every counter gets an equal number of the values.
        assert_eq!(scatter_values() as usize, SCATTERED_VALUES / BUCKETS);
        assert!(STREAM_SIZES.is_sorted() && STREAM_SIZES.iter().all(|bytes| bytes % size_of::<Row>() == 0));
    }
}
