//! The value types of options: parsing from text, formatting for help, and their form in records.

use std::ffi::OsStr;
use std::num::{ParseFloatError, ParseIntError};
use std::path::PathBuf;

use gausset_pano::cube::{Face, StripOrder};
use gausset_pano::equalise::Equalise;
use gausset_pano::layout::Layout;
use gausset_pano::look::{ColourSettings, ColourSettingsError};
use gausset_pano::selection::SelectBy;
use gausset_train::ParseValueError;
use serde_json::{Value, json};

use super::words::{LensWords, StereoLayout};
use crate::mask_engine::EngineKind;
use crate::panos::{LensArrangement, SourceProjection};
use crate::records::canonical_path;

/// Why a text is not a value of an option.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ValueError {
    /// It is none of the accepted values.
    #[error(transparent)]
    Refused(#[from] ParseValueError),
    /// It is not a whole number.
    #[error(transparent)]
    Whole(#[from] ParseIntError),
    /// It is not a number.
    #[error(transparent)]
    Number(#[from] ParseFloatError),
    /// It is not a list of colour settings.
    #[error(transparent)]
    Colour(#[from] ColourSettingsError),
}

pub(super) fn refused(expected: impl Into<String>, found: &OsStr) -> ValueError {
    ParseValueError { expected: expected.into(), found: found.display().to_string() }.into()
}

/// Syntax of the values of an option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ValueSyntax {
    /// No value: the bare name switches the option on.
    Flag,
    /// A whole number from `least` to `most`.
    Whole {
        /// Smallest value.
        least: u32,
        /// Largest value.
        most: u32,
    },
    /// A file path.
    Path,
    /// One of these words.
    Words(Vec<&'static str>),
    /// Text with its own syntax.
    Text,
}

impl ValueSyntax {
    /// The accepted values in words; empty = any.
    pub(super) fn expected(&self) -> String {
        match self {
            Self::Whole { least, most: u32::MAX } => format!("{least} or more"),
            Self::Whole { least, most } => format!("{least}..{most}"),
            Self::Words(words) => words.join("|"),
            Self::Flag | Self::Path | Self::Text => String::new(),
        }
    }
}

/// A value type of options. `None` of an `Option` is an option that is not set.
pub trait OptionValue: Clone + PartialEq + Send + Sync + 'static {
    /// Syntax of the type.
    fn syntax() -> ValueSyntax;

    /// Parses a text.
    ///
    /// # Errors
    /// The text is malformed.
    fn from_text(text: &OsStr) -> Result<Self, ValueError>;

    /// Formats the value as a default in the help; `None` if there is nothing to show.
    fn to_text(&self) -> Option<String>;

    /// The value in a record of options.
    fn to_record(&self) -> Value {
        json!(self.to_text())
    }
}

/// A text, or an error that expects one.
fn utf8(text: &OsStr) -> Result<&str, ValueError> {
    text.to_str().ok_or_else(|| refused("UTF-8 text", text))
}

impl<T: OptionValue> OptionValue for Option<T> {
    fn syntax() -> ValueSyntax {
        T::syntax()
    }

    fn from_text(text: &OsStr) -> Result<Self, ValueError> {
        T::from_text(text).map(Some)
    }

    fn to_text(&self) -> Option<String> {
        self.as_ref().and_then(T::to_text)
    }

    fn to_record(&self) -> Value {
        self.as_ref().map_or(Value::Null, T::to_record)
    }
}

impl OptionValue for bool {
    fn syntax() -> ValueSyntax {
        ValueSyntax::Flag
    }

    fn from_text(text: &OsStr) -> Result<Self, ValueError> {
        utf8(text)?.parse().map_err(|_| refused("true|false", text))
    }

    fn to_text(&self) -> Option<String> {
        None
    }

    fn to_record(&self) -> Value {
        json!(self)
    }
}

impl OptionValue for u32 {
    fn syntax() -> ValueSyntax {
        ValueSyntax::Whole { least: 0, most: Self::MAX }
    }

    fn from_text(text: &OsStr) -> Result<Self, ValueError> {
        Ok(utf8(text)?.parse()?)
    }

    fn to_text(&self) -> Option<String> {
        Some(self.to_string())
    }

    fn to_record(&self) -> Value {
        json!(self)
    }
}

impl OptionValue for f64 {
    fn syntax() -> ValueSyntax {
        ValueSyntax::Text
    }

    fn from_text(text: &OsStr) -> Result<Self, ValueError> {
        Ok(utf8(text)?.parse()?)
    }

    fn to_text(&self) -> Option<String> {
        Some(self.to_string())
    }

    fn to_record(&self) -> Value {
        json!(self)
    }
}

impl OptionValue for PathBuf {
    fn syntax() -> ValueSyntax {
        ValueSyntax::Path
    }

    fn from_text(text: &OsStr) -> Result<Self, ValueError> {
        Ok(text.into())
    }

    fn to_text(&self) -> Option<String> {
        Some(self.display().to_string())
    }

    fn to_record(&self) -> Value {
        json!(canonical_path(self))
    }
}

impl OptionValue for String {
    fn syntax() -> ValueSyntax {
        ValueSyntax::Text
    }

    fn from_text(text: &OsStr) -> Result<Self, ValueError> {
        utf8(text).map(str::to_owned)
    }

    fn to_text(&self) -> Option<String> {
        Some(self.clone())
    }
}

impl OptionValue for LensWords {
    fn syntax() -> ValueSyntax {
        ValueSyntax::Text
    }

    fn from_text(text: &OsStr) -> Result<Self, ValueError> {
        Ok(Self::parse(utf8(text)?)?)
    }

    fn to_text(&self) -> Option<String> {
        Some(self.0.join(" "))
    }
}

impl OptionValue for [Face; 6] {
    fn syntax() -> ValueSyntax {
        ValueSyntax::Text
    }

    fn from_text(text: &OsStr) -> Result<Self, ValueError> {
        StripOrder::parse_faces(utf8(text)?).ok_or_else(|| refused("each of the letters rludfb once", text))
    }

    fn to_text(&self) -> Option<String> {
        Some(self.map(Face::name).join(" "))
    }
}

impl OptionValue for [u8; 6] {
    fn syntax() -> ValueSyntax {
        ValueSyntax::Text
    }

    fn from_text(text: &OsStr) -> Result<Self, ValueError> {
        StripOrder::parse_turns(utf8(text)?).ok_or_else(|| refused("six digits 0 to 3", text))
    }

    fn to_text(&self) -> Option<String> {
        Some(format!("{self:?}"))
    }
}

impl OptionValue for ColourSettings {
    fn syntax() -> ValueSyntax {
        ValueSyntax::Text
    }

    fn from_text(text: &OsStr) -> Result<Self, ValueError> {
        Ok(Self::parse(utf8(text)?)?)
    }

    fn to_text(&self) -> Option<String> {
        Some(self.text()).filter(|text| !text.is_empty())
    }
}

/// Types with a constant `ALL` and a method `name`.
macro_rules! word_values {
    ($($type:ty),+) => {$(
        impl OptionValue for $type {
            fn syntax() -> ValueSyntax {
                ValueSyntax::Words(Self::ALL.map(|value| value.name()).to_vec())
            }

            fn from_text(text: &OsStr) -> Result<Self, ValueError> {
                let found = Self::ALL.into_iter().find(|value| text == value.name());
                let expected = || Self::ALL.map(|value| value.name()).join("|");
                found.ok_or_else(|| refused(expected(), text))
            }

            fn to_text(&self) -> Option<String> {
                Some(self.name().to_owned())
            }
        }
    )+};
}

word_values!(EngineKind, Equalise, Layout, LensArrangement, SelectBy, SourceProjection, StereoLayout);
