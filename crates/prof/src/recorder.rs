//! Recording: a log for each thread, a registry of all logs, and the wall clock.
//!
//! A thread writes to its own log under an uncontended lock (about 10 ns), so that a snapshot can read it while the
//! thread sleeps. When a thread ends, its log is merged into one common log: memory is bounded by the number of live
//! threads, not by the number of threads that ever existed.

use std::collections::VecDeque;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use crate::clock::{now_ns, process_cpu_ns};
use crate::paths::{PathTree, ROOT};
use crate::profile::{self, Profile};
use crate::stats::Stats;
use crate::trace::{Trace, TraceEvent};
use crate::tracks::{Interval, Tracks};

/// Maximum number of paths per thread.
pub const MAX_PATHS: usize = 256;
/// Maximum nesting depth of spans.
pub const MAX_DEPTH: usize = 32;
/// Maximum number of counters per thread.
pub const MAX_COUNTERS: usize = 128;
/// Maximum number of events kept for the trace of a thread (the last ones), about 4 MB.
pub const TRACE_EVENTS: usize = 1 << 16;
/// Spans of the critical path read the CPU clock of the process down to this depth: run, step, stage. Deeper ones are
/// too frequent for a system call each.
pub const CPU_CLOCK_DEPTH: usize = 3;

/// Maximum number of thread names kept for the trace.
const MAX_THREAD_NAMES: usize = 256;

/// A span that has not ended.
struct OpenSpan {
    serial: u64,
    node: usize,
    start_ns: u64,
    start_cpu_ns: Option<u64>,
    /// Time of the children that have ended.
    children_ns: u64,
}

/// The records of one thread.
#[derive(Default)]
struct ThreadLog {
    /// Number of the thread, in the order of first appearance.
    thread: u32,
    is_critical: bool,
    paths: PathTree,
    open: Vec<OpenSpan>,
    last_serial: u64,
    counters: Vec<(&'static str, Stats)>,
    tracks: Tracks,
    events: VecDeque<TraceEvent>,
    dropped_spans: u64,
}

/// All logs and the wall clock.
#[derive(Default)]
struct Registry {
    live: Vec<Arc<Mutex<ThreadLog>>>,
    /// Logs of threads that have ended, merged; that of the critical path is kept separately.
    ended: ThreadLog,
    ended_critical: ThreadLog,
    threads_seen: u32,
    /// Number of ended threads, other than the critical path, that recorded spans.
    ended_workers: u32,
    thread_names: Vec<(u32, String)>,
    has_critical: bool,
    /// Wall and CPU time at which recording was switched on; `None` while it is off.
    running_since: Option<(u64, Option<u64>)>,
    /// Wall and CPU time of earlier periods of recording.
    wall_ns: u64,
    cpu_ns: Option<u64>,
}

static REGISTRY: LazyLock<Mutex<Registry>> = LazyLock::new(Mutex::default);

/// Name of the innermost open span of the critical path: the current work of the pool's workers.
static CURRENT: Mutex<Option<&'static str>> = Mutex::new(None);

/// Locks are always taken in the order registry, log, [`CURRENT`].
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // No panic can leave the data of these locks half-changed.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The calling thread's log; passed to the registry when the thread ends.
struct LocalLog(Arc<Mutex<ThreadLog>>);

thread_local! {
    static LOCAL: LocalLog = LocalLog::register();
}

impl LocalLog {
    fn register() -> Self {
        let mut registry = lock(&REGISTRY);
        let thread = registry.threads_seen;
        registry.threads_seen += 1;
        if registry.thread_names.len() < MAX_THREAD_NAMES {
            let name =
                std::thread::current().name().map_or_else(|| format!("thread {thread}"), str::to_owned);
            registry.thread_names.push((thread, name));
        }
        let log = Arc::new(Mutex::new(ThreadLog { thread, ..ThreadLog::default() }));
        registry.live.push(Arc::clone(&log));
        Self(log)
    }
}

impl Drop for LocalLog {
    fn drop(&mut self) {
        let mut registry = lock(&REGISTRY);
        registry.live.retain(|log| !Arc::ptr_eq(log, &self.0));
        let mut log = lock(&self.0);
        log.close_open_spans(now_ns());
        registry.ended_workers += u32::from(log.is_worker());
        let into = if log.is_critical { &mut registry.ended_critical } else { &mut registry.ended };
        into.merge(&log);
    }
}

/// Runs `f` on the calling thread's log; `None` during thread shutdown.
fn with_local<R>(f: impl FnOnce(&mut ThreadLog) -> R) -> Option<R> {
    LOCAL.try_with(|local| f(&mut lock(&local.0))).ok()
}

/// Starts a span on this thread; returns 0 if it is not recorded.
pub(crate) fn enter(name: &'static str) -> u64 {
    with_local(|log| log.enter(name)).unwrap_or(0)
}

/// Starts a span on this thread with the name of the innermost open span of the critical path; returns 0 if there is
/// none, and on the critical path itself.
pub(crate) fn enter_as_worker() -> u64 {
    let current = *lock(&CURRENT);
    let Some(name) = current else { return 0 };
    with_local(|log| if log.is_critical { 0 } else { log.enter(name) }).unwrap_or(0)
}

/// Ends the span with this number, and those inside it that are still open.
pub(crate) fn exit(serial: u64, traced: bool) {
    // The clock is read before the lock, so that a snapshot by another thread is not part of the span.
    let end_ns = now_ns();
    with_local(|log| log.exit(serial, end_ns, traced));
}

/// Adds a value to a counter of this thread.
pub(crate) fn count(name: &'static str, value: f64, traced: bool) {
    if value.is_finite() && value >= 0.0 {
        with_local(|log| log.count(name, value, traced));
    }
}

/// Adds an interval of a track.
pub(crate) fn interval(interval: Interval, traced: bool) {
    with_local(|log| {
        log.tracks.add(&interval);
        if traced {
            log.push_event(TraceEvent::Interval(interval));
        }
    });
}

impl ThreadLog {
    /// Whether spans were recorded here and this is not the critical path.
    fn is_worker(&self) -> bool {
        !self.is_critical && self.paths.nodes.len() > 1
    }

    fn enter(&mut self, name: &'static str) -> u64 {
        let parent = self.open.last().map_or(ROOT, |span| span.node);
        let node = if self.open.len() < MAX_DEPTH { self.paths.child(parent, name, MAX_PATHS) } else { None };
        let Some(node) = node else {
            self.dropped_spans += 1;
            return 0;
        };
        self.last_serial += 1;
        let reads_cpu_clock = self.is_critical && self.open.len() < CPU_CLOCK_DEPTH;
        let start_cpu_ns = if reads_cpu_clock { process_cpu_ns() } else { None };
        // The clock is read last: the overhead before counts as the parent's time.
        if self.is_critical {
            *lock(&CURRENT) = Some(name);
        }
        let start_ns = now_ns();
        self.open.push(OpenSpan { serial: self.last_serial, node, start_ns, start_cpu_ns, children_ns: 0 });
        self.last_serial
    }

    fn exit(&mut self, serial: u64, end_ns: u64, traced: bool) {
        // Usually the last one. Absent if recording was switched off or reset since.
        let Some(depth) = self.open.iter().rposition(|span| span.serial == serial) else { return };
        let end_cpu_ns = if self.open[depth].start_cpu_ns.is_some() { process_cpu_ns() } else { None };
        while self.open.len() > depth {
            let Some((span, duration_ns)) = self.close_last(end_ns, end_cpu_ns) else { return };
            let node = &mut self.paths.nodes[span.node];
            node.inclusive.add(duration_ns as f64);
            if let Some(exclusive) = &mut node.exclusive {
                exclusive.add(duration_ns.saturating_sub(span.children_ns) as f64);
            }
            if traced {
                let name = node.name;
                self.push_event(TraceEvent::Span {
                    thread: self.thread,
                    name,
                    start_ns: span.start_ns,
                    duration_ns,
                });
            }
        }
    }

    /// Removes the innermost open span and adds its time to its path and its parent.
    fn close_last(&mut self, end_ns: u64, end_cpu_ns: Option<u64>) -> Option<(OpenSpan, u64)> {
        let span = self.open.pop()?;
        let duration_ns = end_ns.saturating_sub(span.start_ns);
        let node = &mut self.paths.nodes[span.node];
        node.total_ns += duration_ns;
        if let (Some(start), Some(end)) = (span.start_cpu_ns, end_cpu_ns) {
            *node.cpu_ns.get_or_insert(0) += end.saturating_sub(start);
        }
        let parent = self.open.last_mut();
        if self.is_critical {
            *lock(&CURRENT) = parent.as_ref().map(|parent| self.paths.nodes[parent.node].name);
        }
        if let Some(parent) = parent {
            parent.children_ns += duration_ns;
        }
        Some((span, duration_ns))
    }

    /// Ends all open spans without adding them to the distributions.
    fn close_open_spans(&mut self, end_ns: u64) {
        let end_cpu_ns = if self.is_critical { process_cpu_ns() } else { None };
        while self.close_last(end_ns, end_cpu_ns).is_some() {}
    }

    fn count(&mut self, name: &'static str, value: f64, traced: bool) {
        let Some(stats) = counter_of(&mut self.counters, name) else { return };
        stats.add(value);
        if traced {
            self.push_event(TraceEvent::Counter { thread: self.thread, name, at_ns: now_ns(), value });
        }
    }

    fn push_event(&mut self, event: TraceEvent) {
        if self.events.len() == TRACE_EVENTS {
            self.events.pop_front();
        }
        self.events.push_back(event);
    }

    /// Paths including the time so far of the spans that are still open.
    fn paths_until(&self, now_ns: u64) -> PathTree {
        let mut paths = self.paths.clone();
        let cpu_now_ns = if self.is_critical && !self.open.is_empty() { process_cpu_ns() } else { None };
        for span in &self.open {
            let node = &mut paths.nodes[span.node];
            node.total_ns += now_ns.saturating_sub(span.start_ns);
            if let (Some(start), Some(now)) = (span.start_cpu_ns, cpu_now_ns) {
                *node.cpu_ns.get_or_insert(0) += now.saturating_sub(start);
            }
        }
        paths
    }

    fn merge(&mut self, other: &Self) {
        self.dropped_spans += other.dropped_spans + self.paths.merge(&other.paths, MAX_PATHS);
        merge_counters(&mut self.counters, &other.counters);
        self.tracks.merge(&other.tracks);
        other.events.iter().for_each(|&event| self.push_event(event));
    }

    fn clear(&mut self) {
        *self = Self {
            thread: self.thread,
            is_critical: self.is_critical,
            last_serial: self.last_serial,
            ..Self::default()
        };
    }
}

/// The statistics of a counter, created if needed; `None` if the maximum number of counters is reached.
fn counter_of<'a>(counters: &'a mut Vec<(&'static str, Stats)>, name: &'static str) -> Option<&'a mut Stats> {
    let index = match counters.iter().position(|(known, _)| *known == name) {
        Some(index) => index,
        None if counters.len() < MAX_COUNTERS => {
            counters.push((name, Stats::default()));
            counters.len() - 1
        }
        None => return None,
    };
    Some(&mut counters[index].1)
}

fn merge_counters(into: &mut Vec<(&'static str, Stats)>, from: &[(&'static str, Stats)]) {
    for (name, stats) in from {
        if let Some(known) = counter_of(into, name) {
            known.merge(stats);
        }
    }
}

impl Registry {
    /// Makes the calling thread the critical path.
    fn make_critical(&mut self, me: &Arc<Mutex<ThreadLog>>) {
        for log in &self.live {
            lock(log).is_critical = Arc::ptr_eq(log, me);
        }
        self.has_critical = true;
    }
}

/// The calling thread's log, registered if needed (before the registry is locked).
fn local_log() -> Option<Arc<Mutex<ThreadLog>>> {
    LOCAL.try_with(|local| Arc::clone(&local.0)).ok()
}

/// Starts the wall clock.
pub(crate) fn start() {
    let me = local_log();
    let mut registry = lock(&REGISTRY);
    if let (Some(me), false) = (&me, registry.has_critical) {
        registry.make_critical(me);
    }
    if registry.running_since.is_none() {
        registry.running_since = Some((now_ns(), process_cpu_ns()));
    }
}

/// Stops the wall clock and cuts off all open spans.
pub(crate) fn stop() {
    let mut registry = lock(&REGISTRY);
    let now = now_ns();
    for log in &registry.live {
        lock(log).close_open_spans(now);
    }
    if let Some((since, cpu_since)) = registry.running_since.take() {
        registry.wall_ns += now.saturating_sub(since);
        if let (Some(since), Some(now)) = (cpu_since, process_cpu_ns()) {
            *registry.cpu_ns.get_or_insert(0) += now.saturating_sub(since);
        }
    }
}

/// Clears all records; the calling thread becomes the critical path.
pub(crate) fn reset(enabled: bool) {
    let me = local_log();
    let mut registry = lock(&REGISTRY);
    if let Some(me) = &me {
        registry.make_critical(me);
    }
    for log in &registry.live {
        lock(log).clear();
    }
    *lock(&CURRENT) = None;
    registry.ended.clear();
    registry.ended_critical.clear();
    registry.ended_workers = 0;
    (registry.wall_ns, registry.cpu_ns) = (0, None);
    registry.running_since = enabled.then(|| (now_ns(), process_cpu_ns()));
}

/// Reads all logs into a [`Profile`].
pub(crate) fn snapshot() -> Profile {
    let registry = lock(&REGISTRY);
    let mut critical = registry.ended_critical.paths.clone();
    let mut workers = registry.ended.paths.clone();
    let mut counters = Vec::new();
    let mut dropped_spans = registry.ended.dropped_spans + registry.ended_critical.dropped_spans;
    merge_counters(&mut counters, &registry.ended_critical.counters);
    let mut tracks = registry.ended_critical.tracks.clone();
    let mut wall_ns = registry.wall_ns;
    let mut cpu_ns = registry.cpu_ns;
    let mut worker_threads = registry.ended_workers;
    for log in &registry.live {
        let log = lock(log);
        let now = now_ns();
        if log.is_critical {
            // One clock reading for both the wall time and the open spans of the critical path.
            wall_ns += registry.running_since.map_or(0, |(since, _)| now.saturating_sub(since));
        }
        let into = if log.is_critical { &mut critical } else { &mut workers };
        dropped_spans += log.dropped_spans + into.merge(&log.paths_until(now), MAX_PATHS);
        worker_threads += u32::from(log.is_worker());
        merge_counters(&mut counters, &log.counters);
        tracks.merge(&log.tracks);
    }
    merge_counters(&mut counters, &registry.ended.counters);
    tracks.merge(&registry.ended.tracks);
    if !registry.live.iter().any(|log| lock(log).is_critical) {
        wall_ns += registry.running_since.map_or(0, |(since, _)| now_ns().saturating_sub(since));
    }
    if let Some((_, Some(since))) = registry.running_since
        && let Some(now) = process_cpu_ns()
    {
        *cpu_ns.get_or_insert(0) += now.saturating_sub(since);
    }
    profile::assemble(&profile::Recorded {
        critical,
        workers,
        worker_threads,
        counters,
        tracks,
        wall_ns,
        cpu_ns,
        dropped_spans,
    })
}

/// All recorded events, by time.
pub(crate) fn trace() -> Trace {
    let registry = lock(&REGISTRY);
    let mut events: Vec<TraceEvent> = Vec::new();
    events.extend(registry.ended_critical.events.iter().chain(&registry.ended.events));
    for log in &registry.live {
        events.extend(&lock(log).events);
    }
    events.sort_by_key(TraceEvent::order);
    Trace { thread_names: registry.thread_names.clone(), events }
}
