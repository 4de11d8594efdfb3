//! The value types of options: parsing from text and formatting for messages.

use std::ffi::OsStr;
use std::num::IntErrorKind;
use std::path::PathBuf;
use std::str::FromStr;

use crate::block::Blocks;
use crate::config::ConfigError;
use crate::option_values::{
    Adam, Alpha, Background, Exposure, FreeSpace, InitPoints, MemoryLimit, NearPlane, Panoramas,
    ParseValueError, Quality, RandomBackground, SpzFrame, Strategy, TimeBudget, Up,
};
use crate::plan::StepPlan;

/// Why an option cannot be set from a text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SetError {
    /// There is no option of this name.
    #[error("{0}: no such option")]
    NoSuchOption(String),
    /// The text is not a value of the option.
    #[error(transparent)]
    Value(#[from] ParseValueError),
}

/// Syntax of the values of an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueSyntax {
    /// `true` or `false`; the bare name means `true`.
    Flag,
    /// A whole number, at most this one.
    Whole(u64),
    /// A finite floating-point number.
    Number,
    /// A file path.
    Path,
    /// One of a set of words.
    Word {
        /// The accepted words.
        words: &'static [&'static str],
    },
    /// Text with its own syntax.
    Text,
}

impl ValueSyntax {
    /// The value of a bare option name of this form, unless its row sets another one.
    pub(super) fn bare(self) -> Option<&'static str> {
        (self == Self::Flag).then_some("true")
    }

    /// Description of the values of this form.
    #[must_use]
    pub fn expected(self) -> String {
        match self {
            Self::Flag => "true|false".to_owned(),
            Self::Whole(u64::MAX) => "0 or more".to_owned(),
            Self::Whole(most) => format!("0..{most}"),
            Self::Number => "a number".to_owned(),
            Self::Path => "a path".to_owned(),
            Self::Word { words, .. } => words.join("|"),
            Self::Text => "text".to_owned(),
        }
    }
}

/// A value type of options.
pub(crate) trait OptionValue: Clone {
    /// Syntax of the type.
    const SYNTAX: ValueSyntax;

    /// Parses a text. The error says what was expected and found.
    fn from_text(text: &OsStr) -> Result<Self, ParseValueError>;

    /// Formats the value for messages.
    fn to_text(&self) -> String;

    /// Whether the value can be used: false for a number that is not finite in f32.
    fn is_usable(&self) -> bool {
        true
    }

    /// The value in the form in which files store it, or an error if they cannot.
    fn to_file_value(self, _option: &'static str) -> Result<Self, ConfigError> {
        Ok(self)
    }

    /// The option itself if this type is a path, otherwise `None`.
    fn as_path(_option: &mut Option<Self>) -> Option<&mut Option<PathBuf>> {
        None
    }
}

fn parse_error(expected: &str, found: &OsStr) -> ParseValueError {
    ParseValueError { expected: expected.to_owned(), found: found.display().to_string() }
}

impl OptionValue for bool {
    const SYNTAX: ValueSyntax = ValueSyntax::Flag;

    fn from_text(text: &OsStr) -> Result<Self, ParseValueError> {
        text.to_str().and_then(|text| text.parse().ok()).ok_or_else(|| parse_error("true|false", text))
    }

    fn to_text(&self) -> String {
        self.to_string()
    }
}

impl OptionValue for f64 {
    const SYNTAX: ValueSyntax = ValueSyntax::Number;

    fn from_text(text: &OsStr) -> Result<Self, ParseValueError> {
        text.to_str().and_then(|text| text.parse().ok()).ok_or_else(|| parse_error("a number", text))
    }

    fn to_text(&self) -> String {
        gausset_io::text::format_number(*self)
    }

    /// Devices compute in f32, so a number that overflows there is not usable either.
    fn is_usable(&self) -> bool {
        (*self as f32).is_finite()
    }

    /// Replaces -0 by 0: both are the same number, but only 0 is written and read back identically.
    fn to_file_value(self, _option: &'static str) -> Result<Self, ConfigError> {
        Ok(self + 0.0)
    }
}

impl OptionValue for PathBuf {
    const SYNTAX: ValueSyntax = ValueSyntax::Path;

    fn from_text(text: &OsStr) -> Result<Self, ParseValueError> {
        Ok(text.into())
    }

    fn to_text(&self) -> String {
        self.display().to_string()
    }

    fn to_file_value(self, option: &'static str) -> Result<Self, ConfigError> {
        if self.to_str().is_some() { Ok(self) } else { Err(ConfigError::NotUnicode { option, path: self }) }
    }

    fn as_path(option: &mut Option<Self>) -> Option<&mut Option<Self>> {
        Some(option)
    }
}

/// Why a text is not a whole number.
enum WholeNumberError {
    NotWhole,
    TooLarge,
}

impl WholeNumberError {
    const fn expected(self) -> &'static str {
        match self {
            Self::NotWhole => "a whole number, 0 or more",
            Self::TooLarge => "a smaller number",
        }
    }
}

/// Parses `30000`, `30k`, `1.5M`, `2G`, with suffixes for 10^3, 10^6 and 10^9.
fn whole_number(text: &str) -> Result<u64, WholeNumberError> {
    let factor = match text.as_bytes().last() {
        Some(b'k' | b'K') => 1_000,
        Some(b'm' | b'M') => 1_000_000,
        Some(b'g' | b'G') => 1_000_000_000,
        _ => 1u64,
    };
    let digits = if factor == 1 { text } else { &text[..text.len() - 1] };
    let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
    let has_bare_point = digits.ends_with('.');
    let is_number = !whole.is_empty() && !has_bare_point;
    let mut number = match whole.parse::<u64>() {
        Ok(whole) if is_number => whole.checked_mul(factor).ok_or(WholeNumberError::TooLarge)?,
        Err(error) if *error.kind() == IntErrorKind::PosOverflow => return Err(WholeNumberError::TooLarge),
        _ => return Err(WholeNumberError::NotWhole),
    };
    let mut place = factor;
    for digit in part.bytes() {
        // With its decimals the number must still be whole: 1.5k is 1500, 1.5 is refused.
        let value = char::from(digit).to_digit(10).ok_or(WholeNumberError::NotWhole)?;
        if place % 10 != 0 {
            return Err(WholeNumberError::NotWhole);
        }
        place /= 10;
        number = number.checked_add(u64::from(value) * place).ok_or(WholeNumberError::TooLarge)?;
    }
    Ok(number)
}

/// Implements [`OptionValue`] for unsigned integers.
macro_rules! whole_numbers {
    ($($type:ty),+) => {$(
        impl OptionValue for $type {
            const SYNTAX: ValueSyntax = ValueSyntax::Whole(<$type>::MAX as u64);

            fn from_text(text: &OsStr) -> Result<Self, ParseValueError> {
                let number = text.to_str().map_or(Err(WholeNumberError::NotWhole), whole_number);
                let number = number.map_err(|misfit_is| parse_error(misfit_is.expected(), text))?;
                Self::try_from(number).map_err(|_| parse_error(&Self::SYNTAX.expected(), text))
            }

            fn to_text(&self) -> String {
                self.to_string()
            }

            /// TOML has signed 64-bit integers.
            fn to_file_value(self, option: &'static str) -> Result<Self, ConfigError> {
                match i64::try_from(self) {
                    Ok(_) => Ok(self),
                    Err(_) => Err(ConfigError::Range {
                        option,
                        expected: "0..2^63-1",
                        found: self.to_string(),
                    }),
                }
            }
        }
    )+};
}

whole_numbers!(u8, u32, u64);

/// Implements [`OptionValue`] for types whose `FromStr` returns the error message.
macro_rules! texts {
    ($($type:ty: $form:expr,)+) => {$(
        impl OptionValue for $type {
            const SYNTAX: ValueSyntax = $form;

            fn from_text(text: &OsStr) -> Result<Self, ParseValueError> {
                parse_word(text)
            }

            fn to_text(&self) -> String {
                self.to_string()
            }
        }
    )+};
}

fn parse_word<T: FromStr<Err = ParseValueError>>(text: &OsStr) -> Result<T, ParseValueError> {
    text.to_str().ok_or_else(|| parse_error("Unicode text", text))?.parse()
}

impl OptionValue for NearPlane {
    const SYNTAX: ValueSyntax = ValueSyntax::Text;

    fn from_text(text: &OsStr) -> Result<Self, ParseValueError> {
        parse_word(text)
    }

    fn to_text(&self) -> String {
        self.to_string()
    }

    /// As for numbers.
    fn is_usable(&self) -> bool {
        match self {
            Self::Auto => true,
            Self::Distance(distance) => distance.is_usable(),
        }
    }
}

const fn word_syntax(words: &'static [&'static str]) -> ValueSyntax {
    ValueSyntax::Word { words }
}

texts! {
    Adam: word_syntax(Self::WORDS),
    Alpha: word_syntax(Self::WORDS),
    Exposure: word_syntax(Self::WORDS),
    FreeSpace: word_syntax(Self::WORDS),
    InitPoints: word_syntax(Self::WORDS),
    Panoramas: word_syntax(Self::WORDS),
    SpzFrame: word_syntax(Self::WORDS),
    Quality: word_syntax(Self::WORDS),
    RandomBackground: word_syntax(Self::WORDS),
    Strategy: word_syntax(Self::WORDS),
    Up: word_syntax(Self::WORDS),
    Background: ValueSyntax::Text,
    Blocks: ValueSyntax::Text,
    MemoryLimit: ValueSyntax::Text,
    StepPlan: ValueSyntax::Text,
    TimeBudget: ValueSyntax::Text,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_may_end_in_k_m_or_g() {
        let read = |text: &str| u64::from_text(OsStr::new(text)).ok();
        for (text, number) in [
            ("30000", 30_000),
            ("30k", 30_000),
            ("30K", 30_000),
            ("1.5M", 1_500_000),
            ("0.25m", 250_000),
            ("2G", 2_000_000_000),
            ("0", 0),
        ] {
            assert_eq!(read(text), Some(number), "{text}");
        }
        for text in ["", "k", "1.5", "1.k", ".5k", "1.2345k", "-1", "1e3", "3kk", "1 k", "20000000000G"] {
            assert_eq!(read(text), None, "{text}");
        }
        assert!(u8::from_text(OsStr::new("1k")).is_err());
        let line = u64::from_text(OsStr::new("99999999999G")).unwrap_err();
        assert_eq!(line.to_string(), "expected a smaller number, found `99999999999G`");
    }
}
