//! Memory of this machine: sizes from files and users are compared with it before memory is allocated.

use gausset_compute::machine;

/// Memory of this machine, bytes; unlimited if the system does not report it.
pub(crate) fn total() -> u64 {
    machine::memory_bytes().unwrap_or(u64::MAX)
}

/// Largest file that is read completely: as much memory again is needed for its contents.
pub(crate) fn max_file_bytes() -> u64 {
    total() / 2
}
