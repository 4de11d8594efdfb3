//! Inria PLY: the format of the released 3DGS code, raw f32 parameters.
//!
//! ```text
//! ply / format binary_little_endian 1.0 / comment … / element vertex N / property float NAME … / end_header
//! x y z [nx ny nz] f_dc_0..2 f_rest_0..K-1 opacity scale_0..2 rot_0..3        K = 0, 9, 24, 45 (72 for degree 4)
//! ```
//! `f_rest` is channel-major (`f_rest[c K/3 + k - 1]` is coefficient k of channel c), [`gausset_core::Splats`] is
//! coefficient-major. The reader finds columns by name and accepts what other programs write: any order and type, ASCII
//! and big-endian, other elements, missing normals, colours instead of `f_dc`, plain point clouds.

mod columns;
mod header;
mod input;
mod read;
mod write;

pub(super) use header::{CommentMetadata, Element, Encoding, PlyHeader, Scalar, Shape};
pub(super) use input::PlyReader;
pub(super) use read::{read_ply, skip_element};
pub(super) use write::{comments, row_bytes, write_header, write_ply, write_rows};
