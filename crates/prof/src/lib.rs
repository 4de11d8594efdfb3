//! Profiling: spans on all threads, statistics by path, tables and traces.
//!
//! ```
//! gausset_prof::set_enabled(true);
//! for _ in 0..3 {
//!     let _step = gausset_prof::span("step");
//!     let _blend = gausset_prof::span("blend");
//!     gausset_prof::counter("visible", 132_361.0);
//! }
//! let profile = gausset_prof::snapshot();
//! assert_eq!(profile.rows[1].path, "step/blend");
//! # gausset_prof::set_enabled(false);
//! ```
//!
//! - **No cost when off**: a span is one relaxed load of an atomic. When on, it costs about 0.1 µs, and 1.5 µs if the
//!   CPU clock of the process is read as well ([`CPU_CLOCK_DEPTH`]).
//! - **The rows add up.** Spans nest; the time of a span that no child accounts for is a separate row, called
//!   `unattributed`, at every level. The leaf rows of the *critical path* (the thread that switched profiling on, or
//!   reset it) therefore sum to the wall time exactly, and every fraction is relative to the wall time.
//! - **Threads**: spans of other threads are reported separately, summed by path: they run in parallel to the wall
//!   clock, not within it. The time of all threads together in a stage is the `cpu` figure of its row on the critical
//!   path. The threads of a pool have no spans of their own: [`start_worker_span`] gives them the name of the current
//!   stage of the critical path.
//! - **Devices** have separate tracks ([`interval`]): their time also runs in parallel to the wall clock.
//! - **Workers** that switch between stages keep a [`StageTimer`], recorded or not: its rows are all of their time.
//! - **Bounded**: statistics are kept per path ([`MAX_PATHS`], [`MAX_DEPTH`], [`MAX_COUNTERS`] for each thread) and do
//!   not grow with the number of spans. Spans beyond a limit count as time of their parent and are counted in
//!   [`Profile::dropped_spans`]. The trace is a ring of the last [`TRACE_EVENTS`] events of each thread.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod clock;
pub use clock::{process_cpu, thread_cpu};
mod diff;
mod paths;
mod profile;
mod recorder;
mod report;
mod stage_time;
mod stats;
mod table;
mod trace;
mod tracks;

use std::marker::PhantomData;
use std::sync::atomic::{AtomicU8, Ordering};

pub use diff::{Change, ChangeKind, changes};
pub use profile::{CounterRow, MachineRates, Profile, Row, RowKind, StageLowerBound, UNATTRIBUTED};
pub use recorder::{CPU_CLOCK_DEPTH, MAX_COUNTERS, MAX_DEPTH, MAX_PATHS, TRACE_EVENTS};
pub use stage_time::{StageSet, StageTime, StageTimer};
pub use stats::MEDIAN_RELATIVE_ERROR;
pub use trace::{Trace, TraceEvent};
pub use tracks::{Interval, TrackRow};

/// Bit of [`MODE`]: spans and counters are recorded.
const RECORD: u8 = 1;
/// Bit of [`MODE`]: each span and counter value is also kept for the trace.
const TRACE: u8 = 2;

static MODE: AtomicU8 = AtomicU8::new(0);

/// Ends its span when dropped. Must stay on the thread that started it.
#[must_use = "a span ends when its guard is dropped"]
#[derive(Debug)]
pub struct Span {
    /// Number of the span on its thread, 0 = not recorded.
    serial: u64,
    not_send: PhantomData<*const ()>,
}

/// Starts a span on this thread, inside the innermost open one.
///
/// Names are stable words (those of the stages); in paths they are separated by `/`.
#[inline]
pub fn span(name: &'static str) -> Span {
    let mode = MODE.load(Ordering::Relaxed);
    let serial = if mode & RECORD == 0 { 0 } else { recorder::enter(name) };
    Span { serial, not_send: PhantomData }
}

impl Drop for Span {
    #[inline]
    fn drop(&mut self) {
        if self.serial != 0 {
            recorder::exit(self.serial, MODE.load(Ordering::Relaxed) & TRACE != 0);
        }
    }
}

/// Starts a span on a pool's thread with the name of the innermost open span of the critical path; [`end_worker_span`]
/// ends it. Returns 0 if nothing is recorded.
#[must_use]
pub fn start_worker_span() -> u64 {
    if MODE.load(Ordering::Relaxed) & RECORD == 0 { 0 } else { recorder::enter_as_worker() }
}

/// Ends the span started by [`start_worker_span`].
pub fn end_worker_span(serial: u64) {
    if serial != 0 {
        recorder::exit(serial, MODE.load(Ordering::Relaxed) & TRACE != 0);
    }
}

/// Adds one value to the statistics of a quantity: splats, visible, intersections, bytes…
///
/// Values are sizes: a value that is negative or not finite is ignored.
#[inline]
pub fn counter(name: &'static str, value: f64) {
    let mode = MODE.load(Ordering::Relaxed);
    if mode & RECORD != 0 {
        recorder::count(name, value, mode & TRACE != 0);
    }
}

/// Adds an interval that was measured elsewhere: work of a device, a transfer.
///
/// ```
/// gausset_prof::set_enabled(true);
/// let start_ns = gausset_prof::clock_ns();
/// let (track, name) = ("gpu", "blend");
/// gausset_prof::interval(gausset_prof::Interval { track, name, start_ns, duration_ns: 2_000_000, bytes: 0.0 });
/// let row = &gausset_prof::snapshot().tracks[0];
/// assert_eq!((row.name.as_str(), row.count, row.total_ms), ("blend", 1, 2.0));
/// ```
#[inline]
pub fn interval(interval: Interval) {
    let mode = MODE.load(Ordering::Relaxed);
    if mode & RECORD != 0 {
        recorder::interval(interval, mode & TRACE != 0);
    }
}

/// The monotonic clock of spans and [`Interval`]s, ns since its first reading in this process.
#[must_use]
pub fn clock_ns() -> u64 {
    clock::now_ns()
}

/// Switches recording on or off; recorded data is kept.
///
/// The wall clock of the profile runs while recording is on. The first thread that switches it on is the critical path.
/// Spans that are open when it is switched off end there: they count in the total of their path, not in its
/// distribution.
pub fn set_enabled(enabled: bool) {
    if enabled {
        recorder::start();
        MODE.fetch_or(RECORD, Ordering::Relaxed);
    } else {
        MODE.fetch_and(!RECORD, Ordering::Relaxed);
        recorder::stop();
    }
}

/// Whether spans are recorded.
#[must_use]
pub fn is_enabled() -> bool {
    MODE.load(Ordering::Relaxed) & RECORD != 0
}

/// Switches the trace on or off: while it is on, each recorded span and counter is kept as an event ([`trace()`]).
pub fn set_trace(trace: bool) {
    if trace {
        MODE.fetch_or(TRACE, Ordering::Relaxed);
    } else {
        MODE.fetch_and(!TRACE, Ordering::Relaxed);
    }
}

/// Clears all records, restarts the wall clock and makes the calling thread the critical path.
///
/// Open spans leave no record. Call it after a few steps to exclude the warm-up.
pub fn reset() {
    recorder::reset(is_enabled());
}

/// The profile since the last [`reset`]. Open spans count in the total of their path with their time so far.
#[must_use]
pub fn snapshot() -> Profile {
    recorder::snapshot()
}

/// The events recorded while [`set_trace`] was on, by time.
#[must_use]
pub fn trace() -> Trace {
    recorder::trace()
}
