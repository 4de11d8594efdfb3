//! The types that options have: how a value is read from what somebody typed, and told in a message.

use std::ffi::OsStr;
use std::num::IntErrorKind;
use std::path::PathBuf;
use std::str::FromStr;

use crate::config::ConfigError;
use crate::plan::Plan;
use crate::words::{
    Adam, Alpha, Background, Exposure, FreeSpace, InitPoints, MemoryLimit, Panoramas, ParseWordError,
    Quality, RandomBackground, Strategy, TimeBudget, Up,
};

/// Why an option cannot be given what somebody has typed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SetError {
    /// There is none of this name.
    #[error("{0}: no such option")]
    NoSuchOption(String),
    /// It has no such value.
    #[error(transparent)]
    Value(#[from] ParseWordError),
}

/// How the values of an option are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// `true` or `false`; the bare name means `true`.
    Flag,
    /// A whole number up to this one.
    Whole(u64),
    /// A number.
    Number,
    /// A path.
    Path,
    /// A word.
    Word {
        /// All of them.
        words: &'static [&'static str],
    },
    /// Text in a form of its own.
    Text,
}

impl Form {
    /// What the bare name of an option of this form means, unless its row says otherwise.
    pub(super) fn bare(self) -> Option<&'static str> {
        (self == Self::Flag).then_some("true")
    }

    /// Which values have this form.
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

/// A type that options have.
pub(crate) trait Value: Clone {
    /// How it is written.
    const FORM: Form;

    /// Reads what somebody has typed, or says what was expected and found.
    fn from_text(text: &OsStr) -> Result<Self, ParseWordError>;

    /// The value for messages.
    fn to_text(&self) -> String;

    /// Whether it means something: a number that is none does not.
    fn is_usable(&self) -> bool {
        true
    }

    /// The value as files hold it, if they can.
    fn for_files(self, _option: &'static str) -> Result<Self, ConfigError> {
        Ok(self)
    }

    /// The option, if this type is a path.
    fn as_path(_option: &mut Option<Self>) -> Option<&mut Option<PathBuf>> {
        None
    }
}

fn misfit(expected: &str, found: &OsStr) -> ParseWordError {
    ParseWordError { expected: expected.to_owned(), found: found.display().to_string() }
}

impl Value for bool {
    const FORM: Form = Form::Flag;

    fn from_text(text: &OsStr) -> Result<Self, ParseWordError> {
        text.to_str().and_then(|text| text.parse().ok()).ok_or_else(|| misfit("true|false", text))
    }

    fn to_text(&self) -> String {
        self.to_string()
    }
}

impl Value for f64 {
    const FORM: Form = Form::Number;

    fn from_text(text: &OsStr) -> Result<Self, ParseWordError> {
        text.to_str().and_then(|text| text.parse().ok()).ok_or_else(|| misfit("a number", text))
    }

    fn to_text(&self) -> String {
        gausset_io::units::number(*self)
    }

    /// Numbers travel as f32 to the device: what overflows there is not a number either.
    fn is_usable(&self) -> bool {
        (*self as f32).is_finite()
    }

    /// -0 and 0 are one number, and only one of them is written back as it was.
    fn for_files(self, _option: &'static str) -> Result<Self, ConfigError> {
        Ok(self + 0.0)
    }
}

impl Value for PathBuf {
    const FORM: Form = Form::Path;

    fn from_text(text: &OsStr) -> Result<Self, ParseWordError> {
        Ok(text.into())
    }

    fn to_text(&self) -> String {
        self.display().to_string()
    }

    fn for_files(self, option: &'static str) -> Result<Self, ConfigError> {
        if self.to_str().is_some() { Ok(self) } else { Err(ConfigError::NotUnicode { option, path: self }) }
    }

    fn as_path(option: &mut Option<Self>) -> Option<&mut Option<Self>> {
        Some(option)
    }
}

/// Why text is no whole number.
enum Misfit {
    NotWhole,
    TooLarge,
}

impl Misfit {
    const fn expected(self) -> &'static str {
        match self {
            Self::NotWhole => "a whole number, 0 or more",
            Self::TooLarge => "a smaller number",
        }
    }
}

/// `30000`, `30k`, `1.5M`, `2G`: thousands, millions, thousands of millions.
fn whole_number(text: &str) -> Result<u64, Misfit> {
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
        Ok(whole) if is_number => whole.checked_mul(factor).ok_or(Misfit::TooLarge)?,
        Err(error) if *error.kind() == IntErrorKind::PosOverflow => return Err(Misfit::TooLarge),
        _ => return Err(Misfit::NotWhole),
    };
    let mut place = factor;
    for digit in part.bytes() {
        // A digit behind the point must still be whole: 1.5k is 1500, 1.5 is nothing.
        let value = char::from(digit).to_digit(10).ok_or(Misfit::NotWhole)?;
        if place % 10 != 0 {
            return Err(Misfit::NotWhole);
        }
        place /= 10;
        number = number.checked_add(u64::from(value) * place).ok_or(Misfit::TooLarge)?;
    }
    Ok(number)
}

/// Whole numbers of some width.
macro_rules! whole_numbers {
    ($($type:ty),+) => {$(
        impl Value for $type {
            const FORM: Form = Form::Whole(<$type>::MAX as u64);

            fn from_text(text: &OsStr) -> Result<Self, ParseWordError> {
                let number = text.to_str().map_or(Err(Misfit::NotWhole), whole_number);
                let number = number.map_err(|misfit_is| misfit(misfit_is.expected(), text))?;
                Self::try_from(number).map_err(|_| misfit(&Self::FORM.expected(), text))
            }

            fn to_text(&self) -> String {
                self.to_string()
            }

            /// TOML has signed 64-bit integers.
            fn for_files(self, option: &'static str) -> Result<Self, ConfigError> {
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

/// Types that say themselves what they expect.
macro_rules! texts {
    ($($type:ty: $form:expr,)+) => {$(
        impl Value for $type {
            const FORM: Form = $form;

            fn from_text(text: &OsStr) -> Result<Self, ParseWordError> {
                from_words(text)
            }

            fn to_text(&self) -> String {
                self.to_string()
            }
        }
    )+};
}

fn from_words<T: FromStr<Err = ParseWordError>>(text: &OsStr) -> Result<T, ParseWordError> {
    text.to_str().ok_or_else(|| misfit("Unicode text", text))?.parse()
}

const fn words(words: &'static [&'static str]) -> Form {
    Form::Word { words }
}

texts! {
    Adam: words(Self::WORDS),
    Alpha: words(Self::WORDS),
    Exposure: words(Self::WORDS),
    FreeSpace: words(Self::WORDS),
    InitPoints: words(Self::WORDS),
    Panoramas: words(Self::WORDS),
    Quality: words(Self::WORDS),
    RandomBackground: words(Self::WORDS),
    Strategy: words(Self::WORDS),
    Up: words(Self::WORDS),
    Background: Form::Text,
    MemoryLimit: Form::Text,
    Plan: Form::Text,
    TimeBudget: Form::Text,
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
