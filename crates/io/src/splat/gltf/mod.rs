//! glTF 2.0 with `KHR_gaussian_splatting` (Release Candidate of 2026): columns of numbers and a JSON that describes
//! them, in one file (GLB) or separate.
//!
//! ```text
//! GLB: "glTF" | u32 2 | u32 length | chunks: u32 length, u32 "JSON" or "BIN\0", content
//! ```
//! | attribute | values | here |
//! |---|---|---|
//! | `POSITION` | 3 f32 | mean |
//! | `KHR_gaussian_splatting:ROTATION` | 4 f32, i8 or i16, xyzw of length 1 | quaternion |
//! | `KHR_gaussian_splatting:SCALE` | 3 f32, u8 or u16, linear | log scale |
//! | `KHR_gaussian_splatting:OPACITY` | f32, u8 or u16 in 0..1 | logit |
//! | `KHR_gaussian_splatting:SH_DEGREE_l_COEF_n` | 3 f32, n = 0..2l | SH |
//! | `COLOR_0` | 4 u8, linear light | written for programs that show points |
//!
//! Assets of glTF look along +z with y up: rotated by 180 degrees about z relative to the axes of training.
//!
//! Drafts are read, too: of Cesium (`_ROTATION`, `_SCALE`, and `COLOR_0` with the displayed colour and the opacity) and of
//! Khronos, including their SPZ in a buffer view ([`spz`]).

mod buffers;
mod columns;
mod json;
mod parts;
mod read;
mod spz;
mod write;

pub(super) use read::{read, sniff};
pub(super) use write::write;

const MAGIC: &[u8; 4] = b"glTF";
const VERSION: u32 = 2;
/// Bytes of the file header.
const HEADER_BYTES: u64 = 12;
const CHUNK_HEAD_BYTES: u64 = 8;
const JSON_CHUNK: u32 = u32::from_le_bytes(*b"JSON");
const BINARY_CHUNK: u32 = u32::from_le_bytes(*b"BIN\0");
/// Name of the extension.
const EXTENSION: &str = "KHR_gaussian_splatting";

/// Name of an SH coefficient, numbered as in [`gausset_core::Splats`], without the prefix of the attribute.
fn sh_name(coefficient: usize) -> String {
    let degree = coefficient.isqrt();
    format!("SH_DEGREE_{degree}_COEF_{}", coefficient - degree * degree)
}
