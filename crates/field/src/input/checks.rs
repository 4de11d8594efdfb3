//! Checks of a file before memory is allocated for it, and of its values.

use std::fmt::Display;
use std::io::Read;
use std::sync::atomic::{AtomicBool, Ordering};

use bzip2::read::MultiBzDecoder;
use flate2::read::MultiGzDecoder;
use gausset_io::input::{NEVER, StoppableReader};

use crate::error::ContentError;
use crate::memory;

/// Largest number of voxels or samples.
const MAX_SAMPLES: u64 = u32::MAX as u64 - 64;
/// Largest size to which a compressed file is inflated, bytes.
pub(crate) const MAX_INFLATED: u64 = 64 << 30;
/// Largest offset of the data in a file (without frames), bytes.
pub(crate) const MAX_SKIP: u64 = 1 << 30;

/// Frame and limits that a caller sets for reading a file.
#[derive(Clone, Copy, Debug)]
pub struct ReadRequest<'a> {
    /// Frame of a 4-D volume, from 0.
    pub frame: usize,
    /// Largest number of voxels or samples; [`Samples::max_count`](crate::fit::Samples::max_count) for a fit. A file that
    /// declares more is refused before anything is unpacked.
    pub max_samples: u64,
    /// Reading ends with an error when this is set.
    pub stop: &'a AtomicBool,
}

impl Default for ReadRequest<'_> {
    fn default() -> Self {
        Self { frame: 0, max_samples: u64::MAX, stop: &NEVER }
    }
}

impl<'a> ReadRequest<'a> {
    /// Checks the number of samples against the limit.
    pub(crate) fn check_count(&self, samples: u64) -> Result<(), ContentError> {
        if samples <= self.max_samples {
            Ok(())
        } else {
            Err(ContentError::TooManySamples { limit: self.max_samples, found: samples })
        }
    }

    /// Wraps a reader so that it fails once the stop flag is set.
    pub(crate) fn stoppable<R>(&self, inner: R) -> StoppableReader<'a, R> {
        StoppableReader::new(inner, self.stop)
    }

    /// A gzip decoder that fails once the stop flag is set. Callers check the number of samples first.
    #[allow(clippy::disallowed_methods, reason = "this is the door")]
    pub(crate) fn gunzip<'b>(&self, packed: &'b [u8]) -> StoppableReader<'a, MultiGzDecoder<&'b [u8]>> {
        self.stoppable(MultiGzDecoder::new(packed))
    }

    /// A bzip2 decoder that fails once the stop flag is set. Callers check the number of samples first.
    #[allow(clippy::disallowed_methods, reason = "this is the door")]
    pub(crate) fn bunzip2<'b>(&self, packed: &'b [u8]) -> StoppableReader<'a, MultiBzDecoder<&'b [u8]>> {
        self.stoppable(MultiBzDecoder::new(packed))
    }

    /// Fails if the stop flag is set.
    pub(crate) fn check_stop(&self) -> Result<(), ContentError> {
        if self.stop.load(Ordering::Relaxed) { Err(ContentError::unread("data", "stopped")) } else { Ok(()) }
    }
}

/// Checks the axes of a volume and returns the number of voxels.
pub(crate) fn voxels(dims: &[u64]) -> Result<u64, ContentError> {
    let count = dims.iter().try_fold(1u64, |count, d| count.checked_mul(*d)).filter(|n| *n <= MAX_SAMPLES);
    let wrong = |what, expected: &dyn Display| {
        Err(ContentError::unexpected("size", what, expected, format_args!("{dims:?}")))
    };
    match count {
        Some(0) => wrong("no voxels", &"at least one along each axis"),
        Some(count) => fits_in_memory(count),
        None => wrong("too many voxels", &format_args!("at most {MAX_SAMPLES}")),
    }
}

/// Compressed files can inflate to a thousand times their length, so sizes beyond the memory of this machine are
/// refused first.
fn fits_in_memory(count: u64) -> Result<u64, ContentError> {
    /// Bytes per sample: the value, and the bytes from which it is read.
    const BYTES: u64 = 16;
    let wanted = ReadRequest { max_samples: memory::total() / BYTES, ..ReadRequest::default() };
    wanted.check_count(count).map(|()| count)
}

/// Reads exactly `wanted` bytes of a stream whose length is not known to be right.
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
