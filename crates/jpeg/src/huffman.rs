//! Huffman-coded coefficients: lookup tables, bit reader, blocks.
//!
//! A lookup of 11 bits gives run, value and length of most coefficients in one step; longer codes are rare.
#![deny(clippy::unwrap_used, clippy::expect_used)]

use super::header::DecodeError::{self, Damaged};
use super::header::RawTable;
use super::tables::ZIGZAG_TRANSPOSED;

/// Bits of the lookup.
const LOOKUP: u32 = 11;

/// A decoding table.
#[derive(Clone, Debug)]
pub(super) struct HuffmanTable {
    /// By the next 11 bits: `value << 16 | symbol_bits << 12 … `, see [`LookupEntry`].
    lookup: Vec<LookupEntry>,
    /// For longer codes: one more than the largest code of each length, left-aligned to 16 bits.
    limit: [u32; 18],
    /// `index of the first symbol of a length - its first code`.
    offset: [i32; 17],
    symbols: Vec<u8>,
}

/// The result of an 11-bit lookup.
#[derive(Clone, Copy, Debug, Default)]
struct LookupEntry {
    /// The coefficient, if its bits are within the 11.
    value: i16,
    /// Run of zeros and size of the value, as coded.
    symbol: u8,
    /// Number of bits used: the code and, if `is_whole`, the value. 0 = a longer code.
    length: u8,
    /// Whether `value` is complete.
    is_whole: bool,
}

impl HuffmanTable {
    pub(super) fn new(raw: &RawTable, is_dc: bool) -> Result<Self, DecodeError> {
        let mut table = Self {
            lookup: vec![LookupEntry::default(); 1 << LOOKUP],
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
                    table.add_code(code, length, symbol, is_dc);
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

    fn add_code(&mut self, code: u32, length: u32, symbol: u8, is_dc: bool) {
        let free = LOOKUP - length;
        let size = u32::from(symbol & 15);
        for rest in 0..1u32 << free {
            let is_whole = size <= free && (is_dc || size > 0);
            let value = if is_whole { extend(rest >> (free - size), size) as i16 } else { 0 };
            let used = if is_whole { length + size } else { length };
            self.lookup[(code << free | rest) as usize] =
                LookupEntry { value, symbol, length: used as u8, is_whole };
        }
    }

    /// The symbol of a code longer than the lookup, and the code length; length 0 = invalid.
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

/// Reads bits of unstuffed data, most significant bit first.
pub(super) struct BitReader<'a> {
    data: &'a [u8],
    at: usize,
    buffer: u64,
    count: u32,
}

impl<'a> BitReader<'a> {
    pub(super) fn new(data: &'a [u8], at: usize) -> Self {
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

    /// Position in whole bytes, rounded up.
    pub(super) fn byte_position(&self) -> usize {
        self.at - (self.count / 8) as usize
    }
}

/// Reads the DC coefficient of a block. Needs 56 available bits and leaves at least 28.
#[inline(always)]
fn read_dc(bits: &mut BitReader<'_>, table: &HuffmanTable, predicted: &mut i32) -> Result<(), DecodeError> {
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
fn symbol_of(
    bits: &BitReader<'_>,
    table: &HuffmanTable,
    entry: LookupEntry,
) -> Result<(u8, u32), DecodeError> {
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

/// Reads a block into transposed order. Returns whether only its DC coefficient is nonzero.
#[inline(always)]
pub(super) fn read_block(
    bits: &mut BitReader<'_>,
    [dc, ac]: [&HuffmanTable; 2],
    predicted: &mut i32,
    block: &mut [i16; 64],
) -> Result<bool, DecodeError> {
    bits.refill();
    read_dc(bits, dc, predicted)?;
    block[0] = *predicted as i16;
    let lookup: &[LookupEntry] = &ac.lookup;
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
        let (symbol, length) = symbol_of(bits, ac, entry)?;
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

/// Skips a block, except for its DC coefficient.
#[inline(always)]
pub(super) fn skip_block(
    bits: &mut BitReader<'_>,
    [dc, ac]: [&HuffmanTable; 2],
    predicted: &mut i32,
) -> Result<(), DecodeError> {
    bits.refill();
    read_dc(bits, dc, predicted)?;
    let lookup: &[LookupEntry] = &ac.lookup;
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
        let (symbol, length) = symbol_of(bits, ac, entry)?;
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
