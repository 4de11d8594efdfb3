//! SOG (PlayCanvas): lossless WebP images with one pixel per splat, and a `meta.json` that describes their bytes; in a
//! folder, or in a zip without compression (read: with compression, or in a folder of the zip).
//!
//! | image | red, green, blue | alpha |
//! |---|---|---|
//! | means, low and high byte | 16 bits of `sign(v) ln(1 + abs v)` in a range an axis | |
//! | scales | entries of a codebook of log scales | |
//! | quats | the other three of the unit quaternion, `(b / 255 * 2 - 1) / √2` | 252 + index of the largest of `wxyz` |
//! | sh0 | entries of a codebook of colour coefficients | opacity |
//! | shN labels | entry of the palette, low and high byte | |
//! | shN centroids | the palette, 64 entries a row, a pixel for each coefficient: entries of a codebook | |
//!
//! Version 1 has ranges instead of codebooks and logits instead of opacities. It is read only.

use std::path::{Path, PathBuf};

mod codebook;
mod meta;
mod palette;
mod read;
mod write;

pub(super) use read::{read, sniff};
pub(super) use write::{encode, write};

/// The images beside a description file.
pub(super) fn image_files(meta: &Path) -> Vec<PathBuf> {
    let folder = meta.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    entries.filter(|path| path.extension().is_some_and(|extension| extension == "webp")).collect()
}

/// Names of the files that the writer writes.
pub(super) const FILES: [&str; 8] = [
    "means_l.webp",
    "means_u.webp",
    "quats.webp",
    "scales.webp",
    "sh0.webp",
    "shN_centroids.webp",
    "shN_labels.webp",
    META,
];

/// Name of the description file.
pub(super) const META: &str = "meta.json";
/// Palette entries per row of its image.
const PALETTE_COLUMNS: u32 = 64;
/// Alpha of a quaternion whose first component is the largest.
const FIRST_LARGEST: u8 = 252;
