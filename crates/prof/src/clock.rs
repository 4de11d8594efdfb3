//! The two clocks: monotonic time and the CPU time of the process, both in nanoseconds.

use std::sync::OnceLock;
use std::time::Instant;

/// Nanoseconds since the first call in this process.
pub(crate) fn now_ns() -> u64 {
    static ORIGIN: OnceLock<Instant> = OnceLock::new();
    let origin = *ORIGIN.get_or_init(Instant::now);
    u64::try_from(origin.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// CPU time of all threads of this process, `None` where the system has no such clock.
///
/// A system call: 0.55 µs, twenty times the monotonic clock.
#[cfg(unix)]
pub(crate) fn process_cpu_ns() -> Option<u64> {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    let seconds = u64::try_from(time.tv_sec).ok()?;
    let nanoseconds = u64::try_from(time.tv_nsec).ok()?;
    seconds.checked_mul(1_000_000_000)?.checked_add(nanoseconds)
}

/// CPU time of all threads of this process, `None` where the system has no such clock.
#[cfg(not(unix))]
pub(crate) fn process_cpu_ns() -> Option<u64> {
    None
}
