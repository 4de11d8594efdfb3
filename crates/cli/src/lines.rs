//! Text output as a list of lines without control characters.
//!
//! Names of images, classes and files are untrusted: an escape sequence or line break could colour the screen,
//! hide output or forge a line. Results are therefore [`Lines`] instead of strings: every line is made [`escape_controls`]
//! when it is added, and only this module inserts line breaks.

use std::ops::{Add, AddAssign};

use gausset_io::text::escape_controls;

/// Whole lines, each ended by a line break.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lines(String);

impl Lines {
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// Splits a text that this program or one of its libraries has formatted into lines.
    pub(crate) fn from_text(text: &str) -> Self {
        text.lines().map(Self::from).fold(Self::default(), Add::add)
    }
}

/// One line; line breaks in it are escaped.
impl From<&str> for Lines {
    fn from(line: &str) -> Self {
        Self(format!("{}\n", escape_controls(line)))
    }
}

impl From<String> for Lines {
    fn from(line: String) -> Self {
        line.as_str().into()
    }
}

impl<L: Into<Self>> AddAssign<L> for Lines {
    fn add_assign(&mut self, more: L) {
        self.0 += &more.into().0;
    }
}

impl<L: Into<Self>> Add<L> for Lines {
    type Output = Self;

    fn add(mut self, more: L) -> Self {
        self += more;
        self
    }
}

/// Concatenates all lines.
impl<L: Into<Self>> FromIterator<L> for Lines {
    fn from_iter<I: IntoIterator<Item = L>>(lines: I) -> Self {
        lines.into_iter().fold(Self::default(), Add::add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_end_its_line() {
        let lines = Lines::from("a\nb") + String::from("\x1b[2J") + "" + Lines::from_text("c\nd\u{202e}\n");
        assert_eq!(lines.as_str(), "a\\nb\n\\u{1b}[2J\n\nc\nd\\u{202e}\n");
    }
}
