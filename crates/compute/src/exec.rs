//! Where and how a kernel runs.

use fearless_simd::Level;

use crate::pool::Pool;

/// The thread pool and the SIMD level of kernels, passed to every function that needs both.
///
/// Tasks run on `pool`. Inside a task, a kernel is called through `at_level!`, which compiles it for each level:
///
/// ```
/// use gausset_compute::simd::{LANES, Row, fma, load, splat, store};
/// use gausset_compute::{Exec, Pool, at_level};
///
/// let pool = Pool::new(2);
/// let exec = Exec::best(&pool);
/// let mut rows: Vec<Row> = vec![[3.0; LANES]; 100];
/// exec.pool.run_chunks(&mut rows, 32, |_, rows| {
///     at_level!(exec.level, simd => for row in rows {
///         let value = load(simd, row);
///         store(fma(value, value, splat(simd, 1.0)), row);
///     });
/// });
/// assert_eq!(rows[99], [10.0; LANES]);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Exec<'a> {
    /// Threads that run the tasks.
    pub pool: &'a Pool,
    /// SIMD level of the kernels in a task.
    pub level: Level,
}

impl<'a> Exec<'a> {
    /// Uses the best SIMD level of this CPU.
    #[must_use]
    pub fn best(pool: &'a Pool) -> Self {
        Self { pool, level: Level::new() }
    }
}
