//! Properties of the machine that limits depend on.

/// Bytes of physical memory; `None` if the system does not report it.
#[cfg(target_os = "linux")]
#[must_use]
pub fn memory_bytes() -> Option<u64> {
    let info = rustix::system::sysinfo();
    // The C types differ between CPU architectures; neither is ever negative.
    #[allow(clippy::useless_conversion, clippy::unnecessary_cast, reason = "as wide as the machine's words")]
    Some((info.totalram as u64).saturating_mul(u64::from(info.mem_unit.max(1))))
}

/// Bytes of physical memory; `None` if the system does not report it.
#[cfg(not(target_os = "linux"))]
#[must_use]
pub fn memory_bytes() -> Option<u64> {
    if !sysinfo::IS_SUPPORTED_SYSTEM {
        return None;
    }
    let memory = sysinfo::MemoryRefreshKind::nothing().with_ram();
    let only_memory = sysinfo::RefreshKind::nothing().with_memory(memory);
    Some(sysinfo::System::new_with_specifics(only_memory).total_memory()).filter(|&bytes| bytes > 0)
}

/// Resident memory of a process, bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResidentMemory {
    /// Current size.
    pub now: u64,
    /// Largest size since the process started.
    pub peak: u64,
}

/// Resident memory of a process (`None`: this one); `None` if the system does not report it or there is no such
/// process.
#[must_use]
#[allow(clippy::disallowed_methods, reason = "a file of the kernel")]
pub fn resident_memory(process: Option<u32>) -> Option<ResidentMemory> {
    let process = process.map_or_else(|| "self".to_owned(), |id| id.to_string());
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let value = |key| -> Option<u64> {
        let line = status.lines().find_map(|line| line.strip_prefix(key))?;
        Some(1024 * line.trim().trim_end_matches("kB").trim().parse::<u64>().ok()?)
    };
    Some(ResidentMemory { now: value("VmRSS:")?, peak: value("VmHWM:")? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_os = "linux")]
    fn the_memory_is_what_the_kernel_lists() {
        let text = std::fs::read_to_string("/proc/meminfo").unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:")).unwrap();
        let kibibytes: u64 = line.trim().trim_end_matches("kB").trim().parse().unwrap();
        assert_eq!(memory_bytes(), Some(kibibytes * 1024));
    }
}
