//! Sizes of pictures that do not fit.

/// Pictures that should have one size have two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} is {found_width}x{found_height} px (expected {width}x{height}, the size of the render)")]
pub struct SizeMismatch {
    /// Which picture does not fit.
    pub what: &'static str,
    /// Width that was expected.
    pub width: u32,
    /// Height that was expected.
    pub height: u32,
    /// Width found.
    pub found_width: u32,
    /// Height found.
    pub found_height: u32,
}
