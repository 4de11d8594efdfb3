//! Named points at which a test can kill the process.
//!
//! In builds with the feature `crash-points`, `GAUSSET_CRASH_AT=checkpoint:after_rename` aborts the process when it
//! reaches that point for the first time; `…:after_rename:3` does so at the third time. In other builds the calls
//! compile to nothing and the variable is not read.

/// Points of an atomic write, in order. A full name is `<label>:<point>`; labels are the file kinds `checkpoint`,
/// `splats`, `config`, `metrics` and `file` ([`super::WriteOptions::label`]).
pub const POINTS: [&str; 7] = [
    "before_write",
    "mid_write",
    "after_write",
    "after_fsync",
    "after_rename",
    "after_folder_sync",
    "before_remove_old",
];

/// Aborts the process if the environment requests a crash at this point.
#[cfg(feature = "crash-points")]
pub fn crash_point(label: &str, point: &str) {
    if is_crash_due(label, point) {
        std::process::abort();
    }
}

/// Does nothing: this build has no crash points.
#[cfg(not(feature = "crash-points"))]
#[inline(always)]
pub fn crash_point(_label: &str, _point: &str) {}

/// Whether the environment requests a crash at this visit of the point.
#[cfg(feature = "crash-points")]
pub fn is_crash_due(label: &str, point: &str) -> bool {
    use std::sync::atomic::{AtomicU64, Ordering};
    static VISITS: AtomicU64 = AtomicU64::new(0);
    let Ok(wanted) = std::env::var("GAUSSET_CRASH_AT") else { return false };
    let mut parts = wanted.splitn(3, ':');
    if parts.next() != Some(label) || parts.next() != Some(point) {
        return false;
    }
    let visit = parts.next().and_then(|n| n.parse().ok()).unwrap_or(1);
    VISITS.fetch_add(1, Ordering::Relaxed) + 1 == visit
}

/// Always `false`: this build has no crash points.
#[cfg(not(feature = "crash-points"))]
#[inline(always)]
pub fn is_crash_due(_label: &str, _point: &str) -> bool {
    false
}
