//! Iterates over the marker segments of a JPEG (ITU T.81, annex B): `FF marker length content`.
//!
//! Fill bytes and markers without a length (TEM, RSTn) are skipped. Contents are read on request and otherwise skipped.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use std::io::{BufRead, ErrorKind, Seek};

/// Markers that callers use.
pub mod marker {
    /// Start of image.
    pub const SOI: u8 = 0xD8;
    /// End of image.
    pub const EOI: u8 = 0xD9;
    /// Start of scan: a segment, then entropy-coded data.
    pub const SOS: u8 = 0xDA;
    /// EXIF or XMP.
    pub const APP1: u8 = 0xE1;
    /// Application segment 2: colour profiles (ICC).
    pub const APP2: u8 = 0xE2;

    /// Whether it starts a frame header: SOFn without DHT (C4), JPG (C8) and DAC (CC).
    #[must_use]
    pub const fn is_frame(marker: u8) -> bool {
        matches!(marker, 0xC0..=0xCF) && !matches!(marker, 0xC4 | 0xC8 | 0xCC)
    }
}

/// Why reading cannot continue.
#[derive(Debug, thiserror::Error)]
pub enum SegmentError {
    /// No marker where one is expected.
    #[error("a JPEG marker is missing")]
    NoMarker,
    /// A length is below 2, the size of the length field itself.
    #[error("a JPEG segment has a length below 2")]
    Length,
    /// The file ends or cannot be read.
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

/// Iterator over segments. It starts after the start marker.
pub struct Segments<R> {
    source: R,
    /// Unread bytes of the current segment.
    rest: u16,
    /// The byte after the FF that ended a scan.
    behind_scan: Option<u8>,
}

impl<R: BufRead + Seek> Segments<R> {
    /// Starts at a position after a start marker or after a segment.
    pub fn new(source: R) -> Self {
        Self { source, rest: 0, behind_scan: None }
    }

    /// Advances to the next segment, a second start marker or the end marker, and returns the marker.
    ///
    /// # Errors
    /// There are no more segments.
    pub fn next_marker(&mut self) -> Result<u8, SegmentError> {
        self.source.seek_relative(i64::from(std::mem::take(&mut self.rest)))?;
        loop {
            let mut byte = match self.behind_scan.take() {
                Some(byte) => byte,
                None if self.bytes()? == [0xFF] => 0xFF,
                None => return Err(SegmentError::NoMarker),
            };
            while byte == 0xFF {
                [byte] = self.bytes()?;
            }
            match byte {
                0x01 | 0xD0..=0xD7 => {}
                marker::SOI | marker::EOI => return Ok(byte),
                _ => {
                    let length = u16::from_be_bytes(self.bytes()?);
                    self.rest = length.checked_sub(2).ok_or(SegmentError::Length)?;
                    return Ok(byte);
                }
            }
        }
    }

    fn bytes<const N: usize>(&mut self) -> Result<[u8; N], SegmentError> {
        let mut bytes = [0; N];
        self.source.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    /// The next bytes of the current segment.
    ///
    /// # Errors
    /// The file is truncated.
    pub fn take<const N: usize>(&mut self) -> Result<[u8; N], SegmentError> {
        self.rest = self.rest.saturating_sub(N as u16);
        self.bytes()
    }

    /// The unread content of the current segment.
    ///
    /// # Errors
    /// The file is truncated.
    pub fn content(&mut self) -> Result<Vec<u8>, SegmentError> {
        let mut content = vec![0; usize::from(std::mem::take(&mut self.rest))];
        self.source.read_exact(&mut content)?;
        Ok(content)
    }

    /// Skips the entropy-coded data after the current segment: up to the next FF that is neither stuffed (00) nor part
    /// of a restart marker.
    ///
    /// # Errors
    /// The file is truncated.
    pub fn skip_scan(&mut self) -> Result<(), SegmentError> {
        self.source.seek_relative(i64::from(std::mem::take(&mut self.rest)))?;
        loop {
            let buffer = self.source.fill_buf()?;
            if buffer.is_empty() {
                return Err(std::io::Error::from(ErrorKind::UnexpectedEof).into());
            }
            let Some(at) = buffer.iter().position(|&byte| byte == 0xFF) else {
                let length = buffer.len();
                self.source.consume(length);
                continue;
            };
            self.source.consume(at + 1);
            let [byte] = self.bytes()?;
            if !matches!(byte, 0x00 | 0xD0..=0xD7) {
                self.behind_scan = Some(byte);
                return Ok(());
            }
        }
    }

    /// The source, positioned after the last byte read.
    pub fn into_source(self) -> R {
        self.source
    }
}
