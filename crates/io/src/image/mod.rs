//! Pictures: headers, decoding, filtering, undistortion, encoding.

use std::path::PathBuf;

/// Why a picture cannot be used.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{}: {problem}", path.display())]
pub struct ImageError {
    /// The file.
    pub path: PathBuf,
    /// What is wrong.
    pub problem: ImageProblem,
}

/// What is wrong with a picture.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ImageProblem {
    /// The decoder gave up.
    #[error("picture: cannot be decoded: {0}")]
    Decode(String),
}

impl ImageError {
    pub(crate) fn placeholder() -> Self {
        Self { path: PathBuf::new(), problem: ImageProblem::Decode("not yet".to_owned()) }
    }
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
