//! Writes SPZ files of version 3 and 4.

use std::f64::consts::FRAC_1_SQRT_2;
use std::io::{self, Write};

use flate2::Compression;
use flate2::write::GzEncoder;
use gausset_core::Splats;

use super::{
    ANTIALIASED, AXES_EXTENSION, COLOUR_SCALE, EXTENSIONS, HEADER_BYTES_4, LEAST_LOG_SCALE, MAGIC, RDF, RUB,
    SCALE_STEPS, SpzFrame, SpzOptions,
};
use crate::splat::frame::Axes;
use crate::splat::values::{self, Clips};
use crate::splat::{Document, Format, SaveOptions, Saved};

/// Fractional bits of positions that fit in it: a quarter of a millimetre where the unit is a metre.
const USUAL_FRACTIONAL_BITS: u8 = 12;
/// Largest position code.
const LARGEST_CODE: f64 = ((1 << 23) - 1) as f64;
/// Level of zstd of the reference implementation.
const ZSTD_LEVEL: i32 = 12;

/// Writes a document.
pub(in crate::splat) fn write(
    writer: &mut dyn Write,
    document: &Document,
    options: &SaveOptions,
) -> io::Result<Saved> {
    let SpzOptions { version, sh_bits, frame } = options.spz;
    let invalid = |reason: &str| io::Error::new(io::ErrorKind::InvalidInput, reason);
    let Ok(count) = u32::try_from(document.splats.len()) else {
        return Err(invalid("too many splats for SPZ (expected at most 4,294,967,295)"));
    };
    if !(3..=4).contains(&version) || sh_bits.iter().any(|bits| !(1..=8).contains(bits)) {
        return Err(invalid("no such SPZ (expected version 3 or 4 and 1 to 8 bits for SH)"));
    }
    let turned;
    let splats = match frame {
        SpzFrame::AsIs => &document.splats,
        SpzFrame::Rub => {
            let mut splats = document.splats.clone();
            Axes::RUB.apply(&mut splats);
            turned = splats;
            &turned
        }
    };

    let mut clips = Clips::default();
    let bits = fractional_bits(splats);
    let named = version == 4;
    let mut header = MAGIC.to_vec();
    header.extend(u32::from(version).to_le_bytes());
    header.extend(count.to_le_bytes());
    let flags = if document.antialiased { ANTIALIASED } else { 0 } | if named { EXTENSIONS } else { 0 };
    let streams = if splats.sh_degree == 0 { 5 } else { 6 };
    header.extend([splats.sh_degree, bits, flags, if version == 4 { streams } else { 0 }]);
    let blocks = (0..usize::from(streams)).map(|block| encode(block, splats, bits, sh_bits, &mut clips));
    let bytes = if version == 3 {
        let mut counted = Counted { writer, bytes: 0 };
        let mut gzip = GzEncoder::new(&mut counted, Compression::best());
        gzip.write_all(&header)?;
        for block in blocks {
            gzip.write_all(&block)?;
        }
        gzip.finish()?;
        counted.bytes
    } else {
        write_zstd(writer, header, blocks, frame)?
    };

    let mut saved = Saved::new(Format::Spz, splats.len(), bytes);
    saved.version = Some(if version == 3 { "3" } else { "4" });
    saved.frame = Some(if frame == SpzFrame::Rub { "RUB" } else { "RDF" });
    saved.clipped = clips.into_counts();
    if bits < USUAL_FRACTIONAL_BITS {
        let step = libm::ldexp(1.0, -i32::from(bits));
        saved.lost.push(format!("positions are kept to {step:.2e} scene units, because some are far out"));
    }
    saved.lose_scene_facts(document);
    Ok(saved)
}

/// The rest of a file of version 4: extension, table, frames. Returns the length of the file.
fn write_zstd(
    writer: &mut dyn Write,
    mut header: Vec<u8>,
    blocks: impl Iterator<Item = Vec<u8>>,
    frame: SpzFrame,
) -> io::Result<u64> {
    let axes = match frame {
        SpzFrame::AsIs => RDF,
        SpzFrame::Rub => RUB,
    };
    let extension = [AXES_EXTENSION, 4, axes].map(u32::to_le_bytes);
    header.extend(((HEADER_BYTES_4 + extension.as_flattened().len()) as u32).to_le_bytes());
    header.extend([0; 12]);
    header.extend(extension.as_flattened());
    let mut frames = Vec::new();
    for block in blocks {
        let frame = zstd::bulk::compress(&block, ZSTD_LEVEL)?;
        header.extend((frame.len() as u64).to_le_bytes());
        header.extend((block.len() as u64).to_le_bytes());
        frames.push(frame);
    }
    writer.write_all(&header)?;
    for frame in &frames {
        writer.write_all(frame)?;
    }
    Ok((header.len() + frames.iter().map(Vec::len).sum::<usize>()) as u64)
}

/// As many fractional bits as leave room for the farthest splat, at most the usual number.
fn fractional_bits(splats: &Splats) -> u8 {
    let farthest = splats.means.iter().flatten().fold(0.0f32, |most, v| most.max(v.abs()));
    let fits = |bits: &u8| libm::ldexp(f64::from(farthest), i32::from(*bits)) <= LARGEST_CODE;
    (0..=USUAL_FRACTIONAL_BITS).rev().find(fits).unwrap_or(0)
}

/// A block of the file.
fn encode(block: usize, splats: &Splats, bits: u8, sh_bits: [u8; 2], clips: &mut Clips) -> Vec<u8> {
    match block {
        0 => positions(splats, bits, clips),
        1 => splats
            .opacity_logits
            .iter()
            .map(|&logit| values::steps(values::opacity(logit), 255) as u8)
            .collect(),
        2 => (0..splats.len()).flat_map(|i| colour(&splats.sh_of(i)[..3], clips)).collect(),
        3 => splats.log_scales.iter().flat_map(|log_scale| scale(log_scale, clips)).collect(),
        4 => splats.quats.iter().flat_map(|&quat| rotation(quat).to_le_bytes()).collect(),
        _ => coefficients(splats, sh_bits, clips),
    }
}

fn positions(splats: &Splats, bits: u8, clips: &mut Clips) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(9 * splats.len());
    for mean in &splats.means {
        let codes = mean.map(|v| libm::round(libm::ldexp(f64::from(v), i32::from(bits))));
        clips.count("position beyond 8,388,607", codes.iter().any(|code| code.abs() > LARGEST_CODE));
        for code in codes {
            let code = code.clamp(-LARGEST_CODE, LARGEST_CODE) as i32;
            bytes.extend_from_slice(&code.to_le_bytes()[..3]);
        }
    }
    bytes
}

fn colour(dc: &[f32], clips: &mut Clips) -> [u8; 3] {
    let codes = [0, 1, 2].map(|k| values::byte(f64::from(dc[k]) * COLOUR_SCALE * 255.0 + 127.5));
    clips.count("colour coefficient beyond 3.33", codes.iter().any(|(_, is_clipped)| *is_clipped));
    codes.map(|(byte, _)| byte)
}

fn scale(log_scale: &[f32; 3], clips: &mut Clips) -> [u8; 3] {
    let codes = log_scale.map(|v| (f64::from(v) - LEAST_LOG_SCALE) * SCALE_STEPS);
    clips.count("log scale below -10", codes.iter().any(|code| *code < -0.5));
    clips.count("log scale above 5.9", codes.iter().any(|code| *code > 255.5));
    codes.map(|code| values::byte(code).0)
}

/// The smallest three of `xyzw`, each a sign and 9 bits.
fn rotation(quat: [f32; 4]) -> u32 {
    let [w, x, y, z] = values::unit(quat);
    let (largest, rest) = values::smallest_three([x, y, z, w]);
    rest.iter().fold(largest as u32, |word, v| {
        word << 10 | u32::from(*v < 0.0) << 9 | values::steps(v.abs() / FRAC_1_SQRT_2, 511)
    })
}

fn coefficients(splats: &Splats, sh_bits: [u8; 2], clips: &mut Clips) -> Vec<u8> {
    let mut bytes = Vec::with_capacity((splats.sh_stride() - 3) * splats.len());
    let [first, others] = sh_bits.map(|bits| 1i32 << (8 - bits));
    for i in 0..splats.len() {
        let rest = &splats.sh_of(i)[3..];
        clips.count("SH coefficient beyond 1", rest.iter().any(|v| v.abs() > 1.0));
        bytes.extend(rest.iter().enumerate().map(|(k, &v)| {
            // Degree 1 has three coefficients of three channels.
            let bucket = if k < 9 { first } else { others };
            let code = libm::round(128.0 * f64::from(v.clamp(-2.0, 2.0))) as i32 + 128;
            ((code + bucket / 2).div_euclid(bucket) * bucket).clamp(0, 255) as u8
        }));
    }
    bytes
}

/// Counts what passes.
struct Counted<'a> {
    writer: &'a mut dyn Write,
    bytes: u64,
}

impl Write for Counted<'_> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        let written = self.writer.write(buffer)?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}
