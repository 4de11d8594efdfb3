//! Properties of the machine that limits depend on.

/// Bytes of memory that this process may use; `None` if the system does not report it. On Linux the physical memory, or
/// less where a control group, of a container or a batch job, limits it; elsewhere the physical memory.
#[cfg(target_os = "linux")]
#[must_use]
#[allow(clippy::disallowed_methods, reason = "files of the kernel")]
pub fn memory_bytes() -> Option<u64> {
    let info = rustix::system::sysinfo();
    // The C types differ between CPU architectures; neither is ever negative.
    #[allow(clippy::useless_conversion, clippy::unnecessary_cast, reason = "as wide as the machine's words")]
    let physical = (info.totalram as u64).saturating_mul(u64::from(info.mem_unit.max(1)));
    let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let limit = control_group_limit(&groups, |path| std::fs::read_to_string(path).ok());
    Some(limit.map_or(physical, |limit| limit.min(physical)))
}

/// The smallest memory limit of control groups and their parents, bytes. `groups` is the text of `/proc/self/cgroup`
/// (cgroups(7)): lines `id:controllers:path`, without controllers in version 2.
#[cfg(target_os = "linux")]
fn control_group_limit(groups: &str, read: impl Fn(&str) -> Option<String>) -> Option<u64> {
    let limit_of = |line: &str| {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        let (root, file) = match controllers {
            "" => ("/sys/fs/cgroup", "memory.max"),
            _ if controllers.split(',').any(|name| name == "memory") => {
                ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")
            }
            _ => return None,
        };
        // In a container, the root of the mounted groups is often its own.
        let path = path.trim_end_matches('/');
        let ends = path.match_indices('/').map(|(at, _)| at).chain([path.len()]);
        // A group without a limit has the text `max`, or none of these files.
        ends.filter_map(|end| read(&format!("{root}{}/{file}", &path[..end]))?.trim().parse().ok())
            .filter(|&limit| limit > 0)
            .min()
    };
    groups.lines().filter_map(limit_of).min()
}

/// Bytes of memory that this process may use; `None` if the system does not report it. On Linux the physical memory, or
/// less where a control group, of a container or a batch job, limits it; elsewhere the physical memory.
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
    fn the_memory_is_at_most_what_the_kernel_lists() {
        let text = std::fs::read_to_string("/proc/meminfo").unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:")).unwrap();
        let kibibytes: u64 = line.trim().trim_end_matches("kB").trim().parse().unwrap();
        assert!(memory_bytes().is_some_and(|bytes| 0 < bytes && bytes <= kibibytes * 1024));
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn control_groups_and_their_parents_limit_the_memory() {
        let limit = |groups: &str, files: &[(&str, &str)]| {
            control_group_limit(groups, |path| {
                files.iter().find(|(name, _)| *name == path).map(|(_, text)| (*text).to_owned())
            })
        };
        // Version 2: a job of a batch system, whose step has no limit of its own.
        let batch = [
            ("/sys/fs/cgroup/system.slice/job_7/step_0/memory.max", "max\n"),
            ("/sys/fs/cgroup/system.slice/job_7/memory.max", "8589934592\n"),
            ("/sys/fs/cgroup/system.slice/memory.max", "68719476736\n"),
        ];
        assert_eq!(limit("0::/system.slice/job_7/step_0\n", &batch), Some(8 << 30));
        // A container with a namespace of its own, and one that sees the path on its host.
        let container = [("/sys/fs/cgroup/memory.max", "4294967296\n")];
        assert_eq!(limit("0::/\n", &container), Some(4 << 30));
        assert_eq!(limit("0::/docker/abc\n", &container), Some(4 << 30));
        // Version 1 beside other controllers.
        let old = [("/sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes", "1073741824\n")];
        assert_eq!(limit("5:cpu,cpuacct:/\n4:hugetlb,memory:/docker/abc\n0::/\n", &old), Some(1 << 30));
        for groups in ["", "0::/\n", "memory", "4:memory\n", "4:cpu:/docker/abc\n"] {
            assert_eq!(limit(groups, &old), None, "{groups}");
        }
    }
}
