//! Writes a SOG of version 2 as a zip.

use std::f64::consts::FRAC_1_SQRT_2;
use std::io::{self, Cursor, Write};
use std::ops::Range;

use gausset_compute::{Exec, Pool};
use gausset_core::{Splats, sh};
use image_webp::{ColorType, EncoderParams, WebPEncoder};
use serde_json::json;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, DateTime, ZipWriter};

use super::codebook::Codebook;
use super::palette::{self, ClusterPoints};
use super::{FIRST_LARGEST, META, PALETTE_COLUMNS};
use crate::splat::metadata;
use crate::splat::order::morton;
use crate::splat::values;
use crate::splat::{Format, PositionSteps, SaveOptions, SaveReport, SplatFile};

/// Longest side of a WebP, px.
const MAX_SIDE: usize = 16_383;
/// Largest number of palette entries: labels have 16 bits.
const MAX_ENTRIES: usize = 1 << 16;

/// The files of a SOG.
pub(in crate::splat) struct SogFiles {
    /// Names and contents.
    pub(in crate::splat) files: Vec<(&'static str, Vec<u8>)>,
    /// How exactly positions are kept.
    pub(in crate::splat) positions: Option<PositionSteps>,
}

/// Writes a document.
pub(in crate::splat) fn write(
    writer: &mut dyn Write,
    document: &SplatFile,
    _: &SaveOptions,
) -> io::Result<SaveReport> {
    let (scene, all) = (document.scene_len(), document.splats.len());
    // The sky stays behind the scene: the order tells them apart.
    let sog = encode(document, &[0..scene, scene..all])?;
    let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, content) in sog.files {
        let stored = SimpleFileOptions::default()
            .compression_method(CompressionMethod::Stored)
            .last_modified_time(DateTime::default());
        archive.start_file(name, stored)?;
        archive.write_all(&content)?;
    }
    let bytes = archive.finish()?.into_inner();
    writer.write_all(&bytes)?;
    let mut saved = SaveReport::new(Format::Sog, all, bytes.len() as u64);
    saved.version = Some("2");
    saved.positions = sog.positions;
    Ok(saved)
}

/// Encodes a document; rows are in the order of the parts, and along a Morton curve in each.
pub(in crate::splat) fn encode(document: &SplatFile, parts: &[Range<usize>]) -> io::Result<SogFiles> {
    let splats = &document.splats;
    let count = splats.len();
    let width = 4 * (count as f64).sqrt().div_euclid(4.0) as usize;
    // The side of a square, rounded up to a multiple of four.
    let width = if width * width < count { width + 4 } else { width.max(4) };
    let height = 4 * count.div_ceil(4 * width);
    if height > MAX_SIDE || width > MAX_SIDE {
        let reason = format!("a SOG holds at most 268,000,000 splats (found {count})");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
    }
    let mut files = Vec::new();
    let log = |v: f32| libm::log1p(f64::from(v).abs()).copysign(f64::from(v));
    let range = |axis: usize| {
        splats.means.iter().fold([f64::INFINITY, f64::NEG_INFINITY], |[low, high], mean| {
            let v = log(mean[axis]);
            [low.min(v), high.max(v)]
        })
    };
    let ranges = [0, 1, 2].map(range);
    let code = |i: usize, axis: usize| {
        let [low, high] = ranges[axis];
        let t = if high > low { (log(splats.means[i][axis]) - low) / (high - low) } else { 0.0 };
        values::quantise(t, 65_535) as u16
    };
    let codes = |i: usize| [0, 1, 2].map(|axis| code(i, axis));
    let order: Vec<u32> = parts.iter().flat_map(|part| morton_order(part.clone(), codes)).collect();
    let canvas = ImageEncoder { order: &order, width, height };
    files.push(("means_l.webp", canvas.opaque(|i| [0, 1, 2].map(|axis| code(i, axis) as u8))?));
    files.push(("means_u.webp", canvas.opaque(|i| [0, 1, 2].map(|axis| (code(i, axis) >> 8) as u8))?));
    files.push(("quats.webp", canvas.with_alpha(|i| rotation(splats.quats[i]))?));
    let scales = Codebook::from_values(splats.log_scales.iter().flatten().copied());
    files.push(("scales.webp", canvas.opaque(|i| splats.log_scales[i].map(|v| scales.code(v)))?));
    let colours =
        Codebook::from_values((0..count).flat_map(|i| splats.sh_coefficients(i)[..3].iter().copied()));
    let sh0 = canvas.with_alpha(|i| {
        let [r, g, b] = [0, 1, 2].map(|c| colours.code(splats.sh_coefficients(i)[c]));
        [r, g, b, values::quantise(values::opacity(splats.opacity_logits[i]), 255) as u8]
    })?;
    files.push(("sh0.webp", sh0));

    let bound = |end: usize| ranges.map(|range| range[end]);
    let mut meta = json!({
        "version": 2,
        "asset": { "generator": format!("gausset {}", env!("CARGO_PKG_VERSION")) },
        "count": count,
        "means": { "mins": bound(0), "maxs": bound(1), "files": ["means_l.webp", "means_u.webp"] },
        "scales": { "codebook": scales.values.to_vec(), "files": ["scales.webp"] },
        "quats": { "files": ["quats.webp"] },
        "sh0": { "codebook": colours.values.to_vec(), "files": ["sh0.webp"] },
    });
    let facts = metadata::metadata_lines(document);
    if !facts.is_empty() {
        meta["asset"]["gausset"] = json!(facts);
    }
    match (document.antialiased, document.flat) {
        (true, _) => meta["model"] = json!("antialiased"),
        (false, true) => meta["model"] = json!("2dgs"),
        (false, false) => {}
    }
    if splats.sh_degree > 0 {
        let rest = HigherSh::of(splats);
        files.push(("shN_centroids.webp", rest.centroids()?));
        let label = |i: usize| (rest.labels[i] as u16).to_le_bytes();
        files.push(("shN_labels.webp", canvas.opaque(|i| [label(i)[0], label(i)[1], 0])?));
        meta["shN"] = json!({
            "count": rest.entries.len() / rest.dimensions,
            "bands": splats.sh_degree,
            "codebook": rest.codebook.values.to_vec(),
            "files": ["shN_centroids.webp", "shN_labels.webp"],
        });
    }
    files.push((META, meta.to_string().into_bytes()));
    let positions = PositionSteps::of(document, |i| {
        // The derivative of the logarithm that has the codes.
        let step =
            |(value, [low, high]): (f32, [f64; 2])| (high - low) / 65_535.0 * (1.0 + f64::from(value.abs()));
        splats.means[i].into_iter().zip(ranges).map(step).fold(0.0, f64::max)
    });
    Ok(SogFiles { files, positions })
}

/// Orders splats along a Morton curve through their codes: neighbours in space are close in the images, and splats with
/// equal high bytes form one run, which compresses to almost nothing.
fn morton_order(splats: Range<usize>, codes: impl Fn(usize) -> [u16; 3]) -> Vec<u32> {
    let mut keys: Vec<(u64, u32)> = splats.map(|i| (morton(codes(i)), i as u32)).collect();
    keys.sort_unstable();
    keys.into_iter().map(|(_, i)| i).collect()
}

/// Images with one pixel per splat.
struct ImageEncoder<'a> {
    order: &'a [u32],
    width: usize,
    height: usize,
}

impl ImageEncoder<'_> {
    fn opaque(&self, pixel: impl Fn(usize) -> [u8; 3]) -> io::Result<Vec<u8>> {
        let mut pixels: Vec<u8> = self.order.iter().flat_map(|&i| pixel(i as usize)).collect();
        pixels.resize(3 * self.width * self.height, 0);
        encode_image(&pixels, self.width, self.height, ColorType::Rgb8)
    }

    fn with_alpha(&self, pixel: impl Fn(usize) -> [u8; 4]) -> io::Result<Vec<u8>> {
        let mut pixels: Vec<u8> = self.order.iter().flat_map(|&i| pixel(i as usize)).collect();
        pixels.resize(4 * self.width * self.height, 0);
        encode_image(&pixels, self.width, self.height, ColorType::Rgba8)
    }
}

/// Encodes with and without prediction and returns the shorter file.
fn encode_image(pixels: &[u8], width: usize, height: usize, colour: ColorType) -> io::Result<Vec<u8>> {
    let with = |predicts: bool| {
        let mut bytes = Vec::new();
        let mut encoder = WebPEncoder::new(&mut bytes);
        let mut params = EncoderParams::default();
        params.use_predictor_transform = predicts;
        encoder.set_params(params);
        encoder.encode(pixels, width as u32, height as u32, colour).map_err(io::Error::other)?;
        Ok::<_, io::Error>(bytes)
    };
    let (plain, predicted) = (with(false)?, with(true)?);
    Ok(if plain.len() <= predicted.len() { plain } else { predicted })
}

/// Encodes a rotation as a pixel.
fn rotation(quat: [f32; 4]) -> [u8; 4] {
    let (largest, rest) = values::smallest_three(values::unit_quaternion(quat));
    let [a, b, c] = rest.map(|v| values::to_byte((v / FRAC_1_SQRT_2 / 2.0 + 0.5) * 255.0).0);
    [a, b, c, FIRST_LARGEST + largest as u8]
}

/// SH above degree 0.
struct HigherSh {
    entries: Vec<f32>,
    labels: Vec<u32>,
    dimensions: usize,
    codebook: Codebook,
}

impl HigherSh {
    fn of(splats: &Splats) -> Self {
        let stride = splats.sh_stride();
        let dimensions = stride - 3;
        let weights: Vec<f32> =
            splats.opacity_logits.iter().map(|&logit| values::opacity(logit) as f32).collect();
        let points = ClusterPoints { rows: &splats.sh, stride, dimensions, weights: &weights };
        // The largest power of two not above the number of splats.
        let most = (1usize << splats.len().ilog2()).min(MAX_ENTRIES);
        let palette::Palette { entries, labels } =
            palette::build(&points, most, Exec::best(&Pool::with_all_cores()));
        let codebook = Codebook::from_values(entries.iter().copied());
        Self { entries, labels, dimensions, codebook }
    }

    /// Encodes the palette as an image.
    fn centroids(&self) -> io::Result<Vec<u8>> {
        let columns = PALETTE_COLUMNS as usize;
        let (coefficients, count) = (self.dimensions / 3, self.entries.len() / self.dimensions);
        let (width, height) = (columns * coefficients, count.div_ceil(columns));
        let mut pixels: Vec<u8> = self.entries.iter().map(|&v| self.codebook.code(v)).collect();
        pixels.resize(3 * width * height, 0);
        debug_assert_eq!(coefficients + 1, sh::coefficients(coefficients.isqrt() as u8));
        encode_image(&pixels, width, height, ColorType::Rgb8)
    }
}
