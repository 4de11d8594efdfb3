//! Memory budget of footage jobs (frames, tables, masks).

use gausset_io::text;
use gausset_train::MemoryLimit;

use crate::Failure;

/// Smallest value of `--max-memory`.
const MIN_MEMORY: u64 = 64 << 20;
/// Memory of the program itself, in addition to frames and tables.
const PROGRAM_MEMORY: u64 = 24 << 20;

/// Bytes available for frames and tables.
pub(crate) fn budget(limit: MemoryLimit) -> Result<u64, Failure> {
    match limit {
        MemoryLimit::Auto => Ok(default_budget()),
        MemoryLimit::Bytes(bytes) if bytes < MIN_MEMORY => {
            let (least, found) = (text::format_bytes(MIN_MEMORY), text::format_bytes(bytes));
            Err(Failure::usage(format!("⟨max-memory⟩: expected at least {least}, found {found}")))
        }
        MemoryLimit::Bytes(bytes) => Ok(bytes - PROGRAM_MEMORY),
    }
}

/// A quarter of the machine's memory, at most 2 GiB.
fn default_budget() -> u64 {
    let all = gausset_compute::machine::memory_bytes().unwrap_or(4 << 30);
    (all / 4).clamp(MIN_MEMORY, 2 << 30)
}
