//! CPU time and memory of the process, and medians.

use serde::Serialize;

/// Peak resident size of this process, bytes.
pub(super) fn peak_bytes() -> Option<u64> {
    gausset_compute::machine::resident_memory(None).map(|resident| resident.peak)
}

/// CPU time of the process in seconds, all threads.
pub(super) fn cpu_seconds() -> f64 {
    gausset_prof::process_cpu().map_or(f64::NAN, |time| time.as_secs_f64())
}

/// The median of the values, which are sorted in place; 0 if there are none.
pub(super) fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

/// Median and spread of times.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct TimeStatistics {
    /// Median.
    pub(super) median_ms: f64,
    /// 10th percentile.
    pub(super) p10_ms: f64,
    /// 90th percentile.
    pub(super) p90_ms: f64,
}

impl TimeStatistics {
    /// Computes the statistics of times in ms, which are sorted in place; 0 if there are none.
    pub(super) fn from_times(times: &mut [f64]) -> Self {
        let median_ms = median(times);
        let at = |share: f64| {
            let place = (share * times.len().saturating_sub(1) as f64).round() as usize;
            times.get(place).copied().unwrap_or(0.0)
        };
        Self { median_ms, p10_ms: at(0.1), p90_ms: at(0.9) }
    }
}
