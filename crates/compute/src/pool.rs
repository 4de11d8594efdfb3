//! A pool of threads that run fixed partitions of work and sleep between jobs.
//!
//! A job is a number of tasks; each task index is handed out once (one atomic add per task) to whichever worker is
//! free, including the calling thread. What a task does must depend on its index only; then results do not depend on
//! the number of threads. Workers spin for a few microseconds after a job, because the stages of a training step follow
//! each other closely, and then sleep: idle threads cost nothing.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;

/// Rounds of the spin loop before a waiting thread sleeps: about 10 µs, a few times the gap between two stages.
const SPIN_ROUNDS: u32 = 2_000;

/// Callbacks through which a profiler observes the workers of all pools: see [`set_worker_callbacks`].
#[derive(Clone, Copy, Debug)]
pub struct WorkerCallbacks {
    /// A worker starts to work on a job; the return value is passed to `end`.
    pub begin: fn() -> u64,
    /// The worker has no more tasks of that job.
    pub end: fn(u64),
}

static WORKER_CALLBACKS: OnceLock<WorkerCallbacks> = OnceLock::new();

/// Installs callbacks that the workers of all pools (not the threads that call [`Pool::run`]) call while they work.
/// Only the first call has an effect; the callbacks of a profiler that is switched off should return at once.
pub fn set_worker_callbacks(watch: WorkerCallbacks) {
    let _ = WORKER_CALLBACKS.set(watch);
}

/// The closure of a job with its lifetime erased; see [`Pool::run`] for why that is sound.
#[derive(Clone, Copy)]
struct JobPtr(*const (dyn Fn(usize, usize) + Sync));

#[allow(unsafe_code)]
// SAFETY: the pointee is `Sync`, so sharing it between threads is sound; `Pool::run` keeps it alive while it is used.
unsafe impl Send for JobPtr {}

struct Shared {
    /// Counts the jobs; a change wakes the workers.
    epoch: AtomicU64,
    /// The current job, `None` between jobs.
    job: Mutex<Option<(JobPtr, usize)>>,
    job_changed: Condvar,
    /// Next task index of the current job.
    next_task: AtomicUsize,
    /// Workers that have not finished the current job.
    active: AtomicUsize,
    finished: Mutex<()>,
    all_finished: Condvar,
    stop: AtomicBool,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

/// A fixed set of threads; see the module documentation.
///
/// ```
/// use gausset_compute::Pool;
///
/// let pool = Pool::new(3);
/// let mut squares = vec![0; 1000];
/// pool.run_chunks(&mut squares, 100, |chunk, part| {
///     for (i, square) in (100 * chunk..).zip(part) {
///         *square = i * i;
///     }
/// });
/// assert_eq!(squares[999], 999 * 999);
/// ```
pub struct Pool {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
    /// Held while a job runs, so that concurrent callers wait here: one job at a time.
    run_lock: Mutex<()>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A poisoned lock only means that a task panicked; the panic itself is passed on to the caller.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Pool {
    /// A pool in which `threads` threads work (at least 1), including the caller of [`Self::run`].
    ///
    /// If the system refuses a thread, the pool continues with those it has.
    #[must_use]
    pub fn new(threads: usize) -> Self {
        let shared = Arc::new(Shared {
            epoch: AtomicU64::new(0),
            job: Mutex::new(None),
            job_changed: Condvar::new(),
            next_task: AtomicUsize::new(0),
            active: AtomicUsize::new(0),
            finished: Mutex::new(()),
            all_finished: Condvar::new(),
            stop: AtomicBool::new(false),
            panic: Mutex::new(None),
        });
        let workers = (1..threads.max(1))
            .map_while(|worker| {
                let shared = Arc::clone(&shared);
                std::thread::Builder::new()
                    .name(format!("gausset-{worker}"))
                    .spawn(move || worker_loop(&shared, worker))
                    .ok()
            })
            .collect();
        Self { shared, workers, run_lock: Mutex::new(()) }
    }

    /// A pool with as many threads as the machine can run in parallel.
    #[must_use]
    pub fn with_all_cores() -> Self {
        Self::new(std::thread::available_parallelism().map_or(1, usize::from))
    }

    /// Number of threads that work on a job.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.workers.len() + 1
    }

    /// Runs `f(task, worker)` for each task in `0..tasks`, on all threads, and returns when every task is done.
    ///
    /// Each task index is used exactly once; which worker (`0..threads`) gets it is not defined. Must not be called
    /// from inside a task of the same pool.
    ///
    /// ```
    /// use std::sync::atomic::{AtomicUsize, Ordering};
    ///
    /// let sum = AtomicUsize::new(0);
    /// gausset_compute::Pool::new(2).run(10, |task, _worker| {
    ///     sum.fetch_add(task, Ordering::Relaxed);
    /// });
    /// assert_eq!(sum.into_inner(), 45);
    /// ```
    ///
    /// # Panics
    /// If a task panics: with its panic, after all threads have stopped working on the job.
    pub fn run(&self, tasks: usize, f: impl Fn(usize, usize) + Sync) {
        if self.workers.is_empty() || tasks <= 1 {
            (0..tasks).for_each(|task| f(task, 0));
            return;
        }
        let _turn = lock(&self.run_lock);
        let shared = &*self.shared;
        let f: &(dyn Fn(usize, usize) + Sync) = &f;
        #[allow(unsafe_code)]
        // SAFETY: only the lifetime changes. The pointer is used by workers between here and the moment `active`
        // reaches zero, and this function does not return (or unwind) before that moment: `f` outlives every use.
        let job = JobPtr(unsafe {
            std::mem::transmute::<
                *const (dyn Fn(usize, usize) + Sync + '_),
                *const (dyn Fn(usize, usize) + Sync + 'static),
            >(std::ptr::from_ref(f))
        });
        shared.next_task.store(0, Ordering::Relaxed);
        shared.active.store(self.workers.len(), Ordering::Relaxed);
        {
            let mut slot = lock(&shared.job);
            *slot = Some((job, tasks));
            shared.epoch.fetch_add(1, Ordering::Release);
        }
        shared.job_changed.notify_all();

        let mine = catch_unwind(AssertUnwindSafe(|| take_tasks(shared, f, tasks, 0)));
        self.wait_for_workers();
        *lock(&shared.job) = None;
        let theirs = lock(&shared.panic).take();
        if let Some(panic) = mine.err().or(theirs) {
            resume_unwind(panic);
        }
    }

    /// Runs `f(index, part)` for each part, in parallel; parts are disjoint by construction.
    ///
    /// # Panics
    /// If `f` panics.
    pub fn run_parts<P: Send>(&self, parts: &mut [P], f: impl Fn(usize, &mut P) + Sync) {
        // One uncontended lock per part (about 20 ns) is the price of having no `unsafe` here.
        let cells: Vec<Mutex<&mut P>> = parts.iter_mut().map(Mutex::new).collect();
        self.run(cells.len(), |index, _| f(index, &mut lock(&cells[index])));
    }

    /// Runs `f(index, chunk)` for each chunk of `chunk_len` values (the last may be shorter), in parallel.
    ///
    /// # Panics
    /// If `f` panics or `chunk_len` is 0.
    pub fn run_chunks<T: Send>(&self, data: &mut [T], chunk_len: usize, f: impl Fn(usize, &mut [T]) + Sync) {
        let mut parts: Vec<&mut [T]> = data.chunks_mut(chunk_len).collect();
        self.run_parts(&mut parts, |index, part| f(index, part));
    }

    /// Runs `f` for each index and collects the results in order.
    ///
    /// ```
    /// assert_eq!(gausset_compute::Pool::new(2).map(4, |i| i * i), [0, 1, 4, 9]);
    /// ```
    ///
    /// # Panics
    /// If `f` panics.
    pub fn map<R: Send>(&self, tasks: usize, f: impl Fn(usize) -> R + Sync) -> Vec<R> {
        let mut results: Vec<Option<R>> = std::iter::repeat_with(|| None).take(tasks).collect();
        self.run_parts(&mut results, |index, slot| *slot = Some(f(index)));
        results.into_iter().flatten().collect()
    }

    fn wait_for_workers(&self) {
        let shared = &*self.shared;
        for _ in 0..SPIN_ROUNDS {
            if shared.active.load(Ordering::Acquire) == 0 {
                return;
            }
            std::hint::spin_loop();
        }
        let mut guard = lock(&shared.finished);
        while shared.active.load(Ordering::Acquire) != 0 {
            guard = shared.all_finished.wait(guard).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        {
            let _slot = lock(&self.shared.job);
            self.shared.epoch.fetch_add(1, Ordering::Release);
        }
        self.shared.job_changed.notify_all();
        for worker in self.workers.drain(..) {
            let _ = worker.join();
        }
    }
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pool").field("threads", &self.threads()).finish()
    }
}

fn take_tasks(shared: &Shared, f: &(dyn Fn(usize, usize) + Sync), tasks: usize, worker: usize) {
    loop {
        let task = shared.next_task.fetch_add(1, Ordering::Relaxed);
        if task >= tasks {
            return;
        }
        f(task, worker);
    }
}

fn worker_loop(shared: &Shared, worker: usize) {
    let mut seen = 0;
    loop {
        seen = wait_for_job(shared, seen);
        if shared.stop.load(Ordering::Acquire) {
            return;
        }
        let job = *lock(&shared.job);
        if let Some((job, tasks)) = job {
            #[allow(unsafe_code)]
            // SAFETY: `Pool::run` keeps the closure alive until this worker has counted itself out of `active` below.
            let f = unsafe { &*job.0 };
            let watch = WORKER_CALLBACKS.get().map(|watch| (watch, (watch.begin)()));
            let done = catch_unwind(AssertUnwindSafe(|| take_tasks(shared, f, tasks, worker)));
            if let Some((watch, token)) = watch {
                (watch.end)(token);
            }
            if let Err(panic) = done {
                // The other workers need not start further tasks of a job that has failed.
                shared.next_task.store(usize::MAX / 2, Ordering::Relaxed);
                lock(&shared.panic).get_or_insert(panic);
            }
            if shared.active.fetch_sub(1, Ordering::AcqRel) == 1 {
                let _guard = lock(&shared.finished);
                shared.all_finished.notify_all();
            }
        }
    }
}

fn wait_for_job(shared: &Shared, seen: u64) -> u64 {
    for _ in 0..SPIN_ROUNDS {
        let epoch = shared.epoch.load(Ordering::Acquire);
        if epoch != seen {
            return epoch;
        }
        std::hint::spin_loop();
    }
    let mut slot = lock(&shared.job);
    loop {
        let epoch = shared.epoch.load(Ordering::Acquire);
        if epoch != seen {
            return epoch;
        }
        slot = shared.job_changed.wait(slot).unwrap_or_else(PoisonError::into_inner);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU32;

    #[test]
    fn every_task_runs_exactly_once_on_any_number_of_threads() {
        for threads in [1, 2, 3, 7] {
            let pool = Pool::new(threads);
            for round in 0..200 {
                let hits: Vec<AtomicU32> = (0..round).map(|_| AtomicU32::new(0)).collect();
                pool.run(round, |task, worker| {
                    assert!(worker < threads);
                    hits[task].fetch_add(1, Ordering::Relaxed);
                });
                assert!(hits.iter().all(|h| h.load(Ordering::Relaxed) == 1));
            }
        }
    }

    #[test]
    fn parts_and_results_keep_their_order() {
        let pool = Pool::new(3);
        let mut data = vec![0u64; 1000];
        pool.run_chunks(&mut data, 7, |index, chunk| chunk.fill(index as u64));
        assert!(data.iter().enumerate().all(|(i, &v)| v == i as u64 / 7));
        assert_eq!(pool.map(50, |i| i * i), (0..50).map(|i| i * i).collect::<Vec<_>>());
    }

    #[test]
    fn a_panic_in_a_task_reaches_the_caller_and_the_pool_lives_on() {
        let pool = Pool::new(3);
        for bad in [0, 5, 63] {
            let caught = catch_unwind(AssertUnwindSafe(|| {
                pool.run(64, |task, _| assert!(task != bad, "task {task} fails"));
            }));
            assert!(caught.is_err());
            let sum = AtomicUsize::new(0);
            pool.run(10, |task, _| {
                sum.fetch_add(task, Ordering::Relaxed);
            });
            assert_eq!(sum.into_inner(), 45);
        }
    }

    #[test]
    fn several_threads_may_share_a_pool() {
        let pool = Pool::new(3);
        let total = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..100 {
                        pool.run(8, |_, _| {
                            total.fetch_add(1, Ordering::Relaxed);
                        });
                    }
                });
            }
        });
        assert_eq!(total.into_inner(), 3200);
    }
}
