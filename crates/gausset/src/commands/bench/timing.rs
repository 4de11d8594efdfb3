//! What a measurement reads of the process, and the middle of what it reads.

/// Largest resident size of this process.
pub(super) fn peak_bytes() -> Option<u64> {
    gausset_compute::machine::resident(None).map(|resident| resident.peak)
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
