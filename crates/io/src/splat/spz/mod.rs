//! SPZ (Niantic): quantised attributes in separate blocks, compressed. Versions 1 to 3 are gzip over everything,
//! version 4 has a zstd frame per block. Version 1 is only read.
//!
//! ```text
//! u32 "NGSP" | u32 version | u32 splats | u8 SH degree | u8 fractional bits | u8 flags | u8 (v4: streams)
//! v1, v2, v3: blocks [extensions]
//! v4: u32 offset of the table | 12 zeros | [extensions] | table: a (u64 compressed, u64 plain) for each block | frames
//! ```
//! | block | bytes | value |
//! |---|---|---|
//! | positions, v1 | 6 | 3 half floats |
//! | positions | 9 | 3 signed 24-bit numbers, `v / 2^bits` |
//! | opacities | 1 | `v / 255` |
//! | colours | 3 | `dc = (v / 255 - 1/2) / 0.15` |
//! | scales | 3 | log scale `v / 16 - 10` |
//! | rotations, v1 and v2 | 3 | xyz of the unit quaternion with `w >= 0`: `v / 127.5 - 1` |
//! | rotations, v3 and v4 | 4 | the index of the largest of `xyzw` in the top bits, then sign and 9 bits of the others |
//! | SH | 3 a coefficient | `(v - 128) / 128`, coefficient-major; written in steps of 2^(8 - bits) |
//!
//! The specification says that the axes are RUB; most writers store those of a PLY. An extension of Adobe specifies
//! them.

mod read;
mod write;

pub(super) use read::{read, sniff};
pub(super) use write::write;

use super::axes::Axes;

const MAGIC: &[u8; 4] = b"NGSP";
/// Bytes of the header of versions 1 to 3.
const HEADER_BYTES: usize = 16;
/// Bytes of the header of version 4.
const HEADER_BYTES_4: usize = 32;
/// Flag: the splats were trained with opacity compensation.
const ANTIALIASED: u8 = 1;
/// Flag: the file has extensions.
const EXTENSIONS: u8 = 2;
/// Type of the extension that specifies the axes, `SPZ_ADOBE_coordinate_system`.
const AXES_EXTENSION: u32 = 0xadbe_0003;
/// Type of Gausset's extension with metadata lines ([`super::facts`]).
const METADATA_EXTENSION: u32 = 0x4741_0001;
/// Names of the axes, by the number in the extension minus one; number 0 is unspecified.
const AXES_NAMES: [&str; 16] = [
    "LDB", "RDB", "LUB", "RUB", "LDF", "RDF", "LUF", "RUF", "LFD", "RFD", "LFU", "RFU", "LBD", "RBD", "LBU",
    "RBU",
];
/// Number of the axes of training, RDF.
const RDF: u32 = 6;
/// Number of RUB.
const RUB: u32 = 4;
/// Blocks in file order.
const BLOCKS: [&str; 6] = ["positions", "opacities", "colours", "scales", "rotations", "SH"];
/// Log scale of byte 0.
const LEAST_LOG_SCALE: f64 = -10.0;
/// Quantisation steps per unit of log scale.
const SCALE_STEPS: f64 = 16.0;
/// Factor on a colour coefficient.
const COLOUR_SCALE: f64 = 0.15;

/// [`super::SplatFile::frame`] of a file whose splats keep the axes that it stores, at the caller's request.
pub(super) const AS_IS: &str = "as is, as requested";

/// Axes of an SPZ file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SpzAxes {
    /// Those of a PLY, as most programs write them.
    #[default]
    AsIs,
    /// Right, up, back, as the specification says.
    Rub,
}

/// Options for writing SPZ files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpzOptions {
    /// Version: 3 (gzip, for programs without zstd) or 4.
    pub version: u8,
    /// Bits of SH coefficients of degree 1 and of higher degrees, 1..=8. Other programs commonly write 5 and 4.
    pub sh_bits: [u8; 2],
    /// Axes of the file; the splats are converted to them.
    pub frame: SpzAxes,
}

impl Default for SpzOptions {
    fn default() -> Self {
        Self { version: 4, sh_bits: [6, 5], frame: SpzAxes::AsIs }
    }
}

/// Conversion from the axes with a number of [`AXES_NAMES`] to those of training. Each letter is the direction of an
/// axis.
fn axes_from_number(number: u32) -> Option<(&'static str, Axes)> {
    let name = AXES_NAMES.get(usize::try_from(number).ok()?.checked_sub(1)?)?;
    let sign = |positive: char| if name.contains(positive) { 1 } else { -1 };
    let swap = matches!(name.as_bytes(), [_, b'F' | b'B', _]);
    Some((name, Axes { swap, signs: [sign('R'), sign('D'), sign('F')] }))
}

/// Bytes per splat in each block.
fn block_bytes(version: u32, sh_degree: u8) -> [u64; 6] {
    let rest = 3 * ((u64::from(sh_degree) + 1) * (u64::from(sh_degree) + 1) - 1);
    [if version == 1 { 6 } else { 9 }, 1, 3, 3, if version <= 2 { 3 } else { 4 }, rest]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_axes_say_where_they_point() {
        assert_eq!(axes_from_number(RDF), Some(("RDF", Axes::TRAINING)));
        assert_eq!(axes_from_number(RUB), Some(("RUB", Axes::RUB)));
        assert_eq!(axes_from_number(7), Some(("LUF", Axes { swap: false, signs: [-1, -1, 1] })));
        assert_eq!(axes_from_number(10), Some(("RFD", Axes { swap: true, signs: [1, 1, 1] })));
        assert_eq!(
            (axes_from_number(0), axes_from_number(17), axes_from_number(u32::MAX)),
            (None, None, None)
        );
    }
}
