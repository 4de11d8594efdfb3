//! Statistics of the splats of a file for `info`: opacity, size, outliers, and estimated sizes in each format.

use std::collections::BTreeMap;
use std::io;

use gausset::convert::is_sky_dropped;
use gausset_core::Splats;
use gausset_io::splat::{self, FORMATS, Format, SaveOptions, SplatFile};
use gausset_io::text;
use serde::Serialize;

use crate::numbers::three_digits;

/// Splats farther from the median position than this many median distances count as far.
const FAR_MEDIAN_DISTANCES: f64 = 10.0;
/// Splats with a lower opacity count as transparent: they change an 8-bit image by at most one level.
const TRANSPARENT_OPACITY: f64 = 1.0 / 255.0;
/// Number of splats up to which files are really encoded.
const ENCODED_SPLATS: usize = 32_768;
/// Number of splats in the sample from which compressed sizes of larger files are estimated.
const SAMPLE_SPLATS: usize = 8192;
/// Number of contiguous pieces in the sample. They are contiguous because neighbours compress together.
const SAMPLE_PIECES: usize = 8;
/// Relative error of an estimate of a compressed format, as a range.
const ESTIMATE_ERROR: f64 = 0.25;
/// Bytes per splat for rendering in addition to its parameters: its projected record and its entries in tile lists.
const RENDER_BYTES_PER_SPLAT: u64 = 64 + 32;

/// Statistics of the splats: a stable contract.
#[derive(Debug, Serialize)]
pub(super) struct SplatStatistics {
    /// Opacity in the scene, without the sky: 10th percentile, median, 90th percentile.
    opacity: [f64; 3],
    /// Longest standard deviation of a splat of the scene, scene units: the same percentiles.
    size: [f64; 3],
    /// Fraction of the scene splats that are farther than ten median distances from the median position.
    far_share: f64,
    /// Fraction of the splats with an opacity below 1/255.
    transparent_share: f64,
    /// Size in bytes by output format, as `convert` writes it by default: exact up to 32,768 splats, estimated for larger files.
    bytes: BTreeMap<&'static str, u64>,
    /// Whether the sizes are exact.
    bytes_are_exact: bool,
    /// Estimated memory to render the splats, bytes.
    memory_bytes: u64,
}

impl SplatStatistics {
    /// Statistics of the splats of a document; `None` if it has none.
    pub(super) fn from_document(document: &SplatFile) -> Option<Self> {
        let splats = &document.splats;
        let count = splats.len();
        if count == 0 {
            return None;
        }
        let scene = document.scene_len().max(1);
        let centre: [f64; 3] = std::array::from_fn(|k| {
            percentiles((0..scene).map(|i| f64::from(splats.means[i][k])).collect())[1]
        });
        let distance = |i: usize| {
            (0..3).map(|k| (f64::from(splats.means[i][k]) - centre[k]).powi(2)).sum::<f64>().sqrt()
        };
        let median = percentiles((0..scene).map(distance).collect())[1];
        let share = |counted: usize| counted as f64 / count as f64;
        let far = (0..scene).filter(|&i| distance(i) > FAR_MEDIAN_DISTANCES * median).count();
        let opacity = |logit: f32| 1.0 / (1.0 + (-f64::from(logit)).exp());
        let opacities: Vec<f64> = splats.opacity_logits.iter().map(|logit| opacity(*logit)).collect();
        let longest = |scales: &[f32; 3]| f64::from(scales.iter().copied().fold(f32::MIN, f32::max)).exp();
        Some(Self {
            far_share: far as f64 / scene as f64,
            transparent_share: share(
                opacities.iter().filter(|opacity| **opacity < TRANSPARENT_OPACITY).count(),
            ),
            opacity: percentiles(opacities.into_iter().take(scene).collect()),
            size: percentiles(splats.log_scales.iter().take(scene).map(longest).collect()),
            bytes: estimate_sizes(document),
            bytes_are_exact: count <= ENCODED_SPLATS,
            memory_bytes: count as u64 * (4 * (11 + splats.sh_stride()) as u64 + RENDER_BYTES_PER_SPLAT),
        })
    }

    /// Formats the statistics as rows of a table.
    pub(super) fn rows(&self) -> Vec<(&'static str, String)> {
        let three = |values: [f64; 3]| values.map(three_digits).join(" / ");
        let sizes = self.bytes.iter().map(|(name, bytes)| {
            let is_exact = self.bytes_are_exact || !["spz", "sog", "html"].contains(name);
            let range =
                [1.0 - ESTIMATE_ERROR, 1.0 + ESTIMATE_ERROR].map(|factor| (*bytes as f64 * factor) as u64);
            match range.map(text::format_bytes) {
                _ if is_exact => format!("{name} {}", text::format_bytes(*bytes)),
                [low, high] => format!("{name} {low} to {high}"),
            }
        });
        vec![
            ("opacity", format!("{} (10th percentile, median, 90th percentile)", three(self.opacity))),
            ("size", format!("{} scene units (same percentiles)", three(self.size))),
            ("saved as", sizes.collect::<Vec<_>>().join(", ")),
            ("memory", format!("about {} to render", text::format_bytes(self.memory_bytes))),
        ]
    }
}

/// 10th percentile, median and 90th percentile of the values.
fn percentiles(mut values: Vec<f64>) -> [f64; 3] {
    values.sort_by(f64::total_cmp);
    [0.1, 0.5, 0.9].map(|share| {
        let last = values.len().saturating_sub(1);
        values.get((share * last as f64).round() as usize).copied().unwrap_or(0.0)
    })
}

/// The size in each output format: that of the file, or for a large file extrapolated from two samples of it, because a
/// part of the size does not depend on the number of splats.
fn estimate_sizes(document: &SplatFile) -> BTreeMap<&'static str, u64> {
    let written = || FORMATS.iter().filter(|row| row.format.is_written() && !row.format.is_folder());
    let mut sizes = estimate_sizes_of(document, written().map(|row| (row.format, row.name)));
    let without_sky = written().filter(|row| is_sky_dropped(row.format, document));
    let without_sky: Vec<_> = without_sky.map(|row| (row.format, row.name)).collect();
    if !without_sky.is_empty() {
        let scene = document.with_splats(document.scene().into_owned(), 0);
        sizes.extend(estimate_sizes_of(&scene, without_sky.into_iter()));
    }
    sizes
}

fn estimate_sizes_of(
    document: &SplatFile,
    formats: impl Iterator<Item = (Format, &'static str)>,
) -> BTreeMap<&'static str, u64> {
    let all = document.splats.len();
    let size = |format: Format, part: &SplatFile| {
        let saved = splat::write(&mut io::sink(), part, format, &SaveOptions::default()).ok()?;
        Some(saved.bytes as f64)
    };
    let samples = (all > ENCODED_SPLATS).then(|| {
        [SAMPLE_PIECES / 2, SAMPLE_PIECES]
            .map(|pieces| document.with_splats(sample_splats(&document.splats, pieces), 0))
    });
    let sizes = formats.filter_map(|(format, name)| {
        let Some([half, whole]) = &samples else {
            return size(format, document).map(|bytes| (name, bytes as u64));
        };
        let (less, more) = (size(format, half)?, size(format, whole)?);
        let splats = whole.splats.len() as f64;
        let slope = (more - less) / (splats - half.splats.len() as f64);
        Some((name, (more + slope * (all as f64 - splats)).round() as u64))
    });
    sizes.collect()
}

/// Evenly spaced pieces of the splats.
fn sample_splats(splats: &Splats, pieces: usize) -> Splats {
    let count = splats.len();
    let piece = SAMPLE_SPLATS / SAMPLE_PIECES;
    let starts = (0..pieces).map(|k| k * (count - piece) / (pieces - 1));
    splats.select(&starts.flat_map(|start| start..start + piece).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_and_percentiles_are_those_of_the_splats() {
        let mut splats = Splats { sh_degree: 0, ..Splats::default() };
        for k in 0..100 {
            let x = if k < 5 { 1000.0 } else { (k % 10) as f32 - 4.5 };
            splats.means.push([x, 0.0, 0.0]);
            splats.quats.push([1.0, 0.0, 0.0, 0.0]);
            splats.log_scales.push([-3.0, (k as f32 / 100.0).ln(), -9.0].map(|v: f32| v.max(-9.0)));
            splats.opacity_logits.push(if k < 20 { -8.0 } else { 0.0 });
            splats.sh.extend([0.1; 3]);
        }
        let spread = SplatStatistics::from_document(&SplatFile::new(splats)).unwrap();
        assert_eq!((spread.far_share, spread.transparent_share), (0.05, 0.2));
        assert!((spread.opacity[1] - 0.5).abs() < 1e-9 && spread.opacity[0] < 0.001, "{spread:?}");
        assert!((spread.size[1] - 0.5).abs() < 0.02, "{spread:?}");
        assert!(spread.bytes["ply"] > 100 * 17 * 4 && spread.bytes["splat"] == 3200, "{spread:?}");
        assert!(SplatStatistics::from_document(&SplatFile::new(Splats::default())).is_none());
    }

    #[test]
    fn the_sky_changes_no_number_of_the_scene() {
        let splats = |sky: usize| {
            let mut splats = Splats::zeros(0, 100 + sky);
            splats.quats.fill([1.0, 0.0, 0.0, 0.0]);
            for (k, (mean, scale)) in splats.means.iter_mut().zip(&mut splats.log_scales).enumerate() {
                let (distance, size) = if k < 100 { (k as f32, -3.0) } else { (500.0, 4.0) };
                (*mean, *scale) = ([distance, 0.0, 0.0], [size; 3]);
            }
            SplatFile { sky, ..SplatFile::new(splats) }
        };
        let of = |sky| SplatStatistics::from_document(&splats(sky)).unwrap();
        let (without, with) = (of(0), of(80));
        assert_eq!((with.size, with.opacity, with.far_share), (without.size, without.opacity, 0.0));
        // As `convert` writes them.
        assert_eq!((with.bytes["splat"], with.bytes["glb"]), (3200, without.bytes["glb"]));
        assert!(with.bytes["ply"] > without.bytes["ply"]);
    }
}
