//! Encodes planes to baseline JPEG, one band of MCU rows at a time.
//!
//! ```text
//! SOI  [segments of the caller: EXIF, XMP, ICC]  DQT  SOF0  DHT  SOS  entropy-coded data  EOI
//! ```
//! Standard Huffman tables (annex K): optimised tables save 2 % and triple the encoding time (measured with
//! libjpeg-turbo). Code and value bits of a coefficient are written in one step.

use gausset_compute::at_level;
use gausset_compute::fearless_simd::{Level, i16x32, prelude::*};

use super::dct;
use super::tables::{self, HuffmanSpec, ZIGZAG, ZIGZAG_TRANSPOSED};

/// How chroma is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sampling {
    /// No chroma.
    Grey,
    /// Half the columns and rows.
    Half,
}

/// A band of samples: 16 rows of luma (8 for grey), 8 of each chroma plane, padded to the width of whole MCUs.
#[derive(Clone, Debug, Default)]
pub struct Band {
    /// Rows of luma.
    pub luma: Vec<u8>,
    /// Width of the luma rows.
    pub stride: usize,
    /// Chroma; half as wide.
    pub chroma: [Vec<u8>; 2],
}

impl Band {
    /// Resizes the band for images of this width.
    pub fn reshape(&mut self, width: usize, sampling: Sampling) {
        self.stride = width.next_multiple_of(16);
        self.luma.resize(self.stride * 16, 0);
        let chroma = if sampling == Sampling::Half { self.stride / 2 * 8 } else { 0 };
        for plane in &mut self.chroma {
            plane.resize(chroma, 0);
        }
    }
}

/// Code (in the low bits) and length of each symbol.
#[derive(Clone, Debug)]
struct HuffmanCodes {
    code: [u32; 256],
    length: [u8; 256],
}

impl HuffmanCodes {
    fn new(spec: &HuffmanSpec) -> Self {
        let mut codes = Self { code: [0; 256], length: [0; 256] };
        let (mut code, mut at) = (0u32, 0);
        for (length, &count) in (1u8..).zip(&spec.counts) {
            for _ in 0..count {
                let symbol = usize::from(spec.symbols[at]);
                codes.code[symbol] = code;
                codes.length[symbol] = length;
                code += 1;
                at += 1;
            }
            code <<= 1;
        }
        codes
    }
}

/// Bit buffer for output, most significant bit first.
#[derive(Clone, Debug, Default)]
struct BitWriter {
    buffer: u64,
    used: u32,
}

impl BitWriter {
    /// Appends `length` (1..=32) bits.
    #[inline(always)]
    fn put(&mut self, bits: u32, length: u32, out: &mut Vec<u8>) {
        let free = 64 - self.used;
        let bits = u64::from(bits);
        if length < free {
            self.buffer = (self.buffer << length) | bits;
            self.used += length;
            return;
        }
        let rest = length - free;
        // `free` may be 64 only when nothing is used, and then `length` is smaller.
        let full = (self.buffer << free) | (bits >> rest);
        push_stuffed(full, out);
        // Bits above the `rest` lowest are already written; the next flush discards them.
        self.buffer = bits;
        self.used = rest;
    }

    /// Fills the last byte with ones.
    fn finish(&mut self, out: &mut Vec<u8>) {
        let fill = (8 - self.used % 8) % 8;
        let mut left = self.used + fill;
        let buffer = (self.buffer << fill) | ((1u64 << fill) - 1);
        while left > 0 {
            left -= 8;
            let byte = (buffer >> left) as u8;
            out.push(byte);
            if byte == 0xFF {
                out.push(0);
            }
        }
        *self = Self::default();
    }
}

/// Appends eight bytes, with a zero after each FF.
#[inline(always)]
fn push_stuffed(word: u64, out: &mut Vec<u8>) {
    const LOW: u64 = 0x0101_0101_0101_0101;
    // A byte is FF where adding one carries out of it and its top bit was set.
    let has_ff = word & (0x8080_8080_8080_8080 & !word.wrapping_add(LOW)) != 0;
    if !has_ff {
        out.extend_from_slice(&word.to_be_bytes());
        return;
    }
    for byte in word.to_be_bytes() {
        out.push(byte);
        if byte == 0xFF {
            out.push(0);
        }
    }
}

/// Encodes images of one size, quality and sampling, one after another.
#[derive(Clone, Debug)]
pub struct Encoder {
    width: usize,
    height: usize,
    sampling: Sampling,
    quality: u8,
    quantisation: [[u8; 64]; 2],
    scale: [[f32; 64]; 2],
    dc: [HuffmanCodes; 2],
    ac: [HuffmanCodes; 2],
    bits: BitWriter,
    predicted: [i32; 3],
    out: Vec<u8>,
}

impl Encoder {
    /// An encoder for images of `width` x `height` px (1..=65535 each) at a quality of 1..=100.
    #[must_use]
    pub fn new(width: usize, height: usize, sampling: Sampling, quality: u8) -> Self {
        let quantisation = tables::quantisation(quality);
        Self {
            width,
            height,
            sampling,
            quality,
            scale: [dct::forward_scale(&quantisation[0]), dct::forward_scale(&quantisation[1])],
            quantisation,
            dc: [HuffmanCodes::new(&tables::DC[0]), HuffmanCodes::new(&tables::DC[1])],
            ac: [HuffmanCodes::new(&tables::AC[0]), HuffmanCodes::new(&tables::AC[1])],
            bits: BitWriter::default(),
            predicted: [0; 3],
            out: Vec::new(),
        }
    }

    /// Whether this encoder has this size, sampling and quality.
    #[must_use]
    pub fn fits(&self, width: usize, height: usize, sampling: Sampling, quality: u8) -> bool {
        (self.width, self.height, self.sampling, self.quality) == (width, height, sampling, quality)
    }

    /// Rows of luma in a band.
    #[must_use]
    pub fn band_rows(&self) -> usize {
        if self.sampling == Sampling::Half { 16 } else { 8 }
    }

    /// Begins an image; `segments` are complete marker segments (`FF E1 …`), written after SOI.
    pub fn start(&mut self, segments: &[&[u8]]) {
        self.bits = BitWriter::default();
        self.predicted = [0; 3];
        let out = &mut self.out;
        out.clear();
        out.extend([0xFF, 0xD8]);
        for segment in segments {
            out.extend_from_slice(segment);
        }
        let colours = if self.sampling == Sampling::Grey { 1 } else { 3 };
        for (id, table) in self.quantisation.iter().enumerate().take(colours.min(2)) {
            out.extend([0xFF, 0xDB, 0, 67, id as u8]);
            out.extend(ZIGZAG.map(|natural| table[usize::from(natural)]));
        }
        let [h1, h0] = (self.height as u16).to_be_bytes();
        let [w1, w0] = (self.width as u16).to_be_bytes();
        out.extend([0xFF, 0xC0, 0, 8 + 3 * colours as u8, 8, h1, h0, w1, w0, colours as u8]);
        let luma_sampling = if colours == 3 { 0x22 } else { 0x11 };
        for component in 0..colours as u8 {
            let (sampling, table) = if component == 0 { (luma_sampling, 0) } else { (0x11, 1) };
            out.extend([component + 1, sampling, table]);
        }
        for (id, (dc, ac)) in tables::DC.iter().zip(&tables::AC).enumerate().take(colours.min(2)) {
            for (class, spec) in [(0u8, dc), (0x10, ac)] {
                let length = 2 + 1 + 16 + spec.symbols.len();
                out.extend([0xFF, 0xC4, (length >> 8) as u8, length as u8, class | id as u8]);
                out.extend(spec.counts);
                out.extend(spec.symbols);
            }
        }
        out.extend([0xFF, 0xDA, 0, 6 + 2 * colours as u8, colours as u8]);
        for component in 0..colours as u8 {
            out.extend([component + 1, if component == 0 { 0 } else { 0x11 }]);
        }
        out.extend([0, 63, 0]);
    }

    /// Encodes the next [`Self::band_rows`] rows; columns and rows beyond the image must be filled in.
    pub fn band(&mut self, level: Level, band: &Band) {
        // A coefficient takes at most 27 bits; a band at this size can then be written without growing.
        at_level!(level, simd => self.band_at(simd, band));
    }

    #[inline(always)]
    fn band_at<S: Simd>(&mut self, simd: S, band: &Band) {
        let stride = band.stride;
        match self.sampling {
            Sampling::Grey => {
                for x in (0..self.width.next_multiple_of(8)).step_by(8) {
                    self.block(simd, 0, &band.luma[x..], stride);
                }
            }
            Sampling::Half => {
                for mcu in 0..stride / 16 {
                    for (dx, dy) in [(0, 0), (8, 0), (0, 8), (8, 8)] {
                        self.block(simd, 0, &band.luma[dy * stride + 16 * mcu + dx..], stride);
                    }
                    for component in 1..3 {
                        self.block(simd, component, &band.chroma[component - 1][8 * mcu..], stride / 2);
                    }
                }
            }
        }
    }

    #[inline(always)]
    fn block<S: Simd>(&mut self, simd: S, component: usize, samples: &[u8], stride: usize) {
        let table = component.min(1);
        let mut natural = [0i16; 64];
        dct::forward(simd, samples, stride, &self.scale[table], &mut natural);
        let mut zigzag = [0i16; 64];
        for k in 0..64 {
            zigzag[k] = natural[usize::from(ZIGZAG_TRANSPOSED[k])];
        }
        let zero = i16x32::splat(simd, 0);
        let half = |from: usize| {
            let values: &[i16; 32] = zigzag[from..].first_chunk().unwrap_or(&[0; 32]);
            i16x32::load_array_ref(simd, values).simd_eq(zero).to_bitmask()
        };
        let mut nonzero = !((half(0) & 0xFFFF_FFFF) | (half(32) << 32));
        let dc = i32::from(zigzag[0]);
        let difference = dc - self.predicted[component];
        self.predicted[component] = dc;
        let size = 32 - difference.unsigned_abs().leading_zeros();
        let codes = &self.dc[table];
        let (code, length) = (codes.code[size as usize], u32::from(codes.length[size as usize]));
        let value = (difference - i32::from(difference < 0)) as u32 & ((1 << size) - 1);
        self.bits.put((code << size) | value, length + size, &mut self.out);
        let codes = &self.ac[table];
        nonzero &= !1;
        let mut next = 1;
        while nonzero != 0 {
            let k = nonzero.trailing_zeros();
            nonzero &= nonzero - 1;
            let mut run = k - next;
            next = k + 1;
            while run > 15 {
                self.bits.put(codes.code[0xF0], u32::from(codes.length[0xF0]), &mut self.out);
                run -= 16;
            }
            let v = i32::from(zigzag[k as usize & 63]);
            let size = 32 - v.unsigned_abs().leading_zeros();
            let symbol = ((run << 4) | size) as usize & 255;
            let value = (v - i32::from(v < 0)) as u32 & ((1 << size) - 1);
            self.bits.put(
                (codes.code[symbol] << size) | value,
                u32::from(codes.length[symbol]) + size,
                &mut self.out,
            );
        }
        if next < 64 {
            self.bits.put(codes.code[0], u32::from(codes.length[0]), &mut self.out);
        }
    }

    /// Ends the image and returns its bytes, which are valid until the next [`Self::start`].
    pub fn finish(&mut self) -> &[u8] {
        self.bits.finish(&mut self.out);
        self.out.extend([0xFF, 0xD9]);
        &self.out
    }

    /// Like [`Self::finish`], consuming the encoder.
    #[must_use]
    pub fn into_bytes(mut self) -> Vec<u8> {
        self.finish();
        self.out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gausset_compute::{SimdLevel, dispatch_level};

    fn picture(width: usize, height: usize, sampling: Sampling, wanted: SimdLevel) -> Option<Vec<u8>> {
        let level = dispatch_level(wanted)?;
        let mut encoder = Encoder::new(width, height, sampling, 95);
        let mut band = Band::default();
        band.reshape(width, sampling);
        encoder.start(&[]);
        let rows = encoder.band_rows();
        for top in (0..height).step_by(rows) {
            for y in 0..rows {
                for x in 0..band.stride {
                    band.luma[y * band.stride + x] = value(x, top + y);
                }
            }
            for (c, plane) in band.chroma.iter_mut().enumerate() {
                for (i, out) in plane.iter_mut().enumerate() {
                    *out = (100 + 20 * c + i % (band.stride / 2) / 4) as u8;
                }
            }
            encoder.band(level, &band);
        }
        Some(encoder.finish().to_vec())
    }

    fn value(x: usize, y: usize) -> u8 {
        (128.0
            + 60.0 * (x as f64 * 0.21).sin()
            + 50.0 * (y as f64 * 0.13).cos()
            + ((x * 7 + y * 13) % 11) as f64) as u8
    }

    #[test]
    fn another_decoder_reads_what_was_encoded() {
        for (sampling, width, height) in
            [(Sampling::Half, 64, 48), (Sampling::Half, 37, 21), (Sampling::Grey, 50, 33)]
        {
            let bytes = picture(width, height, sampling, SimdLevel::Auto).unwrap();
            let decoded = image::load_from_memory(&bytes).unwrap();
            assert_eq!((decoded.width() as usize, decoded.height() as usize), (width, height));
            let luma = decoded.to_luma8();
            let grey = sampling == Sampling::Grey;
            let mut error = 0.0;
            for (x, y, pixel) in luma.enumerate_pixels() {
                let difference = f64::from(pixel[0]) - f64::from(value(x as usize, y as usize));
                error += difference * difference;
                // Luma of the RGB detour clips and rounds; grey comes back directly.
                assert!(difference.abs() <= if grey { 8.0 } else { 40.0 }, "{x},{y}: {difference}");
            }
            assert!((error / (width * height) as f64).sqrt() < 6.0);
        }
    }

    #[test]
    fn every_level_writes_the_same_bytes() {
        let best = picture(80, 40, Sampling::Half, SimdLevel::Auto).unwrap();
        for wanted in SimdLevel::ALL {
            if let Some(bytes) = picture(80, 40, Sampling::Half, wanted) {
                assert!(bytes == best, "{}", wanted.level_name());
            }
        }
    }

    #[test]
    fn bits_arrive_in_order_and_ff_is_followed_by_zero() {
        let (mut bits, mut out) = (BitWriter::default(), Vec::new());
        let pieces: Vec<(u32, u32)> = (0..200u32)
            .map(|i| (i % 32 + 1, i))
            .map(|(l, i)| (if i % 3 == 0 { u32::MAX >> (32 - l) } else { i & (u32::MAX >> (32 - l)) }, l))
            .collect();
        let mut expected = Vec::new();
        for &(value, length) in &pieces {
            bits.put(value, length, &mut out);
            expected.extend((0..length).rev().map(|b| (value >> b) & 1 == 1));
        }
        bits.finish(&mut out);
        expected.resize(expected.len().next_multiple_of(8), true);
        let mut unstuffed = Vec::new();
        let mut at = out.iter();
        while let Some(&byte) = at.next() {
            unstuffed.push(byte);
            if byte == 0xFF {
                assert_eq!(at.next(), Some(&0));
            }
        }
        let found: Vec<bool> =
            unstuffed.iter().flat_map(|b| (0..8).rev().map(move |k| (b >> k) & 1 == 1)).collect();
        assert_eq!(found, expected);
    }
}
