//! A baseline JPEG codec for planes: no RGB, no upsampling, only the rows that are needed.
//!
//! On 360-degree frames, general libraries spend half of their time on colour conversion, chroma resampling and rows
//! that no view shows (`research/benchmarks-log.md`). The splitter therefore has its own codec for the one kind of
//! file that cameras write: baseline, Huffman coded, 8 bits, one interleaved scan (ITU-T T.81). Everything else is
//! decoded by the `image` crate. Both directions are tested against other codecs, and with truncated
//! and bit-flipped files.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

pub mod colour;
pub mod dct;
pub mod decode;
pub mod encode;
mod encode_whole;
pub mod header;
mod huffman;
pub mod plane;
pub mod tables;

pub use decode::Decoder;
pub use encode::{Encoder, Sampling};
pub use encode_whole::{encode_frame, encode_image, encode_planes};
pub use header::{DecodeError, JpegHeader};
