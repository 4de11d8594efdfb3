//! Value types of options that no other module defines.

use std::ffi::OsStr;

use gausset_train::ParseValueError;

use crate::panos::source::is_image_extension;

/// Words in which the file names of both lenses of a frame differ, those of the first lens first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LensWords(pub [String; 2]);

impl LensWords {
    /// Parses two different words with a space between them; extensions of images are ignored.
    ///
    /// # Errors
    /// Other than two words, or one word twice.
    pub fn parse(text: &str) -> Result<Self, ParseValueError> {
        let stem = |word: &str| match word.rsplit_once('.') {
            Some((stem, extension)) if is_image_extension(OsStr::new(extension)) => stem.to_owned(),
            _ => word.to_owned(),
        };
        let words: Vec<String> = text.split_whitespace().map(stem).collect();
        match <[String; 2]>::try_from(words) {
            Ok([first, second]) if first != second => Ok(Self([first, second])),
            _ => {
                let expected = "two different words of file names".to_owned();
                Err(ParseValueError { expected, found: text.to_owned() })
            }
        }
    }
}

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
