//! What a measurement reads of the process, and the middle of what it reads.

use serde::Serialize;

/// Largest resident size of this process.
pub(super) fn peak_bytes() -> Option<u64> {
    gausset_compute::machine::resident(None).map(|resident| resident.peak)
}

/// Begins to look for the largest resident size anew; returns the size now, where the system can do that.
#[allow(clippy::disallowed_methods, reason = "a file of the kernel")]
pub(super) fn reset_peak() -> Option<u64> {
    std::fs::write("/proc/self/clear_refs", "5").ok()?;
    gausset_compute::machine::resident(None).map(|resident| resident.now)
}

/// CPU time of the programs that this process has run and that have ended, in steps of 10 ms.
#[allow(clippy::disallowed_methods, reason = "a file of the kernel")]
pub(super) fn children_cpu_seconds() -> f64 {
    /// Ticks a second, the same on every Linux.
    const TICKS: f64 = 100.0;
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name of the program stands in brackets and may hold anything; user and system time of children are the 14th
    // and 15th fields after it.
    let after = stat.rsplit_once(')').map_or("", |(_, after)| after);
    let fields = after.split_whitespace().skip(13).take(2);
    let ticks: Option<f64> = fields.map(|field| field.parse::<f64>().ok()).sum();
    ticks.map_or(f64::NAN, |ticks| ticks / TICKS)
}

/// CPU time of the process, all threads.
pub(super) fn cpu_seconds() -> f64 {
    gausset_prof::process_cpu().map_or(f64::NAN, |time| time.as_secs_f64())
}

/// The middle of the values, which it sorts; 0 of none.
pub(super) fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

/// The middle of times and how far they spread.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Interval {
    /// Median.
    pub(super) median_ms: f64,
    /// A tenth is below.
    pub(super) p10_ms: f64,
    /// A tenth is above.
    pub(super) p90_ms: f64,
}

impl Interval {
    /// Of times in ms, which it sorts; 0 of none.
    pub(super) fn of(times: &mut [f64]) -> Self {
        let median_ms = median(times);
        let at = |share: f64| {
            let place = (share * times.len().saturating_sub(1) as f64).round() as usize;
            times.get(place).copied().unwrap_or(0.0)
        };
        Self { median_ms, p10_ms: at(0.1), p90_ms: at(0.9) }
    }
}
