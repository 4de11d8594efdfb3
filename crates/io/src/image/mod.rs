//! Images: headers, decoding, filtering, undistortion, encoding.
//!
//! Decoders are treated as untrusted: [`header`] reads size and format with a separate parser and rejects files beyond
//! the limits before any decoder sees them. EXIF orientation never rotates an image, because poses refer to the stored
//! pixels; colour profiles are ignored.

pub mod area_filter;
pub mod caption;
mod check;
pub mod decode;
pub mod encode;
pub mod exif;
pub mod exif_write;
pub mod formats;
pub mod header;
pub mod heif;
pub mod segments;
mod tiff_header;
pub(crate) mod turn;
pub mod warp;
mod webp_header;

use std::path::{Path, PathBuf};

pub use check::{check, check_file};
pub use decode::{
    catch_decoder_panic, decode, decode_file, decode_mask, decode_mask_file, decoder_is_running, to_picture,
};
pub use exif::Exposure;
pub use header::{ImageFormat, ImageHeader, read_exif, read_header};
pub use heif::{HeifHeader, read_heif_header};
pub use turn::{inverse_orientation, stored_mask_turn, turned_size, upright, upright_mask, upright_pose};

/// Longest side of an image in px.
pub const MAX_SIDE: u32 = gausset_core::Camera::MAX_SIDE;
/// Largest number of pixels of an image.
pub const MAX_PIXELS: u64 = 256 << 20;
/// Largest number of bytes of a decoded image.
pub const MAX_DECODED_BYTES: u64 = 1 << 30;
/// Longest image file in bytes.
pub const MAX_FILE_BYTES: u64 = 512 << 20;

/// Why an image cannot be used.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{}: {problem}", path.display())]
pub struct ImageError {
    /// The image or mask file.
    pub path: PathBuf,
    /// Why the file cannot be used.
    pub problem: ImageProblem,
}

impl ImageError {
    pub(crate) fn new(path: &Path, problem: ImageProblem) -> Self {
        Self { path: path.to_owned(), problem }
    }
}

/// Problem of an image.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ImageProblem {
    /// The file cannot be read: a system error, not a regular file, or too large.
    #[error("picture: {0}")]
    Io(String),
    /// The file is empty.
    #[error("picture: is empty (0 bytes); copy it again")]
    Empty,
    /// The format is not supported.
    #[error("picture: is {0} (expected JPEG, PNG, TIFF or WebP); convert it")]
    Format(&'static str),
    /// A variant of a supported format that is not decoded.
    #[error("picture: {0} cannot be decoded (expected {1}); convert it")]
    Variant(String, &'static str),
    /// The header is invalid.
    #[error("picture: header is damaged: {0}")]
    Header(String),
    /// The file is truncated.
    #[error("picture: the file ends too early; copy it again")]
    Truncated,
    /// There are too many pixels.
    #[error(
        "picture: {width}x{height} px are too many (expected at most {MAX_SIDE} a side, {MAX_PIXELS} in all and {} decoded)",
        crate::text::format_bytes(MAX_DECODED_BYTES)
    )]
    Size {
        /// Width found, px.
        width: u32,
        /// Height found, px.
        height: u32,
    },
    /// The decoder failed.
    #[error("picture: cannot be decoded: {0}")]
    Decode(String),
    /// The file has changed since its header was read.
    #[error(
        "picture: changed since the dataset was opened (expected {expected}, found {found}); start again"
    )]
    Changed {
        /// Property recorded then.
        expected: String,
        /// Property found now.
        found: String,
    },
}

/// A decoded image, 8 bits per channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecodedImage {
    /// Width in px.
    pub width: u32,
    /// Height in px.
    pub height: u32,
    /// `height × width × 3`; straight colours if there is `alpha`.
    pub rgb: Vec<u8>,
    /// `height × width`; `None` if every pixel is opaque.
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
    pub values: Vec<u8>,
}

impl Mask {
    /// Value at a position given as fractions of width and height, clamped to the mask.
    ///
    /// ```
    /// use gausset_io::image::Mask;
    ///
    /// let mask = Mask { width: 2, height: 1, values: vec![0, 255] };
    /// assert_eq!([0.0, 0.4, 0.6, 1.0].map(|x| mask.at_fraction(x, 0.5)), [0, 0, 255, 255]);
    /// ```
    #[must_use]
    #[inline]
    pub fn at_fraction(&self, x: f64, y: f64) -> u8 {
        let pixel = |share: f64, size: u32| ((share * f64::from(size)) as usize).min(size as usize - 1);
        self.values[pixel(y, self.height) * self.width as usize + pixel(x, self.width)]
    }

    /// The values at another size: each pixel takes the mask pixel under its centre.
    #[must_use]
    pub fn resampled(&self, width: u32, height: u32) -> Vec<u8> {
        let share = |i: u32, n: u32| (f64::from(i) + 0.5) / f64::from(n);
        (0..height)
            .flat_map(|y| (0..width).map(move |x| self.at_fraction(share(x, width), share(y, height))))
            .collect()
    }
}
