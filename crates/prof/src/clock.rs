//! The two clocks: monotonic time and the CPU time of the process, both in nanoseconds.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Nanoseconds since the first call in this process.
pub(crate) fn now_ns() -> u64 {
    static ORIGIN: OnceLock<Instant> = OnceLock::new();
    let origin = *ORIGIN.get_or_init(Instant::now);
    u64::try_from(origin.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// CPU time of all threads of this process; `None` if the system has no such clock.
///
/// A system call: 0.55 µs, twenty times the monotonic clock.
pub(crate) fn process_cpu_ns() -> Option<u64> {
    u64::try_from(process_cpu()?.as_nanos()).ok()
}

/// CPU time of all threads of this process, user and system together; `None` if the system has no such clock.
#[must_use]
pub fn process_cpu() -> Option<Duration> {
    read(Clock::Process)
}

/// CPU time of the calling thread, user and system together; `None` if the system has no such clock.
#[must_use]
pub fn thread_cpu() -> Option<Duration> {
    read(Clock::Thread)
}

enum Clock {
    Process,
    Thread,
}

#[cfg(unix)]
fn read(clock: Clock) -> Option<Duration> {
    use rustix::time::{ClockId, clock_gettime};
    let time = clock_gettime(match clock {
        Clock::Process => ClockId::ProcessCPUTime,
        Clock::Thread => ClockId::ThreadCPUTime,
    });
    Some(Duration::new(u64::try_from(time.tv_sec).ok()?, u32::try_from(time.tv_nsec).ok()?))
}

#[cfg(not(unix))]
fn read(_clock: Clock) -> Option<Duration> {
    None
}
