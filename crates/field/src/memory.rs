//! How much this machine can hold: sizes that a file or a person names are compared with it before memory is taken.

use gausset_compute::machine;

/// Bytes of memory of this machine; where it does not say, nothing is too much.
pub(crate) fn total() -> u64 {
    machine::memory_bytes().unwrap_or(u64::MAX)
}

/// Largest file that is read whole: as much again is needed for what is in it.
pub(crate) fn largest_file() -> u64 {
    total() / 2
}
