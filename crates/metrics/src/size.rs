//! The error of images with different sizes.

/// Images that must have the same size differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} is {found_width}x{found_height} px (expected {width}x{height}, the size of the render)")]
pub struct SizeMismatch {
    /// The image with the wrong size.
    pub what: &'static str,
    /// Expected width, px.
    pub width: u32,
    /// Expected height, px.
    pub height: u32,
    /// Width found, px.
    pub found_width: u32,
    /// Height found, px.
    pub found_height: u32,
}
