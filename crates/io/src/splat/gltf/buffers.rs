//! Opens the buffers of a glTF: in the file itself, in another file, or in its JSON.
#![deny(clippy::indexing_slicing, reason = "what comes from outside is never an index")]

use std::io::{BufReader, Cursor, Read, Seek, SeekFrom};

use data_encoding::BASE64_NOPAD;

use crate::input;
use crate::splat::SplatError;
use crate::splat::source::{SeekableRead, SourceFile};
use crate::text::{self, quote};

/// Bytes of read-ahead per file.
const AHEAD_BYTES: usize = 1 << 18;

/// Source of the bytes of a buffer.
pub(super) enum Buffer {
    /// A part of the file itself: offset and length.
    Inside(u64, u64),
    /// Another file, or bytes embedded in the JSON.
    Other(Box<dyn SeekableRead>, u64),
}

/// Offset and length of a part of the file.
pub(super) type ByteRange = (u64, u64);

impl Buffer {
    /// Length in bytes.
    pub(super) fn bytes(&self) -> u64 {
        match self {
            Self::Inside(_, bytes) | Self::Other(_, bytes) => *bytes,
        }
    }

    /// Fills a slice from an offset in the buffer.
    pub(super) fn read(
        &mut self,
        source: &mut SourceFile<'_>,
        at: u64,
        bytes: &mut [u8],
    ) -> Result<(), SplatError> {
        let read = |stream: &mut dyn SeekableRead, at: u64, bytes: &mut [u8]| {
            stream.seek(SeekFrom::Start(at)).and_then(|_| stream.read_exact(bytes))
        };
        let result = match self {
            Self::Inside(begin, _) => read(source.stream, *begin + at, bytes),
            Self::Other(stream, _) => read(&mut **stream, at, bytes),
        };
        result.map_err(|error| source.io(error))
    }
}

/// Opens a buffer; `binary` is the position of the binary chunk of the file.
pub(super) fn open_buffer(
    source: &SourceFile<'_>,
    index: usize,
    buffer: &super::json::Buffer,
    binary: Option<ByteRange>,
) -> Result<Buffer, SplatError> {
    let place = format!("buffers[{index}]");
    let (opened, bytes) = match (&buffer.uri, binary) {
        (None, Some((begin, bytes))) if index == 0 => (Buffer::Inside(begin, bytes), bytes),
        (None, _) => {
            return Err(source.damaged_error(
                place,
                "a buffer without content",
                "a chunk BIN or a uri",
                "neither",
            ));
        }
        (Some(uri), _) if uri.starts_with("data:") => {
            let encoded = uri.split_once(";base64,").map(|(_, text)| text.as_bytes()).unwrap_or_default();
            let mut content = source.memory.vec_with_capacity(encoded.len() as u64 / 4 * 3 + 3)?;
            let Some(()) = base64(encoded, &mut content) else {
                return Err(source.damaged_error(place, "data that cannot be read", "base64", quote(uri)));
            };
            let bytes = content.len() as u64;
            (Buffer::Other(Box::new(Cursor::new(content)), bytes), bytes)
        }
        (Some(uri), _) => {
            let outside =
                || source.damaged_error(&*place, "a buffer outside", "a file next to this one", quote(uri));
            let name = percent_decoded(uri).ok_or_else(outside)?;
            let folder =
                source.folder.filter(|_| !name.contains(':') && !name.contains('\\')).ok_or_else(outside)?;
            let path = input::resolve_inside(folder, &name).map_err(|_| outside())?;
            let io_error = |error| SplatError::Io { path: path.clone(), action: "open", source: error };
            let mut file = input::open(&path, input::NO_LIMIT).map_err(io_error)?;
            let bytes = file.metadata().map_err(io_error)?.len();
            let mut start = Vec::new();
            let read = (&mut file).take(text::LFS_POINTER_START).read_to_end(&mut start);
            read.and_then(|_| file.rewind()).map_err(io_error)?;
            if text::is_lfs_pointer(&start) {
                return Err(SplatError::LfsPointer { path });
            }
            source.memory.reserve(AHEAD_BYTES as u64)?;
            (Buffer::Other(Box::new(BufReader::with_capacity(AHEAD_BYTES, file)), bytes), bytes)
        }
    };
    if buffer.byte_length > bytes {
        let (expected, found) = (format!("{} bytes", buffer.byte_length), format!("{bytes} bytes"));
        return Err(source.damaged_error(place, "shorter than the JSON says", expected, found));
    }
    Ok(opened)
}

/// Decodes base64 (RFC 4648), with or without padding, into an empty list.
fn base64(text: &[u8], bytes: &mut Vec<u8>) -> Option<()> {
    let text = text.trim_ascii_end();
    let end = text.iter().rposition(|byte| *byte != b'=').map_or(0, |last| last + 1);
    let text = text.get(..end)?;
    let mut alphabet = BASE64_NOPAD.specification();
    alphabet.check_trailing_bits = false;
    let encoding = alphabet.encoding().ok()?;
    bytes.resize(encoding.decode_len(text.len()).ok()?, 0);
    encoding.decode_mut(text, bytes).ok().map(drop)
}

/// Decodes percent escapes in a name.
fn percent_decoded(uri: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = uri.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let (digits, after) = rest.split_first_chunk::<2>()?;
        bytes.push(u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?);
        rest = after;
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_and_percents_are_decoded() {
        let decoded = |text: &[u8]| {
            let mut bytes = Vec::new();
            base64(text, &mut bytes).map(|()| bytes)
        };
        assert_eq!(decoded(b"Z2F1c3M="), Some(b"gauss".to_vec()));
        assert_eq!(decoded(b"Z2F1c3NldA"), Some(b"gausset".to_vec()));
        assert_eq!((decoded(b""), decoded(b"a?")), (Some(vec![]), None));
        assert_eq!(percent_decoded("a%20b.bin").as_deref(), Some("a b.bin"));
        assert_eq!((percent_decoded("a%2"), percent_decoded("a%zz")), (None, None));
    }
}
