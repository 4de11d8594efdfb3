//! Decodes baseline JPEG to planes: only the requested rows, without upsampling or colour conversion.
//!
//! ```text
//! header ─▶ entropy-coded data without stuffing (in place) ─▶ per MCU row: Huffman ─▶ IDCT ─▶ planes
//!                                                             rows above: Huffman only; rows below: not read
//! ```
//! Errors are never concealed: an invalid code, truncated data and a missing end marker are errors, where libjpeg fills
//! with grey and warns.
#![deny(clippy::unwrap_used, clippy::expect_used)]

use gausset_compute::at_level;
use gausset_compute::fearless_simd::{Level, prelude::*};

use super::dct;
use super::header::DecodeError::{self, Damaged, Truncated};
use super::header::{Component, JpegHeader};
use super::huffman::{BitReader, HuffmanTable, read_block, skip_block};
use crate::plane::Plane;

/// Decodes frames one after another, reusing its buffers.
#[derive(Debug, Default)]
pub struct Decoder {
    /// Ends of the restart intervals in the unstuffed data.
    ends: Vec<usize>,
}

/// Tables and scale of a component, prepared for decoding.
struct PreparedComponent<'a> {
    component: Component,
    dc: &'a HuffmanTable,
    ac: &'a HuffmanTable,
    scale: [f32; 64],
}

impl Decoder {
    /// Decodes the rows `rows[0]..=rows[1]` of the luma plane and the corresponding rows of the chroma planes.
    ///
    /// `data` is the whole file; its entropy-coded part is unstuffed in place. `planes` are resized to the stored rows,
    /// which are rounded outwards to whole MCUs. Padding is not filled.
    ///
    /// # Errors
    /// Damaged or truncated data, or missing tables.
    pub fn decode(
        &mut self,
        level: Level,
        header: &JpegHeader,
        data: &mut [u8],
        rows: &[[i32; 2]],
        planes: &mut Vec<Plane>,
    ) -> Result<(), DecodeError> {
        let count = header.components.len();
        let mut dc: [Option<HuffmanTable>; 4] = [const { None }; 4];
        let mut ac: [Option<HuffmanTable>; 4] = [const { None }; 4];
        for (made, raw, is_dc) in [(&mut dc, &header.dc, true), (&mut ac, &header.ac, false)] {
            for (made, raw) in made.iter_mut().zip(raw) {
                *made = raw.as_ref().map(|raw| HuffmanTable::new(raw, is_dc)).transpose()?;
            }
        }
        let find = |tables: &'_ [Option<HuffmanTable>; 4], id: u8| -> Result<usize, DecodeError> {
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
            ready.push(PreparedComponent { component, dc, ac, scale: dct::inverse_scale(&quantisation) });
        }
        let wanted = reshape_planes(header, rows, planes);
        let [mcu_width, mcu_height] = header.mcu();
        let across = header.width.div_ceil(mcu_width);
        let down = header.height.div_ceil(mcu_height);
        let scan = data.get_mut(header.scan..).ok_or(Truncated)?;
        let used = unstuff(scan, &mut self.ends)?;
        let scan = &scan[..used];
        let job = ScanDecoder {
            ready: &ready,
            across,
            down,
            wanted,
            interval: header.restart_interval,
            ends: &self.ends,
        };
        at_level!(level, simd => job.run(simd, scan, planes))
    }
}

/// Resizes the planes to the MCU rows that contain the requested rows, and returns these MCU rows.
pub(super) fn reshape_planes(
    header: &JpegHeader,
    rows: &[[i32; 2]],
    planes: &mut Vec<Plane>,
) -> std::ops::Range<usize> {
    let [_, mcu_height] = header.mcu();
    let wanted = requested_mcu_rows(header, rows, mcu_height, header.height.div_ceil(mcu_height));
    planes.resize_with(header.components.len(), Plane::default);
    for (index, plane) in planes.iter_mut().enumerate() {
        let [width, height] = header.plane_size(index);
        let unit = 8 * usize::from(header.components[index].v);
        let first = wanted.start * unit;
        let last = (wanted.end * unit).min(height);
        // Whole MCUs are written; columns beyond the image fall into the padding.
        plane.reshape(width, height, decoded_rows(first, last, height));
    }
    wanted
}

/// MCU rows that contain the requested rows.
fn requested_mcu_rows(
    header: &JpegHeader,
    rows: &[[i32; 2]],
    unit: usize,
    down: usize,
) -> std::ops::Range<usize> {
    let (mut first, mut end) = (down, 0);
    for (index, &[low, high]) in rows.iter().enumerate().take(header.components.len()) {
        let own = unit * usize::from(header.components[index].v) / usize::from(header.components[0].v);
        let low = low.max(0) as usize / own;
        let high = (high.max(0) as usize / own + 1).min(down);
        (first, end) = (first.min(low), end.max(high));
    }
    first.min(down)..end.max(first.min(down))
}

/// Stored rows of a plane: those of the MCUs, and the row beyond a pole if they reach it.
fn decoded_rows(first: usize, end: usize, height: usize) -> [i32; 2] {
    let low = if first == 0 { -1 } else { first as i32 };
    let high = if end >= height { height as i32 } else { end as i32 - 1 };
    [low, high]
}

/// Removes the zeros after FF and the restart markers, up to the next other marker, which must be the end of the image.
/// Returns the remaining length; `ends` receives the end of each restart interval.
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

struct ScanDecoder<'a> {
    ready: &'a [PreparedComponent<'a>],
    across: usize,
    down: usize,
    wanted: std::ops::Range<usize>,
    interval: usize,
    ends: &'a [usize],
}

impl ScanDecoder<'_> {
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
                    // The interval must be used up, except for its padded last byte.
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
                    let tables = [ready.dc, ready.ac];
                    for by in 0..v {
                        for bx in 0..h {
                            if !is_wanted {
                                skip_block(&mut bits, tables, &mut predicted[index])?;
                                continue;
                            }
                            let is_flat = read_block(&mut bits, tables, &mut predicted[index], &mut block)?;
                            let plane = &mut planes[index];
                            let row = (mcu_row * v + by) * 8;
                            store_block(simd, ready, &mut block, is_flat, plane, (mcu * h + bx) * 8, row);
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

/// Transforms a block, stores the part within the plane, and clears the block.
#[inline(always)]
fn store_block<S: Simd>(
    simd: S,
    ready: &PreparedComponent<'_>,
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

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::encode::{Band, Encoder, Sampling};
    use gausset_compute::{SimdLevel, dispatch_level};

    fn level_of(wanted: SimdLevel) -> Level {
        dispatch_level(wanted).unwrap()
    }

    /// A 4:2:0 image with detail.
    fn encoded(width: usize, height: usize) -> Vec<u8> {
        let level = level_of(SimdLevel::Auto);
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
        let header = JpegHeader::parse(bytes)?;
        let mut data = bytes.to_vec();
        let mut planes = Vec::new();
        Decoder::default().decode(level_of(SimdLevel::Auto), &header, &mut data, rows, &mut planes)?;
        Ok(planes)
    }

    const ALL: [[i32; 2]; 3] = [[-1, 1 << 20]; 3];

    #[test]
    fn a_picture_whose_components_are_named_rgb_is_left_to_the_general_decoder() {
        let mut file = encoded(16, 16);
        let at = |file: &[u8], marker: u8| file.windows(2).position(|pair| pair == [0xFF, marker]).unwrap();
        let (frame, scan) = (at(&file, 0xC0), at(&file, 0xDA));
        for (k, id) in b"RGB".iter().enumerate() {
            file[frame + 10 + 3 * k] = *id;
            file[scan + 5 + 2 * k] = *id;
        }
        assert_eq!(JpegHeader::parse(&file).unwrap_err(), DecodeError::Unsupported("RGB JPEG"));
    }

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
        // The other decoder returns grey files as luma without conversion.
        let level = level_of(SimdLevel::Auto);
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
        assert_eq!(part[0].image_rows(), 48..96);
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
        let scan = JpegHeader::parse(&bytes).unwrap().scan;
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
        // A flipped value bit changes only that value; a flipped code bit shifts everything after it.
        assert!(noticed * 4 > tried, "{noticed} of {tried}");
    }
}
