//! Pictures: headers, decoding, filtering, undistortion, encoding.
//!
//! Decoders are treated as untrusted: [`header`] reads size and kind with a parser of our own and refuses what is
//! beyond the limits before any decoder sees the file. EXIF orientation never turns a picture, because poses belong
//! to the stored pixels; colour profiles are ignored.

pub mod area;
pub mod decode;
pub mod encode;
pub mod exif;
pub mod header;
pub mod segments;
pub mod warp;

use std::path::{Path, PathBuf};

pub use decode::{
    decode, decode_file, decode_mask, decode_mask_file, decoder_is_running, run_decoder, to_picture,
};
pub use exif::Shot;
pub use header::{Header, PictureFormat, read_header};

/// Longest side of a picture in px.
pub const MAX_SIDE: u32 = gausset_core::Camera::MAX_SIDE;
/// Most pixels of a picture.
pub const MAX_PIXELS: u64 = 256 << 20;
/// Most bytes of a decoded picture.
pub const MAX_DECODED_BYTES: u64 = 1 << 30;
/// Longest picture file in bytes.
pub const MAX_FILE_BYTES: u64 = 512 << 20;

/// Why a picture cannot be used.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{}: {problem}", path.display())]
pub struct ImageError {
    /// The file.
    pub path: PathBuf,
    /// What is wrong.
    pub problem: ImageProblem,
}

impl ImageError {
    pub(crate) fn new(path: &Path, problem: ImageProblem) -> Self {
        Self { path: path.to_owned(), problem }
    }
}

/// What is wrong with a picture.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ImageProblem {
    /// It cannot be read: the system's reason, no regular file, or one that is too large.
    #[error("picture: {0}")]
    Io(String),
    /// Zero bytes.
    #[error("picture: is empty (0 bytes); copy it again")]
    Empty,
    /// Not a format that is read.
    #[error("picture: is {0} (expected JPEG or PNG); convert it")]
    Format(&'static str),
    /// A variant of a known format that is not decoded.
    #[error("picture: {0} cannot be decoded (expected {1}); convert it")]
    Variant(String, &'static str),
    /// The header makes no sense.
    #[error("picture: header is damaged: {0}")]
    Header(String),
    /// The file ends before the picture does.
    #[error("picture: the file ends too early; copy it again")]
    Truncated,
    /// Too many pixels.
    #[error(
        "picture: {width}x{height} px are too many (expected at most {MAX_SIDE} a side, {MAX_PIXELS} in all and {} decoded)",
        crate::units::bytes(MAX_DECODED_BYTES)
    )]
    Size {
        /// Width found.
        width: u32,
        /// Height found.
        height: u32,
    },
    /// The decoder gave up.
    #[error("picture: cannot be decoded: {0}")]
    Decode(String),
    /// The file is not the one whose header was read before.
    #[error(
        "picture: changed since the dataset was opened (expected {expected}, found {found}); start again"
    )]
    Changed {
        /// Facts recorded then.
        expected: String,
        /// Facts found now.
        found: String,
    },
}

/// A decoded picture, 8 bits a channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Picture {
    /// Width in px.
    pub width: u32,
    /// Height in px.
    pub height: u32,
    /// `height × width × 3`, straight where there is `alpha`.
    pub rgb: Vec<u8>,
    /// `height × width`; `None` when every pixel is opaque.
    pub alpha: Option<Vec<u8>>,
}

/// A mask: 0 = ignore, 255 = keep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mask {
    /// Width in px.
    pub width: u32,
    /// Height in px.
    pub height: u32,
    /// `height × width`.
    pub keep: Vec<u8>,
}

impl Mask {
    /// Value at the pixel that covers a place given as shares of width and height, clamped to the mask.
    #[must_use]
    #[inline]
    pub fn at_share(&self, x: f64, y: f64) -> u8 {
        let pixel = |share: f64, size: u32| ((share * f64::from(size)) as usize).min(size as usize - 1);
        self.keep[pixel(y, self.height) * self.width as usize + pixel(x, self.width)]
    }
}
