//! Baseline JPEG in planes: no RGB, no upsampling, only the rows that are needed.
//!
//! Half of the time of general libraries on 360-degree frames goes into colour conversion, chroma resampling and rows
//! that no view shows (`docs/benchmarks.md`), so the splitter has its own codec for the one kind of file that cameras
//! write: baseline, Huffman coded, 8 bits, one interleaved scan (ITU-T T.81). Everything else goes to the `image`
//! crate ([`crate::load`]). With the feature `turbo` libjpeg-turbo does the same work. Both directions are tested against other codecs, truncated and bit-flipped.

pub mod dct;
pub mod decode;
pub mod encode;
pub mod header;
mod huffman;
pub mod tables;
#[cfg(feature = "turbo")]
pub mod turbo;

#[cfg(feature = "turbo")]
pub use turbo::{Decoder, Encoder};
#[cfg(not(feature = "turbo"))]
pub use {decode::Decoder, encode::Encoder};

pub use encode::Sampling;
pub use header::{DecodeError, Header};

/// Which codec reads and writes baseline files: `own` or `turbo`.
pub const BACKEND: &str = if cfg!(feature = "turbo") { "turbo" } else { "own" };
