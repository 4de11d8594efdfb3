//! Baseline JPEG → planes: only the rows that are asked for, nothing upsampled, nothing converted.
//!
//! ```text
//! header ─▶ entropy-coded data without stuffing (in place) ─▶ per MCU row: Huffman ─▶ IDCT ─▶ planes
//!                                                             rows above: Huffman only; rows below: not read
//! ```
//! A lookup of 11 bits gives run, value and length of most coefficients in one step. Nothing is guessed: an invalid
//! code, data that ends too early, a missing end marker are errors, where libjpeg fills with grey and warns.
#![deny(clippy::unwrap_used, clippy::expect_used)]

use gausset_compute::at_level;
use gausset_compute::fearless_simd::{Level, prelude::*};

use super::dct;
use super::tables::{ZIGZAG, ZIGZAG_TRANSPOSED};
use crate::plane::Plane;

/// Why a JPEG cannot be decoded here.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// A kind of JPEG that is left to the general decoder: progressive, 12 bits, CMYK …
    #[error("{0}")]
    Unsupported(&'static str),
    /// The file ends before the picture does.
    #[error("the file ends too early")]
    Truncated,
    /// The file contradicts itself.
    #[error("damaged JPEG: {0}")]
    Damaged(&'static str),
}

use DecodeError::{Damaged, Truncated, Unsupported};

/// Bits of the lookup.
const LOOKUP: u32 = 11;

/// A component of the frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Component {
    id: u8,
    /// Blocks per MCU, across.
    pub h: u8,
    /// Blocks per MCU, down.
    pub v: u8,
    quantisation: u8,
    dc: u8,
    ac: u8,
}

/// What stands before the entropy-coded data.
#[derive(Clone, Debug)]
pub struct Header {
    /// Width in px.
    pub width: usize,
    /// Height in px.
    pub height: usize,
    /// One (grey) or three (YCbCr).
    pub components: Vec<Component>,
    /// MCUs between restart markers; 0 = none.
    restart_interval: usize,
    quantisation: [Option<[u16; 64]>; 4],
    dc: [Option<RawTable>; 4],
    ac: [Option<RawTable>; 4],
    /// Where the entropy-coded data begins.
    scan: usize,
}

#[derive(Clone, Debug)]
struct RawTable {
    counts: [u8; 16],
    symbols: Vec<u8>,
}

/// A reader of marker segments.
struct Bytes<'a> {
    data: &'a [u8],
    at: usize,
}

impl<'a> Bytes<'a> {
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

impl Header {
    /// Reads everything up to the entropy-coded data.
    ///
    /// # Errors
    /// Not a baseline JPEG with one scan of 1 or 3 components, or damaged.
    pub fn parse(data: &[u8]) -> Result<Self, DecodeError> {
        let mut bytes = Bytes { data, at: 0 };
        if bytes.take(2)? != [0xFF, 0xD8] {
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
        loop {
            if bytes.byte()? != 0xFF {
                return Err(Damaged("a marker is missing"));
            }
            let mut marker = bytes.byte()?;
            while marker == 0xFF {
                marker = bytes.byte()?;
            }
            if marker == 0x01 || (0xD0..=0xD7).contains(&marker) {
                continue;
            }
            if marker == 0xD8 || marker == 0xD9 {
                return Err(Damaged("no picture data"));
            }
            let length = bytes.word()?.checked_sub(2).ok_or(Damaged("a segment has a length below 2"))?;
            let mut segment = Bytes { data: bytes.take(length)?, at: 0 };
            match marker {
                0xC0 | 0xC1 => header.frame(&mut segment)?,
                0xC2 => return Err(Unsupported("progressive JPEG")),
                0xC3 | 0xC5..=0xC7 | 0xC9..=0xCB | 0xCD..=0xCF => {
                    return Err(Unsupported("lossless, hierarchical or arithmetic JPEG"));
                }
                0xC4 => header.huffman(&mut segment)?,
                0xDB => header.quantisation(&mut segment)?,
                0xDD => header.restart_interval = segment.word()?,
                0xEE if segment.data.starts_with(b"Adobe") => adobe_transform = segment.data.get(11).copied(),
                0xDA => {
                    header.start_of_scan(&mut segment)?;
                    header.scan = bytes.at;
                    if header.components.len() == 3 && adobe_transform == Some(0) {
                        return Err(Unsupported("RGB JPEG"));
                    }
                    return Ok(header);
                }
                _ => {}
            }
        }
    }

    fn frame(&mut self, segment: &mut Bytes<'_>) -> Result<(), DecodeError> {
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
            // A scan of one component is not interleaved: its sampling factors mean nothing.
            (only.h, only.v) = (1, 1);
        } else {
            let (h, v) = (self.components[0].h, self.components[0].v);
            if self.components.iter().any(|c| c.h > h || c.v > v) {
                return Err(Unsupported("chroma finer than luma"));
            }
        }
        Ok(())
    }

    fn quantisation(&mut self, segment: &mut Bytes<'_>) -> Result<(), DecodeError> {
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

    fn huffman(&mut self, segment: &mut Bytes<'_>) -> Result<(), DecodeError> {
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

    fn start_of_scan(&mut self, segment: &mut Bytes<'_>) -> Result<(), DecodeError> {
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
    fn mcu(&self) -> [usize; 2] {
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

/// Where codes of a table lead.
#[derive(Clone, Debug)]
struct Huffman {
    /// By the next 11 bits: `value << 16 | symbol_bits << 12 … `, see [`Entry`].
    lookup: Vec<Entry>,
    /// For longer codes: the largest code of each length, left-aligned to 16 bits, plus 1.
    limit: [u32; 18],
    /// `index of the first symbol of a length - its first code`.
    offset: [i32; 17],
    symbols: Vec<u8>,
}

/// What 11 bits say.
#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    /// The coefficient, when its bits are among the 11.
    value: i16,
    /// Run of zeros and size of the value, as coded.
    symbol: u8,
    /// Bits used: code and, when `is_whole`, value. 0 = a longer code.
    length: u8,
    /// Whether `value` is there.
    is_whole: bool,
}

impl Huffman {
    fn new(raw: &RawTable, is_dc: bool) -> Result<Self, DecodeError> {
        let mut table = Self {
            lookup: vec![Entry::default(); 1 << LOOKUP],
            limit: [0; 18],
            offset: [0; 17],
            symbols: raw.symbols.clone(),
        };
        let (mut code, mut index) = (0u32, 0usize);
        for length in 1..=16u32 {
            let count = usize::from(raw.counts[length as usize - 1]);
            table.offset[length as usize] = index as i32 - code as i32;
            for _ in 0..count {
                let symbol = *raw.symbols.get(index).ok_or(Damaged("Huffman table"))?;
                if code >> length != 0 {
                    return Err(Damaged("Huffman table has too many codes"));
                }
                if is_dc && symbol > 11 {
                    return Err(Damaged("Huffman table has a DC size above 11"));
                }
                if length <= LOOKUP {
                    table.enter(code, length, symbol, is_dc);
                }
                code += 1;
                index += 1;
            }
            table.limit[length as usize] = code << (16 - length);
            code <<= 1;
        }
        table.limit[17] = u32::MAX;
        Ok(table)
    }

    fn enter(&mut self, code: u32, length: u32, symbol: u8, is_dc: bool) {
        let free = LOOKUP - length;
        let size = u32::from(symbol & 15);
        for rest in 0..1u32 << free {
            let is_whole = size <= free && (is_dc || size > 0);
            let value = if is_whole { extend(rest >> (free - size), size) as i16 } else { 0 };
            let used = if is_whole { length + size } else { length };
            self.lookup[(code << free | rest) as usize] =
                Entry { value, symbol, length: used as u8, is_whole };
        }
    }

    /// The symbol of a code longer than the lookup; (symbol, length), length 0 = none.
    #[inline(never)]
    fn long_code(&self, next16: u32) -> (u8, u32) {
        for length in LOOKUP + 1..=16 {
            if next16 < self.limit[length as usize] {
                let code = (next16 >> (16 - length)) as i32;
                let symbol = usize::try_from(code + self.offset[length as usize]).ok();
                return symbol.and_then(|at| self.symbols.get(at)).map_or((0, 0), |&s| (s, length));
            }
        }
        (0, 0)
    }
}

/// The signed value of `size` bits (F.2.2.1).
#[inline(always)]
fn extend(bits: u32, size: u32) -> i32 {
    if size == 0 {
        return 0;
    }
    let negative = bits >> (size - 1) == 0;
    bits as i32 - if negative { (1 << size) - 1 } else { 0 }
}

/// Bits of unstuffed data, the first one highest.
struct BitReader<'a> {
    data: &'a [u8],
    at: usize,
    buffer: u64,
    count: u32,
}

impl<'a> BitReader<'a> {
    fn new(data: &'a [u8], at: usize) -> Self {
        Self { data, at, buffer: 0, count: 0 }
    }

    /// Makes at least 56 bits available; zeros after the end.
    #[inline(always)]
    fn refill(&mut self) {
        let word = match self.data.get(self.at..self.at + 8).and_then(|b| b.first_chunk::<8>()) {
            Some(eight) => u64::from_be_bytes(*eight),
            None => self.last_word(),
        };
        self.buffer |= word >> self.count;
        self.at += ((63 - self.count) >> 3) as usize;
        self.count |= 56;
    }

    #[cold]
    fn last_word(&self) -> u64 {
        let mut eight = [0; 8];
        let rest = self.data.get(self.at..).unwrap_or(&[]);
        let n = rest.len().min(8);
        eight[..n].copy_from_slice(&rest[..n]);
        u64::from_be_bytes(eight)
    }

    #[inline(always)]
    fn skip(&mut self, bits: u32) {
        self.buffer <<= bits;
        self.count -= bits;
    }

    /// Position in whole bytes, a started one counted.
    fn byte_position(&self) -> usize {
        self.at - (self.count / 8) as usize
    }
}

/// Decodes frames, one after the other, into the same buffers.
#[derive(Debug, Default)]
pub struct Decoder {
    /// Ends of the restart intervals in the unstuffed data.
    ends: Vec<usize>,
}

/// Tables and scale of a component, ready to use.
struct Ready<'a> {
    component: Component,
    dc: &'a Huffman,
    ac: &'a Huffman,
    scale: [f32; 64],
}

impl Decoder {
    /// Decodes the rows `rows[0]..=rows[1]` of the luma plane, and those of the chroma planes that belong to them.
    ///
    /// `data` is the file; its entropy-coded part is unstuffed in place. `planes` get the shape of what is stored: rows
    /// are rounded outwards to whole MCUs. Padding is the caller's.
    ///
    /// # Errors
    /// Damaged or truncated data; tables that are missing.
    pub fn decode(
        &mut self,
        level: Level,
        header: &Header,
        data: &mut [u8],
        rows: &[[i32; 2]],
        planes: &mut Vec<Plane>,
    ) -> Result<(), DecodeError> {
        let count = header.components.len();
        let mut dc: [Option<Huffman>; 4] = [const { None }; 4];
        let mut ac: [Option<Huffman>; 4] = [const { None }; 4];
        for (made, raw, is_dc) in [(&mut dc, &header.dc, true), (&mut ac, &header.ac, false)] {
            for (made, raw) in made.iter_mut().zip(raw) {
                *made = raw.as_ref().map(|raw| Huffman::new(raw, is_dc)).transpose()?;
            }
        }
        let find = |tables: &'_ [Option<Huffman>; 4], id: u8| -> Result<usize, DecodeError> {
            let id = usize::from(id);
            tables
                .get(id)
                .is_some_and(Option::is_some)
                .then_some(id)
                .ok_or(Damaged("a Huffman table is missing"))
        };
        let mut ready = Vec::with_capacity(count);
        for &component in &header.components {
            let quantisation = header.quantisation[usize::from(component.quantisation & 3)]
                .ok_or(Damaged("a quantisation table is missing"))?;
            let (d, a) = (find(&dc, component.dc)?, find(&ac, component.ac)?);
            let (Some(dc), Some(ac)) = (&dc[d], &ac[a]) else {
                return Err(Damaged("a Huffman table is missing"));
            };
            ready.push(Ready { component, dc, ac, scale: dct::inverse_scale(&quantisation) });
        }
        let [mcu_width, mcu_height] = header.mcu();
        let across = header.width.div_ceil(mcu_width);
        let down = header.height.div_ceil(mcu_height);
        let wanted = wanted_mcu_rows(header, rows, mcu_height, down);
        planes.resize_with(count, Plane::default);
        for (index, plane) in planes.iter_mut().enumerate() {
            let [width, height] = header.plane_size(index);
            let unit = 8 * usize::from(header.components[index].v);
            let first = wanted.start * unit;
            let last = (wanted.end * unit).min(height);
            // Columns of whole MCUs are written; those beyond the picture fall into the padding.
            plane.reshape(width, height, decoded_rows(first, last, height));
        }
        let scan = data.get_mut(header.scan..).ok_or(Truncated)?;
        let used = unstuff(scan, &mut self.ends)?;
        let scan = &scan[..used];
        let job =
            Job { ready: &ready, across, down, wanted, interval: header.restart_interval, ends: &self.ends };
        at_level!(level, simd => job.run(simd, scan, planes))
    }
}

/// MCU rows that hold the rows asked for.
fn wanted_mcu_rows(header: &Header, rows: &[[i32; 2]], unit: usize, down: usize) -> std::ops::Range<usize> {
    let (mut first, mut end) = (down, 0);
    for (index, &[low, high]) in rows.iter().enumerate().take(header.components.len()) {
        let own = unit * usize::from(header.components[index].v) / usize::from(header.components[0].v);
        let low = low.max(0) as usize / own;
        let high = (high.max(0) as usize / own + 1).min(down);
        (first, end) = (first.min(low), end.max(high));
    }
    first.min(down)..end.max(first.min(down))
}

/// Stored rows of a plane: those of the MCUs, and the row beyond a pole where they reach it.
fn decoded_rows(first: usize, end: usize, height: usize) -> [i32; 2] {
    let low = if first == 0 { -1 } else { first as i32 };
    let high = if end >= height { height as i32 } else { end as i32 - 1 };
    [low, high]
}

/// Removes the zeros after FF and the restart markers; gives the length up to the next other marker, which must be
/// the end of the picture. `ends` gets the end of each restart interval.
fn unstuff(data: &mut [u8], ends: &mut Vec<usize>) -> Result<usize, DecodeError> {
    ends.clear();
    let (mut from, mut to) = (0, 0);
    let mut restarts = 0u8;
    loop {
        let rest = data.get(from..).ok_or(Truncated)?;
        let run = memchr::memchr(0xFF, rest).ok_or(Truncated)?;
        let next = *rest.get(run + 1).ok_or(Truncated)?;
        match next {
            0x00 => {
                data.copy_within(from..from + run + 1, to);
                to += run + 1;
                from += run + 2;
            }
            0xFF => {
                // Fill bytes before a marker.
                data.copy_within(from..from + run, to);
                to += run;
                from += run + 1;
            }
            0xD0..=0xD7 => {
                if next != 0xD0 + restarts {
                    return Err(Damaged("restart markers are out of order"));
                }
                restarts = (restarts + 1) % 8;
                data.copy_within(from..from + run, to);
                to += run;
                from += run + 2;
                ends.push(to);
            }
            0xD9 => {
                data.copy_within(from..from + run, to);
                to += run;
                ends.push(to);
                return Ok(to);
            }
            _ => return Err(Damaged("a marker inside the picture data")),
        }
    }
}

struct Job<'a> {
    ready: &'a [Ready<'a>],
    across: usize,
    down: usize,
    wanted: std::ops::Range<usize>,
    interval: usize,
    ends: &'a [usize],
}

impl Job<'_> {
    #[inline(always)]
    fn run<S: Simd>(&self, simd: S, scan: &[u8], planes: &mut [Plane]) -> Result<(), DecodeError> {
        let mut bits = BitReader::new(scan, 0);
        let mut predicted = [0i32; 3];
        let mut block = [0i16; 64];
        let mut until_restart = if self.interval == 0 { usize::MAX } else { self.interval };
        let mut segment = 0;
        let mut limit = self.ends.first().copied().unwrap_or(0);
        if self.interval == 0 && self.ends.len() > 1 {
            return Err(Damaged("restart markers without an interval"));
        }
        let is_whole = self.wanted.end == self.down;
        for mcu_row in 0..self.wanted.end {
            let is_wanted = mcu_row >= self.wanted.start;
            for mcu in 0..self.across {
                if until_restart == 0 {
                    // The interval must be used up but for its last, filled byte.
                    if bits.byte_position() != limit {
                        return Err(Damaged("a restart interval has the wrong length"));
                    }
                    segment += 1;
                    let end = self.ends.get(segment).copied().ok_or(Truncated)?;
                    bits = BitReader::new(scan, limit);
                    limit = end;
                    predicted = [0; 3];
                    until_restart = self.interval;
                }
                until_restart -= 1;
                for (index, ready) in self.ready.iter().enumerate() {
                    let (h, v) = (usize::from(ready.component.h), usize::from(ready.component.v));
                    for by in 0..v {
                        for bx in 0..h {
                            if !is_wanted {
                                skip_block(&mut bits, ready, &mut predicted[index])?;
                                continue;
                            }
                            let is_flat = read_block(&mut bits, ready, &mut predicted[index], &mut block)?;
                            let plane = &mut planes[index];
                            let row = (mcu_row * v + by) * 8;
                            store(simd, ready, &mut block, is_flat, plane, (mcu * h + bx) * 8, row);
                        }
                    }
                }
            }
            if bits.byte_position() > limit {
                return Err(Truncated);
            }
        }
        if is_whole && bits.byte_position() != limit {
            return Err(Damaged("the picture data has the wrong length"));
        }
        Ok(())
    }
}

/// Transforms a block and stores what lies in the plane; clears it.
#[inline(always)]
fn store<S: Simd>(
    simd: S,
    ready: &Ready<'_>,
    block: &mut [i16; 64],
    is_flat: bool,
    plane: &mut Plane,
    x: usize,
    y: usize,
) {
    let stored_end = (plane.first_row + plane.rows as i32).max(0) as usize;
    let whole = y + 8 <= plane.height.min(stored_end) && x + 8 <= plane.stride && y as i32 >= plane.first_row;
    if whole {
        let at = (y as i32 - plane.first_row) as usize * plane.stride + x;
        let stride = plane.stride;
        let out = &mut plane.data[at..];
        if is_flat {
            let value = f32::from(block[0]) * ready.scale[0] + 128.5;
            let value = value.clamp(0.0, 255.5) as u8;
            for row in 0..8 {
                out[row * stride..row * stride + 8].fill(value);
            }
            block[0] = 0;
            return;
        }
        dct::inverse(simd, block, &ready.scale, out, stride);
    } else {
        let mut samples = [0u8; 64];
        dct::inverse(simd, block, &ready.scale, &mut samples, 8);
        for row in 0..8 {
            let at = y + row;
            if at < plane.height.min(stored_end) && at as i32 >= plane.first_row && x < plane.width {
                let n = 8.min(plane.width - x);
                plane.row_mut(at as i32)[x..x + n].copy_from_slice(&samples[8 * row..8 * row + n]);
            }
        }
    }
    *block = [0; 64];
}

/// Reads the DC coefficient of a block; 56 bits are available before, at least 28 after.
#[inline(always)]
fn read_dc(bits: &mut BitReader<'_>, table: &Huffman, predicted: &mut i32) -> Result<(), DecodeError> {
    let entry = table.lookup[(bits.buffer >> (64 - LOOKUP)) as usize];
    let difference = if entry.is_whole {
        bits.skip(u32::from(entry.length));
        i32::from(entry.value)
    } else {
        let (symbol, length) = symbol_of(bits, table, entry)?;
        bits.skip(length);
        take_value(bits, u32::from(symbol))
    };
    *predicted = (*predicted + difference).clamp(-32_768, 32_767);
    Ok(())
}

#[inline(always)]
fn symbol_of(bits: &BitReader<'_>, table: &Huffman, entry: Entry) -> Result<(u8, u32), DecodeError> {
    if entry.length > 0 {
        return Ok((entry.symbol, u32::from(entry.length)));
    }
    match table.long_code((bits.buffer >> 48) as u32) {
        (_, 0) => Err(Damaged("invalid Huffman code")),
        found => Ok(found),
    }
}

#[inline(always)]
fn take_value(bits: &mut BitReader<'_>, size: u32) -> i32 {
    if size == 0 {
        return 0;
    }
    let value = extend((bits.buffer >> (64 - size)) as u32, size);
    bits.skip(size);
    value
}

/// Reads a block into transposed order; whether only its mean is not zero.
#[inline(always)]
fn read_block(
    bits: &mut BitReader<'_>,
    ready: &Ready<'_>,
    predicted: &mut i32,
    block: &mut [i16; 64],
) -> Result<bool, DecodeError> {
    bits.refill();
    read_dc(bits, ready.dc, predicted)?;
    block[0] = *predicted as i16;
    let table = ready.ac;
    let lookup: &[Entry] = &table.lookup;
    let mut k = 1usize;
    let mut is_flat = true;
    while k < 64 {
        // A coefficient takes at most 16 + 15 bits.
        if bits.count < 32 {
            bits.refill();
        }
        let entry = lookup[(bits.buffer >> (64 - LOOKUP)) as usize];
        if entry.is_whole {
            k += usize::from(entry.symbol >> 4);
            bits.skip(u32::from(entry.length));
            if k > 63 {
                return Err(Damaged("a block has too many coefficients"));
            }
            block[usize::from(ZIGZAG_TRANSPOSED[k]) & 63] = entry.value;
            is_flat = false;
            k += 1;
            continue;
        }
        let (symbol, length) = symbol_of(bits, table, entry)?;
        bits.skip(length);
        let (run, size) = (usize::from(symbol >> 4), u32::from(symbol & 15));
        if size == 0 {
            if run < 15 {
                break;
            }
            k += 16;
            continue;
        }
        k += run;
        let value = take_value(bits, size);
        if k > 63 {
            return Err(Damaged("a block has too many coefficients"));
        }
        block[usize::from(ZIGZAG_TRANSPOSED[k]) & 63] = value as i16;
        is_flat = false;
        k += 1;
    }
    if k > 64 {
        return Err(Damaged("a block has too many coefficients"));
    }
    Ok(is_flat)
}

/// Reads over a block, for its DC coefficient.
#[inline(always)]
fn skip_block(bits: &mut BitReader<'_>, ready: &Ready<'_>, predicted: &mut i32) -> Result<(), DecodeError> {
    bits.refill();
    read_dc(bits, ready.dc, predicted)?;
    let table = ready.ac;
    let lookup: &[Entry] = &table.lookup;
    let mut k = 1usize;
    while k < 64 {
        if bits.count < 32 {
            bits.refill();
        }
        let entry = lookup[(bits.buffer >> (64 - LOOKUP)) as usize];
        if entry.is_whole {
            k += usize::from(entry.symbol >> 4) + 1;
            bits.skip(u32::from(entry.length));
            continue;
        }
        let (symbol, length) = symbol_of(bits, table, entry)?;
        let (run, size) = (usize::from(symbol >> 4), u32::from(symbol & 15));
        bits.skip(length + size);
        if size == 0 && run < 15 {
            return Ok(());
        }
        k += run + 1;
    }
    if k > 64 {
        return Err(Damaged("a block has too many coefficients"));
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::jpeg::encode::{Band, Encoder, Sampling};
    use gausset_compute::{VectorLevel, level};

    fn level_of(wanted: VectorLevel) -> Level {
        level(wanted).unwrap()
    }

    /// A 4:2:0 picture with detail.
    fn encoded(width: usize, height: usize) -> Vec<u8> {
        let level = level_of(VectorLevel::Auto);
        let mut encoder = Encoder::new(width, height, Sampling::Half, 92);
        let mut band = Band::default();
        band.reshape(width, Sampling::Half);
        encoder.start(&[]);
        for top in (0..height).step_by(16) {
            let stride = band.stride;
            for (i, out) in band.luma.iter_mut().enumerate() {
                *out = luma(i % stride, top + i / stride);
            }
            for (c, plane) in band.chroma.iter_mut().enumerate() {
                for (i, out) in plane.iter_mut().enumerate() {
                    *out = chroma(c, i % (stride / 2), top / 2 + i / (stride / 2));
                }
            }
            encoder.band(level, &band);
        }
        encoder.finish().to_vec()
    }

    fn luma(x: usize, y: usize) -> u8 {
        (120.0
            + 50.0 * (x as f64 * 0.3).sin()
            + 40.0 * (y as f64 * 0.17).cos()
            + ((x * 31 + y * 17) % 23) as f64) as u8
    }

    fn chroma(c: usize, x: usize, y: usize) -> u8 {
        (128.0 + 40.0 * ((x + 3 * c) as f64 * 0.05).sin() + 20.0 * (y as f64 * 0.04).cos()) as u8
    }

    fn decode(bytes: &[u8], rows: &[[i32; 2]]) -> Result<Vec<Plane>, DecodeError> {
        let header = Header::parse(bytes)?;
        let mut data = bytes.to_vec();
        let mut planes = Vec::new();
        Decoder::default().decode(level_of(VectorLevel::Auto), &header, &mut data, rows, &mut planes)?;
        Ok(planes)
    }

    const ALL: [[i32; 2]; 3] = [[-1, 1 << 20]; 3];

    #[test]
    fn planes_come_back_with_the_loss_of_the_quality_only() {
        let planes = decode(&encoded(100, 60), &ALL).unwrap();
        assert_eq!((planes[0].width, planes[0].height, planes[1].width, planes[1].height), (100, 60, 50, 30));
        for y in 0..60 {
            for (x, &got) in planes[0].row(y).iter().enumerate() {
                assert!(got.abs_diff(luma(x, y as usize)) <= 12, "{x},{y}");
            }
        }
        for y in 0..30 {
            for (x, &got) in planes[1].row(y).iter().enumerate() {
                assert!(got.abs_diff(chroma(0, x, y as usize)) <= 8, "{x},{y}");
            }
        }
    }

    #[test]
    fn another_decoder_agrees_within_rounding() {
        // Grey files come back as luma without conversion from the other decoder.
        let level = level_of(VectorLevel::Auto);
        let (width, height) = (72, 40);
        let mut encoder = Encoder::new(width, height, Sampling::Grey, 80);
        let mut band = Band::default();
        band.reshape(width, Sampling::Grey);
        encoder.start(&[]);
        for top in (0..height).step_by(8) {
            let stride = band.stride;
            for (i, out) in band.luma.iter_mut().enumerate() {
                *out = luma(i % stride, top + i / stride);
            }
            encoder.band(level, &band);
        }
        let bytes = encoder.finish().to_vec();
        let own = decode(&bytes, &ALL).unwrap();
        let other = image::load_from_memory(&bytes).unwrap().to_luma8();
        for (x, y, pixel) in other.enumerate_pixels() {
            assert!(own[0].row(y as i32)[x as usize].abs_diff(pixel[0]) <= 1, "{x},{y}");
        }
    }

    #[test]
    fn some_rows_are_the_same_rows() {
        let bytes = encoded(96, 160);
        let whole = decode(&bytes, &ALL).unwrap();
        let part = decode(&bytes, &[[50, 83], [25, 41], [25, 41]]).unwrap();
        assert_eq!(part[0].picture_rows(), 48..96);
        for y in 48..96 {
            assert_eq!(part[0].row(y), whole[0].row(y));
        }
        for y in 24..48 {
            assert_eq!(part[2].row(y), whole[2].row(y));
        }
    }

    #[test]
    fn truncation_anywhere_is_an_error_and_so_is_a_missing_end() {
        let bytes = encoded(64, 64);
        for length in 0..bytes.len() {
            assert!(decode(&bytes[..length], &ALL).is_err(), "{length}");
        }
        let mut doubled = bytes.clone();
        doubled.extend_from_slice(&bytes);
        assert!(decode(&doubled, &ALL).is_ok(), "a second picture after the first (MPF) is nothing wrong");
    }

    #[test]
    fn flipped_bits_never_panic_and_are_nearly_always_noticed() {
        let bytes = encoded(64, 64);
        let scan = Header::parse(&bytes).unwrap().scan;
        let (mut noticed, mut tried) = (0, 0);
        for at in 2..bytes.len() {
            for bit in [0, 5] {
                let mut damaged = bytes.clone();
                damaged[at] ^= 1 << bit;
                let result = decode(&damaged, &ALL);
                if at >= scan {
                    tried += 1;
                    noticed += usize::from(result.is_err());
                }
            }
        }
        // Bits of a value change that value and nothing else; those of a code shift what follows.
        assert!(noticed * 4 > tried, "{noticed} of {tried}");
    }
}
