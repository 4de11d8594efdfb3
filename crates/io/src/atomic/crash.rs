//! Named places at which a test can make the process die.
//!
//! In builds with the feature `crash-points`, `GAUSSET_CRASH_AT=checkpoint:after_rename` aborts the process when it
//! reaches that place for the first time; `…:after_rename:3` waits for the third time. In other builds the calls
//! compile to nothing and the variable is not looked at.

/// The places inside an atomic write, in order. A full name is `<label>:<point>`; labels are the file kinds
/// `checkpoint`, `splats`, `config`, `metrics` and `file` ([`super::WriteOptions::label`]).
pub const POINTS: [&str; 7] = [
    "before_write",
    "mid_write",
    "after_write",
    "after_fsync",
    "after_rename",
    "after_folder_sync",
    "before_remove_old",
];

/// Dies here if the environment asks for it.
#[cfg(feature = "crash-points")]
pub fn point(label: &str, point: &str) {
    if is_due(label, point) {
        std::process::abort();
    }
}

/// Dies here if the environment asks for it; in this build it cannot.
#[cfg(not(feature = "crash-points"))]
#[inline(always)]
pub fn point(_label: &str, _point: &str) {}

/// Whether the environment asks to die at this visit of the place.
#[cfg(feature = "crash-points")]
pub fn is_due(label: &str, point: &str) -> bool {
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

/// Whether the environment asks to die at this visit of the place; in this build never.
#[cfg(not(feature = "crash-points"))]
#[inline(always)]
pub fn is_due(_label: &str, _point: &str) -> bool {
    false
}
