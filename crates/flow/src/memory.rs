//! Memory budget of footage jobs (frames, tables, masks).

use gausset_io::units;
use gausset_train::MemoryLimit;

use crate::Failure;

/// Smallest value of `--max-memory`.
const LEAST_MEMORY: u64 = 64 << 20;
/// Memory of the program itself, in addition to frames and tables.
const PROGRAM_MEMORY: u64 = 24 << 20;

/// Bytes available for frames and tables.
pub(crate) fn budget(limit: MemoryLimit) -> Result<u64, Failure> {
    match limit {
        MemoryLimit::Auto => Ok(quarter_of_the_machine()),
        MemoryLimit::Bytes(bytes) if bytes < LEAST_MEMORY => {
            let (least, found) = (units::bytes(LEAST_MEMORY), units::bytes(bytes));
            Err(Failure::usage(format!("⟨max-memory⟩: expected at least {least}, found {found}")))
        }
        MemoryLimit::Bytes(bytes) => Ok(bytes - PROGRAM_MEMORY),
    }
}

/// A quarter of the machine's memory, at most 2 GiB.
fn quarter_of_the_machine() -> u64 {
    let all = gausset_compute::machine::memory_bytes().unwrap_or(4 << 30);
    (all / 4).clamp(LEAST_MEMORY, 2 << 30)
}
