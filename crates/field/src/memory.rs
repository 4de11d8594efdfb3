//! How much this machine can hold: sizes that a file or a person names are compared with it before memory is taken.

/// Bytes of memory of this machine.
#[cfg(target_os = "linux")]
#[allow(clippy::useless_conversion, reason = "the fields are as wide as the machine's words")]
pub(crate) fn total() -> u64 {
    let info = rustix::system::sysinfo();
    u64::from(info.totalram).saturating_mul(u64::from(info.mem_unit))
}

/// Bytes of memory of this machine: not known here.
#[cfg(not(target_os = "linux"))]
pub(crate) fn total() -> u64 {
    u64::MAX
}

/// Largest file that is read whole: as much again is needed for what is in it.
pub(crate) fn largest_file() -> u64 {
    total() / 2
}
