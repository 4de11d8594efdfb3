//! Event files of TensorBoard: scalars over steps, appended during a run.
//!
//! ```text
//! record  u64 length | u32 masked CRC-32C of these 8 bytes | data | u32 masked CRC-32C of the data     little-endian
//! data    protobuf Event: 1 wall_time double, 2 step int64, 3 file_version string, 5 summary
//!         Summary: 1 value, repeated;  Value: 1 tag string, 2 simple_value float
//! masked  (c >> 15 | c << 17) + 0xa282ead8
//! ```
//! The first record contains `brain.Event:2`. Sources: TensorFlow's `record_writer.h` (TFRecord), `event.proto` and
//! `summary.proto`, Apache-2.0; used only as documentation of the format.

use std::io::Write;
use std::path::{Path, PathBuf};

use crate::atomic::{
    FileSystem, OutputFile, RetryOnInterrupt, WriteError, WriteOptions, retry, write_atomic_with,
};

/// Content of the first record.
const VERSION: &str = "brain.Event:2";
/// Added to a rotated CRC, so that CRCs of data that contains CRCs stay effective.
const MASK_DELTA: u32 = 0xa282_ead8;

/// Scalars at a step.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Scalars {
    /// Number of finished steps.
    pub step: u64,
    /// Seconds since 1970.
    pub wall_time: f64,
    /// Tags, such as `train/loss`, with values.
    pub values: Vec<(&'static str, f64)>,
}

/// An event file, open for appending.
pub struct EventFile {
    path: PathBuf,
    file: RetryOnInterrupt<Box<dyn OutputFile>>,
}

impl EventFile {
    /// Writes a file with the scalars known so far and opens it for appending. An existing file is replaced.
    ///
    /// # Errors
    /// The write failed.
    pub fn create(
        fs: &dyn FileSystem,
        path: &Path,
        begun: f64,
        known: &[Scalars],
    ) -> Result<Self, WriteError> {
        let options = WriteOptions { label: "events", ..WriteOptions::default() };
        write_atomic_with(fs, path, &options, |file| {
            file.write_all(&record(&version_event(begun)))?;
            known.iter().try_for_each(|scalars| file.write_all(&record(&scalars_event(scalars))))
        })?;
        let opened = retry(|| fs.append(path));
        let file =
            opened.map_err(|source| WriteError::Io { path: path.to_owned(), action: "open", source })?;
        Ok(Self { path: path.to_owned(), file: RetryOnInterrupt(file) })
    }

    /// Appends scalars.
    ///
    /// # Errors
    /// The write failed.
    pub fn append(&mut self, scalars: &Scalars) -> Result<(), WriteError> {
        self.file.write_all(&record(&scalars_event(scalars))).map_err(|source| WriteError::Io {
            path: self.path.clone(),
            action: "write",
            source,
        })
    }
}

/// Wraps an event into a record.
fn record(data: &[u8]) -> Vec<u8> {
    let length = (data.len() as u64).to_le_bytes();
    let mut record = length.to_vec();
    record.extend(masked_crc(&length).to_le_bytes());
    record.extend(data);
    record.extend(masked_crc(data).to_le_bytes());
    record
}

fn version_event(wall_time: f64) -> Vec<u8> {
    let mut event = vec![1 << 3 | 1];
    event.extend(wall_time.to_le_bytes());
    bytes_field(&mut event, 3, VERSION.as_bytes());
    event
}

fn scalars_event(scalars: &Scalars) -> Vec<u8> {
    let mut event = vec![1 << 3 | 1];
    event.extend(scalars.wall_time.to_le_bytes());
    event.push(2 << 3);
    varint(&mut event, scalars.step);
    let mut summary = Vec::new();
    for (tag, number) in &scalars.values {
        let mut value = Vec::new();
        bytes_field(&mut value, 1, tag.as_bytes());
        value.push(2 << 3 | 5);
        value.extend((*number as f32).to_le_bytes());
        bytes_field(&mut summary, 1, &value);
    }
    bytes_field(&mut event, 5, &summary);
    event
}

/// Appends a length-delimited field of a protobuf message.
fn bytes_field(message: &mut Vec<u8>, field: u8, value: &[u8]) {
    message.push(field << 3 | 2);
    varint(message, value.len() as u64);
    message.extend(value);
}

/// Appends a varint: seven bits per byte, the lowest first.
fn varint(message: &mut Vec<u8>, mut value: u64) {
    while value > 127 {
        message.push(value as u8 | 128);
        value >>= 7;
    }
    message.push(value as u8);
}

fn masked_crc(bytes: &[u8]) -> u32 {
    crc32c(bytes).rotate_right(15).wrapping_add(MASK_DELTA)
}

/// CRC-32C (Castagnoli), reflected: RFC 3720, B.4.
fn crc32c(bytes: &[u8]) -> u32 {
    let of_byte = |mut crc: u32| {
        for _ in 0..8 {
            crc = crc >> 1 ^ if crc & 1 == 1 { 0x82f6_3b78 } else { 0 };
        }
        crc
    };
    !bytes.iter().fold(!0, |crc, &byte| crc >> 8 ^ of_byte((crc ^ u32::from(byte)) & 255))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::atomic::Disk;

    #[test]
    fn the_checksum_has_the_values_of_its_standard() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c(&[0xff; 32]), 0x62a8_ab43);
    }

    #[test]
    fn the_bytes_are_those_of_the_layout() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events");
        let known = [Scalars { step: 300, wall_time: 2.0, values: vec![("a/b", 0.5), ("c", -1.0)] }];
        let mut file = EventFile::create(&Disk, &path, 1.5, &known).unwrap();
        file.append(&Scalars { step: 1, wall_time: 3.0, values: vec![("d", 2.0)] }).unwrap();
        let bytes = std::fs::read(&path).unwrap();
        let mut records = Vec::new();
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let length = u64::from_le_bytes(rest[..8].try_into().unwrap()) as usize;
            let word = |at: usize| u32::from_le_bytes(rest[at..at + 4].try_into().unwrap());
            let unmasked = |word: u32| word.wrapping_sub(0xa282_ead8).rotate_left(15);
            assert_eq!(unmasked(word(8)), crc32c(&rest[..8]));
            assert_eq!(unmasked(word(12 + length)), crc32c(&rest[12..12 + length]));
            records.push(rest[12..12 + length].to_vec());
            rest = &rest[16 + length..];
        }
        let event = |wall_time: f64, rest: &[u8]| [&[0x09], &wall_time.to_le_bytes()[..], rest].concat();
        // 24 bytes, as at the start of every event file of TensorFlow.
        assert_eq!(bytes[..8], [24, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(records[0], event(1.5, b"\x1a\x0dbrain.Event:2"));
        let values = b"\x2a\x16\x0a\x0a\x0a\x03a/b\x15\x00\x00\x00\x3f\x0a\x08\x0a\x01c\x15\x00\x00\x80\xbf";
        assert_eq!(records[1], event(2.0, &[b"\x10\xac\x02", &values[..]].concat()));
        assert_eq!(records[2], event(3.0, b"\x10\x01\x2a\x0a\x0a\x08\x0a\x01d\x15\x00\x00\x00\x40"));
        assert_eq!(records.len(), 3);
    }
}
