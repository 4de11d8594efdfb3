//! What is asked of a file before memory is taken for it, and of its values.

use std::fmt::Display;
use std::io::Read;

use crate::error::ContentError;
use crate::memory;

/// Most voxels or samples.
const MAX_SAMPLES: u64 = u32::MAX as u64 - 64;
/// Most bytes that a compressed file is inflated to.
pub(crate) const MAX_INFLATED: u64 = 64 << 30;
/// Farthest that data may begin in a file, frames apart.
pub(crate) const MAX_SKIP: u64 = 1 << 30;

/// Checks the axes of a volume and returns the number of voxels.
pub(crate) fn voxels(dims: &[u64]) -> Result<u64, ContentError> {
    let count = dims.iter().try_fold(1u64, |count, d| count.checked_mul(*d)).filter(|n| *n <= MAX_SAMPLES);
    let wrong = |what, expected: &dyn Display| {
        Err(ContentError::unexpected("size", what, expected, format_args!("{dims:?}")))
    };
    match count {
        Some(0) => wrong("no voxels", &"at least one along each axis"),
        Some(count) => fits_in_memory(count, dims),
        None => wrong("too many voxels", &format_args!("at most {MAX_SAMPLES}")),
    }
}

/// Compressed files can hold a thousand times their length: what this machine could never hold is refused before it
/// tries.
fn fits_in_memory(count: u64, dims: &[u64]) -> Result<u64, ContentError> {
    /// Value, and the bytes it is read from.
    const BYTES: u64 = 16;
    let memory = memory::total();
    if count.saturating_mul(BYTES) <= memory {
        return Ok(count);
    }
    let gib = |bytes: u64| bytes.div_ceil(1 << 30);
    Err(ContentError::unexpected(
        "size",
        "too many voxels for the memory of this machine",
        format_args!("at most {} GiB", gib(memory)),
        format_args!("{dims:?} which take {} GiB", gib(count.saturating_mul(BYTES))),
    ))
}

/// Reads exactly `wanted` bytes of a stream that may lie about its length.
pub(crate) fn read_exactly(stream: impl Read, wanted: u64, place: &str) -> Result<Vec<u8>, ContentError> {
    let mut bytes = Vec::new();
    let outcome = stream.take(wanted).read_to_end(&mut bytes);
    if let Err(error) = outcome {
        let what = format_args!("damaged after {} bytes ({error})", bytes.len());
        return Err(ContentError::unread(place, what));
    }
    if (bytes.len() as u64) < wanted {
        let expected = format_args!("{wanted} bytes");
        return Err(ContentError::unexpected(place, "cut off", expected, bytes.len()));
    }
    Ok(bytes)
}

/// Refuses values that are not finite.
pub(crate) fn all_finite(values: &[f64]) -> Result<(), ContentError> {
    match values.iter().position(|v| !v.is_finite()) {
        Some(index) => {
            let place = format_args!("value {index}");
            Err(ContentError::unexpected(place, "not finite", "a number", values[index]))
        }
        None => Ok(()),
    }
}
