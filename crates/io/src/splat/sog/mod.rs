//! SOG (PlayCanvas): lossless WebP pictures with a pixel a splat, and a `meta.json` that says what their bytes mean; in a
//! folder, or as a zip in which they are stored.
//!
//! | picture | red, green, blue | alpha |
//! |---|---|---|
//! | means, low and high byte | 16 bits of `sign(v) ln(1 + abs v)` in a range an axis | |
//! | scales | entries of a codebook of log scales | |
//! | quats | the other three of the unit quaternion, `(b / 255 * 2 - 1) / √2` | 252 + index of the largest of `wxyz` |
//! | sh0 | entries of a codebook of colour coefficients | opacity |
//! | shN labels | entry of the palette, low and high byte | |
//! | shN centroids | the palette, 64 entries a row, a pixel for each coefficient: entries of a codebook | |
//!
//! Version 1 has ranges where version 2 has codebooks, and logits for opacities; it is read only.

mod codebook;
mod meta;
mod palette;
mod read;
mod write;

pub(super) use read::{read, sniff};
pub(super) use write::write;

/// Name of the description.
const META: &str = "meta.json";
/// Entries of the palette in a row of its picture.
const PALETTE_COLUMNS: u32 = 64;
/// Alpha of a quaternion whose largest component is the first.
const FIRST_LARGEST: u8 = 252;
