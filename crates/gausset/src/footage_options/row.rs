//! A row of the table of options: the properties of one option besides name, type and help.

use std::ffi::OsStr;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use serde_json::Value;

use super::value::{OptionValue, ValueError, ValueSyntax, refused};
use crate::panos::TrackOptions;

/// The level of help that lists an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HelpLevel {
    /// The short help.
    Common,
    /// The long help.
    Usual,
    /// The help of all options alone.
    Rare,
}

/// Checks the text of a value.
pub type ValueCheck = Arc<dyn Fn(&str) -> Result<(), ValueError> + Send + Sync>;

/// An option as front ends see it: command line, documentation.
#[derive(Clone)]
pub struct OptionInfo {
    /// Long name, which is also the key in records and messages.
    pub key: &'static str,
    /// Placeholder of its value: `N`, `DIR`.
    pub value_name: &'static str,
    /// The heading under which help and documentation list it; empty = none of its own.
    pub heading: &'static str,
    /// Help text without a full stop.
    pub help: String,
    /// The default value, if there is one to show.
    pub default: Option<String>,
    /// Syntax of its values.
    pub syntax: ValueSyntax,
    /// The accepted values in words; empty = any.
    pub expected: String,
    /// Whether its help text already lists the accepted words.
    pub has_words_in_help: bool,
    /// Whether a value may begin with a hyphen.
    pub allows_hyphen: bool,
    /// The level of help that lists it.
    pub level: HelpLevel,
    /// Keys of options that exclude it.
    pub conflicts: &'static [&'static str],
    /// Key of an option without which it has no effect.
    pub needs: Option<&'static str>,
    /// Checks a value.
    pub check: ValueCheck,
}

impl fmt::Debug for OptionInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OptionInfo").field("key", &self.key).finish_non_exhaustive()
    }
}

/// Options that stand together: a struct with a field per option.
pub trait OptionGroup: Clone + Default + fmt::Debug + Send + Sync + 'static {
    /// The options of the group, in the order of the help.
    fn table() -> Vec<OptionInfo>;

    /// Sets the option of this key from text; `None` = the group has no such option.
    ///
    /// # Errors
    /// The text is malformed or out of range.
    fn set(&mut self, key: &str, text: &OsStr) -> Option<Result<(), ValueError>>;

    /// All options that results depend on, by key; `null` = not set, or the default.
    fn record(&self) -> Vec<(&'static str, Value)>;
}

/// The values that an option accepts.
#[derive(Clone)]
struct Range<T> {
    expected: &'static str,
    accepts: fn(&T) -> bool,
}

/// A row of the table.
#[derive(Clone)]
pub(super) struct OptionRow<T> {
    key: &'static str,
    value_name: &'static str,
    default: T,
    syntax: ValueSyntax,
    range: Option<Range<T>>,
    has_words_in_help: bool,
    allows_hyphen: bool,
    level: HelpLevel,
    conflicts: &'static [&'static str],
    needs: Option<&'static str>,
    is_listed: bool,
    recording: Recording,
}

/// When a record of options contains an option.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Recording {
    /// With every value.
    Always,
    /// With another value than the default, otherwise `null`.
    Changed,
    /// Never: results do not depend on it.
    Never,
}

/// An option with its key, the placeholder of its value, and its default.
pub(super) fn option<T: OptionValue>(
    key: &'static str,
    value_name: &'static str,
    default: T,
) -> OptionRow<T> {
    OptionRow {
        key,
        value_name,
        default,
        syntax: T::syntax(),
        range: None,
        has_words_in_help: false,
        allows_hyphen: false,
        level: HelpLevel::Usual,
        conflicts: &[],
        needs: None,
        is_listed: true,
        recording: Recording::Changed,
    }
}

/// An option without a value, which is off by default.
pub(super) fn flag(key: &'static str) -> OptionRow<bool> {
    option(key, "", false)
}

/// A value of a group that is not one of its options.
pub(super) fn unlisted<T: OptionValue>(default: T) -> OptionRow<T> {
    OptionRow { is_listed: false, recording: Recording::Never, ..option("", "", default) }
}

impl<T: OptionValue> OptionRow<T> {
    /// The row of a field of this type.
    pub(super) fn of_type(row: Self) -> Self {
        row
    }

    /// Limits a whole number.
    pub(super) fn within(self, least: u32, most: u32) -> Self {
        Self { syntax: ValueSyntax::Whole { least, most }, ..self }
    }

    /// Which values are accepted, in words and as a function.
    pub(super) fn range(self, expected: &'static str, accepts: fn(&T) -> bool) -> Self {
        Self { range: Some(Range { expected, accepts }), ..self }
    }

    /// Marks that the help text lists the accepted words, so that front ends do not repeat them.
    pub(super) fn help_lists_words(self) -> Self {
        Self { has_words_in_help: true, ..self }
    }

    /// Accepts values that begin with a hyphen.
    pub(super) fn allow_hyphen(self) -> Self {
        Self { allows_hyphen: true, ..self }
    }

    /// The options that exclude this one.
    pub(super) fn conflicts(self, conflicts: &'static [&'static str]) -> Self {
        Self { conflicts, ..self }
    }

    /// The option without which this one has no effect.
    pub(super) fn needs(self, key: &'static str) -> Self {
        Self { needs: Some(key), ..self }
    }

    /// Lists the option in the short help.
    pub(super) fn common(self) -> Self {
        Self { level: HelpLevel::Common, ..self }
    }

    /// Lists the option in the help of all options alone.
    pub(super) fn rare(self) -> Self {
        Self { level: HelpLevel::Rare, ..self }
    }

    /// Records the default, too, as the first version of the record did. Options that are added later are recorded where
    /// they differ from their default, so that older records stay valid.
    pub(super) fn always_recorded(self) -> Self {
        Self { recording: Recording::Always, ..self }
    }

    /// Leaves the option out of records, because results do not depend on it.
    pub(super) fn not_recorded(self) -> Self {
        Self { recording: Recording::Never, ..self }
    }

    fn parse(&self, text: &OsStr) -> Result<T, ValueError> {
        if let ValueSyntax::Whole { least, most } = self.syntax
            && let Ok(number) = text.to_string_lossy().parse::<u32>()
            && !(least..=most).contains(&number)
        {
            return Err(refused(self.syntax.expected(), text));
        }
        match &self.range {
            None => T::from_text(text),
            Some(range) => {
                let value = T::from_text(text).ok().filter(range.accepts);
                value.ok_or_else(|| refused(range.expected, text))
            }
        }
    }
}

/// A group inside another one.
pub(super) struct NestedGroup<T>(PhantomData<T>);

impl<T> Default for NestedGroup<T> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

/// A field of a group: an option, or a group of them.
pub(super) trait GroupField<T> {
    /// The value if nothing is given.
    fn default_value(self) -> T;

    /// The options of the field.
    fn table(self, heading: &'static str, help: &str) -> Vec<OptionInfo>;

    /// As [`OptionGroup::set`].
    fn set(self, value: &mut T, key: &str, text: &OsStr) -> Option<Result<(), ValueError>>;

    /// As [`OptionGroup::record`].
    fn record(self, value: &T) -> Vec<(&'static str, Value)>;
}

impl<T: OptionValue> GroupField<T> for OptionRow<T> {
    fn default_value(self) -> T {
        self.default
    }

    fn table(self, heading: &'static str, help: &str) -> Vec<OptionInfo> {
        if !self.is_listed {
            return Vec::new();
        }
        let row = self.clone();
        vec![OptionInfo {
            key: self.key,
            value_name: self.value_name,
            heading,
            help: help.trim().trim_end_matches('.').to_owned(),
            default: self.default.to_text(),
            expected: self
                .range
                .as_ref()
                .map_or_else(|| self.syntax.expected(), |range| range.expected.to_owned()),
            syntax: self.syntax,
            has_words_in_help: self.has_words_in_help,
            allows_hyphen: self.allows_hyphen,
            level: self.level,
            conflicts: self.conflicts,
            needs: self.needs,
            check: Arc::new(move |text| row.parse(OsStr::new(text)).map(drop)),
        }]
    }

    fn set(self, value: &mut T, key: &str, text: &OsStr) -> Option<Result<(), ValueError>> {
        (self.is_listed && key == self.key).then(|| self.parse(text).map(|parsed| *value = parsed))
    }

    fn record(self, value: &T) -> Vec<(&'static str, Value)> {
        let is_default = *value == self.default;
        match self.recording {
            Recording::Never => Vec::new(),
            Recording::Changed if is_default => vec![(self.key, Value::Null)],
            Recording::Changed | Recording::Always => vec![(self.key, value.to_record())],
        }
    }
}

impl<T: OptionGroup> GroupField<T> for NestedGroup<T> {
    fn default_value(self) -> T {
        T::default()
    }

    fn table(self, heading: &'static str, _help: &str) -> Vec<OptionInfo> {
        let mut options = T::table();
        for option in options.iter_mut().filter(|option| option.heading.is_empty()) {
            option.heading = heading;
        }
        options
    }

    fn set(self, value: &mut T, key: &str, text: &OsStr) -> Option<Result<(), ValueError>> {
        value.set(key, text)
    }

    fn record(self, value: &T) -> Vec<(&'static str, Value)> {
        value.record()
    }
}

/// A value that belongs to a group without being one of its options.
impl OptionGroup for Option<TrackOptions> {
    fn table() -> Vec<OptionInfo> {
        Vec::new()
    }

    fn set(&mut self, _key: &str, _text: &OsStr) -> Option<Result<(), ValueError>> {
        None
    }

    fn record(&self) -> Vec<(&'static str, Value)> {
        Vec::new()
    }
}

/// Generates a struct per group of options, and its [`OptionGroup`]. A field without a row is a group itself.
macro_rules! option_groups {
    ($(
        $(#[doc = $about:literal])+
        $group:ident under $heading:literal {
            $($(#[doc = $help:literal])+ $name:ident: $type:ty $(= $row:expr)?;)+
        }
    )+) => {
        $(
            $(#[doc = $about])+
            #[derive(Clone, Debug, PartialEq)]
            pub struct $group {
                $($(#[doc = $help])+ pub $name: $type,)+
            }

            impl Default for $group {
                fn default() -> Self {
                    Self { $($name: field!($type $(, $row)?).default_value(),)+ }
                }
            }

            impl OptionGroup for $group {
                fn table() -> Vec<OptionInfo> {
                    [$(field!($type $(, $row)?).table($heading, concat!($($help),+))),+].concat()
                }

                fn set(&mut self, key: &str, text: &OsStr) -> Option<Result<(), ValueError>> {
                    None$(.or_else(|| field!($type $(, $row)?).set(&mut self.$name, key, text)))+
                }

                fn record(&self) -> Vec<(&'static str, Value)> {
                    [$(field!($type $(, $row)?).record(&self.$name)),+].concat()
                }
            }
        )+

        /// All options of footage; options of several groups occur in each of them.
        #[must_use]
        pub fn all_options() -> Vec<OptionInfo> {
            [$($group::table()),+].concat()
        }
    };
}
pub(super) use option_groups;

/// A field of a group with its type: an option with a row, or a group.
macro_rules! field {
    ($type:ty) => {
        NestedGroup::<$type>::default()
    };
    ($type:ty, $row:expr) => {
        OptionRow::<$type>::of_type($row)
    };
}
pub(super) use field;
