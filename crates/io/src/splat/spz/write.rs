//! Writes SPZ files of version 3 and 4.

use std::f64::consts::FRAC_1_SQRT_2;
use std::io::{self, Write};
use std::ops::Range;

use flate2::Compression;
use flate2::write::GzEncoder;
use gausset_core::Splats;
use zstd::stream::raw::CParameter;
use zstd::zstd_safe::Strategy;

use super::{
    ANTIALIASED, AXES_EXTENSION, COLOUR_SCALE, EXTENSIONS, HEADER_BYTES_4, LEAST_LOG_SCALE, MAGIC,
    METADATA_EXTENSION, RDF, RUB, SCALE_STEPS, SpzAxes, SpzOptions, block_bytes,
};
use crate::splat::axes::Axes;
use crate::splat::metadata;
use crate::splat::values::{self, ClampCounts};
use crate::splat::{Format, PositionSteps, SaveOptions, SaveReport, SplatFile};

/// Default number of fractional bits of positions: a quarter of a millimetre if the unit is a metre.
const DEFAULT_FRACTIONAL_BITS: u8 = 12;
/// Largest position code.
const LARGEST_CODE: f64 = ((1 << 23) - 1) as f64;
/// zstd level of the reference implementation; most of its parameters are overridden below.
const ZSTD_LEVEL: i32 = 12;
/// Logarithms of zstd's window, its tables and its search depth, and the shortest match. Columns of bytes repeat nearby
/// or not at all: these values give smaller files than level 12 with its window of 4 MiB and tables of 48, in a fifth
/// of the time and in 1 MiB (300,000 splats of the workload: 10.42 MB for 10.59; 64,000 of a demo: 1.554 for 1.553).
const ZSTD_WINDOW_LOG: u32 = 16;
const ZSTD_TABLE_LOG: u32 = 16;
const ZSTD_SEARCH_LOG: u32 = 6;
const ZSTD_MIN_MATCH: u32 = 6;
/// Splats encoded at once.
const CHUNK_SPLATS: usize = 1 << 12;

/// Writes a document.
pub(in crate::splat) fn write(
    writer: &mut dyn Write,
    document: &SplatFile,
    options: &SaveOptions,
) -> io::Result<SaveReport> {
    let SpzOptions { version, sh_bits, frame } = options.spz;
    let invalid = |reason: &str| io::Error::new(io::ErrorKind::InvalidInput, reason);
    let Ok(count) = u32::try_from(document.splats.len()) else {
        return Err(invalid("too many splats for SPZ (expected at most 4,294,967,295)"));
    };
    if !(3..=4).contains(&version) || sh_bits.iter().any(|bits| !(1..=8).contains(bits)) {
        return Err(invalid("no such SPZ (expected version 3 or 4 and 1 to 8 bits for SH)"));
    }
    let splats = &document.splats;
    let bits = fractional_bits(splats);
    let named = version == 4;
    let mut header = MAGIC.to_vec();
    header.extend(u32::from(version).to_le_bytes());
    header.extend(count.to_le_bytes());
    let flags = if document.antialiased { ANTIALIASED } else { 0 } | if named { EXTENSIONS } else { 0 };
    let streams = if splats.sh_degree == 0 { 5 } else { 6 };
    header.extend([splats.sh_degree, bits, flags, if version == 4 { streams } else { 0 }]);
    let block_bytes = block_bytes(version.into(), splats.sh_degree);
    let blocks = block_bytes.iter().take(streams.into()).enumerate();
    let mut encoder = Encoder { splats, frame, bits, sh_bits, clips: ClampCounts::default() };
    let bytes = if version == 3 {
        let mut counted = CountingWriter { writer, bytes: 0 };
        let mut gzip = GzEncoder::new(&mut counted, Compression::best());
        gzip.write_all(&header)?;
        for (block, _) in blocks {
            encoder.block(block, &mut gzip)?;
        }
        gzip.finish()?;
        counted.bytes
    } else {
        let mut frames = Vec::new();
        for (block, splat_bytes) in blocks {
            let plain = splat_bytes * u64::from(count);
            let mut zstd = zstd_encoder(plain)?;
            encoder.block(block, &mut zstd)?;
            frames.push((plain, zstd.finish()?));
        }
        write_frames(writer, header, &frames, frame, &metadata::metadata_lines(document).join("\n"))?
    };

    let mut saved = SaveReport::new(Format::Spz, splats.len(), bytes);
    saved.version = Some(if version == 3 { "3" } else { "4" });
    saved.frame = Some(if frame == SpzAxes::Rub { "RUB" } else { "RDF" });
    saved.clipped = encoder.clips.into_counts();
    let step = libm::ldexp(1.0, -i32::from(bits));
    saved.positions = PositionSteps::of(document, |_| step);
    if version == 3 {
        saved.report_loss_of_scene_metadata(document);
    }
    Ok(saved)
}

/// Creates an encoder for a frame of `bytes` bytes.
fn zstd_encoder(bytes: u64) -> io::Result<zstd::Encoder<'static, Vec<u8>>> {
    let mut encoder = zstd::Encoder::new(Vec::new(), ZSTD_LEVEL)?;
    for parameter in [
        CParameter::WindowLog(ZSTD_WINDOW_LOG),
        CParameter::ChainLog(ZSTD_TABLE_LOG),
        CParameter::HashLog(ZSTD_TABLE_LOG),
        CParameter::SearchLog(ZSTD_SEARCH_LOG),
        CParameter::MinMatch(ZSTD_MIN_MATCH),
        CParameter::Strategy(Strategy::ZSTD_lazy2),
    ] {
        encoder.set_parameter(parameter)?;
    }
    encoder.set_pledged_src_size(Some(bytes))?;
    Ok(encoder)
}

/// Writes the rest of a file of version 4: extensions, table, frames, each with its uncompressed length. Returns the
/// length of the file.
fn write_frames(
    writer: &mut dyn Write,
    mut header: Vec<u8>,
    frames: &[(u64, Vec<u8>)],
    frame: SpzAxes,
    facts: &str,
) -> io::Result<u64> {
    let axes = match frame {
        SpzAxes::AsIs => RDF,
        SpzAxes::Rub => RUB,
    };
    let mut extensions = [AXES_EXTENSION, 4, axes].map(u32::to_le_bytes).concat();
    if !facts.is_empty() {
        extensions.extend([METADATA_EXTENSION, facts.len() as u32].map(u32::to_le_bytes).concat());
        extensions.extend(facts.as_bytes());
    }
    header.extend(((HEADER_BYTES_4 + extensions.len()) as u32).to_le_bytes());
    header.extend([0; 12]);
    header.extend(extensions);
    for (plain, frame) in frames {
        header.extend((frame.len() as u64).to_le_bytes());
        header.extend(plain.to_le_bytes());
    }
    writer.write_all(&header)?;
    for (_, frame) in frames {
        writer.write_all(frame)?;
    }
    Ok((header.len() + frames.iter().map(|(_, frame)| frame.len()).sum::<usize>()) as u64)
}

/// Largest number of fractional bits that allows for the farthest splat, at most the default.
fn fractional_bits(splats: &Splats) -> u8 {
    let farthest = splats.means.iter().flatten().fold(0.0f32, |most, v| most.max(v.abs()));
    let fits = |bits: &u8| libm::ldexp(f64::from(farthest), i32::from(*bits)) <= LARGEST_CODE;
    (0..=DEFAULT_FRACTIONAL_BITS).rev().find(fits).unwrap_or(0)
}

/// Encodes blocks.
struct Encoder<'a> {
    splats: &'a Splats,
    frame: SpzAxes,
    bits: u8,
    sh_bits: [u8; 2],
    clips: ClampCounts,
}

impl Encoder<'_> {
    /// Writes a block in chunks of splats.
    fn block(&mut self, block: usize, writer: &mut dyn Write) -> io::Result<()> {
        let count = self.splats.len();
        let mut bytes = Vec::new();
        for begin in (0..count).step_by(CHUNK_SPLATS) {
            let part = begin..count.min(begin + CHUNK_SPLATS);
            bytes.clear();
            match self.frame {
                SpzAxes::AsIs => self.part(block, self.splats, part, &mut bytes),
                SpzAxes::Rub => {
                    let mut turned = self.splats.select(&part.collect::<Vec<_>>());
                    Axes::RUB.apply(&mut turned);
                    self.part(block, &turned, 0..turned.len(), &mut bytes);
                }
            }
            writer.write_all(&bytes)?;
        }
        Ok(())
    }

    /// Encodes a range of splats for a block.
    fn part(&mut self, block: usize, splats: &Splats, part: Range<usize>, bytes: &mut Vec<u8>) {
        let clips = &mut self.clips;
        match block {
            0 => positions(&splats.means[part], self.bits, clips, bytes),
            1 => {
                let opacities = splats.opacity_logits[part].iter().map(|&logit| values::opacity(logit));
                bytes.extend(opacities.map(|opacity| values::quantise(opacity, 255) as u8));
            }
            2 => part.for_each(|i| bytes.extend(colour(&splats.sh_coefficients(i)[..3], clips))),
            3 => splats.log_scales[part].iter().for_each(|log_scale| bytes.extend(scale(log_scale, clips))),
            4 => bytes.extend(splats.quats[part].iter().flat_map(|&quat| rotation(quat).to_le_bytes())),
            _ => part.for_each(|i| coefficients(&splats.sh_coefficients(i)[3..], self.sh_bits, clips, bytes)),
        }
    }
}

fn positions(means: &[[f32; 3]], bits: u8, clips: &mut ClampCounts, bytes: &mut Vec<u8>) {
    let scale = f64::from(1u32 << bits);
    for mean in means {
        let codes = mean.map(|v| libm::round(f64::from(v) * scale));
        clips.count("position beyond 8,388,607", codes.iter().any(|code| code.abs() > LARGEST_CODE));
        for code in codes {
            let code = code.clamp(-LARGEST_CODE, LARGEST_CODE) as i32;
            bytes.extend_from_slice(&code.to_le_bytes()[..3]);
        }
    }
}

fn colour(dc: &[f32], clips: &mut ClampCounts) -> [u8; 3] {
    let codes = [0, 1, 2].map(|k| values::to_byte(f64::from(dc[k]) * COLOUR_SCALE * 255.0 + 127.5));
    clips.count("colour coefficient beyond 3.33", codes.iter().any(|(_, is_clipped)| *is_clipped));
    codes.map(|(byte, _)| byte)
}

fn scale(log_scale: &[f32; 3], clips: &mut ClampCounts) -> [u8; 3] {
    let codes = log_scale.map(|v| (f64::from(v) - LEAST_LOG_SCALE) * SCALE_STEPS);
    clips.count("log scale below -10", codes.iter().any(|code| *code < -0.5));
    clips.count("log scale above 5.9", codes.iter().any(|code| *code > 255.5));
    codes.map(|code| values::to_byte(code).0)
}

/// Encodes the smallest three components of `xyzw`, each with a sign and 9 bits.
fn rotation(quat: [f32; 4]) -> u32 {
    let [w, x, y, z] = values::unit_quaternion(quat);
    let (largest, rest) = values::smallest_three([x, y, z, w]);
    rest.iter().fold(largest as u32, |word, v| {
        word << 10 | u32::from(*v < 0.0) << 9 | values::quantise(v.abs() / FRAC_1_SQRT_2, 511)
    })
}

fn coefficients(rest: &[f32], sh_bits: [u8; 2], clips: &mut ClampCounts, bytes: &mut Vec<u8>) {
    clips.count("SH coefficient beyond 1", rest.iter().fold(false, |any, v| any | (v.abs() > 1.0)));
    // Degree 1 has three coefficients of three channels.
    let (first, others) = rest.split_at(rest.len().min(9));
    for (coefficients, bits) in [first, others].into_iter().zip(sh_bits) {
        let bucket = 1i32 << (8 - bits);
        bytes.extend(coefficients.iter().map(|v| {
            // Rounded to the nearest integer, then to the nearest multiple of the bucket.
            let scaled = 128.0 * f64::from(v.clamp(-2.0, 2.0));
            let code = (scaled + 0.5f64.copysign(scaled)) as i32 + 128;
            ((code + bucket / 2) & -bucket).clamp(0, 255) as u8
        }));
    }
}

/// Counts the bytes that it writes.
struct CountingWriter<'a> {
    writer: &'a mut dyn Write,
    bytes: u64,
}

impl Write for CountingWriter<'_> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        let written = self.writer.write(buffer)?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}
