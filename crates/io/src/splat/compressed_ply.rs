//! Compressed PLY (PlayCanvas): 16 bytes per splat, quantised within chunks of 256 splats, and a byte per SH
//! coefficient.
//!
//! ```text
//! element chunk ⌈N/256⌉   18 f32: min_x min_y min_z max_x max_y max_z min_scale_x … max_scale_z [min_r … max_b]
//! element vertex N        4 u32: packed_position packed_rotation packed_scale packed_color
//! element sh N            9, 24 or 45 u8 f_rest_i, channel-major; absent at degree 0
//! ```
//! Positions and log scales have 11, 10 and 11 bits from the highest, `min + (max - min) u / (2^bits - 1)`. Rotations
//! have the index of the largest component of `wxyz` in the two highest bits, then the other three, `(u / 1023 - 1/2)
//! √2`. Colours (the base colour `1/2 + C0 dc`) and opacities have 8 bits each.
//!
//! SH has a step of 1/32, which causes most of the loss of the format: it is rounded so that errors of neighbouring
//! splats cancel ([`super::rounding`]).
#![deny(clippy::indexing_slicing, reason = "what comes from outside is never an index")]

use std::f64::consts::SQRT_2;
use std::fmt::Write as _;
use std::io::{self, Write};

use gausset_core::{Splats, sh};

use super::format::FileStart;
use super::order;
use super::ply::{Element, Encoding, PlyHeader, PlyReader, Scalar, Shape, comments, skip_element};
use super::rounding::{ErrorDiffusion, Footprint};
use super::source::SourceFile;
use super::usable::{SplatCollector, row_values};
use super::values::{self, ClampCounts, EXTREME_LOGIT};
use super::{Format, Initial, PositionSteps, SaveOptions, SaveReport, SplatError, SplatFile};

/// Splats per chunk.
const CHUNK: usize = 256;
/// Bytes of rows per read.
const BLOCK_BYTES: u64 = 1 << 19;
/// Log scales are clamped to ± this value.
const LARGEST_LOG_SCALE: f32 = 20.0;
/// Largest SH coefficient.
const LARGEST_SH: f64 = 4.0;
/// Quantisation step of SH.
const SH_STEP: f32 = (2.0 * LARGEST_SH / 256.0) as f32;
/// Bits for x, y and z.
const BITS: [u32; 3] = [11, 10, 11];

/// Properties of a chunk; files from before 2024 have no colours.
const CHUNK_NAMES: [&str; 18] = [
    "min_x",
    "min_y",
    "min_z",
    "max_x",
    "max_y",
    "max_z",
    "min_scale_x",
    "min_scale_y",
    "min_scale_z",
    "max_scale_x",
    "max_scale_y",
    "max_scale_z",
    "min_r",
    "min_g",
    "min_b",
    "max_r",
    "max_g",
    "max_b",
];
/// Properties of a splat.
const PACKED_NAMES: [&str; 4] = ["packed_position", "packed_rotation", "packed_scale", "packed_color"];

/// Value ranges of a chunk: minimum and maximum.
#[derive(Clone, Copy, Debug)]
struct ChunkRanges {
    mean: [[f32; 3]; 2],
    log_scale: [[f32; 3]; 2],
    colour: [[f32; 3]; 2],
}

/// Whether the file is a PLY whose header has packed positions.
pub(super) fn sniff(start: &FileStart) -> bool {
    let header = start.bytes.split(|byte| *byte == b'\n');
    let mut lines = header.take_while(|line| !line.starts_with(b"end_header"));
    start.is_ply() && lines.any(|line| line.trim_ascii_end().ends_with(b" packed_position"))
}

/// Reads a file.
pub(super) fn read(source: &mut SourceFile<'_>) -> Result<Initial, SplatError> {
    let (path, memory) = (source.path, source.memory);
    let mut input = PlyReader::new(source.stream, source.bytes, path);
    let header = PlyHeader::read(&mut input)?;
    let damaged = |place: &str, what, expected: &str, found: String| SplatError::Damaged {
        path: path.to_owned(),
        place: place.to_owned(),
        what,
        expected: expected.to_owned(),
        found,
    };
    if header.encoding != Encoding::LittleEndian {
        let found = "another".to_owned();
        return Err(damaged("header", "a compressed PLY of another encoding", "binary_little_endian", found));
    }
    let element = |name: &str| header.elements.iter().find(|element| element.name == name);
    let (Some(chunk), Some(vertex)) = (element("chunk"), element("vertex")) else {
        let found = "one of them".to_owned();
        return Err(damaged("header", "an element is missing", "the elements chunk and vertex", found));
    };
    let (count, rest) = (vertex.count, element("sh"));
    let chunks = count.div_ceil(CHUNK as u64);
    if chunk.count != chunks {
        let found = chunk.count.to_string();
        return Err(damaged("element chunk", "not a chunk for 256 splats each", &chunks.to_string(), found));
    }
    let values = rest.map_or(0, |sh| sh.properties.len());
    let Some(stored_degree) = (0..=4u8).find(|&d| 3 * (sh::coefficients(d) - 1) == values) else {
        let expected = "0, 9, 24, 45 or 72 properties";
        return Err(damaged("element sh", "not the coefficients of a degree", expected, values.to_string()));
    };
    if let Some(rest) = rest.filter(|rest| rest.count != count) {
        let found = rest.count.to_string();
        return Err(damaged("element sh", "not a row for each splat", &count.to_string(), found));
    }
    // Check that the elements fit into the file before allocating memory for them.
    let mut bytes = header.elements.iter().map(|e| e.count.checked_mul(e.min_row_bytes()));
    let promised = bytes.try_fold(0u64, |sum, bytes| sum.checked_add(bytes?));
    if promised.is_none_or(|bytes| bytes > input.remaining) {
        let expected = promised.map_or("more than there can be".to_owned(), |bytes| format!("{bytes} bytes"));
        return Err(input.cut_off("elements".to_owned(), expected, format!("{} bytes", input.remaining)));
    }
    let degree = stored_degree.min(sh::MAX_DEGREE);
    let mut splats = SplatCollector::new(degree, count, memory)?;
    let mut ranges: Vec<ChunkRanges> = memory.vec_with_capacity(chunks)?;
    let mut packed: Vec<[u32; 4]> = memory.vec_with_capacity(count)?;
    let mut decoder = Some(Decoder::new(degree));
    for element in &header.elements {
        match element.name.as_str() {
            "chunk" => {
                let offsets = offsets(element, &CHUNK_NAMES, 12, Scalar::F32, &damaged)?;
                rows(&mut input, element, |row| ranges.push(ChunkRanges::parse(row, &offsets)))?;
            }
            "vertex" => {
                let offsets = offsets(element, &PACKED_NAMES, 4, Scalar::U32, &damaged)?;
                let word = |row: &[u8], k: usize| {
                    let bytes = offsets.get(k).and_then(|&at| row.get(at..)?.first_chunk());
                    bytes.map_or(0, |bytes| u32::from_le_bytes(*bytes))
                };
                rows(&mut input, element, |row| packed.push([0, 1, 2, 3].map(|k| word(row, k))))?;
            }
            "sh" => {
                if packed.len() as u64 != count || ranges.len() as u64 != chunks {
                    let found = "sh before them".to_owned();
                    return Err(damaged("header", "elements in another order", "chunk, vertex, sh", found));
                }
                let names: Vec<String> = (0..values).map(|i| format!("f_rest_{i}")).collect();
                let names: Vec<&str> = names.iter().map(String::as_str).collect();
                let offsets = offsets(element, &names, values, Scalar::U8, &damaged)?;
                let Some(mut decoder) = decoder.take() else { continue };
                let offsets = decoder.row_order(&offsets);
                let mut i = 0;
                rows(&mut input, element, |row| {
                    decoder.sh(row, &offsets);
                    decoder.splat(i, &ranges, &packed, &mut splats);
                    i += 1;
                })?;
            }
            _ => skip_element(&mut input, element, header.encoding)?,
        }
    }
    if let Some(mut decoder) = decoder {
        (0..packed.len()).for_each(|i| decoder.splat(i, &ranges, &packed, &mut splats));
    }
    let mut document = splats.into_document(Format::CompressedPly);
    document.set_stored_degree(stored_degree);
    // Dropped splats may have belonged to the sky, so its count is invalid then.
    let is_whole = document.report.dropped_total() == 0;
    let sky = if is_whole { header.comments.sky_of(document.splats.len() as u64) as usize } else { 0 };
    Ok(Initial::Splats(SplatFile {
        sky,
        antialiased: header.comments.antialiased,
        flat: header.comments.flat,
        vertical_axis: header.comments.vertical_axis,
        saved_from_dataset: header.comments.saved_from_dataset,
        georeference: header.comments.georeference,
        offset: header.comments.offset,
        near_plane: header.comments.near_plane,
        ..document
    }))
}

/// Byte offsets of properties in a row; the first `needed` names are required.
fn offsets(
    element: &Element,
    names: &[&str],
    needed: usize,
    scalar: Scalar,
    damaged: &dyn Fn(&str, &'static str, &str, String) -> SplatError,
) -> Result<Vec<usize>, SplatError> {
    let mut found = Vec::with_capacity(names.len());
    for (k, name) in names.iter().enumerate() {
        let (mut offset, mut place) = (0, None);
        for property in &element.properties {
            let Shape::One(kind) = property.shape else {
                let (place, what) = (format!("element {}", element.name), "a list in a packed row");
                return Err(damaged(&place, what, "single values", property.name.clone()));
            };
            if property.name == *name && kind == scalar {
                place = Some(offset);
            }
            offset += kind.bytes();
        }
        match place {
            Some(place) => found.push(place),
            None if k >= needed => break,
            None => {
                let place = format!("element {}", element.name);
                let expected = format!("{} {name}", scalar.name());
                return Err(damaged(&place, "a property is missing", &expected, "none".to_owned()));
            }
        }
    }
    Ok(found)
}

/// Calls `visit` with every row of an element, reading in blocks.
fn rows(
    input: &mut PlyReader<'_>,
    element: &Element,
    mut visit: impl FnMut(&[u8]),
) -> Result<(), SplatError> {
    let row_bytes = element.min_row_bytes() as usize;
    let (mut left, mut block) = (element.count, Vec::new());
    while left > 0 && row_bytes > 0 {
        let rows = left.min((BLOCK_BYTES / row_bytes as u64).max(1));
        block.resize(rows as usize * row_bytes, 0);
        input.read_exact(&mut block)?;
        block.chunks_exact(row_bytes).for_each(&mut visit);
        left -= rows;
    }
    Ok(())
}

impl ChunkRanges {
    fn parse(row: &[u8], offsets: &[usize]) -> Self {
        let value = |k: usize| {
            let bytes = offsets.get(k).and_then(|&at| row.get(at..)?.first_chunk());
            bytes.map_or(f32::NAN, |bytes| f32::from_le_bytes(*bytes))
        };
        let range = |from: usize| [from, from + 3].map(|from| [0, 1, 2].map(|k| value(from + k)));
        let colour = if offsets.len() == CHUNK_NAMES.len() { range(12) } else { [[0.0; 3], [1.0; 3]] };
        Self { mean: range(0), log_scale: range(6), colour }
    }
}

/// Decodes packed splats.
struct Decoder {
    logits: [f32; 256],
    /// SH coefficients by byte.
    coefficients: [f32; 256],
    /// Rotation components by 10-bit code.
    components: Vec<f64>,
    row: Vec<f32>,
}

impl Decoder {
    fn new(sh_degree: u8) -> Self {
        Self {
            logits: values::byte_logits(EXTREME_LOGIT),
            coefficients: std::array::from_fn(coefficient),
            components: (0..1024).map(|code| (f64::from(code) / 1023.0 - 0.5) * SQRT_2).collect(),
            row: vec![0.0; row_values(sh_degree)],
        }
    }

    /// Converts the offsets of SH from the channel-major order of the file to the coefficient-major order of a row.
    fn row_order(&self, offsets: &[usize]) -> Vec<usize> {
        let per_channel = offsets.len() / 3;
        let kept = self.row.len() - row_values(0);
        (0..kept).filter_map(|i| offsets.get((i % 3) * per_channel + i / 3).copied()).collect()
    }

    /// Decodes the SH of a row of bytes at offsets from [`Self::row_order`].
    fn sh(&mut self, bytes: &[u8], offsets: &[usize]) {
        let rest = self.row.get_mut(row_values(0)..).unwrap_or_default();
        for (out, &at) in rest.iter_mut().zip(offsets) {
            let byte = bytes.get(at).copied().unwrap_or_default();
            *out = self.coefficients.get(usize::from(byte)).copied().unwrap_or_default();
        }
    }

    /// Decodes a splat whose SH is already in the row.
    fn splat(&mut self, i: usize, ranges: &[ChunkRanges], packed: &[[u32; 4]], splats: &mut SplatCollector) {
        let (Some(ranges), Some(&[position, rotation, scale, colour])) =
            (ranges.get(i / CHUNK), packed.get(i))
        else {
            return;
        };
        let [x, y, z] = unpack(position, BITS, &ranges.mean);
        let [sx, sy, sz] = unpack(scale, BITS, &ranges.log_scale);
        let part = |shift: u32| {
            self.components.get((rotation >> shift & 1023) as usize).copied().unwrap_or_default()
        };
        let [qw, qx, qy, qz] = values::from_smallest_three((rotation >> 30) as usize, [20, 10, 0].map(part));
        let logit = self.logits.get((colour & 255) as usize).copied().unwrap_or_default();
        let [r, g, b] = unpack(colour >> 8, [8; 3], &ranges.colour).map(sh::dc_from_colour);
        if let Some(out) = self.row.first_chunk_mut() {
            *out = [x, y, z, sx, sy, sz, qw, qx, qy, qz, logit, r, g, b];
        }
        splats.push(&mut self.row);
    }
}

/// SH coefficient of a byte: the middle of its step; 0 and 255 are the limits themselves.
fn coefficient(byte: usize) -> f32 {
    match byte {
        0 => -LARGEST_SH as f32,
        255 => LARGEST_SH as f32,
        _ => (((byte as f32 + 0.5) / 256.0) - 0.5) * 8.0,
    }
}

/// Unpacks three values with these numbers of bits, the last one in the lowest bits, scaled to their ranges.
fn unpack(word: u32, [bx, by, bz]: [u32; 3], [low, high]: &[[f32; 3]; 2]) -> [f32; 3] {
    let part =
        |shift: u32, bits: u32| f64::from(word >> shift & ((1 << bits) - 1)) / f64::from((1u32 << bits) - 1);
    let ([x0, y0, z0], [x1, y1, z1]) = (*low, *high);
    // Weighting both ends makes the limits exact and avoids overflow.
    let mix = |t: f64, low: f32, high: f32| (f64::from(low) * (1.0 - t) + f64::from(high) * t) as f32;
    [mix(part(by + bz, bx), x0, x1), mix(part(bz, by), y0, y1), mix(part(0, bz), z0, z1)]
}

/// Inverse of [`unpack`].
fn pack(values: [f32; 3], bits: [u32; 3], [low, high]: &[[f32; 3]; 2]) -> u32 {
    values.iter().zip(bits).zip(low.iter().zip(high)).fold(0, |word, ((&value, bits), (&low, &high))| {
        let range = f64::from(high) - f64::from(low);
        let t = if range > 0.0 { (f64::from(value) - f64::from(low)) / range } else { 0.0 };
        word << bits | values::quantise(t, (1 << bits) - 1)
    })
}

/// Writes a document.
pub(super) fn write(writer: &mut dyn Write, document: &SplatFile, _: &SaveOptions) -> io::Result<SaveReport> {
    let splats = &document.splats;
    // The sky stays behind the scene, which keeps the order that tells them apart and one chunk at most with both.
    let scene = document.scene_len();
    let (scene_means, sky_means) = splats.means.split_at(scene);
    let mut order = order::order_in_groups(scene_means, CHUNK);
    order.extend(order::order_in_groups(sky_means, CHUNK).into_iter().map(|i| i + scene as u32));
    let in_chunk = |chunk: &mut [u32]| {
        let ranges = ranges_of(splats, chunk);
        let first_sky = chunk.iter().position(|i| *i as usize >= scene).unwrap_or(chunk.len());
        let (of_scene, of_sky) = chunk.split_at_mut(first_sky);
        sort_by_morton(splats, &ranges, of_scene);
        sort_by_morton(splats, &ranges, of_sky);
        ranges
    };
    let chunks: Vec<ChunkRanges> = order.chunks_mut(CHUNK).map(in_chunk).collect();
    let rest = splats.sh_stride() - 3;

    let mut header = "ply\nformat binary_little_endian 1.0\n".to_owned();
    header.push_str(&comments(document, document.splats.len() as u64));
    // Writing to a string cannot fail.
    let _ = writeln!(header, "element chunk {}", chunks.len());
    CHUNK_NAMES.iter().for_each(|name| header.extend(["property float ", name, "\n"]));
    let _ = writeln!(header, "element vertex {}", splats.len());
    PACKED_NAMES.iter().for_each(|name| header.extend(["property uint ", name, "\n"]));
    if rest > 0 {
        let _ = writeln!(header, "element sh {}", splats.len());
        (0..rest).for_each(|i| {
            let _ = writeln!(header, "property uchar f_rest_{i}");
        });
    }
    header.push_str("end_header\n");
    writer.write_all(header.as_bytes())?;

    let mut bytes = Vec::new();
    for ChunkRanges { mean, log_scale, colour } in &chunks {
        bytes.extend([mean, log_scale, colour].into_iter().flatten().flatten().flat_map(|v| v.to_le_bytes()));
    }
    writer.write_all(&bytes)?;

    let mut clips = ClampCounts::default();
    for (chunk, ranges) in order.chunks(CHUNK).zip(&chunks) {
        bytes.clear();
        for &i in chunk {
            bytes.extend(packed(splats, i as usize, ranges, &mut clips).iter().flat_map(|v| v.to_le_bytes()));
        }
        writer.write_all(&bytes)?;
    }
    let mut rounding = ErrorDiffusion::new(rest, SH_STEP);
    let (mut codes, decoded): (_, [f32; 256]) = (vec![0; rest], std::array::from_fn(coefficient));
    for chunk in order.chunks(CHUNK).filter(|_| rest > 0) {
        bytes.clear();
        rounding.start_group();
        for i in chunk.iter().map(|&i| i as usize) {
            let (_, coefficients) = splats.sh_coefficients(i).split_at(3);
            let is_clipped = coefficients.iter().fold(false, |any, v| any | (v.abs() > LARGEST_SH as f32));
            clips.count("SH coefficient beyond 4", is_clipped);
            let round = |v: f32| ((v / SH_STEP + 128.0).clamp(0.0, 255.0)) as u8;
            let decode = |code: u8| decoded.get(usize::from(code)).copied().unwrap_or_default();
            let mean = splats.means.get(i).copied().unwrap_or_default();
            let place = Footprint::new(mean, log_scale(splats, i), opacity(splats, i));
            rounding.round_row(place, coefficients, round, decode, &mut codes);
            (0..3).for_each(|channel| bytes.extend(codes.iter().skip(channel).step_by(3)));
        }
        writer.write_all(&bytes)?;
    }
    let body = chunks.len() * 4 * CHUNK_NAMES.len() + splats.len() * (16 + rest);
    let mut saved = SaveReport::new(Format::CompressedPly, splats.len(), (header.len() + body) as u64);
    saved.clipped = clips.into_counts();
    let mut steps = vec![0.0; splats.len()];
    for (chunk, ranges) in order.chunks(CHUNK).zip(&chunks) {
        let step = widest_step(&ranges.mean);
        chunk.iter().for_each(|&i| steps.iter_mut().skip(i as usize).take(1).for_each(|v| *v = step));
    }
    saved.positions = PositionSteps::of(document, |i| steps.get(i).copied().unwrap_or_default());
    Ok(saved)
}

/// Base colour of a splat.
fn colour(splats: &Splats, i: usize) -> [f32; 3] {
    let mut dc = splats.sh_coefficients(i).iter();
    std::array::from_fn(|_| dc.next().map_or(0.5, |&dc| sh::colour_from_dc(dc)))
}

fn opacity(splats: &Splats, i: usize) -> f64 {
    splats.opacity_logits.get(i).map_or(0.0, |&logit| values::opacity(logit))
}

fn log_scale(splats: &Splats, i: usize) -> [f32; 3] {
    splats.log_scales.get(i).map_or([0.0; 3], |s| s.map(|v| v.clamp(-LARGEST_LOG_SCALE, LARGEST_LOG_SCALE)))
}

fn ranges_of(splats: &Splats, chunk: &[u32]) -> ChunkRanges {
    let range = |value: &dyn Fn(usize) -> [f32; 3]| {
        let mut range = [[f32::INFINITY; 3], [f32::NEG_INFINITY; 3]];
        for &i in chunk {
            let [low, high] = &mut range;
            let values = value(i as usize);
            low.iter_mut().zip(values).for_each(|(low, v)| *low = low.min(v));
            high.iter_mut().zip(values).for_each(|(high, v)| *high = high.max(v));
        }
        range
    };
    ChunkRanges {
        mean: range(&|i| splats.means.get(i).copied().unwrap_or_default()),
        log_scale: range(&|i| log_scale(splats, i)),
        colour: range(&|i| colour(splats, i)),
    }
}

/// Sorts the splats of a chunk along a Morton curve through its bounding box, so that neighbours in the file are close
/// in space.
fn sort_by_morton(splats: &Splats, ranges: &ChunkRanges, chunk: &mut [u32]) {
    let place = |i: u32| {
        let word = pack(splats.means.get(i as usize).copied().unwrap_or_default(), [8; 3], &ranges.mean);
        order::morton([16, 8, 0].map(|shift| (word >> shift & 255) as u16))
    };
    let mut keys: Vec<(u64, u32)> = chunk.iter().map(|&i| (place(i), i)).collect();
    keys.sort_unstable();
    chunk.iter_mut().zip(keys).for_each(|(item, (_, i))| *item = i);
}

fn packed(splats: &Splats, i: usize, ranges: &ChunkRanges, clips: &mut ClampCounts) -> [u32; 4] {
    let mean = splats.means.get(i).copied().unwrap_or_default();
    let scale = log_scale(splats, i);
    clips.count("log scale beyond 20", splats.log_scales.get(i).is_some_and(|s| *s != scale));
    let (largest, rest) =
        values::smallest_three(values::unit_quaternion(splats.quats.get(i).copied().unwrap_or_default()));
    let rotation =
        rest.iter().fold(largest as u32, |word, v| word << 10 | values::quantise(v / SQRT_2 + 0.5, 1023));
    let colour = pack(colour(splats, i), [8; 3], &ranges.colour);
    let colour = colour << 8 | values::quantise(opacity(splats, i), 255);
    [pack(mean, BITS, &ranges.mean), rotation, pack(scale, BITS, &ranges.log_scale), colour]
}

/// Largest quantisation step of a range.
fn widest_step([low, high]: &[[f32; 3]; 2]) -> f64 {
    let steps = low.iter().zip(high).zip(BITS);
    steps
        .map(|((low, high), bits)| (f64::from(*high) - f64::from(*low)) / f64::from((1u32 << bits) - 1))
        .fold(0.0, f64::max)
}
