//! `.splat` (antimatter15/splat): 32 bytes per splat, no header, SH degree 0 only.
//!
//! ```text
//! 3 f32 mean | 3 f32 scale (linear) | 4 u8 red green blue opacity | 4 u8 rotation wxyz, 128 + 128 q
//! ```
//! Records are sorted by size times opacity, so that a part of the file is a preview. Rotations need not have length 1:
//! readers normalise them.
#![deny(clippy::indexing_slicing, reason = "what comes from outside is never an index")]

use std::io::{self, Write};

use gausset_core::sh;

use super::format::FileStart;
use super::source::SourceFile;
use super::usable::SplatCollector;
use super::values::{self, ClampCounts};
use super::{Format, Initial, SaveOptions, SaveReport, SplatError, SplatFile};

const RECORD_BYTES: usize = 32;
/// Records per read and write.
const CHUNK_RECORDS: usize = 1 << 12;
/// Logit of opacity 255, as in other readers of this format: `1 - 1e-6`.
const EXTREME_LOGIT: f32 = 13.815_51;
/// Log scale of scale 0, as in other readers of this format.
const ZERO_LOG_SCALE: f32 = -20.0;

/// A record of a file.
#[derive(Clone, Copy)]
struct Record {
    mean: [f32; 3],
    scale: [f32; 3],
    colour: [u8; 4],
    rotation: [u8; 4],
}

impl Record {
    fn parse(bytes: &[u8; RECORD_BYTES]) -> Self {
        let float = |k: usize| {
            bytes.get(4 * k..).and_then(|b| b.first_chunk()).map_or(f32::NAN, |b| f32::from_le_bytes(*b))
        };
        let four = |k: usize| bytes.get(k..).and_then(|b| b.first_chunk()).copied().unwrap_or_default();
        Self { mean: [0, 1, 2].map(float), scale: [3, 4, 5].map(float), colour: four(24), rotation: four(28) }
    }

    fn quaternion(&self) -> [f32; 4] {
        self.rotation.map(|b| (f32::from(b) - 128.0) / 128.0)
    }

    /// The rotation with length 1; zeros if it has no length.
    fn unit_quaternion(&self) -> [f32; 4] {
        match self.quaternion() {
            [0.0, 0.0, 0.0, 0.0] => [0.0; 4],
            quaternion => values::unit_quaternion(quaternion).map(|v| v as f32),
        }
    }

    /// Whether the record is plausible: values that can be rendered ([`super::usable`]).
    fn is_plausible(&self) -> bool {
        let length: f32 = self.quaternion().iter().map(|v| v * v).sum();
        self.mean.iter().all(|v| v.abs() <= 1e12)
            && self.scale.iter().all(|v| (0.0..1e18).contains(v))
            && (0.9..1.1).contains(&length)
    }
}

/// The format has no magic number: the length must be a multiple of the record size, and most of the first records
/// plausible.
pub(super) fn sniff(start: &FileStart) -> bool {
    let records = start.bytes.as_chunks::<RECORD_BYTES>().0;
    let looked_at = records.get(..records.len().min(16)).unwrap_or_default();
    start.file_bytes > 0
        && start.file_bytes.is_multiple_of(RECORD_BYTES as u64)
        && looked_at.iter().filter(|record| Record::parse(record).is_plausible()).count()
            > looked_at.len() / 2
}

/// Reads a file.
pub(super) fn read(source: &mut SourceFile<'_>) -> Result<Initial, SplatError> {
    let count = source.bytes / RECORD_BYTES as u64;
    if !source.bytes.is_multiple_of(RECORD_BYTES as u64) {
        let whole = count * RECORD_BYTES as u64;
        let expected = format!("32 bytes a splat, {whole} bytes for {count} splats");
        let found = format!("{} bytes", source.bytes);
        return Err(source.damaged_error("length", "cut off, or not a .splat file", expected, found));
    }
    let logits = values::byte_logits(EXTREME_LOGIT);
    let mut splats = SplatCollector::new(0, count, source.memory)?;
    let mut chunk = Vec::new();
    let mut left = count;
    while left > 0 {
        let records = left.min(CHUNK_RECORDS as u64);
        chunk.resize(records as usize * RECORD_BYTES, 0);
        source.read_exact(&mut chunk)?;
        for bytes in chunk.as_chunks::<RECORD_BYTES>().0 {
            let record = Record::parse(bytes);
            let log = |v: f32| if v == 0.0 { ZERO_LOG_SCALE } else { libm::log(f64::from(v)) as f32 };
            let ([x, y, z], [sx, sy, sz]) = (record.mean, record.scale.map(log));
            let [qw, qx, qy, qz] = record.unit_quaternion();
            let [red, green, blue, opacity] = record.colour;
            let [r, g, b] = [red, green, blue].map(|c| sh::dc_from_colour(f32::from(c) / 255.0));
            let logit = logits.get(usize::from(opacity)).copied().unwrap_or_default();
            splats.push(&mut [x, y, z, sx, sy, sz, qw, qx, qy, qz, logit, r, g, b]);
        }
        left -= records;
    }
    Ok(Initial::Splats(splats.into_document(Format::Splat)))
}

/// Writes a document.
pub(super) fn write(writer: &mut dyn Write, document: &SplatFile, _: &SaveOptions) -> io::Result<SaveReport> {
    let splats = &document.splats;
    let mut clips = ClampCounts::default();
    let mut records = Vec::with_capacity(splats.len());
    for (i, ((mean, log_scale), (quat, logit))) in splats
        .means
        .iter()
        .zip(&splats.log_scales)
        .zip(splats.quats.iter().zip(&splats.opacity_logits))
        .enumerate()
    {
        let opacity = values::opacity(*logit);
        // Importance of a record: its volume times its opacity.
        let size: f64 = log_scale.iter().map(|v| f64::from(*v)).sum::<f64>() + libm::log(opacity.max(1e-300));
        let scale = log_scale.map(|v| libm::exp(f64::from(v)) as f32);
        clips.count("scale beyond a 32-bit number", scale.iter().any(|v| !v.is_normal()));
        let mut colour = [values::quantise(opacity, 255) as u8; 4];
        let dc = splats.sh_coefficients(i).iter().take(3);
        let mut is_clipped = false;
        for (out, dc) in colour.iter_mut().zip(dc) {
            let (byte, clipped) = values::to_byte((0.5 + sh::C0 * f64::from(*dc)) * 255.0);
            *out = byte;
            is_clipped |= clipped;
        }
        clips.count("colour outside 0..1", is_clipped);
        let rotation = values::unit_quaternion(*quat).map(|q| values::to_byte(q * 128.0 + 128.0).0);
        let scale = scale.map(|v| v.min(f32::MAX));
        records.push((size, Record { mean: *mean, scale, colour, rotation }));
    }
    let mut order: Vec<u32> = (0..records.len() as u32).collect();
    let size = |i: &u32| records.get(*i as usize).map_or(0.0, |(size, _)| *size);
    order.sort_by(|a, b| size(b).total_cmp(&size(a)).then(a.cmp(b)));
    let mut chunk = Vec::with_capacity(CHUNK_RECORDS * RECORD_BYTES);
    for part in order.chunks(CHUNK_RECORDS) {
        chunk.clear();
        for (_, record) in part.iter().filter_map(|&i| records.get(i as usize)) {
            chunk.extend(record.mean.iter().chain(&record.scale).flat_map(|v| v.to_le_bytes()));
            chunk.extend_from_slice(&record.colour);
            chunk.extend_from_slice(&record.rotation);
        }
        writer.write_all(&chunk)?;
    }
    let mut saved = SaveReport::new(Format::Splat, splats.len(), (splats.len() * RECORD_BYTES) as u64);
    saved.clipped = clips.into_counts();
    saved.report_loss_of_metadata(document, 0);
    Ok(saved)
}
