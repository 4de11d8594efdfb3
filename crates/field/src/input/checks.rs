//! Checks of a file before memory is allocated for it, and of its values.

use std::cell::RefCell;
use std::fmt::Display;
use std::io::Read;
use std::sync::atomic::{AtomicBool, Ordering};

use bzip2::read::MultiBzDecoder;
use flate2::read::{MultiGzDecoder, ZlibDecoder};
use gausset_io::input::{NEVER, StoppableReader};
use gausset_io::text::{counted, grouped, one_line, quote};

use crate::error::ContentError;
use crate::memory;

/// Largest number of voxels or samples.
const MAX_SAMPLES: u64 = u32::MAX as u64 - 64;
/// Largest size to which a compressed file is inflated, bytes.
pub(crate) const MAX_INFLATED: u64 = 64 << 30;
/// Largest offset of the data in a file (without frames), bytes.
pub(crate) const MAX_SKIP: u64 = 1 << 30;

/// Largest number of bytes before or after the data of a compressed file that are unpacked only to be counted.
const MAX_UNUSED: u64 = 64 << 20;

/// What a caller takes of a file, and the limits for reading it.
#[derive(Clone, Copy, Debug)]
pub struct ReadRequest<'a> {
    /// Frame of a 4-D volume, from 0.
    pub frame: usize,
    /// Channel of a volume with several, from 0. Without it, such a volume is refused.
    pub channel: Option<usize>,
    /// Distance of voxel centres along x, y, z, instead of that in the file.
    pub spacing: Option<[f64; 3]>,
    /// Largest number of voxels or samples; [`Samples::max_count`](crate::fit::Samples::max_count) for a fit. A file that
    /// declares more is refused before anything is unpacked.
    pub max_samples: u64,
    /// Reading ends with an error when this is set.
    pub stop: &'a AtomicBool,
    /// Receives a line for each thing in the file that is left out.
    pub notes: Option<&'a RefCell<Vec<String>>>,
}

impl Default for ReadRequest<'_> {
    fn default() -> Self {
        Self { frame: 0, channel: None, spacing: None, max_samples: u64::MAX, stop: &NEVER, notes: None }
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

    /// Adds a line about something that is left out.
    pub(crate) fn note(&self, line: impl Display) {
        if let Some(notes) = self.notes {
            notes.borrow_mut().push(one_line(&line.to_string()));
        }
    }

    /// The chosen frame of `frames`.
    pub(crate) fn frame_of(&self, frames: u64) -> Result<u64, ContentError> {
        let frame = self.frame as u64;
        if frame < frames {
            return Ok(frame);
        }
        let expected = format_args!("0 to {}", frames.saturating_sub(1));
        Err(ContentError::missing(format_args!("frame {frame}"), "no such frame", expected))
    }

    /// The chosen channel of `channels`; `names` are those of the file, if it has any.
    pub(crate) fn channel_of(&self, channels: usize, names: &[String]) -> Result<usize, ContentError> {
        match self.channel {
            Some(channel) if channel < channels => Ok(channel),
            Some(channel) => {
                let expected = format_args!("0 to {}", channels.saturating_sub(1));
                Err(ContentError::missing(format_args!("channel {channel}"), "no such channel", expected))
            }
            None if channels <= 1 => Ok(0),
            None => {
                let names = names.iter().take(8).map(|name| quote(name)).collect::<Vec<_>>().join(", ");
                let colon = if names.is_empty() { "" } else { ": " };
                let found = format_args!("{channels}{colon}{names}");
                let error = ContentError::unexpected("channels", "more than one", "one", found);
                Err(error.with_advice("choose one with ⟨channel⟩, from 0"))
            }
        }
    }

    /// Parses `count` numbers of a text; `None` if there are fewer.
    pub(crate) fn words(&self, text: &str, count: u64) -> Result<Option<Vec<f64>>, ContentError> {
        let mut values = Vec::new();
        let mut words = text.split(|c: char| c.is_whitespace() || c == ',').filter(|word| !word.is_empty());
        while (values.len() as u64) < count {
            let Some(word) = words.next() else { return Ok(None) };
            self.check_stop()?;
            let place = || format!("value {}", values.len());
            let value =
                word.parse().map_err(|_| ContentError::unusable(place(), "not a number", quote(word)))?;
            values.push(value);
        }
        let rest = words.count();
        if rest > 0 {
            self.note(format_args!(
                "data: {rest} values are left over after those that the header declares; check sizes"
            ));
        }
        Ok(Some(values))
    }

    /// Notes the bytes that remain in a stream after its data.
    pub(crate) fn note_left_over(&self, stream: impl Read) {
        // An error here concerns only bytes that nothing needs.
        let count = std::io::copy(&mut stream.take(MAX_UNUSED), &mut std::io::sink()).unwrap_or(0);
        if count > 0 {
            let least = if count == MAX_UNUSED { "at least " } else { "" };
            self.note(format_args!(
                "data: {least}{count} bytes are left over after the voxels that the header declares; check sizes, type \
                 and skips"
            ));
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

    /// A zlib decoder that fails once the stop flag is set. Callers check the number of samples first.
    #[allow(clippy::disallowed_methods, reason = "this is the door")]
    pub(crate) fn unzlib<'b>(&self, packed: &'b [u8]) -> StoppableReader<'a, ZlibDecoder<&'b [u8]>> {
        self.stoppable(ZlibDecoder::new(packed))
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

/// The last `wanted` bytes of a stream, which may have a header of another format before them.
pub(crate) fn read_last(stream: impl Read, wanted: u64, place: &str) -> Result<Vec<u8>, ContentError> {
    let most = wanted.saturating_add(MAX_UNUSED);
    let mut bytes = Vec::new();
    let outcome = stream.take(most.saturating_add(1)).read_to_end(&mut bytes);
    if let Err(error) = outcome {
        let what = format_args!("damaged after {} bytes ({error})", bytes.len());
        return Err(ContentError::unread(place, what));
    }
    let found = bytes.len() as u64;
    if !(wanted..=most).contains(&found) {
        let expected = format_args!("{wanted} bytes, and at most {MAX_UNUSED} before them");
        let what = if found < wanted { "cut off" } else { "too long" };
        return Err(ContentError::unexpected(place, what, expected, found));
    }
    Ok(bytes.split_off((found - wanted) as usize))
}

/// Counts values that are NaN, which are no samples. Infinite values are refused, and values of which none is a number.
pub(crate) fn count_missing(
    values: &[f64],
    noun: &str,
    wanted: &ReadRequest<'_>,
) -> Result<u64, ContentError> {
    if let Some(index) = values.iter().position(|v| v.is_infinite()) {
        let place = format_args!("value {index}");
        return Err(ContentError::unexpected(place, "not finite", "a number", values[index]));
    }
    let missing = values.iter().filter(|v| v.is_nan()).count() as u64;
    if missing == values.len() as u64 {
        let expected = "at least one number";
        return Err(ContentError::unexpected("values", "all are NaN", expected, counted(missing, noun)));
    }
    if missing > 0 {
        let of = grouped(values.len() as u64);
        wanted.note(format_args!("{} of {of} {noun}s are NaN and left out", grouped(missing)));
    }
    Ok(missing)
}
