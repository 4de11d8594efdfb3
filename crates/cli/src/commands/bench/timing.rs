//! CPU time and memory of the process, and medians.

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
