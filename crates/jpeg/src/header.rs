//! The header of a JPEG: sizes, components, tables.
#![deny(clippy::unwrap_used, clippy::expect_used)]

use std::io::Cursor;

use gausset_io::image::segments::{SegmentError, Segments, marker};

use super::tables::ZIGZAG;

/// Why a JPEG cannot be decoded here.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// A kind of JPEG that the general decoder handles: progressive, 12 bits, CMYK …
    #[error("{0}")]
    Unsupported(&'static str),
    /// The file ends within the image.
    #[error("the file ends too early")]
    Truncated,
    /// The file is inconsistent.
    #[error("damaged JPEG: {0}")]
    Damaged(&'static str),
}

use DecodeError::{Damaged, Truncated, Unsupported};

impl From<SegmentError> for DecodeError {
    fn from(error: SegmentError) -> Self {
        match error {
            SegmentError::NoMarker => Damaged("a marker is missing"),
            SegmentError::Length => Damaged("a segment has a length below 2"),
            SegmentError::Io(_) => Truncated,
        }
    }
}

/// A colour component of the image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Component {
    pub(super) id: u8,
    /// Blocks per MCU, across.
    pub h: u8,
    /// Blocks per MCU, down.
    pub v: u8,
    pub(super) quantisation: u8,
    pub(super) dc: u8,
    pub(super) ac: u8,
}

/// A parsed header, up to the entropy-coded data.
#[derive(Clone, Debug)]
pub struct JpegHeader {
    /// Width in px.
    pub width: usize,
    /// Height in px.
    pub height: usize,
    /// One (grey) or three (YCbCr).
    pub components: Vec<Component>,
    /// MCUs between restart markers; 0 = none.
    pub(super) restart_interval: usize,
    pub(super) quantisation: [Option<[u16; 64]>; 4],
    pub(super) dc: [Option<RawTable>; 4],
    pub(super) ac: [Option<RawTable>; 4],
    /// Offset of the entropy-coded data in the file.
    pub(super) scan: usize,
}

/// A Huffman table as stored in the file.
#[derive(Clone, Debug)]
pub(super) struct RawTable {
    pub(super) counts: [u8; 16],
    pub(super) symbols: Vec<u8>,
}

/// A reader for the content of a segment.
struct SegmentReader<'a> {
    data: &'a [u8],
    at: usize,
}

impl<'a> SegmentReader<'a> {
    fn byte(&mut self) -> Result<u8, DecodeError> {
        let byte = *self.data.get(self.at).ok_or(Truncated)?;
        self.at += 1;
        Ok(byte)
    }

    fn word(&mut self) -> Result<usize, DecodeError> {
        Ok(usize::from(self.byte()?) << 8 | usize::from(self.byte()?))
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], DecodeError> {
        let end = self.at.checked_add(count).ok_or(Truncated)?;
        let slice = self.data.get(self.at..end).ok_or(Truncated)?;
        self.at = end;
        Ok(slice)
    }
}

impl JpegHeader {
    /// Reads everything up to the entropy-coded data.
    ///
    /// # Errors
    /// Not a baseline JPEG with one scan of 1 or 3 components, or damaged.
    pub fn parse(data: &[u8]) -> Result<Self, DecodeError> {
        if data.get(..2).ok_or(Truncated)? != [0xFF, marker::SOI] {
            return Err(Damaged("no JPEG start marker"));
        }
        let mut header = Self {
            width: 0,
            height: 0,
            components: Vec::new(),
            restart_interval: 0,
            quantisation: [None; 4],
            dc: [const { None }; 4],
            ac: [const { None }; 4],
            scan: 0,
        };
        let mut adobe_transform = None;
        let mut segments = Segments::new(Cursor::new(&data[2..]));
        loop {
            let marker = segments.next_marker()?;
            if marker == marker::SOI || marker == marker::EOI {
                return Err(Damaged("no picture data"));
            }
            let content = segments.content()?;
            let mut segment = SegmentReader { data: &content, at: 0 };
            match marker {
                0xC0 | 0xC1 => header.frame(&mut segment)?,
                0xC2 => return Err(Unsupported("progressive JPEG")),
                0xC4 => header.huffman(&mut segment)?,
                _ if marker::is_frame(marker) => {
                    return Err(Unsupported("lossless, hierarchical or arithmetic JPEG"));
                }
                0xDB => header.quantisation(&mut segment)?,
                0xDD => header.restart_interval = segment.word()?,
                0xEE if content.starts_with(b"Adobe") => adobe_transform = content.get(11).copied(),
                marker::SOS => {
                    header.start_of_scan(&mut segment)?;
                    header.scan = 2 + segments.into_source().position() as usize;
                    // Without a marker, as jpegli names them.
                    let is_named_rgb = header.components.iter().map(|component| component.id).eq(*b"RGB");
                    if is_named_rgb || header.components.len() == 3 && adobe_transform == Some(0) {
                        return Err(Unsupported("RGB JPEG"));
                    }
                    return Ok(header);
                }
                _ => {}
            }
        }
    }

    fn frame(&mut self, segment: &mut SegmentReader<'_>) -> Result<(), DecodeError> {
        if !self.components.is_empty() {
            return Err(Damaged("a second frame header"));
        }
        if segment.byte()? != 8 {
            return Err(Unsupported("JPEG of more than 8 bits"));
        }
        (self.height, self.width) = (segment.word()?, segment.word()?);
        let count = segment.byte()?;
        if self.width == 0 || self.height == 0 {
            return Err(Damaged("a side is 0 px"));
        }
        if count != 1 && count != 3 {
            return Err(Unsupported("JPEG of 2 or 4 components"));
        }
        for _ in 0..count {
            let (id, sampling, quantisation) = (segment.byte()?, segment.byte()?, segment.byte()?);
            let (h, v) = (sampling >> 4, sampling & 15);
            if !matches!(h, 1 | 2 | 4) || !matches!(v, 1 | 2 | 4) || quantisation > 3 {
                return Err(Unsupported("unusual sampling factors"));
            }
            self.components.push(Component { id, h, v, quantisation, dc: 0, ac: 0 });
        }
        if let [only] = self.components.as_mut_slice() {
            // A scan of one component is not interleaved, so its sampling factors have no effect.
            (only.h, only.v) = (1, 1);
        } else {
            let (h, v) = (self.components[0].h, self.components[0].v);
            if self.components.iter().any(|c| c.h > h || c.v > v) {
                return Err(Unsupported("chroma finer than luma"));
            }
        }
        Ok(())
    }

    fn quantisation(&mut self, segment: &mut SegmentReader<'_>) -> Result<(), DecodeError> {
        while segment.at < segment.data.len() {
            let kind = segment.byte()?;
            let mut table = [0u16; 64];
            for natural in ZIGZAG {
                let value = if kind >> 4 == 0 { usize::from(segment.byte()?) } else { segment.word()? };
                table[usize::from(natural)] = value as u16;
            }
            *self.quantisation.get_mut(usize::from(kind & 15)).ok_or(Damaged("quantisation table"))? =
                Some(table);
        }
        Ok(())
    }

    fn huffman(&mut self, segment: &mut SegmentReader<'_>) -> Result<(), DecodeError> {
        while segment.at < segment.data.len() {
            let kind = segment.byte()?;
            let mut counts = [0u8; 16];
            counts.copy_from_slice(segment.take(16)?);
            let total: usize = counts.iter().map(|&c| usize::from(c)).sum();
            let symbols = segment.take(total)?.to_vec();
            let tables = if kind >> 4 == 0 { &mut self.dc } else { &mut self.ac };
            *tables.get_mut(usize::from(kind & 15)).ok_or(Damaged("Huffman table"))? =
                Some(RawTable { counts, symbols });
        }
        Ok(())
    }

    fn start_of_scan(&mut self, segment: &mut SegmentReader<'_>) -> Result<(), DecodeError> {
        if self.components.is_empty() {
            return Err(Damaged("no frame header before the picture data"));
        }
        if usize::from(segment.byte()?) != self.components.len() {
            return Err(Unsupported("JPEG of several scans"));
        }
        for component in &mut self.components {
            let (id, tables) = (segment.byte()?, segment.byte()?);
            if id != component.id {
                return Err(Damaged("the scan names another component"));
            }
            (component.dc, component.ac) = (tables >> 4, tables & 15);
        }
        Ok(())
    }

    /// Width and height of an MCU in px.
    pub(super) fn mcu(&self) -> [usize; 2] {
        let luma = self.components.first().copied().unwrap_or_default();
        [8 * usize::from(luma.h), 8 * usize::from(luma.v)]
    }

    /// Size of the plane of a component.
    #[must_use]
    pub fn plane_size(&self, component: usize) -> [usize; 2] {
        let (luma, own) = (self.components[0], self.components[component]);
        let scaled = |side: usize, own: u8, luma: u8| (side * usize::from(own)).div_ceil(usize::from(luma));
        [scaled(self.width, own.h, luma.h), scaled(self.height, own.v, luma.v)]
    }
}
