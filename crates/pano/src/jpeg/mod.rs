//! Baseline JPEG in planes: no RGB, no upsampling, only the rows that are needed.
//!
//! Half of the time of general libraries on 360-degree frames goes into colour conversion, chroma resampling and rows
//! that no view shows (`docs/benchmarks.md`), so the splitter has its own codec for the one kind of file that cameras
//! write: baseline, Huffman coded, 8 bits, one interleaved scan (ITU-T T.81). Everything else goes to the `image`
//! crate ([`crate::load`]). Both directions are tested against other codecs, truncated and bit-flipped.

pub mod dct;
pub mod decode;
pub mod encode;
pub mod header;
mod huffman;
pub mod tables;
mod whole;

pub use decode::Decoder;
pub use encode::{Encoder, Sampling};
pub use header::{DecodeError, Header};
pub use whole::{encode_frame, encode_picture, encode_planes};

/// Which codec reads and writes baseline files, for measurements.
pub const BACKEND: &str = "own";
