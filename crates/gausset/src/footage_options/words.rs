//! Value types of options that no other module defines.

/// Stereo layout of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StereoLayout {
    /// One eye above the other; the upper eye is used.
    TopBottom,
}

impl StereoLayout {
    /// All layouts.
    pub const ALL: [Self; 1] = [Self::TopBottom];

    /// Name as in options.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::TopBottom => "tb",
        }
    }
}
